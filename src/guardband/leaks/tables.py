"""Tables: known rows and new rows in the form in which they are compared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from guardband.base.arrays import flat
from guardband.leaks.digits import resolution

SAMPLE = 2000
"""The number of known rows from which the distribution of distances is estimated."""


@dataclass(frozen=True, eq=False)
class Compared:
    """Known rows and new rows as float64, (n, columns), without constant columns.

    `place` numbers the inputs and is -1 for new inputs, `value` numbers the readings, and `row` is `place *
    width + value`; equal items have the same number. `same_x` and `same` mark the new rows that equal known
    rows in x, and in x and y. The known rows of the `sample` are used to estimate how near rows lie to each
    other by chance.
    """

    known_x: np.ndarray
    known_y: np.ndarray
    x: np.ndarray
    y: np.ndarray
    known_place: np.ndarray
    known_row: np.ndarray
    place: np.ndarray
    same: np.ndarray
    value: np.ndarray
    width: int
    repeated: int
    precision: tuple[float, float]
    sample: np.ndarray

    @classmethod
    def of(
        cls,
        known_x: np.ndarray,
        known_y: np.ndarray,
        x: np.ndarray,
        y: np.ndarray,
        precision: tuple[float, float],
    ) -> Compared:
        """Prepare finite rows; `precision` is the machine epsilon of x and of y."""
        known_place, place = _numbered(known_x, x)
        known_value, value = _numbered(known_y, y)
        width = int(max(known_value.max(), value.max())) + 1
        known_row, row = known_place * width + known_value, place * width + value
        known_x, x = _varying(known_x, x)
        known_y, y = _varying(known_y, y)
        sample = np.random.default_rng(0).permutation(len(known_x))[:SAMPLE]
        _, counts = np.unique(known_row, return_counts=True)
        return cls(
            known_x,
            known_y,
            x,
            y,
            known_place,
            known_row,
            np.where(np.isin(place, known_place), place, -1),
            np.isin(row, known_row),
            value,
            width,
            int(counts[counts > 1].sum()),
            precision,
            sample,
        )

    @cached_property
    def informative(self) -> np.ndarray:
        """The new rows except those of dead sensors, whose constant readings contain no information."""
        if not self.same.any() or (self.steps_y != 0).all():
            return np.ones(len(self.x), bool)
        values, places = np.unique(np.unique(self.known_row) % self.width, return_counts=True)
        return ~(self.same & np.isin(self.value, values[places > 1]))

    @cached_property
    def steps_x(self) -> np.ndarray:
        """The `resolution` of each column of x."""
        return np.array([resolution(column, self.precision[0]) for column in self.known_x[self.sample].T])

    @cached_property
    def steps_y(self) -> np.ndarray:
        """The `resolution` of each column of y."""
        return np.array([resolution(column, self.precision[1]) for column in self.known_y[self.sample].T])

    @cached_property
    def stepless(self) -> bool:
        """Whether y has no step, with repeated known rows counted once."""
        _, once = np.unique(self.known_row, return_index=True)
        columns = self.known_y[once[:SAMPLE]].T
        return columns.size > 0 and all(resolution(column, self.precision[1]) == 0 for column in columns)

    @property
    def same_x(self) -> np.ndarray:
        """The new rows at known inputs, as booleans."""
        return self.place >= 0

    @property
    def continuous(self) -> int:
        """The number of columns of x and y without a step."""
        return int((self.steps_x == 0).sum() + (self.steps_y == 0).sum())


def without_gaps(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Replace NaN by 0 and mark it in additional columns, so that rows with missing numbers can be equal."""
    gaps = [np.isnan(flat(part)) for part in (a, b)]
    missing = gaps[0].any(axis=0) | gaps[1].any(axis=0)
    if not missing.any():
        return a, b
    a, b = (
        np.hstack([np.where(gap, 0, flat(part)), gap[:, missing].astype(part.dtype)])
        for part, gap in zip((a, b), gaps, strict=True)
    )
    return a, b


def finite(*parts: np.ndarray) -> np.ndarray:
    """The rows without NaN and infinity, as booleans."""
    return np.all([np.isfinite(flat(part)).all(axis=1) for part in parts], axis=0)


def _numbered(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers for the rows of two arrays, the same number for equal rows, in the coarser of their dtypes."""
    dtype = min(a.dtype, b.dtype, key=lambda d: d.itemsize)
    keys = np.concatenate([_row_keys(part, dtype) for part in (a, b)])
    _, numbers = np.unique(keys, return_inverse=True)
    return numbers[: len(a)], numbers[len(a) :]


def _row_keys(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The bytes of each row as one key; adding 0 turns -0.0 into 0.0, so that both are equal."""
    data = np.ascontiguousarray(flat(a).astype(dtype) + dtype.type(0)).view(np.uint8)
    return data.view(np.dtype((np.void, data.shape[1]))).ravel()


def _varying(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The columns that are not constant; those with extremely large or small numbers are rescaled."""
    a, b = (flat(part).astype(float) for part in (a, b))
    varies = (a != a[0]).any(axis=0) | (b != a[0]).any(axis=0)
    a, b = a[:, varies], b[:, varies]
    size = np.maximum(np.abs(a).max(axis=0, initial=0.0), np.abs(b).max(axis=0, initial=0.0))
    unit = np.where((size < 1e-100) | (size > 1e100), size, 1.0)
    return a / unit, b / unit
