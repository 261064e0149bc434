"""Readers for Zarr stores and NetCDF files that may be untrusted.

The metadata of a Zarr store are inspected before zarr decodes anything (`metadata.py`). zarr then receives
exactly these metadata from memory, and chunks from regular files inside the folder, whose unpacked sizes are
checked.
"""

from __future__ import annotations

import asyncio
import bz2
import functools
import itertools
import math
import os
import zlib
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from guardband.base import extras, netcdf
from guardband.base.files import opened, read_bytes
from guardband.base.limits import ARRAYS, MANIFEST, MIB, PACKED, SMALL, TOUCHED, shown
from guardband.fields.metadata import METADATA, Array, Contents, array_of, document, inspect

if TYPE_CHECKING:
    from xarray import Dataset
    from zarr.abc.store import ByteRequest, Store
    from zarr.core.buffer import Buffer, BufferPrototype

ZarrGroup: TypeAlias = Any
ZarrArray: TypeAlias = Any
"""A group and an array of zarr, whose own types do not distinguish the members of a group."""

BEYOND = np.uint64(2**62)
"""Largest offset and length in the index of a shard."""

SHOWN = 200
"""Largest number of characters shown from another library's error."""

EMPTY = np.uint64(2**64 - 1)
"""Offset and length of an absent chunk in the index of a shard."""


