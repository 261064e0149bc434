"""Boxes: where a problem lives, and how points are placed in it and on its faces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Face:
    """One end of one axis: `side` is -1 for the lower end, +1 for the upper (the outward normal).

    >>> import guardband as gb
    >>> gb.problems.Box(0, 1).faces()
    [Face(axis=0, side=-1), Face(axis=0, side=1)]
    >>> inflow = gb.problems.Dirichlet(1.0, on=gb.problems.Face(axis=0, side=-1))
    """

    axis: int
    side: int


@dataclass(frozen=True)
class Box:
    """All points between `lower` and `upper`, one number per axis; a number alone is an interval's end.

    >>> import guardband as gb
    >>> gb.problems.Box((-1, -1), (1, 1)).grid(3).shape
    torch.Size([9, 2])
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            ends = np.atleast_1d(np.asarray(getattr(self, name), dtype=float))
            object.__setattr__(self, name, tuple(ends.tolist()))
        if len(self.lower) != len(self.upper) or not all(
            a < b for a, b in zip(self.lower, self.upper, strict=True)
        ):
            raise ValueError(
                f"`lower` should lie below `upper` on every axis, got {self.lower} and {self.upper}."
            )

    @property
    def d(self) -> int:
        """The number of axes."""
        return len(self.lower)

    @property
    def center(self) -> tuple[float, ...]:
        """The middle of each axis."""
        return tuple((a + b) / 2 for a, b in zip(self.lower, self.upper, strict=True))

    @property
    def reach(self) -> tuple[float, ...]:
        """Half the length of each axis."""
        return tuple((b - a) / 2 for a, b in zip(self.lower, self.upper, strict=True))

    def grid(self, counts: int | Sequence[int], *, dtype: torch.dtype | None = None) -> Tensor:
        """An even grid, ends included, with so many points per axis; the last axis runs fastest."""
        counts = [counts] * self.d if isinstance(counts, int) else list(counts)
        axes = [
            torch.linspace(a, b, n, dtype=torch.float64)
            for a, b, n in zip(self.lower, self.upper, counts, strict=True)
        ]
        return torch.cartesian_prod(*axes).reshape(-1, self.d).to(dtype or torch.get_default_dtype())

    def uniform(self, n: int, generator: torch.Generator, *, dtype: torch.dtype | None = None) -> Tensor:
        """n independent points, uniform in the box."""
        return self._stretch(torch.rand(n, self.d, generator=generator, dtype=dtype))

    def quasi(self, n: int, *, seed: int = 0, dtype: torch.dtype | None = None) -> Tensor:
        """n points that fill the box more evenly than chance: a scrambled Sobol sequence."""
        from scipy.stats.qmc import Sobol

        points = Sobol(self.d, rng=np.random.default_rng(seed)).random_base2(math.ceil(math.log2(max(n, 1))))[
            :n
        ]
        return self._stretch(torch.from_numpy(points)).to(dtype or torch.get_default_dtype())

    def faces(self) -> list[Face]:
        """The 2 d faces: the lower and the upper end of each axis."""
        return [Face(axis, side) for axis in range(self.d) for side in (-1, 1)]

    def size(self, face: Face) -> float:
        """The area of a face: a length in two dimensions, 1 (a point) in one."""
        return math.prod(2 * half for axis, half in enumerate(self.reach) if axis != face.axis)

    def on_face(self, face: Face, n: int, generator: torch.Generator | None = None) -> Tensor:
        """About n points on a face: an even grid, or uniform at random if a generator is given."""
        if self.d == 1:
            n = 1
        if generator is None:
            per_axis = round(n ** (1 / max(1, self.d - 1)))
            points = self.grid([1 if axis == face.axis else per_axis for axis in range(self.d)])
        else:
            points = self.uniform(n, generator)
        points[:, face.axis] = (self.lower if face.side < 0 else self.upper)[face.axis]
        return points

    def _stretch(self, unit: Tensor) -> Tensor:
        lower, upper = (torch.tensor(ends, dtype=unit.dtype) for ends in (self.lower, self.upper))
        return lower + unit * (upper - lower)
