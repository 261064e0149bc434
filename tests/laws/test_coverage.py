"""Coverage compared with its exact law for every calibrator, score, world, size and level.

Each call of `check_calibrator` covers 3 worlds x 4 sizes x 4 levels; the false-alarm rate of 1e-3 is
shared among all calls, so that together these tests fail by chance for one seed in a thousand.
"""

import math
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband import testing
from guardband.conformal.base import Calibrator
from guardband.conformal.rank import exact
from guardband.conformal.scores import Score
from guardband.conformal.split import SplitThreshold
from guardband.values import Prediction

SETTINGS: dict[str, dict[str, Any]] = {
    "split": dict(calibrator=gb.Split()),
    "split, confident": dict(calibrator=gb.Split(), confidence=0.9),
    "grouped": dict(calibrator=gb.Grouped(), sampler=testing.two_groups),
    "grouped, confident": dict(calibrator=gb.Grouped(), sampler=testing.two_groups, confidence=0.9),
    "clustered": dict(calibrator=gb.Clustered(), sampler=testing.new_sensors, draws=2000),
}
SCORES: dict[str, dict[str, Any]] = {
    "absolute": dict(score=gb.Absolute()),
    "scaled": dict(score=gb.Scaled()),
    "total": dict(score=gb.conformal.Total(0.1)),
    "joint scaled": dict(score=gb.Scaled(), outputs=2),
    "upper bound": dict(score=gb.conformal.OneSided(gb.Scaled(), "upper")),
    "joint lower bounds": dict(score=gb.conformal.OneSided(gb.Absolute(), "lower"), outputs=2),
}
FALSE_ALARM = 1e-3 / (len(SETTINGS) * len(SCORES))


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_coverage_obeys_its_exact_law(setting: str, score: str) -> None:
    testing.check_calibrator(**SETTINGS[setting], **SCORES[score], false_alarm=FALSE_ALARM, seed=20)


def test_the_rank_of_a_new_score_is_uniform() -> None:
    """All levels together: each rank among n + 1 exchangeable scores is equally likely.

    A chi-squared test with 20 cells on 20 000 draws; it fails by chance for one seed in a thousand.
    """
    from scipy.stats import chi2

    generator = np.random.default_rng(4)
    counts = np.zeros(20)
    for _ in range(20_000):
        draw = testing.exchangeable(testing.HETEROSKEDASTIC, generator, 19, 1, 1)
        predictions = (testing.HETEROSKEDASTIC.predict(x, 1) for x in (draw.x_cal, draw.x))
        cal, new = (gb.Scaled()(p, y) for p, y in zip(predictions, (draw.y_cal, draw.y), strict=True))
        counts[(cal < new).sum()] += 1
    assert ((counts - 1000) ** 2 / 1000).sum() < chi2.ppf(0.999, 19)


def test_a_confident_band_keeps_its_promise_over_calibration_sets() -> None:
    """P(coverage >= level) >= confidence, with the exact coverage of each band, over 2000 sets.

    For uniform scores a threshold q has coverage q. One-sided binomial test, false-alarm rate 1e-3.
    """
    from scipy.stats import binom

    generator = np.random.default_rng(5)
    kept = 0
    for _ in range(2000):
        scores = generator.uniform(size=100)
        threshold = gb.Split().threshold(scores, Prediction(None, scores), confidence=exact("0.9"))
        kept += threshold(Prediction(None, [0.0]), "0.95") >= 0.95
    assert kept >= binom.ppf(1e-3, 2000, 0.9)


class Shifted(Calibrator):
    """Split with a wrong rank."""

    def __init__(self, shift: int) -> None:
        self.shift = shift

    def threshold(self, scores: Any, prediction: Any, *, groups: Any = None, confidence: Any = None) -> Any:
        shift = self.shift

        class Wrong(SplitThreshold):
            def __call__(self, prediction: Any, level: Any, groups: Any = None) -> float:
                k = self.rank(level) + shift
                ordered = np.r_[-math.inf, self.scores, math.inf]
                return max(0.0, float(ordered[min(k, len(ordered) - 1)]))

        return Wrong(np.sort(scores))


class Forgetful(gb.Scaled):
    """Calibrated with the scale, predicted without it."""

    def band(self, prediction: Prediction, q: Any, level: float) -> gb.Band:
        return gb.Absolute().band(prediction, q, level)


def leaky(world: Any, generator: Any, n: int, m: int, outputs: int) -> testing.Draw:
    """An overfitted network was trained on half of the calibration points: their errors are a third."""
    draw = testing.exchangeable(world, generator, n, m, outputs)
    seen = generator.uniform(size=n) < 0.5
    truth = world.predict(draw.x_cal, outputs).mean
    y = np.where(seen[:, None], truth + (draw.y_cal - truth) / 3, draw.y_cal)
    return testing.Draw(draw.x_cal, y, draw.x, draw.y)


CONTINUOUS = (testing.HOMOSKEDASTIC, testing.HETEROSKEDASTIC)


@pytest.mark.parametrize("world", CONTINUOUS, ids=lambda world: world.name)
@pytest.mark.parametrize(
    ("mutant", "direction"),
    [
        (dict(calibrator=Shifted(-1)), "too low"),
        (dict(calibrator=Shifted(+1)), "too high"),
        (dict(calibrator=gb.Split(), sampler=leaky), "too low"),
        (dict(calibrator=gb.Split(), score=Forgetful()), "too"),
    ],
    ids=["rank k-1", "rank k+1", "leak of training rows", "another score at prediction"],
)
def test_planted_faults_are_caught(mutant: dict[str, Any], direction: str, world: Any) -> None:
    with pytest.raises(AssertionError, match=f"coverage is {direction}"):
        testing.check_calibrator(**mutant, worlds=[world], false_alarm=FALSE_ALARM / 3, seed=20)


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("n", [9, 19, 30, 100])
def test_an_off_by_one_is_caught_at_every_size(n: int, shift: int) -> None:
    with pytest.raises(AssertionError, match="coverage is too"):
        testing.check_calibrator(
            Shifted(shift),
            worlds=[testing.HOMOSKEDASTIC],
            sizes=[n],
            draws=1000,
            false_alarm=FALSE_ALARM,
        )


def test_another_score_at_prediction_is_caught_without_any_statistics() -> None:
    score: Score = Forgetful()
    with pytest.raises(AssertionError, match="lies"):
        testing.check_score(score)
