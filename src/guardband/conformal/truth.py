"""The truth behind the noise: a band for the noise-free solution, from noisy readings and the noise's law.

Misses |y - mean| are misses of the model and noise, mixed. Where the law of the noise is known, symmetric and
unimodal, P(|r + noise| > s) grows with |r|, so the share of readings beyond s bounds how often the model
itself is off by more than t; some thresholds s, fixed beforehand, are tried, and the best bound is taken.
Beside it stands a bound that needs no such law: a model off by more than q is missed by q or more in half of
all readings. The smaller of both holds with the confidence asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from guardband.base.arrays import Array
from guardband.base.kept import kept
from guardband.conformal.base import Calibrator, Size, Threshold, no_groups
from guardband.conformal.noise import NoiseLaw, means_at_places
from guardband.conformal.rank import (
    Level,
    checked,
    exact,
    half_missed,
    kth,
    points_needed,
    rank_for,
    warn_infinite,
)
from guardband.conformal.scores import Absolute, Score
from guardband.conformal.split import Split, asked
from guardband.values import Prediction, Predictor

THRESHOLDS = np.concatenate([np.linspace(0.5, 4, 15), np.geomspace(5, 50, 8)])
"""At how many standard deviations of the noise misses are counted."""

DOUBT = Fraction(1, 1000)
"""How seldom readings of the noise that was declared are said to contradict it."""

SLACK = 1e-12
"""By how much a probability is distrusted, being computed in floating point."""


@kept
@dataclass(frozen=True)
class Truth(Calibrator):
    """A band for the noise-free truth, from readings whose noise has a known law, or a bound.

    `gb.calibrate(..., target="truth", noise=gb.conformal.GaussianNoise(0.05), confidence=0.95)` makes one.
    The score is `Absolute()`, of one output. Readings at the same place, equally many at each, are averaged
    first. With a hundred points little is gained over a plain band; with thousands it becomes narrower than
    the noise. Readings that scatter less than the declared noise alone would are refused; right noise is
    refused in at most one of a thousand sets. Noise declared too large around a model that is off at some
    places is mostly not noticed: its errors take the place of the missing noise, and the promise is lost.

    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0).normal
    >>> # the model's own error, and noise
    >>> y = 0.02 * draw(size=5000) + 0.1 * draw(size=5000)
    >>> noise = gb.conformal.GaussianNoise(0.1)
    >>> calibrated = gb.calibrate(
    ...     np.zeros_like,
    ...     np.linspace(0, 1, 5000),
    ...     y,
    ...     target="truth",
    ...     noise=noise,
    ...     confidence=0.95,
    ... )
    >>> plain = gb.calibrate_arrays(0 * y, y).band(gb.Prediction(None, [0.0]), level=0.9)
    >>> calibrated([0.5], level=0.9).upper.round(2), plain.upper.round(2)
    (array([[0.1]]), array([[0.17]]))
    """

    noise: NoiseLaw
    readings: int = 1
    about: ClassVar[str] = "truth"

    def __post_init__(self) -> None:
        if not isinstance(self.noise, NoiseLaw):
            raise TypeError(
                f"`noise` should be a law, such as gb.conformal.GaussianNoise(0.05) or "
                f"gb.conformal.BoundedNoise(0.1), got {self.noise!r}."
            )

    @property
    def promise(self) -> str:
        """Coverage of the truth, with all that is assumed of the noise."""
        mean = "" if self.readings == 1 else f", readings at a place being averaged, {self.readings} each"
        alike = "If all places, those of calibration and a new one, are drawn alike"
        law = (
            f" and noise is {self.noise!r} at each, independent of the place, of the truth and of all else"
            if self.noise.known
            else f" and no reading is farther than {self.noise.bound:g} from the truth"
        )
        return (
            f"{alike}{law}{mean}, the noise-free truth at a new place lies in the band with probability at "
            "least the level. Nothing is promised about a new measurement."
        )

    def confident(self, confidence: float, each: str) -> str:
        """With this confidence over calibration sets; for a law there is no other promise."""
        if not self.noise.known:
            return super().confident(confidence, each)
        return (
            f"This holds with confidence {confidence:g} over calibration sets whose points are drawn "
            "independently of each other from one distribution, for a level that was fixed beforehand."
        )

    def prepared(self, prediction: Prediction, y: Array) -> tuple[Prediction, Array, Truth]:
        """Readings at the same place averaged, and the law of such means."""
        if prediction.x is None:
            return prediction, y, self
        prediction, y, each = means_at_places(prediction, y)
        return prediction, y, Truth(self.noise.averaged(each), self.readings * each) if each > 1 else self

    def learn(self, predictor: Predictor | None, score: Score) -> Truth:
        """Itself: it has nothing to learn, and asks for misses in the units of the noise."""
        if not score.is_distance:
            raise ValueError(
                f"A band for the truth rests on |y - mean| itself, score=gb.Absolute(), got {score!r}."
            )
        return self

    def threshold(
        self,
        scores: Array,
        prediction: Prediction,
        *,
        groups: np.ndarray | None = None,
        confidence: Level | None = None,
    ) -> Threshold:
        """How far the truth may lie from the mean; refused where the readings contradict the noise."""
        no_groups(groups, "a band for the truth", "it treats all points alike.")
        if tuple(prediction.mean.shape[1:]) != (1,):
            raise ValueError(
                "A band for the truth is about one output, (n, 1), got predictions of shape "
                f"{tuple(prediction.mean.shape)}. Calibrate each by itself: gb.calibrate(..., outputs=0)."
            )
        if not self.noise.known:
            plain = Split().threshold(scores, prediction, confidence=confidence)
            return BoundedThreshold(plain, self.noise.bound)
        if confidence is None:
            raise ValueError(
                "A band for the truth behind noise of a known law is promised with a confidence: give "
                "`confidence`, such as 0.95."
            )
        made = TruthThreshold(np.sort(checked(scores)), self.noise, confidence)
        made.refuse_contradictions()
        return made


@dataclass(frozen=True, eq=False)
class TruthThreshold(Threshold):
    """The sorted misses, the law of their noise, and the confidence, of which each bound gets half."""

    scores: np.ndarray
    noise: NoiseLaw
    confidence: Level

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> float:
        """The smaller of the two bounds; infinite, with a warning, if there are too few points."""
        no_groups(groups, "a band for the truth", "it treats all points alike.")
        t = min(self.plain(level), self.unmixed(level))
        if t == math.inf:
            size = self.size(level)
            what = f"{asked(level, self.confidence)}, of the truth,"
            warn_infinite(f"{what} needs {size.need:g} calibration points, there are {size.have:g}.")
        return t

    def plain(self, level: Level) -> float:
        """The bound of any symmetric noise: the score at 1 - (1 - level)/2, by its confident rank."""
        k = rank_for(len(self.scores), half_missed(level), half_missed(self.confidence))
        return kth(self.scores, k)

    def unmixed(self, level: Level) -> float:
        """The bound of a known law: the smallest t that the model exceeds in at most 1 - level of places."""
        s, alpha = self._counted_at, float(1 - exact(level))
        alone = self.noise.beyond(s, 0.0)
        # The share beyond s is at least alone + P(|r| > t) (beyond(s, t) - alone); so t must reach this:
        shares = self._shares(1 - half_missed(self.confidence))
        wanted = alone + (shares - alone) / alpha + SLACK
        some = (wanted < 1) & (shares > alone)  # those that noise alone would exceed say nothing of the model
        s, wanted = s[some], wanted[some]
        low, high = np.zeros(len(s)), s + 100 * self.noise.unit
        for _ in range(40):
            middle = (low + high) / 2
            enough = self.noise.beyond(s, middle) >= wanted
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        reached = self.noise.beyond(s, high) >= wanted
        return float(high[reached].min(initial=np.inf))

    def refuse_contradictions(self) -> None:
        """Noise that alone would scatter more than the readings do is not the noise they have."""
        alone = self.noise.beyond(self._counted_at, 0.0)
        shares = self._shares(DOUBT)
        if (shares < alone).any():
            i, n = int(np.argmax(alone - shares)), len(self.scores)
            s = self._counted_at[i]
            raise ValueError(
                f"The readings scatter less than their noise is said to: {int((self.scores > s).sum())} of "
                f"{n} lie farther than {s:.3g} from the prediction, and {self.noise!r} alone would put "
                f"{n * alone[i]:.0f} there. Declare smaller noise, or find out whether the model has seen "
                "these readings."
            )

    def size(self, level: Level) -> Size:
        """Each place counts as one."""
        n, need = len(self.scores), points_needed(half_missed(level), half_missed(self.confidence))
        enough = n >= need or self.unmixed(level) < math.inf  # lucky sets of fewer points are enough too
        return Size(n, min(n, need) if enough else need)

    @cached_property
    def _counted_at(self) -> np.ndarray:
        return THRESHOLDS * self.noise.unit

    def _shares(self, delta: Fraction) -> np.ndarray:
        """Upper bounds of the shares beyond the thresholds; any is wrong with probability at most delta."""
        from scipy.special import betaincinv

        n = len(self.scores)
        k = n - np.searchsorted(self.scores, self._counted_at, side="right")
        found = betaincinv(np.minimum(k + 1, n), np.maximum(n - k, 1), 1 - float(delta) / len(k))
        return np.where(k < n, found, 1.0)


@dataclass(frozen=True, eq=False)
class BoundedThreshold(Threshold):
    """The threshold for a measurement, and the most that noise can take from it."""

    plain: Threshold
    bound: float

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> float:
        """q + bound."""
        return float(self.plain(prediction, level, groups)) + self.bound

    def size(self, level: Level) -> Size | None:
        """That of the threshold for a measurement."""
        return self.plain.size(level)


def truth_of(noise: Any, score: Score | None, calibrator: Calibrator | None) -> tuple[Score, Calibrator]:
    """Score and calibrator of a band for the truth, where nobody chose others."""
    if noise is None:
        raise ValueError(
            "A band for the truth needs the law of the noise: noise=gb.conformal.GaussianNoise(0.05), "
            "LaplaceNoise, UniformNoise, or gb.conformal.BoundedNoise(0.1) where only a bound is known."
        )
    if calibrator is not None:
        raise ValueError(f"A band for the truth is a calibrator of its own; leave out {calibrator!r}.")
    return Absolute() if score is None else score, Truth(noise)
