"""Stream: bands that adapt to the readings of a sensor, one at a time."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from guardband.base.arrays import Array, ArrayLike, floats, kind_of, like, namespace, rows, to_numpy
from guardband.base.kept import kept
from guardband.conformal import Calibrated, Score
from guardband.conformal.rank import Level, allow_infinite, exact
from guardband.streams.adaptive import AdaptiveLevel
from guardband.streams.alarm import Alarm
from guardband.streams.base import StreamMethod
from guardband.values import Band, Prediction
from guardband.values.labeled import Axes, arranged_targets, matched, refuse_unpaired

T = TypeVar("T")

PredictionSet: TypeAlias = Any
"""A `Band`, or the set of a score whose sets are not boxes."""


class HasThreshold(Protocol):
    """A calibration with a threshold for its score."""

    @property
    def threshold(self) -> Callable[[Prediction, Level], float | np.ndarray]:
        """The threshold at a prediction and a level."""
        ...


@dataclass(frozen=True)
class Outcome:
    """The result of one reading.

    Attributes
    ----------
    missed
        Whether the reading lies outside its band.
    score
        Score of the reading.
    p
        p-value of the score among the earlier ones.
    alarm
        Whether the reading raises an alarm.

    Examples
    --------
    >>> import guardband as gb
    >>> stream = gb.Stream(
    ...     gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9]), level=0.9
    ... )
    >>> band = stream.band(gb.Prediction(None, [0.0]))
    >>> stream.update(10.0).missed
    True
    """

    missed: bool
    score: float
    p: float
    alarm: bool


@dataclass(frozen=True, eq=False)
class Followed:
    """The results of consecutive readings.

    Attributes
    ----------
    band
        Bands of all readings.
    read
        False for readings that are NaN, which are skipped, shape (n,).
    missed
        Whether each reading lies outside its band, shape (n,).
    p
        p-values of the scores, NaN for skipped readings, shape (n,).
    alarm
        Whether each reading raises an alarm, shape (n,).

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> stream = gb.Stream(
    ...     gb.calibrate_arrays([0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9]), level=0.9
    ... )
    >>> found = stream.follow(gb.Prediction(None, [0.0, 0.0, 0.0]), [1.0, np.nan, 99.0])
    >>> found.read, found.missed
    (array([ True, False,  True]), array([False, False,  True]))
    """

    band: PredictionSet
    read: np.ndarray
    missed: np.ndarray
    p: np.ndarray
    alarm: np.ndarray

    def __len__(self) -> int:
        return len(self.read)


class Stream:
    """A calibration that adapts to a stream of readings, which may drift.

    A stream is mutable: every reading changes it. `stream.band(x)` returns the band of the next reading, and
    `stream.update(y)` takes that reading; `stream.skip()` replaces it if no reading was taken.
    `stream.follow(x, y)` processes many readings at once, with bit-identical results.

    Parameters
    ----------
    calibrated
        Calibration with a score.
    level
        Requested coverage, strictly between 0 and 1.
    method
        Method that moves the threshold, by default `AdaptiveLevel()`. Its guarantee bounds the long-run share
        of misses for any readings.
    alarm
        Alarm that detects changes in the distribution of the scores, by default `Alarm()`.

    Notes
    -----
    The score is that of the calibration. With `Local`, the threshold keeps its shape; only its size changes.
    `snapshot` and `restore` reproduce the state bit for bit, and `gb.save` stores a snapshot.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0).normal
    >>> stream = gb.Stream(
    ...     gb.calibrate(np.zeros_like, np.arange(200.0), draw(size=200)), level=0.9
    ... )
    >>> for t in range(2000):
    ...     band = stream.band([float(t)])
    ...     outcome = stream.update((1 + t / 500) * draw())  # its noise grows fivefold
    >>> stream
    Stream(AdaptiveLevel(), level=0.9, 2000 readings, 0.101 of them missed, 3 alarms)
    """

    calibrated: Calibrated
    level: Fraction
    method: StreamMethod
    alarm: Alarm
    steps: int
    misses: int
    alarms: list[int]

    def __init__(
        self,
        calibrated: Calibrated,
        level: Level = 0.95,
        *,
        method: StreamMethod | None = None,
        alarm: Alarm | None = None,
    ) -> None:
        self.calibrated, self.level = calibrated, exact(level)
        self._level = float(self.level)
        self.method = _checked(StreamMethod, AdaptiveLevel() if method is None else method, "method")
        self.alarm = _checked(Alarm, Alarm() if alarm is None else alarm, "alarm")
        self._score, scores, self._shaped = _calibration_scores(calibrated, level)
        self._calibration_hash = hashlib.sha256(scores.tobytes()).hexdigest()
        self._tracker = self.method.start(scores, self.level)
        self._watch = self.alarm.start(scores)
        self._waiting: Prediction | None = None
        self._lock = threading.Lock()
        self.steps, self.misses, self.alarms = 0, 0, []

    def __repr__(self) -> str:
        share = "" if not self.steps else f", {self.missed:.3g} of them missed"
        count = f"{len(self.alarms)} alarm{'' if len(self.alarms) == 1 else 's'}"
        level = f"level={float(self.level):g}"
        return f"Stream({self.method!r}, {level}, {self.steps} readings{share}, {count})"

    @property
    def missed(self) -> float:
        """The share of readings outside their bands; NaN before the first reading."""
        return self.misses / self.steps if self.steps else math.nan

    @property
    def promise(self) -> str:
        """The guarantees for bands and alarms, as text."""
        return f"{self.method.promise(self.level)} Alarms: {self.alarm.promise}"

    @property
    def bound(self) -> float | None:
        """The bound on the difference between `missed` and 1 - level for any readings; None if unknown."""
        return self.method.bound(self.level, self.steps) if self.steps else None

    @property
    def threshold(self) -> float:
        """The largest score inside the next band, which may be infinite, or -infinite for an empty band."""
        return self._tracker.threshold

    def band(self, x: ArrayLike | Prediction) -> PredictionSet:
        """Return the band of the next reading.

        Parameters
        ----------
        x
            Point, shape (1, d), or a prediction with one row.

        Returns
        -------
        Band
            The band, or another prediction set if the score has no box.
        """
        prediction = x if isinstance(x, Prediction) else self.calibrated.predict(x)
        if len(prediction) != 1:
            raise ValueError(
                f"`band` takes one row, for the next reading, got {len(prediction)} rows. Pass one row, then "
                "its reading to `update`. If the readings are already available, call stream.follow(x, y)."
            )
        with self._lock:
            if self._waiting is not None:
                raise RuntimeError(
                    "The previous band still waits for its reading. Call stream.update(y) or, if no reading "
                    "was taken, stream.skip()."
                )
            band = self._set_at(prediction, self._tracker.threshold)
            self._waiting = prediction
        return band

    def update(self, y: ArrayLike) -> Outcome:
        """Take the reading for the last band.

        Parameters
        ----------
        y
            Reading, shape (1, m) or (m,), or a number.

        Returns
        -------
        Outcome
            The result of the reading.
        """
        with self._lock:
            if self._waiting is None:
                raise RuntimeError(
                    "No band waits for a reading. Request the band before you know y: stream.band(x), "
                    "then stream.update(y)."
                )
            reading = _reading(y, self._waiting, self.calibrated.target_axes)
            score = float(self._scores(self._waiting, reading)[0])
            if math.isnan(score):
                raise ValueError(
                    "The reading should be a number, got NaN. For a missing reading, call stream.skip(), "
                    "which learns nothing from it and counts it neither as a hit nor as a miss."
                )
            self._waiting = None
            return Outcome(*self._take(score))

    def skip(self) -> None:
        """Discard the last band, whose reading was not taken."""
        with self._lock:
            if self._waiting is None:
                raise RuntimeError("No band waits for a reading, so there is nothing to skip.")
            self._waiting = None

    def follow(self, x: ArrayLike | Prediction, y: ArrayLike) -> Followed:
        """Process many readings in order; each band depends on the readings before it.

        Parameters
        ----------
        x
            Points, shape (n, d), or predictions.
        y
            Readings, shape (n, m). Those that are NaN are skipped.

        Returns
        -------
        Followed
            Bands and results of all readings.
        """
        refuse_unpaired(x=x, y=y)
        prediction = x if isinstance(x, Prediction) else self.calibrated.predict(x)
        y = kind_of(prediction.mean, rows(self.calibrated.targets(y), "y"))
        if tuple(y.shape) != tuple(prediction.mean.shape):
            raise ValueError(
                f"`y` should have the shape of the predictions, {tuple(prediction.mean.shape)}, got "
                f"{tuple(y.shape)}."
            )
        scores = self._scores(prediction, y)
        read = ~np.isnan(scores)
        thresholds, p = np.empty(len(scores)), np.full(len(scores), np.nan)
        missed, alarm = np.zeros(len(scores), dtype=bool), np.zeros(len(scores), dtype=bool)
        with self._lock:
            if self._waiting is not None:
                raise RuntimeError(
                    "A band still waits for its reading. Call stream.update(y) or stream.skip()."
                )
            for i, score in enumerate(scores.tolist()):
                thresholds[i] = self._tracker.threshold
                if score == score:
                    missed[i], _, p[i], alarm[i] = self._take(score)
            band = self._set_at(prediction, thresholds)
        return Followed(band, read, missed, p, alarm)

    def snapshot(self) -> bytes:
        """Return the state learned from readings; `restore` resumes from it bit for bit.

        A band that waits for its reading is not included.

        Returns
        -------
        bytes
            The state, in the safetensors format.
        """
        with self._lock:
            parts = {"method": self._tracker.state(), "alarm": self._watch.state()}
            arrays = {f"{part}.{name}": np.asarray(v) for part, s in parts.items() for name, v in s.items()}
            arrays["alarms"] = np.array(self.alarms, dtype=np.int64)
            counts = {"steps": self.steps, "misses": self.misses}
        about = json.dumps(self._about() | counts).encode()
        return save_arrays(arrays | {"about": np.frombuffer(about, dtype=np.uint8)})

    def restore(self, snapshot: bytes) -> None:
        """Restore a snapshot of a stream with the same calibration, level, method and alarm.

        Parameters
        ----------
        snapshot
            Return value of `snapshot`.
        """
        try:
            arrays = load_arrays(bytes(snapshot))
            about = json.loads(arrays.pop("about").tobytes())
            alarms = [int(step) for step in arrays.pop("alarms")]
            steps, misses = int(about.pop("steps")), int(about.pop("misses"))
        except Exception as error:
            raise ValueError(
                f"The snapshot cannot be read ({type(error).__name__}). Pass all the bytes that "
                "stream.snapshot() returned."
            ) from error
        for name, expected in self._about().items():
            if about.get(name) != expected:
                raise ValueError(
                    f"The snapshot belongs to another stream: its {name} is {about.get(name)} instead of "
                    f"{expected}. Create the stream with the original arguments: gb.Stream(calibrated, "
                    "level, method=..., alarm=...)."
                )
        with self._lock:
            self._tracker.restore(_entries(arrays, "method"))
            self._watch.restore(_entries(arrays, "alarm"))
            self.steps, self.misses, self.alarms, self._waiting = steps, misses, alarms, None

    def _about(self) -> dict[str, str]:
        """The description that a snapshot must match."""
        settings = {"level": self.level, "method": self.method, "alarm": self.alarm}
        found = {name: repr(value) for name, value in settings.items()}
        return found | {"calibration": self._calibration_hash}

    def _take(self, score: float) -> tuple[bool, float, float, bool]:
        """Compare a score with the current threshold, then update threshold and alarm."""
        missed = score > self._tracker.threshold
        self._tracker.update(score)
        p, alarm = self._watch.update(score)
        self.steps += 1
        self.misses += missed
        if alarm:
            self.alarms.append(self.steps)
        return missed, score, p, alarm

    def _scores(self, prediction: Prediction, y: Array) -> np.ndarray:
        scores = to_numpy(self._score(prediction, y)).astype(np.float64)
        return scores / _shape(self.calibrated, prediction, self.level) if self._shaped else scores

    def _set_at(self, prediction: Prediction, q: float | np.ndarray) -> PredictionSet:
        """The set at thresholds q; rows where q is -infinite have an empty set."""
        q = q * _shape(self.calibrated, prediction, self.level) if self._shaped else q
        if not isinstance(q, np.ndarray) and q != -math.inf:
            return self._score.band(prediction, q, self._level)
        empty = np.atleast_1d(np.equal(q, -math.inf))
        if not empty.any():
            return self._score.band(prediction, q, self._level)
        with np.errstate(invalid="ignore"):
            band = self._score.band(prediction, q, self._level)
        if not isinstance(band, Band):
            return band
        xp = namespace(band.mean)
        nowhere = kind_of(band.mean, empty.reshape(-1, *[1] * (band.mean.ndim - 1)))
        above, below = (like(band.mean, np.asarray(end)) for end in (np.inf, -np.inf))
        lower, upper = xp.where(nowhere, above, band.lower), xp.where(nowhere, below, band.upper)
        return Band.around(prediction, lower, upper, self._level)


def _checked(kind: type[T], value: object, name: str) -> T:
    """The value, or a `TypeError` if it is not of this kind."""
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` should be an object such as gb.streams.{_EXAMPLES[name]}, got {value!r}.")
    return value


_EXAMPLES = {"method": "AdaptiveLevel()", "alarm": "Alarm()"}


def _calibration_scores(calibrated: Calibrated, level: Level) -> tuple[Score, np.ndarray, bool]:
    """The score, the scores of the calibration points in order, and whether the band has a shape."""
    if not isinstance(calibrated, Calibrated):
        raise TypeError(
            f"`calibrated` should be the result of `gb.calibrate`, got {type(calibrated).__name__}."
        )
    score, known = getattr(calibrated, "score", None), calibrated.prediction
    if not isinstance(score, Score) or known is None or calibrated.y is None:
        raise TypeError(
            f"A stream follows scores, but {calibrated.name} has none. Calibrate with a score: "
            "gb.calibrate(model, x, y)."
        )
    if calibrated.needs_groups:
        raise ValueError(
            "A stream follows one sensor or group. Calibrate without groups, and create a stream for each."
        )
    scores = to_numpy(score(known, calibrated.y)).astype(np.float64)
    if scores.ndim != 1:
        raise ValueError(
            "A stream follows one score per reading, but this calibration has several, one for each output "
            "or end. Use joint=True and symmetric=True, or a stream for each output."
        )
    shape = _shape(calibrated, known, level)
    return score, scores / shape, np.ndim(shape) > 0


def _shape(calibrated: Calibrated, prediction: Prediction, level: Level) -> np.ndarray | float:
    """The calibration's own threshold at each row if it varies, otherwise 1."""
    with allow_infinite():
        q = cast("HasThreshold", calibrated).threshold(prediction, level)
    if np.ndim(q) == 0:
        return 1.0
    q = np.asarray(q, dtype=np.float64)
    if not (np.isfinite(q) & (q > 0)).all():
        raise ValueError(
            "A stream keeps the shape of a band, but this threshold is infinite or not positive at some "
            "points. Calibrate with Split() or Local()."
        )
    return q


