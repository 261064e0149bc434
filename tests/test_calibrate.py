import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import guardband as gb
from guardband.conformal import confident_rank, quantile, rank
from helpers import Shaped
from wings import pinn, torch


def zero(x: np.ndarray) -> np.ndarray:
    return 0 * x[:, :1]


ZERO = gb.predictors.MeanOnly(zero)


def data(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.uniform(size=(n, 2)), generator.normal(size=n)


def test_the_band_is_the_exact_quantile_at_any_level() -> None:
    x, y = data(100)
    calibrated = gb.calibrate(ZERO, x, y)
    for level in gb.conformal.LEVELS:
        band = calibrated(x[:3], level)
        q = quantile(abs(y), level)
        assert np.allclose(band.upper, q, rtol=1e-14) and np.allclose(band.lower, -q, rtol=1e-14)
        assert band.contains(np.full(3, q)).all() and band.level == float(level)


def test_eight_points_at_ninety_percent_are_infinite_with_one_warning() -> None:
    calibrated = gb.calibrate(ZERO, *data(8))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        band = calibrated(data(5)[0], level=0.9)
    assert np.isinf(band.lower).all() and np.isinf(band.upper).all()
    (warning,) = caught
    assert warning.category is gb.conformal.InfiniteBandWarning and warning.filename == __file__
    assert str(warning.message) == (
        "The band is infinite: level 0.9 needs 9 calibration points, but there are 8."
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(gb.calibrate(ZERO, *data(9))(data(5)[0], level=0.9).upper).all()


def test_a_confidence_takes_the_larger_rank() -> None:
    x, y = data(100)
    band = gb.calibrate(ZERO, x, y, confidence=0.9)(x[:1], 0.95)
    assert np.isclose(band.upper.item(), np.sort(abs(y))[confident_rank(100, 0.95, 0.9) - 1])
    small = gb.calibrate(ZERO, x[:44], y[:44], confidence="0.9")
    with pytest.warns(
        gb.conformal.InfiniteBandWarning, match="confidence 0.9 needs 45 calibration points, but there are 44"
    ):
        assert np.isinf(small(x[:1], 0.95).upper).all()


def test_at_least_k_points_lie_in_their_own_band() -> None:
    x, y = data(57)
    calibrated = gb.calibrate(gb.predictors.Given(zero, lambda x: 0.1 + x[:, :1]), x, y)
    for level in gb.conformal.LEVELS:
        assert calibrated(x, level).contains(y).sum() == rank(57, level)


def test_torch_gives_torch_and_numpy_gives_numpy() -> None:
    x, y = data(30)
    net = torch.nn.Linear(2, 1)
    for kind, x_new in (
        (np.ndarray, x),
        (torch.Tensor, torch.tensor(x)),
        (torch.Tensor, torch.tensor(x).float()),
    ):
        band = gb.calibrate(gb.predictors.MeanOnly(net), x_new, y)(x_new, 0.9)
        for part in (band.x, band.mean, band.lower, band.upper, band.width):
            assert isinstance(part, kind) and part.dtype == x_new.dtype
        assert not isinstance(band.mean, torch.Tensor) or not band.mean.requires_grad
    numpy_calibrated = gb.calibrate(gb.predictors.MeanOnly(net), x, y)
    assert isinstance(numpy_calibrated(torch.tensor(x), 0.9).upper, torch.Tensor)
    assert np.array_equal(
        numpy_calibrated(torch.tensor(x), 0.9).upper.numpy(), numpy_calibrated(x, 0.9).upper
    )


def test_lists_are_arrays_too() -> None:
    band = gb.calibrate(ZERO, [[0.0]] * 9, list(range(9)))([[1], [2]], "0.9")
    assert np.allclose(band.upper, 8)


def test_a_sweep_over_levels_asks_the_predictor_once() -> None:
    calls = []

    def counted(x: np.ndarray) -> np.ndarray:
        calls.append(len(x))
        return zero(x)

    calibrated = gb.calibrate(gb.predictors.MeanOnly(counted), *data(50))
    prediction = calibrated.predict(data(7)[0])
    widths = [float(calibrated.band(prediction, level).width[0, 0]) for level in gb.conformal.LEVELS]
    assert calls == [50, 8, 8, 7]  # twice at eight points, to check that it is a fixed function
    assert widths == sorted(widths)


def test_the_array_door_is_the_same_calibration() -> None:
    x, y = data(40)
    given = gb.predictors.Given(zero, lambda x: 0.1 + x[:, :1])
    whole = gb.calibrate(given, x, y)
    arrays = gb.calibrate_arrays(zero(x), y, 0.1 + x[:, 0], x_cal=x)
    prediction = given(x[:5])
    assert np.array_equal(arrays.band(prediction, 0.9).upper, whole.band(prediction, 0.9).upper)
    assert repr(arrays) == "Calibrated(arrays, score=Scaled(), calibrator=Split(), n=40)"
    assert repr(whole) == "Calibrated(Given, score=Scaled(), calibrator=Split(), n=40)"
    with pytest.raises(ValueError, match=r"no predictor to call at x. Use `calibrated.band\(gb.Prediction"):
        arrays(x)


def test_several_outputs_are_covered_jointly() -> None:
    generator = np.random.default_rng(1)
    mean, y = np.zeros((99, 3)), generator.normal(size=(99, 3))
    calibrated = gb.calibrate_arrays(mean, y)
    band = calibrated.band(gb.Prediction(None, mean), 0.9)
    assert band.contains(y).sum() == 90


SEEN = gb.Observations(*data(20, seed=5))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x, y: gb.calibrate(ZERO, x, y)(x, level=95), ValueError, r"got 95. Did you mean 0.95\?"),
        (
            lambda x, y: gb.calibrate(ZERO, x, np.r_[y[:17], np.nan, y[18:]]),
            ValueError,
            "`y_cal` .* row 17 is NaN",
        ),
        (
            lambda x, y: gb.calibrate(ZERO, np.r_[x[:17], [[0, np.inf]], x[18:]], y),
            ValueError,
            "`x_cal` .* row 17",
        ),
        (
            lambda x, y: gb.calibrate(ZERO, x, y)(x * np.nan),
            ValueError,
            "`x` should be finite, but row 0 is NaN",
        ),
        (lambda x, y: gb.calibrate(ZERO, x, y[:-1]), ValueError, "should pair up, got 20 and 19 rows"),
        (
            lambda x, y: gb.calibrate(ZERO, x, np.c_[y, y]),
            ValueError,
            r"`y_cal` should have the shape of the predictions, got \(20, 2\) and \(20, 1\)",
        ),
        (
            lambda x, y: gb.calibrate(ZERO, x[:0], y[:0]),
            ValueError,
            "at least one calibration point, got none",
        ),
        (
            lambda x, y: gb.calibrate(ZERO, x, y, confidence=90),
            ValueError,
            "`confidence` .* Did you mean 0.9",
        ),
        (
            lambda x, y: gb.calibrate(gb.predictors.MeanOnly(zero, training_data=SEEN), *SEEN),
            ValueError,
            "20 of 20 calibration points are training points, the first in row 0. .* Hold out others",
        ),
        (
            lambda x, y: gb.calibrate(lambda x: gb.Prediction(None, [1.0]), x, y),
            ValueError,
            "one row per point, but <lambda> returned 1 rows for 20 points",
        ),
        (
            lambda x, y: gb.calibrate(ZERO, x, y).band(gb.Prediction(None, np.zeros((3, 2)))),
            ValueError,
            r"the outputs that it had at calibration, \(1,\), got \(2,\)",
        ),
        (
            lambda x, y: gb.calibrate(ZERO, x, y).band(gb.Prediction(None, [0.0], [1.0])),
            ValueError,
            "At calibration the prediction had no scale, now it had a scale",
        ),
        (
            lambda x, y: gb.calibrate(ZERO, x, y, groups=["a"] * 20),
            ValueError,
            r"Did you mean Grouped\(\)\?",
        ),
        (
            lambda x, y: gb.calibrate(ZERO, x, y)(x, groups=["a"] * 20),
            ValueError,
            r"should not be passed to Split",
        ),
        (
            lambda x, y: gb.calibrate(gb.predictors.MeanOnly(zero, training_data=cast(Any, (x, y))), x, y),
            TypeError,
            r"`training_data` should be gb.Observations\(x, y\), got tuple",
        ),
        (
            lambda x, y: gb.calibrate(ZERO, x, y, score=cast(Any, gb.Scaled)),
            TypeError,
            r"such as Scaled\(\), got",
        ),
        (
            lambda x, y: gb.calibrate(ZERO, x, y, calibrator=cast(Any, "split")),
            TypeError,
            r"Split\(\), got 'split'",
        ),
        (
            lambda x, y: gb.calibrate(ZERO, x, y).band(cast(Any, x)),
            TypeError,
            "takes a gb.Prediction.* ndarray",
        ),
        (
            lambda x, y: gb.calibrate(gb.predictors.MeanOnly(cast(Any, lambda x: (x, x))), x, y),
            TypeError,
            "A model should return one array, but this model returned a tuple",
        ),
        (
            lambda x, y: gb.calibrate(gb.predictors.MeanOnly(lambda x: np.nan * zero(x)), x, y),
            ValueError,
            "`mean` should be finite, but row 0 is NaN. The model returned this value",
        ),
    ],
)
def test_mistakes_are_errors_that_teach(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(*data(20))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_both_doors_refuse_targets_that_are_not_finite(value: float) -> None:
    x, y = data(20)
    y[17] = value
    for calibrate in (lambda: gb.calibrate(zero, x, y), lambda: gb.calibrate_arrays(zero(x), y)):
        with pytest.raises(ValueError, match="`y_cal` should be finite, but row 17"):
            calibrate()


def test_training_rows_are_found_among_others_and_across_dtypes() -> None:
    x, y = data(40)
    train = gb.Observations(torch.tensor(x[:10]).float(), torch.tensor(y[:10]).float())
    seen = gb.predictors.MeanOnly(zero, training_data=train)
    with pytest.raises(
        ValueError, match="3 of 33 calibration points are training points, the first in row 0"
    ):
        gb.calibrate(seen, x[7:], y[7:])
    gb.calibrate(seen, x[10:], y[10:])


def test_a_sensor_read_again_is_no_leak() -> None:
    x, y = data(40)
    seen = gb.predictors.MeanOnly(zero, training_data=gb.Observations(x, y))
    again = gb.calibrate(seen, x[:5], y[:5] + 1)
    assert "5 of 5 calibration points lie at training inputs with" in gb.check(again, x)["leak"].text


def test_a_torch_module_can_be_a_predictor() -> None:
    class Predictor(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> gb.Prediction:
            return gb.Prediction(x, 0 * x[:, :1])

    x, y = data(20)
    assert len(gb.calibrate(Predictor(), torch.tensor(x), y)(torch.tensor(x), 0.9)) == 20


def test_coarse_sensors_that_repeat_themselves_are_no_leak() -> None:
    x, y = np.repeat(np.arange(4.0), 20), np.tile([0.1, 0.2], 40)
    coarse = gb.predictors.MeanOnly(lambda x: 0 * x, training_data=gb.Observations(x, y))
    made = gb.calibrate(coarse, x, y)
    assert "no more than expected by chance: readings are coarse" in gb.check(made, x)["leak"].text


def test_what_was_calibrated_on_stays_whatever_becomes_of_the_arrays() -> None:
    x, y = data(30)
    mean, scale = zero(x), 1 + x[:, :1]
    calibrated = gb.calibrate_arrays(mean, y, scale)
    before = calibrated.score(calibrated.prediction, calibrated.y).copy()
    y[:], mean[:], scale[:] = 5, 7, 9
    assert np.array_equal(calibrated.score(calibrated.prediction, calibrated.y), before)


def test_a_scale_of_zero_that_misses_makes_an_infinite_band_with_its_own_warning() -> None:
    x, y = data(40)
    certain = gb.predictors.Given(zero, lambda x: np.where(x[:, :1] < 0.5, 0.0, 1.0))
    reason = r"too many calibration scores are infinite: the scale is 0 .* score=Total"
    for calibrator, groups in (
        (gb.Split(), None),
        (gb.Grouped(), [0] * 40),
        (gb.Clustered(), list(range(40))),
    ):
        calibrated = gb.calibrate(certain, x, y, calibrator=calibrator, groups=groups)
        with pytest.warns(gb.conformal.InfiniteBandWarning, match=reason):
            at_call = [0] * 40 if isinstance(calibrator, gb.Grouped) else None
            assert np.isinf(calibrated(x, 0.9, groups=at_call).upper).all()
    assert np.isfinite(gb.calibrate(certain, x, y, score=gb.conformal.Total(0.1))(x, 0.9).upper).all()


def test_a_model_that_works_in_place_does_not_change_the_points() -> None:
    def in_place(x: np.ndarray) -> np.ndarray:
        x -= 2.5
        return x[:, :1] + 2.5

    x = data(5)[0]
    kept = x.copy()
    scale: Any = gb.predictors.Given(in_place, lambda x: 1 + x[:, :1])(x).scale
    assert np.allclose(scale, 1 + kept[:, :1])
    assert np.array_equal(x, kept)


def test_the_confidence_is_part_of_what_is_printed() -> None:
    assert repr(gb.calibrate(ZERO, *data(20), confidence="0.9")).endswith("n=20, confidence=0.9)")


def test_a_bare_network_or_function_is_calibrated_as_it_is() -> None:
    x, net = np.linspace(0, 1, 30)[:, None], pinn.mlp(1, [4])
    for points in (x, torch.tensor(x).float()):
        bare, wrapped = (gb.calibrate(model, points, x) for model in (net, gb.predictors.MeanOnly(net)))
        assert bool((bare(points).upper == wrapped(points).upper).all())
    assert repr(gb.calibrate(np.sin, x, x)) == repr(gb.calibrate(gb.predictors.MeanOnly(np.sin), x, x))
    with pytest.raises(TypeError, match="unhashable"):
        gb.calibrate(lambda x: {[]: x}, x, x)  # type: ignore[dict-item]


def test_what_was_calibrated_on_stays_whatever_becomes_of_x() -> None:
    def shape(x: np.ndarray) -> np.ndarray:
        return 0.1 + x[:, 0]

    bands = []
    for spoil in (False, True):
        x, y = data(99)
        calibrated = gb.calibrate(ZERO, x, y, calibrator=Shaped(shape))
        arrays = gb.calibrate_arrays(zero(x), y, x_cal=x, calibrator=Shaped(shape))
        if spoil:
            x *= 100
        new = gb.Prediction([[0.5, 0.5]], [0.0])
        bands.append((calibrated.band(new).width.item(), arrays.band(new).width.item()))
    assert bands[0] == bands[1] and bands[0][0] == bands[0][1]


def test_a_repeated_training_row_does_not_hide_a_leak() -> None:
    x, y = data(100)
    x, y = np.vstack([x, x[:1]]), np.append(y, y[0])
    model = gb.predictors.Distance(zero, gb.Observations(x, y), n_neighbors=3)
    with pytest.raises(ValueError, match="101 of 101 calibration points are training points"):
        gb.calibrate(model, x, y)


def test_points_of_other_coordinates_are_refused_in_predictions_too() -> None:
    x, y = data(50)
    calibrated = gb.calibrate(ZERO, x, y, calibrator=gb.conformal.RandomlyLocalized(bandwidth=1.0))
    with pytest.raises(ValueError, match=r"shape of the calibration points, \(n, 2\), got shape \(3, 1\)"):
        calibrated.band(gb.Prediction(np.zeros((3, 1)), np.zeros(3)))


def test_confidence_is_promised_of_each_group_by_itself() -> None:
    x, y = data(100)
    options: dict[str, Any] = dict(calibrator=gb.Grouped(), groups=["a", "b"] * 50, confidence=0.9)
    assert (
        "this holds for each group separately for the calibration set"
        in gb.calibrate(ZERO, x, y, **options).promise
    )


class Regressor:
    """The interface of a fitted scikit-learn regressor."""

    def predict(self, x: np.ndarray) -> np.ndarray:
        return x[:, 0]


class Classifier(Regressor):
    classes_ = (0, 1)


class Caller(torch.nn.Module):
    """A network with a `predict` method for another purpose."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :1]

    def predict(self, x: object) -> None:
        raise AssertionError("a network is called, not asked to predict")


@pytest.mark.parametrize("make", [Regressor, Caller, lambda: lambda x: x[:, 0]])
def test_what_predicts_is_asked_to(make: Callable[[], Any]) -> None:
    x, y = data(30)
    assert np.array_equal(gb.calibrate(make(), x, y)(x).mean, x[:, :1])


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("net.onnx", r"got the path 'net.onnx'. Load it first: gb.adapters.from_onnx\(path\)"),
        (Path("net.pt"), r"got the path 'net.pt'. Load it first"),
        (Regressor, "should be a fitted Regressor, got the class itself. Create and fit one first"),
        (gb.Split, "got the class itself"),
        (Classifier(), r"Classifier is a classifier, .* model.predict_proba\(x\)\[:, 1\]"),
        (3, "an object with `predict` or a function of x, got int"),
        (np.zeros(20), "got ndarray"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_model_is_named(model: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        gb.calibrate(model, *data(20))


@pytest.mark.parametrize("option", ["level", "alpha", "training_data", "cv"])
def test_options_that_have_their_place_elsewhere_are_refused_by_python(option: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{option}'"):
        gb.calibrate(ZERO, *data(20), **{option: None})  # type: ignore[arg-type]


def test_a_predictor_that_draws_anew_at_every_call_is_refused() -> None:
    x, y = data(40)
    generator = np.random.default_rng(0)

    def noisy(x: np.ndarray) -> np.ndarray:
        return x[:, :1] + 0.1 * generator.normal(size=(len(x), 1))

    def unsure(x: np.ndarray) -> gb.Prediction:
        return gb.Prediction(x, x[:, :1], generator.uniform(0.9, 1.1, size=(len(x), 1)))

    with pytest.raises(ValueError, match=r"MeanOnly gave two answers .* its mean differs by up to 0\.\d+"):
        gb.calibrate(noisy, x, y)
    with pytest.raises(ValueError, match=r"unsure gave two answers .* its scale differs"):
        gb.calibrate(unsure, x, y)
    dropout = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)).train()
    gb.calibrate(dropout, x, y)  # networks are called in eval mode
    with pytest.raises(ValueError, match="Switch dropout off, or draw once"):
        gb.calibrate(lambda x: dropout(torch.tensor(x).float()), x, y)
    assert dropout.training


def test_answers_that_differ_by_rounding_are_one_answer() -> None:
    x, y = data(40)
    calls = iter(range(100))

    def rounded(x: np.ndarray) -> np.ndarray:
        return x[:, :1] * (1 + 1e-12 * next(calls))

    assert np.isfinite(gb.calibrate(rounded, x, y)(x, 0.9).upper).all()


def test_the_door_and_its_rooms_ask_for_several_outputs_of_one_kind() -> None:
    x, y = data(20)
    training_data: Any = (x, np.c_[y, y])
    two = gb.predictors.MeanOnly(lambda x: 0 * x, training_data=training_data)
    with pytest.raises(TypeError, match=r"`training_data` should be gb.Observations\(x, y\), got tuple"):
        gb.calibrate(two, x, np.c_[y, y])


@pytest.mark.parametrize(
    "model",
    [lambda x: (x - x.mean()) / x.std(), lambda x: np.sort(np.sin(9 * x), axis=0), lambda x: x[::-1]],
    ids=["standardizes", "sorts", "turns around"],
)
def test_a_model_that_looks_at_the_points_beside_is_refused(model: Any) -> None:
    x = np.random.default_rng(0).normal(size=(50, 1))
    with pytest.raises(ValueError, match="depends on the other points: its mean differs by up"):
        gb.calibrate(model, x, x)


def test_threads_share_a_network_in_training_mode() -> None:
    """The first thread sets eval mode and the last restores it; running statistics do not change."""
    parts = torch.nn.Linear(1, 64), torch.nn.BatchNorm1d(64), torch.nn.Dropout(0.5), torch.nn.Linear(64, 1)
    net, x = torch.nn.Sequential(*parts), np.random.default_rng(0).uniform(size=(2000, 1))
    calibrated = gb.calibrate(net, x[:100], np.sin(3 * x[:100]))
    expected = calibrated(x).mean
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: calibrated(x).mean, range(200)))
    assert all(np.array_equal(mean, expected) for mean in found)
    assert net.training and all(part.training for part in parts)
    assert int(parts[1].num_batches_tracked) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (None, "returned None: is a `return` missing"),
        (iter([1.0]), "returned a list_iterator"),
        (0.5, "the number 0.5. For a constant prediction"),
        ([0.5], "np.asarray.* of a list"),
    ],
)
def test_what_is_no_answer_is_named(answer: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        gb.calibrate(lambda x: answer, np.arange(5.0), np.arange(5.0))


def test_labels_are_no_numbers() -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    linear = pytest.importorskip("sklearn.linear_model")
    x = np.random.default_rng(0).normal(size=(40, 1))
    with pytest.raises(TypeError, match="KMeans predicts cluster labels"):
        gb.calibrate(cluster.KMeans(2, n_init=1).fit(x), x, x)
    with pytest.raises(TypeError, match="LogisticRegression is a classifier"):
        gb.calibrate(linear.LogisticRegression().fit(x, x[:, 0] > 0).predict, x, x)


def test_nonsense_is_refused_where_it_is_said() -> None:
    x = np.random.default_rng(0).uniform(size=(40, 1))
    with pytest.raises(TypeError, match="`joint` should be True or False, got 'no'"):
        gb.Absolute(joint="no")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"`inputs` should have 1 coordinates like the .* points, got 3"):
        gb.calibrate(np.sin, x, x, calibrator=gb.conformal.RandomlyLocalized(inputs=np.zeros((5, 3))))
    fields = np.random.default_rng(0).normal(size=(30, 20, 2))
    with pytest.raises(ValueError, match=r"points of shape \(n, d\), got x of shape \(30, 20, 2\)"):
        gb.calibrate(np.sin, fields, fields, calibrator=gb.Local(gb.Observations(fields + 1, fields)))
    made = gb.calibrate(np.sin, x, x)
    with pytest.raises(ValueError, match="requires target='truth'"):
        gb.evaluate(made, x + 1, x, median_zero=True)
    with pytest.raises(TypeError, match="`regions` should be a dict of names and regions, got list"):
        gb.evaluate(made, x + 1, x, regions=[x > 0])  # type: ignore[arg-type]


def test_a_model_with_more_outputs_than_were_measured_asks_which() -> None:
    x = np.linspace(0, 1, 40)
    with pytest.raises(ValueError, match=r"got \(40, 1\) and \(40, 2\).* name them: .*outputs=\(0,\)\)"):
        gb.calibrate(lambda x: np.c_[x, x], x, x)
    problem = type("Two", (pinn.problems.Poisson1D,), {"outputs": ("u", "p")})()
    with pytest.raises(ValueError, match=r"name them: gb\.calibrate\(..., outputs=\('u',\)\)"):
        gb.calibrate(pinn.mlp(problem, [4]), x, x)
    with pytest.raises(ValueError, match=r"got \(40, 3\) and \(40, 2\)\.$"):
        gb.calibrate(lambda x: np.c_[x, x], x, np.c_[x, x, x])


class Cautious(Regressor):
    """A model that warns about points below 0."""

    def caution(self, x: Any) -> str | None:
        return f"{int((x < 0).sum())} points are below 0." if (x < 0).any() else None


@pytest.mark.parametrize("outputs", [None, (0,)])
def test_what_a_model_says_of_the_calibration_points_is_warned_of(outputs: Any) -> None:
    x = np.linspace(0, 1, 20)[:, None]
    ensemble = gb.predictors.Ensemble([Cautious(), Cautious()])
    gb.calibrate(ensemble, x, x, outputs=outputs)
    with pytest.warns(UserWarning, match="1 points are below 0") as caught:
        gb.calibrate(ensemble, x - 0.01, x, outputs=outputs)
    assert len(caught) == 1 and caught[0].filename == __file__
