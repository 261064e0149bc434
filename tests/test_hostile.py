"""Hostile folders: any content ends in a single error, quickly and with little memory.

The promises of SECURITY.md refer to existing tests.
"""

import ast
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.base.files import UnsafeFile, read_bytes
from guardband.base.limits import printable, shown
from guardband.fields import verify
from guardband.store import MANIFEST, versions
from helpers import ROOT, Later
from wings import pinn

PAGE = (ROOT / "SECURITY.md").read_text()
SOURCES = sorted((ROOT / "src/guardband").rglob("*.py"))
resource = pytest.importorskip("resource", reason="links, pipes and holes are those of POSIX")
PEAK = 1 if sys.platform == "darwin" else 1024
"""Number of bytes in a unit of `ru_maxrss`."""
SECONDS, ROOM = 2.0, 200 * 2**20
"""Limits of CPU time and memory for a hostile folder, beyond those of a process that imported guardband."""


def saved(folder: Path) -> Path:
    return gb.save(gb.calibrate_arrays(np.zeros(50), np.arange(50.0), confidence="0.9"), folder)


def forged(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Change the manifest and update its hash."""
    path = folder / MANIFEST
    manifest = json.loads(path.read_text())
    manifest.pop("sha256")
    edit(manifest)
    path.unlink()
    path.write_text(json.dumps(manifest | {"sha256": versions.digest(manifest)}))


def arrays(folder: Path) -> Path:
    return next(folder.glob("arrays-*.safetensors"))


def instead(path: Path, make: Callable[[Path], Any]) -> None:
    path.unlink()
    make(path)


def hole(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def larger(folder: Path, size: int) -> None:
    """Nearly empty arrays, which the manifest declares to be large."""
    path = arrays(folder)
    hole(path, size)
    forged(folder, lambda m: m["files"][path.name].update(bytes=size))


def fields(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["value"]["calibrated"]["fields"]


def confident(text: Any) -> Callable[[Path], Any]:
    return lambda folder: forged(folder, lambda m: fields(m).update(confidence=text))


def many(folder: Path) -> None:
    """One large array with two hundred references."""
    big = gb.calibrate_arrays(np.zeros(5_000_000), np.zeros(5_000_000))
    gb.save(big, folder, overwrite=True)
    forged(folder, lambda m: fields(m).update(groups=[fields(m)["y"]] * 200))


ATTACKS: dict[str, Callable[[Path], Any]] = {
    "the manifest is a pipe": lambda folder: instead(folder / MANIFEST, os.mkfifo),
    "the arrays are a pipe": lambda folder: instead(arrays(folder), os.mkfifo),
    "the manifest is a link to a device": lambda folder: instead(
        folder / MANIFEST, lambda path: path.symlink_to("/dev/zero")
    ),
    "the arrays are a link to a device": lambda folder: instead(
        arrays(folder), lambda path: path.symlink_to("/dev/zero")
    ),
    "the manifest is a link": lambda folder: instead(
        folder / MANIFEST, lambda path: path.symlink_to(folder / "other.json")
    ),
    "the manifest is a folder": lambda folder: instead(folder / MANIFEST, Path.mkdir),
    "a hole of 5 GiB": lambda folder: larger(folder, 5 * 2**30),
    "a hole of 5 GiB that is not declared": lambda folder: hole(arrays(folder), 5 * 2**30),
    "a manifest of 30 MiB of brackets": lambda folder: (folder / MANIFEST).write_text("[" * 30_000_000),
    "a manifest of 30 MiB of nothing": lambda folder: (folder / MANIFEST).write_text("[" + "0," * 15_000_000),
    "a manifest of 40 MiB": lambda folder: hole(folder / MANIFEST, 40 * 2**20),
    "a number of many digits": lambda folder: (folder / MANIFEST).write_text("1" * 10_000_000),
    "a fraction with a huge exponent": confident({"fraction": "1e999999999"}),
    "a fraction with a tiny exponent": confident({"fraction": "1e-999999999"}),
    "a fraction of many digits": confident({"fraction": "0." + "9" * 1_000_000}),
    "a quotient of many digits": confident({"fraction": "1/" + "9" * 1_000_000}),
    "a confidence with a tiny exponent": confident("1e-99999999"),
    "a confidence with a huge exponent": confident("1e99999999"),
    "sizes that are none": lambda folder: forged(
        folder, lambda m: m["files"][arrays(folder).name].update(bytes=-1)
    ),
    "a size beyond all measure": lambda folder: forged(
        folder, lambda m: m["files"][arrays(folder).name].update(bytes=10**30)
    ),
    "a name of another folder": lambda folder: forged(folder, lambda m: m.update(files={"../x": {}})),
}


def far_away(folder: Path) -> None:
    """A distance to more neighbors than there are points."""
    net = pinn.mlp(1, [4])
    made = gb.calibrate(
        gb.predictors.Distance(net, np.linspace(0, 1, 50)), np.linspace(2, 3, 30), np.zeros(30)
    )
    gb.save(made, folder, overwrite=True)
    forged(folder, lambda m: fields(m)["predictor"]["fields"].update(n_neighbors=4_000_000))


def wide_words(folder: Path) -> None:
    """Groups with one long name, which sets the width of all."""
    words = {"words": ["a" * 40_000] + ["b"] * 10_000}
    forged(folder, lambda m: fields(m).update(groups=words))


ATTACKS |= {"more neighbors than points": far_away, "one long word among many": wide_words}


LOADER = """
import json, resource, sys, time
import guardband as gb
from guardband import pinn
gb.conformal, gb.store, gb.predictors, gb.calibrate_arrays
read = gb.tables.read if "." in sys.argv[1].rpartition("/")[2] else gb.load
sound = sys.argv[2:]
for path in sound:  # a sound file of the kind: what its reader takes anyway
    read(path)

def used():  # by this process and by those it started, which were the largest
    here, there = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    seconds = here.ru_utime + here.ru_stime + there.ru_utime + there.ru_stime
    return seconds, here.ru_maxrss * 1024, there.ru_maxrss * 1024

start = used()
try:
    read(sys.argv[1])
    found = "read"
except Exception as error:
    found = f"{type(error).__name__}: {error}"
seconds, *memory = (after - before for after, before in zip(used(), start))
print(json.dumps([found, seconds, max(memory)]))
"""


def measured(*paths: Path) -> tuple[str, float, float]:
    """The result of reading a path, with CPU seconds and bytes; intact files may be read first."""
    command = [sys.executable, "-c", LOADER, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_ends_in_one_error(name: str, tmp_path: Path) -> None:
    ATTACKS[name](saved(tmp_path))
    started = time.process_time()
    with pytest.raises(gb.store.ArtifactError) as caught:
        gb.load(tmp_path)
    assert time.process_time() - started < SECONDS and len(str(caught.value)) < 500 + len(str(tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_takes_little_time_and_memory(name: str, tmp_path: Path) -> None:
    ATTACKS[name](saved(tmp_path / "saved"))
    found, seconds, memory = measured(tmp_path / "saved")
    print(f"{name}: {seconds:.2f} CPU s, {memory / 2**20:.0f} MiB")
    assert found.startswith("ArtifactError") and seconds < SECONDS and memory < ROOM


def zipped(path: Path, arrays: int, cells: int, method: int = zipfile.ZIP_DEFLATED) -> None:
    """Zeros, which a .npz compresses by a factor of a thousand."""
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(cells))
    with zipfile.ZipFile(path, "w", method, compresslevel=1) as archive:
        for j in range(arrays):
            archive.writestr(f"x{j}.npy", buffer.getvalue())


def claimed(path: Path, about: str) -> None:
    """A .npz with an empty array that is declared to be large."""
    line = f"{{{about}, 'fortran_order': False}}\n".encode()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line)


def long_claim(path: Path) -> None:
    """An array whose header is a gigabyte of spaces, as declared."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as file,
    ):
        file.write(b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**30))
        for _ in range(64):
            file.write(b" " * 2**24)


