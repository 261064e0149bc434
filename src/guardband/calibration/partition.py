"""Partition: one set of observations, cut into what trains, chooses, calibrates and tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np

from guardband.base.arrays import ArrayLike, axis_names, is_tensor, to_torch
from guardband.conformal.base import Groups, group_labels
from guardband.values import Observations
from guardband.values.grids import Fields, row_or_first
from guardband.values.labeled import refuse_unpaired

Rows: TypeAlias = Any
"""Observations, or a pair (x, y) of arrays, tensors, lists or pandas objects."""

NAMES = ("train", "choose", "calibrate", "test")
"""The parts, in the order they are used in."""


@dataclass(frozen=True, eq=False)
class Parts:
    """What `partition` made: `train`, `choose`, `calibrate` and `test`, None where none was asked for.

    It unpacks into the parts that were asked for, in this order. `indices` and `groups` hold, by the name of
    the part, which rows are in it, and the labels of those.

    >>> import numpy as np
    >>> import guardband as gb
    >>> data = gb.Observations(np.linspace(0, 1, 100), np.zeros(100))
    >>> parts = gb.partition(data, train=0.7, calibrate=0.2, test=0.1)
    >>> parts
    Parts(70 train, 20 calibrate, 10 test)
    >>> train, calibrate, test = parts
    >>> calibrate, parts.choose, parts.indices["test"][:4]
    (Observations(20 points, x (20, 1), y (20, 1)), None, array([29, 33, 41, 54]))
    """

    train: Rows
    choose: Rows
    calibrate: Rows
    test: Rows
    indices: Mapping[str, np.ndarray]
    groups: Mapping[str, np.ndarray | None]
    n: int

    def __iter__(self) -> Iterator[Rows]:
        """Unpack the parts that were asked for."""
        return (getattr(self, name) for name in NAMES if name in self.indices)

    def __repr__(self) -> str:
        words = []
        for name, rows in self.indices.items():
            of = self.groups[name]
            words.append(f"{len(rows)} {name}" + ("" if of is None else f" in {_count(of)}"))
        left = self.n - sum(map(len, self.indices.values()))
        return f"Parts({', '.join(words)}{f'; {left} left out' if left else ''})"


def partition(
    observations: Rows,
    *,
    train: float = 0,
    choose: float = 0,
    calibrate: float = 0,
    test: float = 0,
    groups: Groups = None,
    seed: int = 0,
) -> Parts:
    """Cut observations at random into parts that share no row: one line, and nothing leaks.

    `train` is what the model learns from. `choose` is for choosing between methods, scales and levels:
    whatever was chosen on calibration rows is no longer covered by the guarantee. `calibrate` is for the one
    that was chosen, and `test` for testing it, once.

    Sizes are shares, such as 0.7, that sum to at most 1, or whole numbers of rows; a part of size 0 is not
    made. With `groups`, one label per row, a group goes into one part as a whole, as it must where rows of
    one sensor, run or trajectory are alike. Each part then gets its share of the groups, whatever their
    sizes, so its share of the rows varies: a cut that looked at sizes would make the groups of one part
    unlike those of another. Parts are what was given: `Observations`, or a pair (x, y) of whatever has rows.

    >>> import numpy as np
    >>> import guardband as gb
    >>> x, y, sensor = np.linspace(0, 1, 60), np.zeros(60), np.repeat(np.arange(20), 3)
    >>> parts = gb.partition((x, y), train=0.5, calibrate=0.3, test=0.2, groups=sensor)
    >>> parts
    Parts(30 train in 10 groups, 18 calibrate in 6 groups, 12 test in 4 groups)
    >>> x_test, y_test = parts.test
    >>> np.unique(parts.groups["test"])
    array([ 1,  9, 14, 15])
    """
    x, y = pair_of(observations)
    refuse_unpaired(x=x, y=y, groups=groups)
    n = row_count(x, "x")
    sizes = _sizes(dict(zip(NAMES, (train, choose, calibrate, test), strict=True)), n)
    order = np.random.default_rng(seed).permutation
    if groups is None:
        marks, of = order(n), None
        cuts = np.cumsum([0, *sizes.values()])
    else:
        of = group_labels(groups, n)
        marks, cuts = _whole_groups(of, sizes, order)
    indices = {}
    for name, start, stop in zip(sizes, cuts[:-1], cuts[1:], strict=True):
        indices[name] = np.sort(marks[start:stop])
        indices[name].flags.writeable = False
    parts = {name: None for name in NAMES} | {
        name: _part(observations, x, y, i) for name, i in indices.items()
    }
    return Parts(
        **parts,
        indices=indices,
        groups={name: None if of is None else of[i] for name, i in indices.items()},
        n=n,
    )


def pair_of(observations: Rows) -> tuple[ArrayLike, ArrayLike]:
    """The x and the y of rows, however they were given."""
    if not isinstance(observations, Observations | tuple | list) or len(pair := tuple(observations)) != 2:
        raise TypeError(
            "Rows should be gb.Observations(x, y) or a pair (x, y), got "
            f"{type(observations).__name__}. Put x and y into parentheses."
        )
    x, y = pair
    refuse_unpaired(x=x, y=y)
    sizes = row_count(x, "x"), row_count(y, "y")
    if sizes[0] != sizes[1]:
        raise ValueError(f"`x` and `y` should pair up, got {sizes[0]} and {sizes[1]} rows.")
    return x, y


def row_count(a: Any, name: str) -> int:
    """How many rows it has, along the axis of rows where axes have names."""
    if isinstance(a, Mapping):
        raise TypeError(
            f"`{name}` should be an array or a frame, got a {type(a).__name__}, which has no rows. Use "
            "pandas.DataFrame(columns), or one variable of a dataset."
        )
    names = axis_names(a)
    return len(a) if not names or isinstance(a, Fields) else a.sizes[row_or_first(names)]


def _sizes(asked: dict[str, float], n: int) -> dict[str, int]:
    """How many rows each part gets."""
    for name, size in asked.items():
        if isinstance(size, bool | np.bool_) or not isinstance(size, Real) or not 0 <= size < float("inf"):
            raise ValueError(f"`{name}` should be a share such as 0.3, or a number of rows, got {size!r}.")
    asked = {name: size for name, size in asked.items() if size}
    if not asked:
        raise ValueError(f"Give the size of at least one part: {', '.join(NAMES)}.")
    whole = {name for name, size in asked.items() if isinstance(size, Integral)}
    if whole and len(whole) < len(asked):
        raise ValueError(
            "Sizes should be all shares or all numbers of rows, got "
            f"{', '.join(f'{name}={size!r}' for name, size in asked.items())}."
        )
    total = sum(asked.values())
    if whole:
        if total > n:
            raise ValueError(f"{total} rows were asked for, and there are {n}.")
        return {name: int(size) for name, size in asked.items()}
    if total > 1 + 1e-9:
        raise ValueError(
            f"Shares should sum to at most 1, got {total:g}. For numbers of rows write whole numbers, such "
            "as 50 and not 50.0."
        )
    sizes = _rounded(np.array(list(asked.values())) * n)
    empty = [name for name, size in zip(asked, sizes, strict=True) if size == 0]
    if empty:
        raise ValueError(
            f"`{empty[0]}`, a share of {asked[empty[0]]:g} of {n} rows, would get no row. "
            "Give it a larger share, or leave it out."
        )
    return dict(zip(asked, map(int, sizes), strict=True))


def _rounded(wanted: np.ndarray) -> np.ndarray:
    """Whole numbers with the same sum, as near as can be: the largest rests are rounded up."""
    sizes = np.floor(wanted + 1e-9)
    more = round(float(wanted.sum() - sizes.sum()))
    sizes[np.argsort(sizes - wanted, kind="stable")[:more]] += 1
    return sizes.astype(int)


def _whole_groups(of: np.ndarray, sizes: dict[str, int], order: Any) -> tuple[np.ndarray, np.ndarray]:
    """The rows, group after group in random order, and where they are cut, between groups.

    How many groups a part gets is fixed before they are drawn and does not depend on how large they are, so
    the groups of all parts are exchangeable.
    """
    names, number = np.unique(of, return_inverse=True)
    if len(names) < len(sizes):
        raise ValueError(
            f"{len(sizes)} parts need as many groups at least, and there are {len(names)}. None is cut."
        )
    counts = np.maximum(_rounded(np.array(list(sizes.values())) * len(names) / len(of)), 1)
    while counts.sum() > len(names):
        counts[counts.argmax()] -= 1
    position = np.empty(len(names), int)
    position[order(len(names))] = np.arange(len(names))
    marks = np.argsort(position[number], kind="stable")
    ends = np.cumsum([0, *np.bincount(position[number], minlength=len(names))])
    return marks, ends[np.cumsum([0, *counts])]


def _part(observations: Rows, x: ArrayLike, y: ArrayLike, indices: np.ndarray) -> Rows:
    pair = taken(x, indices), taken(y, indices)
    if not isinstance(observations, Observations):
        return pair
    return Observations(*pair, names=observations.names, outputs=observations.outputs)


def taken(a: Any, indices: np.ndarray) -> Any:
    """These rows of it, as the kind it is."""
    if is_tensor(a):
        return a[to_torch(indices).to(a.device)]
    if hasattr(a, "iloc"):
        return a.iloc[indices]
    if (names := axis_names(a)) and not isinstance(a, Fields):
        return a.isel({row_or_first(names): indices})
    return a[indices] if hasattr(a, "shape") else np.asarray(a)[indices]


def _count(of: np.ndarray) -> str:
    count = len(np.unique(of))
    return f"{count} group{'s' if count > 1 else ''}"
