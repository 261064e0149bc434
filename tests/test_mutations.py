"""Mutations of every format that is read, hashes made right again: no hang, no error but the proper one.

Cases run in another process, one after the other; where it falls silent or dies, the case is known, and a
fresh process goes on behind it. Files and folders made by hand to do harm are in `test_hostile.py`.
"""

import hashlib
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import guardband as gb
from guardband import cli, fields, store
from guardband.cli.models import model_of
from guardband.store import versions
from guardband.tables import READERS, Table, TableError
from helpers import ROOT, Later
from wings import pinn

records, checkpoint = Later("guardband.lab.studies.records"), Later("guardband.pinn.training.checkpoint")

SILENT = 100.0
"""Seconds of silence after which a case is said to hang."""

NASTY: list[Any] = [
    None,
    True,
    -1,
    0,
    10**30,
    1e308,
    float("nan"),
    "",
    "1e999999",
    "\x1b[2J",
    "x" * 10**5,
    [],
    {},
]
NASTY += [
    [[[[[[]]]]]],
    {"kind": "Split"},
    {"array": 0},
    {"fraction": "1/0"},
    "../../etc",
    [0] * 1000,
    -(2**63),
    2**64,
]


def in_bytes(data: bytes, dice: random.Random) -> bytes:
    """A few bytes flipped, cut off, put in, exchanged, repeated or set to the ends of their range."""
    changed = bytearray(data)
    for _ in range(dice.choice([1, 1, 2, 4])):
        at, length = dice.randrange(len(changed) + 1), dice.choice([1, 4, 8, 64])
        match dice.randrange(7):
            case 0:
                for _ in range(dice.randint(1, 8)):
                    if changed:
                        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
            case 1:
                del changed[at:]
            case 2:
                changed[at:at] = dice.choice([dice.randbytes(length), b'"', b",", b"\n", b"nan", b"\0"])
            case 3:
                lines = bytes(changed).split(b"\n")
                dice.shuffle(lines)
                changed[:] = b"\n".join(lines)
            case 4:
                changed[at : at + length] = dice.choice([b"\xff", b"\x7f", b"\x80", b"\0"]) * length
            case 5:
                changed[at:at] = changed[at : at + length] * dice.choice([1, 3, 1000])
            case 6:
                del changed[at : at + length]
    return bytes(changed)


def in_json(data: bytes, dice: random.Random) -> bytes:
    """A value of a JSON replaced, taken away or put elsewhere."""
    made = json.loads(data)
    for _ in range(dice.choice([1, 1, 2])):
        places: list[tuple[Any, Any]] = []

        def gather(node: Any, places: list[tuple[Any, Any]] = places) -> None:
            for key in node if isinstance(node, dict) else range(len(node)):
                places.append((node, key))
                if isinstance(node[key], dict | list):
                    gather(node[key])

        gather(made)
        if not places:
            break
        node, key = dice.choice(places)
        match dice.randrange(4):
            case 0:
                node[key] = dice.choice(NASTY)
            case 1:
                del node[key]
            case 2:
                other, there = dice.choice(places)
                node[key] = json.loads(json.dumps(other[there])) if there in other or other is node else None
            case 3 if isinstance(node[key], str) and node[key]:
                at = dice.randrange(len(node[key]))
                node[key] = node[key][:at] + dice.choice(["", "0", "/", "\0", "é"]) + node[key][at + 1 :]
            case _:
                node[key] = [node[key]]
    return json.dumps(made).encode()


def either(data: bytes, dice: random.Random) -> bytes:
    """A change of bytes or, of most, one that leaves JSON what it is."""
    try:
        return in_json(data, dice) if dice.random() < 0.7 else in_bytes(data, dice)
    except (ValueError, LookupError, TypeError):
        return in_bytes(data, dice)


@dataclass(frozen=True)
class Format:
    """What is written to a fresh folder, how one of its files is changed, and how the folder is then read."""

    make: Callable[[Path], Any]
    use: Callable[[Path], Any]
    proper: tuple[type[Exception], ...]
    file: str = "*"
    change: Callable[[bytes, random.Random], bytes] = in_bytes
    repair: Callable[[Path, Path], Any] = lambda folder, path: None
    share: float = 0.1