def packed(path: Path, cells: Any) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"x": cells}), path, compression="gzip")


def hdf5(path: Path, make: Callable[[Any, Any], Any]) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        make(file, h5py)


def virtual(file: Any, h5py: Any) -> None:
    layout = h5py.VirtualLayout((5,), "f8")
    layout[:] = h5py.VirtualSource("/dev/zero", "x", (5,))
    file.create_virtual_dataset("x", layout)


def alias(path: Path, variables: int, cells: int) -> None:
    """A classic .nc in which many variables share one place."""
    number = ">i"

    def word(text: str) -> bytes:
        return struct.pack(number, len(text)) + text.encode().ljust(-(-len(text) // 4) * 4, b"\0")

    def header(begin: int) -> bytes:
        dims = struct.pack(">ii", 10, 1) + word("n") + struct.pack(number, cells)
        each = struct.pack(">iiiiiii", 1, 0, 0, 0, 6, 8 * cells, begin)
        listed = b"".join(word(f"x{j:07d}") + each for j in range(variables))
        return (
            b"CDF\x01" + struct.pack(number, 0) + dims + bytes(8) + struct.pack(">ii", 11, variables) + listed
        )

    path.write_bytes(header(len(header(0))) + bytes(8 * cells))


FILES: dict[str, Callable[[Path], Any]] = {
    "512 MiB of zeros.npz": lambda path: zipped(path, 8, 2**23),
    "arrays that each fit.npz": lambda path: zipped(path, 40, 2**19),
    "packed in another way.npz": lambda path: zipped(path, 1, 100, zipfile.ZIP_LZMA),
    "claims 8 EB.npz": lambda path: claimed(path, f"'descr': '<f8', 'shape': ({10**18},)"),
    "claims cells of no width.npz": lambda path: claimed(path, f"'descr': '<U0', 'shape': ({10**8},)"),
    "claims a negative size.npz": lambda path: claimed(path, "'descr': '<f8', 'shape': (-5,)"),
    "one long cell.csv": lambda path: path.write_text("x\n" + "a" * 10**5 + "\n" + "b\n" * 10**5),
    "a header of commas.csv": lambda path: path.write_text("," * 10**7),
    "a quote without an end.csv": lambda path: path.write_text('x\n"' + "1\n" * 10**7),
    "a pipe.csv": os.mkfifo,
    "a device.csv": lambda path: path.symlink_to("/dev/zero"),
    "a hole.csv": lambda path: hole(path, 2**31 - 1),
    "many columns, one long cell in each.csv": lambda path: path.write_text(
        ",".join(f"c{j}" for j in range(20))
        + "\n"
        + "\n".join(
            [",".join(["a"] * 20)] * 8000 + [",".join(["b" * 1000] * 20)] + [",".join(["a"] * 20)] * 8000
        )
    ),
    "a claim of a gigabyte.npz": lambda path: long_claim(path),
    "a negative number of columns.npz": lambda path: claimed(path, "'descr': '<f8', 'shape': (5, -5)"),
    "a name without an end.csv": lambda path: path.write_text("x" * 10**7 + ",u\n1,2\n"),
    "a hundred million equal cells.parquet": lambda path: packed(path, np.zeros(10**8, np.int8)),
    "one cell of 256 MiB.parquet": lambda path: packed(path, ["a" * 2**28]),
    "lists in cells.parquet": lambda path: packed(path, [[0.0] * 2**20] * 100),
    "nothing that is large.nc": lambda path: hdf5(
        path, lambda file, _: file.create_dataset("x", (10**7,), "f8", chunks=(1000,))
    ),
    "raw bytes of a device.nc": lambda path: hdf5(
        path, lambda file, _: file.create_dataset("x", (10**6,), "u1", external=[("/dev/zero", 0, 10**6)])
    ),
    "a link to another file.nc": lambda path: hdf5(
        path, lambda file, h5py: file.__setitem__("x", h5py.ExternalLink("/dev/zero", "/x"))
    ),
    "a variable in a group.nc": lambda path: hdf5(
        path, lambda file, _: file.create_group("g").create_dataset("u", data=[1.0, 2.0])
    ),
    "a view of another file.nc": lambda path: hdf5(path, virtual),
    "many variables in one place.nc": lambda path: alias(path, 2000, 10**4),
}


@pytest.mark.slow("one cell of 256 MiB.parquet", "lists in cells.parquet")
@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_ends_in_one_error(name: str, tmp_path: Path) -> None:
    FILES[name](tmp_path / name)
    with pytest.raises(gb.tables.TableError) as caught:
        gb.tables.read(tmp_path / name)
    assert len(str(caught.value)) < 500 + len(str(tmp_path))


def test_nothing_in_the_folder_of_work_is_imported(tmp_path: Path) -> None:
    path = gb.tables.write(tmp_path / "t.nc", gb.tables.Table({"x": [0.0, 1.0]}))
    for name in ("h5py", "xarray", "json", "numpy", "guardband"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\nraise ImportError")
    code = "from guardband import tables; tables.read('t.nc')"
    paths = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-P", "-c", code]
    subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths}, check=True)
    assert path.exists() and not (tmp_path / "ran").exists()


def test_labels_in_packed_files_are_read(tmp_path: Path) -> None:
    names = np.array(["a sensor at north", "another one"])[np.arange(300_000) % 2]
    table = gb.tables.Table({"x": np.round(np.linspace(0, 1, 300_000), 3), "sensor": names})
    np.savez_compressed(tmp_path / "t.npz", **table.columns)
    for path in (tmp_path / "t.npz", gb.tables.write(tmp_path / "t.parquet", table)):
        again = gb.tables.read(path)
        assert all(np.array_equal(again.column(name), table.column(name)) for name in table.names)


@pytest.mark.slow
def test_wide_tables_are_read(tmp_path: Path) -> None:
    table = gb.tables.Table({f"c{j}": [float(j), 1.0] for j in range(1500)})
    for kind in ("csv", "npz", "nc"):
        assert gb.tables.read(gb.tables.write(tmp_path / f"t.{kind}", table)).names == table.names


@pytest.mark.slow("while True: pass-takes longer than any file of its size")
@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ("while True: pass", "takes longer than any file of its size"),
        ("import os; os.abort()", "exited with status"),
        pytest.param(
            "bytearray(2**30)",
            "take more than 32 times the bytes of their file",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux alone"),
        ),
    ],
)
def test_a_library_that_runs_on_or_crashes_ends_in_one_error(
    harm: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "xarray.py").write_text(f"def open_dataset(*_, **__):\n    {harm}\n")
    (tmp_path / "t.nc").write_bytes(b"CDF\x01" + bytes(28))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(gb.tables.TableError, match=message):
        gb.tables.read(tmp_path / "t.nc")


