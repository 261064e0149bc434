"""The band for the truth: noise laws, the two bounds, their validity over many draws, invalid input."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, kstest

import guardband as gb
from guardband.conformal.truth import TruthThreshold
from helpers import Later

modules = Later("guardband.export.modules")

LAWS: dict[str, tuple[Any, Any]] = {
    "gaussian": (gb.conformal.GaussianNoise(0.5), lambda g, shape: 0.5 * g.normal(size=shape)),
    "laplace": (gb.conformal.LaplaceNoise(0.5), lambda g, shape: g.laplace(scale=0.5 / 2**0.5, size=shape)),
    "uniform": (gb.conformal.UniformNoise(0.8), lambda g, shape: g.uniform(-0.8, 0.8, size=shape)),
}
DRAWS, FALSE_ALARM = 2000, 1e-3 / 24
"""Number of calibration sets, and false-alarm rate of each of at most 24 comparisons in this file."""

ERRORS: dict[str, tuple[Any, Any]] = {
    "gaussian": (
        lambda g, shape: 0.15 * g.normal(size=shape),
        lambda t: math.erf(t / 0.15 / 2**0.5),
    ),
    "rare and large": (  # slightly more points than allowed are off by 1
        lambda g, shape: 1.0 * (g.uniform(size=shape) < 0.105),
        lambda t: 1.0 if t >= 1 else 0.895,
    ),
}


def anywhere(t: float) -> gb.Prediction:
    return gb.Prediction(None, [t])


# Noise


@pytest.mark.parametrize("readings", [1, 2, 5, 12])
@pytest.mark.parametrize("name", LAWS)
def test_a_law_of_means_is_that_of_drawn_means(name: str, readings: int) -> None:
    """Kolmogorov-Smirnov tests on 20 000 draws, twelve of them."""
    noise, draw = LAWS[name]
    law = noise.averaged(readings)
    means = draw(np.random.default_rng(readings), (20_000, readings)).mean(axis=1)
    assert kstest(means, lambda s: 1 - law.above(s)).pvalue > FALSE_ALARM
    assert law.unit == pytest.approx(noise.unit / readings**0.5)
    s = np.linspace(0, 3, 50)
    assert (np.diff(law.beyond(np.array([0.7]), s)) >= -1e-14).all(), "it should grow with the shift"
    assert np.allclose(law.above(-s), 1 - law.above(s))


# Validity


@pytest.mark.parametrize("draws", [300, pytest.param(DRAWS, marks=pytest.mark.long)])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", LAWS)
def test_the_band_holds_the_truth_with_the_confidence_asked(name: str, error: str, draws: int) -> None:
    """The share of truths within t is known for each calibration set; level 0.9, confidence 0.9."""
    noise, draw = LAWS[name]
    miss, within = ERRORS[error]
    generator, wrong, refused = np.random.default_rng(1), 0, 0
    for _ in range(draws):
        y = miss(generator, 800) + draw(generator, 800)
        try:
            threshold = made(noise, y)
        except ValueError:
            refused += 1
            continue
        wrong += within(threshold(anywhere(0.0), 0.9)) < 0.9
    assert wrong <= binom.ppf(1 - FALSE_ALARM, draws, 0.1)
    assert refused <= binom.ppf(1 - FALSE_ALARM, draws, 1e-3)


def made(noise: Any, y: np.ndarray) -> Any:
    """The threshold for readings and a model that predicts 0, with confidence 0.9."""
    return gb.conformal.Truth(noise).threshold(abs(y), gb.Prediction(None, 0 * y), confidence=0.9)


@pytest.mark.parametrize("mutant", ["sigma twice too large", "the model has followed the noise"])
def test_noise_that_is_not_there_is_refused(mutant: str) -> None:
    generator, twice = np.random.default_rng(2), mutant.startswith("sigma")
    for _ in range(100):
        y = 0.15 * generator.normal(size=800) + 0.5 * generator.normal(size=800)
        with pytest.raises(ValueError, match=r"scatter less than the declared noise.*smaller noise"):
            made(gb.conformal.GaussianNoise(1.0), y) if twice else made(
                gb.conformal.GaussianNoise(0.5), y / 3
            )


class Hopeful(TruthThreshold):
    """The observed shares in place of their upper bounds."""

    def _shares(self, delta: Any) -> np.ndarray:
        return (self.scores > self._thresholds[:, None]).mean(axis=1)


def test_a_bound_without_confidence_is_caught() -> None:
    """It fails the test above by a wide margin."""
    (noise, draw), (miss, within) = LAWS["uniform"], ERRORS["rare and large"]
    generator, wrong = np.random.default_rng(1), 0
    for _ in range(300):
        scores = np.sort(abs(miss(generator, 800) + draw(generator, 800)))
        wrong += within(Hopeful(scores, noise, "0.9").distribution_bound(0.9)) < 0.9
    assert wrong > binom.ppf(1 - FALSE_ALARM, 300, 0.1)


def test_right_noise_is_hardly_ever_refused() -> None:
    """A perfect model and the right noise: in at most one set in a thousand."""
    generator, refused = np.random.default_rng(3), 0
    for _ in range(DRAWS):
        y = 0.5 * generator.normal(size=200)
        try:
            made(gb.conformal.GaussianNoise(0.5), y)
        except ValueError:
            refused += 1
    assert refused <= binom.ppf(1 - FALSE_ALARM, DRAWS, 1e-3)


def test_a_bound_on_the_noise_keeps_the_level_exactly_from_below() -> None:
    """Biased noise at its bound, one new place for each of 2000 sets."""
    generator, held = np.random.default_rng(4), 0
    for _ in range(DRAWS):
        truth = generator.normal(size=20)
        y = truth + np.where(generator.uniform(size=20) < 0.9, 0.3, -0.3)
        calibrated = gb.calibrate_arrays(
            np.zeros(19),
            y[:19],
            score=gb.Absolute(),
            calibrator=gb.conformal.Truth(gb.conformal.BoundedNoise(0.3)),
        )
        held += bool(calibrated.contains(anywhere(0.0), truth[19:], 0.9)[0])
    assert held >= binom.ppf(FALSE_ALARM, DRAWS, 0.9)


# The bound itself


def test_the_bound_is_the_best_over_fixed_thresholds_by_brute_force() -> None:
    from scipy.stats import beta, norm

    generator = np.random.default_rng(5)
    scores = np.sort(abs(0.3 * generator.normal(size=3000) + generator.normal(size=3000)))
    best = math.inf
    thresholds = np.concatenate([np.linspace(0.5, 4, 15), np.geomspace(5, 50, 8)])
    for s in thresholds:
        k = int((scores > s).sum())
        share = beta.ppf(1 - 0.05 / 2 / len(thresholds), k + 1, 3000 - k)
        alone = 2 * norm.sf(s)
        t = np.arange(0.001, 4, 0.001)
        out = norm.sf(s - t) + norm.sf(s + t)
        best = min(best, t[share - alone <= 0.1 * (out - alone)].min(initial=math.inf))
    found = TruthThreshold(scores, gb.conformal.GaussianNoise(1.0), "0.95").distribution_bound(0.9)
    assert best - 0.001 <= found <= best


def test_the_smaller_bound_is_taken_and_many_points_pay() -> None:
    generator = np.random.default_rng(6)
    y = 0.3 * generator.normal(size=5000) + generator.normal(size=5000)
    many = TruthThreshold(np.sort(abs(y)), gb.conformal.GaussianNoise(1.0), "0.95")
    for n in (100, 500):
        few = TruthThreshold(np.sort(abs(y[:n])), gb.conformal.GaussianNoise(1.0), "0.95")
        assert few(anywhere(0.0), 0.9) == min(few.symmetric_bound(0.9), few.distribution_bound(0.9))
    assert many(anywhere(0.0), 0.9) == many.distribution_bound(0.9) < 0.7 * many.symmetric_bound(0.9)
    levels = [f"0.{i}" for i in range(1, 10)]
    assert (np.diff([many(anywhere(0.0), level) for level in levels]) >= 0).all()
    k = gb.conformal.confident_rank(5000, 0.95, 0.975)
    assert many.symmetric_bound(0.9) == np.sort(abs(y))[k - 1]


# The interface of `calibrate`


def world(n: int, seed: int, readings: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, noisy readings, and the truth; the model predicts 0."""
    generator = np.random.default_rng(seed)
    x = np.repeat(generator.uniform(size=(n, 1)), readings, axis=0)
    truth = 0.1 * np.cos(20 * x)
    return x, truth + 0.5 * generator.normal(size=x.shape), truth


