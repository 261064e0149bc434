"""Untrusted stores and NetCDF files: unsafe metadata are refused before anything is decoded."""

import bz2
import gzip
import json
import os
import pickle
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.base import netcdf
from guardband.fields import metadata, reading
from helpers import Later, needs

xarray, zarr, numcodecs, h5py = Later("xarray"), Later("zarr"), Later("numcodecs"), Later("h5py")
resource = pytest.importorskip("resource", reason="links, pipes and holes are those of POSIX")
pytestmark = [
    needs("xarray", "zarr", "h5netcdf"),
    pytest.mark.filterwarnings("ignore:Consolidated metadata", "ignore:The data type"),
]
SECONDS, ROOM = 2.0, 200 * 2**20
"""Limits of CPU time and memory for a hostile store, beyond those of a process with all imports."""
SHAPE, CHUNKS = (12, 4, 4), (3, 4, 4)


def dataset() -> Any:
    a = np.random.default_rng(0).normal(size=SHAPE)
    dims = ("field", "x", "y")
    return xarray.Dataset({"a": (dims, a), "u": (dims, np.sin(a))}, coords={"x": np.arange(4.0)})


def sound(path: Path, version: int = 3, **encoding: Any) -> Path:
    each = {"chunks": CHUNKS, **encoding}
    dataset().to_zarr(path, zarr_format=version, encoding={"a": each, "u": each})
    return path


def fields(path: Path, **options: Any) -> gb.StoredFields:
    return gb.StoredFields(path, x="a", y="u", **options)


