from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import guardband as gb

ZERO = gb.predictors.MeanOnly(lambda x: 0 * x)


def reference(scores: np.ndarray, groups: np.ndarray, level: str) -> float:
    """The smallest t whose readings carry weight >= level, in exact rationals over all candidates."""
    clusters = np.unique(groups)
    for t in np.sort(scores):
        inside = [Fraction(int((scores[groups == g] <= t).sum()), int((groups == g).sum())) for g in clusters]
        if sum(inside) >= Fraction(level) * (len(clusters) + 1):
            return float(t)
    return np.inf


@pytest.mark.slow
def test_the_threshold_is_the_exact_weighted_quantile() -> None:
    generator = np.random.default_rng(0)
    for _ in range(300):
        clusters = int(generator.integers(1, 30))
        groups = np.repeat(np.arange(clusters), generator.integers(1, 8, size=clusters))
        y = np.round(generator.normal(size=len(groups)), 1)
        calibrated = gb.calibrate(ZERO, y, y, calibrator=gb.Clustered(), groups=groups)
        level = str(generator.choice(["0.5", "0.75", "0.9", "0.95"]))
        expected = reference(abs(y), groups, level)
        if np.isinf(expected):
            with pytest.warns(gb.conformal.InfiniteBandWarning):
                assert np.isinf(calibrated([0.0], level).upper).all()
        else:
            assert np.isclose(calibrated([0.0], level).upper.item(), expected, rtol=1e-14)


def test_one_reading_per_sensor_is_split_bit_for_bit() -> None:
    y = np.random.default_rng(1).normal(size=50)
    clustered = gb.calibrate(ZERO, y, y, calibrator=gb.Clustered(), groups=np.arange(50))
    for level in gb.conformal.LEVELS:
        assert np.array_equal(clustered(y, level).upper, gb.calibrate(ZERO, y, y)(y, level).upper)


def test_sums_stay_exact_where_64_bits_are_too_few() -> None:
    sizes = [53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103]
    groups = np.repeat(np.arange(12), sizes)
    y = np.random.default_rng(2).normal(size=len(groups))
    calibrated = gb.calibrate(ZERO, y, y, calibrator=gb.Clustered(), groups=groups)
    upper = calibrated([0.0], "0.75").upper.item()
    assert np.isclose(upper, reference(abs(y), groups, "0.75"), rtol=1e-14)


def test_five_sensors_at_95_percent_are_infinite_and_19_are_needed() -> None:
    y = np.random.default_rng(3).normal(size=150)
    calibrated = gb.calibrate(ZERO, y, y, calibrator=gb.Clustered(), groups=np.repeat(list("abcde"), 30))
    with pytest.warns(gb.conformal.InfiniteBandWarning, match=r"needs 19 groups .*, but there are 5"):
        assert np.isinf(calibrated(y, 0.95).upper).all()
    assert np.isfinite(calibrated(y, 0.8).upper).all()


@pytest.mark.slow
def test_forty_sensors_of_thirty_readings_cover_a_reading_of_a_new_one() -> None:
    """Readings share the bias of their sensor; one new reading per draw: Binomial(2000, 0.95)."""
    generator = np.random.default_rng(4)
    sensors, draws = np.repeat(np.arange(40), 30), 2000
    covered = plain = 0
    for _ in range(draws):
        y = generator.normal(size=41)[np.append(sensors, 40)] + 0.3 * generator.normal(size=1201)
        clustered = gb.calibrate(ZERO, y[:-1], y[:-1], calibrator=gb.Clustered(), groups=sensors)
        covered += int(clustered([0.0], "0.95").upper.item() >= abs(y[-1]))
        plain += int(gb.calibrate(ZERO, y[:-1], y[:-1])([0.0], "0.95").upper.item() >= abs(y[-1]))
    assert covered >= binom.ppf(1e-4, draws, 0.95)
    assert plain < covered


def test_what_has_no_meaning_here_is_refused() -> None:
    y = np.arange(20.0)
    with pytest.raises(
        ValueError, match=r"`confidence` applies to Split\(\), Grouped\(\) and Local\(\), not to Clustered"
    ):
        gb.calibrate(ZERO, y, y, calibrator=gb.Clustered(), groups=list(range(20)), confidence=0.9)
    with pytest.raises(ValueError, match=r"Clustered\(\) needs `groups=`, the sensor of each"):
        gb.calibrate(ZERO, y, y, calibrator=gb.Clustered())
    calibrated = gb.calibrate(ZERO, y, y, calibrator=gb.Clustered(), groups=list(range(20)))
    with pytest.raises(ValueError, match="it covers readings of new sensors"):
        calibrated(y, groups=list(range(20)))
