"""Pieces of trajectories: fields in one part of the data that share a state with fields in another part.

Windows or single steps of one trajectory are not independent rows. If they overlap or touch, they have a
state in common to the last digit, which never happens for different trajectories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from guardband.base.arrays import Array, flat, to_numpy


def shared_states(known: list[set[int]], new: list[set[int]]) -> np.ndarray:
    """The new fields that share a state with a known field, as booleans (n,): pieces of one trajectory.

    If `known` is `new` itself, each field is compared with the others.

    >>> shared_states([{1, 2}, {7, 8}], [{2, 3}, {4, 5}]).tolist()
    [True, False]
    """
    counts = Counter(state for states in known for state in states)
    alone = 1 if known is new else 0
    return np.array([any(counts[state] > alone for state in states) for states in new], dtype=bool)


def without_common(parts: dict[str, list[set[int]]]) -> dict[str, list[set[int]]]:
    """Remove states that more than half of the fields of every part share, such as a start from rest.

    >>> without_common({"a": [{0, 1}, {0, 2}], "b": [{0, 1}]})
    {'a': [{1}, {2}], 'b': [{1}]}
    """
    many = [
        {
            state
            for state, count in Counter(s for states in part for s in states).items()
            if 2 * count > len(part)
        }
        for part in parts.values()
    ]
    common = set.intersection(*many) if many else set()
    return {name: [states - common for states in part] for name, part in parts.items()}


def states_of(x: Array, y: Array | None, time: int | None) -> list[set[int]]:
    """The states of each row as hashes: its input, and its targets at every time.

    `time` is the time axis of the grid of y (N, *grid, m); without one, a target is one state. Digits beyond
    single precision and constant states are ignored.

    >>> import numpy as np
    >>> # one trajectory of four steps
    >>> u = np.random.default_rng(0).normal(size=(1, 4, 9, 1))
    >>> first, second = states_of(u[:, 0], u[:, 1:3], 0), states_of(u[:, 2], u[:, 3:], 0)
    >>> len(first[0]), len(second[0]), shared_states(first, second).tolist()
    (3, 2, [True])
    """
    found: list[set[int]] = [set() for _ in range(len(x))]
    for values in _snapshots(to_numpy(x), None if y is None else to_numpy(y), time):
        states = flat(np.asarray(values, dtype=np.float32)) + np.float32(0)  # minus zero is zero
        vary = np.ptp(states, axis=1) > 0 if states.shape[1] else np.zeros(len(states), dtype=bool)
        for i in np.flatnonzero(vary):
            found[i].add(hash(states[i].tobytes()))
    return found


def _snapshots(x: np.ndarray, y: np.ndarray | None, time: int | None) -> Iterator[np.ndarray]:
    """One state of each row at a time; inputs also appear with their channels last, as in targets."""
    yield x
    if x.ndim > 2 and x.shape[1] > 1:
        yield np.moveaxis(x, 1, -1)
    if y is not None:
        yield from [y] if time is None else np.moveaxis(y, time + 1, 0)
