"""Methods follow a stream of scores: a threshold for the next one, then the score itself, again and again.

The promises are about frequencies: of T readings, whatever they are, the share outside their bands is near
1 - level. No probability is promised for a single reading.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

State: TypeAlias = Mapping[str, Any]
"""What a tracker knows, as numbers and arrays by name: all that a snapshot keeps of it."""


class Tracker(ABC):
    """A method on its way along a stream. It changes with every score.

    >>> import numpy as np
    >>> import guardband as gb
    >>> tracker = gb.streams.RollingWindow(9).start(np.arange(1.0, 10.0), level=0.9)
    >>> before = tracker.threshold
    >>> tracker.update(20.0)
    >>> before, tracker.threshold
    (9.0, 20.0)
    """

    @property
    @abstractmethod
    def threshold(self) -> float:
        """How large the next score may be: infinite, or -infinite for an empty band, where it must be."""

    @abstractmethod
    def update(self, score: float) -> None:
        """The next score has come; a miss is one above the threshold that stood before it."""

    @abstractmethod
    def state(self) -> State:
        """All that it knows, for a snapshot."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Become what a snapshot says, to the last bit."""


class StreamMethod(ABC):
    """A way to follow a stream. A value: it holds settings only.

    >>> import guardband as gb
    >>> gb.streams.AdaptiveLevel().bound(0.9, 100_000) < 0.002
    True
    """

    def __repr__(self) -> str:
        parts = fields(self) if is_dataclass(self) else ()  # only what was chosen
        chosen = [f"{p.name}={getattr(self, p.name)!r}" for p in parts if getattr(self, p.name) != p.default]
        return f"{type(self).__name__}({', '.join(chosen)})"

    @abstractmethod
    def start(self, scores: np.ndarray, level: Fraction | float) -> Tracker:
        """A tracker that begins with these calibration scores (n,), in the order in which they came."""

    @abstractmethod
    def bound(self, level: Fraction | float, steps: int) -> float | None:
        """How far the share of misses can be from 1 - level after so many steps, for scores of any kind.

        None where there is no such bound without more being known.
        """

    @abstractmethod
    def promise(self, level: Fraction | float) -> str:
        """What is promised, and under which assumption, in words for a person."""
