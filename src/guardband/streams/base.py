"""The interface of stream methods: a threshold for the next score, then an update with that score.

The guarantees concern frequencies: the share of T readings outside their bands is near 1 - level, for any
readings. They do not give a probability for a single reading.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

State: TypeAlias = Mapping[str, Any]
"""The state of a tracker in a snapshot: numbers and arrays by name."""


class Tracker(ABC):
    """The state of a method along a stream; every score changes it.

    Examples
    --------
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
        """The largest score inside the next band; it may be infinite, or -infinite for an empty band."""

    @abstractmethod
    def update(self, score: float) -> None:
        """Take the next score.

        Parameters
        ----------
        score
            The score; it is a miss if it is above the threshold before this call.
        """

    @abstractmethod
    def state(self) -> State:
        """Return the complete state for a snapshot.

        Returns
        -------
        Mapping
            Numbers and arrays by name.
        """

    @abstractmethod
    def restore(self, state: State) -> None:
        """Restore a state, bit for bit.

        Parameters
        ----------
        state
            Return value of `state`.
        """


class StreamMethod(ABC):
    """A method that adapts the threshold along a stream; an immutable value that holds only settings.

    Examples
    --------
    >>> import guardband as gb
    >>> gb.streams.AdaptiveLevel().bound(0.9, 100_000) < 0.002
    True
    """

    def __repr__(self) -> str:
        parts = fields(self) if is_dataclass(self) else ()  # only settings that differ from the default
        chosen = [f"{p.name}={getattr(self, p.name)!r}" for p in parts if getattr(self, p.name) != p.default]
        return f"{type(self).__name__}({', '.join(chosen)})"

    @abstractmethod
    def start(self, scores: np.ndarray, level: Fraction | float) -> Tracker:
        """Return a tracker that starts with calibration scores.

        Parameters
        ----------
        scores
            Calibration scores in the order of arrival, shape (n,).
        level
            Requested coverage.

        Returns
        -------
        Tracker
            The state that follows the stream.
        """

    @abstractmethod
    def bound(self, level: Fraction | float, steps: int) -> float | None:
        """Return a bound on the difference between the share of misses and 1 - level, for any scores.

        Parameters
        ----------
        level
            Requested coverage.
        steps
            Number of readings.

        Returns
        -------
        float or None
            The bound, or None if there is no bound without further assumptions.
        """

    @abstractmethod
    def promise(self, level: Fraction | float) -> str:
        """Return the guarantee and its assumptions as text.

        Parameters
        ----------
        level
            Requested coverage.

        Returns
        -------
        str
            One or more sentences.
        """
