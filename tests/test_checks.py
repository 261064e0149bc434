"""Checks: alarms if the guarantee is void, and none otherwise."""

import numpy as np
import pytest

import guardband as gb
from guardband.checks.extrapolation import energy_test
from wings import pinn

ZERO = gb.predictors.MeanOnly(np.zeros_like)


def calibrated(x: np.ndarray, **options: object) -> gb.Calibrated:
    y = np.random.default_rng(9).normal(size=(len(x), 1))
    predictor = gb.predictors.MeanOnly(lambda x: 0 * x[:, :1])
    return gb.calibrate(predictor, x, y, **options)  # type: ignore[arg-type]


def crowded(generator: np.random.Generator, n: int) -> np.ndarray:
    """Points of which nine in ten lie in the left half."""
    left = generator.uniform(size=(n, 1)) < 0.9
    return generator.uniform(size=(n, 2)) * [0.5, 1.0] + np.where(left, 0.0, 0.5) * [1.0, 0.0]


def test_exchangeable_points_raise_no_alarm_and_crowded_ones_do() -> None:
    """At most 2 % and at least 95 % in the full trial of `test_alarm_rates`."""
    false, true = alarm_rates(40)
    assert false <= 0.1 and true >= 0.9


@pytest.mark.long
def test_alarm_rates() -> None:
    false, true = alarm_rates(1000, 100)
    print(f"false alarms {false:.3f}, alarms on crowded sensors {true:.2f}")
    assert false <= 0.02 and true >= 0.95


def alarm_rates(trials: int, crowded_trials: int | None = None) -> tuple[float, float]:
    generator = np.random.default_rng(0)
    false = [
        not gb.check(
            calibrated(generator.uniform(size=(100, 2))), generator.uniform(size=(200, 2)), seed=i
        ).ok
        for i in range(trials)
    ]
    true = [
        gb.check(calibrated(crowded(generator, 100)), generator.uniform(size=(200, 2)), seed=i)["shift"].alarm
        for i in range(crowded_trials or trials)
    ]
    return float(np.mean(false)), float(np.mean(true))


def test_the_energy_test_is_exact_under_permutation() -> None:
    generator = np.random.default_rng(3)
    values = [
        energy_test(generator.normal(size=(20, 1)), generator.normal(size=(15, 1)), generator)
        for _ in range(200)
    ]
    assert np.mean(np.array(values) <= 0.2) == pytest.approx(0.2, abs=0.1)


def test_few_sensors_are_named() -> None:
    places = np.repeat(np.random.default_rng(0).uniform(size=(5, 2)), 30, axis=0)
    found = gb.check(calibrated(places), places)
    assert found["sensors"].alarm and "150 calibration readings come from only 5 locations" in str(found)
    sensors = np.repeat(np.arange(5), 30)
    with pytest.warns(gb.conformal.InfiniteBandWarning, match="needs 19 groups"):
        assert np.isinf(calibrated(places, calibrator=gb.Clustered(), groups=sensors)(places).upper).all()
    assert not gb.check(calibrated(places, calibrator=gb.Clustered(), groups=sensors), places)[
        "sensors"
    ].alarm


def test_size_leak_and_distance() -> None:
    x = np.random.default_rng(0).uniform(size=(15, 1))
    train = gb.Observations(x[:3] + 0, np.full((3, 1), 99.0))
    made = gb.calibrate(gb.predictors.MeanOnly(np.zeros_like, training_data=train), x, np.ones(15))
    found = gb.check(made, x + 5)
    assert {finding.name for finding in found.alarms} == {"size", "shift", "far"} and not found.ok
    assert "19 are needed" in found["size"].text and "3 of 15" in found["leak"].text
    assert str(found).startswith("ALARM") and repr(found) == str(found)
    assert found["far"].text.startswith("100 % of the queries")


def test_what_cannot_be_seen_is_said() -> None:
    y = np.arange(30.0)
    found = gb.check(gb.calibrate_arrays(y, y + 1), np.zeros((3, 1)))
    assert "are not known" in found["places"].text and found.ok
    x = np.random.default_rng(0).uniform(size=(40, 1))
    local = gb.Local(gb.Observations(x + 2, x), gb.conformal.LogScale(draws=2))
    made = gb.calibrate(ZERO, x, np.ones(40) + x[:, 0], calibrator=local)
    assert "Pass `held_out` or `refit`" in gb.check(made, x)["guard"].text
    with pytest.raises(ValueError, match="should have 1 coordinates like the calibration points, got 2"):
        gb.check(made, np.zeros((3, 2)))


