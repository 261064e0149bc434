"""The core without torch: it neither needs nor imports it, and artifacts are the same with it and without."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.base.arrays import is_tensor
from guardband.base.engine import connect
from guardband.store.codec import Encoder, packed

HERE, SOURCE = Path(__file__).parent, Path(gb.__file__).parent.parent
LEVEL = 0.9


def line(x: Any) -> Any:
    """A model of numpy arrays and of tensors."""
    return 2 * x[:, :1]


def low(x: Any) -> Any:
    return line(x) - 0.1


def high(x: Any) -> Any:
    return line(x) + 0.1


def scale(x: Any) -> Any:
    return 0.1 + abs(x[:, :1]) ** 0.5


def fields(x: Any) -> Any:
    """Whole fields of 40 nodes."""
    return 2 * x[:, :, None]


@gb.kept
@dataclass(frozen=True)
class Rounded(gb.conformal.Symmetric):
    """A score whose last digits are others in numpy than in torch, as those of some functions are."""

    def unit(self, prediction: gb.Prediction) -> float:
        return 1.0 if is_tensor(prediction.mean) else 1 + 2**-20


OWN = {"mean": line, "scale": scale, "lower": low, "upper": high, "members0": low, "members1": high}


def rows(seed: int, n: int = 120, d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    x = draw.uniform(size=(n, d)).astype(np.float32)
    mean = 2 * x if d > 2 else line(x)
    return x, mean + 0.1 * draw.normal(size=mean.shape).astype(np.float32)


def bands(kind: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    """Calibrations on arrays of a kind, numpy or torch."""
    (x, y), train = map(kind, rows(0)), gb.Observations(*map(kind, rows(1, 60)))
    wide, values = map(kind, rows(2, 100, 40))
    shift = gb.conformal.density_ratio(train.x, kind(rows(3, 50)[0]))
    given = gb.predictors.Given(line, scale)
    total, log = gb.conformal.Total(noise=0.1), gb.conformal.LogScale(draws=5)
    return {
        "split": gb.calibrate(line, x, y),
        "total": gb.calibrate(given, x, y, score=total),
        "grouped": gb.calibrate(line, x, y, calibrator=gb.Grouped(), groups=np.arange(120) % 2),
        "clustered": gb.calibrate(line, x, y, calibrator=gb.Clustered(), groups=np.arange(120) // 4),
        "local": gb.calibrate(line, x, y, calibrator=gb.Local(train)),
        "log-scale": gb.calibrate(line, x, y, calibrator=gb.Local(train, log)),
        "CQR": gb.calibrate(gb.Quantiles(low, high), x, y, score=gb.CQR()),
        "weighted": gb.calibrate(line, x, y, calibrator=gb.Weighted(shift)),
        "distance": gb.calibrate(gb.predictors.Distance(line, train, n_neighbors=5), x, y),
        "ensemble": gb.calibrate(gb.predictors.Ensemble([low, high]), x, y),
        "simultaneous": gb.calibrate(fields, wide, values[:, :, None], score=gb.Simultaneous()),
        "norm": gb.calibrate(fields, wide, values[:, :, None], score=gb.Norm("L2")),
    }


def answers(calibrated: Any) -> dict[str, np.ndarray]:
    """The numbers of a band at numpy points."""
    x = rows(9, 5, calibrated.prediction.x.shape[1])[0]
    groups = np.zeros(5, int) if calibrated.needs_groups else None
    band = calibrated(x, LEVEL, groups=groups)
    return {name: getattr(band, name) for name in ("mean", "lower", "upper", "radius") if hasattr(band, name)}


def save(calibrations: dict[str, Any], folder: Path) -> None:
    """Save calibrations, and their bands in one file."""
    for name, calibrated in calibrations.items():
        gb.save(calibrated, folder / name)
    made = {f"{name} {part}": a for name, one in calibrations.items() for part, a in answers(one).items()}
    np.savez(folder / "bands.npz", **made)  # type: ignore[arg-type]


def loaded(folder: Path) -> Any:
    """A calibration, with the functions that were not saved."""
    wanted = gb.store.manifest(folder)["passed_at_load"]
    model = fields if folder.name in ("simultaneous", "norm") else line
    return gb.load(folder, **{name: OWN.get(name, model) for name in wanted})


def compare(folder: Path) -> dict[str, str]:
    """What became of each saved calibration: equal, different, or the error."""
    stored, found = np.load(folder / "bands.npz"), {}
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        try:
            made = answers(loaded(place))
        except gb.store.ArtifactError as error:
            found[place.name] = str(error)
        else:
            same = all(np.array_equal(a, stored[f"{place.name} {part}"]) for part, a in made.items())
            found[place.name] = "equal" if same else "different"
    return found


GRAPH = """<ir_version: 8, opset_import: ["": 18]>
g (float[n, 2] x) => (float[n, 1] y) <float[2, 1] w = {2.0, 0.0}> { y = MatMul(x, w) }"""
"""The straight line as an ONNX graph."""

ASK = """
import sys
import mlflow, numpy, pandas

