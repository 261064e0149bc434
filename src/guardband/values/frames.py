"""Frames: tables with named columns, pandas or polars, at the door. Names travel with a calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from guardband.base.arrays import DATES, holds_dates, refuse_large, rows
from guardband.base.kept import kept

Frame: TypeAlias = Any
"""A pandas or polars DataFrame."""

Series: TypeAlias = Any
"""A column of a pandas or polars DataFrame."""

PROBES = 16
"""How many calibration points are asked again when a calibration is loaded."""


def is_frame(x: Any) -> bool:
    """Whether x is a table with named columns; one that is not computed yet is refused."""
    if type(x).__name__ == "LazyFrame":
        raise TypeError("A LazyFrame holds no rows yet: give x.collect().")
    return type(x) is not np.ndarray and hasattr(x, "columns") and hasattr(x, "dtypes")


Value = str | int | float
"""What a column of words or categories may hold, to be kept."""


@kept
@dataclass(frozen=True)
class Words:
    """The first values of a column of words or categories, so that a model can be asked there again."""

    name: str | int
    values: tuple[Value, ...]
    categories: tuple[Value, ...] | None = None
    kind: str | None = None
    """The dtype of a column of dates, which only calibrations saved by 0.2 and earlier have."""

    @classmethod
    def of(cls, name: str | int, column: Any) -> Words:
        """Those of a column; none where they cannot be kept, such as objects of other kinds."""
        first = take(column, slice(PROBES))
        values = tuple(_plain(value) for value in first)
        known = getattr(column.dtype, "categories", None)
        if str(column.dtype) == "Categorical":  # polars, whose categories are numbered as they come
            known = column.cast(str).unique(maintain_order=True).drop_nulls()
        categories = None if known is None else tuple(_plain(value) for value in known)
        if all(isinstance(value, Value | None) for value in (*values, *(categories or ()))):
            return cls(name, values, categories)
        return cls(name, ())


@kept
@dataclass(frozen=True)
class Columns:
    """The names of the columns of x, in the order of calibration, and which of them hold numbers.

    Of the `others` the first values are known, `polars` says which kind of frame it was.
    """

    names: tuple[str | int, ...]
    numeric: tuple[str | int, ...]
    polars: bool = False
    others: tuple[Words, ...] = ()

    @classmethod
    def of(cls, frame: Any) -> Columns:
        """Those of a frame."""
        names = _names(frame)
        refuse_columns(frame)
        numeric = tuple(name for name in names if _holds_numbers(frame[name]))
        others = tuple(Words.of(name, frame[name]) for name in names if name not in numeric)
        return cls(names, numeric, type(frame).__module__.startswith("polars"), others)

    def matched(self, x: Any) -> Any:
        """x as it was at calibration: a frame with the same columns in the same order.

        An array is taken to have its columns in that order.
        """
        if not is_frame(x):
            x = rows(x, "x")
            if x.shape[1] != len(self.names):
                raise ValueError(f"`x` should have the {len(self.names)} columns {self}, got {x.shape[1]}.")
            return self.framed(x)
        there = _names(x)
        missing = [name for name in self.names if name not in there]
        if missing:
            listed = ", ".join(f"`{name}`" for name in missing)
            raise ValueError(f"`x` has no column {listed}, which it had at calibration: {self}.")
        x = x[list(self.names)]
        refuse_columns(x)
        return self._as_known(x)

    def _as_known(self, frame: Any) -> Any:
        """Categories as they were at calibration: models go by their numbers."""
        if self.polars or not hasattr(frame, "iloc"):
            return frame
        known = {other.name: other.categories for other in self.others if other.categories is not None}
        for name, categories in known.items():
            column = frame[name]
            if tuple(getattr(column.dtype, "categories", ())) == categories:
                continue
            strange = column[column.notna() & ~column.isin(list(categories))]
            if len(strange):
                raise ValueError(
                    f"Column `{name}` holds {strange.iloc[0]!r}, which was no category of it at calibration: "
                    f"{', '.join(map(str, categories))}."
                )
            import pandas

            frame = frame.copy()
            frame[name] = column.astype(pandas.CategoricalDtype(list(categories)))
        return frame

    def framed(self, x: Any) -> Any:
        """An array (n, d) as a frame with these names."""
        return self._frame(dict(zip(self.names, np.asarray(x).T, strict=True)))

    def first(self, x: Any) -> Any | None:
        """The first rows of the frame of calibration, of whose numbers x are the first; None if not known."""
        if any(len(other.values) != len(x) for other in self.others):
            return None
        known: dict[str | int, Any] = dict(zip(self.numeric, np.asarray(x).T, strict=True))
        return self._frame(known | {other.name: self._column(other) for other in self.others})

    def _frame(self, columns: dict[str | int, Any]) -> Any:
        if self.polars:
            import polars

            return polars.DataFrame({str(name): columns[name] for name in self.names})
        import pandas

        return pandas.DataFrame({name: columns[name] for name in self.names})

    def _column(self, words: Words) -> Any:
        if self.polars:
            import polars

            kind = polars.String if words.categories is None else polars.Enum(words.categories)  # type: ignore[arg-type]
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
    """A value as Python's own; what is missing as None."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if type(value).__name__ in ("NAType", "NaTType") or value != value else value


