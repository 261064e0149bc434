"""Experimental design: the measurements that most reduce the uncertainty of the coefficients or the field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from guardband.base.arrays import Array, ArrayLike, finite, kind_of, rows, to_numpy, to_torch
from guardband.pinn.inverse.design import Design, on_axes, readings
from guardband.pinn.inverse.family import SolvedFamily
from guardband.pinn.inverse.laplace import Curvature
from guardband.pinn.inverse.least_squares import least_squares
from guardband.pinn.training.fitted import Fitted
from guardband.values import Observations
from guardband.values.labeled import placed

if TYPE_CHECKING:
    from guardband.reports.page import Section

PRIOR = 1e-6
"""The relative weight of the prior information that a coefficient lies in its range."""

CAUTION = (
    "Points that were chosen after readings were seen depend on the data. A region from all readings then "
    "has no exact level, and a band calibrated on them lacks exchangeable points."
)


@dataclass(frozen=True, eq=False, repr=False)
class NextPoints:
    """Points for further measurements, in order of decreasing benefit.

    Attributes
    ----------
    x
        The points, shape (n, d).
    numbers
        The indices of the points among the candidates.
    cost
        The total cost of the points.
    axes
        The names of the coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> from guardband import pinn
    >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    >>> # at the start nothing depends on the diffusivity
    >>> x = np.array([[0.5, 0.0], [0.5, 1.0]])
    >>> pinn.next_points(solved, x, 1).numbers
    (1,)
    """

    x: Array
    numbers: tuple[int, ...]
    cost: float
    axes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"NextPoints({len(self.numbers)} points, cost {self.cost:g}). {CAUTION}"

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def places(self) -> list[list[str]]:
        """The coordinates of the points as text, one row per point."""
        return [[f"{value:.4g}" for value in row] for row in to_numpy(self.x).astype(float).tolist()]

    def report_sections(self) -> list[Section]:
        """Return the section of a report that lists the points, the most informative first.

        Returns
        -------
        list[Section]
            One section.
        """
        from guardband.reports.page import Section

        rows = [["", *self.axes], *([str(k), *place] for k, place in enumerate(self.places, 1))]
        text = (
            "Each of these points maximizes the information about the coefficients, given the points before "
            "it."
        )
        return [Section("Where to measure next", [text, CAUTION], rows)]


def next_points(
    solved: SolvedFamily | Fitted,
    candidates: ArrayLike,
    n: int,
    *,
    goal: Literal["coefficients", "field"] = "coefficients",
    data: Observations | None = None,
    theta: Sequence[float] | None = None,
    costs: ArrayLike | None = None,
) -> NextPoints:
    """Choose the most informative candidates for further measurements, one at a time.

    Parameters
    ----------
    solved
        A solved family, or the result of `pinn.fit`.
    candidates
        Possible points, shape (k, d); each is chosen at most once.
    n
        The number of points to choose.
    goal
        "coefficients" maximizes the determinant of the information J^T J about the coefficients (D-optimal);
        "field" minimizes the mean variance of the solution over all candidates (A-optimal).
    data
        Previous measurements, which count as known.
    theta
        The coefficients at which J is evaluated. The default is the least-squares estimate from `data` or,
        without `data`, an average over the ranges.
    costs
        The cost of each candidate, shape (k,), by which the gain is divided.

    Returns
    -------
    NextPoints
        The chosen points, in order.

    Notes
    -----
    For the result of `pinn.fit`, the curvature of its measurements, equation and conditions defines the
    uncertainty; `data` and `theta` must be omitted.

    Examples
    --------
    >>> import numpy as np
    >>> from guardband import pinn
    >>> ranges = {"damping": (0.02, 0.12), "frequency": (5.5, 7.0)}
    >>> solved = pinn.Family(pinn.problems.DampedOscillator, **ranges).exact()
    >>> late = pinn.next_points(solved, np.linspace(0, 5, 101)[:, None], 4)
    >>> len(late), bool((late.x > 1).all())
    (4, True)
    """
    if isinstance(solved, Fitted):
        if data is not None or theta is not None:
            raise ValueError(
                "The result of `pinn.fit` contains its readings and coefficients. Omit `data` and `theta`."
            )
        axes = solved.problem.names.axes
        x = _checked(_points(axes, candidates), n, goal)
        price = _prices(costs, len(x))
        return _chosen(x, _by_curvature(solved, x, int(n), goal, price), price, axes)
    x = _checked(solved.points(candidates), n, goal)
    price = _prices(costs, len(x))
    return _chosen(
        x, _by_design(solved, x, int(n), goal, data, theta, price), price, solved.family.names.axes
    )


def _checked(x: Array, n: int, goal: str) -> Array:
    """Finite candidates; refuse a wrong number or goal."""
    x = finite(x, "candidates")
    if not 1 <= int(n) <= len(x):
        raise ValueError(f"`n` should be a number of candidates, 1 to {len(x)}, got {n!r:.80}.")
    if goal not in ("coefficients", "field"):
        raise ValueError(f'`goal` should be "coefficients" or "field", got {goal!r:.80}.')
    return x


def _by_design(
    solved: SolvedFamily,
    x: Array,
    n: int,
    goal: str,
    data: Observations | None,
    theta: Sequence[float] | None,
    price: np.ndarray,
) -> list[int]:
    """The n best of the candidates x (k, d) for a solved family, by the derivatives of its solution."""
    data = None if data is None else on_axes(solved, data)
    outputs = None if data is None else data.outputs
    design = Design.at(solved, x, outputs)
    at = _evaluation_points(solved, data, theta)
    slopes = design.slopes(at).reshape(len(at), design.n, design.m, design.p)
    known = np.tile(PRIOR * np.eye(design.p), (len(at), 1, 1))
    if data is not None:
        before = Design.at(solved, data.x, outputs).slopes(at)
        known = known + np.swapaxes(before, 1, 2) @ before
    scale = np.square(slopes).sum(axis=2).max()
    known[:, range(design.p), range(design.p)] += PRIOR * scale
    return _greedy(slopes, known, n, goal, price)


def _points(axes: Sequence[str], candidates: ArrayLike) -> Array:
    """Candidates as (k, d)."""
    x, d = rows(placed(candidates, axes), "candidates"), len(axes)
    if x.ndim != 2 or x.shape[1] != d:
        raise ValueError(f"`candidates` should have shape (k, {d}), one row per point, got {tuple(x.shape)}.")
    return x


def _chosen(x: Array, chosen: list[int], price: np.ndarray, axes: Sequence[str]) -> NextPoints:
    at = kind_of(x, to_numpy(x)[chosen])
    return NextPoints(at, tuple(chosen), float(price[chosen].sum()), tuple(axes))


def _greedy(slopes: np.ndarray, known: np.ndarray, n: int, goal: str, price: np.ndarray) -> list[int]:
    """Greedy choice, given slopes (t, k, m, p) and information (t, p, p) at t values."""
    left, chosen = np.ones(len(price), dtype=bool), list[int]()
    each = np.swapaxes(slopes, 2, 3) @ slopes  # (t, k, p, p)
    whole = each.mean(axis=1)
    for _ in range(n):
        with_it = known[:, None] + each
        if goal == "coefficients":
            now = np.linalg.slogdet(known)[1][:, None]
            gain = (np.linalg.slogdet(with_it)[1] - now).mean(axis=0)
        else:
            now = np.trace(np.linalg.solve(known, whole), axis1=1, axis2=2)[:, None]
            after = np.trace(np.linalg.solve(with_it, whole[:, None]), axis1=2, axis2=3)
            gain = ((now - after) / now.clip(min=1e-300)).mean(axis=0)
        best = int(np.where(left, gain / price, -np.inf).argmax())
        known, left[best] = known + each[:, best], False
        chosen.append(best)
    return chosen


def _evaluation_points(
    solved: SolvedFamily, data: Observations | None, theta: Sequence[float] | None
) -> np.ndarray:
    """The coefficients at which derivatives are taken, (t, p)."""
    if theta is not None:
        return solved.values(np.asarray(theta, dtype=float).reshape(1, -1))
    if data is None:
        return solved.family.drawn(32)
    return least_squares(*readings(solved, data))[0][None]


def _prices(costs: ArrayLike | None, k: int) -> np.ndarray:
    if costs is None:
        return np.ones(k)
    found = to_numpy(rows(costs, "costs")).astype(float)[:, 0]
    if found.shape != (k,) or not (np.isfinite(found) & (found > 0)).all():
        raise ValueError(f"`costs` should be {k} positive numbers, one for each candidate.")
    return found


def _by_curvature(fitted: Fitted, x: Array, n: int, goal: str, price: np.ndarray) -> list[int]:
    """The n best of the candidates x (k, d) for a fit, by its curvature."""
    if goal == "coefficients" and not fitted.estimates:
        raise ValueError(
            'This fit has no unknown coefficients. Use goal="field", or replace a number '
            "of the problem with pinn.Unknown(low, high) and train again."
        )
    curvature = Curvature(fitted)
    readings = curvature.slopes(to_torch(x)).reshape(len(x), len(curvature.noise), -1)[:, curvature.measured]
    targets = curvature.of_unknowns() if goal == "coefficients" else readings.flatten(0, 1)
    known = _Covariances(curvature, targets, readings)
    prices = torch.as_tensor(price)
    left, chosen = torch.ones(len(x), dtype=torch.bool), list[int]()
    for _ in range(n):
        gain = known.entropy_reduction() if goal == "coefficients" else known.variance_reduction()
        best = int((gain / prices).masked_fill(~left, -torch.inf).argmax())
        known.condition_on(best)
        left[best] = False
        chosen.append(best)
    return chosen


class _Covariances:
    """Covariances of t targets and of measurements of m outputs at k points.

    Each measurement updates the covariances as for Gaussian variables.
    """

    def __init__(self, curvature: Curvature, targets: Tensor, readings: Tensor) -> None:
        self.k, self.m = readings.shape[:2]
        flat = readings.flatten(0, 1)
        self.noise = torch.diag(curvature.noise[curvature.measured].square())
        self.targets = curvature.covariance(targets, targets)
        self.across = curvature.covariance(targets, flat)
        self.readings = curvature.covariance(flat, flat)

    def variance_reduction(self) -> Tensor:
        """The decrease of the sum of the targets' variances by each candidate, (k,)."""
        return self._whitened().square().sum(dim=(1, 2))

    def entropy_reduction(self) -> Tensor:
        """The decrease of the log determinant of the targets' covariance by each candidate, (k,)."""
        root = torch.linalg.cholesky(self.targets)
        scaled = torch.linalg.solve_triangular(root, self._whitened(), upper=False)
        left = torch.eye(len(root), dtype=root.dtype) - scaled @ scaled.mT
        return -torch.linalg.slogdet(left)[1]

    def condition_on(self, i: int) -> None:
        """Condition on a measurement at candidate i."""
        at = slice(i * self.m, (i + 1) * self.m)
        root = torch.linalg.cholesky(self.readings[at, at] + self.noise)
        mine, others = self.across[:, at].clone(), self.readings[:, at].clone()
        mine, others = (torch.linalg.solve_triangular(root, part.T, upper=False).T for part in (mine, others))
        self.targets = self.targets - mine @ mine.T
        self.across = self.across - mine @ others.T
        self.readings = self.readings - others @ others.T

    def _whitened(self) -> Tensor:
        """The covariance of each candidate with each target, whitened by its own variance, (k, t, m)."""
        blocks = self.readings.reshape(self.k, self.m, self.k, self.m)
        own = blocks[range(self.k), :, range(self.k)] + self.noise
        across = self.across.reshape(-1, self.k, self.m).permute(1, 2, 0)
        return torch.linalg.solve_triangular(torch.linalg.cholesky(own), across, upper=False).mT