def rehashed(folder: Path, _: Path) -> None:
    """The manifest of a calibration with the hashes of what is there."""
    path = folder / store.MANIFEST
    try:
        made = json.loads(path.read_bytes())
        made.pop("sha256", None)
        files = {}
        for arrays in [path for path in folder.iterdir() if path.suffix == ".safetensors"]:
            digest, size = hashlib.sha256(arrays.read_bytes()).hexdigest(), arrays.stat().st_size
            name = f"arrays-{digest[:16]}.safetensors"
            arrays.rename(folder / name)
            files[name] = {"sha256": digest, "bytes": size}
        if isinstance(made.get("files"), dict):
            made["files"] = files
        path.write_text(json.dumps(made | {"sha256": versions.digest(made)}))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return


def resealed(_: Path, path: Path) -> None:
    """Results with the checksums of what they are."""
    lines = []
    for line in path.read_bytes().split(b"\n"):
        try:
            lines.append(records.sealed(json.loads(line)).encode() if line else line)
        except (ValueError, AttributeError, TypeError, KeyError, RecursionError):
            lines.append(line)
    path.write_bytes(b"\n".join(lines))


def resummed(_: Path, path: Path) -> None:
    """A checkpoint with the checksum of what follows its first line."""
    data = path.read_bytes()
    body = data[len(checkpoint.HEAD) + 65 :]
    path.write_bytes(checkpoint.HEAD + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


@cache
def calibration() -> gb.Calibrated:
    problem = pinn.problems.Poisson1D()
    fitted = pinn.fit(problem, pinn.mlp(1, [6, 6]), problem.observe(20, seed=0), recipe=QUICK, progress=False)
    seen = problem.observe(40, noise=0.1, seed=1)
    made = pinn.predictors.LastLayerLaplace(fitted)
    return gb.calibrate(
        made, seen.x, seen.y, confidence="0.9", calibrator=gb.Grouped(), groups=np.arange(40) % 2
    )


QUICK = pinn.Recipe(steps=4, finish=0, n_interior=8, n_boundary=2)


def loaded(folder: Path) -> None:
    made = gb.load(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made(np.linspace(0, 1, 5), 0.9, groups=np.zeros(5) if made.needs_groups else None)
        except (ValueError, TypeError):
            pass  # somebody rewrote it and its hashes: another calibration, which may not fit these points


def a_study(folder: Path) -> None:
    lines = (ROOT / "results" / "paper" / "cells.jsonl").read_text().splitlines()[:3]
    keys = [json.loads(line)["key"] for line in lines]
    (folder / "cells").mkdir()
    (folder / "cells" / f"{keys[0]}.json").write_text(lines[0] + "\n")
    (folder / "cells.jsonl").write_text("\n".join(lines[1:]) + "\n")
    (folder / "study.json").write_text(json.dumps({"study": "your own", "cells": keys}))


def tabulated(folder: Path) -> None:
    """Status and table of a study: an exit code, and no traceback."""
    for words in (["study", "status", str(folder)], ["study", "table", str(folder)], ["verify", str(folder)]):
        done = CliRunner().invoke(cli.app, words)
        assert isinstance(done.exception, SystemExit | None), done.exception
        assert done.exit_code in (0, 1, 2) and len(done.output) < 20_000, done.output[:500]


def a_run(folder: Path) -> None:
    try:
        resumed(folder, stop=True)
    except KeyboardInterrupt:
        return


def resumed(folder: Path, stop: bool = False) -> None:
    problem = pinn.problems.Poisson1D()

    def interrupt(now: pinn.Moment) -> None:
        if stop and now.step > 150:
            raise KeyboardInterrupt

    recipe = pinn.Recipe(steps=300, finish=0, n_interior=4, n_boundary=2)
    pinn.fit(
        problem,
        pinn.mlp(1, [3]),
        problem.observe(5, seed=0),
        recipe=recipe,
        checkpoint=folder / "run.checkpoint",
        callback=interrupt,
        progress=False,
    )


def a_store(folder: Path) -> None:
    made = gb.calibrate(np.sin, np.arange(20.0), np.ones(20))
    gb.band_over(made, {"x": np.linspace(0, 1, 40)}, levels=0.9, chunk=20).to_zarr(folder / "field.zarr")


def looked_at(folder: Path) -> None:
    fields.verify(folder / "field.zarr")
    done = CliRunner().invoke(cli.app, ["verify", str(folder / "field.zarr")])
    assert isinstance(done.exception, SystemExit | None), done.exception


TABLE = Table({"x": [0.0, 0.5, 1.0, 1.5], "sensor": ["a", "b", "a", "lång"], "u": [1.0, -2.5, 1e-300, 4.0]})


def a_table(name: str) -> Callable[[Path], Any]:
    return lambda folder: gb.tables.write(folder / name, TABLE)


def a_grid(folder: Path) -> None:
    import xarray

    columns = {name: ("row_", column) for name, column in TABLE.columns.items()}
    xarray.Dataset(columns).to_netcdf(folder / "t.nc", engine="h5netcdf")


def parsed(folder: Path) -> None:
    """A table as `read` finds it, in this process; what a library throws `read` turns into a TableError."""
    (path,) = (path for path in folder.iterdir() if path.suffix in READERS)
    try:
        Table.gathered(path.read_bytes(), READERS[path.suffix])
    except MemoryError:
        raise
    except Exception as error:
        raise TableError(str(error)) from error


def a_model(folder: Path) -> None:
    shutil.copy(ROOT / "examples" / "bring_your_model" / "model.onnx", folder / "model.onnx")


def asked(folder: Path) -> None:
    """A model from a file, at a few points; one whose graph computes otherwise may raise what it likes."""
    made = model_of(str(folder / "model.onnx"))
    try:
        made(np.zeros((3, 2)))
    except Exception:
        return


FORMATS = {
    "manifest": Format(
        lambda folder: gb.save(calibration(), folder),
        loaded,
        (gb.store.ArtifactError,),
        store.MANIFEST,
        either,
        rehashed,
        0.15,
    ),
    "arrays": Format(
        lambda folder: gb.save(calibration(), folder),
        loaded,
        (gb.store.ArtifactError,),
        "arrays-*",
        in_bytes,
        rehashed,
        0.1,
    ),
    "study": Format(a_study, tabulated, (), "study.json", either, share=0.03),
    "cell": Format(a_study, tabulated, (), "cells/*.json", either, resealed, 0.03),
    "pack": Format(a_study, tabulated, (), "cells.jsonl", either, resealed, 0.03),
    "checkpoint": Format(
        a_run, resumed, (ValueError, pinn.TrainingDiverged), "*.checkpoint", in_bytes, resummed, 0.05
    ),
    "store": Format(a_store, looked_at, (ValueError, OSError), "field.zarr/zarr.json", either, share=0.03),
    "notes": Format(a_store, looked_at, (ValueError, OSError), "**/*.json", either, share=0.03),
    "csv": Format(a_table("t.csv"), parsed, (TableError,), share=0.15),
    "npz": Format(a_table("t.npz"), parsed, (TableError,), share=0.15),
    "parquet": Format(a_table("t.parquet"), parsed, (TableError,), share=0.1),
    "nc": Format(a_table("t.nc"), parsed, (TableError,), share=0.1),
    "nc4": Format(a_grid, parsed, (TableError,), share=0.05),
    "onnx": Format(a_model, asked, (ValueError, TypeError), share=0.03),
}


def files_of(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def restored(folder: Path, sound: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in sound.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def changed(name: str, folder: Path, sound: dict[str, bytes], case: int) -> None:
    """The folder with one file changed: the same for the same case."""
    restored(folder, sound)
    kind, dice = FORMATS[name], random.Random(f"{name} {case}")
    path = dice.choice(sorted(path for path in folder.glob(kind.file) if path.is_file()))
    path.write_bytes(kind.change(path.read_bytes(), dice))
    kind.repair(folder, path)


def work(names: list[str], cases: int, first: int) -> None:
    """In another process: say the number of each case before it is tried, and what it ended in after it."""
    warnings.simplefilter("ignore")
    for start, name in zip(range(0, len(names) * cases, cases), names, strict=True):
        if start + cases <= first:
            continue
        kind, folder = FORMATS[name], Path(tempfile.mkdtemp()) / "f"
        folder.mkdir()
        kind.make(folder)
        sound = files_of(folder)
        for case in range(max(0, first - start), cases):
            print(f"case {start + case}", flush=True)
            changed(name, folder, sound, case)
            try:
                kind.use(folder)
                print("read", flush=True)
            except kind.proper:
                print("refused", flush=True)
            except BaseException as error:
                print(f"other {type(error).__name__}: {str(error)[:200]!r}", flush=True)
        shutil.rmtree(folder.parent)


def survive(names: list[str], cases: int) -> dict[str, dict[str, int]]:
    """How many cases of each format were read and refused; an assertion names every other end."""
    counts = {name: {"read": 0, "refused": 0} for name in names}
    ends, number = list[str](), -1
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    while number < len(names) * cases - 1:
        code = f"import test_mutations as t; t.work({names!r}, {cases}, {number + 1})"
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        word, first = "", number
        for word, rest in said(process):
            if word == "case":
                number = int(rest)
            name, case = names[max(number, 0) // cases], number % cases
            if word in counts[name]:
                counts[name][word] += 1
            elif word not in ("case", "hangs"):
                ends.append(f"{name} {case}: {word} {rest}")
        if process.returncode and word in ("case", "hangs"):
            name, case = names[number // cases], number % cases
            how = "hangs" if word == "hangs" else f"ended with {process.returncode}"
            if contained(name, case):
                print(f"{name} {case}: the parser {how}, in a process of its own: refused")
                counts[name]["refused"] += 1
            else:
                ends.append(f"{name} {case}: {how}")
        assert number > first, f"{names[(first + 1) // cases]}: no case was tried"
        assert len(ends) < 50, "\n".join(ends)
    assert not ends, "\n".join(ends)
    return counts


def contained(name: str, case: int) -> bool:
    """Whether a file that stops its library is refused by `tables.read`, which asks it in another process."""
    if FORMATS[name].use is not parsed:
        return False
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "f"
        folder.mkdir()
        FORMATS[name].make(folder)
        changed(name, folder, files_of(folder), case)
        (path,) = folder.iterdir()
        try:
            gb.tables.read(path)
        except TableError:
            return True
    return False


def said(process: subprocess.Popen[bytes]) -> Iterator[tuple[str, str]]:
    """What a process says, line by line; one that says nothing for long is ended, which is said too."""
    lines: queue.Queue[bytes] = queue.Queue()
    assert process.stdout is not None
    stream = process.stdout

    def listen() -> None:
        for line in stream:
            lines.put(line)
        lines.put(b"")

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        while line := lines.get(timeout=SILENT):
            word, _, rest = line.decode().strip().partition(" ")
            yield word, rest
    except queue.Empty:
        yield "hangs", ""
        process.kill()
    process.wait()
    listener.join()
    stream.close()


@pytest.mark.slow
def test_mutations_end_in_the_proper_error() -> None:
    for name, counts in survive(list(FORMATS), 30).items():
        looked_at_only = FORMATS[name].use in (tabulated, looked_at)  # what is wrong is said, not raised
        assert sum(counts.values()) == 30 and (counts["refused"] or looked_at_only), name


@pytest.mark.slow("checkpoint-2407")
@pytest.mark.parametrize(
    ("name", "case"),
    [
        *(("pack", k) for k in (185, 822, 2042)),
        *(("checkpoint", k) for k in (1922, 2333, 2407)),
        ("onnx", 772),
    ],
)
def test_cases_that_once_went_wrong_end_well(name: str, case: int, tmp_path: Path) -> None:
    """Those of the hundred thousand that found something: pages of output, forged optimizers, noise."""
    kind, folder = FORMATS[name], tmp_path / "f"
    folder.mkdir()
    kind.make(folder)
    changed(name, folder, files_of(folder), case)
    with suppress(*kind.proper):
        kind.use(folder)


@pytest.mark.long
@pytest.mark.parametrize("name", FORMATS)
def test_a_hundred_thousand_mutations_end_in_the_proper_error(name: str) -> None:
    cases = round(100_000 * FORMATS[name].share)
    print(survive([name], cases))


def test_the_shares_are_a_hundred_thousand() -> None:
    assert sum(kind.share for kind in FORMATS.values()) >= 1
