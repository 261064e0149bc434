"""Coverage by range: uneven coverage is reported, and even coverage raises few alarms."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

import guardband as gb
from guardband.evaluation.contenders import by_size
from guardband.metrics.ranges import FALSE_ALARM, Range, Ranges, _p_value, by_range, nearest, trends

TRIALS = 1000


def thirds(generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """1000 places in thirds, with coverage 1.00, 0.99 and 0.92."""
    x = generator.uniform(size=(1000, 1))
    return x, generator.uniform(size=1000) < np.select([x[:, 0] < 1 / 3, x[:, 0] < 2 / 3], [1.0, 0.99], 0.92)


def test_thirds_that_are_covered_unevenly_are_shown() -> None:
    """In 200 trials nearly all are detected."""
    generator = np.random.default_rng(0)
    seen = 0
    for _ in range(200):
        x, inside = thirds(generator)
        found = by_range(inside, {"x": x[:, 0]}, x)
        seen += bool(found.alarms) and "x from 0." in str(found)
    assert seen >= 190


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_even_coverage_raises_no_more_alarms_than_stated(level: float, d: int) -> None:
    """1000 valid trials, or 200; a right test fails here once in 4000 seeds."""
    generator, alarms, trials = np.random.default_rng(1), 0, TRIALS if d == 1 else TRIALS // 5
    for _ in range(trials):
        x = generator.normal(size=(300, d))
        found = by_range(generator.uniform(size=300) < level, dict(zip("abc", x.T, strict=False)), x)
        alarms += bool(found.alarms)
    assert alarms <= binom.ppf(1 - 1e-3 / 4, trials, FALSE_ALARM)


def test_a_test_against_the_level_would_be_caught() -> None:
    """The wrong test: a binomial test of each range against the level."""
    generator, wrong = np.random.default_rng(2), 0
    for _ in range(200):
        coverage = generator.beta(29, 2)  # a valid band calibrated on 30 points at 0.9
        inside = generator.uniform(size=400) < coverage
        p = binom.cdf(np.add.reduceat(inside, np.arange(0, 400, 80)), 80, 0.9)
        wrong += 2 * 5 * min(p.min(), (1 - p).min()) <= FALSE_ALARM
    assert wrong > binom.ppf(1 - 1e-3, 200, FALSE_ALARM)


def test_chances_are_hypergeometric_and_ranges_are_of_equal_size() -> None:
    generator = np.random.default_rng(3)
    x = generator.permutation(100).astype(float)
    inside = generator.uniform(size=100) < 0.8
    found = by_range(inside, {"x": x})
    assert [one.points for one in found.ranges] == [25] * 4 and found.slab is None and found.tests == 4
    law = hypergeom(100, int((~inside).sum()), 25)
    for one in found.ranges:
        some = (one.low <= x) & (x <= one.high)
        misses = int((~inside[some]).sum())
        assert one.covered == 25 - misses
        assert one.p == pytest.approx(min(1, 2 * min(law.cdf(misses), law.sf(misses - 1))))


def test_features_that_tie_lack_numbers_or_are_few_are_left_out_or_cut_where_they_can() -> None:
    inside = np.arange(100) % 10 > 0
    tied = by_range(inside, {"sensor": np.repeat([1.0, 2.0], 50)})
    assert [(one.low, one.high, one.points) for one in tied.ranges] == [(1, 1, 50), (2, 2, 50)]
    for values in (np.ones(100), np.where(np.arange(100) == 3, np.nan, np.arange(100.0))):
        assert by_range(inside, {"x": values}) == Ranges()
    assert by_range(inside[:30], {"x": np.arange(30.0)}) == Ranges() and str(Ranges()) == ""
    assert np.isnan(nearest(np.array([[np.nan], [1.0]]), np.ones((3, 1)))).all()


@pytest.mark.parametrize(("alarms", "text"), [(1, "1 of 5 tests stands out"), (2, "2 of 5 tests stand out")])
def test_the_sentence_agrees_with_the_number_of_alarms(alarms: int, text: str) -> None:
    ranges = [Range("x", i, i + 1, 25, 20, 0.001, alarm=i < alarms) for i in range(5)]
    assert text in str(Ranges(tuple(ranges)))


def test_a_tilted_slab_is_found_on_one_half_and_shown_on_the_other() -> None:
    generator = np.random.default_rng(4)
    x = generator.uniform(size=(2000, 2)) * [1, 100]
    bad = abs(x[:, 0] + x[:, 1] / 100 - 1) < 0.15
    inside = generator.uniform(size=2000) < np.where(bad, 0.6, 0.97)
    slab = by_range(inside, {"a": x[:, 0], "b": x[:, 1]}, x).slab
    assert slab is not None and slab.alarm and slab.feature.startswith("the worst slab, ")
    assert 150 <= slab.points < 1000 / 2 and slab.coverage < 0.85


@pytest.mark.slow
def test_evaluate_and_the_report_show_it_by_themselves(tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    x = generator.uniform(size=(1500, 2))
    y = np.where(x[:, :1] < 0.8, 0.1, 1.0) * generator.normal(size=(1500, 1))
    train = gb.Observations(generator.uniform(size=(50, 2)), np.zeros((50, 1)))
    model = gb.predictors.Given(lambda x: 0 * x[:, :1], lambda x: 1 + x[:, 1:], training_data=train)
    calibrated = gb.calibrate(model, x[:500], y[:500])
    evaluation = gb.evaluate(calibrated, x[500:], y[500:], level=0.9)
    features = list(dict.fromkeys(one.feature for one in evaluation.by_range.ranges))
    assert features == ["x0", "x1", "distance to training data", "width"]
    assert "by tests with 1 % false alarms if points are independent" in str(evaluation)
    assert "Coverage is not the same everywhere" in str(evaluation) and "least covered is" in str(evaluation)
    assert evaluation.consistent, "the promise is an average, and kept"
    page = gb.report(calibrated, x[500:], y[500:], path=tmp_path / "band.md", level=0.9).read_text()
    assert "## Where it covers" in page and "| ALARM | x0, " in page
    even = generator.normal(size=(1500, 1))
    calm = gb.calibrate(model, x[:500], even[:500], score=gb.Absolute())
    page = gb.report(calm, x[500:], even[500:], path=tmp_path / "calm.md", level=0.9).read_text()
    assert "Coverage varies between these ranges no more than chance allows." in page
    assert "not the same everywhere" not in str(gb.evaluate(calm, x[500:], even[500:], level=0.9))


def test_what_is_found_when_asked_for_is_in_the_pickle_and_the_model_is_not() -> None:
    generator = np.random.default_rng(7)
    x, y = generator.uniform(size=(300, 1)), generator.integers(0, 4, size=(300, 1)).astype(float)
    calibrated = gb.calibrate(lambda x: 0 * x, x[:100], y[:100])
    evaluation = gb.evaluate(calibrated, x[100:], y[100:])
    again = pickle.loads(pickle.dumps(gb.evaluate(calibrated, x[100:], y[100:])))
    assert again.ties and again.ties == evaluation.ties, "scores of whole numbers tie"
    assert again.by_range == evaluation.by_range and again.by_range.ranges
    later = gb.evaluate(calibrated, x[100:], y[100:])
    x *= 2  # after the evaluation, and before the ranges are computed
    assert later.by_range == evaluation.by_range
    assert str(again) == str(evaluation)


def test_ranges_go_by_the_names_of_columns_and_axes() -> None:
    pandas = pytest.importorskip("pandas")
    generator = np.random.default_rng(6)
    frame = pandas.DataFrame(generator.uniform(size=(200, 2)), columns=["depth", "time"])
    y = generator.normal(size=200)
    calibrated = gb.calibrate(lambda f: 0 * f["depth"], frame[:100], y[:100])
    found = gb.evaluate(calibrated, frame[100:], y[100:]).by_range
    assert {one.feature for one in found.ranges} == {"depth", "time"}, "predictions are constant"


@pytest.mark.slow
def test_the_chance_of_misses_is_that_of_the_hypergeometric_law() -> None:
    generator = np.random.default_rng(7)
    for _ in range(300):
        n = int(generator.integers(1, 400))
        inside, some = (generator.random(n) < generator.random() for _ in range(2))
        law = hypergeom(n, int((~inside).sum()), int(some.sum()))
        here = int((~inside[some]).sum())
        expected = min(1.0, 2 * min(law.cdf(here), law.sf(here - 1)))
        assert _p_value(inside, some) == pytest.approx(expected, rel=1e-9)


def test_quarters_by_input_size_carry_what_chance_alone_would_show() -> None:
    """Misses at random places: a note on the size in at most 1 % of 300 cases, tested at 1e-3."""
    draw, notes = np.random.default_rng(0), 0
    for n in (16, 50, 101) * 100:
        (said,) = by_size(draw.uniform(size=n), draw.uniform(size=n) < 0.8)
        notes += "They do not" in said
    assert binom.sf(notes - 1, 300, 0.01) > 1e-3
    (said,) = by_size(np.arange(100.0), np.arange(100) < 85)
    assert (
        "1.000, 1.000, 1.000, 0.400; if the size does not matter and fields are independent, all lie between"
        in said
    )
    assert "in at least 99 % of cases. They do not: coverage seems to depend on the size" in said


def model(x: np.ndarray) -> np.ndarray:
    return np.sin(3 * x[:, :1]) * np.cos(x[:, 1:])


def noisy(generator: np.random.Generator, n: int, growing: bool) -> tuple[np.ndarray, np.ndarray]:
    """Places, and readings whose noise is constant or grows with the predicted value."""
    x = generator.uniform(-1, 1, size=(n, 2))
    size = 0.05 + 0.25 * abs(model(x)) if growing else 0.1
    return x, model(x) + size * generator.normal(size=(n, 1))


def flagged(generator: np.random.Generator, growing: bool, **options: object) -> tuple[bool, bool]:
    """Whether evaluate and check flag 300 rows each: by the predicted value if noise grows, else by any."""
    calibrated = gb.calibrate(model, *noisy(generator, 300, growing), **options)  # type: ignore[arg-type]
    x, y = noisy(generator, 300, growing)
    alarms = gb.evaluate(calibrated, x, y, level=0.9).by_range.alarms
    notes = [one.text for one in gb.check(calibrated, x).findings if one.name == "evenness"]
    word = "predicted value" if growing else ""
    return any(word in one.feature for one in alarms), any(word in text for text in notes)


def test_noise_that_grows_with_the_predicted_value_is_flagged() -> None:
    generator = np.random.default_rng(20)
    seen = np.array([flagged(generator, growing=True) for _ in range(10)])
    assert seen.sum(axis=0).min() >= 9


@pytest.mark.slow
def test_it_is_flagged_in_95_of_100_data_sets_and_even_noise_in_1_of_100() -> None:
    """With 1 % nominal, a right test exceeds 21 of 1,000 once in a thousand seeds."""
    generator = np.random.default_rng(21)
    seen = np.array([flagged(generator, growing=True) for _ in range(100)])
    assert seen.sum(axis=0).min() >= 95
    even = np.array([flagged(generator, growing=False) for _ in range(1000)])
    assert even.sum(axis=0).max() <= binom.ppf(1 - 1e-3, 1000, FALSE_ALARM) == 21


def test_local_makes_the_flag_go_and_split_is_told_of_it(tmp_path: Path) -> None:
    generator = np.random.default_rng(22)
    data = gb.Observations(*noisy(generator, 400, True))
    x, y = noisy(generator, 300, True)
    new_x, new_y = noisy(generator, 400, True)
    split, local = (gb.calibrate(model, x, y, calibrator=one) for one in (None, gb.Local(data)))
    said = str(gb.check(split, new_x))
    assert "note   Misses differ along predicted value: they are largest" in said and "gb.Local()" in said
    assert "evenness" not in [one.name for one in gb.check(local, new_x).findings]
    page = gb.report(split, new_x, new_y, path=tmp_path / "band.md", level=0.9).read_text()
    assert "| ALARM | size of misses along predicted value | 400 |" in page
    assert "| even | size of misses along x1 | 400 |" in page and "gb.Local()" in page
    page = gb.report(local, new_x, new_y, path=tmp_path / "l.md").read_text()
    assert "Coverage varies between these ranges no more" in page


@pytest.mark.slow
@pytest.mark.parametrize("sizes", ["continuous", "few", "skewed"])
def test_trends_have_at_most_the_stated_false_alarms(sizes: str) -> None:
    """2,000 data sets of features that ties cut unevenly; fails by chance once in 3,000 seeds."""
    generator, alarms = np.random.default_rng(23), 0
    for _ in range(2000):
        features = {"a": generator.normal(size=100), "b": generator.poisson(1.0, size=100).astype(float)}
        misses = generator.exponential(size=100)
        misses = {"continuous": misses, "few": np.floor(misses), "skewed": misses**4}[sizes]
        alarms += any(one.alarm for one in trends(features, misses))
    assert alarms <= binom.ppf(1 - 1e-3 / 3, 2000, FALSE_ALARM)


def test_predicted_values_go_by_the_names_of_outputs_and_fields_by_their_size() -> None:
    generator = np.random.default_rng(24)
    x = generator.uniform(size=(200, 2))
    two = gb.calibrate(
        lambda x: np.stack([x[:, 0], x[:, 1] ** 2], 1), x[:100], generator.normal(size=(100, 2))
    )
    found = gb.evaluate(two, x[100:], generator.normal(size=(100, 2))).by_range
    assert [one.feature for one in found.trends] == ["x0", "x1", "predicted y0", "predicted y1"]
    fields = generator.normal(size=(160, 5, 1)) * np.exp(generator.normal(size=(160, 1, 1)))
    noise = abs(fields).max(axis=1, keepdims=True) * generator.normal(size=fields.shape)
    whole = gb.calibrate(lambda x: 2 * x, fields[:80], (2 * fields + noise)[:80], score=gb.Simultaneous())
    found = gb.evaluate(whole, fields[80:], (2 * fields + noise)[80:]).by_range
    assert {one.feature for one in found.alarms} >= {"size of the input", "size of the prediction"}


def test_readings_of_one_sensor_are_not_taken_for_independent() -> None:
    """Sensors with an offset each are not uneven coverage."""
    generator = np.random.default_rng(25)
    places, offsets = generator.uniform(size=(40, 1)), generator.normal(size=(40, 1))
    x, y = np.repeat(places, 10, axis=0), np.repeat(offsets, 10, axis=0)
    sensors = np.repeat(np.arange(40), 10)
    made = gb.calibrate(np.zeros_like, x[:200], y[:200], calibrator=gb.Clustered(), groups=sensors[:200])
    assert not gb.evaluate(made, x[200:], y[200:], level=0.8).by_range.alarms