def test_findings_that_are_not_there_are_named() -> None:
    x = np.random.default_rng(0).uniform(size=(40, 1))
    findings = gb.check(gb.calibrate(ZERO, x, x), x + 0.001)
    with pytest.raises(KeyError, match="Unknown finding 'nope'; the findings are size, "):
        findings["nope"]


def test_training_points_are_known_through_the_calibrator() -> None:
    x = np.linspace(0, 1, 60)
    train = gb.Observations(x, np.sin(9 * x))
    local = gb.Local(train, gb.conformal.LogScale(draws=2))
    calibrated = gb.calibrate(
        gb.predictors.MeanOnly(np.zeros_like), x + 0.001, np.cos(9 * x), calibrator=local
    )
    leak = gb.check(calibrated, x)["leak"]
    assert leak.known and not leak.alarm and leak.text.startswith("No calibration point is a training point")


def test_what_counts_is_counted() -> None:
    """The counted units are sensors, the smallest group, or all scores of shards."""
    x, y = np.random.default_rng(0).uniform(size=(100, 1)), np.random.default_rng(1).normal(size=100)

    def size(calibrator: gb.conformal.Calibrator, groups: list[str]) -> str:
        made = gb.calibrate(ZERO, x, y, calibrator=calibrator, groups=groups)
        return str(gb.check(made, x)["size"].text)

    five = [f"s{i % 5}" for i in range(100)]
    assert size(gb.Clustered(), five).startswith("5 sensors (groups) are too few")
    assert size(gb.Grouped(), ["a"] * 95 + ["b"] * 5).startswith("5 calibration points in the smallest group")
    grouped = gb.calibrate(ZERO, x, y, calibrator=gb.Grouped(), groups=["a"] * 50 + ["b"] * 50)
    assert gb.check(grouped, x).ok
    sharded = gb.conformal.calibrate_shards(ZERO, [abs(y)] * 10, [0.95], x=[0.5])
    assert "n=1000" in repr(sharded)
    found = gb.check(sharded, x)
    assert found["size"].text.startswith("1000 calibration points are enough") and not found["places"].known


def test_weights_that_just_suffice_raise_no_alarm() -> None:
    x, y = np.linspace(0, 1, 19), np.ones(19)
    made = gb.calibrate(ZERO, x, y, calibrator=gb.Weighted(lambda x: np.full(len(x), 0.3)))
    assert not gb.check(made, x)["size"].alarm


def test_a_guarded_shape_is_called_guarded() -> None:
    x = np.linspace(0, 1, 50)
    train, fresh = (gb.Observations(x + shift, np.cos(90 * x + shift)) for shift in (1.5, 3.0))
    local = gb.Local(train, gb.conformal.LogScale(draws=2), held_out=fresh)
    text = gb.check(gb.calibrate(ZERO, x, np.cos(90 * x), calibrator=local), x)["guard"].text
    assert text == "The guard would have noticed an overfitted network."


def test_coarse_training_inputs_are_recognized() -> None:
    x = np.random.default_rng(0).uniform(size=(50, 1))
    model = gb.predictors.Distance(lambda x: 0 * x, gb.Observations(x.astype(np.float32), x), n_neighbors=3)
    made = gb.calibrate(model, x, 1 + x)
    assert gb.check(made, x)["leak"].text.startswith("50 of 50")


def test_fields_are_queries_too_and_none_is_refused() -> None:
    fields = np.random.default_rng(0).normal(size=(30, 20, 2))
    made = gb.calibrate_arrays(fields[..., :1], fields[..., 1:], x_cal=fields, score=gb.Simultaneous())
    assert "look alike" in gb.check(made, fields)["shift"].text
    with pytest.raises(ValueError, match="at least one query, got none"):
        gb.check(made, fields[:0])


def test_of_a_frame_the_columns_that_hold_numbers_are_compared() -> None:
    pandas = pytest.importorskip("pandas")
    draw = np.random.default_rng(0)
    frame = pandas.DataFrame({"x": draw.uniform(size=200), "site": ["a", "b"] * 100})
    made = gb.calibrate(lambda frame: np.zeros(len(frame)), frame[:100], draw.normal(size=100))
    found = gb.check(made, frame[100:][["site", "x"]])  # in another order
    assert found.ok and "only in the numeric columns, which exclude site." in found["columns"].text
    assert not found["columns"].known
    assert gb.check(made, frame[100:].assign(x=5 + draw.uniform(size=100)))["shift"].alarm
    incomplete = frame[100:].assign(x=np.where(np.arange(100) < 7, np.nan, frame["x"][100:]))
    assert "and 7 queries have missing numbers" in gb.check(made, incomplete)["columns"].text
    words = gb.calibrate(lambda frame: np.zeros(len(frame)), frame[:100][["site"]], draw.normal(size=100))
    assert not gb.check(words, frame[100:])["places"].known


