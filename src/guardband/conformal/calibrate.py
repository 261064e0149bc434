"""Calibrate: held-out points turn "unsure" into "guaranteed"."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch

from guardband.arrays import (
    Array,
    ArrayLike,
    copy,
    finite,
    kind_of,
    more_than_repeats,
    rows,
    shared_rows,
    to_numpy,
)
from guardband.conformal.base import Calibrator, Groups, Threshold, labels
from guardband.conformal.grouped import Grouped
from guardband.conformal.rank import Level, exact
from guardband.conformal.scores import Scaled, Score
from guardband.conformal.split import Split
from guardband.values import Band, Observations, Prediction, Predictor


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A predictor with a guarantee: `calibrated(x, level=0.95) -> Band`, at any level.

    It keeps what it was calibrated on: the predictions and targets at the calibration points and,
    in the threshold, their sorted scores. Nothing is fitted or drawn at the call.

    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> calibrated
    Calibrated(arrays, score=Scaled(), calibrator=Split(), n=9)
    >>> prediction = gb.Prediction(None, [10.0])
    >>> [float(calibrated.band(prediction, level).upper.round(6)[0, 0]) for level in (0.5, 0.9)]
    [15.0, 19.0]
    """

    predictor: Predictor | None
    score: Score
    calibrator: Calibrator
    threshold: Threshold
    prediction: Prediction
    y: Array
    groups: np.ndarray | None = None
    confidence: Level | None = None

    def __call__(self, x: ArrayLike, level: Level = 0.95, *, groups: Groups = None) -> Band:
        """The band at x (n, d): a new y is inside with probability at least `level`."""
        return self.band(self.predict(x), level, groups=groups)

    def predict(self, x: ArrayLike) -> Prediction:
        """What the predictor believes at x (n, d), before calibration."""
        if self.predictor is None:
            raise ValueError(
                "This was calibrated from arrays and has no predictor to call at x: "
                "use `calibrated.band(gb.Prediction(x, mean, scale), level)`."
            )
        x = finite(rows(x, "x"), "x")
        _same_places(x, self.prediction.x)
        return _ask(self.predictor, x)

    def band(self, prediction: Prediction, level: Level = 0.95, *, groups: Groups = None) -> Band:
        """The band around a prediction already made: a sweep over levels pays the predictor once."""
        if not isinstance(prediction, Prediction):
            raise TypeError(
                f"`band` takes a gb.Prediction(x, mean, scale), got {type(prediction).__name__}. "
                "Call `calibrated(x)` with points, or wrap your arrays in a Prediction."
            )
        _same_outputs(prediction, self.prediction)
        _same_places(prediction.x, self.prediction.x)
        if groups is not None:
            groups = labels(groups, len(prediction))
        q = self.threshold(prediction, level, groups)
        return self.score.band(prediction, q, float(exact(level)))

    @property
    def promise(self) -> str:
        """What is promised, and under which assumption, in words for a person."""
        if self.confidence is None:
            return self.calibrator.promise
        alone = " of each group by itself" if isinstance(self.calibrator, Grouped) else ""
        return (
            f"{self.calibrator.promise} With confidence {float(exact(self.confidence)):g} this holds{alone} "
            "for the calibration set at hand, not only on average over such sets."
        )

    def __repr__(self) -> str:
        predictor = "arrays" if self.predictor is None else _name(self.predictor)
        parts = [
            predictor,
            f"score={self.score!r}",
            f"calibrator={self.calibrator!r}",
            f"n={getattr(self.threshold, 'n', len(self.y))}",
        ]
        if self.confidence is not None:
            parts.append(f"confidence={float(exact(self.confidence)):g}")
        return f"Calibrated({', '.join(parts)})"


def calibrate(
    predictor: Predictor,
    x_cal: ArrayLike,
    y_cal: ArrayLike,
    *,
    score: Score | None = None,
    calibrator: Calibrator | None = None,
    groups: Groups = None,
    confidence: Level | None = None,
) -> Calibrated:
    """Calibrate a predictor on points it has not seen: x_cal (n, d) and measured y_cal (n, m).

    The guarantee holds if these points and the new ones are exchangeable: drawn alike, from the
    same places with the same noise. They must not be training points. What is covered is a new
    *measurement* y, noise included.

    `score` is how misses are measured, `Scaled()` by default; `calibrator` how the threshold is
    found, `Split()` by default; `groups` one label per point for calibrators that use them;
    `confidence` asks for "coverage at least `level` with this probability over calibration sets",
    for a level fixed beforehand, instead of on average over them.

    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 50)
    >>> y = np.sin(3 * x) + 0.1 * np.cos(50 * x)
    >>> calibrated = gb.calibrate(gb.predictors.Constant(lambda x: np.sin(3 * x)), x, y)
    >>> calibrated([0.2, 0.4], level=0.9)
    Band(level=0.9, 2 points)
    """
    x = copy(finite(rows(x_cal, "x_cal"), "x_cal"))  # what was calibrated on stays, whatever becomes of it
    y = finite(rows(y_cal, "y_cal"), "y_cal")
    if len(x) != len(y):
        raise ValueError(f"`x_cal` and `y_cal` should pair up, got {len(x)} and {len(y)} rows.")
    prediction = _ask(predictor, x)
    for owner in (predictor, calibrator):
        refuse_training_rows(_training_rows(owner), x, y)
    held_out = getattr(calibrator, "held_out", None)
    if held_out is not None and shared_rows([x, y], [held_out.x, held_out.y]).any():
        raise ValueError("Some calibration points are among the held-out rows. Hold out others.")
    return _calibrated(predictor, prediction, y, score, calibrator, groups, confidence)


