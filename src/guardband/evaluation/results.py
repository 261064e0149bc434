"""Results of an evaluation, as rows and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from guardband.conformal.base import Pieces
from guardband.conformal.laws import central_range, total_counts
from guardband.conformal.rank import Level
from guardband.metrics.bands import Floor, acd, floor_of
from guardband.metrics.ranges import Ranges

THIS, RIVAL = "this band", "constant width"

MASS = 0.99
"""The probability that a valid band falls inside the ranges shown here."""


@dataclass(frozen=True)
class Row:
    """One line of an evaluation: one band, everywhere or in one region, and its coverage curve.

    Attributes
    ----------
    name
        Name of the band.
    region
        Name of the region, "" for all points.
    points
        Number of test points.
    coverage
        Fraction of the points that are covered.
    sharpness
        Mean width over all outputs.
    interval_score
        Mean interval score; smaller is better.
    widths
        Mean width of each output, in its units.
    levels, coverages
        The coverage curve: levels, and the coverage at each.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0).normal
    >>> calibrated = gb.calibrate(np.zeros_like, draw(size=100), draw(size=100))
    >>> regions = {"left": lambda x: x[:, 0] < 0}
    >>> evaluation = gb.evaluate(calibrated, draw(size=50), draw(size=50), regions=regions)
    >>> [(row.name, row.region, row.points) for row in evaluation.rows[:2]]
    [('this band', '', 50), ('this band', 'left', 31)]
    """

    name: str
    region: str
    points: int
    coverage: float
    sharpness: float
    interval_score: float
    widths: tuple[float, ...] = field(repr=False)
    levels: tuple[Level, ...] = field(repr=False)
    coverages: tuple[float, ...] = field(repr=False)

    @property
    def acd(self) -> float:
        """Average coverage deviation (ACD) over the levels."""
        return acd(self.coverages, self.levels)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result of `evaluate`, which prints as a table.

    Attributes
    ----------
    level
        The coverage that was requested.
    n_cal, n_test
        Numbers of calibration points and test points.
    relative_l2
        Relative L2 error of the mean.
    verdict
        Whether the coverage agrees with the guarantee, in words.
    consistent
        Whether the coverage agrees with the guarantee; None if no law is known, if the test is not
        informative, or if test rows were used before.
    rows
        The band itself, then each region, then the baselines. A band of constant width is not compared
        with another one. If outputs are covered separately, each output has its own rows.
    laws
        The exact law of the number of covered points at each level, if scores have no ties. With ties, a
        valid band may cover more.
    of_constant_width
        Whether the band itself has constant width.
    outputs
        Names of the outputs.
    empty
        Number of points at which the band is empty.
    remarks
        Remarks on the coverage, such as that of whole fields by the size of their inputs.
    doubts
        Warnings about test rows that were used before.
    find_ranges, find_ties
        Functions that compute `by_range` and `ties` on first use.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0).normal
    >>> calibrated = gb.calibrate(np.zeros_like, draw(size=100), draw(size=100))
    >>> evaluation = gb.evaluate(calibrated, draw(size=500), draw(size=500), level=0.9)
    >>> evaluation.coverage, round(evaluation.sharpness, 1), round(evaluation.acd, 2)
    (0.888, 3.0, 0.02)
    """

    level: float
    n_cal: int
    n_test: int
    relative_l2: float
    verdict: str
    consistent: bool | None = field(repr=False)
    rows: tuple[Row, ...]
    laws: tuple[Pieces, ...] | None = field(repr=False)
    of_constant_width: bool = field(default=False, repr=False)
    outputs: tuple[str, ...] = field(default=(), repr=False)
    empty: int = field(default=0, repr=False)
    remarks: tuple[str, ...] = field(default=(), repr=False)
    doubts: tuple[str, ...] = field(default=(), repr=False)
    find_ranges: Callable[[], Ranges] = field(default=Ranges, repr=False)
    find_ties: Callable[[], bool] = field(default=bool, repr=False)

    @property
    def coverage(self) -> float:
        """Fraction of test points covered at the level."""
        return self.rows[0].coverage

    @property
    def sharpness(self) -> float:
        """Mean width at the level."""
        return self.rows[0].sharpness

    @property
    def interval_score(self) -> float:
        """Mean interval score, which combines width and misses; smaller is better."""
        return self.rows[0].interval_score

    @property
    def acd(self) -> float:
        """Average coverage deviation (ACD) over the levels; compare it with `acd_floor`."""
        return self.rows[0].acd

    @cached_property
    def by_range(self) -> Ranges:
        """Coverage by ranges of inputs, predicted values, the width, and the distance to training data."""
        return self.find_ranges()

    @cached_property
    def ties(self) -> bool:
        """Whether scores tie at a threshold, so that a valid band may cover more than `laws` state."""
        return self.find_ties()

    def __getstate__(self) -> dict[str, object]:
        """Pickle ranges and ties instead of the calibration from which they are computed."""
        found = {"by_range": self.by_range, "ties": self.ties}
        return self.__dict__ | found | {"find_ranges": Ranges, "find_ties": bool}

    @cached_property
    def acd_floor(self) -> Floor | None:
        """ACD of a perfectly valid band with these numbers of points, or None without a law."""
        return None if self.laws is None else floor_of(self.laws, self.rows[0].levels)

    @cached_property
    def ranges(self) -> np.ndarray | None:
        """Range of the coverage of a valid band in 99 % of cases, for each level, shape (levels, 2)."""
        if self.laws is None:
            return None
        counts = [central_range(total_counts(pieces), MASS) for pieces in self.laws]
        return np.array(counts) / self.n_test

    def __str__(self) -> str:
        width = max(len(_title(row)) for row in self.rows)
        lines = [
            f"Band at level {self.level:g}: {self.n_cal} calibration, {self.n_test} test points",
            f"{'':{width}}  points  coverage  sharpness  interval score     ACD",
            *(_line(row, width) for row in self.rows),
            *self._widths(),
            *(["This band is the one of constant width."] if self.of_constant_width else []),
            *([str(self.by_range)] if self.by_range.alarms else []),
            *([f"The band is empty at {self.empty} points, which it misses."] if self.empty else []),
            *self.remarks,
            f"Relative L2 error of the mean against these targets: {self.relative_l2:.4g}",
        ]
        if self.acd_floor is not None:
            lines.append(
                f"ACD of a perfectly valid band: {self.acd_floor.mean:.4f} on average, "
                f"{self.acd_floor.low:.4f} to {self.acd_floor.high:.4f} in 95 % of cases"
                + (", if no scores tied; here some do" if self.ties else "")
            )
            if self.acd > 1.5 * self.acd_floor.high and not self.ties:
                lines.append(
                    "Over all levels the band is off: hardly any valid band has an ACD of "
                    f"{self.acd:.4f} by chance."
                )
        return "\n".join([*lines, self.verdict])

    def _widths(self) -> Iterable[str]:
        """The mean width of each output, if there are several."""
        main = self.rows[0]
        if len(main.widths) > 1:
            words = self.outputs or [f"y{j}" for j in range(len(main.widths))]
            each = ", ".join(f"{word} {width:.4g}" for word, width in zip(words, main.widths, strict=True))
            yield f"Mean width of each output, in its own units: {each}"

    __repr__ = __str__


def _title(row: Row) -> str:
    return f"{row.name}, {row.region}" if row.region else row.name


def _line(row: Row, width: int) -> str:
    numbers = f"{row.points:6d}  {row.coverage:8.3f}  {row.sharpness:9.4g}"
    return f"{_title(row):{width}}  {numbers}  {row.interval_score:14.4g}  {row.acd:6.4f}"
