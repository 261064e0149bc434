"""The store: a loaded calibration gives bitwise the same bands; a changed folder is refused."""

import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from equations import Heat
from guardband import store
from guardband.base import limits
from guardband.store import ArtifactError, versions
from guardband.store.folder import Saved
from wings import Absent, pinn, torch

QUICK = pinn.Recipe(steps=20, finish=0, n_interior=32, n_boundary=8)
PROBLEM = pinn.problems.Poisson1D()


def observed(n: int, seed: int) -> gb.Observations:
    """Readings of the problem as tensors, or as arrays if torch is not installed."""
    if not isinstance(torch, Absent):
        return PROBLEM.observe(n, noise=0.1, seed=seed)
    draw = np.random.default_rng(seed)
    x = draw.uniform(-1, 1, size=(n, 1)).astype("float32")
    return gb.Observations(x, sine(x) + 0.1 * draw.normal(size=(n, 1)))


def sine(x: Any) -> Any:
    return np.sin(np.pi * np.asarray(x, dtype=float))


TRAIN, CAL = observed(40, seed=0), observed(60, seed=1)
QUERY = np.asarray(observed(25, seed=2).x, dtype=float)
GROUPS = np.repeat(["left", "right"], 30)
SENSORS = np.repeat(np.arange(20), 3)


@cache
def fitted(seed: int = 0, dropout: float = 0.0) -> pinn.Fitted:
    net = pinn.mlp(1, [8, 8], seed=seed, dropout=dropout)
    return pinn.fit(PROBLEM, net, TRAIN, recipe=QUICK, seed=seed, progress=False)


def between() -> torch.nn.Module:
    """A user's network with dropout before an activation."""
    first, last = pinn.mlp(1, [8], outputs=8, seed=1), pinn.mlp(8, [], seed=2)
    return torch.nn.Sequential(first, torch.nn.Dropout(0.2), torch.nn.Tanh(), last)


def spread(x: Any) -> Any:
    return 0.1 + np.asarray(x, dtype=float) ** 2


PREDICTORS: dict[str, Callable[[], Any]] = {
    "constant": lambda: gb.predictors.MeanOnly(fitted()),
    "own function": lambda: gb.predictors.MeanOnly(sine),
    "given": lambda: gb.predictors.Given(sine, spread, training_data=TRAIN),
    "distance": lambda: gb.predictors.Distance(fitted(), n_neighbors=5),
    "latent distance": lambda: pinn.predictors.LatentDistance(fitted(), n_neighbors=5, search="latent"),
    "dropout": lambda: pinn.predictors.Dropout(fitted(dropout=0.2), draws=10),
    "dropout in between": lambda: pinn.predictors.Dropout(between(), draws=10),
    "ensemble": lambda: gb.predictors.Ensemble([fitted(0), fitted(1)]),
    "Laplace": lambda: pinn.predictors.Laplace(fitted()),
    "last-layer Laplace": lambda: pinn.predictors.LastLayerLaplace(fitted()),
    "VI": lambda: pinn.predictors.MeanFieldVI(fitted(), steps=5, draws=5, progress=False),
    "HMC": lambda: pinn.predictors.HMC(
        fitted(), draws=8, warmup=4, n_interior=16, n_boundary=8, progress=False
    ),
}
CALIBRATORS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "split": lambda: (gb.Split(), {"confidence": 0.9}),
    "grouped": lambda: (gb.Grouped(), {"groups": GROUPS}),
    "clustered": lambda: (gb.Clustered(), {"groups": SENSORS}),
    "local": lambda: (gb.Local(TRAIN, gb.conformal.LogScale(draws=5)), {}),
    "pinball": lambda: (gb.Local(TRAIN, pinn.PinballNetwork(steps=40, per_level=True)), {}),
    "localized": lambda: (gb.conformal.RandomlyLocalized(inputs=TRAIN.x), {}),
    "weighted": lambda: (gb.Weighted(gb.conformal.density_ratio(TRAIN.x, QUERY)), {"score": gb.Absolute()}),
    "kernel": lambda: (gb.Weighted(gb.conformal.density_ratio(TRAIN.x, QUERY, method="kernel")), {}),
}
YOURS: dict[str, dict[str, Any]] = {
    "own function": {"model": sine},
    "dropout in between": {"net": between()},
    "given": {"mean": sine, "scale": spread},
}


