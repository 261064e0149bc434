"""The command line: from a model and measurements to bands, a report, and clean errors."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import guardband as gb
from guardband import tables
from guardband.base.files import sha256
from guardband.cli import app
from guardband.cli import run as whole_command
from helpers import forget_foreign_kinds, needs
from wings import lab

pytestmark = needs("onnx", "onnxruntime")
EXAMPLE = Path(__file__).parent.parent / "examples" / "bring_your_model"
MODEL, CAL, FRESH, QUERY, TRAIN = (
    str(EXAMPLE / name) for name in ("model.onnx", "calibration.csv", "fresh.csv", "query.csv", "train.csv")
)


def run(*words: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    out = tmp_path / "band"
    run("calibrate", MODEL, "--data", CAL, "--targets", "u", "--training-data", TRAIN, "--out", out)
    return out


def test_from_a_model_and_measurements_to_a_report(folder: Path, tmp_path: Path) -> None:
    assert "all hashes match" in run("verify", folder)
    said = run("verify", folder, "--data", FRESH)
    assert "Consistent with the guarantee" in said and "constant width" in said
    out = tmp_path / "bands.csv"
    assert "2000 rows" in run("predict", folder, "--data", QUERY, "--out", out, "--level", "0.9")
    bands, query = tables.read(out), tables.read(QUERY)
    assert bands.names == ("x", "y", "u_mean", "u_lower", "u_upper") and len(bands) == 2000
    assert np.array_equal(bands.matrix(["x", "y"]), query.matrix(["x", "y"]))
    assert (bands.column("u_lower") < bands.column("u_mean")).all()
    page = tmp_path / "report.html"
    run("report", folder, "--data", FRESH, "--out", page)
    text = page.read_text()
    assert "A new measurement lies in this band with probability at least 95 %" in text
    assert text.count("<img") == 5 and "constant width" in text and "sha256 of model.onnx" in text
    again = "guardband report band --data fresh.csv --level 0.95 --out report.html"
    assert again in text and "gb.load" not in text
    run("report", folder, "--data", QUERY, "--out", page)
    assert "the claim is untested" in page.read_text()
    assert "should end in .html or .md" in run("report", folder, "--data", QUERY, "--out", "page.pdf", code=2)


EXPORT = """
import sys, torch
net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).eval()
shapes = ({0: torch.export.Dim("n")},)
torch.onnx.export(net, (torch.rand(3, 2),), sys.argv[1], dynamic_shapes=shapes)
"""


@pytest.mark.slow
def test_a_network_of_torch_is_reported_with_names_of_columns_in_every_table(tmp_path: Path) -> None:
    """From a graph of `torch.onnx.export` with an external file of weights to a report on two outputs."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", EXPORT, tmp_path / "net.onnx"], check=True)
    assert (tmp_path / "net.onnx.data").exists()
    places, page, _ = named_page(tmp_path, tmp_path / "net.onnx", ["load", "heat"])
    assert "its load alone" in page and "predicted heat" in places


def test_names_of_columns_are_in_every_table_of_a_report(tmp_path: Path) -> None:
    named_page(tmp_path, MODEL, ["load"])


def named_page(tmp_path: Path, model: str | Path, outputs: list[str]) -> tuple[str, str, str]:
    """Return the ranges of a report, the report, and the output of `verify`; noise grows with depth."""
    net, generator = gb.adapters.from_onnx(model).model, np.random.default_rng(8)
    for name in ("calibration", "fresh"):
        x = generator.uniform(size=(400, 2))
        y = net(x)
        y = y + (0.01 + x[:, :1]) * generator.normal(size=y.shape)
        head = ",".join(["depth", "hour", *outputs])
        np.savetxt(tmp_path / f"{name}.csv", np.c_[x, y], header=head, comments="", delimiter=",")
    out, page = tmp_path / "band", tmp_path / "page.md"
    targets = ",".join(outputs)
    run("calibrate", model, "--data", tmp_path / "calibration.csv", "--targets", targets, "--out", out)
    said = run("verify", out, "--data", tmp_path / "fresh.csv")
    run("report", out, "--data", tmp_path / "fresh.csv", "--out", page)
    text = page.read_text()
    places = text[text.index("## Where it covers") :]
    for name in ("depth", "hour", *(f"predicted {output}" for output in outputs)):
        assert f"| {name}, " in places and f"size of misses along {name}" in places
    assert "Coverage is not the same everywhere" in said
    assert not re.search(r"\b[xy][01]\b", re.sub(r"base64,\S+", "", text) + said)
    return places, text, said