def calibrated_on(n: int, readings: int = 1, **options: Any) -> gb.Calibrated:
    x, y, _ = world(n, 0, readings)
    given: dict[str, Any] = {
        "target": "truth",
        "noise": gb.conformal.GaussianNoise(0.5),
        "confidence": 0.95,
        **options,
    }
    return gb.calibrate(np.zeros_like, x, y, **given)


def test_the_door_makes_a_band_about_the_truth(tmp_path: Path) -> None:
    calibrated = calibrated_on(2000)
    assert calibrated.about == "truth" and calibrated.laws(0.9, 5) is None
    for words in (
        "the noise-free truth at a new point lies in the band",
        "noise is GaussianNoise(sd=0.5) at each, independent of the point",
        "Nothing is promised about a new measurement",
        "with confidence 0.95 over calibration sets whose points are drawn independently",
    ):
        assert words in calibrated.promise
    plain = gb.calibrate(np.zeros_like, *world(2000, 0)[:2], confidence=0.95)
    x, y, truth = world(500, 1)
    assert calibrated(x, 0.9).width[0] < plain(x, 0.9).width[0]
    evaluation = gb.evaluate(calibrated, x, truth, level=0.9, target="truth")
    assert evaluation.consistent and evaluation.laws is None and evaluation.coverage == 1
    assert "500 of 500 noise-free values covered, at least 0.9 are promised with" in evaluation.verdict
    measured = gb.evaluate(calibrated, x, y, level=0.9)
    assert measured.consistent is None and "promises nothing about measurements" in measured.verdict
    wrong = gb.evaluate(calibrated, x, truth + 5, level=0.9, target="truth")
    assert wrong.consistent is False and "in at most 5 % of cases" in wrong.verdict
    again = gb.load(gb.save(calibrated, tmp_path / "band"), model=np.zeros_like)
    assert np.array_equal(again(x, 0.9).upper, calibrated(x, 0.9).upper) and again.about == "truth"
    page = gb.report(calibrated, x, truth, path=tmp_path / "truth.md", level=0.9).read_text()
    assert "The truth behind a new measurement lies in this band with probability at least 90 %" in page
    assert "any noise" not in page and "coverage of new measurements" in page


