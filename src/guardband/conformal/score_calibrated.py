"""`ScoreCalibrated`: prediction sets defined by a score and a threshold, the most common kind of set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from guardband.base.arrays import Array, ArrayLike, kind_of, rows, to_numpy
from guardband.base.kept import attributes, kept
from guardband.conformal.base import (
    Calibrator,
    Groups,
    Learned,
    Pieces,
    Size,
    Threshold,
    Traits,
    group_labels,
    traits_of,
)
from guardband.conformal.calibrated import Calibrated
from guardband.conformal.predict import VALIDATION, name_of, predict, training_data_of, validation_data_of
from guardband.conformal.rank import Level, exact
from guardband.conformal.scores import Score, Side
from guardband.conformal.sides import OneSided
from guardband.values import Band, Names, NormBand, Observations, Prediction, Predictor
from guardband.values.frames import PROBES, Columns, is_frame, on_axes
from guardband.values.grids import FieldGrid
from guardband.values.labeled import Axes, inputs, matched, several

FIXED = "This assumes that model, score and settings were fixed without the calibration data."
"""An assumption of every promise that is based on calibration scores."""


@dataclass(frozen=True, eq=False)
class ScoreCalibrated(Calibrated):
    """A predictor with a score and a threshold: the set at x contains all y with a score <= q(x, level).

    It stores the predictions and targets at the calibration points and, in the threshold, their sorted
    scores. A call neither fits nor draws anything.

    Parameters
    ----------
    predictor
        The calibrated predictor; None if it was calibrated from arrays.
    score
        How errors are measured.
    calibrator
        The settings that turned the scores into a threshold.
    learned
        The calibrator after its training step.
    threshold
        The threshold as a function of prediction and level.
    prediction
        The prediction at the calibration points.
    y
        Calibration targets, shape (n, m).
    groups
        Group label of each calibration point, shape (n,), or None.
    confidence
        Probability over calibration sets with which the coverage is guaranteed, or None.
    columns
        Columns of the frame used for calibration, or None.
    axes
        Names of the axes of the inputs, "x", and of the targets, "y", if calibration data had names.
    names
        Names of the columns of arrays, or None.

    Examples
    --------
    >>> import guardband as gb
    >>> calibrated = gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> calibrated
    Calibrated(arrays, score=Scaled(), calibrator=Split(), n=9)
    >>> prediction = gb.Prediction(None, [10.0])
    >>> [
    ...     float(calibrated.band(prediction, level).upper.round(6)[0, 0])
    ...     for level in (0.5, 0.9)
    ... ]
    [15.0, 19.0]
    """

    predictor: Predictor | None
    score: Score
    calibrator: Calibrator
    learned: Learned
    threshold: Threshold
    prediction: Prediction  # type: ignore[assignment]
    y: Array
    groups: np.ndarray | None = None
    confidence: Level | None = None
    columns: Columns | None = None
    axes: Mapping[str, Axes] = field(default_factory=dict)
    names: Names | None = None

    def predict(self, x: ArrayLike) -> Prediction:
        """Return the prediction at x (n, d) before calibration."""
        if self.predictor is None:
            raise ValueError(
                "This object was calibrated from arrays and has no predictor to call at x. "
                "Use `calibrated.band(gb.Prediction(x, mean, scale), level)`."
            )
        x = self.places(x)
        known = self.prediction.x
        if self.columns is None and known is not None and x.shape[1:] != known.shape[1:]:
            _refuse_places(x, known)
        return predict(self.predictor, x)

    def places(self, x: ArrayLike) -> Array:
        """Arrange new inputs by name, in the order used at calibration or expected by the network.

        Parameters
        ----------
        x
            Points, shape (n, d), or a frame.

        Returns
        -------
        Array
            The inputs that the predictor receives.
        """
        known = self.axes.get("x")
        names = self.names or (None if self.predictor is None else self.predictor.field_names)
        if self.columns is None and known is None and names is not None:
            x, known = on_axes(x, names.axes) if is_frame(x) else x, Axes.of_columns(names.axes)
        return inputs(x, self.columns, known)

    def band(self, prediction: Prediction, level: Level = 0.95, *, groups: Groups = None) -> Any:
        """Return the set around an existing prediction; a sweep over levels evaluates the model once."""
        q = self.threshold(prediction, level, self._checked(prediction, groups))
        band = self.score.band(prediction, q, float(exact(level)))
        if self.field_names is not None and isinstance(band, Band):
            object.__setattr__(band, "names", self.field_names)
        if "y" in self.axes and isinstance(band, Band | NormBand):
            object.__setattr__(band, "targets", self.axes["y"])
        grid = self.score.grid
        if grid is not None and tuple(band.mean.shape[1:-1]) == grid.shape:
            object.__setattr__(band, "grid", grid)
        return band

    @property
    def grid(self) -> FieldGrid | None:
        """The named axes of the fields used for calibration, if the score depends on them."""
        return self.score.grid

    def derived(self, y: Array) -> Array:
        """Return the quantities of the targets that the score measures."""
        return self.score.derived(y)

    def remarks(
        self, prediction: Prediction, y: Array, level: Level, groups: np.ndarray | None = None
    ) -> list[str]:
        """Return the remarks of the score and of the predictor on these targets."""
        others = [] if self.predictor is None else self.predictor.remarks(self, prediction, level)
        return [*self.score.remarks(prediction, y, self.threshold(prediction, level, groups)), *others]

    @property
    def field_names(self) -> Names | None:
        """Names of axes and outputs: `names`, or those of the predictor if columns are unnamed."""
        return self._field_names

    @cached_property
    def _field_names(self) -> Names | None:
        if self.names is not None:
            return self.names
        known = None if self.predictor is None or self.columns is not None else self.predictor.field_names
        x, mean = self.prediction.x, self.prediction.mean
        if known is None or mean.ndim != 2 or len(known.outputs) != mean.shape[1]:
            return None
        return known if x is None or x.shape[1] == len(known.axes) else None

    def with_names(self, names: Names) -> ScoreCalibrated:
        """Return a copy with names for the columns of arrays; the object itself if names are known."""
        return (
            self if self.columns is not None or self.field_names is not None else replace(self, names=names)
        )

    def contains_at(
        self, prediction: Prediction, y: ArrayLike, levels: Sequence[Level], *, groups: Groups = None
    ) -> np.ndarray:
        """Return which targets score at most the threshold at several levels; scores are computed once."""
        groups = self._checked(prediction, groups)
        thresholds = [self.threshold(prediction, at, groups) for at in levels]
        y = rows(self.targets(y), "y")
        scores = to_numpy(self.score(prediction, kind_of(prediction.mean, y)))
        if all(isinstance(q, float) for q in thresholds):
            inside = scores <= np.asarray(thresholds, dtype=float).reshape(-1, *[1] * scores.ndim)
        else:
            inside = np.stack([scores <= to_numpy(q) for q in thresholds])
        return np.asarray(inside.all(axis=2)) if self.joint and inside.ndim == 3 else inside

    def _checked(self, prediction: Prediction, groups: Groups) -> np.ndarray | None:
        if not isinstance(prediction, Prediction):
            raise TypeError(
                f"`band` takes a gb.Prediction(x, mean, scale), got {type(prediction).__name__}. "
                "Call `calibrated(x)` with points, or wrap your arrays in a Prediction."
            )
        known = self.prediction
        if not isinstance(prediction, type(known)):
            raise TypeError(
                f"At calibration the prediction was a {type(known).__name__}, now it is a "
                f"{type(prediction).__name__}. The score must be the same function at both times."
            )
        if prediction.mean.shape[1:] != known.mean.shape[1:] or (prediction.scale is None) != (
            known.scale is None
        ):
            _refuse_outputs(prediction, known)
        x, places = prediction.x, None if self.columns is not None else known.x
        if x is not None and places is not None and x.shape[1:] != places.shape[1:]:
            _refuse_places(x, places)
        self._refuse_columns(prediction.columns)
        axes, known = several(prediction.targets), self.target_axes
        if axes and known and matched(prediction.mean, axes, known, "mean") is not prediction.mean:
            raise ValueError(
                "The axes or columns of the mean of this prediction should be those of calibration, "
                f"{', '.join(map(str, known.words or known.dims[1:]))}. Reorder them to match."
            )
        return None if groups is None else group_labels(groups, len(prediction))

    def _refuse_columns(self, columns: tuple[str | int, ...] | None) -> None:
        """Raise an error if the columns of x in a prediction are not in the order used at calibration."""
        known = None if self.columns is None else self.columns.numeric
        known = known or ("x" in self.axes and self.axes["x"].words) or columns
        if columns is not None and known != columns:
            raise ValueError(
                f"The x of this prediction has the columns {', '.join(map(str, columns))}; at calibration "
                f"they were {', '.join(map(str, known or ()))}. Reorder them to match."
            )

    @cached_property
    def _traits(self) -> Traits:
        of_threshold = traits_of(self.threshold)
        return replace(
            of_threshold,
            is_elementwise=self.score.is_elementwise and of_threshold.is_elementwise,
            joint=self.score.joint,
            is_box=self.score.is_box,
            guarded=self.learned.guarded,
            about=self.learned.about,
        )

    @property
    def traits(self) -> Traits:
        """The traits of the threshold, combined with those of score and calibrator."""
        return self._traits

    @property
    def promise(self) -> str:
        """The guarantee and its assumptions, in words."""
        details = f" {FIXED}"
        details += "" if self.joint else " This is promised for each output separately, not for all jointly."
        details += f" {self.score.scope}".rstrip()
        details += "" if self.predictor is None else f" {self.predictor.scope}".rstrip()
        if self.confidence is None:
            return f"{self.learned.promise}{details}"
        each = " for each group separately" if self.threshold.needs_groups else ""
        conditional = self.learned.confident(float(exact(self.confidence)), each)
        return f"{self.learned.promise}{details} {conditional}"

    def promised(self, level: Level) -> Fraction | None:
        """Return the coverage probability that the calibrator guarantees at a level."""
        return self.learned.promised(level)

    def laws(self, level: Level, m: int, groups: np.ndarray | None = None) -> Pieces | None:
        """Return the exact law of the number of covered points among m new ones, for i.i.d. points."""
        return self.threshold.laws(level, m, groups)

    def laws_for(
        self, prediction: Prediction, level: Level, groups: np.ndarray | None = None
    ) -> Pieces | None:
        """Return the exact law of the number of covered points among given test points."""
        return self.threshold.laws_for(prediction, level, groups)

    def size(self, level: Level) -> Size | None:
        """Return the number of calibration points and the number that a finite set needs; None if unknown."""
        return self.threshold.size(level)

    @property
    def n(self) -> int:
        """The number of calibration scores."""
        count = self.threshold.count()
        return len(self.y) if count is None else count

    @property
    def name(self) -> str:
        """The name of the calibrator."""
        return f"{type(self.calibrator).__name__}()"

    @property
    def used(self) -> Mapping[str, Observations]:
        """The training data of the predictor, and the data that the calibrator learned from."""
        training, used = training_data_of(self.predictor), dict(self.learned.used)
        validation = validation_data_of(self.predictor)
        used |= {} if validation is None else {VALIDATION: validation}
        if training is None:
            return used
        other = used.pop("training", training)
        return {"training": training, **used} | ({} if other is training else {"further training": other})

    def one_sided(self, side: Side | tuple[Side, ...]) -> Calibrated | None:
        """Return one-sided bounds, calibrated on the same points with the same guarantee."""
        if len(self.y) == 0 or self.about != "measurement":
            return None
        return calibrate_prediction(
            self.predictor,
            self.prediction,
            self.y,
            score=OneSided(self.score.two_sided, side),
            calibrator=self.calibrator,
            groups=self.groups,
            confidence=self.confidence,
            columns=self.columns,
            learned=self.learned,
            axes=self.axes,
            names=self.names,
        )

    def excesses(self, prediction: Prediction, y: Array) -> tuple[Array, Array]:
        """Return how far targets lie below and above the prediction, in units of the score."""
        return self.score.two_sided.excesses(prediction, y)

    def shift_weights(self, prediction: Prediction) -> np.ndarray | None:
        """Return the weights of points under a covariate shift; None if there is no shift."""
        return self.threshold.shift_weights(prediction)

    def constant_width(self) -> Calibrated | None:
        """Return the baseline of constant width, calibrated on the same points with the same guarantee."""
        return self.around(Prediction(self.prediction.x, self.prediction.mean))

    def around(self, prediction: Prediction) -> Calibrated | None:
        """Return the plain score calibrated on the same targets with other predictions of them."""
        if len(self.y) == 0:
            return None
        return calibrate_prediction(
            None,
            prediction,
            self.y,
            score=self.score.plain.learn(self.used.get("training"), prediction),
            calibrator=self.learned.plain,
            groups=self.groups,
            confidence=self.confidence,
        )

    def before(self, prediction: Prediction, level: Level) -> Band | None:
        """Return the uncalibrated band from the predictor's own scale; None if it has no scale."""
        return self.score.before(prediction, level)

    def misses(self, level: Level) -> np.ndarray | None:
        """Return each calibration score divided by the threshold at its point."""
        if len(self.y) == 0 or not self.joint:
            return None
        scores = to_numpy(self.score(self.prediction, self.y)).astype(float)
        groups = self.groups if self.needs_groups else None
        q = np.asarray(self.threshold(self.prediction, level, groups), dtype=float)
        if scores.ndim > 1 or not (q > 0).all() or (scores < 0).any():
            return None
        with np.errstate(invalid="ignore"):
            return scores / q

    def fingerprint(self) -> dict[str, np.ndarray]:
        """Return the scores, and the output of predictor and threshold at some calibration points."""
        some = self.prediction.take(slice(PROBES))
        groups = self.groups[:PROBES] if self.needs_groups and self.groups is not None else None
        found = {
            **self._predicted_again(some).parts,
            "thresholds": np.atleast_1d(self.threshold(some, "0.5", groups)) if len(self.y) else None,
            "scores": self.score(self.prediction, self.y) if len(self.y) else None,
        }
        return {name: to_numpy(values) for name, values in found.items() if values is not None}

    def _predicted_again(self, some: Prediction) -> Prediction:
        """The predictor evaluated again at some calibration points."""
        if self.predictor is None or (some.x is None and self.columns is None):
            return some
        if self.columns is None:
            return predict(self.predictor, some.x)
        frame = self.columns.first(np.empty((len(some), 0)) if some.x is None else to_numpy(some.x))
        return some if frame is None else predict(self.predictor, frame)

    def __repr__(self) -> str:
        parts = [
            "arrays" if self.predictor is None else name_of(self.predictor),
            f"score={self.score!r}",
            f"calibrator={self.learned!r}",
            f"n={self.n}",
        ]
        if self.confidence is not None:
            parts.append(f"confidence={float(exact(self.confidence)):g}")
        return f"Calibrated({', '.join(parts)})"