def test_a_folder_of_python_is_called_what_it_is(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 30)
    gb.save(gb.calibrate(np.sin, x, np.cos(x)), tmp_path / "band")
    said = " ".join(run("report", tmp_path / "band", "--data", FRESH, code=2).split())
    assert "was written by `gb.save`" in said and "gb.report(gb.load(folder, model=...), x, y" in said


def test_programs_get_json(folder: Path, tmp_path: Path) -> None:
    found = json.loads(run("verify", folder, "--data", FRESH, "--json"))
    assert found["consistent"] and 0.85 < found["coverage"] <= 1
    assert (
        json.loads(run("predict", folder, "--data", QUERY, "--out", tmp_path / "b.npz", "--json"))["rows"]
        == 2000
    )


@pytest.mark.parametrize(
    "options",
    [
        ["--scale", "distance"],
        ["--calibrator", "local"],
        ["--calibrator", "weighted", "--query", QUERY],
        ["--noise", "0.05", "--scale", "distance"],
        ["--confidence", "0.9"],
    ],
    ids=lambda options: " ".join(options[:2]),
)
def test_every_word_makes_a_band(options: list[str], tmp_path: Path) -> None:
    out = tmp_path / "band"
    run("calibrate", MODEL, "--data", CAL, "--targets", "u", "--training-data", TRAIN, "--out", out, *options)
    run("verify", out, "--data", FRESH)


def test_groups_come_from_a_column(tmp_path: Path) -> None:
    for name in ("calibration", "fresh"):
        table = tables.read(EXAMPLE / f"{name}.csv")
        side = np.where(table.column("x") < 0, "left", "right")
        tables.write(tmp_path / f"{name}.csv", table.with_columns(side=side))
    for word, labelled in (("grouped", "side"), ("clustered", "side")):
        out = tmp_path / word
        words = [
            "--targets",
            "u",
            "--inputs",
            "x,y",
            "--calibrator",
            word,
            "--groups",
            labelled,
            "--out",
            out,
        ]
        run("calibrate", MODEL, "--data", tmp_path / "calibration.csv", *words)
        run("verify", out, "--data", tmp_path / "fresh.csv", "--level", "0.5")


@needs("torch")
def test_a_python_object_is_named_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("surrogate.py").write_text(
        "import numpy as np\nimport guardband as gb\n"
        "def wave(x):\n    return np.sin(np.pi * x).prod(axis=1, keepdims=True)\n"
        "own = gb.predictors.Given(wave, lambda x: 1 + x[:, :1] ** 2)\n"
        "class box:\n    inner = 3\n"
    )
    words = ["--data", CAL, "--targets", "u", "--out", "band"]
    run("calibrate", "surrogate:wave", *words)
    assert "pass it again, such as --model net:model" in run("verify", "band", code=2)
    assert "all hashes match" in run("verify", "band", "--model", "surrogate:wave")
    assert "is not the one that was saved" in run("verify", "band", "--model", "numpy:sin", code=2)
    assert "already holds a calibration" in run("calibrate", "surrogate:own", *words, code=2)
    words += ["--overwrite"]
    run("calibrate", "surrogate:own", *words, "--scale", "own")
    assert "saved without" in run("verify", "band", "--model", "surrogate:own", code=2)
    assert "has no 'nothing'" in run("calibrate", "surrogate:nothing", *words, code=2)
    assert "No module named" in run("calibrate", "nowhere:x", *words, code=2)
    for scale, said in (
        ("laplace", "the model should be the result of `pinn.fit`"),
        ("distance", "--training-data FILE"),
        ("wide", "--scale should be one of"),
    ):
        assert said in run("calibrate", "surrogate:wave", *words, "--scale", scale, code=2)


def test_a_function_that_predicts_is_named_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("guesses.py").write_text(
        "import guardband as gb\n"
        "def flat(x):\n    return gb.Prediction(x, 0 * x[:, :1], 1 + x[:, :1] ** 2)\n"
        "def other(x):\n    return gb.Prediction(x, 1 + x[:, :1], 1 + x[:, :1] ** 2)\n"
    )
    run("calibrate", "guesses:flat", "--scale", "own", "--data", CAL, "--targets", "u", "--out", "band")
    assert "pass it again" in run("verify", "band", code=2)
    assert "all hashes match" in run("verify", "band", "--model", "guesses:flat")
    assert "is not the one that was saved" in run("verify", "band", "--model", "guesses:other", code=2)