def test_repeats_are_averaged_and_their_law_convolved() -> None:
    calibrated = calibrated_on(1000, readings=4)
    assert calibrated.n == 1000 and "4 readings averaged at each" in calibrated.promise
    x, y, _ = world(1000, 0, 4)
    means = y.reshape(1000, 4).mean(axis=1)
    by_hand = gb.calibrate(
        np.zeros_like, x[::4], means, target="truth", noise=gb.conformal.GaussianNoise(0.25), confidence=0.95
    )
    assert calibrated([0.5], 0.9).upper == pytest.approx(by_hand([0.5], 0.9).upper, rel=1e-9)
    assert calibrated([0.5], 0.9).upper < calibrated_on(1000)([0.5], 0.9).upper
    with pytest.raises(ValueError, match="readings per point ranges from 1 to 4"):
        gb.calibrate(
            np.zeros_like,
            x[:-3],
            y[:-3],
            target="truth",
            noise=gb.conformal.GaussianNoise(0.5),
            confidence=0.95,
        )


def test_a_bounded_noise_needs_no_confidence_and_adds_its_bound(tmp_path: Path) -> None:
    x, y, _ = world(200, 0)
    bounded = gb.calibrate(np.zeros_like, x, y, target="truth", noise=gb.conformal.BoundedNoise(2.0))
    plain = gb.calibrate(np.zeros_like, x, y)
    assert bounded([0.5], 0.9).upper == pytest.approx(plain([0.5], 0.9).upper + 2)
    assert "no reading is farther than 2 from the truth" in bounded.promise
    said = gb.evaluate(bounded, *world(50, 1)[::2], level=0.9, target="truth")
    assert said.consistent is None and "on average" in said.verdict
    assert bounded.size(0.9) == gb.conformal.Size(200, 9)
    sure = gb.calibrate(
        np.zeros_like, x, y, target="truth", noise=gb.conformal.BoundedNoise(2.0), confidence=0.9
    )
    assert sure([0.5], 0.9).upper > bounded([0.5], 0.9).upper and "With confidence 0.9" in sure.promise


def test_too_few_points_give_an_infinite_band_and_the_number_needed() -> None:
    need = gb.conformal.points_needed(0.95, 0.975)
    assert need == 72 and calibrated_on(need).size(0.9) == gb.conformal.Size(72, 72)
    assert np.isfinite(calibrated_on(need)([0.5], 0.9).upper).all()
    with pytest.warns(
        gb.conformal.InfiniteBandWarning, match="of the truth, needs 72 calibration points, but there are 30"
    ):
        assert calibrated_on(30)([0.5], 0.9).upper == math.inf
    assert calibrated_on(30).size(0.9) == gb.conformal.Size(30, 72)
    assert calibrated_on(60).size(0.9) == gb.conformal.Size(60, 60), "a lucky set"
    with pytest.raises(ValueError, match="A graph of an infinite band"):
        modules.module_of(calibrated_on(30).threshold, 0.9)  # type: ignore[attr-defined]
    assert modules.module_of(calibrated_on(80).threshold, 0.9) > 0  # type: ignore[attr-defined]