frame = pandas.DataFrame(numpy.load(sys.argv[2]), columns=["a", "b"])
numpy.save(sys.argv[3], mlflow.pyfunc.load_model(sys.argv[1]).predict(frame).to_numpy())
assert "torch" not in sys.modules
"""


class Calls:
    """What the core does for one who has no torch; each is run in a fresh interpreter, in this order."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.files = folder, folder.with_name(f"{folder.name}_files")
        self.files.mkdir(parents=True)
        self.x, self.y = rows(0)
        self.fresh = rows(4, 60)

    def calibrate(self) -> None:
        self.made = bands(np.asarray)

    def save(self) -> None:
        save(self.made, self.folder)

    def load(self) -> None:
        assert set(compare(self.folder).values()) == {"equal"}

    def evaluate(self) -> None:
        assert gb.evaluate(self.made["split"], *self.fresh).coverage > 0.5

    def report(self) -> None:
        gb.report(self.made["split"], *self.fresh, path=self.folder / "report.html")

    def check(self) -> None:
        gb.check(self.made["split"], self.fresh[0])

    def choose(self) -> None:
        choose, calibrate = gb.partition((self.x, self.y), choose=0.5, calibrate=0.5)
        gb.choose({"line": line, "low": low}, choose=choose, calibrate=calibrate, level=LEVEL)

    def plot(self) -> None:
        at = np.linspace(0, 1, 9)[:, None]
        gb.plot.band(gb.calibrate(line, self.x[:, :1], self.y)(at, LEVEL))

    def band_over(self) -> None:
        ends = np.linspace(0, 1, 4)
        gb.band_over(self.made["split"], {"a": ends, "b": ends})

    def stream(self) -> None:
        stream = gb.Stream(self.made["split"], LEVEL)
        for x, y in zip(*self.fresh, strict=True):
            stream.band(x[None])
            stream.update(y)
        assert stream.missed < 0.5

    def pipeline(self) -> None:
        pipeline = pytest.importorskip("sklearn.pipeline")
        from sklearn.linear_model import Ridge
        from sklearn.preprocessing import StandardScaler

        model = pipeline.make_pipeline(StandardScaler(), Ridge()).fit(*rows(1))
        assert gb.calibrate(model, self.x, self.y)(self.x, LEVEL).upper.shape == (120, 1)

    def check_score(self) -> None:
        gb.testing.check_score(gb.Scaled())

    def command_line(self) -> None:
        model, bands, out = self._onnx(), self.files / "bands.csv", self.files / "band"
        for name, (x, y) in {"calibration": (self.x, self.y), "fresh": self.fresh}.items():
            table = np.concatenate([x, y], axis=1)
            np.savetxt(self.files / f"{name}.csv", table, header="a,b,u", comments="", delimiter=",")
        data, fresh = self.files / "calibration.csv", self.files / "fresh.csv"
        self._guardband("calibrate", model, "--data", data, "--targets", "u", "--out", out)
        self._guardband("verify", out, "--data", fresh)
        self._guardband("predict", out, "--data", fresh, "--out", bands)
        self._guardband("report", out, "--data", fresh, "--out", self.files / "page.html")
        expected = gb.calibrate(gb.adapters.from_onnx(model), self.x, self.y)(self.fresh[0])
        found = np.loadtxt(bands, delimiter=",", skiprows=1)
        np.testing.assert_allclose(found[:, -1], expected.upper[:, 0], rtol=1e-5)

    def netcdf(self) -> None:
        made, path = self._fields()
        fresh = gb.StoredFields(path, x="a", y="u")
        band = gb.band_over(made, fresh, levels=[0.8, 0.9], chunk=16).compute()
        assert {"lower_0.8", "upper_0.9"} <= set(band)

    def workers(self) -> None:
        made, path = self._fields()
        band = gb.band_over(made, gb.StoredFields(path, x="a", y="u"), levels=0.9, chunk=8)
        with connect(2) as workers:
            band.to_zarr(self.files / "band.zarr", on=workers, progress=False)
            imported = workers.run(wings)
        assert gb.fields.verify(self.files / "band.zarr").sound
        assert len(imported) == 2 and not any(imported.values()), imported

    def mlflow(self) -> None:
        warnings.simplefilter("ignore")  # MLflow's own, at import and in its calls
        mlflow, model = pytest.importorskip("mlflow"), self._onnx()
        os.environ |= {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}
        os.environ["MLFLOW_TRACKING_URI"] = (self.files / "runs").as_uri()
        calibrated = gb.calibrate(gb.adapters.from_onnx(model), self.x, self.y)
        with mlflow.start_run():
            info = gb.integrations.mlflow.log_model(
                calibrated, level=0.9, onnx=model, inputs=["a", "b"], outputs=["u"]
            )
        asked, found = self.files / "asked.npy", self.files / "found.npy"
        np.save(asked, self.fresh[0])
        subprocess.run([sys.executable, "-W", "ignore", "-c", ASK, info.model_uri, asked, found], check=True)
        expected = calibrated(self.fresh[0], 0.9)
        assert np.array_equal(
            np.load(found), np.concatenate([expected.mean, expected.lower, expected.upper], 1)
        )

    def jax(self) -> None:
        warnings.simplefilter("ignore")
        numpy = pytest.importorskip("jax.numpy")
        model = gb.adapters.from_jax(lambda x: 2 * numpy.sin(x[:, :1]))
        band = gb.calibrate(model, self.x, self.y)(self.fresh[0], LEVEL)
        assert (band.upper > band.lower).all()

    def _onnx(self) -> Path:
        """A graph in a file."""
        parser = pytest.importorskip("onnx.parser")
        pytest.importorskip("onnxruntime")
        (self.files / "model.onnx").write_bytes(parser.parse_model(GRAPH).SerializeToString())
        return self.files / "model.onnx"

    def _guardband(self, *words: str | Path) -> None:
        """A command, which should succeed."""
        from typer.testing import CliRunner

        from guardband.cli import app

        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output

    def _fields(self) -> tuple[Any, Path]:
        """A calibration on whole fields from a NetCDF file, and fresh ones in another."""
        xarray = pytest.importorskip("xarray")
        for name, seed in (("calibration", 2), ("fresh", 3)):
            x, y = rows(seed, 64, 40)
            grid = {"x": np.linspace(0, 1, 40)}
            arrays = {"a": (("row", "x"), x), "u": (("row", "x", "channel"), y[:, :, None])}
            data = xarray.Dataset(arrays, grid)
            data.to_netcdf(self.files / f"{name}.nc", engine="scipy")
        with xarray.open_dataset(self.files / "calibration.nc") as data:
            made = gb.calibrate(fields, data["a"].load(), data["u"].load(), score=gb.Simultaneous())
        return made, self.files / "fresh.nc"


