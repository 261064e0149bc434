"""Confidence regions of coefficients, and envelopes of the solutions over them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from guardband.base.arrays import Array, ArrayLike, kind_of
from guardband.pinn.inverse.design import Design
from guardband.pinn.inverse.least_squares import informed, least_squares, noise_sd
from guardband.pinn.inverse.search import SearchGrid, search_grid, search_lines
from guardband.values import Band

GRIDS = 2
"""Regions of at most this number of coefficients are found on a grid."""


class Test(ABC):
    """A test of whether single values of the coefficients agree with the measurements."""

    method: ClassVar[str]
    asymptotic: ClassVar[bool]
    noise: ClassVar[str]
    """The assumption about the noise."""

    @abstractmethod
    def __call__(self, theta: np.ndarray) -> np.ndarray:
        """Return whether each of the values (k, p) is accepted, (k,)."""


@dataclass(frozen=True, eq=False, repr=False)
class ConfidenceRegion:
    """A joint confidence region: all values of the coefficients that a test accepts.

    `contains` evaluates the test itself. For one or two coefficients, everything else is derived from a grid
    that is refined at the border of the region; for more, intervals come from a heuristic search without
    coverage.

    Attributes
    ----------
    design
        The measurement points and the solved family.
    y
        The measured values as one vector.
    test
        The test, with its `method`, its assumption about the `noise`, and whether it is `asymptotic`.
    level
        The confidence level.
    delta
        The largest error of the solver at the measurements, as the length of a vector.
    estimate
        The least-squares estimate, shape (p,).

    Examples
    --------
    >>> import numpy as np
    >>> from guardband import pinn
    >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    >>> data = pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.05)
    >>> region = pinn.inverse.sign_perturbed(solved, data, level=0.95)
    >>> region.contains(diffusivity=0.1), region.contains(diffusivity=0.19)
    (True, False)
    >>> low, high = region.interval("diffusivity")
    >>> low < 0.1 < high, region.pieces, region.touches_edge
    (True, 1, ())
    """

    design: Design
    y: np.ndarray
    test: Test
    level: float
    delta: float
    estimate: np.ndarray

    def __repr__(self) -> str:
        kind = "asymptotic" if self.test.asymptotic else "finite-sample"
        return f"ConfidenceRegion({self.test.method}, {kind}, level={self.level:g}, {', '.join(self.names)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the coefficients."""
        return self.design.solved.names

    def contains(self, theta: ArrayLike | None = None, /, **coefficients: float) -> bool | np.ndarray:
        """Return whether the region contains given values, which is always False outside the ranges.

        Parameters
        ----------
        theta
            Values of the coefficients, shape (k, p).
        **coefficients
            One value of each coefficient, by name, instead of `theta`.

        Returns
        -------
        bool | np.ndarray
            One boolean for values by name; booleans of shape (k,) for rows.
        """
        if theta is None:
            if {*coefficients} != {*self.names}:
                wanted = ", ".join(f"{name}=..." for name in self.names)
                raise ValueError(f"A region is joint. Pass all coefficients, contains({wanted}).")
            return bool(self._accepts(np.array([[float(coefficients[name]) for name in self.names]]))[0])
        if coefficients:
            raise TypeError("Pass the coefficients by name or as rows of theta, not both.")
        return self._accepts(self.design.solved.values(theta))

    def _accepts(self, theta: np.ndarray) -> np.ndarray:
        within = np.asarray(((theta >= self.design.lower) & (theta <= self.design.upper)).all(axis=1))
        if within.any():
            within[within] = self.test(theta[within])
        return within

    @cached_property
    def grid(self) -> SearchGrid:
        """The region on a grid, for one or two coefficients."""
        if not self.drawn:
            raise ValueError(
                f"A region of {self.design.p} coefficients is not computed on a grid, which would be too "
                "large. Use region.contains(...), which is exact, or region.interval(...), which is a search."
            )
        return search_grid(self._accepts, self.design.lower, self.design.upper, self.estimate)

    def interval(self, name: str) -> tuple[float, float]:
        """Return the interval of one coefficient, a projection of the region.

        With one or two coefficients, it contains the true value with at least the confidence of the region.
        With three or four, it extends to the farthest values that a search found inside. The region may be
        larger, and the interval has no guarantee.

        Parameters
        ----------
        name
            The name of the coefficient.

        Returns
        -------
        tuple[float, float]
            The first values of the grid beyond the region; NaN for an empty region.
        """
        j = self.position(name)
        if self.drawn:
            return self.grid.ends(j)
        found = self.values[:, j]
        return (float(found.min()), float(found.max())) if len(found) else (float("nan"), float("nan"))

    def at_ends(self, name: str) -> tuple[bool, bool]:
        """Return whether the interval reaches the ends of the range.

        Parameters
        ----------
        name
            The name of the coefficient.

        Returns
        -------
        tuple[bool, bool]
            Whether it reaches the lower and the upper end.
        """
        j = self.position(name)
        if self.drawn:
            return self.grid.touches(j)
        (low, high), near = self.interval(name), 1e-6 * (self.design.upper - self.design.lower)[j]
        return bool(low <= self.design.lower[j] + near), bool(high >= self.design.upper[j] - near)

    def ends(self, name: str) -> tuple[str, str]:
        """Return the ends of the interval as text, with a note if they are ends of the range.

        Parameters
        ----------
        name
            The name of the coefficient.

        Returns
        -------
        tuple[str, str]
            The lower and the upper end.
        """
        low, high = (
            f"{end:.4g}{', the end of the range,' if reached else ''}"
            for end, reached in zip(self.interval(name), self.at_ends(name), strict=True)
        )
        return low, high.rstrip(",")

    @cached_property
    def values(self) -> np.ndarray:
        """Values (k, p) that represent the region, from the grid with a margin or from a search."""
        if self.drawn:
            return self.grid.values
        return search_lines(
            self._accepts, self.design.lower, self.design.upper, self.estimate, self._standard_errors()
        )

    def _standard_errors(self) -> np.ndarray:
        """A step of one standard error for each coefficient, with the others refitted, (p, p)."""
        wide = self.design.upper - self.design.lower
        slopes = self.design.slopes(self.estimate[None])[0]
        gram = slopes.T @ slopes
        known = np.linalg.inv(gram + 1e-9 * np.trace(gram).clip(min=1e-300) * np.eye(self.design.p))
        spread = noise_sd(self.design, self.y, self.estimate) * known / np.sqrt(np.diag(known))[:, None]
        return np.clip(spread, -1.0, 1.0) * wide

    def position(self, name: str) -> int:
        """Return the index of a coefficient.

        Parameters
        ----------
        name
            The name of the coefficient.

        Returns
        -------
        int
            Its index.
        """
        if name not in self.names:
            raise ValueError(f"Unknown coefficient {name!r}; the coefficients are {', '.join(self.names)}.")
        return self.names.index(name)

    @property
    def drawn(self) -> bool:
        """Whether the region is computed on a grid, that is, has at most two coefficients."""
        return self.design.p <= GRIDS

    @property
    def nothing_found(self) -> bool:
        """Whether neither the grid nor the search found a value that agrees with the measurements."""
        return self.empty if self.drawn else not len(self.values)

    @property
    def touches_edge(self) -> tuple[str, ...]:
        """The coefficients whose region contains an end of the range, so that the truth may lie beyond."""
        return tuple(name for j, name in enumerate(self.names) if any(self.grid.touches(j)))

    @property
    def pieces(self) -> int:
        """The number of connected pieces."""
        return self.grid.pieces

    @property
    def empty(self) -> bool:
        """Whether no value agrees with the measurements."""
        return self.grid.empty

    @property
    def share(self) -> float:
        """The share of the box of ranges that lies in the region."""
        return self.grid.share

    @cached_property
    def informed(self) -> Mapping[str, bool]:
        """Whether the measurements determine each coefficient, by name.

        A coefficient is not determined if moving it across its range, with the others refitted, changes the
        measurements by less than Delta plus two standard errors of the noise. It is also not determined if
        this holds according to the derivatives at the estimate, as for two factors of which only the product
        matters.
        """
        return informed(self.design, self.y, self.estimate, self.delta)