def test_what_it_cannot_promise_is_refused() -> None:
    x, y, _ = world(100, 0)
    with pytest.raises(ValueError, match=r"needs a noise distribution: noise=gb.conformal.GaussianNoise"):
        gb.calibrate(np.zeros_like, x, y, target="truth")
    with pytest.raises(ValueError, match=r"needs the score \|y - mean\|, score=gb.Absolute\(\)"):
        calibrated_on(100, score=gb.Scaled())
    with pytest.raises(ValueError, match=r"needs the score \|y - mean\|"):
        calibrated_on(100, score=gb.Absolute(units=2.0))
    with pytest.raises(ValueError, match="Pass `confidence`, such as"):
        calibrated_on(100, confidence=None)
    with pytest.raises(ValueError, match=r"chooses its own calibrator. Omit Split\(\)"):
        calibrated_on(100, calibrator=gb.Split())
    with pytest.raises(ValueError, match="`groups` should not be passed to a band for the truth"):
        calibrated_on(100, groups=["a"] * 100)
    with pytest.raises(ValueError, match=r"supports one output, \(n, 1\)"):
        gb.calibrate(
            lambda x: np.hstack([x, x]),
            x,
            np.hstack([y, y]),
            target="truth",
            noise=gb.conformal.BoundedNoise(1.0),
        )
    with pytest.raises(
        TypeError, match=r"`noise` should be a distribution, such as gb.conformal.GaussianNoise\(0.05\)"
    ):
        calibrated_on(100, noise=0.5)
    with pytest.raises(ValueError, match="`noise` requires a band for the truth, target='truth'"):
        gb.calibrate(np.zeros_like, x, y, noise=gb.conformal.GaussianNoise(0.5))
    with pytest.raises(ValueError, match="`target` should be 'measurement' or 'truth', got 'mean'"):
        gb.calibrate(np.zeros_like, x, y, target="mean")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`sd` should be the standard deviation of the noise, a positive"):
        gb.conformal.GaussianNoise(-1.0)


# The bound for the truth from noise of median zero with unknown distribution


def about_truth(score: Any, **options: Any) -> gb.evaluation.Evaluation:
    """Fields (N, 20, 1) of the constant 1, read with uniform noise on [-1, 1]; the model predicts 0."""
    draw = np.random.default_rng(6)
    y = 1 + draw.uniform(-1, 1, size=(200, 20, 1))
    made = gb.calibrate_arrays(0 * y, y, score=score, **options)
    given = gb.Prediction(None, np.zeros((100, 20, 1)))
    return gb.evaluate(made, given, np.ones((100, 20, 1)), level=0.9, target="truth", median_zero=True)


def energy(u: np.ndarray) -> np.ndarray:
    return (u**2).mean(axis=-2)


def test_the_factor_of_two_is_promised_where_the_set_is_a_box() -> None:
    boxes = [gb.Simultaneous(), gb.Absolute()]
    for score in boxes:
        evaluation = about_truth(score)
        assert "is covered with probability at least 0.8 = 1 - 2 (1 - level)" in evaluation.verdict
        assert "independent of the training and calibration points" in evaluation.verdict
        assert evaluation.coverage >= 0.8
    others = [gb.Share(0.75), gb.Norm(), gb.Quantity(energy)]
    for score in others:
        verdict = about_truth(score).verdict
        assert "nothing is promised about the truth" in verdict and "covered with probability" not in verdict
    assert about_truth(gb.Share(0.75)).coverage == 0, "a share of readings says nothing about the truth"
    assert [score.is_box for score in (*boxes, gb.CQR(), gb.conformal.Total(1.0), *others)] == [True] * 4 + [
        False
    ] * 3


def test_a_score_of_ones_own_promises_nothing_about_the_truth_unless_it_says_so() -> None:
    class Length(gb.conformal.Score):
        def __call__(self, prediction: gb.Prediction, y: Any) -> Any:
            return np.linalg.norm(y - prediction.mean, axis=1)

    assert not Length().is_box


def test_the_factor_of_two_keeps_the_confidence() -> None:
    verdict = about_truth(gb.Simultaneous(), confidence=0.95).verdict
    assert "= 1 - 2 (1 - level), with confidence 0.95 for the calibration set at hand" in verdict


def test_noise_declared_too_large_is_accepted_from_a_wrong_model_and_the_docstring_says_so() -> None:
    """A model off by two standard deviations at 30 % of the points, noise declared 1.2 times too large."""
    for seed in range(20):
        draw = np.random.default_rng(seed)
        x = draw.uniform(size=(2000, 1))
        y = 2.0 * (draw.uniform(size=x.shape) < 0.3) + draw.normal(size=x.shape)
        law = gb.conformal.GaussianNoise(1.2)
        gb.calibrate(np.zeros_like, x, y, target="truth", noise=law, confidence=0.95)
    documented = " ".join((gb.conformal.Truth.__doc__ or "").split())
    assert "the mistake is usually not detected" in documented
