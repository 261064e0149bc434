"""Frames: pandas and polars DataFrames, whose column names are kept with a calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from guardband.base.arrays import DATES, Array, holds_dates, refuse_large, rows
from guardband.base.kept import kept

if TYPE_CHECKING:
    from pandas import Index as Labels

Frame: TypeAlias = Any
"""A pandas or polars DataFrame."""

Series: TypeAlias = Any
"""A column of a pandas or polars DataFrame."""

PROBES = 16
"""Number of calibration points at which a loaded model is compared with the saved one."""

Value: TypeAlias = str | int | float
"""A value of a column of text or categories that can be saved."""

Name: TypeAlias = str | int
"""The name of a column."""


def is_frame(x: object) -> bool:
    """Whether x is a DataFrame; lazy frames are refused."""
    if type(x).__name__ == "LazyFrame":
        raise TypeError("A LazyFrame holds no rows yet. Pass x.collect().")
    return type(x) is not np.ndarray and hasattr(x, "columns") and hasattr(x, "dtypes")


@kept
@dataclass(frozen=True)
class Words:
    """The first values of a column of text or categories, at which a loaded model is evaluated again."""

    name: Name
    values: tuple[Value | None, ...]
    categories: tuple[Value | None, ...] | None = None
    kind: str | None = None
    """The dtype of a column of dates, which occurs only in calibrations saved by 0.2 and earlier."""

    @classmethod
    def of(cls, name: Name, column: Series) -> Words:
        """The first values of a column; no values if they cannot be saved."""
        first = take(column, slice(PROBES))
        values = tuple(_plain(value) for value in first)
        known = getattr(column.dtype, "categories", None)
        if str(column.dtype) == "Categorical":  # polars numbers categories in order of appearance
            known = column.cast(str).unique(maintain_order=True).drop_nulls()
        categories = None if known is None else tuple(_plain(value) for value in known)
        if all(isinstance(value, Value | None) for value in (*values, *(categories or ()))):
            return cls(name, values, categories)
        return cls(name, ())


@kept
@dataclass(frozen=True)
class Columns:
    """The columns of x at calibration: all names in order, and those of the numeric columns.

    `others` holds the first values of the columns that are not numeric, and `polars` states whether the frame
    was a polars frame.
    """

    names: tuple[Name, ...]
    numeric: tuple[Name, ...]
    polars: bool = False
    others: tuple[Words, ...] = ()

    @classmethod
    def of(cls, frame: Frame) -> Columns:
        """The columns of a frame."""
        names = _names(frame)
        refuse_columns(frame)
        numeric = tuple(name for name in names if _holds_numbers(frame[name]))
        others = tuple(Words.of(name, frame[name]) for name in names if name not in numeric)
        return cls(names, numeric, type(frame).__module__.startswith("polars"), others)

    def matched(self, x: Array | Frame) -> Frame:
        """A frame with the columns of x in the order of calibration.

        The columns of an array are assumed to be in that order.
        """
        if not is_frame(x):
            x = rows(x, "x")
            if x.shape[1] != len(self.names):
                raise ValueError(f"`x` should have the {len(self.names)} columns {self}, got {x.shape[1]}.")
            return self.framed(x)
        names = _names(x)
        missing = [name for name in self.names if name not in names]
        if missing:
            listed = ", ".join(f"`{name}`" for name in missing)
            raise ValueError(f"`x` has no column {listed}, which it had at calibration: {self}.")
        x = x[list(self.names)]
        refuse_columns(x)
        return self._with_categories(x)

    def _with_categories(self, frame: Frame) -> Frame:
        """Restore the categories of calibration, since models use their codes."""
        if self.polars or not hasattr(frame, "iloc"):
            return frame
        known = {other.name: other.categories for other in self.others if other.categories is not None}
        for name, categories in known.items():
            column = frame[name]
            if tuple(getattr(column.dtype, "categories", ())) == categories:
                continue
            unknown = column[column.notna() & ~column.isin(list(categories))]
            if len(unknown):
                raise ValueError(
                    f"Column `{name}` holds {unknown.iloc[0]!r}, which was not a category at calibration: "
                    f"{', '.join(map(str, categories))}."
                )
            import pandas

            frame = frame.copy()
            frame[name] = column.astype(pandas.CategoricalDtype(list(categories)))
        return frame

    def framed(self, x: Array) -> Frame:
        """An array (n, d) as a frame with these names."""
        return self._frame(dict(zip(self.names, np.asarray(x).T, strict=True)))

    def first(self, x: Array) -> Frame | None:
        """The first rows of the calibration frame, whose numeric columns are x; None if they are unknown."""
        if any(len(other.values) != len(x) for other in self.others):
            return None
        numeric: dict[Name, Series] = dict(zip(self.numeric, np.asarray(x).T, strict=True))
        return self._frame(numeric | {other.name: self._column(other) for other in self.others})

    def _frame(self, columns: dict[Name, Series]) -> Frame:
        if self.polars:
            import polars

            return polars.DataFrame({str(name): columns[name] for name in self.names})
        import pandas

        return pandas.DataFrame({name: columns[name] for name in self.names})

    def _column(self, words: Words) -> Series:
        if self.polars:
            import polars

            categories = None if words.categories is None else [str(value) for value in words.categories]
            kind = polars.String if categories is None else polars.Enum(categories)
            return polars.Series(list(words.values), dtype=kind)
        import pandas

        if words.kind is not None:
            return pandas.Series(list(words.values), dtype="int64").astype(words.kind)
        if words.categories is None:
            return list(words.values)
        return pandas.Categorical(list(words.values), categories=list(words.categories))

    def __str__(self) -> str:
        return ", ".join(map(str, self.names))


def _plain(value: Any) -> Any:
    """A value as a Python object, with None for missing values."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if type(value).__name__ in ("NAType", "NaTType") or value != value else value


