"""Adapters: models trained with other libraries obey the exact law and are left unchanged.

Each library trains the model of its example. The false-alarm rate of each test of the law is 2e-4.
"""

import os
import runpy
import shutil
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.adapters import from_deepxde, from_jax, from_neuralop, from_onnx, from_pina, nodes
from guardband.adapters.onnx import whole_graph
from guardband.conformal.laws import CoverageLaw, tails, total_counts
from guardband.conformal.rank import rank
from guardband.conformal.scores import Score
from guardband.testing import check_predictor
from wings import pinn, torch

EXAMPLES = Path(__file__).parent.parent / "examples"
DRAWS, N, M = 200, 30, 20
quiet = pytest.mark.filterwarnings("ignore")  # warnings of the libraries at import and in training


def example(name: str) -> SimpleNamespace:
    """The functions that an example defines."""
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / f"from_{name}.py")))


def check_law(mean: Any, y: Any, level: float = 0.9, score: Score | None = None) -> None:
    """Coverage over 200 recalibrations on distinct points obeys the Beta-binomial law."""
    covered = 0
    for mean_k, y_k in zip(np.split(mean, DRAWS), np.split(y, DRAWS), strict=True):
        calibrated = gb.calibrate_arrays(mean_k[:N], y_k[:N], score=score)
        covered += int(calibrated.band(gb.Prediction(None, mean_k[N:]), level).contains(y_k[N:]).sum())
    below, above = tails(total_counts([(CoverageLaw(rank(N, level), N), M)], repeats=DRAWS), covered)
    print(f"covered {covered / (DRAWS * M):.4f} at {level}, p = {below:.3g} below, {above:.3g} above")
    assert min(below, above) >= 1e-4


def check(predictor: gb.predictors.MeanOnly, engine: SimpleNamespace, *, error: float, seed: int) -> None:
    """A fixed, trained function of both kinds of arrays; its training data are refused; the law holds."""
    x, y = engine.measured(DRAWS * (N + M), seed=seed)
    truth = engine.truth(x)
    prediction = predictor(x)
    print(f"relative L2 error {gb.metrics.relative_l2(prediction.mean, truth):.4f}")
    assert prediction.mean.shape == y.shape and prediction.scale is None
    assert gb.metrics.relative_l2(prediction.mean, truth) < error
    check_predictor(predictor, x[:40])
    in_torch = predictor(torch.tensor(x[:5])).mean
    assert isinstance(in_torch, torch.Tensor) and in_torch.dtype == torch.float64
    assert not in_torch.requires_grad and type(in_torch) is torch.Tensor
    check_law(prediction.mean, y)
    band = gb.calibrate(predictor, x[:N], y[:N])(x[N:], level=0.9)
    arrays = gb.calibrate_arrays(prediction.mean[:N], y[:N]).band(
        gb.Prediction(None, prediction.mean[N:]), 0.9
    )
    np.testing.assert_allclose(band.upper, arrays.upper, rtol=1e-4, atol=1e-4)  # float32


@quiet
@pytest.mark.parametrize(("engine", "same"), [("deepxde", "Line"), ("pina", "Square")])
def test_the_verdict_on_networks_of_other_engines(engine: str, same: str) -> None:
    pytest.importorskip(engine)
    made = example(engine)
    problem = getattr(made, same)()
    x, _ = made.measured(500, seed=5)
    for steps, word in ((1000, "converged"), (50, "not converged")):
        model = made.trained(steps)
        net = getattr(model, "net", None) or model.model
        found = pinn.verdict(problem, net)
        with torch.no_grad():
            off = gb.metrics.relative_l2(net(torch.tensor(x, dtype=torch.float32)).numpy(), made.truth(x))
        print(f"off by {off:.4f}: {found}")
        assert found.word == word and 0.5 < found.error["u"] / off < 2