@pytest.mark.usefixtures("only_our_kinds")
@pytest.mark.parametrize("how", ["file", "module"])
def test_methods_of_your_own_are_imported(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"methods_in_a_{how}"
    Path(f"{name}.py").write_text(
        "from dataclasses import dataclass\nimport guardband as gb\n"
        f"@gb.kept\n@dataclass(frozen=True)\nclass Careful{how}(gb.conformal.Calibrator):\n"
        "    def threshold(self, scores, prediction, *, groups=None, confidence=None):\n"
        "        return gb.Split().threshold(scores, prediction, confidence=confidence)\n"
    )
    asked = ["--import", f"{name}.py" if how == "file" else name]
    words = ["--data", CAL, "--targets", "u", "--out", "band", "--calibrator", f"careful{how}"]
    assert "Mark your own class with @gb.kept" in run("calibrate", MODEL, *words, code=2)
    run("calibrate", MODEL, *words, *asked)
    assert "Consistent" in run("verify", "band", "--data", FRESH, *asked)
    forget_foreign_kinds()  # as in a new process
    assert "pass --import FILE_OR_MODULE" in run("verify", "band", code=2)
    assert "There is no file nowhere.py" in run("verify", "band", "--import", "nowhere.py", code=2)


def test_a_band_that_does_not_hold_is_the_exit_code(folder: Path, tmp_path: Path) -> None:
    table = tables.read(FRESH)
    tables.write(tmp_path / "worse.csv", table.with_columns(u=table.column("u") + 1))
    assert "NOT consistent" in run("verify", folder, "--data", tmp_path / "worse.csv", code=1)


def test_an_input_is_not_overwritten_by_a_result(tmp_path: Path) -> None:
    table = tables.read(CAL)
    columns = {"u_mean": table.column("x"), "y": table.column("y"), "u": table.column("u")}
    tables.write(tmp_path / "named.csv", tables.Table(columns))
    words = ["--data", tmp_path / "named.csv", "--targets", "u", "--out", tmp_path / "named"]
    run("calibrate", MODEL, *words)
    bands = ["--data", tmp_path / "named.csv", "--out", tmp_path / "bands.csv"]
    assert "The input `u_mean` has the name of an output column" in run(
        "predict", tmp_path / "named", *bands, code=2
    )
    assert not (tmp_path / "bands.csv").exists()


@needs("torch")
def test_training_rows_are_refused_whatever_the_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = """
import torch
import guardband as gb

drop = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))

def own(x):
    return gb.Prediction(x, 0 * x[:, :1], 1 + 0 * x[:, :1])
"""
    (tmp_path / "nets_of_mine.py").write_text(source)
    for name, scale in (("drop", "dropout"), ("own", "own")):
        words = [
            "--data",
            CAL,
            "--training-data",
            CAL,
            "--targets",
            "u",
            "--scale",
            scale,
            "--out",
            tmp_path / name,
        ]
        assert "are training points" in run("calibrate", f"nets_of_mine:{name}", *words, code=2)


def test_a_band_about_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("line", None)
    (tmp_path / "line.py").write_text("def model(x):\n    return x[:, :1] + 0.01\n")
    draw = np.random.default_rng(0)
    for name, rows, noise in (("cal", 2000, 0.1), ("free", 300, 0.0), ("noisy", 300, 0.1)):
        x = draw.uniform(size=rows)
        text = "".join(f"{a},{a + noise * e}\n" for a, e in zip(x, draw.normal(size=rows), strict=True))
        (tmp_path / f"{name}.csv").write_text("x,u\n" + text)
    words = ("calibrate", "line:model", "--data", "cal.csv", "--targets", "u", "--out", "band")
    said = run(*words, "--truth", "gaussian:0.1", "--confidence", "0.95")
    assert "noise-free" in said
    verify = ("verify", "band", "--model", "line:model", "--level", "0.9")
    assert "300 of 300 noise-free values covered" in run(*verify, "--data", "free.csv", "--truth")
    assert "promises nothing about measurements" in " ".join(run(*verify, "--data", "noisy.csv").split())
    report = ("report", "band", "--model", "line:model", "--out", "page.md", "--data")
    run(*report, "free.csv", "--truth")
    assert "300 of 300 noise-free values covered" in (tmp_path / "page.md").read_text()
    assert "noisy rows cannot test it" in " ".join(run(*report, "noisy.csv", code=2).split())
    for wrong in ("gaussian", "gaussian:abc", "cauchy:1"):
        said = run(*words, "--overwrite", "--truth", wrong, "--confidence", "0.95", code=2)
        assert "such as gaussian:0.05, got" in " ".join(said.split())
    said = run(*words, "--overwrite", "--truth", "uniform:0.1", "--calibrator", "grouped", code=2)
    assert "leave out --calibrator grouped" in " ".join(said.split())
    run(*words, "--overwrite")
    assert "covers new measurements" in " ".join(run(*report, "free.csv", "--truth", code=2).split())


def test_without_a_law_nothing_is_called_consistent(tmp_path: Path) -> None:
    words = ["--calibrator", "weighted", "--query", QUERY, "--data", CAL, "--targets", "u"]
    run("calibrate", MODEL, *words, "--out", tmp_path / "w")
    table = tables.read(FRESH)
    far = table.with_columns(u=table.column("u") + 100)
    tables.write(tmp_path / "far.csv", far)
    found = json.loads(run("verify", tmp_path / "w", "--data", tmp_path / "far.csv", "--json"))
    assert found["consistent"] is None and found["coverage"] == 0
    tables.write(tmp_path / "zero.csv", table.with_columns(u=0 * table.column("u")))
    said = run("verify", tmp_path / "w", "--data", tmp_path / "zero.csv", "--json")
    assert "NaN" not in said and json.loads(said)["relative_l2"] is None


def test_a_sensor_has_one_name_in_all_files(tmp_path: Path) -> None:
    table = tables.read(CAL)
    names = np.array(["1", "2", "B"] * len(table))[: len(table)]
    tables.write(tmp_path / "cal.csv", table.with_columns(sensor=names))
    words = ["--targets", "u", "--groups", "sensor", "--calibrator", "grouped", "--out", tmp_path / "g"]
    run("calibrate", MODEL, "--data", tmp_path / "cal.csv", *words)
    query = tables.read(QUERY)
    tables.write(tmp_path / "q.csv", query.with_columns(sensor=np.arange(len(query)) % 2 + 1.0))
    words = ["--data", tmp_path / "q.csv", "--out", tmp_path / "bands.csv", "--level", "0.5"]
    assert "rows written" in run("predict", tmp_path / "g", *words)


def test_errors_teach(folder: Path, tmp_path: Path) -> None:
    base = ["--data", CAL, "--out", tmp_path / "x"]
    assert "no file nowhere.onnx" in run("calibrate", "nowhere.onnx", *base, "--targets", "u", code=2)
    assert "or module:object, got 'x'" in run("calibrate", "x", *base, "--targets", "u", code=2)
    assert "names separated by commas" in run("calibrate", MODEL, *base, "--targets", "u,", code=2)
    assert "`v`" in run("calibrate", MODEL, *base, "--targets", "v", code=2)
    for word, said in (
        ("local", "--training-data FILE"),
        ("weighted", "--query FILE"),
        ("magic", "clustered, conditional, grouped, local"),
        ("conditional", "settings without defaults, which cannot be set on the command line"),
    ):
        words = ["--targets", "u", "--calibrator", word]
        assert said in run("calibrate", MODEL, *base, *words, code=2)
    assert "There is no calibration in" in run("verify", tmp_path, code=2)
    next(folder.glob("model-*.onnx")).write_bytes(b"other")
    assert ".onnx was changed after it was saved" in " ".join(run("verify", folder, code=2).split())
    shutil.copy(CAL, tmp_path / "bad.onnx")
    assert "cannot be read as ONNX" in run(
        "calibrate", tmp_path / "bad.onnx", *base, "--targets", "u", code=2
    )


def as_0_1_wrote_it(folder: Path) -> dict[str, Any]:
    """A folder with the settings and the model next to the manifest, and the content of the settings."""
    model = next(folder.glob("model-*.onnx"))
    calibrated = gb.load(folder, model=gb.adapters.from_onnx(model).model)
    shutil.rmtree(folder)
    gb.save(calibrated, folder)
    shutil.copy(MODEL, folder / "model.onnx")
    about = {"model": sha256(folder / "model.onnx"), "manifest": sha256(folder / "manifest.json")}
    settings = {"inputs": ["x", "y"], "targets": ["u"], "groups": None, **about}
    (folder / "settings.json").write_text(json.dumps(settings))
    return settings


def test_a_folder_of_0_1_is_read(folder: Path) -> None:
    settings = as_0_1_wrote_it(folder)
    assert "all hashes match" in run("verify", folder)
    for changed, text in (
        ({"manifest": "0"}, "belongs to another calibration"),
        ({"model": "0"}, "model.onnx was changed"),
        ({"inputs": 3}, "has damaged settings"),
        ({"inputs": [3]}, "has damaged settings"),
    ):
        (folder / "settings.json").write_text(json.dumps({**settings, **changed}))
        assert text in " ".join(run("verify", folder, code=2).split())
    (folder / "settings.json").write_text("[" * 1000)
    assert "was not written by" in run("verify", folder, code=2)


def test_rows_that_were_calibrated_on_prove_nothing(folder: Path) -> None:
    assert "100 of 100 rows are calibration rows, which cannot test the band" in run(
        "verify", folder, "--data", CAL, code=2
    )


def test_columns_are_named_with_their_file(tmp_path: Path) -> None:
    out = ["--out", tmp_path / "x", "--targets", "u"]
    table = tables.read(CAL)
    tables.write(tmp_path / "more.csv", table.with_columns(t=table.column("x")))
    assert "takes 2 inputs per row, got 3" in run(
        "calibrate", MODEL, "--data", tmp_path / "more.csv", *out, code=2
    )
    tables.write(tmp_path / "text.csv", table.with_columns(x=np.array(["a"] * 100)))
    said = run("calibrate", MODEL, "--data", tmp_path / "text.csv", *out, code=2)
    assert "text.csv: Column" in said and "--groups" in said
    (tmp_path / "mixed.csv").write_text("x;y;u\n0,5;2.5;3\n")
    assert "one decimal mark" in run("calibrate", MODEL, "--data", tmp_path / "mixed.csv", *out, code=2)


def test_a_file_of_a_european_spreadsheet_gives_the_same_band(tmp_path: Path) -> None:
    european = "\ufeff" + Path(CAL).read_text().replace(",", ";").replace(".", ",").replace("\n", "\r\n")
    (tmp_path / "cal.csv").write_bytes(european.encode("utf-8"))
    for name, data in (("a", CAL), ("b", tmp_path / "cal.csv")):
        run("calibrate", MODEL, "--data", data, "--targets", "u", "--out", tmp_path / name)
    assert (tmp_path / "a/manifest.json").read_bytes() == (tmp_path / "b/manifest.json").read_bytes()


def test_the_version_is_known() -> None:
    assert run("--version").strip() == gb.__version__


def test_few_rows_are_noted(tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("\n".join(Path(CAL).read_text().splitlines()[:8]) + "\n")
    words = ["--data", tmp_path / "few.csv", "--targets", "u", "--out", tmp_path / "x"]
    assert "7 calibration points are too few for a finite band at 95 %; 19 are needed" in run(
        "calibrate", MODEL, *words
    )


def test_doctor_says_what_is_here() -> None:
    found = json.loads(run("doctor", "--json"))
    assert found["exact law"] == "holds" and found["guardband"] == gb.__version__ and "threads" in found


METADATA = """Metadata-Version: 2.4
Name: guardband
Version: 9.9
Provides-Extra: lab
Provides-Extra: pinn
Provides-Extra: scale
Requires-Dist: numpy>=2.0
Requires-Dist: guardband[pinn]; extra == 'lab'
Requires-Dist: no-such-package>=4; extra == 'lab'
Requires-Dist: torch>=2.6; extra == 'pinn'
Requires-Dist: dask[distributed]>=2025.1; extra == 'scale'
"""


@needs("torch")
def test_doctor_reads_every_extra_from_the_installed_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from guardband.cli import doctor

    (tmp_path / "guardband-9.9.dist-info").mkdir()
    (tmp_path / "guardband-9.9.dist-info/METADATA").write_text(METADATA)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(doctor, "check_calibrator", lambda _: (_ for _ in ()).throw(AssertionError("k - 1")))
    found = json.loads(run("doctor", "--json", code=1))
    assert [name for name in found if name.startswith("extra ")] == ["extra lab", "extra pinn", "extra scale"]
    assert found["extra lab"] == 'missing no-such-package: pip install "guardband[lab]"'
    assert found["extra pinn"] == f"torch {version('torch')}" and found["exact law"] == "BROKEN: k - 1"
    assert found["extra scale"] == f"dask {version('dask')}, distributed {version('distributed')}"


@needs("torch")
def test_doctor_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    from guardband.cli import doctor

    monkeypatch.setattr(doctor, "check_calibrator", lambda _: None)
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    assert json.loads(run("doctor", "--json"))["device"].startswith(
        "torch cannot be imported: This needs torch"
    )
    known = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "torch" else known(name))
    found = json.loads(run("doctor", "--json"))
    assert "torch" not in found and "device" not in found and found["threads"].endswith(" cores")


HOSTILE = ["<script>alert(1)</script>", "../x", '"quoted"', "a\nb", "=cmd()", "x|y", "[link](javascript:1)"]


@pytest.mark.slow("=cmd()")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_and_do_nothing(name: str, tmp_path: Path) -> None:
    safe = name.replace("/", "_")
    data, fresh = tmp_path / f"{safe}.csv", tmp_path / f"{safe} fresh.csv"
    for path, source in ((data, CAL), (fresh, FRESH)):
        table = tables.read(source)
        columns: dict[str, Any] = {name: table.column("x"), "y": table.column("y"), "u": table.column("u")}
        tables.write(path, tables.Table(columns))
    inside = set(tmp_path.rglob("*"))
    out = tmp_path / "band"
    run("calibrate", MODEL, "--data", data, "--targets", "u", "--out", out)
    for page in ("page.html", "page.md"):
        run("report", out, "--data", fresh, "--out", tmp_path / page)
        text = (tmp_path / page).read_text()
        assert "<script" not in text
        assert page.endswith("html") or not re.search(r"(?<!\\)\]\(javascript", text)
    new = set(tmp_path.rglob("*")) - inside
    assert {path.relative_to(tmp_path).parts[0] for path in new} == {"band", "page.html", "page.md"}


def mutated(text: bytes, generator: random.Random) -> bytes:
    data = bytearray(text)
    at = generator.randrange(len(data))
    match generator.randrange(4):
        case 0:
            data[at] = generator.randrange(256)
        case 1:
            del data[at : at + generator.randrange(1, 200)]
        case 2:
            data[at:at] = generator.choice([b",", b"\n", b'"', b"nan", b"1e999", b"\xff\x00", b"{", b"-"])
        case 3:
            lines = bytes(data).split(b"\n")
            generator.shuffle(lines)
            data = bytearray(b"\n".join(lines))
    return bytes(data)


def survive(tmp_path: Path, cases: int) -> None:
    """Mutated tables and settings end in success or in one clean sentence."""
    generator, out = random.Random(0), tmp_path / "band"
    small = b"\n".join(Path(CAL).read_bytes().splitlines()[:40]) + b"\n"
    run("calibrate", MODEL, "--data", CAL, "--targets", "u", "--out", out)
    originals = {name: (out / name).read_bytes() for name in ("manifest.json",)}
    refused = 0
    for case in range(cases):
        words: list[str | Path]
        if case % 2:
            (tmp_path / "data.csv").write_bytes(mutated(small, generator))
            words = ["verify", out, "--data", tmp_path / "data.csv"]
        else:
            name = generator.choice(list(originals))
            (out / name).write_bytes(mutated(originals[name], generator))
            words = ["verify", out]
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code in (0, 1, 2)
        assert isinstance(result.exception, SystemExit | None), (result.exception, words)
        refused += result.exit_code == 2
        for name, data in originals.items():
            (out / name).write_bytes(data)
    assert 0 < refused


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::guardband.conformal.InfiniteBandWarning", "ignore::UserWarning")
def test_mutated_files_end_in_clean_errors(tmp_path: Path) -> None:
    survive(tmp_path, 200)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::guardband.conformal.InfiniteBandWarning", "ignore::UserWarning")
def test_many_mutated_files_end_in_clean_errors(tmp_path: Path) -> None:
    survive(tmp_path, 10_000)


def test_columns_and_files_are_what_they_are_called(folder: Path, tmp_path: Path) -> None:
    words = ["--data", CAL, "--out", tmp_path / "other"]
    said = run("calibrate", MODEL, *words, "--targets", "u", "--inputs", "x,u", code=2)
    assert "Column `u` is a target; remove it from --inputs" in " ".join(said.split())
    assert "different names" in run("calibrate", MODEL, *words, "--targets", "u,u", code=2)
    query = shutil.copy(QUERY, tmp_path / "query.csv")
    said = run("predict", folder, "--data", query, "--out", query, code=2)
    assert "is the input file" in " ".join(said.split())
    assert Path(query).read_text() == Path(QUERY).read_text()


RAISING = """
import errno
def broken(x):
    raise KeyError("weights")
def full(x):
    raise OSError(errno.ENOSPC, "No space left on device")
def wrong(x):
    raise ValueError("wrong units")
def slow(x):
    print("ready", flush=True)
    import time
    time.sleep(60)
"""


@pytest.mark.parametrize(("model", "code"), [("broken", 3), ("full", 3), ("wrong", 2)])
def test_a_fault_is_not_an_input_that_is_wrong(
    model: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path(f"raising_{model}.py").write_text(RAISING)
    words = ["--data", CAL, "--targets", "u", "--out", "band", "--scale", "own"]
    said = run("calibrate", f"raising_{model}:{model}", *words, code=code)
    assert said.count("guardband:") == 1 and not (tmp_path / "band").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize(("how", "code"), [("INT", 130), ("TERM", 143)])
def test_an_interrupt_has_a_code_of_its_own(how: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "slow_model.py").write_text(RAISING)
    words = [
        "calibrate",
        "slow_model:slow",
        "--data",
        CAL,
        "--targets",
        "u",
        "--out",
        "band",
        "--scale",
        "own",
    ]
    command = [sys.executable, "-c", "from guardband.cli import run; run()", *words]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore SIGINT
    try:
        running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    with running:
        assert running.stdout is not None and running.stdout.readline() == b"ready\n"
        running.send_signal(signal.Signals[f"SIG{how}"])
        assert running.wait(30) == code
    assert not (tmp_path / "band").exists()


@pytest.mark.slow
def test_nobody_hears_of_a_closed_pipe(folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", "from guardband.cli import run; run()", "verify", str(folder)]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert done.returncode == 0 and done.stderr == b""


@needs("torch")
def test_stores_and_studies_are_verified(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    made = gb.calibrate(np.sin, np.arange(20.0), np.ones(20))
    store = tmp_path / "field.zarr"
    gb.band_over(made, {"x": np.linspace(0, 1, 50)}, levels=0.9).to_zarr(store)
    assert "is sound" in run("verify", store)
    chunk = next(path for path in (store / "mean" / "c").rglob("*") if path.is_file())
    chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1]) + chunk.read_bytes()[1:])
    assert "is damaged" in run("verify", store, code=2)
    paper = Path(__file__).parent.parent / "results" / "paper"
    (tmp_path / "study").mkdir()
    lines = (paper / "cells.jsonl").read_text().splitlines()[:3]
    pack = tmp_path / "study" / "cells.jsonl"
    pack.write_text("\n".join(lines) + "\n")
    assert "the checksums of all results match" in run("verify", tmp_path / "study")
    pack.write_text("\n".join([lines[0][:-9], *lines[1:]]) + "\n")
    assert "damaged results: cells.jsonl line 1 (" in run("verify", tmp_path / "study", code=2)
    pack.write_text("{\n" * 1000)
    assert "line 20 (not JSON) and 980 more" in run("verify", tmp_path / "study", code=2)
    assert str(lab.campaign.status(tmp_path / "study")).endswith("980 more failed, are damaged or differ.")


def test_a_model_in_two_files_is_kept_as_one(tmp_path: Path) -> None:
    """Both are hashed with the calibration, which no longer needs them."""
    onnx = pytest.importorskip("onnx")
    model, band = tmp_path / "model.onnx", tmp_path / "band"
    onnx.save(
        onnx.load(MODEL), model, save_as_external_data=True, size_threshold=0, location="model.onnx.data"
    )
    assert (tmp_path / "model.onnx.data").stat().st_size
    run("calibrate", model, "--data", CAL, "--targets", "u", "--out", band)
    run("calibrate", MODEL, "--data", CAL, "--targets", "u", "--out", tmp_path / "one")
    for file in (model, tmp_path / "model.onnx.data"):
        file.unlink()
    for name in ("band", "one"):
        run("predict", tmp_path / name, "--data", QUERY, "--out", tmp_path / f"{name}.csv")
    assert (tmp_path / "band.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    kept = next(band.glob("model-*.onnx"))
    kept.write_bytes(kept.read_bytes()[:-1] + b"!")
    assert "SHA-256" in run("verify", band, code=2)


def test_weights_outside_of_the_folder_of_a_model_are_refused(tmp_path: Path) -> None:
    """An external file could be any file of the reader."""
    onnx = pytest.importorskip("onnx")
    (tmp_path / "deep").mkdir()
    onnx.save(
        onnx.load(MODEL), tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="w"
    )
    shutil.move(tmp_path / "m.onnx", tmp_path / "deep" / "m.onnx")
    (tmp_path / "deep" / "w").symlink_to(tmp_path / "w")
    words = ["--data", CAL, "--targets", "u", "--out", tmp_path / "band"]
    said = " ".join(run("calibrate", tmp_path / "deep" / "m.onnx", *words, code=2).split())
    assert "keeps weights in 'w', which cannot be read" in said and not (tmp_path / "band").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_default_export_of_torch_is_read(tmp_path: Path) -> None:
    """The exporter writes weights to `model.onnx.data`."""
    pytest.importorskip("onnxscript")
    import torch

    torch.manual_seed(0)
    linear = torch.nn.Linear
    net = torch.nn.Sequential(linear(2, 64), torch.nn.Tanh(), linear(64, 64), torch.nn.Tanh(), linear(64, 1))
    model, x = tmp_path / "model.onnx", torch.rand(5, 2)
    torch.onnx.export(net.eval(), (x,), str(model), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    assert (tmp_path / "model.onnx.data").stat().st_size
    made = gb.adapters.from_onnx(model)
    assert np.allclose(made(x.numpy()).mean, net(x).detach(), atol=1e-6)
    for seed, name in enumerate(("cal", "fresh")):
        rows = np.random.default_rng(seed).random((60, 3))
        tables.write(tmp_path / f"{name}.csv", tables.Table(dict(zip("abu", rows.T, strict=True))))
    run("calibrate", model, "--data", tmp_path / "cal.csv", "--targets", "u", "--out", tmp_path / "band")
    run("verify", tmp_path / "band", "--data", tmp_path / "fresh.csv")
    run("report", tmp_path / "band", "--data", tmp_path / "fresh.csv", "--out", tmp_path / "page.html")
    assert "<html" in (tmp_path / "page.html").read_text()


def test_the_command_is_a_function_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check signals and exit codes in this process; most other tests start a new one."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(sys, "argv", ["guardband", "--version"])
    try:
        with pytest.raises(SystemExit) as ended:
            whole_command()
        assert ended.value.code == 0 and gb.__version__ in capsys.readouterr().out
        handler = signal.getsignal(signal.SIGTERM)
        assert callable(handler)
        with pytest.raises(SystemExit) as ended:
            handler(signal.SIGTERM, None)
        assert ended.value.code == 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)


def ask(*words: str, **streams: Any) -> subprocess.CompletedProcess[str]:
    """Run the command in a new process."""
    place = {**os.environ, "PYTHONPATH": str(Path(gb.__file__ or "").parents[1])}
    code = [sys.executable, "-c", "from guardband.cli import run; run()", *words]
    return subprocess.run(code, env=place, text=True, check=False, **streams)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("words", [("--version",), ("--help",), ("study", "--help")])
def test_output_that_cannot_be_written_is_no_verdict(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = ask(*words, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 3 and done.stderr.count("\n") == 1, done.stderr
    assert "Standard output cannot be written: No space left" in done.stderr
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as closed:
        done = ask(*words, stdout=closed, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_verify_with_a_full_output_or_a_full_standard_error_is_no_verdict(folder: Path) -> None:
    with open("/dev/full", "w") as full:
        done = ask("verify", str(folder), stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 3 and "Traceback" not in done.stderr
        assert ask("verify", "nowhere", stdout=full, stderr=full).returncode == 2


ENDS = """
import sys


def exits(x):
    sys.exit(1)


def stopped(x):
    raise KeyboardInterrupt


class Own(BaseException):
    pass


def own(x):
    raise Own("odd")


def pipe(x):
    raise BrokenPipeError(32, "Broken pipe")
"""


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [("exits", 3, "SystemExit: 1"), ("stopped", 130, "stopped"), ("own", 3, "Own: odd"), ("pipe", 2, "pipe")],
)
def test_a_model_that_ends_the_program_is_no_verdict(
    name: str, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ends.py").write_text(ENDS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ends", raising=False)
    words = ["calibrate", f"ends:{name}", "--data", CAL, "--targets", "u", "--out", tmp_path / "band"]
    assert said in run(*words, code=code)
