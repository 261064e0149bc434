"""Results: what a band did on fresh points, as rows, and as a page of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from guardband.conformal.base import Pieces
from guardband.conformal.laws import central_range, total_counts
from guardband.conformal.rank import Level
from guardband.metrics.bands import Floor, acd, floor_of
from guardband.metrics.ranges import Ranges

THIS, RIVAL = "this band", "constant width"

MASS = 0.99
"""The share of cases in which a valid band falls inside the ranges shown here."""


@dataclass(frozen=True)
class Row:
    """One line of an evaluation: one band, everywhere or in one region, and its coverage curve.

    `sharpness` is the mean width over all outputs, `widths` that of each output by itself, in its own units.

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
        """The average coverage deviation over the levels."""
        return acd(self.coverages, self.levels)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a calibrated band did on test points, beside what the law allows. Prints as a table.

    `rows` holds the band itself first, then each region, then its rivals: the constant width, and the band
    before calibration; a band of constant width has no such rival. Where outputs are covered each by itself,
    each has rows of its own. `consistent` says whether the guarantee allows what was seen, None where there
    is no law, nothing to be seen, or rows that were used before; `verdict` says it in words. `laws` are those
    of scores without `ties`; with ties, a valid band may cover more. `empty` counts points where nothing lies
    in the band. `by_range` and `ties` are found when they are asked for or printed; ranges are printed where
    coverage differs by more than chance allows. `remarks` are sentences that belong beside the coverage of
    whole fields, `doubts` say which test rows were used before.

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
        """The share of test points covered at the level."""
        return self.rows[0].coverage

    @property
    def sharpness(self) -> float:
        """The mean width at the level."""
        return self.rows[0].sharpness

    @property
    def interval_score(self) -> float:
        """Width and misses in one number; less is better."""
        return self.rows[0].interval_score

    @property
    def acd(self) -> float:
        """The average coverage deviation over the levels; hold it against `acd_floor`."""
        return self.rows[0].acd

    @cached_property
    def by_range(self) -> Ranges:
        """Coverage by ranges of inputs, predicted values, the width, and the distance to training data."""
        return self.find_ranges()

    @cached_property
    def ties(self) -> bool:
        """Whether scores tie at a threshold, so that a valid band may cover more than `laws` say."""
        return self.find_ties()

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: ranges and ties, and not the calibration that they are found from."""
        found = {"by_range": self.by_range, "ties": self.ties}
        return self.__dict__ | found | {"find_ranges": Ranges, "find_ties": bool}

    @cached_property
    def acd_floor(self) -> Floor | None:
        """What ACD a perfectly valid band shows with these numbers of points."""
        return None if self.laws is None else floor_of(self.laws, self.rows[0].levels)

    @cached_property
    def ranges(self) -> np.ndarray | None:
        """For each level of the curve, the coverage a valid band shows in 99 % of cases, (levels, 2)."""
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
        """The mean width of each output, where there are several."""
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
