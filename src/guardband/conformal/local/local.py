"""Local: a threshold that follows the size of the residuals over the domain.

    q(x, level) = k-th smallest of scores / g   times   g(x, level)

The shape g > 0 is learned from residuals at training points, never from the calibration set, so it is a fixed
function when calibration starts and the exact rank of the normalized scores keeps the guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from guardband.base.arrays import Array, copy, to_numpy
from guardband.base.kept import kept
from guardband.conformal.base import Calibrator, Threshold, places
from guardband.conformal.local.guard import overfitted
from guardband.conformal.local.logscale import LogScale
from guardband.conformal.local.shape import FOLDS, Flat, Learner, LocalShape, best_shape, folds
from guardband.conformal.rank import Level
from guardband.conformal.scores import Score
from guardband.conformal.split import Split
from guardband.leaks import find_copies
from guardband.values import Observations, Prediction, Predictor


@kept(optional=("refit",))
@dataclass(frozen=True, eq=False)
class Local(Calibrator):
    """Local conformal prediction: wide where residuals are large, narrow elsewhere, covered as asked.

    `training_data` are the observations the network was trained on, by default those its predictor knows.
    Their scores, each predicted as if it had been left out where the predictor can say so, tell the `learner`
    the shape; a flat one stands beside it, and the held-out log score within these rows decides. Coverage is
    exact for any shape, and the band can be asked for at any level. (Algorithm 1 of arXiv:2509.13717, with
    the exact rank and a positive shape)

    A network that has learned the noise of its training data has residuals that say nothing. Give `held_out`,
    observations it never saw (nor calibration will), or `refit`, a function that trains a predictor on some
    observations, for residuals by cross-fitting: if training residuals are below 0.7 of those, by more than
    chance, there is a warning, and plain conformal prediction is used instead.

    From arrays alone: `prediction` holds the predictions at the training points.

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
        """Split: what a rival of constant width is calibrated by."""
        return Split()

    @property
    def used(self) -> Mapping[str, Observations]:
        """Training and held-out rows."""
        known = {"training": self.training_data, "held-out": self.held_out}
        return {what: data for what, data in known.items() if data is not None}

    @property
    def guarded(self) -> bool:
        """Whether an overfitted network would be noticed."""
        return self.held_out is not None or self.refit is not None

    @classmethod
    def for_files(
        cls, *, x: np.ndarray, queries: np.ndarray | None, training_data: Observations | None
    ) -> Local:
        """With a shape learned from the training rows."""
        if training_data is None:
            raise ValueError(
                "--calibrator local learns where the model errs from its training rows: --training-data FILE."
            )
        return cls(training_data)

    def learn(self, predictor: Predictor | None, score: Score) -> LocalShape:
        """The shape that the residuals at training points suggest."""
        known = None if predictor is None else predictor.training_data
        seen = self.training_data or known
        if seen is None:
            raise ValueError(
                "Local() learns where the model errs from its training data, which its predictor does not "
                "know: give Local(gb.Observations(x_train, y_train))."
            )
        self._check_held_out(seen)
        x = places(seen.x)
        scores = _scores(score, self._at_training(predictor, seen), seen)
        fresh = self._fresh(predictor, score, seen)
        used = {**self.used, "training": seen}
        if fresh is not None and overfitted(scores, fresh):
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
        """Nothing yet: a shape has to be learned first."""
        raise ValueError("Local() has not seen its training residuals yet; `calibrate` lets it learn.")

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
                "From arrays alone Local() needs to know what was predicted at the training points: "
                "Local(training_data, prediction=gb.Prediction(x_train, mean, scale))."
            )
        return predictor.at_training(copy(seen.x))

    def _fresh(self, predictor: Predictor | None, score: Score, seen: Observations) -> np.ndarray | None:
        """Scores at points that the network that predicts them never saw, if there is a way to get them."""
        if self.held_out is not None:
            made = self.held_out_prediction
            if made is None and predictor is None:
                raise ValueError("From arrays alone, give `held_out_prediction` with `held_out`.")
            made = predictor(copy(self.held_out.x)) if made is None else made  # type: ignore[misc]
            return _scores(score, made, self.held_out)
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
            "of misses, such as Scaled()."
        )
    return scores
