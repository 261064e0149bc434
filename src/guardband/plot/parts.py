"""Parts: what is known of one output of a band, and the sentences that are said of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from guardband.base.arrays import ArrayLike
from guardband.plot.readings import Readings, readings
from guardband.plot.style import ends, output_word, said, true_values, widths
from guardband.values import Band, Observations


class Part(NamedTuple):
    """One output of a band: what is drawn of it."""

    word: str
    several: bool
    level: float
    ends: tuple[np.ndarray, np.ndarray, np.ndarray]
    widths: np.ndarray
    same: float | None
    truth: np.ndarray | None
    readings: Readings | None

    @classmethod
    def of(cls, band: Band, output: int, truth: ArrayLike | None, data: Observations | None) -> Part:
        """What is known of one output."""
        values, same = widths(band, output)
        return cls(
            output_word(band, output),
            band.mean.shape[-1] > 1,
            band.level,
            ends(band, output),
            values,
            same,
            None if truth is None else true_values(truth, band, output),
            readings(band, data, output),
        )

    @property
    def endless(self) -> bool:
        """Whether the band is infinite everywhere."""
        return bool(np.isinf(self.widths).all())

    @property
    def misses(self) -> str:
        """How many readings were missed, if there are any."""
        return "" if self.readings is None else self.readings.sentence(self.level, self.several)

    def width(self, half: bool) -> str:
        """A sentence for a width that needs no picture; empty for one that does."""
        name, share = ("half-width", 0.5) if half else ("width", 1.0)
        if self.endless:
            return f"{name} infinite everywhere"
        if self.same is not None:
            return f"{name} {said('', share * self.same, self.widths)}"
        return ""