def refuses_its_training_points(predictor: gb.predictors.MeanOnly) -> None:
    assert predictor.training_data is not None
    with pytest.raises(ValueError, match="are training points"):
        gb.calibrate(predictor, *predictor.training_data)


def state(net: torch.nn.Module) -> list[Any]:
    """The mode of every submodule, and whether every parameter requires gradients."""
    grads = [
        (p.requires_grad, None if p.grad is None else p.grad.clone().numpy().tolist())
        for p in net.parameters()
    ]
    return [[module.training for module in net.modules()], grads]


@quiet
def test_deepxde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDE_BACKEND", "pytorch")
    dde = pytest.importorskip("deepxde")
    engine = example("deepxde")
    model = engine.trained()
    for mode in (True, False):
        before = state(model.net.train(mode))
        from_deepxde(model)(engine.measured(50, 0).x)
        assert state(model.net) == before
    check(from_deepxde(model), engine, error=0.02, seed=11)
    refuses_its_training_points(from_deepxde(model, training_data=engine.measured(50, seed=3)))
    with pytest.raises(TypeError, match=r"should be a deepxde.Model, got FNN.*gb.calibrate"):
        from_deepxde(model.net)
    with pytest.raises(ValueError, match="not compiled"):
        from_deepxde(dde.Model(model.data, model.net))


@quiet
def test_pina() -> None:
    pytest.importorskip("pina")
    engine = example("pina")
    solver = engine.trained()
    for mode in (True, False):
        before = state(solver.train(mode))
        from_pina(solver)(engine.measured(50, 0).x)
        assert state(solver) == before
    check(from_pina(solver), engine, error=0.05, seed=12)
    refuses_its_training_points(from_pina(solver, training_data=engine.measured(50, seed=3)))
    with pytest.raises(ValueError, match=r"one column for each of \['x', 'y'\].*\(5, 3\)"):
        from_pina(solver)(np.zeros((5, 3)))
    with pytest.raises(TypeError, match=r"should be a PINA solver, got FeedForward"):
        from_pina(solver.model)


@quiet
def test_pina_ensembles_and_plain_tensors() -> None:
    pytest.importorskip("pina")
    from pina.problem.zoo import Poisson2DSquareProblem, SupervisedProblem
    from pina.solver import PhysicsInformedEnsembleSolver, SupervisedSingleModelSolver

    members = [torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)]
    with pytest.raises(TypeError, match=r"has several.*Ensemble\(list\(solver.models\)\)"):
        from_pina(PhysicsInformedEnsembleSolver(Poisson2DSquareProblem(), members))
    x = torch.rand(9, 2, generator=torch.Generator().manual_seed(0))
    unlabelled = SupervisedSingleModelSolver(SupervisedProblem(x, x[:, :1]), members[0], use_lt=False)
    assert torch.equal(from_pina(unlabelled)(x).mean, members[0](x).detach())


@quiet
def test_neuralop() -> None:
    pytest.importorskip("neuralop")
    engine = example("neuralop")
    model = engine.trained()
    predictor = from_neuralop(model)
    before = state(model.train())
    x, y = engine.measured(DRAWS * (N + M), seed=13)
    prediction = predictor(x)
    assert state(model) == before
    print(f"relative L2 error {gb.metrics.relative_l2(prediction.mean, y):.4f}")
    assert prediction.mean.shape == y.shape == (len(x), engine.NODES, 1)
    assert gb.metrics.relative_l2(prediction.mean, y) < 0.05
    check_predictor(predictor, x[:40])
    residuals = nodes(engine.fields(100, seed=3)[1]) - predictor(engine.fields(100, seed=3)[0]).mean
    for score in (gb.Simultaneous(), gb.Simultaneous.fitted(residuals)):
        check_law(prediction.mean, y, score=score)
    check_law(prediction.mean[:, 7], y[:, 7])
    probe = gb.predictors.MeanOnly(lambda x: predictor(x).mean[:, 7])
    assert gb.calibrate(probe, x[:N], y[:N, 7])(x[N : N + M], level=0.9).upper.shape == (M, 1)
    refuses_its_training_points(from_neuralop(model, training_data=engine.measured(50, seed=3)))


