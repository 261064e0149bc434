"""Guarantees for whole fields: each follows its exact law, and a mutant of each is detected."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.base.kept import kind_named
from guardband.conformal import CoverageLaw, rank
from guardband.conformal.laws import tails, total_counts
from guardband.conformal.whole.share import integer_weights
from wings import torch

X, Y = np.linspace(0, 1, 9), np.linspace(0, 2, 5)
PLACES = {"x": X, "y": Y}


def draw(generator: np.random.Generator, n: int) -> np.ndarray:
    """Smooth random fields (n, 9, 5) of very different size, with large variations at x = 0."""
    size = np.exp(generator.normal(size=(n, 1, 1)))
    waves = generator.normal(size=(n, 2, 1, 1)) * np.stack(
        np.broadcast_arrays(np.cos(3 * X)[:, None], Y**2 + 0 * X[:, None])
    )
    return size * waves.sum(axis=1) + np.where(X < 0.2, 3.0, 0.1)[:, None] * generator.normal(size=(n, 9, 5))


def fields(values: Any) -> gb.Fields:
    return gb.Fields(values, dims=("x", "y"), coordinates=PLACES)


def mean_and_largest(u: np.ndarray) -> np.ndarray:
    return np.stack([u.mean(axis=(1, 2, 3)), u.max(axis=(1, 2, 3))], axis=1)


SCORES: dict[str, Callable[[], gb.conformal.Score]] = {
    "all": gb.Simultaneous,
    "all, shaped": lambda: gb.Simultaneous(np.where(X < 0.2, 3.0, 1.0)[:, None, None] * np.ones((9, 5, 1))),
    "share": lambda: gb.Share(0.1),
    "share, weighed": lambda: gb.Share("0.25", weights=np.arange(1.0, 46.0).reshape(9, 5)),
    "L2": lambda: gb.Norm("L2"),
    "H1": lambda: gb.Norm("H1"),
    "quantity": lambda: gb.Quantity(lambda u: u.mean(axis=(1, 2, 3))),
    "quantities": lambda: gb.Quantity(mean_and_largest, units=[0.3, 2.0]),
}
DRAWS, N, M = 300, 19, 10
FALSE = 1e-3 / (2 * len(SCORES))
"""The false-alarm rate of each test of a law."""


def covered(
    score: gb.conformal.Score, seed: int, level: float, mutant: Callable[..., Any] | None = None
) -> int:
    """The number of DRAWS times M new fields that lie in their sets."""
    generator, total = np.random.default_rng(seed), 0
    for _ in range(DRAWS):
        y = draw(generator, N + M)
        made = gb.calibrate_arrays(
            fields(0 * y[:N]), fields(y[:N]), score=score if mutant is None else mutant(y[:N])
        )
        total += int(made.contains(gb.Prediction(None, 0 * y[N:, ..., None]), fields(y[N:]), level).sum())
    return total


@pytest.mark.parametrize("name", SCORES)
def test_each_promise_obeys_the_exact_law(name: str) -> None:
    law = total_counts([(CoverageLaw(rank(N, 0.9), N), M)], repeats=DRAWS)
    assert min(tails(law, covered(SCORES[name](), 0, 0.9))) > FALSE


@pytest.mark.parametrize("name", SCORES)
def test_the_set_that_is_shown_holds_what_scores_at_most_q(name: str) -> None:
    for dtype in ("float64", "float32"):
        y = draw(np.random.default_rng(1), 60).astype(dtype)
        made = gb.calibrate_arrays(fields(0 * y[:30]), fields(y[:30]), score=SCORES[name]())
        at, fresh = gb.Prediction(None, 0 * y[30:, ..., None]), y[30:, ..., None]
        for level in (0.5, 0.9):
            inside, band = made.contains(at, fresh, level), made.band(at, level)
            shown = np.asarray(band.contains(made.derived(fresh)))
            assert np.array_equal(shown, inside)
        assert made.contains(made.prediction, made.y, 0.9).sum() >= rank(30, 0.9)
        tensors = gb.calibrate_arrays(
            torch.tensor(0 * y[:30, ..., None]), fields(torch.tensor(y[:30])), score=SCORES[name]()
        )
        assert np.allclose(tensors.threshold.scores, made.threshold.scores, rtol=1e-5)  # type: ignore[attr-defined]


def test_a_share_holds_its_share_of_the_area() -> None:
    """By definition: the smallest multiple of the shape beyond which at most gamma of the area lies."""
    y = draw(np.random.default_rng(2), 40)
    weights = fields(y).grid.cells
    assert weights[0, 0] == weights[1, 1] / 4 == weights[0, 1] / 2
    made = gb.calibrate_arrays(fields(0 * y), fields(y), score=gb.Share(0.2))
    band = made.band(made.prediction, 0.8)
    assert isinstance(band, gb.conformal.ShareBand) and not band.boxed
    each = (abs(y) <= band.upper[..., 0]) @ np.ones(5) @ np.ones(9) / 45
    share = ((abs(y) <= band.upper[..., 0]) * weights).sum(axis=(1, 2)) / weights.sum()
    assert np.allclose(band.share(y[..., None]), share) and not np.allclose(each, share)
    assert np.array_equal(band.contains(y[..., None]), share >= 0.8 - 1e-12)
    assert 32 < (share >= 0.8 - 1e-12).sum() < 36


def test_shares_are_counted_in_whole_numbers() -> None:
    assert integer_weights(np.full(10, 0.1), "0.7")[1] == 3  # in floats (1 - 0.7) * 10 is 3.0000000000000004
    assert integer_weights(np.array([0.05, 0.1, 0.1, 0.05]), "0.5")[1] == 3
    counts, needed = integer_weights(np.array([1.0, np.pi, np.e]), 0.5)
    assert counts.dtype == np.int64 and abs(needed / counts.sum() - 0.5) < 1e-15
    y = np.arange(1.0, 11.0).reshape(1, 10, 1)
    for gamma, score in (("0.1", 9.0), ("0.05", 10.0), ("0.7", 3.0), (1 / 3, 7.0)):
        assert gb.Share(gamma)(gb.Prediction(None, 0 * y), y) == score


def test_h1_is_the_norm_of_a_known_field() -> None:
    x = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    wave = gb.Fields(np.tile(np.sin(3 * x), (9, 1)), dims="x", coordinates={"x": x}, periodic="x")
    for kind, square in (("L2", np.pi), ("H1", np.pi * 10)):
        made = gb.calibrate_arrays(0 * wave.values, wave, score=gb.Norm(kind))  # type: ignore[arg-type]
        assert np.allclose(made.threshold.scores**2, square, rtol=2e-3)  # type: ignore[attr-defined]
    line = np.linspace(0, 1, 50)
    ramp = gb.Fields(np.tile(line**2, (9, 1)), dims="x", coordinates={"x": line})
    made = gb.calibrate_arrays(0 * ramp.values, ramp, score=gb.Norm("H1"))
    assert np.allclose(made.threshold.scores**2, 1 / 5 + 4 / 3, rtol=1e-3)  # type: ignore[attr-defined]


def test_time_is_no_direction_of_h1() -> None:
    y = np.random.default_rng(0).normal(size=(9, 1, 6)) * np.arange(4.0)[:, None]
    places = {"t": np.arange(4.0), "x": np.arange(6.0)}
    made = gb.Fields(y, dims=("t", "x"), coordinates=places)
    score = gb.Norm("H1").on(made.grid)
    cells = made.grid.cells
    slope = np.gradient(y, axis=2, edge_order=2)
    expected = np.sqrt(((y**2 + slope**2) * cells).sum(axis=(1, 2)))
    assert np.allclose(score(gb.Prediction(None, 0 * made.values), made.values), expected)


def test_a_scale_is_the_shape_where_none_is_given() -> None:
    generator = np.random.default_rng(3)
    size = np.exp(generator.normal(size=(40, 1, 1)))
    y = size * generator.normal(size=(40, 12, 1))
    scale = size * np.ones_like(y)
    for score in (gb.Simultaneous(), gb.Share(0.1), gb.Norm()):
        made = gb.calibrate_arrays(0 * y, y, scale, score=score)
        width = np.asarray(made.band(made.prediction, 0.9).width).reshape(40, -1).mean(axis=1)
        assert np.allclose(width / width[0], (size / size[0]).ravel())
    shaped = gb.calibrate_arrays(0 * y, y, scale, score=gb.Simultaneous(np.ones(12)))
    width = shaped.band(shaped.prediction, 0.9).width
    assert np.allclose(width, width[0, 0])


# Mutants: each fails the law that the correct method passes.


def law_of(level: float) -> np.ndarray:
    return total_counts([(CoverageLaw(rank(N, level), N), M)], repeats=DRAWS)


def test_nodes_counted_as_points_are_caught() -> None:
    """A rank over all nodes of all fields, which is far too low for whole fields."""
    generator, total = np.random.default_rng(4), 0
    for _ in range(DRAWS):
        y = draw(generator, N + M)
        q = np.sort(abs(y[:N]).ravel())[rank(N * 45, 0.9) - 1]
        total += int((abs(y[N:]).reshape(M, -1).max(axis=1) <= q).sum())
    assert tails(law_of(0.9), total)[0] < 1e-9


WILD = np.where(X < 0.2, 20.0, 1.0)[:, None] * np.ones((9, 5))
"""Cells that are large where fields vary most."""


@pytest.mark.parametrize(
    ("mutant", "caught"),
    [
        (gb.Share(0.2, weights=WILD.ravel()), False),
        (gb.Share(0.6, weights=WILD.ravel()), True),  # another gamma than promised
        (gb.Share(0.2), True),  # no weights
    ],
)
def test_ignored_settings_are_caught(mutant: gb.Share, caught: bool) -> None:
    """A new field counts as inside by its share of the area."""
    generator, total, at = np.random.default_rng(5), 0, gb.Prediction(None, np.zeros((M, 45, 1)))
    for _ in range(DRAWS):
        y = (draw(generator, N + M) * WILD).reshape(-1, 45, 1)
        band = gb.calibrate_arrays(0 * y[:N], y[:N], score=mutant).band(at, 0.9)
        inside = (abs(y[N:, :, 0]) <= band.upper[..., 0]) @ WILD.ravel() / WILD.sum()
        total += int((inside >= 0.8).sum())
    low, high = tails(law_of(0.9), total)
    assert low < 1e-9 if caught else min(low, high) > FALSE


def test_a_shape_fitted_on_calibration_fields_is_caught() -> None:
    def mutant(y: np.ndarray) -> gb.Simultaneous:
        return gb.Simultaneous.fitted(y[..., None])

    assert tails(law_of(0.8), covered(gb.Simultaneous(), 6, 0.8, mutant))[0] < 1e-4


# evaluate, check, report and the store depend on their traits.


@pytest.mark.parametrize("name", SCORES)
def test_everybody_knows_each_promise(name: str, tmp_path: Any) -> None:
    generator = np.random.default_rng(7)
    x, y = draw(generator, 80)[..., None], 0.1 * draw(generator, 80)
    y = y + x[..., 0]
    made = gb.calibrate(lambda a: a, x[:40], fields(y[:40]), score=SCORES[name]())
    found = gb.evaluate(made, x[40:], fields(y[40:]), level=0.9)
    assert found.consistent is not False and "quarters of the size of the input" in str(found)
    assert ("is not promised" in str(found)) == name.startswith("share")
    assert ("A ball is not a band" in str(found)) == (name in ("L2", "H1"))
    assert "whole field" in made.promise and gb.check(made, x[40:], level=0.9)["size"].alarm is False
    page = gb.report(made, x[40:], fields(y[40:]), level=0.9, path=tmp_path / "page.html")
    assert "whole field" in page.read_text()
    yours = {"model": made.predictor.model} | ({"function": made.score.function} if "quant" in name else {})  # type: ignore
    again = gb.load(gb.save(made, tmp_path / "band"), **yours)
    assert np.array_equal(made(x[40:], 0.9).width, again(x[40:], 0.9).width)
    assert repr(again) == repr(made) and again.grid == made.grid


def test_a_band_of_fields_is_drawn_and_written_by_name() -> None:
    y = draw(np.random.default_rng(8), 30)
    made = gb.calibrate_arrays(fields(0 * y), fields(y), score=gb.Simultaneous())
    band = made.band(made.prediction, 0.9)
    data = band.to_xarray()
    assert data["upper"].dims == ("point", "x", "y", "output") and np.array_equal(data["y"], Y)
    one = band.one(3)
    assert one.x.shape == (45, 2) and one.names.axes == ("x", "y")
    assert np.array_equal(one.upper.reshape(9, 5), band.upper[3, ..., 0])
    gb.plot.width(one)
    with pytest.raises(ValueError, match=r"band\.one\(0\)"):
        gb.plot.width(band)
    with pytest.raises(ValueError, match="one row per point"):
        one.one(0)
    ball = gb.calibrate_arrays(fields(0 * y), fields(y), score=gb.Norm()).band(made.prediction, 0.9)
    assert ball.to_xarray()["mean"].dims == ("point", "x", "y", "output")


# Invalid settings are refused on construction, with the remedy.


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_residuals_that_are_not_finite_are_refused_by_name(value: float) -> None:
    residuals = np.ones((6, 4, 1))
    residuals[3, 2] = value
    with pytest.raises(ValueError, match="`residuals` should be finite, but row 3"):
        gb.Simultaneous.fitted(residuals)


def test_errors_teach() -> None:
    bare = np.zeros((9, 4, 5, 1))
    with pytest.raises(ValueError, match=r"Which axes of the fields \(9, 4, 5, 1\)"):
        gb.calibrate_arrays(bare, bare, score=gb.Share(0.1))
    with pytest.raises(ValueError, match=r"points, \(9, 4\)"):
        gb.calibrate_arrays(bare[:, :, 0, 0], bare[:, :, 0, 0], score=gb.Norm())
    with pytest.raises(ValueError, match=r"2 names \(x, y\) fit"):
        gb.Fields(bare[..., 0, 0], dims=("x", "y"))
    with pytest.raises(TypeError, match="name the axes"):
        gb.Fields(bare, dims=(1, 2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="different names"):
        gb.Fields(bare, dims=("x", "x"))
    with pytest.raises(ValueError, match="names an unknown axis 'z'"):
        gb.Fields(bare, dims=("x", "y"), coordinates={"z": [1.0]})
    with pytest.raises(ValueError, match="should be 4 numbers"):
        gb.Fields(bare, dims=("x", "y"), coordinates={"x": [1.0]})
    with pytest.raises(ValueError, match="should increase"):
        gb.Fields(bare, dims=("x", "y"), coordinates={"x": [1.0, 0.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=r"gb\.Simultaneous"):
        gb.Share(0)
    with pytest.raises(ValueError, match=r"Did you mean 0\.05"):
        gb.Share(5)
    with pytest.raises(ValueError, match="'L2' or 'H1'"):
        gb.Norm("L3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="positive at every node"):
        gb.Share(0.1, weights=[0.0, 1.0])
    with pytest.raises(ValueError, match="one number per node"):
        gb.calibrate_arrays(bare[..., 0], bare[..., 0], score=gb.Share(0.1, weights=[1.0, 2.0]))
    with pytest.raises(ValueError, match="the coordinates of the nodes"):
        gb.calibrate_arrays(bare[..., 0], bare[..., 0], score=gb.Norm("H1"))
    with pytest.raises(ValueError, match="coordinates of the nodes along x"):
        gb.calibrate_arrays(bare, gb.Fields(bare, dims=("x", "y")), score=gb.Norm("H1"))
    with pytest.raises(ValueError, match="three nodes"):
        two = gb.Fields(bare[:, :2], dims=("x", "y"), coordinates={"x": [0.0, 1.0]})
        gb.calibrate_arrays(two.values, two, score=gb.Norm("H1"))
    with pytest.raises(ValueError, match="equally spaced"):
        odd = gb.Fields(bare, dims=("x", "y"), coordinates={"x": [0.0, 1.0, 3.0, 4.0]})
        gb.calibrate_arrays(odd.values, odd, score=gb.Norm("H1"))
    with pytest.raises(TypeError, match="fields to numbers"):
        gb.Quantity("mean")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one number per field"):
        gb.calibrate_arrays(bare[..., 0], bare[..., 0], score=gb.Quantity(np.max))
    with pytest.raises(ValueError, match=r"with outputs last"):
        gb.calibrate_arrays(np.moveaxis(bare, 3, 1), gb.Fields(bare, dims=("x", "y")), score=gb.Share(0.1))
    y = draw(np.random.default_rng(9), 20)
    made = gb.calibrate_arrays(fields(0 * y), fields(y), score=gb.Simultaneous())
    with pytest.raises(ValueError, match=r"different grid.*8 nodes along x, not 9"):
        made.contains(made.prediction, fields_of(y[:, :8], X[:8]), 0.9)
    with pytest.raises(ValueError, match="have different coordinates"):
        made.contains(made.prediction, fields_of(y, 2 * X), 0.9)
    with pytest.raises(ValueError, match="nodes and steps used at calibration"):
        made.band(gb.Prediction(None, np.zeros((2, 8, 5, 1))), 0.9)
    with pytest.raises(ValueError, match="row 3 is NaN"):
        gb.calibrate_arrays(fields(0 * y), fields(np.where(np.arange(20)[:, None, None] == 3, np.nan, y)))


def fields_of(values: np.ndarray, x: np.ndarray) -> gb.Fields:
    return gb.Fields(values, dims=("x", "y"), coordinates={"x": x, "y": Y})


def test_one_node_and_one_field() -> None:
    y = np.random.default_rng(10).normal(size=(30, 1, 1))
    for score in (gb.Simultaneous(), gb.Share(0.1), gb.Norm()):
        made = gb.calibrate_arrays(0 * y, y, score=score)
        assert np.allclose(made.threshold.scores, np.sort(abs(y).ravel()))  # type: ignore[attr-defined]
    with pytest.warns(gb.conformal.InfiniteBandWarning):
        alone = gb.calibrate_arrays(y[:1], y[:1], score=gb.Share(0.1))
        assert np.isinf(alone.band(alone.prediction, 0.9).upper).all()


def test_a_dimension_comes_from_xarray() -> None:
    xarray = pytest.importorskip("xarray")
    y = draw(np.random.default_rng(11), 20)
    array = xarray.DataArray(y, dims=("sample", "x", "y"), coords={"x": X, "y": Y})
    made = gb.calibrate_arrays(fields(0 * y), array, score=gb.Share(0.1))
    assert made.grid == fields(y).grid
    assert made.contains(made.prediction, array, 0.9).sum() >= rank(20, 0.9)
    named = gb.Fields.of(array.rename(sample="who", y="channel"), row="who")
    assert named.shape == (20, 9, 5) and named.dims == ("x",)
    with pytest.raises(ValueError, match="is the axis of fields"):
        gb.calibrate_arrays(fields(0 * y), array.rename(sample="who"), score=gb.Share(0.1))
    with pytest.raises(ValueError, match="one of the axes"):
        gb.Fields.of(array, row="who")


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_an_operator_answers_on_its_grid(kind: str) -> None:
    x = np.random.default_rng(13).normal(size=(30, 2, 9, 5)).astype("float32")
    x = x if kind == "numpy" else torch.tensor(x)
    operator = gb.adapters.from_neuralop(torch.nn.Conv2d(2, 1, 3, padding=1), on_grid=True)
    y = fields(np.random.default_rng(14).normal(size=(30, 9, 5)))
    made = gb.calibrate(operator, x, y, score=gb.Share(0.1))
    band = made(x + 1, 0.8)
    assert band.upper.shape == (30, 9, 5, 1) and band.grid == y.grid and type(band.upper) is type(x)


def test_units_of_quantities_come_from_training_fields() -> None:
    generator = np.random.default_rng(12)
    x, y = generator.normal(size=(2, 60, 7, 1))

    def small_and_large(u: np.ndarray) -> np.ndarray:
        return np.stack([u.mean(axis=(1, 2)), 1e4 * u.max(axis=(1, 2))], axis=1)

    model = gb.predictors.MeanOnly(lambda a: 0 * a, training_data=gb.Observations(x[:20], y[:20]))
    made = gb.calibrate(model, x[20:], y[20:], score=gb.Quantity(small_and_large))
    width = made(x[:3] + 1, 0.9).width
    assert (width[:, 1] > 1e3 * width[:, 0]).all()
    with pytest.warns(UserWarning, match="quantities differ in size"):
        gb.calibrate_arrays(0 * y, y, score=gb.Quantity(small_and_large))


def test_files_from_before_a_scale_could_be_the_shape_keep_their_meaning() -> None:
    made = kind_named("Simultaneous").made
    old = made({"shape": None})
    assert isinstance(old, gb.Simultaneous)
    assert not old.follows_scale and gb.Simultaneous().follows_scale


def test_shapes_and_weights_are_one_number_per_node() -> None:
    y = np.random.default_rng(0).normal(size=(30, 6, 1))
    at = gb.Prediction(None, y[:1])
    shaped = gb.calibrate_arrays(0 * y, y, score=gb.Share(0.2, shape=np.arange(1.0, 7.0)))
    width = shaped.band(at, 0.9).width[0, :, 0]
    assert np.allclose(width / width[0], np.arange(1, 7))
    with pytest.raises(ValueError, match=r"`shape` should fit the fields, \(6, 1\), got \(5, 1\)"):
        gb.calibrate_arrays(0 * y, y, score=gb.Share(0.2, shape=np.ones(5)))
    with pytest.raises(ValueError, match=r"should have the shape of the band, \(1, 6, 1\), got \(1, 5, 1\)"):
        shaped.band(at, 0.9).contains(y[:1, :5])
    with pytest.raises(ValueError, match="should have the shape of the predictions"):
        gb.Norm()(gb.Prediction(None, y), y[:, :5])


def test_grids_are_values() -> None:
    one, same, other = (
        gb.Fields(np.zeros((2, 3, 4)), dims=dims) for dims in (("t", "x"), ("t", "x"), ("t", "y"))
    )
    assert one.grid == same.grid and hash(one.grid) == hash(same.grid) and one.ndim == 4
    assert one.grid.differs(other.grid) == "its axes are t, y, not t, x"
