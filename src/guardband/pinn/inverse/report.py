"""The report on coefficients: what is claimed of them and on which assumption, shown and doubted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from guardband.pinn.inverse import pictures
from guardband.reports.page import Section, origin, png

if TYPE_CHECKING:
    from guardband.pinn.inverse.estimates import Estimates

WEAK = 0.1
"""Coefficients that are correlated less than this are called told apart."""


def title(estimates: Estimates) -> str:
    """What the page is about."""
    names = estimates.region.names
    said = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{said}: a region, and what it promises"


def sections(estimates: Estimates, facts: dict[str, str]) -> list[Section]:
    """What the report says, before it is written as HTML or Markdown."""
    return [
        _claim(estimates),
        _region(estimates),
        _alone(estimates),
        *([_together(estimates)] if len(estimates.region.names) > 1 else []),
        _left_over(estimates),
        _equation(estimates),
        _promise(estimates),
        _origin(estimates, facts),
    ]


def _claim(estimates: Estimates) -> Section:
    lines = str(estimates).splitlines()
    count = len(estimates.values)
    lines = [" ".join(lines[:count]), *lines[count:]]  # all coefficients stand in the headline
    if estimates.doubt.alarm:
        said = estimates.doubted
        others = [line for line in lines if line != said]
        return Section("The equation does not describe these readings", [said, *others], mark="fails")
    if estimates.region.drawn and estimates.region.empty:
        return Section("No value in the range agrees with the readings", lines, mark="fails")
    return Section("The claim", lines, mark="claim")


def _region(estimates: Estimates) -> Section:
    region = estimates.region
    rows = [["coefficient", "least squares", "from", "to", "range", "told by readings"]]
    for name, value in estimates.values.items():
        low, high = region.design.solved.ranges[name]
        ends = [end.rstrip(",") for end in region.ends(name)] if len(region.values) else ["none", "none"]
        told = "yes" if region.informed[name] else "no"
        rows.append([name, f"{value:.4g}", *ends, f"{low:g} to {high:g}", told])
    if not region.drawn:
        return Section(
            "The region", ["It has too many coefficients to be drawn. The ends are those of a search."], rows
        )
    if len(region.names) == 1:
        caption = "How far readings are off along the coefficient; the region is shaded."
    else:
        caption = "The region of both coefficients together."
    picture = png(lambda ax: pictures.region(estimates, ax=ax))
    return Section("The region", [], rows, [(caption, picture)])


def _alone(estimates: Estimates) -> Section:
    if len(estimates.region.names) == 1:
        share = estimates.region.share
        text = f"The region takes {100 * share:.3g} % of the range." if not estimates.region.empty else ""
        return Section("How much readings tell", [text or "The region is empty."])
    drawn = [
        (
            f"How far readings are off along {name}, the others refitted.",
            png(lambda ax, name=name: pictures.misfit(estimates, name, ax=ax)),
        )
        for name in estimates.region.names
    ]
    text = (
        "A deep valley is a coefficient that readings tell; a flat line is one that they do not. "
        "Shaded are the ends of the region, which belong to all coefficients together."
    )
    return Section("Each coefficient alone", [text], pictures=drawn)


def _together(estimates: Estimates) -> Section:
    names, found = estimates.region.names, estimates.correlation
    rows = [["", *names]]
    rows += [[name, *(f"{value:.2f}" for value in row)] for name, row in zip(names, found, strict=True)]
    i, j = np.unravel_index(np.abs(np.triu(found, 1)).argmax(), found.shape)
    strongest = float(found[i, j])
    if abs(strongest) < WEAK:
        told = "each is told on its own."
    else:
        other = "larger" if strongest > 0 else "smaller"
        told = f"where {names[i]} is taken larger, readings are met best with a {other} {names[j]}."
    text = (
        f"The strongest correlation is {strongest:.2f}: {told} It is that of (J^T J)^-1 at the estimate, for "
        "noise of one size."
    )
    return Section("How coefficients trade off", [text], rows)


def _left_over(estimates: Estimates) -> Section:
    off = float(np.sqrt(np.square(estimates.residuals).mean()))
    drawn = [
        (
            f"What was read less the solution, along {axis}.",
            png(lambda ax, axis=axis: pictures.residuals(estimates, axis, ax=ax)),
        )
        for axis in estimates.region.design.solved.family.names.axes
    ]
    text = f"From the solution for the least-squares estimate readings are {off:.3g} off (root mean square)."
    return Section("Residuals by place and time", [text], pictures=drawn)


def _equation(estimates: Estimates) -> Section:
    solver = "is exact" if estimates.region.test.asymptotic else "is off by at most Delta"
    text = (
        "The signs of the residuals are counted, and their changes along each axis, in cells that fill the "
        "range. The alarm is raised if all of them are rejected. If the noise is independent with median "
        f"zero, the truth is in the range, the solver {solver}, and the solution at each reading is monotone "
        "in each coefficient within each cell, a right equation raises it in at most 1 % of data sets. "
        "Silence does not prove the equation: a mistake that the coefficients make up for is not seen."
    )
    return Section("Is the equation right?", [estimates.doubted, text])


def _promise(estimates: Estimates) -> Section:
    region = estimates.region
    level = f"{100 * region.level:.6g} %"
    if region.test.asymptotic:
        held = (
            f"Guaranteed is nothing for a finite number of readings: the {level} hold as readings become "
            "many, for Gaussian noise of one size, and the error of the solver is not counted."
        )
    else:
        held = (
            f"Guaranteed: in {level} of data sets, or more, the region holds the true coefficients, all of "
            "them together, however few readings there are, if all that is assumed above is so."
        )
    return Section(
        "What is guaranteed, and what is not",
        [
            held,
            "Not guaranteed: that the truth is likelier in the middle than at the border; anything about a "
            "single coefficient beyond that its ends hold it at least as often; anything at all if the "
            "equation is wrong. Delta is an estimate from above, and no bound. A region is not about new "
            "measurements: for these, calibrate a band.",
        ],
    )


def _origin(estimates: Estimates, facts: dict[str, str]) -> Section:
    region = estimates.region
    solved = {
        "readings": f"{region.design.n} of {region.design.m} output{'s' if region.design.m > 1 else ''}",
        "family": repr(region.design.solved),
        "Delta": f"{region.delta:.3g}",
        "seed": str(estimates.seed),
    }
    return origin("region", repr(region), solved | facts)
