"""Partition observations into parts for training, choosing, calibration and testing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
"""`Observations`, or a pair (x, y) of arrays, tensors, lists or pandas objects."""

NAMES = ("train", "choose", "calibrate", "test")
"""The parts, in the order of their use."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The result of `partition`; it unpacks into the requested parts in the order of the attributes.

    Attributes
    ----------
    train, choose, calibrate, test
        The parts, each of the type that was passed; None for a part that was not requested.
    indices
        Row indices of each part, by name.
    groups
        Group labels of the rows of each part, by name; None without groups.
    n
        Total number of rows, including those that belong to no part.

    Examples
    --------
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
        """Unpack the requested parts."""
        return (getattr(self, name) for name in NAMES if name in self.indices)

    def __repr__(self) -> str:
        words = []
        for name, rows in self.indices.items():
            groups = self.groups[name]
            words.append(f"{len(rows)} {name}" + ("" if groups is None else f" in {_count(groups)}"))
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
    """Split observations at random into disjoint parts.

    Parameters
    ----------
    observations
        `Observations`, or a pair (x, y) of arrays, tensors, lists or pandas objects.
    train
        Size of the part that trains the model. All sizes are either fractions that sum to at most 1, such as
        0.7, or numbers of rows. A part of size 0 is omitted.
    choose
        Size of the part on which methods, scales and levels are compared. The guarantee does not hold for a
        method that was chosen on the calibration rows.
    calibrate
        Size of the part that calibrates the chosen method.
    test
        Size of the part that tests the calibrated band, once.
    groups
        One label per row. The rows of a group stay together, which is necessary if rows of one sensor, run
        or trajectory are similar.
    seed
        Seed of the random split.

    Returns
    -------
    Parts
        The parts, each of the type of `observations`.

    Notes
    -----
    With `groups`, each part gets its fraction of the groups regardless of their sizes, so its fraction of the
    rows varies. If the split depended on the sizes, the groups of different parts would not be exchangeable.

    Examples
    --------
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
        shuffled, group = order(n), None
        cuts = np.cumsum([0, *sizes.values()])
    else:
        group = group_labels(groups, n)
        shuffled, cuts = _whole_groups(group, sizes, order)
    indices = {}
    for name, start, stop in zip(sizes, cuts[:-1], cuts[1:], strict=True):
        indices[name] = np.sort(shuffled[start:stop])
        indices[name].flags.writeable = False
    parts = {name: None for name in NAMES} | {
        name: _part(observations, x, y, i) for name, i in indices.items()
    }
    return Parts(
        **parts,
        indices=indices,
        groups={name: None if group is None else group[i] for name, i in indices.items()},
        n=n,
    )


def pair_of(observations: Rows) -> tuple[ArrayLike, ArrayLike]:
    """Unpack rows into x and y, and check that they match."""
    if not isinstance(observations, Observations | tuple | list) or len(pair := tuple(observations)) != 2:
        raise TypeError(
            "Rows should be gb.Observations(x, y) or a pair (x, y), got "
            f"{type(observations).__name__}. Put x and y in parentheses."
        )
    x, y = pair
    refuse_unpaired(x=x, y=y)
    sizes = row_count(x, "x"), row_count(y, "y")
    if sizes[0] != sizes[1]:
        raise ValueError(f"`x` and `y` should pair up, got {sizes[0]} and {sizes[1]} rows.")
    return x, y


def row_count(a: ArrayLike, name: str) -> int:
    """The number of rows, along the row axis if the axes have names."""
    if isinstance(a, Mapping):
        raise TypeError(
            f"`{name}` should be an array or a frame, got a {type(a).__name__}, which has no rows. Pass "
            "pandas.DataFrame(columns), or one variable of a dataset."
        )
    names = axis_names(a)
    return len(a) if not names or isinstance(a, Fields) else a.sizes[row_or_first(names)]


def _sizes(asked: dict[str, float], n: int) -> dict[str, int]:
    """The number of rows of each part."""
    for name, size in asked.items():
        if isinstance(size, bool | np.bool_) or not isinstance(size, Real) or not 0 <= size < float("inf"):
            raise ValueError(f"`{name}` should be a fraction such as 0.3, or a number of rows, got {size!r}.")
    asked = {name: size for name, size in asked.items() if size}
    if not asked:
        raise ValueError(f"Pass the size of at least one part: {', '.join(NAMES)}.")
    whole = {name for name, size in asked.items() if isinstance(size, Integral)}
    if whole and len(whole) < len(asked):
        raise ValueError(
            "Sizes should be either all fractions or all numbers of rows, got "
            f"{', '.join(f'{name}={size!r}' for name, size in asked.items())}."
        )
    total = sum(asked.values())
    if whole:
        if total > n:
            raise ValueError(f"{total} rows were requested, but there are {n}.")
        return {name: int(size) for name, size in asked.items()}
    if total > 1 + 1e-9:
        raise ValueError(
            f"Fractions should sum to at most 1, got {total:g}. For numbers of rows pass integers, such as "
            "50 instead of 50.0."
        )
    sizes = _rounded(np.array(list(asked.values())) * n)
    empty = [name for name, size in zip(asked, sizes, strict=True) if size == 0]
    if empty:
        raise ValueError(
            f"`{empty[0]}`, a fraction of {asked[empty[0]]:g} of {n} rows, would get no row. "
            "Pass a larger fraction, or omit it."
        )
    return dict(zip(asked, map(int, sizes), strict=True))


def _rounded(wanted: np.ndarray) -> np.ndarray:
    """Round to integers with the same sum, rounding up those with the largest fractional parts."""
    sizes = np.floor(wanted + 1e-9)
    missing = round(float(wanted.sum() - sizes.sum()))
    sizes[np.argsort(sizes - wanted, kind="stable")[:missing]] += 1
    return sizes.astype(int)


def _whole_groups(
    groups: np.ndarray, sizes: dict[str, int], order: Callable[[int], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The rows sorted by group, with groups in random order, and the ends of the parts, between groups.

    The number of groups in a part is fixed beforehand and does not depend on their sizes, so the groups of
    all parts are exchangeable.
    """
    names, number = np.unique(groups, return_inverse=True)
    if len(names) < len(sizes):
        raise ValueError(
            f"{len(sizes)} parts need at least as many groups, got {len(names)}. Groups are not split."
        )
    counts = np.maximum(_rounded(np.array(list(sizes.values())) * len(names) / len(groups)), 1)
    while counts.sum() > len(names):
        counts[counts.argmax()] -= 1
    position = np.empty(len(names), int)
    position[order(len(names))] = np.arange(len(names))
    shuffled = np.argsort(position[number], kind="stable")
    ends = np.cumsum([0, *np.bincount(position[number], minlength=len(names))])
    return shuffled, ends[np.cumsum([0, *counts])]


def _part(observations: Rows, x: ArrayLike, y: ArrayLike, indices: np.ndarray) -> Rows:
    pair = taken(x, indices), taken(y, indices)
    if not isinstance(observations, Observations):
        return pair
    return Observations(*pair, names=observations.names, outputs=observations.outputs)


def taken(a: ArrayLike, indices: np.ndarray) -> ArrayLike:
    """Some rows of an array or table, of the same type."""
    if is_tensor(a):
        return a[to_torch(indices).to(a.device)]
    if hasattr(a, "iloc"):
        return a.iloc[indices]
    if (names := axis_names(a)) and not isinstance(a, Fields):
        return a.isel({row_or_first(names): indices})
    return a[indices] if hasattr(a, "shape") else np.asarray(a)[indices]


def _count(groups: np.ndarray) -> str:
    count = len(np.unique(groups))
    return f"{count} group{'s' if count > 1 else ''}"