def _restored(parts: dict[str, Any]) -> ScoreCalibrated:
    """A calibration restored from its stored parts; the threshold is recomputed from the scores."""
    prediction, score, learned = parts["prediction"], parts["score"], parts["learned"]
    prediction = type(prediction)(**attributes(prediction))  # validated as on construction
    scores = to_numpy(score(prediction, parts["y"])) if len(parts["y"]) else parts["threshold"].scores
    options = {"groups": parts["groups"], "confidence": parts["confidence"]}
    threshold = score.threshold(learned, scores, prediction, **options)
    return ScoreCalibrated(**{**parts, "prediction": prediction, "threshold": threshold})


kept(
    name="Calibrated",
    parts=lambda value: {
        part: item
        for part, item in attributes(value).items()
        if (part != "threshold" or not len(value.y))
        and (part != "axes" or item)
        and (part, item) != ("names", None)
    },
    made=_restored,
)(ScoreCalibrated)


def calibrate_prediction(
    predictor: Predictor | None,
    prediction: Prediction,
    y: Array,
    *,
    score: Score,
    calibrator: Calibrator,
    groups: Groups = None,
    confidence: Level | None = None,
    columns: Columns | None = None,
    learned: Learned | None = None,
    grid: FieldGrid | None = None,
    axes: Mapping[str, Axes] | None = None,
    names: Names | Sequence[str] | None = None,
) -> ScoreCalibrated:
    """Calibrate existing predictions: learn from other data, compute the scores, then the threshold."""
    for name, value, kind, example in (
        ("score", score, Score, "Scaled()"),
        ("calibrator", calibrator, Calibrator, "Split()"),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"`{name}` should be an object such as {example}, got {value!r}.")
    if y.shape != prediction.mean.shape:
        cure = " Both should be fields of shape (N, *grid, m), with outputs last." if y.ndim > 2 else ""
        raise ValueError(
            "`y_cal` should have the shape of the predictions, "
            f"got {tuple(y.shape)} and {tuple(prediction.mean.shape)}.{cure}"
        )
    if len(y) == 0:
        raise ValueError("`y_cal` should hold at least one calibration point, got none.")
    if names is not None:
        names = checked_names(names, predictor, prediction, columns)
    if groups is not None:
        groups = group_labels(groups, len(y))
    if confidence is not None:
        confidence = exact(confidence, "confidence")
    score = score if grid is None else score.on(grid)
    prediction, y, calibrator = calibrator.prepared(prediction, y)
    score = score.learn(training_data_of(predictor), prediction)
    learned = calibrator.learn(predictor, score) if learned is None else learned
    scores = to_numpy(score(prediction, y))
    threshold = score.threshold(learned, scores, prediction, groups=groups, confidence=confidence)
    return ScoreCalibrated(
        predictor,
        score,
        calibrator,
        learned,
        threshold,
        prediction,
        y,
        groups,
        confidence,
        columns,
        dict(axes or {}),
        names,
    )


