"""Stores on disk: every reader detects a changed bit, `verify` names it, and the same call repairs it."""

import hashlib
import json
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb

pytest.importorskip("zarr")

from guardband.fields import StoreCheck, store, verify

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata")
AXES = {"x": np.linspace(0, 1, 12), "y": np.linspace(0, 1, 10)}
CAL = np.random.default_rng(0).uniform(size=(60, 2))


def model(x: np.ndarray) -> np.ndarray:
    return np.sin(3 * x[:, :1]) + x[:, 1:]


CALIBRATED = gb.calibrate(model, CAL, model(CAL) + 0.1 * np.cos(50 * CAL[:, :1]))


def field(**options: Any) -> gb.fields.FieldBand:
    return gb.band_over(CALIBRATED, AXES, **{"levels": 0.9, "chunk": 40, **options})


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return field().to_zarr(tmp_path_factory.mktemp("whole") / "f.zarr", batch=64, progress=False)


@pytest.fixture
def path(written: Path, tmp_path: Path) -> Path:
    """A copy of a finished store with its notes."""
    shutil.copytree(store.notes_of(written), store.notes_of(tmp_path / "f.zarr"))
    return shutil.copytree(written, tmp_path / "f.zarr")


def content(path: Path) -> dict[str, str]:
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def chunks(path: Path) -> list[str]:
    return [file for file in content(path) if "/c/" in file]


def flip(file: Path, generator: random.Random) -> None:
    data = bytearray(file.read_bytes())
    bit = generator.randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)


def names(check: StoreCheck) -> set[str]:
    return {*check.damaged, *check.missing}


def plain_reader_notices(path: Path, variable: str) -> bool:
    import xarray

    try:
        with xarray.open_zarr(path) as opened:
            opened[variable].values  # noqa: B018
    except Exception:
        return True
    return False


def seen(path: Path) -> Any:
    """The attributes and the bits of all values that xarray reads from a store."""
    import xarray

    try:
        with xarray.open_zarr(path) as opened:
            found = {name: (v.dims, v.attrs, v.values.tobytes()) for name, v in opened.variables.items()}
            return json.dumps([opened.attrs, repr(sorted(found.items(), key=str))])
    except Exception:
        return None


def flipped_bits_anywhere(path: Path, flips: int) -> None:
    """Damage in chunks, in metadata of arrays, and in those of the store, which other programs read first."""
    generator, files = random.Random(1), list(content(path))
    whole, harmless = seen(path), 0
    for turn in range(flips):
        name = "zarr.json" if turn % 4 == 0 else generator.choice(files)
        before = (path / name).read_bytes()
        flip(path / name, generator)
        try:
            found = names(verify(path))
        except ValueError as error:
            found = {"zarr.json"} & {word for word in ("zarr.json",) if word in str(error)}
        assert found == {name} or (not found and seen(path) == whole), name
        harmless += not found
        (path / name).write_bytes(before)
    assert harmless < flips / 4 and verify(path).sound


def test_forty_flipped_bits_are_named_or_harmless(path: Path) -> None:
    flipped_bits_anywhere(path, 40)


@pytest.mark.slow
def test_three_hundred_flipped_bits_anywhere_are_named_or_harmless(path: Path) -> None:
    flipped_bits_anywhere(path, 300)