LARGE = {"4 GiB of zeros.npz": lambda path: zipped(path, 64, 2**23)}


@pytest.mark.long
@pytest.mark.parametrize("name", [*FILES, *LARGE])
def test_a_hostile_file_takes_little_time_and_memory(name: str, tmp_path: Path) -> None:
    (FILES | LARGE)[name](tmp_path / name)
    sound = gb.tables.write(tmp_path / f"sound{Path(name).suffix}", gb.tables.Table({"x": [0.0, 1.0]}))
    _, usual, _ = measured(sound, sound)
    found, seconds, memory = measured(tmp_path / name, sound)
    print(f"{name}: {seconds:.2f} CPU s, {memory / 2**20:.0f} MiB; a small sound file: {usual:.2f} CPU s")
    assert found.startswith("TableError") and seconds - usual < SECONDS and memory < ROOM


def stored(folder: Path) -> Path:
    pytest.importorskip("zarr")
    made = gb.calibrate(np.sin, np.arange(20.0), np.ones(20))
    return gb.band_over(made, {"x": np.linspace(0, 1, 40)}, levels=0.9, chunk=20).to_zarr(
        folder / "field.zarr"
    )


def linked(store: Path) -> None:
    (store / "mean").rename(store.parent / "elsewhere")
    (store / "mean").symlink_to(store.parent / "elsewhere")