@quiet
def test_the_guide_for_an_fno_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("neuralop")
    pytest.importorskip("h5netcdf")
    monkeypatch.chdir(tmp_path)
    guide = runpy.run_path(str(EXAMPLES.parent / "tools" / "docs" / "fno.py"))
    text, names = guide["ran"](guide["PAGE"].read_text())
    assert "Consistent with the guarantee" in text
    with names["xr"].open_dataset("band.nc") as band:
        assert band.upper.dims == ("point", "x", "output") and bool((band.lower < band.upper).all())
        assert band.attrs["level"] == 0.9 and np.allclose(band.x, names["data"].x)
    (short,) = (block for block in guide["BLOCK"].findall(guide["PAGE"].read_text()) if "band.nc" in block[0])
    assert len([line for line in short[0].splitlines() if line]) <= 15
    assert (tmp_path / "fno.png").exists()


def test_fields_become_rows_of_nodes_and_back() -> None:
    fields = np.random.default_rng(0).normal(size=(5, 2, 3, 4))
    rows = nodes(fields)
    assert rows.shape == (5, 12, 2) and rows[1, 4 * 2 + 3, 1] == fields[1, 1, 2, 3]
    assert np.array_equal(rows.swapaxes(1, 2).reshape(5, 2, 3, 4), fields)
    assert torch.equal(nodes(torch.tensor(fields)), torch.tensor(rows))
    with pytest.raises(ValueError, match=r"\(N, m, \*grid\), got shape \(5, 12\).*fields\[:, None\]"):
        nodes(fields[:, 0].reshape(5, 12))


def test_operators_of_any_library_predict_fields() -> None:
    convolution = torch.nn.Conv2d(3, 2, 3, padding=1).train()
    x = np.random.default_rng(0).normal(size=(10, 3, 8, 8))
    check_predictor(from_neuralop(convolution), x)
    assert from_neuralop(convolution)(x).mean.shape == (10, 64, 2) and convolution.training


@pytest.mark.slow
@quiet
def test_onnx(tmp_path: Path) -> None:
    for package in ("onnxruntime", "onnx", "onnxscript"):
        pytest.importorskip(package)
    engine = example("onnx")
    graph = engine.trained()
    check(from_onnx(graph), engine, error=0.1, seed=14)
    refuses_its_training_points(from_onnx(graph, training_data=engine.measured(50, seed=3)))
    (tmp_path / "model.onnx").write_bytes(graph)
    x = engine.measured(50, seed=3).x
    for path in (tmp_path / "model.onnx", str(tmp_path / "model.onnx")):
        assert np.array_equal(from_onnx(path)(x).mean, from_onnx(graph)(x).mean)


def graph(inputs: int = 1, outputs: int = 1, kind: str = "DOUBLE", rows: Any = "n") -> bytes:
    """The largest of the inputs, repeated."""
    from onnx import TensorProto, checker, helper

    def ends(letter: str, count: int) -> list[Any]:
        dtype = getattr(TensorProto, kind)
        return [helper.make_tensor_value_info(f"{letter}{i}", dtype, [rows, 2]) for i in range(count)]

    given, answers = ends("x", inputs), ends("y", outputs)
    largest = [helper.make_node("Max", [e.name for e in given], [e.name]) for e in answers]
    model = helper.make_model(
        helper.make_graph(largest, "largest", given, answers),
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 13)],
    )
    checker.check_model(model)
    return model.SerializeToString()