FORGERIES: dict[str, tuple[str, Any]] = {
    "an attribute of an array": (
        "mean/zarr.json",
        lambda about: about["attributes"].update(scale_factor=3.0),
    ),
    "the same for xarray, which reads the root first": (
        "zarr.json",
        lambda about: about["consolidated_metadata"]["metadata"]["mean"]["attributes"].update(
            scale_factor=3.0
        ),
    ),
    "an attribute of the store": ("zarr.json", lambda about: about["attributes"].update(title="another")),
    "a number as a word": ("zarr.json", lambda about: about["attributes"].update(batch=64.0)),
    "whether it is complete": ("zarr.json", lambda about: about["attributes"].update(complete="maybe")),
    "something else in the root": ("zarr.json", lambda about: about.update(extra=1)),
    "a variable that only the root has": (
        "zarr.json",
        lambda about: about["consolidated_metadata"]["metadata"].update(
            more=about["consolidated_metadata"]["metadata"]["mean"]
        ),
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_metadata_are_named_and_repaired(name: str, path: Path) -> None:
    file, edit = FORGERIES[name]
    whole = seen(path)
    about = json.loads((path / file).read_text())
    edit(about)
    (path / file).write_text(json.dumps(about))
    assert names(verify(path)) == {file}
    field().to_zarr(path, progress=False)
    assert verify(path).sound and seen(path) == whole


def test_an_array_that_no_note_knows_is_named(path: Path) -> None:
    shutil.copytree(path / "mean", path / "more")
    assert names(verify(path)) == {"more/zarr.json"}


def test_metadata_that_disagree_are_named_without_notes_too(path: Path) -> None:
    shutil.rmtree(store.notes_of(path))
    about = json.loads((path / "zarr.json").read_text())
    about["consolidated_metadata"]["metadata"]["mean"]["attributes"]["scale_factor"] = 3.0
    (path / "zarr.json").write_text(json.dumps(about))
    found = verify(path)
    assert found.damaged == ("zarr.json",) and not found.compared
    assert "The note on attributes and metadata is missing" in str(found)


def flipped_bits(path: Path, flips: int) -> None:
    generator, files = random.Random(0), chunks(path)
    for _ in range(flips):
        name = generator.choice(files)
        before = (path / name).read_bytes()
        flip(path / name, generator)
        assert plain_reader_notices(path, name.split("/")[0]), name
        assert names(verify(path)) == {name}
        (path / name).write_bytes(before)


def test_a_flipped_bit_is_noticed_by_plain_xarray_and_named(path: Path) -> None:
    flipped_bits(path, 5)


@pytest.mark.long
def test_three_hundred_flipped_bits_are_noticed_and_named(path: Path) -> None:
    flipped_bits(path, 300)


def test_every_array_ends_its_chunks_with_a_checksum(path: Path) -> None:
    import zarr

    for name, array in zarr.open_group(path, mode="r").arrays():
        assert array.metadata.to_dict()["codecs"][-1]["name"] == "crc32c", name  # type: ignore[index]


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes and symbolic links")
@pytest.mark.parametrize("kind", ["flipped", "cut", "empty", "gone", "a link", "a pipe"])
def test_the_same_call_repairs_exactly_what_is_damaged(
    path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = content(path)
    hurt = ["mean/c/1/0", "upper_0.9/c/2/0"]
    for name in hurt:
        file = path / name
        data = file.read_bytes()
        if kind == "flipped":
            flip(file, random.Random(1))
        elif kind in ("cut", "empty"):
            file.write_bytes(data[:-3] if kind == "cut" else b"")
        else:
            file.unlink()
        if kind == "a link":
            file.symlink_to(path / "mean/c/0/0")
        elif kind == "a pipe":
            os.mkfifo(file)
    found = verify(path)
    assert set(found.missing if kind == "gone" else found.damaged) == set(hurt) == names(found)
    assert f"{hurt[0]} is {'missing' if kind == 'gone' else 'damaged'}." in str(found)
    computed: list[Any] = []
    original = gb.fields.FieldBand.compute

    def counted(self: gb.fields.FieldBand, region: Any = None, *, batch: int = 0) -> dict[str, np.ndarray]:
        if batch:
            computed.append(tuple(part.start for part in region))
        return original(self, region)

    monkeypatch.setattr(gb.fields.FieldBand, "compute", counted)
    field().to_zarr(path, progress=False)
    assert computed == [(4, 0), (8, 0)]
    assert content(path) == whole and verify(path).sound


@pytest.mark.parametrize(
    "name", ["x/c/0", "x/zarr.json", "mean/zarr.json", "upper_0.9/zarr.json", "zarr.json"]
)
@pytest.mark.parametrize("gone", [False, True])
def test_coordinates_and_metadata_are_named_and_repaired_too(path: Path, name: str, gone: bool) -> None:
    whole = content(path)
    if gone:
        (path / name).unlink()
    else:
        (path / name).write_bytes((path / name).read_bytes().replace(b"0", b"1"))
    found = verify(path)
    assert (found.missing if gone else found.damaged) == (name,) and not found.sound
    field().to_zarr(path, progress=False)
    assert verify(path).sound
    assert {file for file, known in content(path).items() if whole.get(file) != known} <= {"zarr.json"}


def test_without_notes_checksums_tell(path: Path) -> None:
    shutil.rmtree(store.notes_of(path))
    assert verify(path).sound
    flip(path / "mean/c/1/0", random.Random(2))
    (path / "y/c/0").unlink()
    found = verify(path)
    assert found.damaged == ("mean/c/1/0",) and found.missing == ("y/c/0",)
    assert "all of it again, since its notes are missing" in str(found)


def test_what_is_not_written_yet_is_not_called_missing(tmp_path: Path) -> None:
    made = field()
    batch = store.create(made, tmp_path / "f.zarr", 64)
    list(store.write(made, tmp_path / "f.zarr", batch, list(enumerate(made.regions()))[:2]))
    found = verify(tmp_path / "f.zarr")
    assert found.sound and found.unwritten == 3 and "3 chunks are not written yet" in str(found)
    (tmp_path / "f.zarr/mean/c/0/0").unlink()
    assert verify(tmp_path / "f.zarr").missing == ("mean/c/0/0",)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_chunks_reach_the_disk_before_their_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, rename = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        sync(descriptor)
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    def renamed(source: Any, target: Any) -> None:
        rename(source, target)
        done.append(f"note {Path(target).name}")

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    folder = field().to_zarr(tmp_path / "f.zarr", batch=64, progress=False)
    for number, region in enumerate(field().regions()):
        before = done[: done.index(f"note {number}.json")]
        for name in field().variables:
            file = folder / name / "c" / str(region[0].start // 4) / "0"
            for path in (file, *list(file.parents)[:5]):  # its folders, the store, and the parent folder
                assert str(path) in before, path
    before = done[: done.index("note store.json")]
    assert {str(folder / name) for name in ("zarr.json", "mean/zarr.json", "x/c/0")} <= set(before)


def of_the_first_release(path: Path) -> None:
    """Create a store like those of guardband 0.1, without checksums and with notes on chunks only."""
    import zarr

    group = zarr.open_group(path, mode="r+", use_consolidated=False)
    values = {name: array[...] for name, array in group.arrays()}
    for name, array in list(group.arrays()):
        about: Any = array.metadata
        options = {"dimension_names": about.dimension_names, "attributes": dict(array.attrs)}
        again = group.create_array(
            name,
            shape=array.shape,
            chunks=array.chunks,
            dtype=array.dtype,
            fill_value=float("nan"),
            overwrite=True,
            **options,
        )
        again[...] = values[name]
    store.finish(path)
    notes = store.notes_of(path)
    (notes / "store.json").unlink()
    for number in range(3):
        files = {name: path / name / "c" / str(number) / "0" for name in field().variables}
        hashes = {name: hashlib.sha256(file.read_bytes()).hexdigest()[:32] for name, file in files.items()}
        (notes / f"{number}.json").write_text(json.dumps(hashes))


def test_notes_of_the_first_release_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_the_first_release(path)
    found = verify(path)
    assert found.sound and "written by guardband 0.1 and have no checksums" in str(found)
    before = content(path)
    flip(path / "mean/c/1/0", random.Random(3))
    assert verify(path).damaged == ("mean/c/1/0",)
    field().to_zarr(path, progress=False)
    assert {file for file, known in content(path).items() if before[file] != known} <= {"zarr.json"}


def test_notes_of_a_newer_release_are_refused(path: Path) -> None:
    note = store.notes_of(path) / "store.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"format": 3}))
    for call in (lambda: verify(path), lambda: field().to_zarr(path, progress=False)):
        with pytest.raises(ValueError, match="have format 3, written by a newer guardband"):
            call()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 2}', '{"format": 2, "sha256": "0", "files": []}']
)
def test_a_damaged_note_is_as_none(path: Path, text: str) -> None:
    (store.notes_of(path) / "store.json").write_text(text)
    (store.notes_of(path) / "1.json").write_text(text)
    assert verify(path).sound
    field().to_zarr(path, progress=False)
    assert verify(path).sound


def test_a_note_leads_nowhere_else(path: Path) -> None:
    mine = path.parent / "mine"
    mine.mkdir()
    (mine / "zarr.json").write_text("mine")
    note = store.notes_of(path) / "store.json"
    about = store.store_note(path)
    about["files"]["../mine/zarr.json"] = "0"
    note.write_text(json.dumps(about | {"sha256": store._seal(about)}))
    assert verify(path).sound
    field().to_zarr(path, progress=False)
    assert (mine / "zarr.json").read_text() == "mine"


def test_damage_that_another_call_has_to_repair_is_named(path: Path) -> None:
    field(levels=0.5).to_zarr(path, progress=False)
    (path / "lower_0.5/zarr.json").unlink()
    with pytest.raises(ValueError, match=r"lower_0.5/zarr.json is damaged, and this call does not write it"):
        field().to_zarr(path, progress=False)
    field(levels=[0.5]).to_zarr(path, progress=False)
    assert verify(path).sound and "lower_0.9" in str(content(path))


def test_notes_that_were_left_behind_do_not_touch_another_folder(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()
    (path / "thesis.tex").write_text("everything")
    with pytest.raises(ValueError, match="is not a Zarr store, so it was left unchanged"):
        field().to_zarr(path, progress=False)
    assert [file.name for file in path.iterdir()] == ["thesis.tex"]


def test_what_killed_writers_left_is_taken_away(path: Path) -> None:
    left, mine = path / "mean/c/1" / f"0.{'0a' * 16}.partial", path / "mean/my.partial"
    left.write_text("half")
    mine.write_text("whole")
    field().to_zarr(path, progress=False)
    assert not left.exists() and mine.read_text() == "whole"


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ValueError, match=r"is not a Zarr store: it has no zarr\.json"):
            verify(place)


def test_absurd_metadata_are_damage(path: Path) -> None:
    about = json.loads((path / "mean/zarr.json").read_text())
    about["shape"] = [10**12, 10**12]
    (path / "mean/zarr.json").write_text(json.dumps(about))
    shutil.rmtree(store.notes_of(path))
    assert verify(path).damaged == ("mean/zarr.json",)


def test_many_are_counted_in_words(tmp_path: Path) -> None:
    said = str(StoreCheck(tmp_path, 100, damaged=tuple(f"mean/c/{i}" for i in range(30))))
    assert "mean/c/19 is damaged." in said and "mean/c/20" not in said
    assert "10 more are damaged or missing." in said


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize("inside", ["mean/c", "mean", "notes"])
def test_nothing_is_written_through_a_link(path: Path, tmp_path: Path, inside: str) -> None:
    victim = tmp_path / "victim"
    (victim / "c").mkdir(parents=True)
    for name in ("zarr.json", "0", "c/0", "store.json", "0.json"):
        (victim / name).write_text("mine")
    linked = store.notes_of(path) if inside == "notes" else path / inside
    shutil.rmtree(linked)
    linked.symlink_to(victim)
    with pytest.raises(OSError, match="is a link, and writing does not follow links"):
        field().to_zarr(path, progress=False)
    assert {file.read_text() for file in victim.rglob("*") if file.is_file()} == {"mine"}
    assert len([file for file in victim.rglob("*") if file.is_file()]) == 5


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize("inside", ["mean/c", "mean/c/1", "notes"])
def test_workers_and_the_end_of_writing_follow_no_link(path: Path, tmp_path: Path, inside: str) -> None:
    """A folder that is replaced by a link while the store is being written."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / f"0.{'0a' * 16}.partial").write_text("mine")
    linked = store.notes_of(path) if inside == "notes" else path / inside
    shutil.rmtree(linked)
    linked.symlink_to(victim)
    with pytest.raises(OSError, match=r"contains a link|is a link, and writing does not follow links"):
        list(store.write(field(), path, 64, list(enumerate(field().regions()))))
    with pytest.raises(OSError, match="is a link, and writing does not follow links"):
        store.finish(path)
    assert [file.name for file in victim.rglob("*")] == [f"0.{'0a' * 16}.partial"]


def test_attributes_are_written_anew_if_the_note_on_them_is_gone(path: Path) -> None:
    """Only noted metadata are trusted, although all chunks and the identity are those of this field."""
    whole = seen(path)
    (store.notes_of(path) / "store.json").unlink()
    for file in ("zarr.json", "mean/zarr.json", "x/zarr.json"):
        about = json.loads((path / file).read_text())
        about.pop("consolidated_metadata", None)
        about["attributes"].update(title="forged", units="m")
        (path / file).write_text(json.dumps(about))
    field().to_zarr(path, progress=False)
    assert verify(path).sound and verify(path).compared and seen(path) == whole


@pytest.mark.parametrize("batch", [0, -1, "64", None, True])
def test_a_store_with_a_forged_batch_is_refused(path: Path, batch: Any) -> None:
    shutil.rmtree(store.notes_of(path))
    about = json.loads((path / "zarr.json").read_text())
    about["attributes"]["batch"] = batch
    (path / "zarr.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match="`batch` should be a positive integer"):
        field().to_zarr(path, progress=False)


def test_chunks_are_counted_over_all_arrays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["guardband.fields.verify"], "MOST_CHUNKS", 10)
    with pytest.raises(ValueError, match="at most 10 chunks to be verified, but declares 11"):
        verify(path)


def test_names_of_files_are_printed_escaped(path: Path) -> None:
    said = str(StoreCheck(path, 1, damaged=("\x1b[2J/zarr.json",), missing=("\u202e/c/0",)))
    assert r"\x1b[2J/zarr.json is damaged" in said and r"\u202e/c/0 is missing" in said
    note = store.store_note(path)
    note["files"] |= {"\ud800/zarr.json": "0", "a\0/zarr.json": "0", "\x1b/zarr.json": "0"}
    (store.notes_of(path) / "store.json").write_text(json.dumps(note | {"sha256": store._seal(note)}))
    assert verify(path).missing == ("\ud800/zarr.json",) and r"\ud800" in str(verify(path))


@pytest.mark.parametrize(
    "forge",
    [
        lambda about: about["codecs"][0]["configuration"].update(endian="big"),
        lambda about: about.update(fill_value=0.0),
        lambda about: about.update(dimension_names=["y", "x"]),
        lambda about: about["attributes"].update(scale_factor=3),
        lambda about: about["attributes"].pop("probe"),
        lambda about: about.update(data_type="int8", fill_value=0),
        lambda about: about["chunk_grid"]["configuration"].update(chunk_shape=[1, 1]),
    ],
)
def test_a_store_without_notes_is_not_resumed_over_forged_metadata(path: Path, forge: Any) -> None:
    shutil.rmtree(store.notes_of(path))
    about = json.loads((path / "mean/zarr.json").read_text())
    forge(about)
    (path / "mean/zarr.json").write_text(json.dumps(about))
    root = json.loads((path / "zarr.json").read_text())
    root.pop("consolidated_metadata", None)
    (path / "zarr.json").write_text(json.dumps(root))
    with pytest.raises(ValueError, match=r"changed after they were written|holds a different field"):
        field().to_zarr(path, progress=False)
