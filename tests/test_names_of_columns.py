"""Columns of frames go by their names wherever a network, a problem or a calibration has names for them."""

from typing import Any

import numpy as np
import pandas
import pytest
import torch

import guardband as gb


class Drift(gb.Problem):
    """Two tracers that drift to either side."""

    domain = gb.Segment(0, 1) * gb.Time(0, 2)
    outputs = ("a", "b")

    def residual(self, x: Any, u: Any) -> Any:
        return {"a": u["a"].d("t") + u["a"].d("x"), "b": u["b"].d("t") - u["b"].d("x")}

    def conditions(self) -> list[Any]:
        return []


def table(n: int, seed: int = 0) -> pandas.DataFrame:
    return pandas.DataFrame(np.random.default_rng(seed).uniform(size=(n, 2)) * [1, 2], columns=["x", "t"])


def noise(*size: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=size)


@pytest.fixture(scope="module")
def network() -> gb.pinn.MLP:
    return gb.mlp(Drift(), [8])


def test_a_network_takes_its_axes_by_their_names(network: gb.pinn.MLP) -> None:
    x = table(60)
    y = pandas.DataFrame(noise(60, 2), columns=["a", "b"])
    as_arrays = gb.calibrate(network, x.to_numpy(), y.to_numpy())
    turned = gb.calibrate(network, x[["t", "x"]], y[["b", "a"]])
    assert np.array_equal(turned.fingerprint()["scores"], as_arrays.fingerprint()["scores"])
    query = table(5, 2)
    for calibrated in (as_arrays, turned):
        for asked in (query, query[["t", "x"]], query.assign(note="dry")):
            assert np.array_equal(calibrated(asked).upper, as_arrays(query.to_numpy()).upper)
    new = gb.evaluate(turned, query[["t", "x"]], y[["b", "a"]][:5])
    assert new.coverage == gb.evaluate(as_arrays, query.to_numpy(), y.to_numpy()[:5]).coverage


def test_columns_of_other_names_are_refused(network: gb.pinn.MLP) -> None:
    x, y = table(60).set_axis(["place", "time"], axis=1), noise(60, 2)
    with pytest.raises(ValueError, match=r"goes by x, t, and the columns of x are place, time\. Rename"):
        gb.calibrate(network, x, y)
    calibrated = gb.calibrate(network, x.to_numpy(), y)
    with pytest.raises(ValueError, match="goes by x, t"):
        calibrated(x)


def test_readings_of_a_frame_are_trained_on_by_their_names(network: gb.pinn.MLP) -> None:
    x, y = table(20), noise(20, 2)
    recipe = gb.Recipe(steps=1, finish=0)
    one, other = (
        gb.fit(Drift(), network, gb.Observations(frame, y), recipe=recipe, progress=False)
        for frame in (x, x[["t", "x"]])
    )
    assert one.training_data is not None and other.training_data is not None
    assert np.array_equal(one.training_data.x, other.training_data.x)
    assert np.array_equal(one(x.to_numpy()), other(x.to_numpy()))
    with pytest.raises(ValueError, match="columns of the readings are p, t, the axes of the problem x, t"):
        gb.fit(Drift(), network, gb.Observations(x.rename(columns={"x": "p"}), y), recipe=recipe)


def test_rows_in_another_order_are_refused() -> None:
    x = table(20)
    with pytest.raises(ValueError, match=r"y\.loc\[x\.index\]"):
        gb.Observations(x, x["x"].sample(frac=1, random_state=0))


def _line(data: gb.Observations) -> Any:
    weights = np.linalg.lstsq(data.x, data.y, rcond=None)[0]
    return lambda x: x @ weights


def test_cross_calibration_knows_columns_and_labels() -> None:
    x = table(40)
    y = 3 * x["x"] - x["t"] + 0.1 * noise(40)
    calibrated, query = gb.calibrate_cross(_line, (x, y), folds=5), table(10, 2)
    right = calibrated(query.to_numpy()).upper
    assert np.array_equal(calibrated(query[["t", "x"]]).upper, right)
    new = table(50, 3)
    assert {one.feature for one in gb.evaluate(calibrated, new, 3 * new["x"]).by_range.ranges} >= {"x", "t"}
    with pytest.raises(ValueError, match="no column `t`"):
        calibrated(query[["x"]])
    with pytest.raises(ValueError, match=r"y\.loc\[x\.index\]"):
        gb.calibrate_cross(_line, (x, y.sample(frac=1, random_state=0)))


def test_readings_in_other_units_are_noticed_at_calibration() -> None:
    fitted = gb.fit(
        gb.problems.Heat1D(), gb.mlp(gb.problems.Heat1D(), [4]), recipe=gb.Recipe(steps=1, finish=0)
    )
    x, y = table(30).to_numpy() / [1, 2], noise(30)
    with pytest.warns(UserWarning, match="calibration points lie outside of the domain, the first at"):
        gb.calibrate(fitted, x * [1, 1000], y)  # milliseconds for seconds


def test_a_network_a_family_and_all_that_stands_on_them_go_by_names() -> None:
    heat = gb.problems.Heat1D()
    x = table(40).div([1, 2])
    turned, at = x[["t", "x"]], x.to_numpy()
    y = heat.solution(torch.tensor(at)).numpy() + 0.05 * noise(40, 1)
    recipe = gb.Recipe(steps=5, finish=0)

    def fit(data: gb.Observations | None = None) -> gb.Fitted:
        return gb.fit(heat, gb.mlp(heat, [8]), data, recipe=recipe, progress=False)

    alone, family = fit(), gb.Family(gb.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    assert np.array_equal(alone(turned), alone(at))
    tangent = gb.Tangent(alone, noise=0.05, physics=0.02)
    assert np.array_equal(tangent.calibrate(turned, y)(turned).upper, tangent.calibrate(at, y)(at).upper)
    one, other = (gb.calibrate_cross(fit, (rows, y), folds=3) for rows in (turned, at))
    assert np.array_equal(one(turned, level=0.6).upper, other(at, level=0.6).upper)
    found = [gb.coefficients(family, gb.Observations(rows, y)).values for rows in (turned, at)]
    assert found[0] == found[1]
    for solved in (fit(gb.Observations(at, y)), family):
        next_ones = [gb.next_points(solved, rows, 2, goal="field").x for rows in (turned, at)]
        assert np.array_equal(*next_ones)
    calibrated = gb.calibrate(alone, at, y)
    assert str(gb.check(calibrated, turned)) == str(gb.check(calibrated, at))
    with pytest.raises(ValueError, match="goes by x, t"):
        alone(x.set_axis(["p", "t"], axis=1))
    with pytest.raises(ValueError, match="different names, `x` is there twice"):
        alone(pandas.concat([x, x[["x"]]], axis=1))
