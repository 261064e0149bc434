"""Calibrators: coverage over many data sets, held against the law that is promised."""

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
"""How many test points each experiment of `check_calibrator` counts, where the law is exact."""


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
    """Coverage over many independent experiments is what the exact law says, at every size and level.

    Each of `draws` experiments calibrates anew and counts covered test points. Their sum is held
    against the exact law of `Threshold.laws`, on both sides (below only, where scores can tie). Where
    a threshold knows no law, one test point per experiment is held against Binomial(draws, level)
    from below; use 2000 draws then. A sampler of your own must give groups of the same sizes at every
    draw. `predictions` turns a prediction with mean and scale into one of the kind that the score wants.
    `false_alarm` is the probability that a perfect calibrator fails
    anywhere in this call, shared equally among the cells.

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
                seen = (
                    f"{calibrator!r} with {score!r} covers {covered / total:.4f} of {total} points at "
                    f"level {level} with n = {n} in the {world.name} world, "
                    f"the law says {law @ np.arange(total + 1) / total:.4f}"
                )
                below, above = tails(law, covered)
                assert below > allowed, f"coverage is too low: {seen} (p = {below:.2g})"
                if exact_law and not world.ties:
                    assert above > allowed, f"coverage is too high: {seen} (p = {above:.2g})"


def _predict(
    world: World, outputs: int, predictions: Callable[[Prediction], Prediction] | None, x: np.ndarray
) -> Prediction:
    made = world.predict(x, outputs)
    return made if predictions is None else predictions(made)


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
    door: bool = False,
) -> tuple[Calibrated, Draw]:
    """A calibration and what it was drawn with: through the door, where the model is asked again, or not."""
    draw = sampler(world, generator, n, m, outputs)
    options: dict[str, Any] = dict(
        score=score, calibrator=calibrator, groups=draw.groups_cal, confidence=confidence
    )
    if door:
        return calibrate(predict, draw.x_cal, draw.y_cal, **options), draw
    return calibrate_prediction(PredictionFunction(predict), predict(draw.x_cal), draw.y_cal, **options), draw


def _tally(
    calibrated_draw: Callable[..., tuple[Calibrated, Draw]], levels: Sequence[Level], draws: int
) -> Iterator[tuple[Level, int, np.ndarray, bool]]:
    """For each level: how many test points were covered, the law of that number, whether it is exact."""
    first, draw = calibrated_draw(TEST_POINTS, door=True)
    there, first_groups = first.predict(draw.x), draw.groups
    known = first.laws_for(there, levels[0], draw.groups)
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
                assert same, "the law changes from draw to draw: the sampler should give parts of equal sizes"
            for level in levels:
                try:  # what a user is shown, where the set can be shown
                    inside = calibrated.band(prediction, level, groups=draw.groups).contains(draw.y)
                except TypeError:
                    inside = calibrated.contains(prediction, draw.y, level, groups=draw.groups)
                covered[level] += int(inside[:m].sum())
    for level in levels:
        pieces = first.laws_for(there, level, first_groups) if exact_law else None
        chance = float(first.promised(level) or 0)
        law = _binomial(draws, chance) if pieces is None else total_counts(pieces, repeats=draws)
        yield level, covered[level], law, exact_law


def _binomial(n: int, p: float) -> np.ndarray:
    from scipy.stats import binom

    return binom.pmf(np.arange(n + 1), n, p)
