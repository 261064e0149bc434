"""Names, dimensions, units and dtypes of datasets survive a round trip through a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import guardband as gb
import guardband.integrations.xarray
from guardband.values import cf

X, Y, Z, T = np.linspace(0, 1, 6), np.linspace(0, 2, 5), np.linspace(0, 3, 4), np.linspace(0, 1, 3)
AXES = {"x": X, "y": Y, "z": Z, "t": T}


def dataset(dims: str, outputs: tuple[str, ...] = ("u",), dtype: str = "float64") -> xarray.Dataset:
    shape = tuple(len(AXES[dim]) for dim in dims)
    rng = np.random.default_rng(0)
    made = {
        name: (tuple(dims), rng.normal(size=shape).astype(dtype), {"units": unit, "long_name": name})
        for name, unit in zip(outputs, ("K", "Pa"), strict=False)
    }
    coords = {dim: (dim, AXES[dim].astype(dtype), {"units": "s" if dim == "t" else "m"}) for dim in dims}
    return xarray.Dataset(made, coords=coords)


def there_and_back(data: xarray.Dataset, path: Path) -> xarray.Dataset:
    data.to_netcdf(path, engine="h5netcdf")
    with xarray.open_dataset(path, engine="h5netcdf") as found:
        return found.load()


CASES = {
    "1D": ("x", ("u",)),
    "2D and time": ("txy", ("u",)),
    "3D": ("xyz", ("u",)),
    "several outputs": ("xy", ("u", "p")),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_a_band_of_a_dataset_comes_back_from_a_file(case: str, dtype: str, tmp_path: Path) -> None:
    dims, outputs = CASES[case]
    data = dataset(dims, outputs, dtype)

    def model(x: Any) -> Any:
        return 0 * x[:, : len(outputs)] + x[:, :1]

    score = gb.Absolute(units=[1.0, 2.0]) if len(outputs) == 2 else None
    calibrated = data.guardband.calibrate(model, outputs, score=score)
    band = data.guardband.band(calibrated, outputs, level=0.5)
    again = there_and_back(band, tmp_path / "band.nc")
    xarray.testing.assert_identical(band, again)
    for name, unit in zip(outputs, ("K", "Pa"), strict=False):
        for part in ("mean", "lower", "upper"):
            one = again[f"{name}_{part}"]
            assert one.dims == tuple(dims) and one.dtype == dtype and one.attrs["units"] == unit
        assert np.array_equal(again[f"{name}_mean"], band[f"{name}_mean"])
        assert again[f"{name}_mean"].attrs["uncertainty_variables"] == f"{name}_offsets"
        assert np.array_equal(
            again[f"{name}_offsets"].isel(end=1), band[f"{name}_upper"] - band[f"{name}_mean"]
        )
    assert "long_name" not in data[dims[0]].attrs, "what was given is left as it was"
    assert all(again[dim].attrs["units"] in "sm" and again[dim].dtype == dtype for dim in dims)
    assert again.attrs["uncertainty_conventions"] == cf.DRAFT and "draft" in cf.DRAFT
    places = np.stack([part.reshape(-1) for part in np.meshgrid(*(data[dim] for dim in dims), indexing="ij")])
    whole = calibrated(places.T.astype(dtype), level=0.5)
    assert np.array_equal(again[f"{outputs[-1]}_upper"].values.reshape(-1), whole.upper[:, -1])


def test_trajectories_keep_their_axes(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(30, 3, 6, 2))
    u = gb.Fields(values, dims=("t", "x"), coordinates={"t": T, "x": X})
    made = gb.calibrate_arrays(0 * values, u, score=gb.Simultaneous())
    band = made.band(gb.Prediction(None, np.zeros((2, 3, 6, 2))), 0.9)
    data = band.to_xarray({"t": "s", "x": "m", "u0": "K", "u1": "Pa"})
    again = there_and_back(data, tmp_path / "t.nc")
    xarray.testing.assert_identical(data, again)
    assert again["upper"].dims == ("point", "t", "x", "output") and again["t"].attrs["units"] == "s"
    assert list(again["output_units"].values) == ["K", "Pa"] and list(again["output"].values) == ["u0", "u1"]


def test_rows_and_inputs_by_name() -> None:
    rng = np.random.default_rng(0)
    data = xarray.Dataset(
        {name: ("run", rng.normal(size=40)) for name in ("speed", "load", "wear")},
        coords={"run": np.arange(40)},
    )
    calibrated = data.guardband.calibrate(lambda x: x[:, 0] - x[:, 1], "wear", inputs=["load", "speed"])
    band = data.guardband.band(calibrated, "wear", inputs=["load", "speed"], level=0.9)
    assert np.array_equal(band["wear_mean"], data["load"] - data["speed"]) and band["wear_mean"].dims == (
        "run",
    )
    inside = (band["wear_lower"] <= data["wear"]) & (data["wear"] <= band["wear_upper"])
    assert int(inside.sum()) == 37  # rank 37 of 40 at 0.9
    found = data.guardband.check(calibrated, inputs=["load", "speed"])
    assert isinstance(found, gb.checks.Findings)
    with pytest.raises(
        ValueError, match="`inputs` should name variables or coordinates of the dataset, got lode"
    ):
        data.guardband.band(calibrated, "wear", inputs="lode")
    with pytest.raises(ValueError, match="should name the 1 outputs of the band, got wear, load"):
        data.guardband.band(calibrated, ["wear", "load"], inputs=["load", "speed"])


def test_units_that_belong_to_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="of the band, got temperature"):
        gb.Band([0.5], [1.0], [0.0], [3.0], level=0.9).to_xarray({"temperature": "K"})


def test_variables_and_dimensions_go_by_their_names() -> None:
    x, t = np.linspace(0, 1, 6), np.linspace(0, 2, 5)
    u = np.sin(x)[:, None] * np.exp(-t)
    dims, coords = ("x", "t"), {"x": ("x", x, {"units": "m"}), "t": ("t", t, {"units": "s"})}
    data = xarray.Dataset({"u": (dims, u, {"units": "K"}), "v": (dims, 2 * u, {"units": "K"})}, coords=coords)

    def model(points: Any) -> Any:
        u = np.sin(points[:, :1]) * np.exp(-points[:, 1:])
        return np.concatenate([u, 2 * u], axis=1) + 0.01 * points[:, :1]

    calibrated = data.guardband.calibrate(model, ["u", "v"])
    right = data.guardband.band(calibrated, ["u", "v"], level=0.8)
    turned = data[["v", "u"]].transpose("t", "x")[["t", "x", "v", "u"]]
    found = turned.guardband.band(calibrated, ["v", "u"], inputs=["t", "x"], level=0.8)
    for name in ("u_upper", "v_upper", "u_mean"):
        assert np.array_equal(found[name].transpose("x", "t"), right[name])
    assert str(turned.guardband.check(calibrated)["size"]) == str(data.guardband.check(calibrated)["size"])
    with pytest.raises(ValueError, match="`outputs` should name the calibrated variables, u, v, got u, w"):
        data.guardband.band(calibrated, ["u", "w"])
    feet = data.assign_coords(x=("x", x, {"units": "feet"}))
    with pytest.raises(ValueError, match="`x` is in feet, s; at calibration it was in m, s"):
        feet.guardband.band(calibrated, ["u", "v"])
    celsius = data.assign(u=data["u"].assign_attrs(units="degC"))
    with pytest.raises(ValueError, match="`outputs` is in degC, K; at calibration it was in K, K"):
        celsius.guardband.band(calibrated, ["u", "v"])
