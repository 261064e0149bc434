"""Columns of frames are matched by name if a network, a problem or a calibration has names for them."""

import re
from typing import Any

import numpy as np
import pandas
import pytest

import guardband as gb
from wings import pinn, torch


class Drift(pinn.Problem):
    """Two tracers that drift to either side."""

    domain = pinn.Segment(0, 1) * pinn.Time(0, 2)
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
def network() -> pinn.MLP:
    return pinn.mlp(Drift(), [8])


def test_a_network_takes_its_axes_by_their_names(network: pinn.MLP) -> None:
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


def test_columns_of_other_names_are_refused(network: pinn.MLP) -> None:
    x, y = table(60).set_axis(["place", "time"], axis=1), noise(60, 2)
    with pytest.raises(ValueError, match=r"network are x, t, but the columns of x are place, time\. Rename"):
        gb.calibrate(network, x, y)
    calibrated = gb.calibrate(network, x.to_numpy(), y)
    with pytest.raises(ValueError, match="network are x, t"):
        calibrated(x)


def test_readings_of_a_frame_are_trained_on_by_their_names(network: pinn.MLP) -> None:
    x, y = table(20), noise(20, 2)
    recipe = pinn.Recipe(steps=1, finish=0)
    one, other = (
        pinn.fit(Drift(), network, gb.Observations(frame, y), recipe=recipe, progress=False)
        for frame in (x, x[["t", "x"]])
    )
    assert one.training_data is not None and other.training_data is not None
    assert np.array_equal(one.training_data.x, other.training_data.x)
    assert np.array_equal(one(x.to_numpy()), other(x.to_numpy()))
    with pytest.raises(
        ValueError, match="columns of the readings are p, t, but the axes of the problem are x, t"
    ):
        pinn.fit(Drift(), network, gb.Observations(x.rename(columns={"x": "p"}), y), recipe=recipe)


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
    calibrated, query = gb.calibration.calibrate_cross(_line, (x, y), folds=5), table(10, 2)
    right = calibrated(query.to_numpy()).upper
    assert np.array_equal(calibrated(query[["t", "x"]]).upper, right)
    new = table(50, 3)
    assert {one.feature for one in gb.evaluate(calibrated, new, 3 * new["x"]).by_range.ranges} >= {"x", "t"}
    with pytest.raises(ValueError, match="no column `t`"):
        calibrated(query[["x"]])
    with pytest.raises(ValueError, match=r"y\.loc\[x\.index\]"):
        gb.calibration.calibrate_cross(_line, (x, y.sample(frac=1, random_state=0)))


def test_readings_in_other_units_are_noticed_at_calibration() -> None:
    fitted = pinn.fit(
        pinn.problems.Heat1D(), pinn.mlp(pinn.problems.Heat1D(), [4]), recipe=pinn.Recipe(steps=1, finish=0)
    )
    x, y = table(30).to_numpy() / [1, 2], noise(30)
    with pytest.warns(UserWarning, match="calibration points lie outside the domain, the first at"):
        gb.calibrate(fitted, x * [1, 1000], y)  # milliseconds for seconds


def test_a_network_a_family_and_all_that_stands_on_them_go_by_names() -> None:
    heat = pinn.problems.Heat1D()
    x = table(40).div([1, 2])
    turned, at = x[["t", "x"]], x.to_numpy()
    y = heat.solution(torch.tensor(at)).numpy() + 0.05 * noise(40, 1)
    recipe = pinn.Recipe(steps=5, finish=0)

    def fit(data: gb.Observations | None = None) -> pinn.Fitted:
        return pinn.fit(heat, pinn.mlp(heat, [8]), data, recipe=recipe, progress=False)

    alone, family = fit(), pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    assert np.array_equal(alone(turned), alone(at))
    tangent = pinn.Tangent(alone, noise=0.05, physics=0.02)
    assert np.array_equal(tangent.calibrate(turned, y)(turned).upper, tangent.calibrate(at, y)(at).upper)
    one, other = (gb.calibration.calibrate_cross(fit, (rows, y), folds=3) for rows in (turned, at))
    assert np.array_equal(one(turned, level=0.6).upper, other(at, level=0.6).upper)
    found = [pinn.coefficients(family, gb.Observations(rows, y)).values for rows in (turned, at)]
    assert found[0] == found[1]
    for solved in (fit(gb.Observations(at, y)), family):
        next_ones = [pinn.next_points(solved, rows, 2, goal="field").x for rows in (turned, at)]
        assert np.array_equal(*next_ones)
    calibrated = gb.calibrate(alone, at, y)
    assert str(gb.check(calibrated, turned)) == str(gb.check(calibrated, at))
    with pytest.raises(ValueError, match="network are x, t"):
        alone(x.set_axis(["p", "t"], axis=1))
    with pytest.raises(ValueError, match="different names, but `x` occurs twice"):
        alone(pandas.concat([x, x[["x"]]], axis=1))


