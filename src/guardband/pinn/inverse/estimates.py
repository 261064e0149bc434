"""Estimates: the coefficients by least squares, the region around them, and all that is assumed, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from guardband.base.arrays import ArrayLike
from guardband.conformal.rank import Level
from guardband.pinn.inverse.checking import has_solution
from guardband.pinn.inverse.doubt import Doubt, doubt
from guardband.pinn.inverse.envelope import Envelope, envelope_of
from guardband.pinn.inverse.methods import permuted, profile, sign_perturbed
from guardband.pinn.inverse.misfit import correlation, misfit
from guardband.pinn.inverse.region import ConfidenceRegion
from guardband.pinn.inverse.solved import SolvedFamily
from guardband.values import Observations

if TYPE_CHECKING:
    from guardband.reports.page import Section

Noise: TypeAlias = Literal["symmetric", "exchangeable", "gaussian"]


@dataclass(frozen=True, eq=False, repr=False)
class Estimates:
    """Coefficients from readings: values, a joint region, and what both rest on. Print it to read it.

    >>> from guardband import pinn
    >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    >>> data = pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.05)
    >>> estimates = pinn.coefficients(solved, data)
    >>> (
    ...     round(estimates.values["diffusivity"], 2),
    ...     estimates.region.contains(diffusivity=0.1),
    ... )
    (0.1, True)
    """

    region: ConfidenceRegion
    doubt: Doubt
    seed: int

    @property
    def values(self) -> Mapping[str, float]:
        """The least-squares estimate of each coefficient."""
        return dict(zip(self.region.names, self.region.estimate.tolist(), strict=True))

    @property
    def residuals(self) -> np.ndarray:
        """What was read less the solution for the least-squares estimate, (n, m)."""
        design = self.region.design
        return (self.region.y - design.values(self.region.estimate[None])[0]).reshape(design.n, design.m)

    @property
    def correlation(self) -> np.ndarray:
        """How the estimates of the coefficients hang together, (p, p), by the slopes at the estimate."""
        return correlation(self.region.design, self.region.estimate)

    def envelope(self, x: ArrayLike) -> Envelope:
        """Between which values the solution lies at points x (n, d), for all coefficients in the region."""
        return envelope_of(self.region, x)

    def misfit(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Values of a coefficient around its interval, and the root mean square of the residuals at each.

        The other coefficients are refitted. Flat is what readings do not tell; two valleys are two answers.
        """
        region, j = self.region, self.region.position(name)
        low, high = region.design.lower[j], region.design.upper[j]
        if region.drawn and not region.empty:
            first, last = region.interval(name)
            low, high = max(low, 2 * first - last), min(high, 2 * last - first)
        return misfit(region.design, region.y, region.estimate, j, float(low), float(high))

    @property
    def report_title(self) -> str:
        """The title of a report."""
        from guardband.pinn.inverse.report import title

        return title(self)

    def report_sections(self, facts: dict[str, str] | None = None) -> list[Section]:
        """What `gb.report` writes about them; `facts` are further lines of the last section."""
        from guardband.pinn.inverse.report import sections

        return sections(self, facts or {})

    def __repr__(self) -> str:
        return "\n".join([*self._found(), *self._warnings(), self.assumed])

    def _found(self) -> list[str]:
        region, joint = self.region, len(self.region.names) > 1
        level = f"{100 * region.level:.6g} %"
        lines = []
        for name, value in self.values.items():
            line = f"{name} = {value:.4g} by least squares"
            if len(region.values):
                low, high = region.ends(name)
                line += f"; between {low} and {high}"
                line += "" if region.drawn else ", as far as a search found"
            lines.append(f"{line}.")
        if not region.drawn and not len(region.values):
            return [*lines, f"A search found no value in the range that agrees with readings at {level}."]
        if not region.drawn:
            return [
                *lines,
                "These ends promise nothing: the region may reach farther than a search found. The "
                f"{level} region is joint, and is asked value by value: region.contains(...).",
            ]
        if region.empty:
            return [*lines, self.doubted]
        least = ", each at least as sure," if joint else ""
        said = f"These are the ends{least} of a region that holds {'all of them' if joint else 'it'}"
        pieces = f" It has {region.pieces} pieces." if region.pieces > 1 else ""
        kind = "as readings become many (asymptotic)" if region.test.asymptotic else "in finite samples"
        return [*lines, f"{said} with a confidence of {level}, {kind}, by {region.test.method}.{pieces}"]

    @property
    def doubted(self) -> str:
        """What readings say about the equation itself, in one voice: the region and the test of residuals."""
        if not (self.region.drawn and self.region.empty):
            return repr(self.doubt)
        p_value = f"{self.doubt.p_value:.2g}"
        order = f"The order of the residuals along the axes alone does not show it (p = {p_value})."
        return (
            f"No value in the range agrees with the readings at {100 * self.region.level:.6g} %: the range, "
            "the equation, a condition or the assumption about the noise is wrong. "
            f"{self.doubt if self.doubt.alarm else order}"
        )

    def _warnings(self) -> list[str]:
        """What readings cannot say, and what speaks against the assumptions."""
        region, lines = self.region, []
        unseen = [name for name, seen in region.informed.items() if not seen]
        if len(unseen) == 1:
            lines.append(
                f"NOT INFORMED: {unseen[0]} could be anything in its range; the readings would hardly change."
            )
        elif unseen:
            lines.append(
                f"NOT INFORMED: {' and '.join(unseen)} cannot be told apart, or are not seen: each could "
                "move across its range, the others following, and readings would hardly change."
            )
        if region.drawn:
            for name in region.touches_edge:
                lines.append(f"The region reaches an end of the range of {name}: the truth may lie outside.")
        told = region.touches_edge if region.drawn and not region.empty else ()
        at_end = [name for name in self._at_an_end() if name not in told]
        lines += [
            f"The estimate of {name} is an end of its range: the truth may lie outside." for name in at_end
        ]
        said = self.doubt.alarm and not (region.drawn and region.empty)
        return [*lines, repr(self.doubt)] if said else lines

    def _at_an_end(self) -> list[str]:
        design, estimate = self.region.design, self.region.estimate
        near = 1e-6 * (design.upper - design.lower)
        ends = (estimate <= design.lower + near) | (estimate >= design.upper - near)
        return [name for name, end in zip(self.region.names, ends, strict=True) if end]

    @property
    def assumed(self) -> str:
        """All that values and region rest on, in a sentence."""
        region = self.region
        ranges = region.design.solved.ranges.items()
        within = ", ".join(f"{name} from {low:g} to {high:g}" for name, (low, high) in ranges)
        kind = region.design.solved.family.problem
        equation = "the equation" if kind is None else f"the equation of {type(kind).__name__}"
        assumed = [
            f"the truth lies in the range ({within})",
            f"{equation} and its conditions are right",
            region.test.noise,
        ]
        if region.test.asymptotic:
            assumed.append("the solver is exact")
        else:
            assumed += [
                f"the solver is off by at most Delta = {region.delta:.3g} at the readings (as a length)",
                f"the seed {self.seed} was chosen before the readings were seen",
            ]
        return f"All this if {'; '.join(assumed)}."