def checked_names(
    names: Names | Sequence[str], predictor: Predictor | None, prediction: Prediction, columns: Columns | None
) -> Names:
    """Names for arrays; raises an error if the columns or the predictor are already named."""
    x, mean = prediction.x, prediction.mean
    if mean.ndim != 2 or (x is not None and x.ndim != 2):
        raise ValueError("`names` apply to points, x (n, d). Name the axes of whole fields with gb.Fields.")
    declared = None if columns is not None or predictor is None else predictor.field_names
    checked = Names.given(names, None if x is None else x.shape[1], mean.shape[1])
    if columns is not None or (declared is not None and declared != checked):
        existing = columns if declared is None else ", ".join((*declared.axes, *declared.outputs))
        raise ValueError(
            f"`names` apply to arrays without names, but the names are {existing}. Omit `names`."
        )
    return checked


def _refuse_places(x: Array, known: Array) -> None:
    raise ValueError(
        f"`x` should have the shape of the calibration points, (n, {', '.join(map(str, known.shape[1:]))}), "
        f"got shape {tuple(x.shape)}."
    )


def _refuse_outputs(prediction: Prediction, calibrated_on: Prediction) -> None:
    if prediction.mean.shape[1:] != calibrated_on.mean.shape[1:]:
        whole = calibrated_on.mean.ndim > 2
        what = "the grid and outputs" if whole else "the outputs"
        why = " A promise applies only to the nodes and steps used at calibration." * whole
        raise ValueError(
            f"The prediction should have {what} that it had at calibration, "
            f"{tuple(calibrated_on.mean.shape[1:])}, got {tuple(prediction.mean.shape[1:])}.{why}"
        )
    having = {True: "had no scale", False: "had a scale"}
    raise ValueError(
        f"At calibration the prediction {having[calibrated_on.scale is None]}, now it "
        f"{having[prediction.scale is None]}. The score must be the same function at both times."
    )