def _words(calibrated: gb.conformal.Calibrated, x: Any, y: Any, path: Any) -> str:
    """All text that is printed or written about a band."""
    page = gb.report(calibrated, x, y, path=path / "page.md").read_text()
    return f"{gb.evaluate(calibrated, x, y)}\n{gb.check(calibrated, x)}\n{page}"


def test_names_of_arrays_are_in_every_table(tmp_path: Any) -> None:
    """The noise grows with the first column, so that tables of ranges are printed."""
    generator = np.random.default_rng(30)
    x = generator.uniform(size=(600, 2))
    y = x[:, :1] + (0.01 + x[:, :1]) * generator.normal(size=(600, 2))
    for named, names in (
        (["depth", "time"], {"depth", "time"}),
        (gb.values.Names(("depth", "time"), ("load", "heat")), {"depth", "time", "load", "heat"}),
    ):
        calibrated = gb.calibrate(lambda x: x[:, [0, 0]], x[:300], y[:300], names=named)
        said = _words(calibrated, x[300:], y[300:], tmp_path)
        assert all(name in said for name in names) and not re.search(r"\bx[01]\b", said)
        assert {one.feature for one in gb.evaluate(calibrated, x[300:], y[300:]).by_range.ranges} >= {"depth"}
    assert not re.search(r"\by[01]\b", said)
    frame = pandas.DataFrame(x[300:, ::-1], columns=["time", "depth"])
    assert np.array_equal(calibrated(frame).upper, calibrated(x[300:]).upper)
    arrays = gb.calibrate_arrays(np.zeros(50), y[:50, 0], x_cal=x[:50], names=["depth", "time"])
    assert arrays.field_names is not None and arrays.field_names.axes == ("depth", "time")


def test_names_are_kept_and_a_band_without_any_is_kept_as_before(tmp_path: Any) -> None:
    x, y = table(40).to_numpy(), noise(40)
    named = gb.calibrate(_first, x, y, names=["depth", "time"])
    plain = gb.calibrate(_first, x, y)
    again = gb.load(gb.save(named, tmp_path / "named"), model=_first)
    assert again.field_names == named.field_names != plain.field_names
    gb.save(plain, tmp_path / "plain")
    assert "names" not in (tmp_path / "plain" / "manifest.json").read_text()


def _first(x: np.ndarray) -> np.ndarray:
    return x[:, :1]


def test_cross_calibration_takes_names_of_arrays(tmp_path: Any) -> None:
    x, y = table(60).to_numpy(), noise(60)

    def crossed(**names: Any) -> Any:
        return gb.calibration.calibrate_cross(lambda data: _first, (x, y), folds=5, **names)

    named, plain = crossed(names=["depth", "time"]), crossed()
    assert {one.feature for one in gb.evaluate(named, x + 1e-3, y).by_range.ranges} >= {"depth", "time"}
    again = gb.load(gb.save(named, tmp_path / "named"), model=_first)
    assert again.field_names == named.field_names != plain.field_names
    frame = pandas.DataFrame(x[:, ::-1], columns=["time", "depth"])
    assert np.array_equal(named(frame, 0.8).upper, named(x, 0.8).upper)
    assert plain.with_names(named.field_names).names == named.names
    gb.save(plain, tmp_path / "plain")
    assert "names" not in (tmp_path / "plain" / "manifest.json").read_text()
    with pytest.raises(ValueError, match="should name the 2 columns of x, got 1: depth"):
        crossed(names=["depth"])


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["depth"], "should name the 2 columns of x, got 1: depth"),
        (["depth", "depth"], "should be different strings"),
        ("depth", "should be a list of names"),
        (gb.values.Names(("a", "b"), ("u", "v")), "should name the 1 outputs, got 2"),
    ],
)
def test_names_that_do_not_fit_are_refused(names: Any, said: str) -> None:
    x, y = table(40), noise(40)
    with pytest.raises((TypeError, ValueError), match=said):
        gb.calibrate(_first, x.to_numpy(), y, names=names)
    with pytest.raises(ValueError, match="but the names are x, t"):
        gb.calibrate(lambda x: x["x"], x, y, names=["a", "b"])


def test_verdicts_and_checks_name_outputs() -> None:
    x = table(300).to_numpy()
    y = np.random.default_rng(3).normal(size=(300, 2)) * [1, 1] + [0, 50]
    names = gb.values.Names(("x", "t"), ("load", "heat"))
    score = gb.Scaled(joint=False)
    calibrated = gb.calibrate(lambda x: 0 * x, x[:150], y[:150], score=score, names=names)
    assert "in output heat" in gb.check(calibrated, x[150:])["error"].text
    verdict = gb.evaluate(calibrated, x[150:], y[150:]).verdict.splitlines()
    assert [line.partition(":")[0] for line in verdict] == ["load", "heat"]
