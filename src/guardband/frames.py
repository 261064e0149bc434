"""Frames: tables with named columns, pandas or polars, at the door. Names travel with a calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from guardband.arrays import finite, rows
from guardband.kept import kept


def is_frame(x: Any) -> bool:
    """Whether x is a table with named columns."""
    return type(x) is not np.ndarray and hasattr(x, "columns") and hasattr(x, "dtypes")


@kept
@dataclass(frozen=True)
class Columns:
    """The names of the columns of x, in the order of calibration, and which of them hold numbers."""

    names: tuple[str | int, ...]
    numeric: tuple[str | int, ...]
    polars: bool = False

    @classmethod
    def of(cls, frame: Any) -> Columns:
        """Those of a frame."""
        names = _names(frame)
        numeric = tuple(name for name in names if _holds_numbers(frame[name]))
        return cls(names, numeric, type(frame).__module__.startswith("polars"))

    @property
    def all_numbers(self) -> bool:
        """Whether every column holds numbers."""
        return self.numeric == self.names

    @staticmethod
    def matched(known: Columns | None, x: Any) -> Any:
        """x as it was at calibration: a frame with the same columns in the same order.

        An array beside a calibration on a frame is taken to have its columns in that order.
        """
        if not is_frame(x):
            assert known is not None
            x = rows(x, "x")
            if x.shape[1] != len(known.names):
                raise ValueError(f"`x` should have the {len(known.names)} columns {known}, got {x.shape[1]}.")
            return known.framed(x)
        if known is None:
            return finite(rows(np.asarray(x), "x"), "x")
        there = _names(x)
        missing = [name for name in known.names if name not in there]
        if missing:
            listed = ", ".join(f"`{name}`" for name in missing)
            raise ValueError(f"`x` has no column {listed}, which it had at calibration: {known}.")
        return x[list(known.names)]

    def framed(self, x: Any) -> Any:
        """An array (n, d) as a frame with these names."""
        if self.polars:
            import polars  # type: ignore[import-not-found]

            return polars.DataFrame(np.asarray(x), schema=list(self.names))
        import pandas

        return pandas.DataFrame(np.asarray(x), columns=list(self.names))

    def __str__(self) -> str:
        return ", ".join(map(str, self.names))


def numbers(frame: Any) -> np.ndarray | None:
    """The columns that hold numbers as an array (n, d); None if there are none. NaN stays NaN."""
    names = [name for name in frame.columns if _holds_numbers(frame[name])]
    return _floats(frame[names]) if names else None


def only_numbers(frame: Any, name: str) -> np.ndarray:
    """All columns as an array (n, d), or an error if one holds no numbers."""
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
