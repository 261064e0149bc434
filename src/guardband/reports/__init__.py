"""The report: one page for a person who has to decide whether to trust a band, or a region of coefficients.

`bands.py` says what stands on it, `provenance.py` where it comes from; `page.py` writes it: self-contained
HTML, or Markdown. Other values bring their own sections: `HasReport` and `HasSections` in `page.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import overload

from guardband.base.arrays import ArrayLike
from guardband.conformal import Calibrated
from guardband.conformal.base import Groups
from guardband.conformal.rank import Level
from guardband.metrics.bands import Region
from guardband.reports.bands import sections as sections
from guardband.reports.page import HasReport, HasSections
from guardband.reports.page import refuse_other_endings as refuse_other_endings
from guardband.reports.page import write as write
from guardband.values.labeled import refuse_unpaired

BAND = "A prediction band, and what it promises"


@overload
def report(
    calibrated: Calibrated,
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    path: str | os.PathLike[str],
    level: Level = 0.95,
    groups: Groups = None,
    regions: Mapping[str, Region] | None = None,
    title: str | None = None,
    facts: dict[str, str] | None = None,
    verdict: HasSections | None = None,
) -> Path: ...


@overload
def report(
    calibrated: HasReport,
    *,
    path: str | os.PathLike[str],
    title: str | None = None,
    facts: dict[str, str] | None = None,
    next_points: HasSections | None = None,
) -> Path: ...


def report(
    calibrated: Calibrated | HasReport,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    path: str | os.PathLike[str],
    level: Level | None = None,
    groups: Groups = None,
    regions: Mapping[str, Region] | None = None,
    title: str | None = None,
    facts: dict[str, str] | None = None,
    verdict: HasSections | None = None,
    next_points: HasSections | None = None,
) -> Path:
    """Write a report on the band at x (n, d), as HTML or, if the path ends in `.md`, Markdown.

    With y, measured at x and used nowhere before, coverage is held against its exact law; for a band about
    the truth, y are noise-free values. `regions` maps names to masks or functions of x, for lines of their
    own. The level is 0.95 unless you say another. `facts` are further lines for its last section, such as
    hashes.

    `verdict` is what `pinn.verdict(problem, net)` found of a network that `pinn.fit` did not train, to be
    shown too. Names of columns come from the calibration: a DataFrame, or `gb.calibrate(..., names=...)`.

    Of the `Estimates` of coefficients, `gb.report(estimates, path="report.html")` needs nothing more: they
    have their readings and their level. With what `pinn.next_points` returned, `next_points`, the page lists
    where to read next.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import guardband as gb
    >>> calibrated = gb.calibrate(lambda x: 0 * x, range(30), range(30))
    >>> path = gb.report(
    ...     calibrated, [3.5, 7.5, 9.5], path=Path(tempfile.mkdtemp(), "band.md"), level=0.9
    ... )
    >>> path.read_text().splitlines()[0]
    '# A prediction band, and what it promises'
    """
    refuse_other_endings(path)
    if isinstance(calibrated, HasReport):
        if any(given is not None for given in (x, y, level, groups, regions, verdict)):
            raise TypeError(
                "Estimates have their readings and their level: gb.report(estimates, path=...). Another "
                "level is asked of pinn.coefficients."
            )
        made = calibrated.report_sections(facts)
        if next_points is not None:
            made[-1:-1] = next_points.report_sections()
        return write(path, title or calibrated.report_title, made)
    if next_points is not None:
        raise TypeError("`next_points` are for the report of coefficients: gb.report(estimates, path=...).")
    if x is None:
        raise TypeError("A band is reported at points: gb.report(calibrated, x, y, path=...).")
    refuse_unpaired(x=x, y=y, groups=groups)
    asked = 0.95 if level is None else level
    given = {"groups": groups, "regions": regions, "facts": facts, "title": title, "verdict": verdict}
    made = sections(calibrated, x, y, level=asked, **given)
    return write(path, title or BAND, made)
