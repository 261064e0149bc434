"""Point clouds: user-supplied points, with normals on the boundary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from guardband.base.arrays import ArrayLike, rows, to_torch
from guardband.base.computed import computed
from guardband.pinn.geometry.arguments import as_generator, count, of_any_points
from guardband.pinn.geometry.boundary import Boundary, How, Piece
from guardband.pinn.geometry.domain import Domain, TimeSpan


@dataclass(frozen=True, init=False, eq=False, repr=False)
class PointCloud(Domain):
    """A point cloud: interior points, and points with outward normals for each part of the boundary.

    Points are only drawn from the cloud, and the shape between them is unknown, so `contains`, hard
    constraints and products with time raise an error.

    Parameters
    ----------
    inside
        The interior points, shape (n, d).
    boundary
        The points and outward normals of each part of the boundary, each of shape (k, d), by name.
    measure
        The length, area or volume of the shape, if it is known.
    names
        The names of the axes; x, y, z by default.

    Examples
    --------
    >>> import numpy as np
    >>> from guardband import pinn
    >>> angle = np.linspace(0, 6, 50)
    >>> rim = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    >>> cloud = pinn.geometry.PointCloud(0.5 * rim, {"rim": (rim, rim)})
    >>> len(cloud.interior(20)), cloud.parts
    (20, ('rim',))
    """

    inside: Tensor
    rims: tuple[tuple[str, Tensor, Tensor], ...]
    total: float | None

    def __init__(
        self,
        inside: ArrayLike,
        boundary: Mapping[str, tuple[ArrayLike, ArrayLike]],
        *,
        measure: float | None = None,
        names: Sequence[str] = (),
    ) -> None:
        put = object.__setattr__
        put(self, "inside", _points(inside, "inside"))
        put(self, "total", measure)
        put(self, "_names", tuple(names))
        rims = []
        for name, (at, outward) in boundary.items():
            points, normals = _points(at, name), _points(outward, name)
            if points.shape != normals.shape or points.shape[1] != self.inside.shape[1]:
                raise ValueError(
                    f"Part {name!r} should have one normal per point, with the same axes as the interior "
                    "points, got shapes "
                    f"{tuple(points.shape)} and {tuple(normals.shape)}."
                )
            if bool((normals.norm(dim=1) == 0).any()):
                raise ValueError(
                    f"Part {name!r} has a normal of length 0. Normals should be nonzero vectors."
                )
            rims.append((name, points, normals / normals.norm(dim=1, keepdim=True)))
        put(self, "rims", tuple(rims))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return self.__dict__["_names"] or super().names

    @computed
    def lower(self) -> tuple[float, ...]:
        """The lower end of each axis."""
        return tuple(self._all.min(0).values.tolist())

    @computed
    def upper(self) -> tuple[float, ...]:
        """The upper end of each axis."""
        return tuple(self._all.max(0).values.tolist())

    @property
    def _all(self) -> Tensor:
        return torch.cat([self.inside, *(points for _, points, _ in self.rims)])

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts of the boundary."""
        return tuple(name for name, *_ in self.rims)

    @property
    def measure(self) -> float:
        """The given measure."""
        if self.total is None:
            raise ValueError(
                "The measure of a point cloud is unknown: pass it as PointCloud(..., measure=...)."
            )
        return self.total

    def contains(self, x: Tensor) -> Tensor:
        """Raise an error, since the shape between the points is unknown."""
        raise TypeError("The shape of a point cloud between its points is unknown. Use a Mesh or a Polygon.")

    @of_any_points
    def clearly_outside(self, x: Any) -> Any:
        """Return False for all points, since the shape between them is unknown."""
        return torch.zeros(len(x), dtype=torch.bool)

    def outline(self, n: int) -> dict[str, list[np.ndarray]]:
        """Return up to n points of each part of the boundary, each as a separate line."""
        return {part: list(self.boundary(n, on=part).points.numpy()[:, None]) for part in self.parts}

    def pieces(self) -> list[Piece]:
        """Raise an error, since the surface between the points is unknown."""
        raise TypeError("A point cloud has points but no surface. Use a Mesh or a Polygon.")

    def __repr__(self) -> str:
        rims = ", ".join(f"{name} ({len(points)})" for name, points, _ in self.rims)
        return f"PointCloud({len(self.inside)} points inside, {rims or 'no boundary'})"

    def __mul__(self, time: object) -> TimeSpan:
        """Raise an error, since the surface between the points is unknown."""
        raise TypeError(
            "A point cloud cannot be multiplied by time, since it has no surface between its points to "
            "extend over time. Use a Mesh or a Polygon."
        )

    def interior(self, n: int, how: How = "random", *, seed: int = 0) -> Tensor:
        """Return n of the interior points without repetition, or all of them if there are fewer."""
        return self.inside[_some(len(self.inside), count(n), how, seed)]

    def uniform(
        self,
        n: int,
        generator: torch.Generator | int | None = None,
        *,
        seed: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Draw n of the interior points, with replacement."""
        n, generator = count(n), as_generator(generator, seed)
        chosen = torch.randint(len(self.inside), (n,), generator=generator)
        return self.inside[chosen].to(dtype or torch.get_default_dtype())

    def boundary(
        self, n: int, on: str | Sequence[str] | None = None, how: How = "random", *, seed: int = 0
    ) -> Boundary:
        """Return about n of the boundary points, allocated in proportion to the parts; sizes are NaN."""
        wanted = self.part_names(on)
        rims = [rim for rim in self.rims if rim[0] in wanted]
        n, total = count(n), sum(len(points) for _, points, _ in rims)
        found = []
        for number, (name, points, normals) in enumerate(rims):
            chosen = _some(len(points), max(1, round(n * len(points) / total)), how, seed + number)
            found.append((name, points[chosen], normals[chosen]))
        points, normals = (torch.cat([part[i] for part in found]) for i in (1, 2))
        parts = tuple(name for name, points, _ in found for _ in range(len(points)))
        return Boundary(points, normals, torch.full((len(points),), torch.nan, dtype=torch.float64), parts)


def _points(given: ArrayLike, name: str) -> Tensor:
    found = to_torch(rows(given, name)).double()
    if found.ndim != 2 or not len(found) or not bool(torch.isfinite(found).all()):
        raise ValueError(f"`{name}` should be finite points of shape (n, d), got shape {tuple(found.shape)}.")
    return found


def _some(there: int, n: int, how: How, seed: int) -> Tensor:
    if n >= there:
        return torch.arange(there)
    if how == "even":
        return torch.linspace(0, there - 1, n).round().long()
    return torch.randperm(there, generator=torch.Generator().manual_seed(seed))[:n]