def region_of(
    design: Design, y: np.ndarray, test: Test, level: float, delta: float = 0.0
) -> ConfidenceRegion:
    """The region of a test, with the least-squares estimate as the starting point of searches."""
    return ConfidenceRegion(design, y, test, level, delta, least_squares(design, y)[0])


@dataclass(frozen=True, eq=False, repr=False)
class Envelope:
    """The smallest and the largest solution at each point over a confidence region of coefficients.

    An envelope covers the solution at all points simultaneously, whereas a conformal band covers one new
    measurement at a time.

    Attributes
    ----------
    band
        The envelope as a band, for example for `gb.plot.band(envelope.band)`.
    promise
        The guarantee in words.

    Examples
    --------
    >>> from guardband import pinn
    >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    >>> data = pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.05)
    >>> envelope = pinn.coefficients(solved, data).envelope([[0.5, 0.2], [0.5, 1.0]])
    >>> truth = pinn.problems.Heat1D(diffusivity=0.1).solution(
    ...     data.x.new_tensor([[0.5, 0.2], [0.5, 1.0]])
    ... )
    >>> bool(
    ...     (envelope.lower < truth.numpy()).all()
    ...     and (truth.numpy() < envelope.upper).all()
    ... )
    True
    """

    band: Band
    promise: str

    @property
    def lower(self) -> Array:
        """The smallest solution at each point, shape (n, m)."""
        return self.band.lower

    @property
    def upper(self) -> Array:
        """The largest solution at each point, shape (n, m)."""
        return self.band.upper

    def __repr__(self) -> str:
        return f"Envelope({len(self.band)} points). {self.promise}"


def envelope_of(region: ConfidenceRegion, x: ArrayLike) -> Envelope:
    """The envelope of the solutions for all coefficients in a region, at points x (n, d)."""
    solved = region.design.solved
    x, inside = solved.points(x), region.values
    if not len(inside):
        raise ValueError("No value in the range agrees with the readings, so there is no envelope.")
    found = solved.solver(solved.family, x, np.concatenate([region.estimate[None], inside]))
    ends = kind_of(x, found[0]), kind_of(x, found.min(axis=0)), kind_of(x, found.max(axis=0))
    return Envelope(Band(x, *ends, region.level, solved.family.names), _guarantee(region))


def _guarantee(region: ConfidenceRegion) -> str:
    level = f"{100 * region.level:.6g} %"
    if not region.drawn:
        return (
            "There is no guaranteed coverage, since the values in the region come from a search that may "
            "have missed some."
        )
    kind = " (asymptotic)" if region.test.asymptotic else ""
    return (
        f"With a confidence of {level}{kind} the solution for the true coefficients lies inside at all "
        "points simultaneously, up to the error of the solver, if the equation and the other assumptions of "
        "the region are right. It does not predict new measurements, which have noise."
    )
