"""Streams: adaptive bands, the bounds of their theorems on adversarial sequences, alarms, and snapshots."""

import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.streams import (
    AdaptiveLevel,
    Alarm,
    ConformalPID,
    DecayingSteps,
    Outcome,
    RollingWindow,
    StreamMethod,
    Tracker,
)
from guardband.streams.adaptive import AdaptiveTracker
from guardband.streams.scores import EarlierScores, LastScores
from wings import torch

METHODS: dict[str, StreamMethod] = {
    "adaptive": AdaptiveLevel(),
    "adaptive, large steps": AdaptiveLevel(step=0.05, window=50),
    "decaying": DecayingSteps(),
    "pid": ConformalPID(),
    "rolling": RollingWindow(),
}


def calibrated(n: int = 100, seed: int = 0, **options: Any) -> gb.Calibrated:
    return gb.calibrate_arrays(np.zeros(n), np.random.default_rng(seed).normal(size=n), **options)


def at(mean: Any = (0.0,)) -> gb.Prediction:
    return gb.Prediction(None, np.atleast_1d(mean))


def any_(value: Any) -> Any:
    """A value without a type, so that type checkers accept a wrong one."""
    return value


# One reading


def test_a_band_then_its_reading_and_it_changes() -> None:
    stream = gb.Stream(calibrated(), level=0.9)
    band = stream.band(at())
    assert isinstance(band, gb.Band) and band.level == 0.9
    inside = stream.update(0.0)
    assert inside == Outcome(False, 0.0, inside.p, False) and 0 < inside.p <= 1
    stream.band(at())
    assert stream.update(1e6).missed and stream.steps == 2 and stream.misses == 1
    assert "2 readings, 0.5 of them missed" in repr(stream)


def test_a_miss_widens_and_a_hit_narrows() -> None:
    stream = gb.Stream(calibrated(), 0.9, method=AdaptiveLevel(step=0.02))
    before = stream.threshold
    for _ in range(3):
        stream.band(at())
        stream.update(50.0)
    assert stream.threshold > before
    for _ in range(200):
        stream.band(at())
        stream.update(0.0)
    assert stream.threshold < before


def test_an_update_before_a_band_and_two_bands_teach() -> None:
    stream = gb.Stream(calibrated())
    with pytest.raises(RuntimeError, match=r"Request the band before you know y: stream\.band\(x\)"):
        stream.update(1.0)
    with pytest.raises(RuntimeError, match="nothing to skip"):
        stream.skip()
    stream.band(at())
    with pytest.raises(RuntimeError, match=r"still waits for its reading.*stream\.skip\(\)"):
        stream.band(at())
    with pytest.raises(RuntimeError, match="still waits"):
        stream.follow(at(), [1.0])
    stream.skip()
    stream.band(at())
    assert stream.steps == 0


def test_a_reading_that_is_nan_is_refused_and_the_band_goes_on_waiting() -> None:
    stream = gb.Stream(calibrated())
    stream.band(at())
    with pytest.raises(ValueError, match=r"got NaN. For a missing reading, call stream\.skip\(\)"):
        stream.update(math.nan)
    assert stream.steps == 0
    stream.update(0.5)


@pytest.mark.parametrize("reading", [np.ma.masked, np.ma.array([0.5], mask=[True])])
def test_a_masked_reading_is_refused(reading: Any) -> None:
    stream = gb.Stream(gb.calibrate_arrays([0.0] * 9, np.arange(1.0, 10.0)), level=0.9)
    stream.band(gb.Prediction(None, [0.0]))
    with pytest.raises(ValueError, match="masked"):
        stream.update(reading)
    with pytest.raises(ValueError, match="row 0 is masked"):
        gb.calibrate_arrays(np.ma.masked, [1.0])
    assert stream.update(0.5).missed is False and stream.steps == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_kinds_dtypes_and_shapes_of_readings(kind: Callable[[Any], Any], dtype: str) -> None:
    draw = np.random.default_rng(0)
    y = draw.normal(size=(60, 2)).astype(dtype)
    made = gb.calibrate_arrays(kind(np.zeros_like(y)), kind(y))
    stream = gb.Stream(made, level=0.8)
    for reading in (kind(y[:1]), kind(y[1]), y[2].tolist()):
        band = stream.band(gb.Prediction(None, kind(np.zeros((1, 2), dtype))))
        assert type(band.upper) is type(kind(y)) and str(band.upper.dtype).endswith(dtype)
        stream.update(reading)
    stream.band(gb.Prediction(None, kind(np.zeros((1, 2), dtype))))
    for wrong in (1.0, [1.0], [[1.0], [2.0]], y[:3]):
        with pytest.raises(ValueError, match="A reading should have the shape of its band"):
            stream.update(wrong)


