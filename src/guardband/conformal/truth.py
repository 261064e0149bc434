"""`Truth`: a band for the noise-free solution, from noisy readings and the distribution of the noise.

Residuals y - mean combine model error and noise. If the noise distribution is known, symmetric and unimodal,
P(|r + noise| > s) increases with |r|. The share of residuals beyond s therefore bounds the share of points at
which the model error exceeds t. The bound is evaluated at a fixed set of values of s, and the best result is
used. A second bound requires only symmetric noise: if the model error exceeds q, the reading deviates by q or
more in the same direction with probability at least one half. The smaller of the two bounds holds with the
requested confidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from guardband.base.arrays import Array
from guardband.base.kept import kept
from guardband.conformal.base import Calibrator, Size, Threshold, no_groups
from guardband.conformal.noise import NoiseLaw, average_repeats
from guardband.conformal.rank import (
    Level,
    checked_scores,
    exact,
    half_miscoverage,
    kth,
    points_needed,
    rank_for,
    warn_infinite,
)
from guardband.conformal.scores import Absolute, Score
from guardband.conformal.split import Split, level_text
from guardband.values import Prediction, Predictor

THRESHOLDS = np.concatenate([np.linspace(0.5, 4, 15), np.geomspace(5, 50, 8)])
"""Values of s, in standard deviations of the noise."""

DOUBT = Fraction(1, 1000)
"""False-alarm rate of the test that readings contradict the declared noise."""

SLACK = 1e-12
"""Safety margin for probabilities computed in floating point."""


@kept
@dataclass(frozen=True)
class Truth(Calibrator):
    """A band for the noise-free truth, from readings whose noise has a known distribution or a known bound.

    It is created by `gb.calibrate(..., target="truth", noise=gb.conformal.GaussianNoise(0.05),
    confidence=0.95)`. The score must be `Absolute()` with one output.

    Parameters
    ----------
    noise
        The distribution or the bound of the noise.
    readings
        Number of readings averaged at each point; set by the calibration.

    Notes
    -----
    Readings at the same point are averaged first, and every point must have the same number of them. With a
    hundred points the band is hardly narrower than a band for measurements; with thousands it can be narrower
    than the noise.

    Readings that scatter less than the declared noise alone are refused; correctly declared noise is refused
    with probability at most 1/1000. If the declared noise is too large and the model errs at some points, the
    mistake is usually not detected, since model error replaces the missing noise, and the guarantee is void.

    Examples
    --------
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
                "`noise` should be a distribution, such as gb.conformal.GaussianNoise(0.05) or "
                f"gb.conformal.BoundedNoise(0.1), got {self.noise!r}."
            )

    @property
    def promise(self) -> str:
        """The guarantee for the truth, with all assumptions on the noise."""
        mean = "" if self.readings == 1 else f", with {self.readings} readings averaged at each point"
        places = "If all points, those of calibration and a new one, are sampled in the same way"
        law = (
            f" and noise is {self.noise!r} at each, independent of the point, the truth and everything else"
            if self.noise.known
            else f" and no reading is farther than {self.noise.bound:g} from the truth"
        )
        return (
            f"{places}{law}{mean}, the noise-free truth at a new point lies in the band with probability at "
            "least the level. Nothing is promised about a new measurement."
        )

    def confident(self, confidence: float, each: str) -> str:
        """Return the sentence on the confidence; for known noise it is the only guarantee."""
        if not self.noise.known:
            return super().confident(confidence, each)
        return (
            f"This holds with confidence {confidence:g} over calibration sets whose points are drawn "
            "independently of each other from one distribution, for a level that was fixed beforehand."
        )

    def prepared(self, prediction: Prediction, y: Array) -> tuple[Prediction, Array, Truth]:
        """Return readings averaged by point, and the calibrator for the distribution of such means."""
        if prediction.x is None:
            return prediction, y, self
        prediction, y, each = average_repeats(prediction, y)
        return prediction, y, Truth(self.noise.averaged(each), self.readings * each) if each > 1 else self

    def learn(self, predictor: Predictor | None, score: Score) -> Truth:
        """Return the calibrator itself; raises an error unless the score is in the units of the noise."""
        if not score.is_distance:
            raise ValueError(
                f"A band for the truth needs the score |y - mean|, score=gb.Absolute(), got {score!r}."
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
        """Return the bound on |truth - mean|; raise an error if the readings contradict the noise."""
        no_groups(groups, "a band for the truth", "it treats all points in the same way.")
        if tuple(prediction.mean.shape[1:]) != (1,):
            raise ValueError(
                "A band for the truth supports one output, (n, 1), got predictions of shape "
                f"{tuple(prediction.mean.shape)}. Calibrate each output separately: "
                "gb.calibrate(..., outputs=0)."
            )
        if not self.noise.known:
            plain = Split().threshold(scores, prediction, confidence=confidence)
            return BoundedThreshold(plain, self.noise.bound)
        if confidence is None:
            raise ValueError(
                "A band for the truth under noise with a known distribution requires a confidence. Pass "
                "`confidence`, such as 0.95."
            )
        threshold = TruthThreshold(np.sort(checked_scores(scores)), self.noise, confidence)
        threshold.refuse_contradictions()
        return threshold


@dataclass(frozen=True, eq=False)
class TruthThreshold(Threshold):
    """The sorted absolute residuals, the noise, and the confidence, split equally between two bounds."""

    scores: np.ndarray
    noise: NoiseLaw
    confidence: Level

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> float:
        """Return the smaller of the two bounds; infinite, with a warning, if there are too few points."""
        no_groups(groups, "a band for the truth", "it treats all points in the same way.")
        t = min(self.symmetric_bound(level), self.distribution_bound(level))
        if t == math.inf:
            size = self.size(level)
            what = f"{level_text(level, self.confidence)}, of the truth,"
            warn_infinite(f"{what} needs {size.need:g} calibration points, but there are {size.have:g}.")
        return t

    def symmetric_bound(self, level: Level) -> float:
        """The bound for any symmetric noise: the score at level 1 - (1 - level)/2, by its confident rank."""
        k = rank_for(len(self.scores), half_miscoverage(level), half_miscoverage(self.confidence))
        return kth(self.scores, k)

    def distribution_bound(self, level: Level) -> float:
        """The bound from the noise distribution; at most a share 1 - level of the model errors exceeds it."""
        s, alpha = self._thresholds, float(1 - exact(level))
        alone = self.noise.beyond(s, 0.0)
        # share beyond s >= alone + P(|r| > t) (beyond(s, t) - alone), so t is valid if beyond(s, t) reaches:
        shares = self._shares(1 - half_miscoverage(self.confidence))
        wanted = alone + (shares - alone) / alpha + SLACK
        informative = (wanted < 1) & (shares > alone)  # shares below those of the noise alone give no bound
        s, wanted = s[informative], wanted[informative]
        low, high = np.zeros(len(s)), s + 100 * self.noise.unit
        for _ in range(40):
            middle = (low + high) / 2
            enough = self.noise.beyond(s, middle) >= wanted
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        reached = self.noise.beyond(s, high) >= wanted
        return float(high[reached].min(initial=np.inf))

    def refuse_contradictions(self) -> None:
        """Raise an error if the declared noise alone would scatter more than the readings do."""
        alone = self.noise.beyond(self._thresholds, 0.0)
        shares = self._shares(DOUBT)
        if (shares < alone).any():
            i, n = int(np.argmax(alone - shares)), len(self.scores)
            s = self._thresholds[i]
            raise ValueError(
                f"The readings scatter less than the declared noise: {int((self.scores > s).sum())} of "
                f"{n} lie farther than {s:.3g} from the prediction, and {self.noise!r} alone would put "
                f"{n * alone[i]:.0f} there. Declare smaller noise, or find out whether the model has seen "
                "these readings."
            )

    def size(self, level: Level) -> Size:
        """Return the available and required number of points."""
        n, need = len(self.scores), points_needed(half_miscoverage(level), half_miscoverage(self.confidence))
        enough = n >= need or self.distribution_bound(level) < math.inf  # fewer points may suffice
        return Size(n, min(n, need) if enough else need)

    @cached_property
    def _thresholds(self) -> np.ndarray:
        return THRESHOLDS * self.noise.unit

    def _shares(self, delta: Fraction) -> np.ndarray:
        """Upper bounds of the shares beyond the thresholds, jointly valid with probability 1 - delta."""
        from scipy.special import betaincinv

        n = len(self.scores)
        k = n - np.searchsorted(self.scores, self._thresholds, side="right")
        found = betaincinv(np.minimum(k + 1, n), np.maximum(n - k, 1), 1 - float(delta) / len(k))
        return np.where(k < n, found, 1.0)


@dataclass(frozen=True, eq=False)
class BoundedThreshold(Threshold):
    """The threshold for a measurement, and the largest error that the noise can hide."""

    plain: Threshold
    bound: float

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> float:
        """Return q + bound."""
        return float(self.plain(prediction, level, groups)) + self.bound

    def size(self, level: Level) -> Size | None:
        """Return the available and required number of points of the threshold for a measurement."""
        return self.plain.size(level)


def truth_calibration(
    noise: NoiseLaw | None, score: Score | None, calibrator: Calibrator | None
) -> tuple[Score, Calibrator]:
    """Score and calibrator of a band for the truth, with defaults."""
    if noise is None:
        raise ValueError(
            "A band for the truth needs a noise distribution: noise=gb.conformal.GaussianNoise(0.05), "
            "LaplaceNoise, UniformNoise, or gb.conformal.BoundedNoise(0.1) if only a bound is known."
        )
    if calibrator is not None:
        raise ValueError(f"A band for the truth chooses its own calibrator. Omit {calibrator!r}.")
    return Absolute() if score is None else score, Truth(noise)
