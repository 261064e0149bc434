"""One-page reports that help a reader decide whether to trust a band, or a region of coefficients.

`bands.py` and `pictures.py` create the content, `provenance.py` identifies model and data, and `page.py`
writes self-contained HTML or Markdown. Other values define their own sections: `HasReport` and
`HasSections` in `page.py`.
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

BAND = "A prediction band and its guarantee"


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
    """Write a one-page report on a band at new points, or on estimated coefficients.

    Column names come from the calibration: a DataFrame, or `gb.calibrate(..., names=...)`. A report on
    `pinn.Estimates` needs no data and no level: `gb.report(estimates, path="report.html")`.

    Parameters
    ----------
    calibrated
        The calibration, or a value with a report, such as `pinn.Estimates`.
    x
        Points, shape (n, d).
    y
        Fresh measurements at x, shape (n, m). With them, the page compares the coverage with its exact law.
        For a band around the truth, y are noise-free values.
    path
        The file to write: HTML, or Markdown if it ends in `.md`.
    level
        Requested coverage; 0.95 by default.
    groups
        One label per row, for calibrators that use groups.
    regions
        Masks or functions of x by name; the coverage in each is listed.
    title
        The title of the page.
    facts
        Further rows of the section on provenance, such as hashes.
    verdict
        The result of `pinn.verdict(problem, net)`, for a network that `pinn.fit` did not train.
    next_points
        For coefficients, the result of `pinn.next_points`: where to measure next.

    Returns
    -------
    Path
        The path of the page.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import guardband as gb
    >>> calibrated = gb.calibrate(lambda x: 0 * x, range(30), range(30))
    >>> path = gb.report(
    ...     calibrated, [3.5, 7.5, 9.5], path=Path(tempfile.mkdtemp(), "band.md"), level=0.9
    ... )
    >>> path.read_text().splitlines()[0]
    '# A prediction band and its guarantee'
    """
    refuse_other_endings(path)
    if isinstance(calibrated, HasReport):
        if any(given is not None for given in (x, y, level, groups, regions, verdict)):
            raise TypeError(
                "Estimates contain their readings and their level. Call gb.report(estimates, path=...). Pass "
                "another level to pinn.coefficients."
            )
        contents = calibrated.report_sections(facts)
        if next_points is not None:
            contents[-1:-1] = next_points.report_sections()
        return write(path, title or calibrated.report_title, contents)
    if next_points is not None:
        raise TypeError("`next_points` applies only to coefficients: gb.report(estimates, path=...).")
    if x is None:
        raise TypeError("The report on a band needs points. Call gb.report(calibrated, x, y, path=...).")
    refuse_unpaired(x=x, y=y, groups=groups)
    contents = sections(
        calibrated,
        x,
        y,
        level=0.95 if level is None else level,
        groups=groups,
        regions=regions,
        facts=facts,
        title=title,
        verdict=verdict,
    )
    return write(path, title or BAND, contents)