@quiet
def test_onnx_follows_the_dtype_of_the_graph() -> None:
    for package in ("onnxruntime", "onnx"):
        pytest.importorskip(package)
    x = np.array([[0.1, 1e-12 + 1]])
    assert np.array_equal(from_onnx(graph())(x).mean, x)
    assert np.array_equal(from_onnx(graph(kind="FLOAT"))(x).mean, x.astype(np.float32).astype(float))
    assert from_onnx(graph())(x.astype(np.float32)).mean.dtype == np.float32


@quiet
def test_onnx_refuses_what_it_cannot_answer() -> None:
    for package in ("onnxruntime", "onnx"):
        pytest.importorskip(package)
    with pytest.raises(ValueError, match=r"one input, but it has 2: x0 \['n', 2\], x1"):
        from_onnx(graph(inputs=2))
    with pytest.raises(ValueError, match=r"one output, but it has 2: y0"):
        from_onnx(graph(outputs=2))
    with pytest.raises(ValueError, match=r"any number of rows, but `x0` has fixed shape \[1, 2\]"):
        from_onnx(graph(rows=1))
    with pytest.raises(TypeError, match=r"floating-point numbers, but `x0` is a tensor\(int64\)"):
        from_onnx(graph(kind="INT64"))
    with pytest.raises(ValueError, match="This cannot be read as ONNX: DecodeError"):
        from_onnx(b"not a graph")
    with pytest.raises(ValueError, match=r"There is no file nowhere\.onnx"):
        from_onnx("nowhere.onnx")


def in_two_files(folder: Path, **entries: str | None) -> Path:
    """A graph x + [1, 2] whose weights are in `w.bin`; `entries` change their location."""
    from onnx import TensorProto, helper, numpy_helper

    folder.mkdir(exist_ok=True)
    ends = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["n", 2]) for name in "xy"]
    weights = numpy_helper.from_array(np.array([1.0, 2.0]), "w")
    (folder / "w.bin").write_bytes(bytes(8) + weights.raw_data)
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    for key, value in ({"location": "w.bin", "offset": "8", "length": "16"} | entries).items():
        if value is not None:
            weights.external_data.add(key=key, value=value)
    add = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "add", ends[:1], ends[1:], [weights]
    )
    model = helper.make_model(add, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


@quiet
@pytest.mark.parametrize("length", ["16", None])
def test_onnx_takes_weights_from_files_in_the_folder_of_the_model(length: str | None, tmp_path: Path) -> None:
    for package in ("onnxruntime", "onnx"):
        pytest.importorskip(package)
    path, x = in_two_files(tmp_path, length=length), np.zeros((3, 2))
    assert np.array_equal(from_onnx(path)(x).mean, np.tile([1.0, 2.0], (3, 1)))
    whole = whole_graph(path)
    (tmp_path / "w.bin").unlink()
    assert np.array_equal(from_onnx(whole)(x).mean, np.tile([1.0, 2.0], (3, 1)))
    with pytest.raises(ValueError, match="keeps weights in another file, which cannot be found from bytes"):
        from_onnx(path.read_bytes())


ELSEWHERE: dict[str, tuple[dict[str, str | None], str]] = {
    "a folder above": ({"location": "../w.bin"}, "should be a file in the same folder"),
    "a folder below": ({"location": "deep/w.bin"}, "should be a file in the same folder"),
    "an absolute path": ({"location": "/etc/hostname"}, "should be a file in the same folder"),
    "nowhere": ({"location": None}, "should be a file in the same folder"),
    "memory": ({"location": "*/_ORT_MEM_ADDR_/*"}, "should be a file in the same folder"),
    "a link": ({"location": "link"}, "is not a regular file"),
    "a pipe": ({"location": "pipe"}, "is not a regular file"),
    "a hole": ({"location": "hole"}, "the limit is 2147483648"),
    "a file that is gone": ({"location": "gone"}, "cannot be read: No such file"),
    "more than there is": ({"length": "17"}, "too short"),
    "beyond the end": ({"offset": "1" + 18 * "0", "length": None}, "too short"),
    "before the start": ({"offset": "-8"}, "an offset that is not a number"),
}


@quiet
@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes and symbolic links")
@pytest.mark.parametrize("name", ELSEWHERE)
def test_onnx_refuses_weights_from_elsewhere(name: str, tmp_path: Path) -> None:
    for package in ("onnxruntime", "onnx"):
        pytest.importorskip(package)
    entries, said = ELSEWHERE[name]
    path = in_two_files(tmp_path / "model", **entries)
    shutil.copytree(path.parent, path.parent / "deep")
    shutil.copy(path.parent / "w.bin", tmp_path)
    (path.parent / "link").symlink_to(path.parent / "w.bin")
    os.mkfifo(path.parent / "pipe")
    (path.parent / "hole").touch()
    os.truncate(path.parent / "hole", 2**40)
    with pytest.raises(ValueError, match=said):
        from_onnx(path)


@quiet
def test_onnx_finds_weights_in_every_part_of_a_graph(tmp_path: Path) -> None:
    """External weights in the branch of a node, which are not among the initializers."""
    onnx = pytest.importorskip("onnx")
    model = onnx.load(in_two_files(tmp_path), load_external_data=False)
    outer = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("If", ["c"], ["y"], then_branch=model.graph)], "o", [], []
        )
    )
    with pytest.raises(ValueError, match="keeps weights in another file"):
        whole_graph(outer.SerializeToString())


