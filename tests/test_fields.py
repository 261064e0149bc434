"""Fields: all methods compute the same numbers, and a killed run can be resumed."""

import hashlib
import random
import signal
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import guardband as gb
from guardband.fields import store
from guardband.fields.base import BATCHES, USUAL
from helpers import needs
from wings import Absent, pinn, torch

pytestmark = [
    needs("zarr"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:Consolidated metadata"),
]
PROBLEM = pinn.problems.AllenCahn2D()
RECIPE = pinn.Recipe(steps=20, finish=0, n_interior=32, n_boundary=16)
if isinstance(torch, Absent):
    x = np.random.default_rng(1).uniform(-1, 1, size=(60, 2)).astype("float32")
    CAL = gb.Observations(x, 0.05 * np.random.default_rng(2).normal(size=(60, 1)).astype("float32"))
else:
    TRAIN, CAL = PROBLEM.observe(60, noise=0.05, seed=0), PROBLEM.observe(60, noise=0.05, seed=1)
AXES = {"x": np.linspace(-1, 1, 37), "y": np.linspace(-1, 1, 29)}


@cache
def fitted() -> pinn.Fitted:
    return pinn.fit(PROBLEM, pinn.mlp(2, [16, 16]), TRAIN, recipe=RECIPE, progress=False)


def steep(x: Any) -> Any:
    return np.tanh(3 * x[:, :1] * x[:, 1:])


def wide(x: Any) -> Any:
    return 0.1 + abs(x[:, :1])


def predictor() -> gb.Predictor:
    """A network with a posterior, or two functions if torch is not installed."""
    if isinstance(torch, Absent):
        return gb.predictors.Given(steep, wide)
    return pinn.predictors.LastLayerLaplace(fitted(), layers=1)


def calibrated(**options: Any) -> gb.Calibrated:
    return gb.calibrate(predictor(), CAL.x, CAL.y, **options)


def small(**options: Any) -> gb.fields.FieldBand:
    return gb.band_over(calibrated(), AXES, levels=["0.9", 0.95], chunk=200, **options)


def content(folder: Path) -> dict[str, str]:
    """The hash of every file of a store and of its notes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
def test_whole_lazy_chunked_and_on_workers_the_numbers_are_the_same(tmp_path: Path) -> None:
    import xarray

    band = small()
    whole = band.compute(batch=64)
    lazy = band.to_xarray(batch=64)
    band.to_zarr(tmp_path / "one", batch=64, progress=False)
    band.to_zarr(tmp_path / "two", batch=64, on=2, progress=False)
    store = xarray.open_zarr(tmp_path / "one")
    for name in band.variables:
        assert np.array_equal(whole[name], lazy[name].values)
        assert np.array_equal(whole[name], store[name].values)
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert store["mean"].dims == ("x", "y") and store["upper_0.9"].attrs["level"] == 0.9
    assert np.array_equal(store["x"].values, AXES["x"].astype("float32"))


def test_the_numbers_are_those_of_the_band(tmp_path: Path) -> None:
    band = small()
    x = np.stack([part.reshape(-1) for part in np.meshgrid(*AXES.values(), indexing="ij")], axis=1)
    direct = calibrated()(x.astype("float32"), 0.95)
    found = band.compute()
    assert np.allclose(found["upper_0.95"].reshape(-1), direct.upper[:, 0], rtol=1e-6)
    assert np.allclose(found["mean"].reshape(-1), direct.mean[:, 0], rtol=1e-6, atol=1e-6)
    assert (found["lower_0.95"] <= found["lower_0.9"]).all()


def test_a_level_is_added_without_computing_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = calibrated()
    first = gb.band_over(made, AXES, levels=0.9, chunk=200)
    path = first.to_zarr(tmp_path / "f.zarr", batch=64, progress=False)
    before = content(path)
    both = gb.band_over(made, AXES, levels=[0.9, 0.5], chunk=200)
    both.to_zarr(path, progress=False)
    after = content(path)
    same = {name for name in before if "/c/" in name}
    assert all(after[name] == before[name] for name in same)
    assert any(name.startswith("upper_0.5/c/") for name in after)
    other_order = gb.band_over(made, AXES, levels=[0.5, 0.9], chunk=200)
    original = gb.fields.FieldBand.compute

    def probes_only(
        self: gb.fields.FieldBand, region: Any = None, *, batch: int = 0
    ) -> dict[str, np.ndarray]:
        return original(self, region) if batch == 0 else pytest.fail("computed again")

    monkeypatch.setattr(gb.fields.FieldBand, "compute", probes_only)
    other_order.to_zarr(path, progress=False)


def test_damaged_chunks_are_found_and_made_again(tmp_path: Path) -> None:
    path = small().to_zarr(tmp_path / "f.zarr", batch=64, progress=False)
    before = content(path)
    chunks = [name for name in before if "/c/" in name]
    (path / chunks[0]).write_bytes(b"")
    (path / chunks[5]).unlink()
    small().to_zarr(path, progress=False)
    assert content(path) == before


def test_points_meshes_and_several_outputs(tmp_path: Path) -> None:
    pyvista = pytest.importorskip("pyvista")
    points = np.random.default_rng(0).uniform(-1, 1, size=(50, 2))
    triangles = {pyvista.CellType.TRIANGLE: np.array([[0, 1, 2], [3, 4, 5]])}
    pyvista.UnstructuredGrid(triangles, np.c_[points, np.zeros(50)]).save(tmp_path / "in.vtu")
    by_mesh = gb.band_over(calibrated(), tmp_path / "in.vtu")
    by_points = gb.band_over(calibrated(), points)
    assert np.array_equal(by_mesh.compute()["upper_0.95"], by_points.compute()["upper_0.95"])
    back = pyvista.read(by_mesh.to_mesh(tmp_path / "out.vtu"))
    assert back.n_cells == 2 and set(back.point_data) == {"mean", "lower_0.95", "upper_0.95"}
    alone = pyvista.read(by_points.to_mesh(tmp_path / "points.vtu"))
    assert np.allclose(alone.points[:, :2], points, atol=1e-6)
    assert by_points.to_xarray()["mean"].dims == ("point",) and "x1" in by_points.to_xarray().coords

    model = gb.predictors.MeanOnly(lambda x: np.stack([x[:, 0], x[:, 1]], axis=1))
    two = gb.calibrate(model, points, points + 0.1 * np.sin(99 * points))
    band = gb.band_over(two, AXES, names=["u", "v"], units={"u": "m/s", "x": "m"})
    assert band.variables[:2] == ["u_mean", "u_lower_0.95"] and len(band.variables) == 6
    lazy = band.to_xarray()
    assert lazy["u_upper_0.95"].attrs["units"] == "m/s" and lazy["x"].attrs["units"] == "m"
    assert "u_lower_0.95" in lazy["u_mean"].attrs["ancillary_variables"]


def test_grids_are_written_with_their_cells(tmp_path: Path) -> None:
    pyvista = pytest.importorskip("pyvista")
    back = pyvista.read(small().to_mesh(tmp_path / "grid.vtu"))
    cells = back.cells_dict[pyvista.CellType.QUAD]
    assert len(cells) == back.n_cells == 36 * 28
    corners = back.points[cells[0]][:, :2]
    assert np.allclose(
        np.roll(corners, -1, axis=0) - corners, [[2 / 36, 0], [0, 2 / 28], [-2 / 36, 0], [0, -2 / 28]]
    )
    assert np.allclose(back.point_data["mean"], small().compute()["mean"].reshape(-1))
    line = {"t": np.linspace(0, 1, 5)}
    cube = {name: np.linspace(0, 1, 3) for name in "xyz"}
    for grid, n, kind, count in ((line, 5, "LINE", 4), (cube, 27, "HEXAHEDRON", 8)):
        mean = np.arange(n, dtype=float)[None, :, None]
        gb.fields.write_mesh(gb.Band(None, mean, mean - 1, mean + 1, 0.9), grid, tmp_path / "f.vtu")
        found = pyvista.read(tmp_path / "f.vtu")
        assert len(found.cells_dict[pyvista.CellType[kind]]) == found.n_cells == count
        assert np.array_equal(found.point_data["upper_0.9"], mean[0, :, 0] + 1)


def test_meshes_teach(tmp_path: Path) -> None:
    pytest.importorskip("pyvista")
    mean = np.zeros((2, 6, 2))
    band = gb.Band(None, mean, mean - 1, mean + 1, 0.9)
    grid = {"x": np.arange(3.0), "y": np.arange(2.0)}
    with pytest.raises(ValueError, match="holds one field, got 2"):
        gb.fields.write_mesh(band, grid, tmp_path / "f.vtu")
    with pytest.raises(FileNotFoundError, match="There is no mesh"):
        gb.fields.write_mesh(band, tmp_path / "none.vtu", tmp_path / "f.vtu")
    (tmp_path / "odd.xyzw").write_text("no mesh")
    with pytest.raises(ValueError, match="cannot be read as a mesh"):
        gb.fields.write_mesh(band, tmp_path / "odd.xyzw", tmp_path / "f.vtu")
    one = gb.Band(None, mean[:1], mean[:1] - 1, mean[:1] + 1, 0.9)
    with pytest.raises(ValueError, match="should name the 2 outputs, got 1"):
        gb.fields.write_mesh(one, grid, tmp_path / "f.vtu", names=["u"])
    with pytest.raises(ValueError, match=r"written as \.vtu or \.vtk, got '\.obj'"):
        gb.fields.write_mesh(one, grid, tmp_path / "f.obj")
    with pytest.raises(ValueError, match="for each of 3 nodes, got 6"):
        gb.fields.write_mesh(one, {"x": np.arange(3.0)}, tmp_path / "f.vtu")
    with pytest.raises(ValueError, match="at most three coordinates, got 4"):
        gb.fields.write_mesh(one, np.zeros((6, 4)), tmp_path / "f.vtu")
    gb.fields.write_mesh(one, grid, tmp_path / "f.vtu", names=["u", "v"])


def test_plain_xarray_opens_the_store(tmp_path: Path) -> None:
    path = small().to_zarr(tmp_path / "f.zarr", progress=False)
    code = (
        "import sys, xarray; store = xarray.open_zarr(sys.argv[1]); "
        "assert 'guardband' not in sys.modules and 'torch' not in sys.modules; "
        "print(float(store['upper_0.95'].max()), store['mean'].dims, store.attrs['Conventions'])"
    )
    said = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    highest = float(small().compute()["upper_0.95"].max())
    assert said.stdout.split() == [str(highest), "('x',", "'y')", "CF-1.11"]


def test_widths_alone() -> None:
    band = small(parts=["mean", "width"])
    assert band.variables == ["mean", "width_0.9", "width_0.95"]
    found, ends = band.compute(), small().compute()
    assert np.array_equal(found["width_0.9"], ends["upper_0.9"] - ends["lower_0.9"])
    assert band.attributes("width_0.9")["long_name"] == "width of the 0.9 prediction band"
    assert band.attributes("mean")["ancillary_variables"] == "width_0.9 width_0.95"
    with pytest.raises(ValueError, match=r"should be some of .* got \['middle'\]"):
        small(parts=["middle"])


def test_infinite_bands_are_written_as_they_are(tmp_path: Path) -> None:
    few = gb.calibrate(gb.predictors.MeanOnly(fitted()), CAL.x[:5], CAL.y[:5])
    assert np.isinf(gb.band_over(few, AXES).compute()["upper_0.95"]).all()


def test_a_folder_with_other_files_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("everything")
    with pytest.raises(ValueError, match="is not a Zarr store, so it was left unchanged"):
        small().to_zarr(tmp_path, progress=False)
    with pytest.raises(ValueError, match="is not a Zarr store"):
        small().to_zarr(tmp_path / "thesis.tex", progress=False)
    assert (tmp_path / "thesis.tex").read_text() == "everything"


def test_several_outputs_without_names_are_all_there() -> None:
    x = np.linspace(0, 1, 40)[:, None]
    both = gb.predictors.MeanOnly(lambda x: np.hstack([x, 2 * x]))
    made = gb.band_over(gb.calibrate(both, x, np.hstack([x, 2 * x + 0.1])), {"x": x[:, 0]})
    assert made.variables == [f"y{j}_{part}" for j in (0, 1) for part in ("mean", "lower_0.95", "upper_0.95")]
    assert np.allclose(made.compute()["y1_mean"], 2 * x[:, 0])
    assert made.attributes("y1_mean")["ancillary_variables"] == "y1_lower_0.95 y1_upper_0.95"


def test_errors_teach(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"the result of `gb.calibrate`, got int"):
        gb.band_over(3, AXES)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="should name the 1 outputs, got 2"):
        gb.band_over(calibrated(), AXES, names=["u", "v"])
    with pytest.raises(ValueError, match="map each axis to coordinates"):
        gb.band_over(calibrated(), {"x": np.zeros((3, 2))})
    path = small().to_zarr(tmp_path / "f.zarr", batch=64, progress=False)
    with pytest.raises(ValueError, match="was started with batch=64, got 128"):
        small().to_zarr(path, batch=128, progress=False)
    with pytest.raises(ValueError, match="holds a different field"):
        gb.band_over(calibrated(), {"x": AXES["x"], "y": AXES["x"]}).to_zarr(path, progress=False)
    other = gb.calibrate(predictor(), CAL.x[:50], CAL.y[:50])
    with pytest.raises(ValueError, match="holds a different field"):
        gb.band_over(other, AXES, levels=0.8, chunk=200).to_zarr(path, progress=False)


def test_threads_are_as_they_were(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    small().to_zarr(tmp_path / "f.zarr", batch=64, progress=False)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_a_batch_is_chosen_by_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zarr

    axis = np.linspace(-1, 1, 100)
    path = gb.band_over(calibrated(), {"x": axis, "y": axis}).to_zarr(tmp_path / "f.zarr", progress=False)
    assert zarr.open_group(path, mode="r").attrs["batch"] == USUAL  # too small for a measurement

    def slow_unless_large(calibrated: gb.Calibrated, x: np.ndarray, batch: int) -> None:
        time.sleep(0.0002 * len(x) / batch)

    monkeypatch.setattr("guardband.fields.base.predicted", slow_unless_large)
    large = np.linspace(-1, 1, 1500)
    assert gb.band_over(calibrated(), {"x": large, "y": large}).tuned_batch() == max(BATCHES)


def test_one_pass_gives_what_two_gave() -> None:
    x = torch.rand(50, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1
    one = pinn.predictors.LastLayerLaplace(fitted(), layers=1)
    scale, again = one(x).scale, pinn.predictors.Laplace.__call__(one, x).scale  # type: ignore
    assert scale is not None and again is not None
    assert torch.allclose(scale, again, rtol=1e-4)


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from guardband import FieldBand
from test_fields import small

original = FieldBand.compute


def counted(self, region=None, *, batch=None):
    if batch is None:  # a probe, not a chunk
        return original(self, region)
    found = original(self, region, batch=batch)
    open(sys.argv[3], "a").write(f"{region[0].start} {region[1].start}" + chr(10))
    return found


FieldBand.compute = counted
print("ready", flush=True)
small().to_zarr(sys.argv[2], batch=64, progress=False)
print("done", flush=True)
"""


def kill_while_writing(folder: Path, kills: int) -> None:
    """After many kills, the store equals that of an uninterrupted run; a kill costs at most two chunks."""
    expected = content(small().to_zarr(folder / "whole.zarr", batch=64, progress=False))
    here, target, log = str(Path(__file__).parent), folder / "f.zarr", folder / "log.txt"
    generator, killed = random.Random(0), 0
    command = [sys.executable, "-c", WRITER, here, str(target), str(log)]
    while killed < kills:
        writer = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(generator.uniform(0.0, 0.15))
        writer.send_signal(signal.SIGKILL)
        ended = writer.wait()
        writer.stdout.close()
        killed += 1
        if ended == 0:
            break
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert content(target) == expected
    chunks = len(list(small().regions()))
    # One chunk was being computed while the previous one was being written.
    assert len(log.read_text().splitlines()) <= chunks + 2 * killed


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    kill_while_writing(tmp_path, 2)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.long
def test_ten_killed_runs_go_on_where_they_were(tmp_path: Path) -> None:
    kill_while_writing(tmp_path, 10)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:No worker has connected to")
def test_ten_killed_workers_lose_at_most_their_chunk(tmp_path: Path) -> None:
    from test_campaign import Cluster

    axis = np.linspace(-1, 1, 1200)
    band = gb.band_over(calibrated(), {"x": axis, "y": axis}, levels=["0.9", "0.95"], chunk=12_000)
    band.to_zarr(tmp_path / "whole.zarr", batch=512, progress=False)
    cluster, generator, killed = Cluster(tmp_path), random.Random(0), 0
    address = cluster.start()

    finished: dict[Path, int] = {}

    def look() -> None:
        """A chunk with a note is finished, and its note is never written twice."""
        for note in tmp_path.glob("f*.zarr.notes/*.json"):
            assert finished.setdefault(note, note.stat().st_mtime_ns) == note.stat().st_mtime_ns

    def kill() -> None:
        nonlocal killed
        while killed < 10 and not stop.wait(generator.uniform(0.3, 1.5)):
            look()
            cluster.kill_one(generator)
            killed += 1

    stop = threading.Event()
    killer = threading.Thread(target=kill)
    killer.start()
    for attempt in range(20):  # until ten workers were killed while chunks were being written
        band.to_zarr(tmp_path / f"f{attempt}.zarr", batch=512, on=address, progress=False)
        assert content(tmp_path / f"f{attempt}.zarr") == content(tmp_path / "whole.zarr")
        if killed >= 10:
            break
    stop.set()
    killer.join()
    cluster.stop()
    look()
    assert killed == 10 and len(finished) >= 100


def test_workers_without_the_folder_say_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="Write to a folder that all workers share"):
        store._write_task(tmp_path / "gone", 64, (small(), []))