def calibrate_arrays(
    mean_cal: ArrayLike,
    y_cal: ArrayLike,
    scale_cal: ArrayLike | None = None,
    *,
    x_cal: ArrayLike | None = None,
    score: Score | None = None,
    calibrator: Calibrator | None = None,
    groups: Groups = None,
    confidence: Level | None = None,
) -> Calibrated:
    """Calibrate from arrays alone: predictions (n, m) at held-out points, targets, scales if any.

    The result has no model to call; give it predictions with `calibrated.band(Prediction(...))`.

    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> calibrated.band(gb.Prediction(None, [10.0]), level=0.9).upper.round(6)
    array([[19.]])
    """
    scale = None if scale_cal is None else copy(rows(scale_cal, "scale_cal"))
    x = None if x_cal is None else copy(rows(x_cal, "x_cal"))
    prediction = Prediction(x, copy(rows(mean_cal, "mean_cal")), scale)
    y = finite(rows(y_cal, "y_cal"), "y_cal")
    return _calibrated(None, prediction, y, score, calibrator, groups, confidence)


def _calibrated(
    predictor: Predictor | None,
    prediction: Prediction,
    y: Array,
    score: Score | None,
    calibrator: Calibrator | None,
    groups: Groups,
    confidence: Level | None,
) -> Calibrated:
    score, calibrator = score or Scaled(), calibrator or Split()
    for name, value, kind, example in (
        ("score", score, Score, "Scaled()"),
        ("calibrator", calibrator, Calibrator, "Split()"),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"`{name}` should be an object such as {example}, got {value!r}.")
    y = copy(kind_of(prediction.mean, y))
    if y.shape != prediction.mean.shape:
        raise ValueError(
            "`y_cal` should have the shape of the predictions, "
            f"got {tuple(y.shape)} beside {tuple(prediction.mean.shape)}."
        )
    if len(y) == 0:
        raise ValueError("`y_cal` should hold at least one calibration point, got none.")
    if groups is not None:
        groups = labels(groups, len(y))
    if confidence is not None:
        confidence = exact(confidence, "confidence")
    calibrator = calibrator.prepared(predictor, score)
    scores = to_numpy(score(prediction, y))
    threshold = calibrator.threshold(scores, prediction, groups=groups, confidence=confidence)
    return Calibrated(predictor, score, calibrator, threshold, prediction, y, groups, confidence)


def _ask(predictor: Predictor, x: Array) -> Prediction:
    wrap = "A network or a function of x becomes a predictor by `gb.predictors.Constant(net)`."
    try:
        prediction = predictor(x)
    except (TypeError, AttributeError) as error:
        if isinstance(predictor, torch.nn.Module):  # a bare network stumbles over numpy
            raise TypeError(f"{_name(predictor)} is not a predictor. {wrap}") from error
        raise
    if not isinstance(prediction, Prediction):
        raise TypeError(
            f"A predictor should return a Prediction, {_name(predictor)} returned "
            f"{type(prediction).__name__}. {wrap}"
        )
    if len(prediction) != len(x):
        raise ValueError(
            f"A predictor should return one row per point, {_name(predictor)} returned "
            f"{len(prediction)} rows for {len(x)} points."
        )
    return prediction


def _training_rows(owner: Predictor | Calibrator | None) -> Observations | None:
    """The training data a predictor or calibrator carries; on a torch module, `train` is a method."""
    train = getattr(owner, "train", None)
    if train is None or callable(train):
        return None
    if not isinstance(train, Observations):
        raise TypeError(f"`train` should be gb.Observations(x, y), got {type(train).__name__}.")
    return train


def refuse_training_rows(train: Observations | None, x: Array, y: Array) -> None:
    """A network is better at points it was trained on, so their scores promise too much."""
    if train is None or x.shape[1:] != train.x.shape[1:]:
        return
    same_x = shared_rows([x], [train.x])
    if not same_x.any():
        return
    if y.shape[1:] == train.y.shape[1:]:
        same = shared_rows([x, y], [train.x, train.y])
        if more_than_repeats(same, [train.x, train.y]):
            raise ValueError(
                f"{int(same.sum())} of {len(x)} calibration points are training points, the first "
                f"in row {int(same.argmax())}. The network has seen them, so their scores are too "
                "small and the band would cover too little. Hold out others."
            )
    warnings.warn(
        f"{int(same_x.sum())} of {len(x)} calibration points lie exactly at training inputs. That is "
        "fine for fixed sensors that were read again; otherwise check for a leak.",
        stacklevel=3,
    )


def _same_places(x: Array | None, known: Array | None) -> None:
    if x is not None and known is not None and x.shape[1:] != known.shape[1:]:
        raise ValueError(
            f"`x` should be like the calibration points, (n, {', '.join(map(str, known.shape[1:]))}), "
            f"got shape {tuple(x.shape)}."
        )


def _same_outputs(prediction: Prediction, calibrated_on: Prediction) -> None:
    if prediction.mean.shape[1:] != calibrated_on.mean.shape[1:]:
        raise ValueError(
            "The prediction should have the outputs it was calibrated with, "
            f"{tuple(calibrated_on.mean.shape[1:])}, got {tuple(prediction.mean.shape[1:])}."
        )
    if (prediction.scale is None) != (calibrated_on.scale is None):
        having = {True: "had no scale", False: "had a scale"}
        raise ValueError(
            f"At calibration the prediction {having[calibrated_on.scale is None]}, now it "
            f"{having[prediction.scale is None]}. The score must be the same function at both ends."
        )


def _name(predictor: Predictor) -> str:
    return getattr(predictor, "__name__", type(predictor).__name__)