def _reading(y: ArrayLike, prediction: Prediction, known: Axes | None) -> Array:
    """A reading as (1, m), from a number, (m,) or (1, m); a row of a frame is matched by its labels."""
    mean = prediction.mean
    if np.ma.is_masked(y):
        raise ValueError(
            "The reading should be a number, got a masked value. If missing, call stream.skip()."
        )
    labels = list(getattr(y, "index", [])) if type(y).__name__ == "Series" and len(y) > 1 else []
    if known is not None and known.words is not None and any(isinstance(label, str) for label in labels):
        y = matched([np.asarray(y)], Axes.of_columns(labels), known, "y")
    y = kind_of(mean, floats(arranged_targets(y, known, "y"), "y"))
    whole = tuple(mean.shape)
    if tuple(y.shape) not in (whole, whole[1:], *([()] if math.prod(whole) == 1 else [])):
        raise ValueError(
            f"A reading should have the shape of its band, {whole}, got {tuple(y.shape)}. Pass one "
            "reading at a time with all its outputs, or many to stream.follow(x, y)."
        )
    return y.reshape(whole)


def _entries(arrays: Mapping[str, np.ndarray], part: str) -> dict[str, np.ndarray | float]:
    """The entries of one part by name; arrays without dimensions become numbers."""
    return {
        name.partition(".")[2]: values if values.ndim else values.item()
        for name, values in arrays.items()
        if name.startswith(f"{part}.")
    }


def _parts(stream: Stream) -> dict[str, Any]:
    """The parts of a stream that `gb.save` stores."""
    settings = {name: getattr(stream, name) for name in ("calibrated", "level", "method", "alarm")}
    return settings | {"snapshot": np.frombuffer(stream.snapshot(), dtype=np.uint8).copy()}


def _restored(parts: dict[str, Any]) -> Stream:
    """A stream from its stored parts."""
    stream = Stream(parts["calibrated"], parts["level"], method=parts["method"], alarm=parts["alarm"])
    stream.restore(parts["snapshot"].tobytes())
    return stream


kept(parts=_parts, made=_restored)(Stream)
