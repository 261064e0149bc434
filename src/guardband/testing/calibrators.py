"""A check of calibrators: coverage over many data sets, compared with the promised law."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from guardband.calibration.calibrate import calibrate
from guardband.conformal import Calibrated
from guardband.conformal.base import Calibrator
from guardband.conformal.laws import tails, total_counts
from guardband.conformal.rank import InfiniteBandWarning, Level
from guardband.conformal.score_calibrated import calibrate_prediction
from guardband.conformal.scores import Scaled, Score
from guardband.predictors import PredictionFunction
from guardband.testing.worlds import (
    WORLDS,
    Draw,
    Sampler,
    World,
    exchangeable,
)
from guardband.values import Prediction

TEST_POINTS = 50
"""Test points in each experiment of `check_calibrator`, if the law is exact."""


def check_calibrator(
    calibrator: Calibrator,
    *,
    score: Score | None = None,
    sampler: Sampler = exchangeable,
    outputs: int = 1,
    predictions: Callable[[Prediction], Prediction] | None = None,
    confidence: Level | None = None,
    worlds: Sequence[World] = WORLDS,
    sizes: Sequence[int] = (9, 19, 30, 100),
    levels: Sequence[Level] = (0.5, 0.8, 0.9, 0.95),
    draws: int = 400,
    false_alarm: float = 1e-3,
    seed: int = 0,
) -> None:
    """Check that coverage over many independent experiments follows the exact law.

    Each experiment calibrates anew and counts covered test points. The sum is compared with the exact law
    of `Threshold.laws`, on both sides, or only from below if scores can tie. If a threshold has no law, one
    test point per experiment is compared with Binomial(draws, level) from below; use 2000 draws then.

    Parameters
    ----------
    calibrator
        The calibrator to check.
    score
        The score; `Scaled()` by default.
    sampler
        A function that draws the data of an experiment. Groups must have the same sizes in every draw.
    outputs
        The number of outputs.
    predictions
        A function that turns a prediction with mean and scale into one that the score accepts.
    confidence
        The `confidence` of `gb.calibrate`.
    worlds
        The distributions of the data.
    sizes, levels
        The numbers of calibration points, and the levels, to check.
    draws
        The number of experiments for each world and size.
    false_alarm
        The probability that a valid calibrator fails anywhere in this call, shared equally among the worlds,
        sizes and levels.
    seed
        The seed of all random draws.

    Raises
    ------
    AssertionError
        If coverage is too low, or too high, for the law.

    Examples
    --------
    >>> import guardband as gb
    >>> gb.testing.check_calibrator(gb.Split(), draws=50, sizes=[9])
    """
    allowed = false_alarm / (2 * len(worlds) * len(sizes) * len(levels))
    score = score or Scaled()
    for i, world in enumerate(worlds):
        for n in sizes:
            generator = np.random.default_rng([seed, i, n])

            predict = partial(_predict, world, outputs, predictions)
            calibrated_draw = partial(
                _calibrated_draw,
                calibrator,
                score,
                confidence,
                sampler,
                world,
                predict,
                generator,
                n,
                outputs,
            )
            for level, covered, law, exact_law in _tally(calibrated_draw, levels, draws):
                total = len(law) - 1
                result = (
                    f"{calibrator!r} with {score!r} covers {covered / total:.4f} of {total} points at "
                    f"level {level} with n = {n} in the {world.name} world, "
                    f"but the exact law gives {law @ np.arange(total + 1) / total:.4f}"
                )
                below, above = tails(law, covered)
                assert below > allowed, f"coverage is too low: {result} (p = {below:.2g})"
                if exact_law and not world.ties:
                    assert above > allowed, f"coverage is too high: {result} (p = {above:.2g})"


def _predict(
    world: World, outputs: int, predictions: Callable[[Prediction], Prediction] | None, x: np.ndarray
) -> Prediction:
    prediction = world.predict(x, outputs)
    return prediction if predictions is None else predictions(prediction)


def _calibrated_draw(
    calibrator: Calibrator,
    score: Score,
    confidence: Level | None,
    sampler: Sampler,
    world: World,
    predict: Callable[[np.ndarray], Prediction],
    generator: np.random.Generator,
    n: int,
    outputs: int,
    m: int,
    public: bool = False,
) -> tuple[Calibrated, Draw]:
    """Return a calibration and its data; if `public`, by `calibrate`, which evaluates the model twice."""
    draw = sampler(world, generator, n, m, outputs)
    options: dict[str, Any] = dict(
        score=score, calibrator=calibrator, groups=draw.groups_cal, confidence=confidence
    )
    if public:
        return calibrate(predict, draw.x_cal, draw.y_cal, **options), draw
    return calibrate_prediction(PredictionFunction(predict), predict(draw.x_cal), draw.y_cal, **options), draw


def _tally(
    calibrated_draw: Callable[..., tuple[Calibrated, Draw]], levels: Sequence[Level], draws: int
) -> Iterator[tuple[Level, int, np.ndarray, bool]]:
    """Yield each level, the number of covered test points, its law, and whether the law is exact."""
    first, draw = calibrated_draw(TEST_POINTS, public=True)
    first_prediction, first_groups = first.predict(draw.x), draw.groups
    known = first.laws_for(first_prediction, levels[0], draw.groups)
    exact_law, first_law = known is not None, list(known or ())
    m = TEST_POINTS if exact_law else 1
    covered = dict.fromkeys(levels, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        for _ in range(draws):
            calibrated, draw = calibrated_draw(m)
            prediction = calibrated.predict(draw.x)
            if exact_law:
                same = list(calibrated.laws_for(prediction, levels[0], draw.groups) or ()) == first_law
                assert same, "the law changes between draws: the sampler should return parts of equal sizes"
            for level in levels:
                try:  # the set as users see it, if it has a band
                    inside = calibrated.band(prediction, level, groups=draw.groups).contains(draw.y)
                except TypeError:
                    inside = calibrated.contains(prediction, draw.y, level, groups=draw.groups)
                covered[level] += int(inside[:m].sum())
    for level in levels:
        pieces = first.laws_for(first_prediction, level, first_groups) if exact_law else None
        chance = float(first.promised(level) or 0)
        law = _binomial(draws, chance) if pieces is None else total_counts(pieces, repeats=draws)
        yield level, covered[level], law, exact_law


def _binomial(n: int, p: float) -> np.ndarray:
    from scipy.stats import binom

    return binom.pmf(np.arange(n + 1), n, p)
