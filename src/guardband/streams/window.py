"""The last scores of a stream, in the order in which they came and sorted."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable

import numpy as np


class LastScores:
    """At most `size` scores; the oldest leaves when a new one comes."""

    size: int
    order: deque[float]
    ascending: list[float]

    def __init__(self, scores: Iterable[float], size: int) -> None:
        self.size = size
        self.order = deque(map(float, scores), maxlen=size)
        self.ascending = sorted(self.order)

    def add(self, score: float) -> None:
        """One more, at the cost of two short moves in a list."""
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
        """The scores as they came."""
        return np.array(self.order, dtype=np.float64)