def test_a_calibration_that_says_little_is_checked_as_far_as_it_goes() -> None:
    class Silent(gb.Calibrated):
        promise = "none"  # type: ignore[assignment]

        def predict(self, x: object) -> gb.Prediction:
            return gb.Prediction(x, x)

        def band(self, prediction: gb.Prediction, level: object = 0.95, *, groups: object = None) -> gb.Band:
            return gb.Band(prediction.x, prediction.mean, prediction.mean, prediction.mean, 0.95)

    found = gb.check(Silent(), [0.0, 1.0])
    assert found.ok and "Silent does not state how many points" in found["size"].text
    assert not found["places"].known and "no guard is needed" in found["guard"].text


def test_where_there_are_no_training_rows_to_leak() -> None:
    problem, recipe = pinn.problems.Poisson1D(), pinn.Recipe.by_newton(3)
    x, y = problem.observe(30, noise=0.1)
    alone = pinn.fit(problem, pinn.mlp(1, [8]), recipe=recipe, progress=False)
    saw = pinn.fit(problem, pinn.mlp(1, [8]), (x, y), recipe=recipe, progress=False)
    went_on = pinn.fit(problem, saw, recipe=recipe, progress=False)
    crossed = gb.calibration.calibrate_cross(lambda data: np.zeros_like, (x, y), folds=5)
    tangent = pinn.Tangent(alone, noise=0.1).calibrate(x, y)
    fresh = problem.observe(30, noise=0.1, seed=5)
    said = {
        "left out": [crossed, tangent],
        "the equation alone": [gb.calibrate(alone, x, y)],
        "not known": [gb.calibrate(went_on, *fresh), gb.calibrate(np.zeros_like, x, y)],
    }
    for words, cases in said.items():
        for case in cases:
            found = gb.check(case, x)["leak"]
            assert words in found.text and not found.alarm
            assert found.known == (words != "not known")


@pytest.mark.parametrize("m", [1, 3])
def test_a_model_worse_than_one_number_raises_an_alarm(m: int) -> None:
    draw = np.random.default_rng(0)
    x, noise = draw.uniform(size=(300, 1)), draw.normal(size=(300, m))
    y = np.sin(6 * x) + 0.1 * noise

    def found(model: object, y: np.ndarray = y, n: int = 100) -> gb.checks.Findings:
        return gb.check(gb.calibrate(model, x[:n], y[:n]), x[100:])

    def right(x: np.ndarray) -> np.ndarray:
        return np.sin(6 * x) * np.ones(m)

    wrong = np.r_[np.zeros(m - 1), 5.0]  # in the last output
    said = found(lambda x: right(x) + wrong)
    assert [one.name for one in said.alarms] == ["error"] and not said.ok
    assert "errs by 5" in said["error"].text and "valid, but too wide to be useful" in said["error"].text
    assert ("in output 2" in said["error"].text) == (m > 1)
    assert found(right).ok and found(lambda x: np.zeros((len(x), m)), noise).ok  # no better, and no worse
    assert found(lambda x: right(x) + wrong, n=19).ok  # too few to tell
    with pytest.raises(KeyError, match="Unknown finding 'error'"):
        found(right)["error"]


def test_readings_that_never_change_are_no_alarm_by_rounding() -> None:
    x = np.random.default_rng(0).uniform(size=(60, 1))
    steady = gb.calibrate(lambda x: np.full(len(x), 0.1 + 1e-12), x[:30], np.full(30, 0.1))
    assert "error" not in [one.name for one in gb.check(steady, x[30:]).findings]


def test_a_shape_that_was_learned_before_is_not_denied() -> None:
    draw = np.random.default_rng(0)
    size = np.exp(draw.normal(size=(150, 1, 1)))
    x = size * draw.normal(size=(150, 16, 1))
    y = x + 0.1 * size * draw.normal(size=x.shape)
    inner = gb.predictors.MeanOnly(lambda x: x)
    shaped = pinn.surrogates.adapted(inner, x[:60], y[:60], steps=20)
    guard = gb.check(gb.calibrate(shaped, x[60:100], y[60:100], score=gb.Simultaneous()), x[100:])["guard"]
    assert guard.text.startswith(
        f"The shape ({shaped.chosen}) was learned and chosen before calibration, on 60"
    )
    flat = gb.surrogates.Adapted(inner, "constant", {"constant": 1.0})
    assert flat.learned_shape.startswith(
        "Shapes were tried on cross-fitted predictions of training fields; con"
    )
    plain = gb.calibrate(inner, x[60:100], y[60:100], score=gb.Simultaneous())
    assert gb.check(plain, x[100:])["guard"].text.startswith("This calibration learns no shape")