@cache
def predictor(name: str) -> Any:
    return PREDICTORS[name]()


def calibrated(name: str, how: str) -> gb.Calibrated:
    calibrator, options = CALIBRATORS[how]()
    x, y = np.asarray(CAL.x, dtype=float), np.asarray(CAL.y, dtype=float)
    return gb.calibrate(predictor(name), x, y, calibrator=calibrator, **options)


def ends(made: gb.Calibrated, how: str) -> np.ndarray:
    groups = np.repeat("left", len(QUERY)) if how == "grouped" else None
    bands = [made(QUERY, level, groups=groups) for level in ("0.5", "0.8")]
    return np.stack([part for band in bands for part in (band.mean, band.lower, band.upper)])


READER = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[2])
import torch
torch.set_num_threads(1)
import warnings
import guardband as gb
from guardband import pinn
from pathlib import Path
from test_store import YOURS, ends

warnings.simplefilter("ignore")
found = {}
for folder in Path(sys.argv[1]).iterdir():
    name, how = folder.name.split("+")
    found[folder.name] = ends(gb.load(folder, **YOURS.get(name, {})), how)
np.savez(Path(sys.argv[1]) / "bands.npz", **found)
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::guardband.conformal.InfiniteBandWarning")
def test_a_new_process_gives_the_same_bands_bit_for_bit(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    expected = {}
    for name in PREDICTORS:
        for how in CALIBRATORS:
            made = calibrated(name, how)
            gb.save(made, tmp_path / f"{name}+{how}")
            expected[f"{name}+{how}"] = ends(made, how)
            here = gb.load(tmp_path / f"{name}+{how}", **YOURS.get(name, {}))
            assert np.array_equal(ends(here, how), expected[f"{name}+{how}"])
    torch.set_num_threads(threads)
    here = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", READER, str(tmp_path), here], check=True)
    with np.load(tmp_path / "bands.npz") as found:
        for name, bands in expected.items():
            assert np.array_equal(found[name], bands), name


def test_arrays_alone_and_whole_fields(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    mean, y = np.zeros((30, 7, 2)), generator.normal(size=(30, 7, 2))
    score = gb.Simultaneous.fitted(generator.normal(size=(10, 7, 2)))
    made = gb.calibrate_arrays(mean, y, score=score)
    again = gb.load(gb.save(made, tmp_path, overwrite=True))
    at = gb.Prediction(None, mean[:3])
    assert np.array_equal(made.band(at, 0.9).upper, again.band(at, 0.9).upper)
    total = gb.calibrate_arrays(mean[:, 0], y[:, 0], abs(y[:, 1]), score=gb.conformal.Total(noise=0.1))
    assert gb.load(gb.save(total, tmp_path, overwrite=True)).score == gb.conformal.Total(noise=0.1)  # type: ignore[attr-defined]
    alone = gb.calibrate_arrays(mean[:, 0], y[:, 0], score=gb.Absolute(units=[1, 2], joint=False))
    again = gb.load(gb.save(alone, tmp_path, overwrite=True))
    at = gb.Prediction(None, mean[:3, 0])
    assert again.joint is False and np.array_equal(alone.band(at, 0.9).upper, again.band(at, 0.9).upper)


def test_tensors_stay_tensors(tmp_path: Path) -> None:
    made = gb.calibrate(predictor("constant"), CAL.x, CAL.y)
    again = gb.load(gb.save(made, tmp_path, overwrite=True))
    assert isinstance(again.y, torch.Tensor) and again.y.dtype == torch.float32
    assert torch.equal(again(CAL.x[:5] + 0.01).upper, made(CAL.x[:5] + 0.01).upper)
    assert isinstance(again.predictor.training_data, gb.Observations)  # type: ignore[attr-defined]


def test_the_manifest_can_be_read_by_a_person(tmp_path: Path) -> None:
    gb.save(calibrated("distance", "split"), tmp_path, overwrite=True)
    found = store.manifest(tmp_path)
    assert found["calibration_points"] == 60 and found["training_rows"]["rows"] == 40
    assert "exchangeable" in found["promise"] and found["versions"]["torch"] == torch.__version__
    assert "value" not in found and found["passed_at_load"] == found["optional_at_load"] == []


def test_own_parts_are_asked_for_and_checked(tmp_path: Path) -> None:
    gb.save(calibrated("given", "split"), tmp_path, overwrite=True)
    with pytest.raises(
        ArtifactError, match=r"without mean and scale. Load it with gb.load\(folder, mean=..., scale=...\)"
    ):
        gb.load(tmp_path)
    with pytest.raises(ArtifactError, match="The `scale` passed is not the one that was saved"):
        gb.load(tmp_path, mean=sine, scale=sine)
    with pytest.raises(ArtifactError, match="does not need model"):
        gb.load(tmp_path, mean=sine, scale=spread, model=sine)
    own = gb.calibrate(
        gb.predictors.MeanOnly(sine), QUERY, sine(QUERY), calibrator=gb.Weighted(lambda x: 1 + x[:, 0])
    )
    gb.save(own, tmp_path, overwrite=True)
    assert len(list(tmp_path.iterdir())) == 2  # the old arrays are removed
    with pytest.raises(ArtifactError, match="The `ratio` passed is not the one"):
        gb.load(tmp_path, model=sine, ratio=lambda x: 2 - x[:, 0])
    assert gb.load(tmp_path, model=sine, ratio=lambda x: 1 + x[:, 0])


def test_a_network_of_ones_own_is_one_part_even_if_it_is_used_twice(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    made = gb.calibrate(pinn.predictors.LatentDistance(net, TRAIN.x, n_neighbors=3), CAL.x, CAL.y)
    gb.save(made, tmp_path, overwrite=True)
    assert store.manifest(tmp_path)["passed_at_load"] == ["model"]
    assert torch.equal(gb.load(tmp_path, model=net)(CAL.x).upper, made(CAL.x).upper)
    strange = pinn.mlp(1, [4], activation=lambda z: z)
    gb.save(gb.calibrate(gb.predictors.MeanOnly(strange), CAL.x, CAL.y), tmp_path, overwrite=True)
    assert store.manifest(tmp_path)["passed_at_load"] == ["model"]


def test_a_network_with_hard_constraints_is_saved_and_asks_for_its_problem_alone(tmp_path: Path) -> None:
    problem = Heat()
    recipe = pinn.Recipe(steps=4, finish=0, n_interior=16, n_boundary=4)
    net = pinn.Constrained.of(problem, pinn.mlp(problem, [6, 6]))
    fitted = pinn.fit(problem, net, problem.observe(30, seed=0), recipe=recipe, progress=False)
    seen = problem.observe(40, noise=0.1, seed=1)
    for made in (fitted, pinn.predictors.LastLayerLaplace(fitted)):
        calibrated = gb.calibrate(made, seen.x, seen.y)
        folder = gb.save(calibrated, tmp_path / type(made).__name__)
        with pytest.raises(ArtifactError, match=r"Load it with gb.load\(folder, problem=...\)"):
            gb.load(folder)
        with pytest.raises(ArtifactError, match="not the one that was saved"):
            gb.load(folder, problem=Beside())
        again = gb.load(folder, problem=Heat())
        assert np.array_equal(again(seen.x).upper, calibrated(seen.x).upper)


class Beside(Heat):
    """The same equation with another initial value."""

    def conditions(self) -> list[Any]:
        return [pinn.Dirichlet(0.0), pinn.Initial(2.0)]


def test_hard_constraints_of_known_problems_and_of_ones_own_functions(tmp_path: Path) -> None:
    problem, x = pinn.problems.Poisson1D(), np.linspace(0, 1, 30)
    lift, bubble = torch.zeros_like, lambda x: x * (1 - x)
    of_a_problem = (
        pinn.Constrained.of(problem, pinn.mlp(1, [5])),
        pinn.Constrained(pinn.mlp(1, [5]), problem.lift, problem.bubble),
    )
    for number, net in enumerate((*of_a_problem, pinn.Constrained(pinn.mlp(1, [5]), lift, bubble))):
        calibrated = gb.calibrate(net, x, np.sin(x))
        folder = gb.save(calibrated, tmp_path / str(number))
        again = gb.load(folder, **({"lift": lift, "bubble": bubble} if number == 2 else {}))
        assert np.array_equal(again(x).upper, calibrated(x).upper)
    with pytest.raises(ArtifactError, match=r"gb.load\(folder, bubble=..., lift=...\)"):
        gb.load(tmp_path / "2")


def test_a_guard_that_was_there_is_still_said_to_be_there(tmp_path: Path) -> None:
    local = gb.Local(TRAIN, gb.conformal.LogScale(draws=5), refit=lambda train: predictor("constant"))
    again = gb.load(
        gb.save(gb.calibrate(predictor("constant"), CAL.x, CAL.y, calibrator=local), tmp_path, overwrite=True)
    )
    assert again.guarded and again.calibrator.refit is None  # type: ignore[attr-defined]
    found = store.manifest(tmp_path)
    assert found["passed_at_load"] == found["optional_at_load"] == ["refit"]


def test_errors_teach(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"the result of `gb.calibrate` or `pinn.fit`, got int"):
        gb.save(3, tmp_path, overwrite=True)  # type: ignore[arg-type]
    with pytest.raises(ArtifactError, match="cannot be read: No such file"):
        gb.load(tmp_path / "nowhere")
    gb.save(calibrated("distance", "split"), tmp_path, overwrite=True)
    change(tmp_path, lambda m: m.update(format=3), honest=True)
    with pytest.raises(ArtifactError, match=r"format 3 by a newer guardband; this .* reads up to format 2"):
        gb.load(tmp_path)


def change(folder: Path, edit: Callable[[dict[str, Any]], Any], honest: bool = False) -> None:
    """Edit the manifest and, as an attacker would, update its hash."""
    path = folder / store.MANIFEST
    manifest = json.loads(path.read_text())
    manifest.pop("sha256")
    before = versions.digest(manifest)
    edit(manifest)
    manifest["sha256"] = versions.digest(manifest) if honest else before
    path.write_text(json.dumps(manifest))


def parts(manifest: dict[str, Any]) -> dict[str, Any]:
    """The fields of the stored calibration: predictor, score, ..."""
    return manifest["value"]["calibrated"]["fields"]


HOSTILE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another folder": lambda m: m.update(files={"../x": next(iter(m["files"].values()))}),
    "no files": lambda m: m.update(files={}),
    "files that are no files": lambda m: m.update(files={next(iter(m["files"])): 1}),
    "an unknown kind": lambda m: parts(m).update(predictor={"kind": "os.system", "fields": {}}),
    "a dunder": lambda m: parts(m).update(predictor={"kind": "MeanOnly", "fields": {"__class__": 1}}),
    "a dunder deep inside": lambda m: parts(m)["predictor"]["fields"].update(__call__=1),
    "a property": lambda m: parts(m)["learned"]["fields"].update(promise="everything is covered"),
    "fewer fields": lambda m: parts(m)["predictor"]["fields"].pop("model"),
    "fewer parts": lambda m: parts(m).pop("learned"),
    "more parts": lambda m: parts(m).update(odd=1),
    "a number for a network": lambda m: parts(m)["predictor"]["fields"].update(model=3),
    "an array that is not there": lambda m: parts(m).update(y={"array": "zz"}),
    "depth": lambda m: parts(m).update(y=nested(400)),
    "another score": lambda m: parts(m).update(score={"kind": "Split", "fields": {}}),
    "wider units": lambda m: parts(m)["score"]["fields"].update(units=2.0),
    "another calibrator": lambda m: parts(m).update(learned={"kind": "Scaled", "fields": {}}),
    "another calibration": lambda m: m["value"].update(calibrated={"kind": "Split", "fields": {}}),
    "a calibration of yours": lambda m: m["value"].update(calibrated={"yours": "model"}),
    "huge layers": lambda m: huge(m),
    "a list": lambda m: m.update(value=[1, 2]),
    "nothing": lambda m: m.update(value={}),
    "no calibration": lambda m: m["value"].pop("calibrated"),
    "no fingerprint": lambda m: m["value"].pop("fingerprint"),
    "no probes": lambda m: m["value"].pop("probes"),
    "a fingerprint that is none": lambda m: m["value"].update(fingerprint=3),
    "words": lambda m: parts(m).update(groups={"words": [1]}),
    "a fraction": lambda m: parts(m).update(confidence={"fraction": "1/0"}),
    "another confidence": lambda m: parts(m).update(confidence={"fraction": "9/10"}),
    "no list of parts": lambda m: m.pop("passed_at_load"),
    "no list of optional parts": lambda m: m.pop("optional_at_load"),
    "parts that are no names": lambda m: m.update(passed_at_load=[1]),
    "optional parts that are no names": lambda m: m.update(optional_at_load=[1]),
    "an unknown entry": lambda m: parts(m).update(y={"odd": 1}),
    "weights for a number": lambda m: parts(m).update(y={"kind": "Quantiles", "fields": {"weights": 2}}),
    "part of you": lambda m: parts(m).update(predictor={"yours": "eval"}),
    "optional, though needed": lambda m: (
        parts(m)["predictor"]["fields"].update(model={"yours": "model"}),
        m.update(passed_at_load=["model"], optional_at_load=["model"]),
    ),
    "names of columns": lambda m: parts(m).update(columns={"kind": "Columns", "fields": {"names": 3}}),
    "an older format": lambda m: m.update(format=1),
    "a format that is none": lambda m: m.update(format="2"),
}


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1


def huge(manifest: dict[str, Any]) -> None:
    net = parts(manifest)["predictor"]["fields"]["model"]["fields"]["net"]
    net["fields"]["sizes"] = [1, 99_999, 99_999, 1]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_manifests_end_in_one_error(name: str, tmp_path: Path) -> None:
    for honest in (False, True):
        gb.save(gb.calibrate(predictor("constant"), CAL.x, CAL.y), tmp_path, overwrite=True)
        change(tmp_path, HOSTILE[name], honest)
        with pytest.raises(ArtifactError):
            gb.load(tmp_path)


def test_a_threshold_in_a_file_is_not_believed(tmp_path: Path) -> None:
    made = gb.calibrate(predictor("constant"), CAL.x, CAL.y)
    gb.save(made, tmp_path, overwrite=True)
    change(tmp_path, lambda m: parts(m).update(threshold=0.0), honest=True)
    assert torch.equal(gb.load(tmp_path)(CAL.x).upper, made(CAL.x).upper)


def test_a_kind_that_is_not_defined_here_says_what_to_do(tmp_path: Path) -> None:
    gb.save(gb.calibrate(predictor("constant"), CAL.x, CAL.y), tmp_path, overwrite=True)
    change(tmp_path, lambda m: parts(m).update(score={"kind": "MyScore", "fields": {}}), honest=True)
    with pytest.raises(ArtifactError, match=r"'MyScore' is a kind .* import its module before loading"):
        gb.load(tmp_path)


def test_what_json_cannot_say_is_said_otherwise() -> None:
    from guardband.store.codec import Decoder, Encoder

    encoder = Encoder()
    for value in (float("inf"), np.float32(2.5), (1, "a"), {"k": [None, True]}):
        assert Decoder(encoder.arrays, {}).decode(encoder.encode(value, "v")) == value
    assert np.isnan(Decoder({}, {}).decode({"float": "nan"}))
    problem = pinn.problems.AllenCahn2D(diffusion=0.3)
    assert Decoder({}, {}).decode(encoder.encode(problem, "problem")) == problem
    nothing = Decoder({}, {}).decode(encoder.encode(np.array([], dtype="U3"), "groups"))
    assert nothing.shape == (0,) and nothing.dtype.kind == "U"


def test_large_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gb.save(calibrated("distance", "split"), tmp_path, overwrite=True)
    monkeypatch.setattr(limits, "MANIFEST", 100)
    with pytest.raises(ArtifactError, match="the limit is 100"):
        gb.load(tmp_path)


def test_a_file_that_is_missing_is_named_and_one_that_vanished_is_looked_for_again(
    tmp_path: Path, monkeypatch: Any
) -> None:
    first, second = (gb.calibrate_arrays(np.zeros(n), np.arange(float(n))) for n in (20, 30))
    gb.save(first, tmp_path)
    read = versions._file

    def late(path: Path, about: Any) -> bytes:
        monkeypatch.setattr(versions, "_file", read)
        gb.save(second, tmp_path, overwrite=True)  # between the manifest and its arrays
        return read(path, about)

    monkeypatch.setattr(versions, "_file", late)
    assert gb.load(tmp_path).n == 30
    next(tmp_path.glob("arrays-*")).unlink()
    with pytest.raises(ArtifactError, match=r"arrays-\w+.safetensors is missing"):
        gb.load(tmp_path)


def mutate(folder: Path, generator: random.Random, repaired: bool) -> None:
    """Flip, cut or insert bytes of one of the files; with `repaired`, update the hashes."""
    manifest, arrays = folder / store.MANIFEST, next(folder.glob("arrays-*"))
    path = generator.choice([manifest, arrays])
    data = bytearray(path.read_bytes())
    at = generator.randrange(len(data))
    match generator.randrange(4):
        case 0:
            data[at] ^= 1 << generator.randrange(8)
        case 1:
            del data[at:]
        case 2:
            data[at:at] = generator.randbytes(generator.randrange(1, 9))
        case 3:
            other = generator.randrange(len(data))
            data[at], data[other] = data[other], data[at]
    path.write_bytes(bytes(data))
    if repaired:
        try:
            made = json.loads(manifest.read_text())
            made.pop("sha256", None)
            digest = hashlib.sha256(arrays.read_bytes()).hexdigest()
            size = len(arrays.read_bytes())
            made["files"] = {f"arrays-{digest[:16]}.safetensors": {"sha256": digest, "bytes": size}}
            arrays.rename(folder / f"arrays-{digest[:16]}.safetensors")
            manifest.write_text(json.dumps(made | {"sha256": versions.digest(made)}))
        except (ValueError, AttributeError, TypeError):
            return


def survive(folder: Path, cases: int, repaired: bool) -> None:
    """Each mutation gives identical bands or an `ArtifactError`; with updated hashes, it does not crash."""
    made = gb.calibrate(predictor("last-layer Laplace"), CAL.x.numpy(), CAL.y.numpy())
    gb.save(made, folder, overwrite=True)
    original = {path.name: path.read_bytes() for path in folder.iterdir()}
    expected, generator = made(QUERY, 0.9).upper, random.Random(0)
    refused = 0
    for _ in range(cases):
        for path in folder.iterdir():
            path.unlink()
        for name, data in original.items():
            (folder / name).write_bytes(data)
        mutate(folder, generator, repaired)
        try:
            again = gb.load(folder)
        except ArtifactError:
            refused += 1
            continue
        if not repaired:
            assert np.array_equal(again(QUERY, 0.9).upper, expected)
    assert refused > cases / 2 if not repaired else refused > 0


@pytest.mark.parametrize("repaired", [False, True])
def test_mutated_artifacts_never_lie_and_never_crash(tmp_path: Path, repaired: bool) -> None:
    survive(tmp_path, 150, repaired)


@pytest.mark.long
def test_many_mutated_artifacts_never_lie_and_never_crash(tmp_path: Path) -> None:
    survive(tmp_path, 90_000, repaired=False)
    survive(tmp_path, 10_000, repaired=True)


SAVER = """
import sys
import guardband as gb
from guardband import pinn
import numpy as np
made = [gb.calibrate_arrays(np.zeros(50), np.arange(50.0) + k, x_cal=np.arange(50.0)) for k in range(2)]
gb.save(made[0], sys.argv[1], overwrite=True)  # what saving needs is imported now
print("ready", flush=True)
while True:
    for one in made:
        gb.save(one, sys.argv[1], overwrite=True)
"""


def kill_while_saving(folder: Path, kills: int) -> None:
    generator = random.Random(0)
    for _ in range(kills):
        saver = subprocess.Popen([sys.executable, "-c", SAVER, str(folder)], stdout=subprocess.PIPE)
        assert saver.stdout is not None
        saver.stdout.readline()
        time.sleep(generator.uniform(0.01, 0.1))
        saver.send_signal(signal.SIGKILL)
        saver.wait()
        saver.stdout.close()
        first = float(np.min(gb.load(folder).y))  # type: ignore[arg-type]
        assert first in (0.0, 1.0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_a_killed_save_leaves_the_old_or_the_new_one(tmp_path: Path) -> None:
    kill_while_saving(tmp_path, 2)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.long
def test_a_hundred_killed_saves_leave_the_old_or_the_new_one(tmp_path: Path) -> None:
    kill_while_saving(tmp_path, 100)


OLD = Path(__file__).parent / "data/saved_by_0.1.0"


def test_what_0_1_0_saved_still_loads() -> None:
    x, *expected = np.loadtxt(OLD.with_name("saved_by_0.1.0.csv"), delimiter=",").T
    loaded = gb.load(OLD)
    band = loaded(x, 0.9)
    for found, saved in zip((band.mean, band.lower, band.upper), expected, strict=True):
        assert np.allclose(found[:, 0], saved, rtol=1e-5, atol=1e-6)
    assert len(loaded.used["training"]) == loaded.n == 40 and loaded.guarded is False
    assert store.manifest(OLD)["passed_at_load"] == []


HOSTILE_OLD: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no list of parts": lambda m: m.pop("handed_in_at_load"),
    "parts that are no names": lambda m: m.update(handed_in_at_load=[1]),
    "parts that are no list": lambda m: m.update(handed_in_at_load=1),
    "nothing": lambda m: m.update(value={}),
    "a list": lambda m: m.update(value=[]),
    "a predictor less": lambda m: m["value"].pop("predictor"),
    "no shape": lambda m: m["value"]["calibrator"]["fields"].pop("shape"),
    "fields that are none": lambda m: m["value"]["calibrator"].update(fields=3),
    "an unknown kind": lambda m: m["value"].update(score={"kind": "os.system", "fields": {}}),
    "a dunder": lambda m: m["value"]["score"]["fields"].update(__class__=1),
    "depth": lambda m: m["value"].update(y=nested(400)),
    "another mean": lambda m: m["value"]["prediction"]["fields"].update(mean=m["value"]["y"]),
    "today's names": lambda m: m.update(passed_at_load=[], optional_at_load=[], format=2),
}


@pytest.mark.parametrize("name", HOSTILE_OLD)
def test_hostile_manifests_of_format_1_end_in_one_error(name: str, tmp_path: Path) -> None:
    for honest in (False, True):
        shutil.copytree(OLD, tmp_path, dirs_exist_ok=True)
        change(tmp_path, HOSTILE_OLD[name], honest)
        with pytest.raises(ArtifactError):
            gb.load(tmp_path)


def test_a_model_passed_to_a_folder_of_format_1_is_checked(tmp_path: Path) -> None:
    """In format 1, a prediction function replaced the whole predictor."""

    def hole(manifest: dict[str, Any]) -> None:
        manifest["value"]["predictor"] = {"yours": "predictor"}
        manifest["handed_in_at_load"] = ["predictor"]

    right = gb.load(OLD).predict
    shutil.copytree(OLD, tmp_path, dirs_exist_ok=True)
    change(tmp_path, hole, honest=True)
    assert np.array_equal(gb.load(tmp_path, predictor=right)(QUERY).upper, gb.load(OLD)(QUERY).upper)
    with pytest.raises(ArtifactError, match="The predictor is not the one that was saved: its mean differs"):
        gb.load(tmp_path, predictor=lambda x: gb.Prediction(x, 0 * x, 1 + 0 * x))


def test_what_went_through_an_adapter_goes_through_it_again(tmp_path: Path) -> None:
    operator, rng = torch.nn.Conv2d(1, 1, 3, padding=1), np.random.default_rng(0)
    fields = rng.normal(size=(30, 1, 6, 6))
    known = gb.adapters.from_neuralop(operator)
    calibrated = gb.calibrate(known, fields, known(fields).mean + rng.normal(size=(30, 36, 1)))
    folder = gb.save(calibrated, tmp_path / "band")
    again = gb.load(folder, model=gb.adapters.from_neuralop(operator))
    assert np.array_equal(again(fields[:2], level=0.9).upper, calibrated(fields[:2], level=0.9).upper)
    with pytest.raises(gb.store.ArtifactError, match="with the same weights and adapter"):
        gb.load(folder, model=operator)
    with pytest.raises(ValueError, match=r"should be \(N, 1 channels, \*grid\), got shape \(30, 6, 6, 1\)"):
        known(np.moveaxis(fields, 1, -1))
    seen = gb.Observations(fields.reshape(30, -1), rng.normal(size=(30, 36)))
    with pytest.warns(UserWarning, match="training rows have x of shape"):
        gb.calibrate(gb.adapters.from_neuralop(operator, training_data=seen), fields, known(fields).mean)


def test_models_of_folds_are_passed_together(tmp_path: Path) -> None:
    def fit(data: gb.Observations) -> Any:
        line = np.polyfit(data.x[:, 0], data.y[:, 0], 1)
        return lambda x: np.polyval(line, x)

    x = np.linspace(0, 1, 40)
    calibrated = gb.calibration.calibrate_cross(fit, (x, x + 0.1 * np.cos(50 * x)), folds=12)
    folder = gb.save(calibrated, tmp_path / "cross")
    with pytest.raises(
        gb.store.ArtifactError, match=r"without its 12 models. Load it with gb.load\(folder, models="
    ):
        gb.load(folder)
    again = gb.load(folder, models=calibrated.models)
    assert np.array_equal(again(x).upper, calibrated(x).upper)


def test_a_problem_with_other_numbers_is_not_the_one_that_was_saved(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Decay(pinn.Problem):
        rate: float = 4.0
        domain = pinn.Time(0, 1)

        def residual(self, x: Any, u: Any) -> Any:
            return u.d("t") + self.rate * u.value

        def conditions(self) -> list[Any]:
            return [pinn.Initial(1.0)]

    fitted = pinn.fit(Decay(), pinn.mlp(Decay(), [4]), recipe=pinn.Recipe(steps=1, finish=0), progress=False)
    folder = gb.save(fitted, tmp_path / "fitted")
    assert gb.load(folder, pinn.Fitted, problem=Decay()).problem == Decay()
    with pytest.raises(
        ArtifactError, match=r"not the one that was saved: expected .*got .*Decay\(rate=40.0\)"
    ):
        gb.load(folder, pinn.Fitted, problem=Decay(rate=40.0))


def test_what_was_not_passed_is_named(tmp_path: Path) -> None:
    wanted = {"passed_at_load": ["model_0", "problem"], "optional_at_load": []}
    with pytest.raises(
        ArtifactError, match=r"saved without model_0 and problem. Load it with gb.load\(.*, model_0=\.\.\."
    ):
        Saved(tmp_path, wanted, {}).restored(pinn.Fitted)