@quiet
def test_onnx_weights_that_are_named_often_count_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnx")
    path = in_two_files(tmp_path)
    monkeypatch.setattr("guardband.adapters.onnx.MODEL", path.stat().st_size + 15)
    with pytest.raises(ValueError, match=r"at most .* bytes, together with its weights"):
        from_onnx(path)


@quiet
@pytest.mark.skipif(sys.platform == "win32", reason="holes are those of POSIX")
def test_onnx_weights_that_are_holes_count_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Holes are read as zeros, so memory is bounded by the bytes on the disk."""
    pytest.importorskip("onnx")
    path = in_two_files(tmp_path, offset="0", length=str(2**20))
    (tmp_path / "w.bin").write_bytes(b"")
    os.truncate(tmp_path / "w.bin", 2**20)
    monkeypatch.setattr("guardband.adapters.onnx.ROOM", 2**20 - 1)
    with pytest.raises(ValueError, match="mostly holes, or is referenced too often"):
        whole_graph(path)


@quiet
def test_onnx_reads_no_more_of_weights_than_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit applies to the part that a tensor refers to, not to the whole file."""
    pytest.importorskip("onnx")
    path = in_two_files(tmp_path)
    with (tmp_path / "w.bin").open("ab") as file:
        file.write(bytes(2**25))
    tracemalloc.start()
    assert len(whole_graph(path)) < 1000
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


@quiet
def test_jax() -> None:
    pytest.importorskip("jax")
    engine = example("jax")
    function = engine.trained()
    check(from_jax(function), engine, error=0.02, seed=15)
    refuses_its_training_points(from_jax(function, training_data=engine.measured(50, seed=3)))
    with pytest.raises(TypeError, match=r"should be callable, got dict.*apply"):
        from_jax({})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="returned a tuple"):
        from_jax(lambda x: (x, x))(np.zeros((2, 1)))


@pytest.mark.parametrize("name", ["deepxde", "pina", "onnx", "jax"])
def test_a_missing_package_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "pina":
        pytest.importorskip("torch")
    package = {"onnx": "onnxruntime", "jax": "jax.numpy"}.get(name, name)
    install = {"onnx": r'"guardband\[onnx\]"', "pina": "pina-mathlab"}.get(name, name)
    monkeypatch.setitem(sys.modules, package, None)
    adapter = {"deepxde": from_deepxde, "pina": from_pina, "onnx": from_onnx, "jax": from_jax}[name]
    with pytest.raises(ImportError, match=rf"^This needs {name}.*: pip install {install}$"):
        adapter(b"")
