"""Checks of scores, thresholds and calibrated sets: membership and bands must agree."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from guardband.base.arrays import Array, flat, to_numpy, to_torch
from guardband.calibration.calibrate import calibrate
from guardband.conformal import Calibrated
from guardband.conformal.base import Calibrator, Groups
from guardband.conformal.rank import InfiniteBandWarning, Level
from guardband.conformal.scores import Scaled, Score
from guardband.testing.traces import untouched
from guardband.testing.worlds import HOMOSKEDASTIC, Sampler, exchangeable
from guardband.values import Band, Prediction


def check_score(
    score: Score,
    *,
    outputs: int = 1,
    nodes: int | None = None,
    predictions: Callable[[Prediction], Prediction] | None = None,
    seed: int = 0,
) -> None:
    """Check that a score is one number per row, and that its set contains the targets with scores up to q.

    If the set is a box, the targets in it must lie between its ends.

    Parameters
    ----------
    score
        The score to check.
    outputs
        The number of outputs.
    nodes
        If given, whole fields of shape (N, nodes, outputs) are scored.
    predictions
        A function that turns a prediction with mean and scale into one that the score accepts.
    seed
        The seed of the random predictions.

    Raises
    ------
    AssertionError
        If a property does not hold.

    Examples
    --------
    >>> import guardband as gb
    >>> gb.testing.check_score(gb.Scaled(), outputs=2)
    >>> gb.testing.check_score(gb.Simultaneous(), nodes=5)
    """
    generator = np.random.default_rng(seed)
    converted = predictions or (lambda prediction: prediction)
    for dtype in (np.float64, np.float32):
        for stretch in (1.0, 1e-6, 1e6):
            plain, y = _random_predictions(generator, outputs, nodes, stretch, dtype)
            prediction = converted(plain)
            scores = to_numpy(score(prediction, y)).astype(float)
            rows = (len(y),) if score.joint else (len(y), *scores.shape[1:])
            assert scores.shape == rows and scores.ndim <= 2, f"one score per row, got shape {scores.shape}"
            assert not np.isnan(scores).any(), "scores should be numbers, never NaN"
            if sys.modules.get("torch") is not None:
                in_torch = converted(Prediction(None, to_torch(plain.mean), to_torch(plain.scale)))
                same = np.allclose(to_numpy(score(in_torch, to_torch(y))), scores, rtol=1e-5, atol=1e-30)
                assert same, "numpy and torch should give the same scores"
            if score.joint:
                _check_membership(score, prediction, y, scores)


def _check_membership(score: Score, prediction: Prediction, y: Array, scores: np.ndarray) -> None:
    previous = np.zeros(len(y))
    for k in (1, len(y) // 2, len(y)):
        q = float(np.sort(scores)[k - 1])
        inside = score.contains(prediction, y, q)
        assert np.array_equal(inside, scores <= q), "`contains` should mean that the score is at most q"
        band = _shown(score, prediction, q)
        if band is None:
            continue
        inside = to_numpy(band.contains(y))
        assert inside[scores <= q].all(), "a target that scores at most q lies outside its own band"
        beyond = scores > q + 1e-4 * abs(q) + 1e-30
        # Outward rounding admits targets that miss by a few ulp, which matters only if the mean is large.
        modest = np.finfo(prediction.mean.dtype).eps * abs(prediction.mean).max() < 1e-10
        assert not (modest and inside[beyond].any()), "a target that scores more than q lies inside"
        width = to_numpy(band.width).reshape(len(y), -1).max(axis=-1).astype(float)
        assert k == 1 or (width >= previous).all(), "a larger q should not give a narrower band"
        previous = width
        assert isinstance(band, Band) or not score.is_box, "a box has ends: `band` should return a Band"
        if not isinstance(band, Band):
            continue
        if score.is_box:
            ends = flat((to_numpy(band.lower) <= to_numpy(y)) & (to_numpy(y) <= to_numpy(band.upper)))
            assert np.array_equal(inside, ends.all(axis=-1)), (
                "a box should contain the targets between all its ends"
            )
        one_by_one = score.band(prediction, np.full(len(y), q), 0.9)
        for end in ("lower", "upper"):
            same = np.array_equal(to_numpy(getattr(one_by_one, end)), to_numpy(getattr(band, end)))
            assert same, "q per row differs from the same q for all"
    for q in (np.inf, np.full(len(y), np.inf)):
        assert score.contains(prediction, y, q).all(), "q = inf should contain everything"
        everything = _shown(score, prediction, q)
        if isinstance(everything, Band):
            assert (to_numpy(everything.lower) == -np.inf).all(), "q = inf should extend to -infinity"
            assert (to_numpy(everything.upper) == np.inf).all(), "q = inf should extend to infinity"


def _shown(score: Score, prediction: Prediction, q: float | np.ndarray) -> Any:
    """Return the band of a score, or None if it has none."""
    if type(score).band is Score.band:
        return None
    return score.band(prediction, q, 0.9)


def check_threshold(
    calibrator: Calibrator,
    *,
    n: int = 60,
    sampler: Sampler | None = None,
    score: Score | None = None,
    seed: int = 0,
) -> None:
    """Check that a threshold increases with the level and does not depend on other rows.

    A threshold is one number, or one per row. It has no side effects, is infinite if its size reports
    too few points, and requires groups if it declares that it needs them. Its laws count all test points.
    If one law holds for all of them, at least as many calibration points as it states lie within the
    threshold.

    Parameters
    ----------
    calibrator
        The calibrator to check.
    n
        The number of calibration points.
    sampler
        A function that draws the data; by default exchangeable points.
    score
        The score; `Scaled()` by default.
    seed
        The seed of the data.

    Raises
    ------
    AssertionError
        If a property does not hold.

    Examples
    --------
    >>> import guardband as gb
    >>> gb.testing.check_threshold(gb.Split())
    """
    generator = np.random.default_rng(seed)
    world, sampler = HOMOSKEDASTIC, sampler or exchangeable
    draw = sampler(world, generator, n, 40, 1)
    with warnings.catch_warnings(), untouched(calibrator):
        warnings.simplefilter("ignore")
        calibrated = calibrate(
            partial(world.predict, outputs=1),
            draw.x_cal,
            draw.y_cal,
            score=score or Scaled(),
            calibrator=calibrator,
            groups=draw.groups_cal,
        )
        prediction, before = calibrated.predict(draw.x), -np.inf
        threshold = calibrated.threshold
        for level in ("0.1", "0.5", "0.9", "0.99", "0.9999"):
            q = np.asarray(threshold(prediction, level, draw.groups), dtype=float)
            assert q.shape in ((), (len(draw.x),)), f"one threshold, or one per row, got shape {q.shape}"
            assert not np.isnan(q).any(), "a threshold should be a number, never NaN"
            assert (q >= before).all(), "a higher level should not give a lower threshold"
            before = q
            if q.ndim:
                few = slice(3, 11)
                groups = None if draw.groups is None else draw.groups[few]
                part = threshold(prediction.take(few), level, groups)
                assert np.array_equal(part, q[few]), "a row's threshold should not depend on other rows"
            size = calibrated.size(level)
            if size is not None and size.have < size.need:
                assert np.isinf(q).any(), f"{size.have:g} of {size.need:g} points, but a finite threshold"
            pieces = calibrated.laws_for(prediction, level, draw.groups)
            if pieces is not None:
                assert sum(m for _, m in pieces) == len(draw.x), "the laws should count all test points"
            if pieces is not None and len(pieces) == 1 and not calibrated.needs_groups:
                k = pieces[0][0].k
                inside = int(calibrated.contains(calibrated.prediction, draw.y_cal, level).sum())
                assert inside >= min(k, len(draw.y_cal)), (
                    f"its law requires {k} points inside, but {inside} are"
                )
        if calibrated.needs_groups:
            try:
                calibrated.band(prediction, 0.5)
            except (ValueError, TypeError):
                return
            raise AssertionError("it declares that it needs groups, but does not require them")


def check_calibrated(
    calibrated: Calibrated,
    x: Array,
    y: Array,
    *,
    groups: Groups = None,
    levels: Sequence[Level] = (0.5, 0.9),
) -> None:
    """Check that a calibration returns the same result at every call, and that its parts agree.

    This is for methods that are not built from a score and a threshold. A target that `contains` accepts
    must lie in the band; the promised coverage must be a probability, or None; the laws must count all
    points. The check does not test whether the guarantee holds; use simulations for that.

    Parameters
    ----------
    calibrated
        The calibration to check.
    x, y
        A few dozen new points, shape (n, d), and their targets, shape (n, m).
    groups
        One label per row, if the calibration needs groups.
    levels
        The levels to check.

    Raises
    ------
    AssertionError
        If a property does not hold.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 90)
    >>> calibrated = gb.calibrate(
    ...     np.sin, x[::2], np.sin(x[::2]) + 0.1 * np.cos(50 * x[::2])
    ... )
    >>> gb.testing.check_calibrated(calibrated, x[1::2], np.sin(x[1::2]))
    """
    x = x[:, None] if x.ndim == 1 else x
    few = slice(3, 11)
    few_groups = None if groups is None else groups[few]
    assert calibrated.promise.strip().endswith("."), "`promise` should consist of sentences"
    with warnings.catch_warnings(), untouched(calibrated):
        warnings.simplefilter("ignore", InfiniteBandWarning)
        prediction = calibrated.predict(x)
        assert len(prediction) == len(x), f"one row per point, got {len(prediction)} for {len(x)}"
        for level in levels:
            promised = calibrated.promised(level)
            assert promised is None or 0 <= promised < 1, (
                f"the promised coverage should be a probability, got {promised}"
            )
            inside = calibrated.contains(x, y, level, groups=groups)
            again = calibrated.contains(prediction, y, level, groups=groups)
            assert np.array_equal(inside, again), "a prediction should give the same result as its points"
            part = calibrated.contains(x[few], y[few], level, groups=few_groups)
            assert np.array_equal(part, inside[few]), "a row's set should not depend on other rows"
            try:
                band = calibrated.band(prediction, level, groups=groups)
            except TypeError:  # a set without a band
                continue
            held = to_numpy(band.contains(y))
            whole = inside if inside.ndim == 1 else inside.all(axis=1)
            assert held[whole].all(), "a target that `contains` accepts lies outside the band"
            pieces = calibrated.laws_for(prediction, level, groups)
            if pieces is not None:
                assert sum(m for _, m in pieces) == len(x), "the laws should count all test points"


def _random_predictions(
    generator: np.random.Generator, outputs: int, nodes: int | None, stretch: float, dtype: type
) -> tuple[Prediction, np.ndarray]:
    """Return predictions and targets of all sizes, some with an error or a scale of zero."""
    n = 200
    shape = (n, outputs) if nodes is None else (n, nodes, outputs)
    mean = (stretch * generator.normal(size=shape)).astype(dtype)
    scale = abs(generator.normal(size=shape)).astype(dtype)
    scale[::20] = 0
    y = (mean + generator.standard_t(2, size=shape) * (scale + 0.01)).astype(dtype)
    y[::10] = mean[::10]
    return Prediction(None, mean, scale), y