def test_one_row_at_a_time() -> None:
    with pytest.raises(ValueError, match=r"one row, .* got 3 rows.*stream\.follow"):
        gb.Stream(calibrated()).band(at([0.0, 1.0, 2.0]))
    with pytest.raises(ValueError, match=r"`y` should have the shape of the predictions, \(3, 1\)"):
        gb.Stream(calibrated()).follow(at([0.0, 1.0, 2.0]), [1.0, 2.0])


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (lambda: gb.Stream(any_(np.sin)), TypeError, "should be the result of `gb.calibrate`"),
        (lambda: gb.Stream(calibrated(), 90), ValueError, "Did you mean 0.9"),
        (
            lambda: gb.Stream(calibrated(), method=any_("pid")),
            TypeError,
            r"gb\.streams\.AdaptiveLevel\(\), got 'pid'",
        ),
        (lambda: gb.Stream(calibrated(), alarm=any_(1e5)), TypeError, r"gb\.streams\.Alarm\(\), got 100000"),
        (lambda: AdaptiveLevel(step=0), ValueError, "`step` should be a positive number, got 0"),
        (lambda: AdaptiveLevel(step=2), ValueError, "`step` should be below 1"),
        (lambda: AdaptiveLevel(window=any_(2.5)), ValueError, "`window` should be a positive integer"),
        (lambda: DecayingSteps(power=1), ValueError, "`power` should lie strictly between 0 and 1"),
        (lambda: ConformalPID(saturation=0.5), ValueError, "at least 1, a single miss"),
        (lambda: Alarm(seed=-1), ValueError, "`seed` should be a nonnegative integer"),
        (lambda: Alarm(threshold=math.inf), ValueError, "`threshold` should be a positive number"),
        (
            lambda: gb.Stream(calibrated(calibrator=gb.Grouped(), groups=[0, 1] * 50)),
            ValueError,
            "create a stream for each",
        ),
        (
            lambda: gb.Stream(
                gb.calibrate_arrays(np.zeros((9, 2)), np.ones((9, 2)), score=gb.Absolute(joint=False))
            ),
            ValueError,
            "one score per reading",
        ),
    ],
)
def test_what_is_wrong_is_said(made: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        made()


# One by one, all at once, and from a snapshot: bitwise the same


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", METHODS)
def test_following_many_is_following_one_by_one(name: str, dtype: str) -> None:
    draw = np.random.default_rng(1)
    n = 300
    mean, y = draw.normal(size=(n, 1)).astype(dtype), 2 * draw.normal(size=(n, 1)).astype(dtype)
    y[17] = np.nan
    made = gb.calibrate_arrays(mean[:50], y[50:100])
    one, many = (gb.Stream(made, 0.8, method=METHODS[name]) for _ in range(2))
    found = many.follow(gb.Prediction(None, mean), y)
    for i in range(n):
        band = one.band(gb.Prediction(None, mean[i : i + 1]))
        for end in ("lower", "upper"):
            assert getattr(found.band, end)[i].tobytes() == getattr(band, end)[0].tobytes()
        if np.isnan(y[i, 0]):
            one.skip()
        else:
            outcome = one.update(y[i])
            assert (outcome.missed, outcome.p, outcome.alarm) == (found.missed[i], found.p[i], found.alarm[i])
    assert not found.read[17] and found.read.sum() == n - 1
    assert one.snapshot() == many.snapshot()


@pytest.mark.parametrize("name", METHODS)
def test_snapshots_restore_bit_for_bit(name: str, tmp_path: Path) -> None:
    draw, made = np.random.default_rng(2), calibrated(seed=3)
    alarm = Alarm(threshold=50.0, restart=700)
    readings = np.where(np.arange(4000) < 2000, 1, 3) * draw.normal(size=4000)
    whole = gb.Stream(made, 0.9, method=METHODS[name], alarm=alarm)
    expected = whole.follow(at(np.zeros(4000)), readings)
    stream, parts = gb.Stream(made, 0.9, method=METHODS[name], alarm=alarm), []
    for start, end in ((0, 1), (1, 999), (999, 1500), (1500, 4000)):
        parts.append(stream.follow(at(np.zeros(end - start)), readings[start:end]))
        if end == 1500:
            stream = gb.load(gb.save(stream, tmp_path / "stream"), gb.Stream)
        else:
            again = gb.Stream(made, 0.9, method=METHODS[name], alarm=alarm)
            again.restore(stream.snapshot())
            stream = again
    for end in ("lower", "upper"):
        assert (
            np.concatenate([getattr(p.band, end) for p in parts]).tobytes()
            == getattr(expected.band, end).tobytes()
        )
    assert np.concatenate([part.p for part in parts]).tobytes() == expected.p.tobytes()
    assert stream.alarms == whole.alarms and stream.alarms
    assert stream.snapshot() == whole.snapshot() and repr(stream) == repr(whole)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_starts_without_scores_and_with_scores_of_zero(name: str) -> None:
    for scores in (np.zeros(0), np.zeros(30)):
        tracker = METHODS[name].start(scores, 0.9)
        for score in np.random.default_rng(0).normal(size=500):
            tracker.update(abs(score))
        assert 0 < tracker.threshold < np.inf


def test_steps_are_measured_by_the_largest_score_where_the_quantile_is_zero() -> None:
    scores = np.r_[np.zeros(20), 0.5, 3.0, np.inf]
    tracker = DecayingSteps(step=0.5).start(scores, 0.5)
    assert (tracker.threshold, tracker.step) == (0.0, 1.5)


def test_a_snapshot_of_another_stream_or_a_damaged_one_is_refused() -> None:
    snapshot = gb.Stream(calibrated(), 0.9).snapshot()
    with pytest.raises(ValueError, match="its level is"):
        gb.Stream(calibrated(), 0.8).restore(snapshot)
    with pytest.raises(ValueError, match=r"its method is AdaptiveLevel\(\) instead of ConformalPID\(\)"):
        gb.Stream(calibrated(), 0.9, method=ConformalPID()).restore(snapshot)
    with pytest.raises(ValueError, match="its calibration is"):
        gb.Stream(calibrated(seed=9), 0.9).restore(snapshot)
    for damaged in (b"", snapshot[:100], snapshot[:-9]):
        with pytest.raises(ValueError, match="cannot be read"):
            gb.Stream(calibrated(), 0.9).restore(damaged)


def test_a_local_band_keeps_its_shape() -> None:
    draw = np.random.default_rng(0)

    def readings(n: int) -> gb.Observations:
        x = draw.uniform(size=(n, 1))
        return gb.Observations(x, np.where(x < 0.5, 0.1, 1.0) * draw.normal(size=(n, 1)))

    train, cal, more = readings(300), readings(200), readings(300)
    local = gb.calibrate(
        np.zeros_like, cal.x, cal.y, calibrator=gb.Local(train, gb.conformal.LogScale(draws=4))
    )
    stream = gb.Stream(local, 0.9)
    found = stream.follow(more.x, 3 * more.y)
    width = np.asarray(found.band.width)[:, 0]
    quiet = more.x[:, 0] < 0.4
    assert width[quiet].mean() < 0.5 * width[more.x[:, 0] > 0.6].mean()
    left, right = local([0.2], 0.9).width / local([0.8], 0.9).width, None
    band = stream.band([0.2])
    stream.skip()
    right = band.width / stream.band([0.8]).width
    assert np.allclose(left, right, rtol=1e-6)


def test_threads_take_turns() -> None:
    """Every reading of many threads counts once, in any order."""
    stream, turn = gb.Stream(calibrated(), 0.9), threading.Lock()

    def work() -> None:
        for _ in range(50):
            with turn:
                stream.band(at())
                stream.update(0.1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stream.steps == 400


def test_threads_without_turns_get_the_sentence_and_no_broken_stream() -> None:
    stream, refused, taken = gb.Stream(calibrated(), 0.9), [], []

    def work() -> None:
        for _ in range(50):
            try:
                stream.band(at())
                stream.update(0.1)
                taken.append(1)
            except RuntimeError as error:
                refused.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) <= stream.steps <= 400
    again = gb.Stream(calibrated(), 0.9)
    again.restore(stream.snapshot())
    assert again.steps == stream.steps


# Laws


def adversaries() -> dict[str, Callable[[Tracker, int], float]]:
    """Five ways to choose the next score in [0, 1] with knowledge of the current threshold."""
    draw = np.random.default_rng(0)
    uniform = draw.uniform(size=10**5)
    return {
        "always just above": lambda tracker, t: min(1.0, max(0.0, tracker.threshold) + 1e-9),
        "always zero": lambda tracker, t: 0.0,
        "zero, then one, in blocks": lambda tracker, t: float(t // 777 % 2),
        "noise that explodes and vanishes": lambda tracker, t: float(uniform[t] ** (1 + 60 * (t // 500 % 2))),
        "hits while wide, misses while narrow": lambda tracker, t: 0.0 if tracker.threshold > 0.5 else 1.0,
    }


STEPS = 5000


def miss_rate(method: StreamMethod, adversary: Callable[[Tracker, int], float]) -> np.ndarray:
    """The share of misses after each step."""
    scores = np.random.default_rng(1).uniform(size=100)
    tracker, missed = method.start(scores, 0.9), np.zeros(STEPS)
    for t in range(STEPS):
        score = adversary(tracker, t)
        missed[t] = score > tracker.threshold
        tracker.update(score)
    return np.cumsum(missed) / np.arange(1, STEPS + 1)


def bounds(method: StreamMethod) -> np.ndarray:
    """The theorem's bound after each step; for decaying steps, the one for scores in [0, 1]."""
    steps = np.arange(1, STEPS + 1)
    if isinstance(method, DecayingSteps):
        scores = np.sort(np.random.default_rng(1).uniform(size=100))
        first = method.step * scores[90]
        return (1 + first) / (first * steps**-method.power * steps)
    return np.array([method.bound(0.9, int(t)) for t in steps], dtype=float)


@pytest.mark.parametrize("adversary", adversaries())
@pytest.mark.parametrize("name", [name for name in METHODS if name != "rolling"])
def test_the_miss_rate_is_within_the_bound_of_the_theorem(name: str, adversary: str) -> None:
    """The bound holds at every step for any sequence; nothing is random."""
    rate = miss_rate(METHODS[name], adversaries()[adversary])
    assert (abs(rate - 0.1) <= bounds(METHODS[name]) + 1e-9).all()


def test_a_rolling_window_has_no_such_bound() -> None:
    rate = miss_rate(RollingWindow(), lambda tracker, t: 1e-3 * t + 1)
    assert RollingWindow().bound(0.9, STEPS) is None and rate[-1] > 0.9


class Peeking(AdaptiveTracker):
    """The mutant: each reading moves the level and reverts the move, so nothing is learned."""

    def update(self, score: float) -> None:
        super().update(score)
        self.alpha -= self.step * (self.target - (score > self.threshold))


class Deaf(AdaptiveTracker):
    """The mutant: misses do not move the level."""

    def update(self, score: float) -> None:
        self.last.add(score)


@pytest.mark.parametrize("mutant", [Peeking, Deaf])
def test_a_level_that_is_moved_wrongly_breaks_the_bound(mutant: type[AdaptiveTracker]) -> None:
    method = AdaptiveLevel(step=0.05, window=50)

    class Wrong(AdaptiveLevel):
        def start(self, scores: np.ndarray, level: Any) -> AdaptiveTracker:
            right = method.start(scores, level)
            return mutant(right.last, right.target, right.step)

    broken = [
        (abs(miss_rate(Wrong(0.05, 50), adversary) - 0.1) > bounds(method) + 1e-9).any()
        for adversary in adversaries().values()
    ]
    assert any(broken)


def test_a_stream_that_updates_before_it_predicts_is_caught() -> None:
    """An update before the prediction covers more than the theorem allows."""
    readings = np.abs(np.random.default_rng(5).normal(size=STEPS)) * np.linspace(1, 30, STEPS)
    tracker = AdaptiveLevel(step=0.05, window=5).start(readings[:5], 0.9)
    missed = 0
    for score in readings.tolist():
        tracker.update(score)  # before the band is computed
        missed += score > tracker.threshold
    assert abs(missed / STEPS - 0.1) > AdaptiveLevel(step=0.05).bound(0.9, STEPS)


def test_infinite_below_and_empty_above() -> None:
    tracker = AdaptiveLevel(step=0.3, window=20).start(np.arange(20.0), 0.9)
    tracker.update(1e9)
    assert tracker.threshold == math.inf
    stream = gb.Stream(calibrated(), 0.1, method=AdaptiveLevel(step=0.3))
    stream.band(at())
    stream.update(0.0)
    band = stream.band(at())
    assert band.empty.all() and (band.width == 0).all() and stream.threshold == -math.inf
    assert stream.update(0.0).missed
    pid = ConformalPID(saturation=1).start(np.arange(1.0, 20.0), 0.9)
    pid.update(1e9)
    pid.update(1e9)
    assert pid.threshold == math.inf


def test_an_exchangeable_stream_is_covered_at_the_level() -> None:
    """With decaying steps, the threshold converges to the true quantile."""
    draw = np.random.default_rng(0)
    tracker = DecayingSteps().start(draw.uniform(size=20), 0.9)
    for score in draw.uniform(size=50_000):
        tracker.update(float(score))
    assert abs(tracker.threshold - 0.9) < 0.01


# Alarms


def test_places_among_all_earlier_scores() -> None:
    draw = np.random.default_rng(0)
    scores = np.round(draw.normal(size=3000), 2)
    earlier = EarlierScores(scores[:10])
    for i in range(10, 3000):
        greater, equal = earlier.place(float(scores[i]))
        if i % 97 == 0:
            assert greater == (scores[:i] > scores[i]).sum() and equal == (scores[:i] == scores[i]).sum()
        earlier.add(float(scores[i]))
    assert np.array_equal(earlier.ascending(), np.sort(scores)) and len(earlier) == 3000


def test_the_last_scores_are_sorted_and_few() -> None:
    scores = np.random.default_rng(0).integers(0, 9, size=500).astype(float)
    last = LastScores(scores[:3], 20)
    for score in scores[3:]:
        last.add(score)
    assert last.ascending == sorted(scores[-20:]) and np.array_equal(last.in_order(), scores[-20:])
    assert last.kth(0) == -math.inf and last.kth(21) == math.inf


@pytest.mark.parametrize("law", ["continuous", "many ties"])
def test_p_values_of_exchangeable_scores_are_uniform(law: str) -> None:
    """Kolmogorov-Smirnov at 1e-3, fixed seed; with ties too, since they are broken at random."""
    from scipy.stats import kstest

    draw = np.random.default_rng(3)
    scores = draw.normal(size=5000) if law == "continuous" else draw.integers(0, 4, size=5000).astype(float)
    watch = Alarm(threshold=1e300, seed=4).start(scores[:100])
    p = np.array([watch.update(float(score))[0] for score in scores[100:]])
    assert kstest(p, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(p[1:], p[:-1])[0, 1]) < 3.3 / math.sqrt(len(p))


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_stated() -> None:
    """At most one in `threshold` steps on average: 300 runs, 4 standard errors, fixed seed."""
    counts = []
    for seed in range(300):
        scores = np.random.default_rng(seed).normal(size=1020)
        watch = Alarm(threshold=100.0, restart=300, seed=seed).start(scores[:20])
        counts.append(sum(watch.update(score)[1] for score in scores[20:].tolist()))
    assert np.mean(counts) <= 10 + 4 * np.std(counts) / math.sqrt(len(counts))
    assert np.mean(counts) > 1  # it does raise alarms


def test_scores_that_depend_on_those_before_them_raise_alarms_and_the_promise_says_so() -> None:
    """A stationary AR(1) process with correlation .9: more than one alarm in 500 steps, not in 100,000."""
    alarms = 0
    for seed in range(4):
        draw = np.random.default_rng(seed)
        error = np.empty(2500)
        error[0] = draw.normal()
        for t in range(1, len(error)):
            error[t] = 0.9 * error[t - 1] + math.sqrt(1 - 0.9**2) * draw.normal()
        watch = Alarm(seed=seed).start(np.abs(error[:500]))
        alarms += sum(watch.update(score)[1] for score in np.abs(error[500:]).tolist())
    assert alarms > 4 * 2000 / 500
    assert "those of the calibration included, are exchangeable" in Alarm().promise
    assert "Scores that depend on those before them raise more" in Alarm().promise
    assert "those of the calibration included, lie within a bounded range" in DecayingSteps().promise(0.9)


@pytest.mark.parametrize("times", [2.0, 0.5])
def test_a_change_of_noise_is_noticed_soon_and_once(times: float) -> None:
    draw, delays = np.random.default_rng(7), []
    for seed in range(10):
        watch = Alarm(seed=seed).start(abs(draw.normal(size=5000)))
        after = abs(times * draw.normal(size=3000)).tolist()
        alarms = [t for t, score in enumerate(after) if watch.update(score)[1]]
        delays += alarms[:1]
        assert len(alarms) == 1
    assert np.median(delays) <= 100


def test_p_values_against_a_fixed_set_would_alarm_too_often() -> None:
    """The mutant: earlier scores are the calibration set alone, so p-values depend on each other.

    In 200 steps at most 200 / 1000 of all runs may alarm.
    """

    def alarmed(fixed: bool, seed: int) -> bool:
        scores = np.random.default_rng(seed).normal(size=205)
        watch = Alarm(threshold=1000.0, seed=seed).start(scores[:5])
        if fixed:
            watch.earlier.add = lambda score: None  # type: ignore[method-assign]
        return any(watch.update(score)[1] for score in scores[5:].tolist())

    right, wrong = (sum(alarmed(fixed, seed) for seed in range(100)) for fixed in (False, True))
    assert right <= 20 + 4 * 4 and wrong > 20 + 4 * 4


def test_it_starts_anew_after_an_alarm_and_after_so_many_steps() -> None:
    watch = Alarm(restart=50).start(np.arange(20.0))
    for t in range(50):
        watch.update(float(t % 7))
    assert len(watch.earlier) == 0 and watch.statistic == 0 and watch.seen == 50


def test_the_promises_are_said() -> None:
    stream = gb.Stream(calibrated(), 0.9)
    assert "differs from 0.1 by at most 181 / T" in stream.promise
    assert "mean time to a false alarm is at least 100000 steps" in stream.promise
    assert stream.bound is None and math.isnan(stream.missed)
    stream.follow(at(np.zeros(1000)), np.random.default_rng(0).normal(size=1000))
    assert stream.bound == pytest.approx(0.181) and abs(stream.missed - 0.1) < 0.181
    for method in METHODS.values():
        assert len(method.promise(0.9)) > 100


def test_what_has_no_single_score_cannot_be_followed() -> None:
    x = np.linspace(0, 1, 30)
    crossed = gb.calibration.calibrate_cross(lambda data: np.zeros_like, (x, x), folds=3)
    with pytest.raises(TypeError, match=r"follows scores, but CV\+ has none"):
        gb.Stream(crossed)
    with pytest.raises(TypeError, match=r"should be the result of `gb.calibrate`, got float"):
        gb.Stream(0.9)  # type: ignore[arg-type]
    y = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match="follows one score per reading"):
        gb.Stream(gb.calibrate_arrays(0 * y, y, score=gb.Absolute(joint=False)))
    stream = gb.Stream(gb.calibrate_arrays(0 * y, y))
    assert len(stream.follow(gb.Prediction(None, y), y)) == 30