def read(path: Path, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    found = fields(path, **options)
    return found.inputs(slice(None)), found.targets(slice(None)).values


def edited(file: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    about = json.loads(file.read_text())
    edit(about)
    file.write_text(json.dumps(about))


def forged(name: str, edit: Callable[[dict[str, Any]], Any], version: int = 3) -> Callable[[Path], Any]:
    """A store with forged metadata of one array, and consistent metadata of the root."""

    def make(path: Path) -> None:
        sound(path, version)
        edited(path / name / ("zarr.json" if version == 3 else ".zarray"), edit)
        if version == 3:
            edited(path / "zarr.json", lambda root: root.pop("consolidated_metadata"))
        else:
            (path / ".zmetadata").unlink()

    return make


def instead(key: str, make: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def attack(path: Path) -> None:
        sound(path)
        (path / key).unlink()
        make(path / key)

    return attack


CANARY = "canary"


class Harm:
    """An object whose unpickling creates a file in the current folder."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (CANARY, "w")


def pickled(path: Path) -> None:
    """An index of objects with a second filter that unpickles data."""
    sound(path, 2)
    (path / ".zmetadata").unlink()
    (path / "field").mkdir(exist_ok=True)
    about = {
        "zarr_format": 2,
        "shape": [12],
        "chunks": [12],
        "dtype": "|O",
        "fill_value": None,
        "order": "C",
        "compressor": None,
        "filters": [{"id": "vlen-utf8"}, {"id": "pickle", "protocol": 4}],
    }
    (path / "field" / ".zarray").write_text(json.dumps(about))
    (path / "field" / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["field"]}')
    (path / "field" / "0").write_bytes(pickle.dumps(Harm()))


def elsewhere(path: Path) -> None:
    sound(path)
    (path / "u" / "c").rename(path.parent / "c")
    (path / "u" / "c").symlink_to(path.parent / "c")


def bomb(codec: str, data: bytes) -> Callable[[Path], Any]:
    """A chunk that unpacks to far more than its declared size."""

    def make(path: Path) -> None:
        forged("u", lambda about: about.update(compressor={"id": codec}, filters=None), 2)(path)
        for chunk in (path / "u").glob("[0-9]*"):
            chunk.write_bytes(data)

    return make


def hdf5(make: Callable[[Any], Any]) -> Callable[[Path], Any]:
    def attack(path: Path) -> None:
        a = xarray.Dataset({"a": (("field", "x", "y"), np.ones((4, 3, 3)))})
        a.to_netcdf(path, engine="h5netcdf")
        with h5py.File(path, "r+") as file:
            make(file)
            if isinstance(file.get("u", getlink=True), h5py.HardLink) and file["u"].shape == (4, 3, 3):
                for j, name in enumerate(("field", "x", "y")):
                    file["u"].dims[j].attach_scale(file[name])

    return attack


def virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((4, 3, 3), "f8")
    layout[:] = h5py.VirtualSource("/etc/hostname", "x", (4, 3, 3))
    file.create_virtual_dataset("u", layout)


def claiming(name: str, shape: list[int], chunks: list[int]) -> Callable[[Path], Any]:
    """A store with an array of this shape without any chunk."""

    def edit(about: dict[str, Any]) -> None:
        about.update(shape=shape)
        if len(shape) > 1:
            about.update(dimension_names=["field", "p", "q"])
        about["chunk_grid"]["configuration"].update(chunk_shape=chunks)

    def make(path: Path) -> None:
        forged(name, edit)(path)
        shutil.rmtree(path / name / "c")

    return make


def codecs(*names: str) -> Callable[[dict[str, Any]], Any]:
    return lambda about: about.update(codecs=[{"name": name, "configuration": {}} for name in names])


def filters(*settings: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda about: about.update(filters=list(settings))


def gathered(edit: Callable[[dict[str, Any]], Any]) -> Callable[[Path], Any]:
    """A store whose consolidated metadata are forged."""

    def make(path: Path) -> None:
        sound(path)
        edited(path / "zarr.json", lambda root: edit(root["consolidated_metadata"]["metadata"]))

    return make


def swollen(path: Path) -> None:
    """A chunk of the size of its array in 8 times the bytes, which only few filters need."""
    forged("u", lambda about: about.update(compressor={"id": "gzip", "level": 1}, filters=None), 2)(path)
    for chunk in (path / "u").glob("[0-9]*"):
        chunk.write_bytes(gzip.compress(bytes(8 * 3 * 4 * 4 * 8 + 2**17)))


def words(path: Path) -> None:
    """A coordinate of 2^20 short words, each a Python object in an index."""
    sound(path, 2)
    (path / ".zmetadata").unlink()
    about = json.loads((path / "x" / ".zarray").read_text())
    about.update(shape=[2**20], chunks=[2**20], dtype="<U4", fill_value=None, compressor=None, filters=None)
    (path / "field").mkdir()
    (path / "field" / ".zarray").write_text(json.dumps(about))
    (path / "field" / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["field"]}')


def note(path: Path, i: int) -> None:
    """Attributes of a group of a megabyte."""
    (path / f"g{i}").mkdir()
    (path / f"g{i}" / ".zgroup").write_text('{"zarr_format": 2}')
    (path / f"g{i}" / ".zattrs").write_text('{"a": [' + "[]," * 480_000 + "[]]}")


HUGE = b"\x02\x01\x21\x08" + (2**31 - 1).to_bytes(4, "little") + (64).to_bytes(4, "little")
STORES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "pickle in second place": (pickled, "`field`: values should be numbers.*'|O'"),
    "a filter that unpickles": (
        forged("u", filters({"id": "delta", "dtype": "<f8"}, {"id": "pickle"}), 2),
        "codecs should be among .*'pickle'",
    ),
    "a filter for objects": (
        forged("u", filters({"id": "delta", "dtype": "|O"}), 2),
        "'|O'",
    ),
    "an unknown codec": (forged("u", codecs("bytes", "numcodecs.pickle")), "'numcodecs.pickle'"),
    "two compressors": (forged("u", codecs("bytes", "gzip", "zstd")), "one compressor"),
    "objects of format 3": (forged("u", lambda about: about.update(data_type="string")), "'string'"),
    "an absurd shape": (
        forged("u", lambda about: about.update(shape=[10**9, 10**9, 10**9])),
        "at most .* bytes",
    ),
    "a negative shape": (forged("u", lambda about: about.update(shape=[-1, 4, 4])), "nonnegative integers"),
    "80 GiB of nothing": (claiming("u", [12, 10**5, 10**4], [1, 1000, 1000]), "are read at once"),
    "a million chunks at once": (claiming("u", [12, 1000, 1000], [12, 1, 1]), "in 1000000 chunks"),
    "a coordinate of many chunks": (claiming("x", [10**6], [1]), "at most 67108864 bytes and 10000 chunks"),
    "chunks at the limit": (
        claiming("u", [12, 100, 100], [12, 1, 1]),
        "10000 of the 10000 requested chunks of `u` are absent",
    ),
    "a unit of time that is none": (
        forged("x", lambda a: a["attributes"].update(units="days since the flood")),
        "unable to decode|cannot be opened",
    ),
    "9 GiB of nothing": (
        claiming("u", [12, 10**4, 10**4], [1, 1000, 1000]),
        "1200 of the 1200 requested chunks of `u` are absent",
    ),
    "an absurd chunk": (
        forged("u", lambda a: a["chunk_grid"]["configuration"].update(chunk_shape=[10**6, 10**6, 4])),
        "bytes per chunk",
    ),
    "a chunk of nothing": (
        forged("u", lambda a: a["chunk_grid"]["configuration"].update(chunk_shape=[12, 4000, 4000])),
        "are too large for the shape",
    ),
    "many chunks larger than their array": (
        forged("u", lambda a: a["chunk_grid"]["configuration"].update(chunk_shape=[1, 2000, 2000])),
        "bytes would be read beyond its end",
    ),
    "a chunk that unpacks to eight times its size": (swollen, "unpacks to more than"),
    "a large coordinate of words": (words, "the coordinate `field` should have at most"),
    "many large attributes": (
        lambda path: [note(sound(path, 2) if not i else path, i) for i in range(21)],
        "entries in its metadata, got 20",
    ),
    **{
        f"an absurd {name}": (
            forged("x", lambda about, name=name, value=value: about["attributes"].update({name: value})),
            f"the attribute `{name}` should have at most 1000 characters",
        )
        for name, value in (("units", "days since " + "1" * 400_000), ("missing_value", [*range(100_000)]))
    },
    "an absurd list of coordinates": (
        lambda path: edited(
            sound(path) / "zarr.json", lambda a: a["attributes"].update(coordinates="x " * 10**6)
        ),
        "the attribute `coordinates` should have at most 1000",
    ),
    "a dimension with control characters": (
        forged("u", lambda about: about.update(dimension_names=["field", "\x1b[2J", "y"])),
        r"printable names, got '\\x1b",
    ),
    "an absurd unit.nc": (
        hdf5(lambda file: file["a"].attrs.update(units="days since " + "1" * 60_000)),
        "the attribute `units` should have at most 1000 characters, got 60011",
    ),
    "a name with control characters": (
        lambda path: (sound(path) / "\x1b[2J").mkdir(),
        r"printable names, got '\\x1b",
    ),
    "control characters in the consolidated metadata": (
        gathered(lambda nodes: nodes.update({"\x1b[2J": nodes["u"]})),
        r"differ from those of \\x1b\[2J/zarr.json",
    ),
    "a million dimensions": (forged("u", lambda a: a.update(shape=[1] * 10**5)), "at most 32 numbers"),
    "brackets": (instead("u/zarr.json", lambda file: file.write_text("[" * 200_000)), "cannot be read"),
    "metadata that are a hole": (
        instead("u/zarr.json", lambda file: (file.touch(), os.truncate(file, 2**40))),
        "bytes, but the limit is",
    ),
    "chunks that are a link": (elsewhere, "contains a link"),
    "a chunk that is a link": (
        instead("u/c/0/0/0", lambda file: file.symlink_to("/dev/zero")),
        "contains a link",
    ),
    "a chunk that is a pipe": (instead("u/c/0/0/0", os.mkfifo), "not a regular file"),
    "a chunk that is long": (
        instead("u/c/0/0/0", lambda file: file.write_bytes(bytes(2**22))),
        "bytes, but the limit is",
    ),
    "metadata that are a pipe": (instead("u/zarr.json", os.mkfifo), "not a regular file"),
    "other consolidated metadata": (
        gathered(lambda nodes: nodes["u"]["attributes"].update(scale_factor=3.0)),
        "consolidated metadata differ from those of u/zarr.json",
    ),
    "consolidated metadata of another array": (
        gathered(lambda nodes: nodes.update(v=nodes["u"])),
        "consolidated metadata differ from those of v/zarr.json",
    ),
    "a large coordinate": (
        claiming("x", [10**9], [10**6]),
        "the coordinate `x` should have at most",
    ),
    "a gzip bomb": (bomb("gzip", gzip.compress(bytes(2**26), 1)), "unpacks to more"),
    "a zlib bomb": (bomb("zlib", zlib.compress(bytes(2**26), 1)), "unpacks to more"),
    "a bz2 bomb": (bomb("bz2", bz2.compress(bytes(2**24)) * 16), "unpacks to more"),
    "a blosc bomb": (bomb("blosc", HUGE + (64).to_bytes(4, "little") + bytes(48)), "unpacks to more"),
    "an lz4 bomb": (bomb("lz4", (2**31 - 1).to_bytes(4, "little") + bytes(64)), "unpacks to more"),
    "a zstd bomb": (
        bomb("zstd", bytes.fromhex("28b52ffd") + bytes([0xA0]) + (2**31).to_bytes(4, "little") + bytes(9)),
        "unpacks to more",
    ),
    "a zstd bomb of unknown size": (
        bomb("zstd", bytes.fromhex("28b52ffd0058") + bytes.fromhex("0200100000") * 10**4),
        "unpacks to more",
    ),
    "a link to another file.nc": (
        hdf5(lambda file: file.__setitem__("u", h5py.ExternalLink("/etc/hostname", "/x"))),
        "should be in the file itself, but is a link",
    ),
    "a view of another file.nc": (hdf5(virtual), "should be in the file itself, but is in another"),
    "raw bytes of another file.nc": (
        hdf5(lambda file: file.create_dataset("u", (4, 3, 3), "f8", external=[("/dev/zero", 0, 288)])),
        "should be in the file itself, but is in another",
    ),
    "80 GiB of nothing.nc": (
        hdf5(lambda file: file.create_dataset("u", (4, 10**5, 25_000), "f8", chunks=(1, 100, 100))),
        "claims to unpack to",
    ),
    "absent chunks.nc": (
        hdf5(lambda file: file.create_dataset("u", (4, 3, 3), "f8", chunks=(1, 3, 3))),
        "4 of 4 chunks of `u` are absent, and would be read as 0.0",
    ),
    "neither.nc": (lambda path: path.write_bytes(b"GRIB"), "neither a Zarr store nor a NetCDF file"),
    "a pipe.nc": (os.mkfifo, "not a regular file"),
}
"""Hostile stores and files, with their error messages."""


@pytest.mark.parametrize("name", STORES)
def test_a_hostile_store_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, said = STORES[name]
    monkeypatch.chdir(tmp_path)
    make(tmp_path / name)
    pytest.importorskip("h5netcdf")
    read(sound(tmp_path / "sound"))  # imports
    started, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=said) as caught:
        read(tmp_path / name)
    assert time.process_time() - started < SECONDS and len(str(caught.value)) < 500 + 2 * len(str(tmp_path))
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < ROOM
    assert not (tmp_path / CANARY).exists()


READER = """
import json, resource, sys
import guardband as gb

def used():
    here, there = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return here.ru_utime + here.ru_stime + there.ru_utime + there.ru_stime, here.ru_maxrss, there.ru_maxrss

def read(path):
    fields = gb.StoredFields(path, x="a", y="u")
    return fields.inputs(slice(None)), fields.targets(slice(None))

read(sys.argv[1])
start = used()
read(sys.argv[1])
usual = used()
try:
    read(sys.argv[2])
    found = "read"
except ValueError as error:
    found = str(error)
after = used()
seconds = after[0] - usual[0] - (usual[0] - start[0])
print(json.dumps([found, seconds, 1024 * max(after[1] - usual[1], after[2] - usual[2])]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", STORES)
def test_a_hostile_store_takes_little_time_and_memory(name: str, tmp_path: Path) -> None:
    """Measured in a separate process, beyond the cost of an intact store or file of the same kind."""
    make, _ = STORES[name]
    make(tmp_path / name)
    usual = tmp_path / ("usual.nc" if name.endswith(".nc") else "usual.zarr")
    if name.endswith(".nc"):
        dataset().to_netcdf(usual, engine="h5netcdf")
    else:
        sound(usual)
    command = [sys.executable, "-c", READER, str(usual), str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path)
    found, seconds, memory = json.loads(done.stdout)
    print(f"{name}: {seconds:.2f} CPU s, {memory / 2**20:.0f} MiB: {found[-100:]}")
    assert found != "read" and seconds < SECONDS and memory < ROOM
    assert not (tmp_path / CANARY).exists()


CHAINS: dict[str, dict[str, Any]] = {
    "as xarray writes it": {},
    "format 2": {"version": 2},
    "no compression": {"compressors": None},
    "shards": {"shards": (6, 4, 4)},
}


@pytest.mark.parametrize("name", CHAINS)
def test_sound_stores_are_read(name: str, tmp_path: Path) -> None:
    sound(tmp_path / "f.zarr", **CHAINS[name])
    x, y = read(tmp_path / "f.zarr")
    expected = dataset()
    assert np.array_equal(x, expected["a"]) and np.array_equal(y[..., 0], expected["u"])


@pytest.mark.parametrize(
    "codec", ["gzip", "zlib", "bz2", "zstd", "lz4", "blosc", "shuffle", "delta", "crc32c"]
)
def test_the_codecs_on_the_list_are_read(codec: str, tmp_path: Path) -> None:
    """Numbers of few bits, which can be compressed."""
    values = np.arange(12.0).repeat(16).reshape(SHAPE)
    group = zarr.open_group(tmp_path / "f.zarr", mode="w", zarr_format=2)
    filters = {
        "shuffle": [numcodecs.Shuffle(8)],
        "delta": [numcodecs.Delta("<f8")],
        "crc32c": [numcodecs.Zlib(), numcodecs.checksum32.CRC32C()],
    }
    made = numcodecs.registry.get_codec({"id": codec}) if codec not in filters else None
    for name in ("a", "u"):
        array = group.create_array(
            name, shape=SHAPE, chunks=CHUNKS, dtype="f8", compressors=made, filters=filters.get(codec)
        )
        array[...] = values + 1
        array.attrs["_ARRAY_DIMENSIONS"] = ["field", "x", "y"]
    assert np.array_equal(read(tmp_path / "f.zarr", missing="fill")[0], values + 1)


@pytest.mark.parametrize(("codec", "level"), [("blosc", None), ("gzip", 1), ("zstd", 3)])
def test_unpacked_sizes_are_those_of_the_codecs(codec: str, level: int | None) -> None:
    data = np.random.default_rng(0).integers(0, 5, 300_000).astype("u1").tobytes()
    made = numcodecs.registry.get_codec({"id": codec} | ({"level": level} if level else {}))
    packed = bytes(made.encode(data))
    assert reading.fits(codec, packed, len(data)) and reading.fits(codec, packed, 2**20)
    assert not reading.fits(codec, packed, len(data) - 1)


def test_zstd_frames_are_unpacked_in_bounded_memory_whatever_they_declare() -> None:
    """Frames need not declare a size, as with TensorStore, and further frames may follow."""
    block = (3 << 3 | 1 | 1 << 1).to_bytes(3, "little")  # the last one: a byte three times
    undeclared = bytes.fromhex("28b52ffd0058") + block + b"a"
    declared = bytes(numcodecs.Zstd().encode(b"7" * 1000))
    assert bytes(numcodecs.Zstd().decode(undeclared)) == b"aaa"
    for frame, size in ((undeclared, 3), (declared, 1000), (undeclared + declared, 1003)):
        assert [reading.fits("zstd", frame, most) for most in (size - 1, size, size + 1)] == [0, 1, 1]
    assert not reading.fits("zstd", b"none", 10**6)


@pytest.mark.parametrize("shards", [None, (6, 4, 4)])
@pytest.mark.parametrize("fill", [0.0, np.nan])
def test_absent_chunks_are_counted_and_not_read_as_values(fill: float, shards: Any, tmp_path: Path) -> None:
    """zarr omits chunks that equal their fill value, also inside shards."""
    group = zarr.open_group(tmp_path / "f.zarr", mode="w")
    expected = dataset()["u"].values
    expected[3:6] = fill
    for name in ("a", "u"):
        array = group.create_array(
            name,
            shape=SHAPE,
            chunks=CHUNKS,
            shards=shards,
            dtype="f8",
            fill_value=fill,
            dimension_names=("field", "x", "y"),
        )
        array[...] = dataset()["a"].values if name == "a" else expected
    count = "1 of the 4 requested chunks of `u`"
    said = "would be read as 0.0" if fill == 0 else "their values are missing"
    with pytest.raises(ValueError, match=f"{count} are absent.*{said}"):
        read(tmp_path / "f.zarr")
    complete = fields(tmp_path / "f.zarr")[6:]
    assert np.array_equal(complete.targets(slice(None)).values[..., 0], expected[6:])
    if fill == 0:
        assert np.array_equal(read(tmp_path / "f.zarr", missing="fill")[1][..., 0], expected)
    else:
        with pytest.raises(ValueError, match="u of fields 0 to 11"):
            read(tmp_path / "f.zarr", missing="fill")


def test_chunks_beyond_the_end_of_an_array_may_be_absent_from_a_shard(tmp_path: Path) -> None:
    sound(tmp_path / "f.zarr", shards=(9, 4, 4))
    assert np.array_equal(read(tmp_path / "f.zarr")[0], dataset()["a"])


def test_fill_values_of_format_2_are_values_if_they_are_asked_for(tmp_path: Path) -> None:
    """xarray would otherwise mask every zero."""
    group = zarr.open_group(tmp_path / "f.zarr", mode="w", zarr_format=2)
    for name in ("a", "u"):
        array = group.create_array(name, shape=SHAPE, chunks=CHUNKS, dtype="f8", fill_value=0.0)
        array[3:] = 1.0
        array.attrs["_ARRAY_DIMENSIONS"] = ["field", "x", "y"]
    with pytest.raises(ValueError, match="1 of the 4 requested chunks of `a` are absent"):
        read(tmp_path / "f.zarr")
    assert read(tmp_path / "f.zarr", missing="fill")[0].sum() == 9 * 16


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "\x1b[2J"])
def test_paths_that_no_file_has_are_refused_in_words(name: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match="path of a Zarr store or") as caught:
        gb.StoredFields(name, x="a")
    assert str(caught.value).isprintable() and "codec" not in str(caught.value)


def test_errors_of_other_libraries_name_the_path(tmp_path: Path) -> None:
    STORES["a unit of time that is none"][0](tmp_path / "f.zarr")
    with pytest.raises(ValueError, match=f"{tmp_path}/f.zarr cannot be opened: .*unable to decode"):
        read(tmp_path / "f.zarr")


def test_missing_is_one_of_two_words(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`missing` should be 'refuse' or 'fill', got 'zero'"):
        fields(sound(tmp_path / "f.zarr"), missing="zero")


def test_arrays_that_nobody_needs_may_be_of_any_kind(tmp_path: Path) -> None:
    sound(tmp_path / "f.zarr")
    other = tmp_path / "f.zarr" / "label"
    other.mkdir()
    about = json.loads((tmp_path / "f.zarr" / "u" / "zarr.json").read_text()) | {"data_type": "string"}
    (other / "zarr.json").write_text(json.dumps(about))
    edited(tmp_path / "f.zarr" / "zarr.json", lambda root: root.pop("consolidated_metadata"))
    assert read(tmp_path / "f.zarr")[0].shape == SHAPE
    with pytest.raises(ValueError, match="`x` should be one of the variables a, label, u, x, got 'b'"):
        gb.StoredFields(tmp_path / "f.zarr", x="b")


def test_groups_inside_a_store_are_not_read(tmp_path: Path) -> None:
    sound(tmp_path / "f.zarr")
    group = zarr.open_group(tmp_path / "f.zarr", mode="r+", use_consolidated=False)
    group.create_group("g").create_array("deep", shape=(3,), dtype="f8")
    zarr.consolidate_metadata(tmp_path / "f.zarr")
    assert read(tmp_path / "f.zarr")[0].shape == SHAPE


@pytest.mark.parametrize("engine", ["h5netcdf", "scipy"])
def test_a_sound_netcdf_is_read(engine: str, tmp_path: Path) -> None:
    dataset().to_netcdf(tmp_path / "f.nc", engine=engine)
    assert np.array_equal(read(tmp_path / "f.nc")[0], dataset()["a"])
    with pytest.raises(ValueError, match="`x` should be one of the variables a, u, x, got 'b'"):
        gb.StoredFields(tmp_path / "f.nc", x="b")


def test_absent_chunks_of_a_netcdf_are_read_if_they_are_asked_for(tmp_path: Path) -> None:
    STORES["absent chunks.nc"][0](tmp_path / "f.nc")
    found = netcdf.inspected(tmp_path / "f.nc", limited=False)
    assert found["absent"] == {"u": (4, 4, "0.0")}
    made = fields(tmp_path / "f.nc", missing="fill")
    assert not made.targets(slice(None)).values.any()


@pytest.mark.parametrize("name", [name for name in STORES if name.endswith("file.nc")])
def test_a_netcdf_is_looked_through(name: str, tmp_path: Path) -> None:
    """Read in this process, whereas `StoredFields` starts another one."""
    STORES[name][0](tmp_path / "f.nc")
    with pytest.raises(ValueError, match=STORES[name][1]):
        netcdf.inspected(tmp_path / "f.nc", limited=False)


def test_scores_are_not_resumed_in_a_hostile_store(tmp_path: Path) -> None:
    source = fields(sound(tmp_path / "f.zarr"))
    calibrate = gb.calibrate
    made = calibrate(lambda a: np.sin(a)[..., None], source, scores=tmp_path / "s.zarr", progress=False)
    assert made.n == 12
    edited(tmp_path / "s.zarr/score/zarr.json", lambda about: about.update(data_type="string"))
    for notes in tmp_path.glob("s.zarr.notes/store.json"):
        notes.unlink()
    edited(tmp_path / "s.zarr/zarr.json", lambda root: root.pop("consolidated_metadata"))
    with pytest.raises(ValueError, match="`score`: values should be numbers"):
        calibrate(lambda a: np.sin(a)[..., None], source, scores=tmp_path / "s.zarr", progress=False)


def test_shards_of_scores_are_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "s.npy")
    with pytest.raises(OSError, match="is not a regular file"):
        gb.conformal.order_statistics([tmp_path / "s.npy"], [1])


@pytest.mark.slow
def test_a_store_of_many_chunks_opens_soon(tmp_path: Path) -> None:
    """Opening reads only metadata, for any number of chunks."""
    group = zarr.open_group(tmp_path / "f.zarr", mode="w")
    for name in ("a", "u"):
        group.create_array(
            name, shape=(10**5, 2, 2), chunks=(1, 2, 2), dtype="f4", dimension_names=("field", "x", "y")
        )
        (tmp_path / "f.zarr" / name / "c").mkdir()
    read(sound(tmp_path / "usual.zarr"))
    started = time.process_time()
    made = fields(tmp_path / "f.zarr")
    assert time.process_time() - started < 0.5 and len(made) == 10**5
    with pytest.raises(ValueError, match="1 of the 1 requested chunks of `a` are absent"):
        made.inputs(slice(1))
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize("entry", [(0, 0), (2**64 - 1, 0), (5, 2**64 - 1)])
def test_an_index_of_a_shard_places_every_chunk(entry: tuple[int, int]) -> None:
    """zarr reads a chunk with an empty index entry as its fill value."""
    shard = metadata.Array("u", (6, 4), (6, 4), 8, inner=(3, 4), fill=0.0)
    index = np.array([entry, (96, 96)], "<u8").tobytes()
    with pytest.raises(ValueError, match="invalid chunk positions"):
        reading._index(shard, "u/c/0/0", index)
    assert reading._index(shard, "u/c/0/0", np.array([(0, 96), (96, 96)], "<u8").tobytes())[0] == 0