class Client:
    """A substitute for a Dask client that pickles tasks as Dask does and runs them immediately."""

    def scheduler_info(self) -> dict[str, Any]:
        return {"workers": {"one": {}}}

    def submit(self, function: Any, item: Any, **_: Any) -> Any:
        from distributed.protocol.pickle import dumps, loads

        return loads(dumps(function(item)))


def own_function(x: np.ndarray) -> np.ndarray:
    return x[:, :1] ** 2


@pytest.mark.parametrize("function", [own_function, lambda x: x[:, :1] ** 2])
def test_workers_are_sent_the_field_and_no_file_holds_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: Any
) -> None:
    pytest.importorskip("distributed")
    seen: set[str] = set()

    def each(client: Any, function: Any, items: Any) -> Any:
        for item in items:
            yield function(item)
            seen.update(path.name for path in tmp_path.rglob("*") if path.is_file())

    monkeypatch.setattr("guardband.base.engine.each", each)
    made = gb.band_over(gb.calibrate(function, CAL.x, CAL.y), AXES, chunk=200)
    folder = tmp_path / "f.zarr"
    batch = store.create(made, folder, 64)
    assert sum(store.write_all(made, folder, batch, cast(Any, Client()))) == len(made)
    assert all(name.isdigit() or name.endswith(".json") for name in seen), seen
    for module in Path(store.__file__).parent.glob("*.py"):
        assert "import pickle" not in module.read_text() and "cloudpickle" not in module.read_text()


def test_what_cannot_be_sent_says_so(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    lock = threading.Lock()

    def locked(x: np.ndarray) -> np.ndarray:
        with lock:
            return x[:, :1] ** 2

    made = gb.band_over(gb.calibrate(locked, CAL.x, CAL.y), AXES, chunk=200)
    batch = store.create(made, tmp_path / "f.zarr", 64)
    with pytest.raises(TypeError, match=r"cannot be pickled .* write the field without `on`"):
        list(store.write_all(made, tmp_path / "f.zarr", batch, cast(Any, Client())))


def test_a_stopped_call_says_how_far_it_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zarr

    def stop(*_: Any) -> Any:
        yield 200
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "write_all", stop)
    with pytest.raises(KeyboardInterrupt) as stopped:
        small().to_zarr(tmp_path / "f.zarr", batch=64, progress=False)
    assert "the same call resumes the run" in stopped.value.__notes__[0]
    assert zarr.open_group(tmp_path / "f.zarr", mode="r").attrs["complete"] == "no"
    monkeypatch.undo()
    small().to_zarr(tmp_path / "f.zarr", progress=False)
    assert zarr.open_group(tmp_path / "f.zarr", mode="r").attrs["complete"] == "yes"
