"""Sorted collections of scores: all earlier scores, or the most recent ones."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable

import numpy as np

NEWEST = 500
"""Number of scores at which the short list is merged into the array."""


class EarlierScores:
    """All earlier scores: a large sorted array, and a short sorted list of the newest."""

    old: np.ndarray
    new: list[float]

    def __init__(self, scores: np.ndarray) -> None:
        self.old = np.sort(np.asarray(scores, dtype=np.float64))
        self.new = []

    def __len__(self) -> int:
        return len(self.old) + len(self.new)

    def place(self, score: float) -> tuple[int, int]:
        """The number of scores greater than a score, and the number equal to it."""
        old, new = self.old, self.new
        up_to, newer = int(old.searchsorted(score, "right")), bisect_right(new, score)
        greater, equal = len(old) - up_to + len(new) - newer, newer - bisect_left(new, score)
        if up_to and old[up_to - 1] == score:  # ties are rare, so the second search is usually avoided
            equal += up_to - int(old.searchsorted(score, "left"))
        return greater, equal

    def add(self, score: float) -> None:
        """Add a score."""
        insort(self.new, score)
        if len(self.new) == NEWEST:
            self.old, self.new = self.ascending(), []

    def ascending(self) -> np.ndarray:
        """All scores, sorted."""
        return np.sort(np.concatenate([self.old, self.new]), kind="stable")


class LastScores:
    """The `size` most recent scores, in the order of arrival and sorted."""

    size: int
    order: deque[float]
    ascending: list[float]

    def __init__(self, scores: Iterable[float], size: int) -> None:
        self.size = size
        self.order = deque(map(float, scores), maxlen=size)
        self.ascending = sorted(self.order)

    def add(self, score: float) -> None:
        """Add a score, and drop the oldest if there are more than `size`."""
        if len(self.order) == self.size:
            del self.ascending[bisect_left(self.ascending, self.order[0])]
        self.order.append(score)
        insort(self.ascending, score)

    def kth(self, k: int) -> float:
        """The k-th smallest, counted from 1; infinite beyond the last, -infinite before the first."""
        if k < 1:
            return -math.inf
        return self.ascending[k - 1] if k <= len(self.ascending) else math.inf

    def in_order(self) -> np.ndarray:
        """The scores in the order of arrival."""
        return np.array(self.order, dtype=np.float64)