@dataclass(frozen=True)
class Source:
    """A Zarr store or a NetCDF file as a lazy xarray dataset, and the arrays of a Zarr store."""

    path: Path
    dataset: Dataset
    arrays: Mapping[str, Array] = field(default_factory=dict)
    fill: bool = False

    def check(self, name: str, axis: str, start: int, stop: int) -> None:
        """Refuse a part of an array that is too large to be read at once, or whose chunks are absent."""
        shape = [stop - start if dim == axis else n for dim, n in self.dataset[name].sizes.items()]
        nbytes = math.prod(shape) * self.dataset[name].dtype.itemsize
        array = self.arrays.get(name)
        touched: Sequence[range] = []
        if array is not None:
            touched = [range(count) for count in array.counts]
            i = list(self.dataset[name].dims).index(axis)
            touched[i] = range(start // array.chunks[i], -(-stop // array.chunks[i]))
        count = math.prod(map(len, touched))
        if nbytes > ARRAYS or count > TOUCHED:
            raise ValueError(
                f"{nbytes} bytes in {count} chunks are too many; at most {ARRAYS} bytes and {TOUCHED} chunks "
                "are read at once. Pass a smaller `chunk`, or write the store with different chunks."
            )
        if array is not None and not self.fill:
            check_present(self.path, array, itertools.product(*touched))


def open_source(path: Path, names: Collection[str], *, missing: str = "refuse") -> Source:
    """Open the variables `names` of a Zarr store or a NetCDF file with their coordinates.

    Absent chunks of a Zarr store raise an error when they are read; with `missing="fill"`, they are read as
    the fill value of their array.
    """
    try:
        if path.is_dir():
            return _open_zarr(path, names, missing == "fill")
        return Source(path, netcdf.open_dataset(path, names, missing=missing))
    except ImportError:
        raise
    except Exception as error:  # xarray and its engines raise errors of many types
        raise named(error, path, f"{path} cannot be opened") from error


def named(error: Exception, path: Path, prefix: str) -> ValueError:
    """An error that names the path; the text of another library's error is escaped and truncated."""
    if isinstance(error, ValueError) and str(error).startswith(str(path)):
        return error
    kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
    return ValueError(f"{prefix}: {kind}{shown(str(error), SHOWN)}")


def _open_zarr(path: Path, names: Collection[str], fill: bool) -> Source:
    contents = inspect(path)
    arrays = contents.with_coordinates(names)
    for name, array in arrays.items():
        if name not in names and not fill:
            check_present(path, array, array.places())  # coordinates are read on opening
    store = guarded(contents, arrays, fill=fill)
    xarray = extras.load("xarray", "scale")
    options = {"consolidated": False, "zarr_format": contents.version}
    if not fill:
        return Source(path, xarray.open_dataset(store, engine="zarr", cache=False, **options), arrays)
    # In format 2, xarray would mask values equal to the fill value.
    opened = xarray.backends.ZarrStore.open_group(store, use_zarr_fill_value_as_mask=False, **options)
    return Source(path, xarray.open_dataset(opened, cache=False), arrays, fill)


def open_group(path: Path) -> ZarrGroup:
    """Open a Zarr store as a read-only zarr group whose arrays are all inspected."""
    contents = inspect(path)
    store = guarded(contents, {name: contents.array(name) for name in (*contents.arrays, *contents.refused)})
    return extras.load("zarr", "scale").open_group(store, mode="r", use_consolidated=False)


def open_array(folder: Path, array: Array) -> ZarrArray:
    """Open an inspected array of format 3 as a read-only zarr array."""
    data = read_bytes(folder / array.name / "zarr.json", at_most=MANIFEST, inside=folder)
    if array_of(array.name, document(folder, data)) != array:
        raise ValueError(f"{folder}: the metadata of `{array.name}` have changed.")
    documents = {f"{array.name}/zarr.json": data}
    store = guarded(Contents(folder, 3, documents, {array.name: array}), {array.name: array})
    return extras.load("zarr", "scale").open_array(store, path=array.name, mode="r")


def variables(path: Path) -> list[str]:
    """The names of all arrays of a store, or of all variables of a NetCDF file."""
    if not path.is_dir():
        return netcdf.variables(path)
    contents = inspect(path)
    return sorted((*contents.arrays, *contents.refused))


# Chunks


def guarded(contents: Contents, arrays: Mapping[str, Array], *, fill: bool = False) -> Store:
    """A read-only zarr store: inspected metadata from memory, and chunks from regular files."""
    documents = {
        key: data for key, data in contents.documents.items() if key.rpartition("/")[0] in ("", *arrays)
    }
    return _store_class()(contents.folder, documents, arrays, fill)


def chunk_bytes(folder: Path, array: Array, key: str, request: ByteRequest | None = None) -> bytes | None:
    """The bytes of a chunk, or of a requested part of a shard; None if the file is absent."""
    inner = math.prod(array.chunks) // math.prod(array.inner) if array.inner else 0
    largest = array.largest(array.chunks) + 64 * inner + MIB
    try:
        with opened(folder / key, at_most=largest, inside=folder) as (descriptor, size):
            if array.size(array.chunks) > SMALL + PACKED * size:
                raise ValueError(
                    f"{folder / key} has {size} bytes, and claims to unpack to {array.size(array.chunks)}."
                )
            start, stop = _range(request, size)
            os.lseek(descriptor, start, os.SEEK_SET)
            with os.fdopen(os.dup(descriptor), "rb") as file:
                return file.read(stop - start)
    except FileNotFoundError:
        return None


def _range(request: Any, size: int) -> tuple[int, int]:
    """The first byte and the end of a range that zarr requests, within a file."""
    start, stop = 0, size
    if hasattr(request, "suffix"):
        start = size - request.suffix
    elif hasattr(request, "offset"):
        start = request.offset
    elif request is not None:
        start, stop = request.start, request.end
    start = min(max(int(start), 0), size)
    return start, min(max(int(stop), start), size)


def check_chunk(array: Array, key: str, data: bytes, request: Any, *, fill: bool) -> None:
    """Refuse a chunk that unpacks to more than its declared size, and a shard with absent chunks."""
    if not array.inner:
        _check_unpacked(array, key, data, array.chunks)
        return
    if request is not None and not hasattr(request, "suffix"):
        if len(data) != request.end - request.start:
            raise ValueError(f"{key} is shorter than its index declares.")
        _check_unpacked(array, key, data, array.inner)
        return
    absent, among, slices = _index(array, key, data[-array.index_bytes :])
    if absent and not fill:
        raise ValueError(_absent(array, absent, among))
    for start, length in slices.tolist() if request is None else ():
        _check_unpacked(array, key, data[start : start + length], array.inner)


def check_present(folder: Path, array: Array, places: Iterable[tuple[int, ...]]) -> None:
    """Raise an error with the number of absent chunks, including those inside shards."""
    absent = among = 0
    for place in places:
        key, inside = array.key(place), (0, 1)
        if array.inner:
            last = extras.load("zarr.abc.store", "scale").SuffixByteRequest(array.index_bytes)
            try:
                data = chunk_bytes(folder, array, key, last)
            except OSError as error:
                raise ValueError(str(error)) from error
            nothing = EMPTY.tobytes() * (array.index_bytes // 8) + bytes(array.index_tail)
            inside = _index(array, key, data or nothing)
        elif not os.path.lexists(folder / key):
            inside = (1, 1)
        absent, among = absent + inside[0], among + inside[1]
    if absent:
        raise ValueError(f"{folder}: {_absent(array, absent, among)}")


def _absent(array: Array, absent: int, among: int) -> str:
    text = f"{absent} of the {among} requested chunks of `{array.name}` are absent"
    if array.fill == "NaN":
        return f"{text}, so their values are missing. Select complete fields, or write the missing chunks."
    return (
        f"{text}, and would be read as {shown(array.fill)}. If the writer omits chunks of this value, "
        'as zarr does by default, pass missing="fill". Otherwise write the chunks again.'
    )


def _index(array: Array, key: str, data: bytes) -> tuple[int, int, np.ndarray]:
    """Numbers of absent and of all chunks in a shard, and offset and length of the others."""
    counts = [size // inner for size, inner in zip(array.chunks, array.inner, strict=True)]
    if len(data) != array.index_bytes:
        raise ValueError(f"{key} is not a shard of {math.prod(counts)} chunks.")
    index = np.frombuffer(data[: len(data) - array.index_tail], "<u8").reshape(*counts, 2)
    empty = (index == EMPTY).all(axis=-1)
    if (~empty & ((index[..., 1] == 0) | (index > BEYOND).any(axis=-1))).any():
        raise ValueError(f"{key} has an index with invalid chunk positions.")
    inside = tuple(  # chunks outside the array may always be absent
        slice(-(-min(size, n - i * size) // inner))
        for i, n, size, inner in zip(
            array.place(key) or (), array.shape, array.chunks, array.inner, strict=True
        )
    )
    return int(empty[inside].sum()), empty[inside].size, index[~empty]


def _check_unpacked(array: Array, key: str, data: bytes, shape: Sequence[int]) -> None:
    """Refuse data that a compressor would unpack to more than the size of a chunk."""
    if array.compressor and not fits(array.compressor, data[: len(data) - array.tail], array.largest(shape)):
        raise ValueError(f"{key} unpacks to more than the {array.size(shape)} bytes of a chunk.")


def fits(compressor: str, data: bytes, largest: int) -> bool:
    """Whether a compressor unpacks data to at most `largest` bytes, and allocates no more than that."""
    if compressor == "blosc":
        sound = len(data) >= 16 and int.from_bytes(data[12:16], "little") == len(data)
        return sound and int.from_bytes(data[4:8], "little") <= largest
    if compressor == "lz4":
        return int.from_bytes(data[:4], "little") <= largest
    if compressor == "zstd":  # frames need not declare their sizes, so unpack them here
        try:
            extras.load("numcodecs.zstd", "scale").decompress(data, bytearray(largest))
        except (RuntimeError, ValueError) as error:
            return "expected to decompress" in str(error)  # less than `largest`
        return True
    total = 0
    while data and total <= largest:  # a file may have several streams
        engine = bz2.BZ2Decompressor() if compressor == "bz2" else zlib.decompressobj(wbits=47)
        try:
            while not engine.eof and total <= largest:
                out = engine.decompress(data, MIB)
                data = getattr(engine, "unconsumed_tail", b"")
                total += len(out)
                if not out and not data and not engine.eof:
                    return True
        except (OSError, zlib.error):
            break  # the codec raises its own error for damaged data
        data = engine.unused_data
    return total <= largest


@functools.cache
def _store_class() -> Any:
    """The class of guarded stores, defined on demand since it needs zarr."""
    abc: Any = extras.load("zarr.abc.store", "scale")

    class Guarded(abc.Store):
        """A read-only zarr store."""

        supports_writes = supports_deletes = supports_partial_writes = False
        supports_listing = True

        def __init__(
            self, folder: Path, documents: Mapping[str, bytes], arrays: Mapping[str, Array], fill: bool
        ) -> None:
            super().__init__(read_only=True)
            self.folder, self.documents, self.arrays, self.fill = folder, documents, arrays, fill

        def __eq__(self, other: object) -> bool:
            return self is other

        def __str__(self) -> str:
            return str(self.folder)

        def with_read_only(self, read_only: bool = False) -> Guarded:
            return self

        async def get(
            self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
        ) -> Buffer | None:
            if key.rpartition("/")[2] in METADATA:
                found = self.documents.get(key)
            else:
                found = await asyncio.to_thread(self._chunk, key, byte_range)
            return None if found is None else prototype.buffer.from_bytes(found)

        def _chunk(self, key: str, byte_range: ByteRequest | None) -> bytes | None:
            array = self.arrays.get(key.partition("/")[0])
            if array is None or array.place(key) is None:
                return None
            try:
                found = chunk_bytes(self.folder, array, key, byte_range)
                if found is not None:
                    check_chunk(array, key, found, byte_range, fill=self.fill)
                elif not self.fill:
                    raise ValueError(f"{key} is absent.")
            except (OSError, ValueError) as error:
                raise named(ValueError(str(error)), self.folder, str(self.folder)) from error
            return found

        async def get_partial_values(
            self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
        ) -> list[Buffer | None]:
            return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

        async def exists(self, key: str) -> bool:
            return key in self.documents

        async def list(self) -> AsyncIterator[str]:
            for key in self.documents:
                yield key

        async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
            for key in self.documents:
                if key.startswith(prefix):
                    yield key

        async def list_dir(self, prefix: str) -> AsyncIterator[str]:
            start = f"{prefix.rstrip('/')}/" if prefix else ""
            inside = (key.removeprefix(start) for key in self.documents if key.startswith(start))
            for name in dict.fromkeys(key.partition("/")[0] for key in inside):
                yield name

        async def set(self, key: str, value: Buffer) -> None:
            self._check_writable()

        async def delete(self, key: str) -> None:
            self._check_writable()

    return Guarded
