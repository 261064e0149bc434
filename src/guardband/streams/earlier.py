"""All earlier scores, sorted so that the place of a new one is found at once.

A large sorted array and a short sorted list of the newest; when the list is full both become one array.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

import numpy as np

NEWEST = 500
"""How many scores wait in the short list."""


class EarlierScores:
    """Scores of which only the order counts."""

    old: np.ndarray
    new: list[float]

    def __init__(self, scores: np.ndarray) -> None:
        self.old = np.sort(np.asarray(scores, dtype=np.float64))
        self.new = []

    def __len__(self) -> int:
        return len(self.old) + len(self.new)

    def place(self, score: float) -> tuple[int, int]:
        """How many are greater than a score, and how many are equal."""
        old, new = self.old, self.new
        most, newer = int(old.searchsorted(score, "right")), bisect_right(new, score)
        greater, equal = len(old) - most + len(new) - newer, newer - bisect_left(new, score)
        if most and old[most - 1] == score:  # ties are rare, and the second search would take long
            equal += most - int(old.searchsorted(score, "left"))
        return greater, equal

    def add(self, score: float) -> None:
        """One more."""
        insort(self.new, score)
        if len(self.new) == NEWEST:
            self.old, self.new = self.ascending(), []

    def ascending(self) -> np.ndarray:
        """All of them, sorted."""
        return np.sort(np.concatenate([self.old, self.new]), kind="stable")