def reshaped(store: Path, size: int) -> None:
    """Metadata that declare this number of chunks of one point."""
    path = store / "mean" / "zarr.json"
    about = json.loads(path.read_text())
    about["shape"], about["chunk_grid"]["configuration"]["chunk_shape"] = [size], [1]
    path.write_text(json.dumps(about))


STORES: dict[str, Callable[[Path], Any]] = {
    "an array is a link": linked,
    "metadata are a hole of 1 GiB": lambda store: hole(store / "mean" / "zarr.json", 2**30),
    "metadata are brackets": lambda store: (store / "mean" / "zarr.json").write_text("[" * 200_000),
    "metadata of the store are brackets": lambda store: (store / "zarr.json").write_text("[" * 200_000),
    "a million chunks": lambda store: reshaped(store, 10**6),
    "chunks are a link": lambda store: (
        (store / "mean" / "c").rename(store.parent / "c"),
        (store / "mean" / "c").symlink_to(store.parent / "c"),
    ),
}


@pytest.mark.parametrize("by_folder", [True, False])
def test_no_link_below_a_folder_is_followed(
    by_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the system allows, folders are opened one by one, so none can be replaced after its check."""
    if not by_folder:
        monkeypatch.setattr(os, "supports_dir_fd", set())
    inside, other = tmp_path / "store", tmp_path / "other"
    for folder in (inside / "a" / "b", other / "b"):
        folder.mkdir(parents=True)
        (folder / "c").write_text("x")
    (inside / "link").symlink_to(other)
    (inside / "a" / "c").symlink_to(other / "b" / "c")
    assert read_bytes(inside / "a" / "b" / "c", at_most=9, inside=inside) == b"x"
    for key in ("link/b/c", "a/c"):
        with pytest.raises(UnsafeFile, match="contains a link"):
            read_bytes(inside / key, at_most=9, inside=inside)
    with pytest.raises(UnsafeFile, match="is not a valid file name"):
        read_bytes(inside / "x\0y", at_most=9, inside=inside)


@pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="needs openat")
def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, other = tmp_path / "store", tmp_path / "other"
    for folder in (inside / "a" / "b", other / "b"):
        folder.mkdir(parents=True)
        (folder / "c").write_text(folder.parent.name)
    opened = os.open

    def exchanged(path: Any, *arguments: Any, **options: Any) -> int:
        if path == "b":
            (inside / "a").rename(tmp_path / "before")
            (inside / "a").symlink_to(other)
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", exchanged)
    monkeypatch.setattr(os, "supports_dir_fd", {exchanged})
    assert read_bytes(inside / "a" / "b" / "c", at_most=9, inside=inside) == b"a"


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("name", STORES)
def test_a_hostile_store_is_not_sound(name: str, noted: bool, tmp_path: Path) -> None:
    store = stored(tmp_path)
    if not noted:
        shutil.rmtree(next(path for path in tmp_path.iterdir() if path != store))
    STORES[name](store)
    started = time.process_time()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        assert not verify(store).sound
    except ValueError as error:
        assert "is not a Zarr store" in str(error)
    assert time.process_time() - started < SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * PEAK < ROOM


@pytest.mark.parametrize("cell", [{}, [], {"experiment": 1, "method": "m", "training": {"seed": "first"}}])
def test_results_of_no_cell_are_not_packed(cell: Any, tmp_path: Path) -> None:
    records, base = Later("guardband.lab.studies.records"), Later("guardband.lab.studies.base")
    key = base.key_of(cell)
    (tmp_path / "cells").mkdir()
    result = records.sealed({"key": key, "cell": cell, "found": {}})
    (tmp_path / "cells" / f"{key}.json").write_text(result)
    with pytest.raises(records.DamagedResults, match="does not describe a cell of a study"):
        records.pack(tmp_path)


def test_an_array_that_is_named_often_is_read_once(tmp_path: Path) -> None:
    many(saved(tmp_path))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(gb.store.ArtifactError):
        gb.load(tmp_path)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * PEAK < 8 * 40e6 + ROOM


def test_levels_of_any_size_end_soon() -> None:
    made = gb.calibrate_arrays(np.zeros(20), np.arange(20.0))
    started = time.process_time()
    for level in ("1e-999999999", "1e999999999", "0." + "9" * 10**6, "1/" + "3" * 10**6, "nan", "1e-9e9"):
        with pytest.raises(ValueError, match="`level` should"):
            made.band(gb.Prediction(None, [0.0]), level)
    assert time.process_time() - started < SECONDS


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"12345")
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    assert read_bytes(path, at_most=5) == b"12345" == read_bytes(tmp_path / "link", at_most=5, follow=True)
    for name, text in (
        ("link", "is not a regular file"),
        ("pipe", "is not a regular file"),
        (".", "not a regular"),
    ):
        with pytest.raises(UnsafeFile, match=text):
            read_bytes(tmp_path / name, at_most=5)
    with pytest.raises(UnsafeFile, match="has 5 bytes, but the limit is 4"):
        read_bytes(path, at_most=4)
    hole(path, 2**30)
    with pytest.raises(UnsafeFile, match="nearly all of which are holes"):
        read_bytes(path, at_most=2**31)


def test_names_are_shown_escaped_and_cut(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('"\x1b[2Jx",u\n1,a\n1,\n')
    with pytest.raises(gb.tables.TableError) as caught:
        gb.tables.read(tmp_path / "t.csv")
    assert str(caught.value).isprintable()
    with pytest.raises(gb.tables.TableError) as caught:
        gb.tables.Table({"\x1b[2Jx": ["a"]}).matrix(["\x1b[2Jx"])
    assert r"`\x1b[2Jx`" in str(caught.value)
    assert shown("\x1b[2Jname") == r"'\x1b[2Jname'"
    assert len(shown("x" * 100_000)) < 100 and "digits" in shown(10**10_000)


def test_only_characters_that_are_not_shown_are_escaped() -> None:
    shown_as_they_are = "a\nb\u00a0c\\d 'µm²'"
    assert printable(shown_as_they_are) == shown_as_they_are
    assert printable(shown_as_they_are + "\x1b[2J") == shown_as_they_are + r"\x1b[2J"


def test_a_folder_is_not_written_over_unless_asked(tmp_path: Path) -> None:
    saved(tmp_path)
    with pytest.raises(FileExistsError, match="already holds a calibration"):
        saved(tmp_path)
    (tmp_path / "arrays-of-my-own.safetensors").write_text("mine")
    mine = f"arrays-{'0' * 16}.safetensors"
    (tmp_path / mine).write_text("mine too")
    other = gb.calibrate_arrays(np.zeros(9), np.arange(9.0))
    gb.save(other, tmp_path, overwrite=True)
    assert gb.load(tmp_path).n == 9
    assert {path.name for path in tmp_path.iterdir()} == {
        MANIFEST,
        arrays_of(tmp_path),
        mine,
        "arrays-of-my-own.safetensors",
    }


def arrays_of(folder: Path) -> str:
    return next(iter(gb.store.manifest(folder)["files"]))


def test_what_stopped_writers_left_is_taken_away(tmp_path: Path) -> None:
    saved(tmp_path)
    left = arrays(tmp_path).read_bytes()
    gb.save(gb.calibrate_arrays(np.zeros(9), np.arange(9.0)), tmp_path, overwrite=True)
    (tmp_path / ".manifest.json.abcd1234").write_text("{")
    (tmp_path / f"arrays-{versions.sha256_of(left)[:16]}.safetensors").write_bytes(left)
    gb.save(gb.calibrate_arrays(np.zeros(8), np.arange(8.0)), tmp_path, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [arrays_of(tmp_path), MANIFEST]


def crowd(folder: Path, saves: int, loads: int, writers: int = 2, readers: int = 4) -> None:
    """With concurrent writers and readers, each load is of one version, and no file is left."""
    made = [gb.calibrate_arrays(np.zeros(20 + k), np.arange(20.0 + k)) for k in range(writers)]
    gb.save(made[0], folder)
    failed: list[BaseException] = []

    def run(task: Callable[[], Any], times: int) -> None:
        try:
            for _ in range(times):
                task()
        except BaseException as error:
            failed.append(error)

    def look() -> None:
        assert 20 <= gb.load(folder).n < 20 + writers

    tasks: list[tuple[Callable[[], Any], int]] = [(look, loads // readers)] * readers
    tasks += [(lambda one=one: gb.save(one, folder, overwrite=True), saves // writers) for one in made]
    threads = [threading.Thread(target=run, args=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]
    assert sorted(path.name for path in folder.iterdir()) == [arrays_of(folder), MANIFEST]


def test_writers_and_readers_at_once(tmp_path: Path) -> None:
    crowd(tmp_path, 40, 80)


@pytest.mark.long
def test_many_writers_and_readers_at_once(tmp_path: Path) -> None:
    crowd(tmp_path, 1000, 5000)


def names(path: Path) -> set[str]:
    """The tests of a file, and its classes."""
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_every_test_that_is_named_is_there() -> None:
    known: set[str] = set()
    found = re.findall(r"`(tests/test_\w+\.py)?(?:::(\w+))?`", PAGE)
    rows = [(file, test) for file, test in found if file or test]
    assert len(rows) > 15
    for file, test in rows:
        known = names(ROOT / file) if file else known
        assert not test or test in known, test


def test_no_room_reads_a_pickle_or_runs_what_it_reads() -> None:
    words = r"^\s*(import|from) (pickle|marshal|shelve|dill)\b|(?<![.\w])(eval|exec)\(|pickle\.loads?\("
    for path in SOURCES:
        assert not re.search(words, path.read_text(), flags=re.MULTILINE), path.name
