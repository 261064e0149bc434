"""Estimates of coefficients: least squares, confidence region and assumptions, with plots and a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from guardband.base.arrays import ArrayLike, to_numpy
from guardband.conformal.rank import Level
from guardband.pinn.inverse.design import on_axes
from guardband.pinn.inverse.doubt import Doubt, doubt
from guardband.pinn.inverse.family import SolvedFamily, has_solution
from guardband.pinn.inverse.least_squares import correlation, misfit_along
from guardband.pinn.inverse.methods import permuted, profile, sign_perturbed
from guardband.pinn.inverse.region import ConfidenceRegion, Envelope, envelope_of
from guardband.plot.curves import DOT
from guardband.plot.style import BLUE, COLORS, GRAY, ORANGE, axes, legend, percent
from guardband.reports.page import Section, origin, png
from guardband.values import Observations
from guardband.values.names import axis_words, word

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Noise: TypeAlias = Literal["symmetric", "exchangeable", "gaussian"]

INSIDE: dict[str, Any] = {"color": BLUE, "alpha": 0.25, "lw": 0}
"""The style of the inside of a region."""

WEAK = 0.1
"""Coefficients whose correlation is below this value count as separable."""


@dataclass(frozen=True, eq=False, repr=False)
class Estimates:
    """Coefficients estimated from measurements, with a joint confidence region and its assumptions.

    Printing the object shows the estimates, their intervals, warnings, and all assumptions in words.

    Attributes
    ----------
    region
        The confidence region.
    doubt
        The test of the equation.
    seed
        The seed of the signs or permutations.

    Examples
    --------
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
        """The measured values minus the solution for the least-squares estimate, shape (n, m)."""
        design = self.region.design
        return (self.region.y - design.values(self.region.estimate[None])[0]).reshape(design.n, design.m)

    @property
    def correlation(self) -> np.ndarray:
        """The correlation matrix of the estimates, shape (p, p), from the derivatives at the estimate."""
        return correlation(self.region.design, self.region.estimate)

    def envelope(self, x: ArrayLike) -> Envelope:
        """Return the range of the solution over all coefficients in the region.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Envelope
            The smallest and the largest solution at each point.
        """
        return envelope_of(self.region, x)

    def misfit(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the misfit along one coefficient, with the other coefficients refitted.

        A flat curve means that the measurements do not determine the coefficient, and two valleys mean that
        there are two solutions.

        Parameters
        ----------
        name
            The name of the coefficient.

        Returns
        -------
        tuple[np.ndarray, np.ndarray]
            Values of the coefficient around its interval, and the root mean square of the residuals at each
            value.
        """
        region, j = self.region, self.region.position(name)
        low, high = region.design.lower[j], region.design.upper[j]
        if region.drawn and not region.empty:
            first, last = region.interval(name)
            low, high = max(low, 2 * first - last), min(high, 2 * last - first)
        return misfit_along(region.design, region.y, region.estimate, j, float(low), float(high))

    @property
    def report_title(self) -> str:
        """The title of a report."""
        names = self.region.names
        title = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        return f"{title}: estimate and confidence region"

    def report_sections(self, facts: dict[str, str] | None = None) -> list[Section]:
        """Return the sections of a report.

        Parameters
        ----------
        facts
            Additional lines for the last section.

        Returns
        -------
        list[Section]
            The sections.
        """
        return [
            _claim_section(self),
            _region_section(self),
            _misfit_section(self),
            *([_correlation_section(self)] if len(self.region.names) > 1 else []),
            _residual_section(self),
            _equation_section(self),
            _guarantee_section(self),
            _provenance_section(self, facts or {}),
        ]

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
                line += "" if region.drawn else ", according to a search"
            lines.append(f"{line}.")
        if region.nothing_found:
            return [*lines, self.doubted]
        if not region.drawn:
            return [
                *lines,
                "These ends have no guaranteed coverage, since the region may extend farther than the search "
                f"found. The {level} region is joint; test single values by region.contains(...).",
            ]
        subject = "all true coefficients jointly" if joint else "the true coefficient"
        projected = " Each interval is a projection of it." if joint else ""
        pieces = f" It has {region.pieces} pieces." if region.pieces > 1 else ""
        kind = "asymptotically" if region.test.asymptotic else "in finite samples"
        claim = (
            f"The region contains {subject} with a confidence of {level}, {kind}, by {region.test.method}."
        )
        return [*lines, f"{claim}{projected}{pieces}"]

    @property
    def doubted(self) -> str:
        """The evidence against the equation, from the region and from the test of residuals."""
        if not self.region.nothing_found:
            return repr(self.doubt)
        p_value = f"{self.doubt.p_value:.2g}"
        order = f"The order of the residuals along the axes alone does not show it (p = {p_value})."
        level = f"{100 * self.region.level:.6g} %"
        causes = "the range, the equation, a condition or the assumption about the noise"
        if self.region.drawn:
            found = f"No value in the range agrees with the readings at {level}: {causes} is wrong."
        else:
            found = (
                f"A search found no value in the range that agrees with the readings at {level}: {causes} "
            )
            found += "may be wrong, or the region is small."
        return f"{found} {self.doubt if self.doubt.alarm else order}"

    def _warnings(self) -> list[str]:
        """Warnings about coefficients without information, ends of ranges, and violated assumptions."""
        region, lines = self.region, []
        unseen = [name for name, seen in region.informed.items() if not seen]
        if len(unseen) == 1:
            lines.append(
                f"NOT INFORMED: {unseen[0]} could have any value in its range, and the readings would hardly "
                "change."
            )
        elif unseen:
            lines.append(
                f"NOT INFORMED: {' and '.join(unseen)} cannot be determined separately, or not at all: each "
                "could move across its range, the others compensating, and the readings would hardly change."
            )
        if region.drawn:
            for name in region.touches_edge:
                lines.append(f"The region reaches an end of the range of {name}: the truth may lie outside.")
        reported = region.touches_edge if region.drawn and not region.empty else ()
        at_end = [name for name in self._at_an_end() if name not in reported]
        lines += [
            f"The estimate of {name} is an end of its range: the truth may lie outside." for name in at_end
        ]
        alarm = self.doubt.alarm and not region.nothing_found
        return [*lines, repr(self.doubt)] if alarm else lines

    def _at_an_end(self) -> list[str]:
        design, estimate = self.region.design, self.region.estimate
        near = 1e-6 * (design.upper - design.lower)
        ends = (estimate <= design.lower + near) | (estimate >= design.upper - near)
        return [name for name, end in zip(self.region.names, ends, strict=True) if end]

    @property
    def assumed(self) -> str:
        """All assumptions behind values and region, in one sentence."""
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
                f"the error of the solver at the readings has a length of at most Delta = {region.delta:.3g}",
                f"the seed {self.seed} was chosen before the readings were seen",
            ]
        return f"This assumes that {'; '.join(assumed)}."


def coefficients(
    solved: SolvedFamily,
    data: Observations,
    *,
    noise: Noise = "symmetric",
    level: Level = 0.95,
    delta: float | None = None,
    seed: int = 0,
) -> Estimates:
    """Estimate the coefficients of an equation from measurements, with a joint confidence region.

    Parameters
    ----------
    solved
        The solved family.
    data
        The measurements. With several outputs, use units in which their noise is of similar size.
    noise
        The assumption about the noise, which determines the method. "symmetric" noise is independent and
        symmetric about zero, with any size, which may vary (sign changes). "exchangeable" noise is
        identically distributed, with any mean (permutations). "gaussian" noise is homoscedastic (likelihood
        ratio, asymptotic).
    level
        The confidence level, strictly between 0 and 1.
    delta
        The largest error of the solver at the measurements, by which the region is widened. By default a
        solver function counts as exact, and a network is compared with the exact `solution` of the problem.
        If the problem has no `solution`, compute `delta` by `solved.check(data.x)`.
    seed
        The seed of the signs and permutations, which must be chosen before the measurements are seen.

    Returns
    -------
    Estimates
        The estimates, the region, and the test of the equation.

    Examples
    --------
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
    data = on_axes(solved, data)
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
    """The default for the error of a solver."""
    if solved.solver.certain:
        return 0.0
    if not has_solution(solved.family.problem, np.asarray(data.x)):
        raise ValueError(
            "The error of the network is unknown, since the problem has no `solution` to compare it with. "
            "Compute it by delta = solved.check(data.x, solver), with a solver function or by training runs "
            "that take minutes, and pass it, pinn.coefficients(solved, data, delta=delta)."
        )
    return solved.check(data.x)


def region(estimates: Estimates, *, truth: Mapping[str, float] | None = None, ax: Axes | None = None) -> Axes:
    """Draw the confidence region of one or two coefficients, with the least-squares estimate.

    The region of one coefficient is drawn below its misfit, and a region of two coefficients in their plane.

    Parameters
    ----------
    estimates
        The result of `pinn.coefficients`.
    truth
        The true coefficients, if known.
    ax
        The axes to draw on; new axes by default.

    Returns
    -------
    Axes
        The axes.

    Examples
    --------
    >>> from guardband import pinn
    >>> ranges = {"damping": (0.02, 0.12), "frequency": (5.5, 7.0)}
    >>> solved = pinn.Family(pinn.problems.DampedOscillator, **ranges).exact()
    >>> truth = {"damping": 0.05, "frequency": 6.2}
    >>> data = pinn.problems.DampedOscillator(**truth).observe(40, noise=0.15)
    >>> ax = pinn.plot.region(pinn.coefficients(solved, data), truth=truth)
    >>> ax.get_xlabel(), ax.get_legend_handles_labels()[1]
    ('damping', ['95 % region', 'least squares', 'truth'])
    """
    found = _checked(estimates).region
    if not found.drawn:
        raise ValueError(
            f"A region of {len(found.names)} coefficients cannot be drawn. Draw one at a time, "
            f"pinn.plot.misfit(estimates, {found.names[0]!r}), or test single values by region.contains(...)."
        )
    if len(found.names) == 1:
        return misfit(estimates, found.names[0], truth=truth, ax=ax)
    ax = axes(ax)
    label = f"{percent(found.level)} region"
    if found.empty:
        ax.plot([], [], " ", label=f"{label}: empty")
    else:
        inside = found.grid.inside.T.astype(float)
        a, b = found.grid.axes
        ax.contourf(a, b, inside, levels=[0.5, 1.5], colors=[BLUE], alpha=0.25)
        ax.contour(a, b, inside, levels=[0.5], colors=[BLUE], linewidths=1.2)
        ax.fill_between([], [], **INSIDE, label=label)
    ax.plot(*found.estimate, "o", color=BLUE, ms=6, label="least squares")
    if truth is not None:
        ax.plot(*(truth[name] for name in found.names), "x", color=ORANGE, ms=9, mew=2, label="truth")
    ax.set(xlabel=word(found.names[0]), ylabel=word(found.names[1]))
    legend(ax, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)
    return ax


def misfit(
    estimates: Estimates, name: str, *, truth: Mapping[str, float] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the misfit along one coefficient with the others refitted, and shade its interval.

    A deep valley indicates a coefficient that the measurements determine; a flat line indicates one that they
    do not determine.

    Parameters
    ----------
    estimates
        The result of `pinn.coefficients`.
    name
        The name of the coefficient.
    truth
        The true coefficients, if known.
    ax
        The axes to draw on; new axes by default.

    Returns
    -------
    Axes
        The axes.

    Examples
    --------
    >>> from guardband import pinn
    >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    >>> data = pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.05)
    >>> pinn.plot.misfit(pinn.coefficients(solved, data), "diffusivity").get_ylabel()
    'root mean square of the residuals'
    """
    found = _checked(estimates).region
    values, off = estimates.misfit(name)
    j = found.position(name)
    ax = axes(ax)
    label = f"{percent(found.level)} region"
    if found.drawn and not found.empty:
        if len(found.names) > 1:
            ax.axvspan(*found.interval(name), **INSIDE, label=f"ends of the {label}")
        else:
            for number, (low, high) in enumerate(_pieces(found.grid.axes[0], found.grid.inside)):
                ax.axvspan(low, high, **INSIDE, label=label if number == 0 else None)
    ax.plot(values, off, color=BLUE, lw=1.8)
    ax.axvline(found.estimate[j], color=BLUE, ls="--", lw=1.2, label="least squares")
    if truth is not None:
        ax.axvline(truth[name], color=ORANGE, ls=":", lw=1.8, label="truth")
    low, high = float(values[0]), float(values[-1])
    ax.set(xlabel=word(name), ylabel="root mean square of the residuals", xlim=(low, high))
    if off.max() - off.min() < 1e-3 * off.max():
        ax.set_ylim(0, 1.2 * off.max() or 1.0)  # show a flat curve as flat
    legend(ax)
    return ax


def residuals(estimates: Estimates, axis: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the residuals of the least-squares estimate along one axis.

    If the equation is correct, the residuals are noise: positive as often as negative, in random order.

    Parameters
    ----------
    estimates
        The result of `pinn.coefficients`.
    axis
        The name of the axis; the first axis by default.
    ax
        The axes to draw on; new axes by default.

    Returns
    -------
    Axes
        The axes.

    Examples
    --------
    >>> from guardband import pinn
    >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    >>> data = pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.05)
    >>> pinn.plot.residuals(pinn.coefficients(solved, data), "t").get_xlabel()
    't'
    """
    design = _checked(estimates).region.design
    names = design.solved.family.names
    known = list(names.axes)
    if axis is not None and axis not in known:
        raise ValueError(f"Unknown axis {axis!r}; the axes are {', '.join(known)}.")
    j = 0 if axis is None else known.index(axis)
    x = to_numpy(design.x)[:, j]
    ax = axes(ax)
    ax.axhline(0, color=GRAY, lw=1)
    for number, (column, off) in enumerate(zip(design.columns, estimates.residuals.T, strict=True)):
        style = DOT if design.m == 1 else {**DOT, "color": COLORS[number % len(COLORS)]}
        ax.plot(x, off, **{**style, "ms": 7}, label=word(names.outputs[column]))
    if design.m > 1:
        legend(ax)
    ax.set(xlabel=axis_words(names, known)[j], ylabel="read - solution")
    return ax


def _pieces(axis: np.ndarray, inside: np.ndarray) -> list[tuple[float, float]]:
    """The intervals of values inside, extended to the first values outside."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(int)))
    last = len(axis) - 1
    return [
        (float(axis[max(0, start - 1)]), float(axis[min(last, end)]))
        for start, end in zip(edges[::2], edges[1::2], strict=True)
    ]


def _checked(estimates: Estimates) -> Estimates:
    if not hasattr(estimates, "region"):
        raise TypeError(
            f"`estimates` should be the result of pinn.coefficients(solved, data), got "
            f"{type(estimates).__name__}."
        )
    return estimates


def _claim_section(estimates: Estimates) -> Section:
    lines = str(estimates).splitlines()
    count = len(estimates.values)
    lines = [" ".join(lines[:count]), *lines[count:]]  # the headline contains all coefficients
    if estimates.doubt.alarm:
        reason = estimates.doubted
        others = [line for line in lines if line != reason]
        return Section("The equation does not describe these readings", [reason, *others], mark="fails")
    if estimates.region.nothing_found:
        return Section("No value in the range agrees with the readings", lines, mark="fails")
    return Section("The claim", lines, mark="claim")


def _region_section(estimates: Estimates) -> Section:
    found = estimates.region
    rows = [["coefficient", "least squares", "from", "to", "range", "determined by readings"]]
    for name, value in estimates.values.items():
        low, high = found.design.solved.ranges[name]
        ends = [end.rstrip(",") for end in found.ends(name)] if len(found.values) else ["none", "none"]
        determined = "yes" if found.informed[name] else "no"
        rows.append([name, f"{value:.4g}", *ends, f"{low:g} to {high:g}", determined])
    if not found.drawn:
        return Section(
            "The region",
            ["The region has too many coefficients for a plot. Its ends come from a search."],
            rows,
        )
    if len(found.names) == 1:
        caption = "The misfit along the coefficient; the region is shaded."
    else:
        caption = "The joint region of both coefficients."
    picture = png(lambda ax: region(estimates, ax=ax))
    return Section("The region", [], rows, [(caption, picture)])


def _misfit_section(estimates: Estimates) -> Section:
    if len(estimates.region.names) == 1:
        share = estimates.region.share
        text = f"The region covers {100 * share:.3g} % of the range." if not estimates.region.empty else ""
        return Section("The size of the region", [text or "The region is empty."])
    drawn = [
        (
            f"The misfit along {name}, with the other coefficients refitted.",
            png(lambda ax, name=name: misfit(estimates, name, ax=ax)),
        )
        for name in estimates.region.names
    ]
    text = (
        "A deep valley means that the readings determine the coefficient, and a flat line that they do not. "
        "The shaded intervals are projections of the joint region."
    )
    return Section("Each coefficient separately", [text], pictures=drawn)


def _correlation_section(estimates: Estimates) -> Section:
    names, found = estimates.region.names, estimates.correlation
    rows = [["", *names]]
    rows += [[name, *(f"{value:.2f}" for value in row)] for name, row in zip(names, found, strict=True)]
    i, j = np.unravel_index(np.abs(np.triu(found, 1)).argmax(), found.shape)
    strongest = float(found[i, j])
    if abs(strongest) < WEAK:
        meaning = "the coefficients can be determined separately."
    else:
        other = "larger" if strongest > 0 else "smaller"
        meaning = f"a larger {names[i]} is best compensated by a {other} {names[j]}."
    text = (
        f"The strongest correlation is {strongest:.2f}: {meaning} The correlations are those of (J^T J)^-1 "
        "at the estimate, for homoscedastic noise."
    )
    return Section("How coefficients trade off", [text], rows)


def _residual_section(estimates: Estimates) -> Section:
    off = float(np.sqrt(np.square(estimates.residuals).mean()))
    drawn = [
        (
            f"The readings minus the solution, along {axis}.",
            png(lambda ax, axis=axis: residuals(estimates, axis, ax=ax)),
        )
        for axis in estimates.region.design.solved.family.names.axes
    ]
    text = f"The root mean square of the residuals at the least-squares estimate is {off:.3g}."
    return Section("Residuals in space and time", [text], pictures=drawn)


def _equation_section(estimates: Estimates) -> Section:
    solver = "is exact" if estimates.region.test.asymptotic else "has an error of at most Delta"
    text = (
        "The test counts the signs of the residuals, and their changes along each axis, in cells that fill "
        "the range. It raises an alarm if it rejects all cells. For a correct equation, this happens in at "
        "most "
        "1 % of data sets, provided that the noise is independent with median zero, the truth lies in the "
        f"range, the solver {solver}, and the solution at each reading is monotone in each coefficient "
        "within each cell. The absence of an alarm does not prove the equation, since the test cannot "
        "detect an error for which the coefficients can compensate."
    )
    return Section("Is the equation right?", [estimates.doubted, text])


def _guarantee_section(estimates: Estimates) -> Section:
    region = estimates.region
    level = f"{100 * region.level:.6g} %"
    if region.test.asymptotic:
        held = (
            f"There is no finite-sample guarantee: the coverage approaches {level} as the number of readings "
            "grows, for homoscedastic Gaussian noise, and the error of the solver is ignored."
        )
    else:
        held = (
            f"Guaranteed: the region contains all true coefficients jointly in at least {level} of data "
            "sets, for any number of readings, if the assumptions above hold."
        )
    return Section(
        "What is guaranteed, and what is not",
        [
            held,
            "Not guaranteed: that the truth is more likely in the middle of the region than at its border; "
            "more for a single coefficient than that its interval contains it at least as often; anything if "
            "the equation is wrong. Delta is an estimate with a margin, not a bound. A region does not "
            "predict new measurements: calibrate a band for these.",
        ],
    )


def _provenance_section(estimates: Estimates, facts: dict[str, str]) -> Section:
    region = estimates.region
    solved = {
        "readings": f"{region.design.n} of {region.design.m} output{'s' if region.design.m > 1 else ''}",
        "family": repr(region.design.solved),
        "Delta": f"{region.delta:.3g}",
        "seed": str(estimates.seed),
    }
    return origin("region", repr(region), solved | facts)