def numbers(frame: Frame) -> np.ndarray | None:
    """The numeric columns as an array (n, d), or None if there are none. NaN stays NaN."""
    refuse_columns(frame)
    names = [name for name in frame.columns if _holds_numbers(frame[name])]
    return _floats(frame[names]) if names else None


def only_numbers(frame: Frame, name: str) -> np.ndarray:
    """All columns as an array (n, d); columns that are not numeric are refused."""
    _names(frame)
    refuse_columns(frame)
    others = [str(column) for column in frame.columns if not _holds_numbers(frame[column])]
    if others or not len(frame.columns):
        raise TypeError(
            f"{name} takes numbers, but some columns of x are not numeric: {', '.join(others)}. Omit them."
        )
    return _floats(frame)


def all_numbers(frame: Frame) -> bool:
    """Whether all columns are numeric."""
    return all(_holds_numbers(frame[name]) for name in frame.columns)


def ordered(frame: Frame, names: Sequence[Name]) -> Frame:
    """These columns in this order, if all exist; some models rely on the order without checking the names."""
    return frame[list(names)] if set(names) <= set(frame.columns) else frame


def on_axes(frame: Frame, axes: Sequence[str]) -> Frame:
    """The columns named like the axes of a network, in their order; a missing column is an error."""
    names = list(_names(frame))
    if any(axis not in names for axis in axes):
        raise ValueError(
            f"The axes of the network are {', '.join(axes)}, but the columns of x are "
            f"{', '.join(map(str, names))}. Rename them, or pass an array with its columns in that order."
        )
    return frame if names == list(axes) else frame[list(axes)]


def select(frame: Frame, names: Sequence[Name], what: str) -> Frame:
    """The columns with these names, in this order; a missing column is an error."""
    found = list(_names(frame))
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(
            f"`{what}` has no column `{missing[0]}`; its columns should be {', '.join(map(str, names))}, got "
            f"{', '.join(map(str, found))}."
        )
    return frame if found == list(names) else frame[list(names)]


def refuse_columns(frame: Frame) -> None:
    """Refuse dates, which would be read as counts of their resolution, and integers above 2^53."""
    for name in frame.columns:
        column = frame[name]
        if holds_dates(column):
            raise TypeError(f"Column `{name}` holds dates or durations. {DATES}")
        if _holds_numbers(column):
            refuse_large(column, str(name))


def aligned(output: Array | Frame, frame: Frame) -> Array | Frame:
    """The output of a model for a frame, reordered to the row labels of the frame if both have labels."""
    ours, theirs = (getattr(table, "index", None) for table in (output, frame))
    return output if same_order(ours, theirs) else output.loc[frame.index]


def same_order(ours: Labels | None, theirs: Labels | None) -> bool:
    """Whether rows match by position: false if both have the same labels in different orders."""
    if ours is None or theirs is None or not (hasattr(ours, "equals") and hasattr(theirs, "equals")):
        return True
    return len(ours) != len(theirs) or ours.equals(theirs) or not (ours.is_unique and ours.isin(theirs).all())


def take(frame: Frame, index: Sequence[int] | slice) -> Frame:
    """Some rows of a frame."""
    return frame.iloc[index] if hasattr(frame, "iloc") else frame[index]


def _names(frame: Frame) -> tuple[Name, ...]:
    names = tuple(frame.columns)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"The columns of x should have different names, but `{twice}` occurs twice.")
    for name in names:
        if not isinstance(name, str | int):
            raise TypeError(f"The names of the columns of x should be strings or integers, got {name!r}.")
    return names


def _floats(frame: Frame) -> np.ndarray:
    """The numbers in a new array."""
    if hasattr(frame, "iloc"):  # pandas has several kinds of missing values
        return frame.to_numpy(dtype=float, na_value=np.nan, copy=True)
    return np.array(frame, dtype=float)


def _holds_numbers(column: Series) -> bool:
    kind = getattr(column.dtype, "kind", None)
    if kind is None:  # polars
        return bool(column.dtype.is_numeric())
    return kind in "fiub"
