"""`Local`: a threshold that follows the size of the residuals over the domain.

    q(x, level) = k-th smallest of scores / g   times   g(x, level)

The shape g > 0 is learned from residuals at training points and never from the calibration set. It is a fixed
function at calibration, so the exact rank of the normalized scores gives the usual guarantee.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from guardband.base.arrays import Array, copy, to_numpy
from guardband.base.kept import kept
from guardband.conformal.base import Calibrator, Threshold, point_array
from guardband.conformal.local.logscale import LogScale
from guardband.conformal.local.shape import FOLDS, Flat, Learner, LocalShape, best_shape, folds
from guardband.conformal.rank import Level
from guardband.conformal.scores import Score
from guardband.conformal.split import Split
from guardband.leaks import find_copies
from guardband.values import Observations, Prediction, Predictor

OVERFITTED, CHANCE = 0.7, 0.01
"""Overfitting: the median training score is below this share of the median held-out score, and the one-sided
Mann-Whitney test has a p-value below CHANCE.
"""


class OverfittedWarning(UserWarning):
    """The training residuals of the model are too small to learn a local shape from.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import guardband as gb
    >>> x, model = np.arange(40.0), np.sin
    >>> local = gb.Local(
    ...     gb.Observations(x, np.sin(x)), held_out=gb.Observations(x + 0.1, np.cos(x))
    ... )
    >>> with warnings.catch_warnings(
    ...     action="ignore", category=gb.conformal.OverfittedWarning
    ... ):
    ...     calibrated = gb.calibrate(model, x + 0.2, np.cos(x), calibrator=local)
    >>> calibrated.learned
    LocalShape(Flat())
    """


@kept(optional=("refit",))
@dataclass(frozen=True, eq=False)
class Local(Calibrator):
    """Local conformal prediction: wide where residuals are large and narrow elsewhere, with exact coverage.

    The shape of the band is learned from scores at training points. The learned shape is compared with a flat
    one by cross-validation within the training data, and the flat one is used if it is clearly better.
    Coverage is exact for any shape and any level.

    Parameters
    ----------
    training_data
        Observations that the model was trained on; by default those that the predictor declares.
    learner
        Method that learns the shape from scores.
    held_out
        Observations used neither for training nor for calibration, to detect overfitting.
    refit
        A function that trains a predictor on given observations. It is used for cross-fitted residuals, which
        detect overfitting and replace the training residuals.
    prediction
        The prediction at the training points, for calibration from arrays alone.
    held_out_prediction
        The prediction at the held-out points, for calibration from arrays alone.

    Notes
    -----
    A model that has fitted the noise of its training data has residuals that carry no information about its
    errors. If training residuals are significantly below 0.7 times those of `held_out` or `refit`, `Local`
    warns and uses plain conformal prediction. Predictors that can predict training points as if left out do
    so. Reference: Algorithm 1 of arXiv:2509.13717, here with the exact rank and a positive shape.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> from guardband import pinn
    >>> draw = np.random.default_rng(0)
    >>> x = draw.uniform(size=(2, 100))
    >>> # the right half is noisier
    >>> y = np.where(x < 0.5, 0.1, 1.0) * draw.normal(size=x.shape)
    >>> # the default takes seconds
    >>> quick = pinn.PinballNetwork(steps=40, widths=(16,), learning_rate=0.02)
    >>> local = gb.Local(gb.Observations(x[0], y[0]), learner=quick)
    >>> calibrated = gb.calibrate(np.zeros_like, x[1], y[1], calibrator=local)
    >>> quiet, noisy = calibrated([0.2, 0.8], level=0.9).width.ravel()
    >>> bool(noisy > 2 * quiet)
    True
    """

    training_data: Observations | None = None
    learner: Learner = field(default_factory=LogScale)
    held_out: Observations | None = None
    refit: Callable[[Observations], Predictor] | None = None
    prediction: Prediction | None = None
    held_out_prediction: Prediction | None = None

    def __post_init__(self) -> None:
        for name in ("training_data", "held_out"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, Observations):
                raise TypeError(f"`{name}` should be gb.Observations(x, y), got {type(given).__name__}.")

    @property
    def plain(self) -> Calibrator:
        """Split conformal prediction, for a baseline of constant width."""
        return Split()

    @property
    def used(self) -> Mapping[str, Observations]:
        """Training and held-out observations."""
        known = {"training": self.training_data, "held-out": self.held_out}
        return {what: data for what, data in known.items() if data is not None}

    @property
    def guarded(self) -> bool:
        """Whether overfitting would be detected."""
        return self.held_out is not None or self.refit is not None

    @classmethod
    def for_files(
        cls, *, x: np.ndarray, queries: np.ndarray | None, training_data: Observations | None
    ) -> Local:
        """Create a calibrator whose shape is learned from the training data."""
        if training_data is None:
            raise ValueError(
                "--calibrator local learns where the model errs from its training rows: --training-data FILE."
            )
        return cls(training_data)

    def learn(self, predictor: Predictor | None, score: Score) -> LocalShape:
        """Learn the shape from the scores at training points."""
        known = None if predictor is None else predictor.training_data
        seen = self.training_data or known
        if seen is None:
            raise ValueError(
                "Local() learns where the model errs from its training data, which its predictor does not "
                "declare: give Local(gb.Observations(x_train, y_train))."
            )
        self._check_held_out(seen)
        x = point_array(seen.x)
        score = score.two_sided
        scores = _scores(score, self._at_training(predictor, seen), seen)
        fresh = self._fresh(predictor, score, seen)
        used = {**self.used, "training": seen}
        if fresh is not None and _overfitted(scores, fresh):
            return LocalShape(Flat(), x.shape[1], self.guarded, used)
        if self.refit is not None and fresh is not None:
            scores = fresh
        return LocalShape(best_shape(self.learner, x, scores), x.shape[1], self.guarded, used)

    def threshold(
        self,
        scores: Array,
        prediction: Prediction,
        *,
        groups: np.ndarray | None = None,
        confidence: Level | None = None,
    ) -> Threshold:
        """Raise an error: the shape is learned first, by `learn`."""
        raise ValueError("Local() has not learned a shape yet; `calibrate` calls `learn` first.")

    def __repr__(self) -> str:
        n = "the predictor's" if self.training_data is None else len(self.training_data)
        return f"Local({n} training points, {self.learner!r})"

    def _check_held_out(self, seen: Observations) -> None:
        if self.held_out is None:
            return
        found = find_copies(seen.x, seen.y, self.held_out.x, self.held_out.y)
        if found.verdict == "refuse":
            count = found.exact + found.near
            raise ValueError(f"{count} of the held-out rows are training rows. Hold out others.")

    def _at_training(self, predictor: Predictor | None, seen: Observations) -> Prediction:
        if self.prediction is not None:
            return self.prediction
        if predictor is None:
            raise ValueError(
                "From arrays alone, Local() needs the predictions at the training points: "
                "Local(training_data, prediction=gb.Prediction(x_train, mean, scale))."
            )
        return predictor.at_training(copy(seen.x))

    def _fresh(self, predictor: Predictor | None, score: Score, seen: Observations) -> np.ndarray | None:
        """Scores at points not used for training, from `held_out` or by cross-fitting, or None."""
        if self.held_out is not None:
            prediction = self.held_out_prediction
            if prediction is None:
                if predictor is None:
                    raise ValueError("From arrays alone, give `held_out_prediction` with `held_out`.")
                prediction = predictor(copy(self.held_out.x))
            return _scores(score, prediction, self.held_out)
        if self.refit is None:
            return None
        fresh = np.empty(len(seen))
        fold = folds(len(seen))
        for k in range(FOLDS):
            rest, part = (Observations(seen.x[some], seen.y[some]) for some in (fold != k, fold == k))
            fresh[fold == k] = _scores(score, self.refit(rest)(part.x), part)
        return fresh


def _scores(score: Score, prediction: Prediction, seen: Observations) -> np.ndarray:
    scores = np.asarray(to_numpy(score(prediction, seen.y)), dtype=float)
    if scores.ndim != 1 or (scores < 0).any():
        raise ValueError(
            f"Local() learns from scores >= 0, one per row, which {score!r} does not give. Use a joint score "
            "of absolute errors, such as Scaled()."
        )
    return scores


def _overfitted(scores: np.ndarray, fresh: np.ndarray) -> bool:
    """Whether training scores are significantly smaller than held-out scores; warns if they are."""
    if np.median(scores) >= OVERFITTED * np.median(fresh):
        return False
    from scipy.stats import mannwhitneyu

    if mannwhitneyu(scores, fresh, alternative="less").pvalue >= CHANCE:
        return False
    ratio = np.median(scores) / np.median(fresh)
    warnings.warn(
        f"The network has overfitted: its residuals at training points are {ratio:.2f} of those at "
        "held-out points, so they carry little information about its errors. Plain conformal prediction is "
        "used instead. Train with more regularization, or on more data.",
        OverfittedWarning,
        stacklevel=5,
    )
    return True