SLOW = ["workers", "mlflow", "jax"]
CALLS = [name for name in vars(Calls) if not name.startswith("_") and name not in SLOW]
WINGS = "torch", "guardband.pinn", "guardband.lab.studies"  # the command line imports guardband.lab.cli


def wings() -> list[str]:
    """Those that are imported in this process."""
    return [name for name in WINGS if name in sys.modules]


class NoTorch:
    """A finder of modules by which no torch is found."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main(names: list[str], folder: str, absent: bool, tensors: str) -> None:
    """Run calls, here and now; without torch, load what was calibrated on tensors too."""
    if absent:
        sys.meta_path.insert(0, NoTorch)  # type: ignore[arg-type]
    calls, found = Calls(Path(folder)), {}
    for name in names:
        warnings.simplefilter("error")
        try:
            getattr(calls, name)()
            found[name] = "done"
        except pytest.skip.Exception as skipped:
            found[name] = f"skipped: {skipped}"
        except Exception as error:
            found[name] = repr(error)
        if imported := wings():
            found[name] = f"imported {imported}"
    print(json.dumps({"calls": found, "loaded": compare(Path(tensors)) if tensors else {}, "pinn": _pinn()}))


def _pinn() -> str:
    """What the PINN engine says that cannot be imported."""
    try:
        from guardband import pinn
    except ImportError as error:
        return str(error)
    return pinn.__name__


def run(names: list[str], folder: Path, *, absent: bool, tensors: Path | str = "") -> dict[str, Any]:
    """What `main` prints in a fresh interpreter."""
    asked = (names, str(folder), absent, str(tensors))
    code = f"import test_without_torch as here; here.main(*{asked!r})"
    path = os.pathsep.join([str(SOURCE), str(HERE)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def tensors(folder: Path) -> Path | None:
    """Calibrations on tensors, and three that need torch; None where it is not installed."""
    if find_spec("torch") is None:
        return None
    import torch

    from guardband import pinn

    x, y = map(torch.as_tensor, rows(0))
    half = gb.calibrate_arrays(line(x).bfloat16(), y.bfloat16())
    more = {"network": gb.calibrate(pinn.mlp(2, [4]), x, y), "bfloat16": half}
    more["rounded"] = gb.calibrate(line, x, y, score=Rounded())
    save(bands(torch.as_tensor), folder / "tensors")
    for name, calibrated in more.items():
        gb.save(calibrated, folder / "tensors" / name)
    return folder / "tensors"


@pytest.fixture(scope="module")
def absent(folder: Path, tensors: Path | None) -> dict[str, Any]:
    """What happens in an interpreter that cannot import torch."""
    return run(CALLS, folder / "absent", absent=True, tensors=tensors or "")


@pytest.fixture(scope="module")
def present(folder: Path) -> dict[str, Any]:
    """What happens in an interpreter that could."""
    return run(CALLS, folder / "present", absent=False)


def done(said: str) -> None:
    """See that a call was done, and skip the test if a package was missing."""
    if said.startswith("skipped"):
        pytest.skip(said)
    assert said == "done"


@pytest.mark.parametrize("call", CALLS)
def test_the_core_does_without_torch(call: str, absent: dict[str, Any]) -> None:
    done(absent["calls"][call])


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_the_core_does_not_import_torch(call: str, present: dict[str, Any]) -> None:
    done(present["calls"][call])


@pytest.mark.slow
@pytest.mark.parametrize("absent", [True, False], ids=["absent", "present"])
@pytest.mark.parametrize("call", SLOW)
def test_what_takes_longer_neither_needs_nor_imports_torch(call: str, absent: bool, tmp_path: Path) -> None:
    done(run([call], tmp_path / "here", absent=absent)["calls"][call])


def test_what_was_calibrated_on_tensors_gives_equal_bits_or_names_the_extra(
    absent: dict[str, Any], tensors: Path | None
) -> None:
    if tensors is None:
        pytest.skip("torch is not installed")
    found = dict(absent["loaded"])
    for name in ("network", "bfloat16", "rounded"):
        assert 'torch: pip install "guardband[pinn]"' in found.pop(name)
    assert set(found.values()) == {"equal"}


def test_what_was_saved_without_torch_loads_with_it(folder: Path, absent: dict[str, Any]) -> None:
    assert set(compare(folder / "absent").values()) == {"equal"}


def test_the_same_arrays_make_the_same_file_in_numpy_and_torch() -> None:
    torch = pytest.importorskip("torch")
    draw = np.random.default_rng(0)
    arrays = [(9 * draw.normal(size=(3, 2))).astype(dtype) for dtype in ("f2", "f4", "f8", "i4", "i8", "?")]
    arrays += [np.zeros((0, 3)), np.ones((2, 3))[:, ::2], np.ones(1)]
    in_numpy, in_torch = Encoder(), Encoder()
    for a in arrays:
        in_numpy.encode(a, "a")
        in_torch.encode(torch.as_tensor(a), "a")
    assert packed(in_numpy.arrays) == packed(in_torch.arrays)
    assert all(map(is_tensor, in_torch.arrays.values())) and not any(map(is_tensor, in_numpy.arrays.values()))


def test_the_engine_says_what_to_install(absent: dict[str, Any]) -> None:
    assert absent["pinn"] == 'This needs torch: pip install "guardband[pinn]"'


def test_the_manifest_names_torch_only_if_it_was_loaded(folder: Path, absent: dict[str, Any]) -> None:
    assert "torch" not in gb.store.manifest(folder / "absent" / "split")["versions"]