def numbers(frame: Any) -> np.ndarray | None:
    """The columns that hold numbers as an array (n, d); None if there are none. NaN stays NaN."""
    refuse_columns(frame)
    names = [name for name in frame.columns if _holds_numbers(frame[name])]
    return _floats(frame[names]) if names else None


def only_numbers(frame: Any, name: str) -> np.ndarray:
    """All columns as an array (n, d), or an error if one holds no numbers."""
    _names(frame)
    refuse_columns(frame)
    others = [str(column) for column in frame.columns if not _holds_numbers(frame[column])]
    if others or not len(frame.columns):
        raise TypeError(
            f"{name} takes numbers, and not all columns of x hold some: {', '.join(others)}. Leave them out."
        )
    return _floats(frame)


def all_numbers(frame: Any) -> bool:
    """Whether every column holds numbers."""
    return all(_holds_numbers(frame[name]) for name in frame.columns)


def ordered(frame: Any, names: Sequence[Any]) -> Any:
    """These columns in this order, if all of them are there; some models go by the order and do not look."""
    return frame[list(names)] if set(names) <= set(frame.columns) else frame


def on_axes(frame: Any, axes: Sequence[str]) -> Any:
    """The columns called like the axes of a network, in their order; refused where one is missing."""
    there = list(_names(frame))
    if any(axis not in there for axis in axes):
        raise ValueError(
            f"The network goes by {', '.join(axes)}, and the columns of x are {', '.join(map(str, there))}. "
            "Rename them, or give an array with its columns in that order."
        )
    return frame if there == list(axes) else frame[list(axes)]


def select(frame: Any, names: Sequence[Any], what: str) -> Any:
    """The columns of these names in this order; refused where one is missing."""
    there = list(_names(frame))
    missing = [name for name in names if name not in there]
    if missing:
        raise ValueError(
            f"`{what}` has no column `{missing[0]}`; its columns should be {', '.join(map(str, names))}, and "
            f"are {', '.join(map(str, there))}."
        )
    return frame if there == list(names) else frame[list(names)]


def refuse_columns(frame: Any) -> None:
    """Refuse columns of dates, which pass as counts of their resolution, and of integers above 2^53."""
    for name in frame.columns:
        column = frame[name]
        if holds_dates(column):
            raise TypeError(f"Column `{name}` holds dates or durations. {DATES}")
        if _holds_numbers(column):
            refuse_large(column, str(name))


def aligned(output: Any, frame: Any) -> Any:
    """What was answered for a frame, in the order of its rows, where both say which row is which."""
    ours, theirs = (getattr(table, "index", None) for table in (output, frame))
    return output if same_order(ours, theirs) else output.loc[frame.index]


def same_order(ours: Any, theirs: Any) -> bool:
    """Whether rows go together as they stand by their labels: not the same labels in another order."""
    if not (hasattr(ours, "equals") and hasattr(theirs, "equals")) or len(ours) != len(theirs):
        return True
    return ours.equals(theirs) or not (ours.is_unique and ours.isin(theirs).all())


def take(frame: Any, index: Sequence[int] | slice) -> Any:
    """Some rows of a frame."""
    return frame.iloc[index] if hasattr(frame, "iloc") else frame[index]


def _names(frame: Any) -> tuple[Any, ...]:
    names = tuple(frame.columns)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"The columns of x should have different names, `{twice}` is there twice.")
    for name in names:
        if not isinstance(name, str | int):
            raise TypeError(f"The columns of x should be named by words or whole numbers, got {name!r}.")
    return names


def _floats(frame: Any) -> np.ndarray:
    """The same numbers in an array of its own."""
    if hasattr(frame, "iloc"):  # pandas, whose columns may lack numbers in more ways than one
        return frame.to_numpy(dtype=float, na_value=np.nan, copy=True)
    return np.array(frame, dtype=float)


def _holds_numbers(column: Any) -> bool:
    kind = getattr(column.dtype, "kind", None)
    if kind is None:  # polars
        return bool(column.dtype.is_numeric())
    return kind in "fiub"