def coefficients(
    solved: SolvedFamily,
    data: Observations,
    *,
    noise: Noise = "symmetric",
    level: Level = 0.95,
    delta: float | None = None,
    seed: int = 0,
) -> Estimates:
    """Coefficients of an equation from readings of its solution, with a joint region around them.

    `noise` is what you know of it: "symmetric" about zero and independent, as large or small as it likes
    (signs); "exchangeable", alike everywhere, with any mean (permutations); "gaussian", of one size (the
    likelihood ratio, which is asymptotic). The method follows from this alone, never from the readings.

    `delta` is how far the solver may be off at the readings, which the region is widened by. Without it a
    solver of yours is taken as exact, and a network is held against the problem's own `solution`; where it
    has none, ask `solved.check(data.x)`, which trains, or takes a solver. The `seed` of signs and
    permutations has to be chosen before the readings are seen. With several outputs, give them in units in
    which their noise is about alike.

    >>> from guardband import pinn
    >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    >>> data = pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.05)
    >>> region = pinn.coefficients(solved, data, noise="exchangeable").region
    >>> low, high = region.interval("diffusivity")
    >>> low < 0.1 < high
    True
    """
    if not isinstance(solved, SolvedFamily):
        raise TypeError(
            f"`solved` should be a solved family, pinn.Family(...).fit(), got {type(solved).__name__}."
        )
    if isinstance(data, Observations):
        data = data.on_axes(solved.family.names.axes)
    if noise == "gaussian":
        found = doubt(solved, data, delta=0.0 if delta is None else delta)
        return Estimates(profile(solved, data, level=level), found, seed)
    if noise not in ("symmetric", "exchangeable"):
        raise ValueError(f'`noise` should be "symmetric", "exchangeable" or "gaussian", got {noise!r:.80}.')
    method = sign_perturbed if noise == "symmetric" else permuted
    off = _delta(solved, data) if delta is None else float(delta)
    region = method(solved, data, level=level, delta=off, seed=seed)
    return Estimates(region, doubt(solved, data, delta=off), seed)


def _delta(solved: SolvedFamily, data: Observations) -> float:
    """How far a solver may be off where nobody says it."""
    if solved.solver.certain:
        return 0.0
    if not has_solution(solved.family.problem, np.asarray(data.x)):
        raise ValueError(
            "How far is the network off? The problem has no `solution` to hold it against. Ask "
            "delta = solved.check(data.x, solver), with a solver of yours or by trainings that take minutes, "
            "and give it: pinn.coefficients(solved, data, delta=delta)."
        )
    return solved.check(data.x)
