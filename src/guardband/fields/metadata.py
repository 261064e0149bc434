"""Metadata of a Zarr store, inspected before zarr decodes anything.

Only listed codecs and data types are accepted, with shapes, sizes and attributes within `limits`.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from guardband.base.files import read_bytes
from guardband.base.limits import (
    AT_ONCE,
    CHUNK,
    CHUNKS,
    CLAIMS,
    MANIFEST,
    NODES,
    OBJECT,
    RANK,
    SMALL,
    SPARE,
    STORED,
    TOUCHED,
    check_decoded,
    entries,
    listed,
    parsed,
    printable,
    shown,
)

METADATA = ("zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata")
"""Names of metadata files; a store of format 3 has only the first one."""

Json: TypeAlias = Any
"""A parsed JSON value."""

Node: TypeAlias = dict[str, Any]
"""The parsed metadata of a group or array."""

DTYPES = re.compile(r"[<>|](b1|[iu][1248]|f[248]|c8|c16|[US]\d{1,4})")
"""Accepted data types of format 2: numbers, booleans and text of fixed width, but not objects."""

DATA_TYPES = {
    **{"bool": 1, "float16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16},
    **{f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""Accepted data types of format 3, with their sizes in bytes."""

TEXT = {"fixed_length_utf32", "null_terminated_bytes"}
"""Types of text of fixed width in format 3, with `length_bytes`; other text needs a codec per item."""

COMPRESSORS = {"blosc", "gzip", "zstd", "zlib", "lz4", "bz2"}
CHECKSUMS = {"crc32c", "fletcher32"}
FILTERS = {
    2: {"shuffle", "delta", "fixedscaleoffset", "bitround"},
    3: {"transpose", "bytes", "sharding_indexed"},
}
"""Accepted codecs, which cannot execute code. An array has at most one compressor, followed by checksums."""

WIDENING, WIDENED = {"delta", "fixedscaleoffset"}, 8
"""Filters that may expand a number to up to this many times its size, such as one byte to a float64."""

WORD = re.compile(r"[<>|=]?[A-Za-z0-9_]{1,20}")


@dataclass(frozen=True)
class Array:
    """The inspected metadata of an array.

    `chunks` is the shape of a stored chunk. With sharding, `inner` is the shape of the chunks inside a shard,
    which the codecs compress. `compressor` is the name of a codec or empty, and `tail` is the number of bytes
    of checksums after it. `objects` is true for text and dates, which an index stores as Python objects.
    """

    name: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    itemsize: int
    compressor: str = ""
    tail: int = 0
    inner: tuple[int, ...] = ()
    index_tail: int = 0
    prefix: str = "c"
    separator: str = "/"
    fill: Json = None
    dims: tuple[str, ...] = ()
    codecs: tuple[str, ...] = ()
    objects: bool = False

    @property
    def counts(self) -> list[int]:
        """The number of chunks along each axis."""
        return [-(-n // size) for n, size in zip(self.shape, self.chunks, strict=True)]

    @property
    def nbytes(self) -> int:
        """The size of all values in bytes."""
        return math.prod(self.shape) * self.itemsize

    @property
    def index_bytes(self) -> int:
        """The size of the index of a shard in bytes."""
        return 16 * (math.prod(self.chunks) // math.prod(self.inner)) + self.index_tail

    def size(self, shape: Sequence[int]) -> int:
        """The size of a chunk of this shape in bytes."""
        return math.prod(shape) * self.itemsize

    def largest(self, shape: Sequence[int]) -> int:
        """The largest size of a chunk of this shape in bytes before its filters are undone."""
        return self.size(shape) * (WIDENED if WIDENING & {*self.codecs} else 1) + 2**17

    def key(self, place: Sequence[int]) -> str:
        """The file of a chunk, relative to the store."""
        parts = [*([self.prefix] if self.prefix else []), *map(str, place)] or ["0"]
        return f"{self.name}/{self.separator.join(parts)}"

    def place(self, key: str) -> tuple[int, ...] | None:
        """The index of the chunk in a file of this name; None if there is no such chunk."""
        numbers = re.findall(r"\d+", key.removeprefix(self.name))[-len(self.shape) :] if self.shape else []
        if len(numbers) != len(self.shape) or max(map(len, numbers), default=0) > 18:
            return None
        place = tuple(map(int, numbers))
        inside = all(i < n for i, n in zip(place, self.counts, strict=True))
        return place if inside and self.key(place) == key else None

    def places(self) -> Iterator[tuple[int, ...]]:
        """The indices of all chunks, in order."""
        return itertools.product(*map(range, self.counts))


@dataclass(frozen=True)
class Contents:
    """The inspected metadata of a store: its arrays, and the metadata files of all nodes.

    `refused` has the reason for each array that is refused.
    """

    folder: Path
    version: int
    documents: Mapping[str, bytes]
    arrays: Mapping[str, Array]
    refused: Mapping[str, str] = field(default_factory=dict)

    def array(self, name: str) -> Array:
        """An array, or a `ValueError` with the reason if it is refused."""
        if name in self.refused:
            raise ValueError(f"{self.folder}: {self.refused[name]}")
        return self.arrays[name]

    def with_coordinates(self, names: Collection[str]) -> dict[str, Array]:
        """Arrays by name, with the coordinates of their dimensions."""
        found = {name: self.array(name) for name in names if name in (*self.arrays, *self.refused)}
        axes = {dim for array in found.values() for dim in array.dims} - set(found)
        for name in sorted(axes & {*self.arrays, *self.refused}):
            coordinate = found[name] = self.array(name)
            count, chunks = math.prod(coordinate.shape), math.prod(coordinate.counts)
            nbytes = coordinate.nbytes + OBJECT * count * coordinate.objects
            if nbytes > SMALL or chunks > TOUCHED:
                raise ValueError(
                    f"{self.folder}: the coordinate `{name}` should have at most {SMALL} bytes and {TOUCHED} "
                    f"chunks, got {nbytes} in memory and {chunks}."
                )
        return found


def inspect(folder: Path) -> Contents:
    """The metadata of a Zarr store and its arrays; a `ValueError` if consolidated metadata differ."""
    version = 3 if os.path.lexists(folder / "zarr.json") else 2
    documents = _documents(folder, version)
    if not documents:
        raise ValueError(f"{folder} is not a Zarr store: it has no zarr.json or .zgroup that can be read.")
    if (claims := sum(map(entries, documents.values()))) > CLAIMS:
        raise ValueError(f"{folder} should have at most {CLAIMS} entries in its metadata, got {claims}.")
    nodes = {key: document(folder / key, data) for key, data in documents.items()}
    if wrong := disagreeing(nodes, version):
        raise ValueError(
            f"{folder}: the consolidated metadata differ from those of {printable(listed(wrong))}. If you "
            "trust the latter, consolidate them again with zarr.consolidate_metadata(path)."
        )
    found: dict[str, Array] = {}
    refused: dict[str, str] = {}
    end = "zarr.json" if version == 3 else ".zarray"
    for key, node in nodes.items():
        name, _, file = key.rpartition("/")
        if file != end or (version == 3 and node.get("node_type") != "array"):
            continue
        try:
            found[name] = array_of(name, node, nodes.get(f"{name}/.zattrs"), version=version)
        except ValueError as error:
            refused[name] = str(error)
    try:  # xarray also decodes the attributes of the store
        check_decoded(
            nodes["zarr.json"].get("attributes") or {} if version == 3 else nodes.get(".zattrs", {})
        )
    except (ValueError, LookupError, AttributeError) as error:
        raise ValueError(f"{folder}: {error}") from error
    return Contents(folder, version, documents, found, refused)


def _documents(folder: Path, version: int) -> dict[str, bytes]:
    """The metadata files of the root and of the nodes below it."""
    names = METADATA[:1] if version == 3 else METADATA[1:]
    with os.scandir(folder) as entries:
        children = sorted(entry.name for entry in itertools.islice(entries, 2 * NODES))
    if len(children) == 2 * NODES:
        raise ValueError(f"{folder} should have at most {NODES} arrays and groups.")
    found, left = {}, MANIFEST
    for child in ("", *children):
        if not child.isprintable() or printable(child) != child:
            raise ValueError(f"{folder} should contain only printable names, got {shown(child)}. Rename it.")
        for name in names:
            key = f"{child}/{name}" if child else name
            if os.path.lexists(folder / key):
                try:
                    found[key] = read_bytes(folder / key, at_most=left, inside=folder)
                except OSError as error:
                    raise ValueError(str(error)) from error
                left -= len(found[key])
    return found


def document(file: Path, data: bytes) -> Node:
    """The JSON object in a metadata file."""
    try:
        found = parsed(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} cannot be read: {shown(str(error))}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{file} should hold a JSON object.")
    return found


def disagreeing(nodes: Mapping[str, Node], version: int) -> list[str]:
    """The metadata files that differ from the consolidated metadata, if the store has any."""
    if version == 2:
        if ".zmetadata" not in nodes:
            return []
        consolidated = nodes[".zmetadata"].get("metadata")
        own = {key: node for key, node in nodes.items() if key != ".zmetadata"}
    else:
        if "zarr.json" not in nodes or nodes["zarr.json"].get("consolidated_metadata") is None:
            return []
        about = nodes["zarr.json"]["consolidated_metadata"]
        consolidated = about.get("metadata") if isinstance(about, dict) else None
        own = {key: node for key, node in nodes.items() if key != "zarr.json"}
        if isinstance(consolidated, dict):
            consolidated = {f"{name}/zarr.json": node for name, node in consolidated.items()}
    if not isinstance(consolidated, dict):
        return ["the store"]
    consolidated = {key: node for key, node in consolidated.items() if key.count("/") < 2}
    return sorted(
        key
        for key in own.keys() | consolidated.keys()
        if key not in own or key not in consolidated or not equal(_own(own[key]), _own(consolidated[key]))
    )


def _own(node: Json) -> Json:
    """The metadata of a node, without those of the nodes below it."""
    if isinstance(node, dict) and node.get("node_type") == "group":
        return {name: value for name, value in node.items() if name != "consolidated_metadata"}
    return node


def equal(a: Json, b: Json) -> bool:
    """Whether two parsed JSON values are identical: NaN equals NaN, and 1 differs from 1.0 and true."""
    try:
        return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
    except RecursionError:
        return False


def array_of(name: str, node: Node, attributes: Json = None, *, version: int = 3) -> Array:
    """The inspected metadata of an array; a `ValueError` with the reason if it is refused."""
    try:
        if node["zarr_format"] != version:
            raise ValueError(f"the format should be {version}, got {shown(node['zarr_format'])}.")
        attributes = (node.get("attributes") if version == 3 else attributes) or {}
        check_decoded(attributes)
        found = _array_3(name, node) if version == 3 else _array_2(name, node, attributes)
        _check_sizes(found)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        reason = (
            error if type(error) is ValueError else f"its metadata cannot be read: {type(error).__name__}"
        )
        raise ValueError(f"`{printable(name[:80])}`: {reason}") from error
    return found


def _array_3(name: str, node: Node) -> Array:
    """An array of format 3."""
    shape, itemsize = _whole_numbers(node["shape"], "shape"), _itemsize_3(node["data_type"])
    grid = _named(node["chunk_grid"], {"regular"}, "chunk grid")
    keys = _named(node["chunk_key_encoding"], {"default", "v2"}, "chunk key encoding")
    default = node["chunk_key_encoding"]["name"] == "default"
    separator = keys.get("separator", "/" if default else ".")
    if separator not in ("/", ".") or node.get("storage_transformers"):
        raise ValueError("chunks should be files named by their numbers, without storage transformers.")
    names = [_checked_codec(codec, 3) for codec in node["codecs"]]
    inner: tuple[int, ...] = ()
    index_tail = 0
    outer = names
    if "sharding_indexed" in names:
        sharding = node["codecs"][names.index("sharding_indexed")]["configuration"]
        if names != ["sharding_indexed"] or sharding.get("index_location", "end") != "end":
            raise ValueError("shards should have no codec around them, and their index at the end.")
        inner = _whole_numbers(sharding["chunk_shape"], "chunk shape in a shard")
        names = [_checked_codec(codec, 3) for codec in sharding["codecs"]]
        index = [_checked_codec(codec, 3) for codec in sharding["index_codecs"]]
        endian = sharding["index_codecs"][0].get("configuration", {}).get("endian")
        if "sharding_indexed" in names or index not in (["bytes"], ["bytes", "crc32c"]) or endian != "little":
            raise ValueError("a shard should hold chunks, and an index of little-endian numbers.")
        index_tail = 4 * (len(index) - 1)
    compressor, tail = _chain(names)
    return Array(
        name,
        shape,
        _whole_numbers(grid["chunk_shape"], "chunk shape"),
        itemsize,
        compressor,
        tail,
        inner,
        index_tail,
        "c" if default else "",
        separator,
        node.get("fill_value"),
        _dims(node.get("dimension_names")),
        (*outer, *names) if inner else tuple(names),
        isinstance(node["data_type"], dict) or _dated(node.get("attributes")),
    )


def _array_2(name: str, node: Node, attributes: Node) -> Array:
    """An array of format 2."""
    if not (isinstance(node["dtype"], str) and DTYPES.fullmatch(node["dtype"])):
        raise ValueError(
            f"values should be numbers, or text of a fixed width, got data type {shown(node['dtype'])}."
        )
    separator = node.get("dimension_separator", ".")
    if separator not in ("/", ".") or node.get("order") not in ("C", "F"):
        raise ValueError("chunks should be files named by their numbers, in order C or F.")
    chain = [*(node.get("filters") or ()), *([node["compressor"]] if node.get("compressor") else [])]
    names = [_checked_codec(codec, 2) for codec in chain]
    compressor, tail = _chain(names)
    return Array(
        name,
        _whole_numbers(node["shape"], "shape"),
        _whole_numbers(node["chunks"], "chunk shape"),
        np.dtype(node["dtype"]).itemsize,
        compressor,
        tail,
        prefix="",
        separator=separator,
        fill=node.get("fill_value"),
        dims=_dims(attributes.get("_ARRAY_DIMENSIONS")),
        codecs=tuple(names),
        objects=node["dtype"][1] in "SU" or _dated(attributes),
    )


def _dims(names: Json) -> tuple[str, ...]:
    """The names of the dimensions that have one."""
    dims = tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
    if wrong := [name for name in dims if not name.isprintable()]:
        raise ValueError(f"dimensions should have printable names, got {shown(wrong[0])}.")
    return dims


def _dated(attributes: Json) -> bool:
    """Whether xarray decodes the numbers of an array as dates."""
    return "since" in str((attributes or {}).get("units"))


def _named(node: Json, known: set[str], what: str) -> Node:
    """The configuration of a named part of the metadata, such as the chunk grid."""
    if not isinstance(node, dict) or node.get("name") not in known:
        raise ValueError(f"the {what} should be {' or '.join(sorted(known))}, got {shown(node)}.")
    return node.get("configuration") or {}


def _itemsize_3(data_type: Json) -> int:
    if isinstance(data_type, str) and data_type in DATA_TYPES:
        return DATA_TYPES[data_type]
    if isinstance(data_type, dict) and data_type.get("name") in TEXT:
        (length,) = _whole_numbers([data_type["configuration"]["length_bytes"]], "length of text")
        if length <= 2**16:
            return length
    raise ValueError(f"values should be numbers, or text of a fixed width, got data type {shown(data_type)}.")


def _whole_numbers(numbers: Json, what: str) -> tuple[int, ...]:
    if not isinstance(numbers, list) or len(numbers) > RANK:
        raise ValueError(f"the {what} should be a list of at most {RANK} numbers, got {shown(numbers)}.")
    if not all(type(number) is int and 0 <= number < 2**62 for number in numbers):
        raise ValueError(f"the {what} should be nonnegative integers, got {shown(numbers)}.")
    return tuple(numbers)


def _checked_codec(codec: Json, version: int) -> str:
    """The name of a listed codec, whose configuration contains only numbers and words."""
    known = COMPRESSORS & {"blosc", "gzip", "zstd"} if version == 3 else COMPRESSORS
    known = known | CHECKSUMS | FILTERS[version]
    name = codec.get("name" if version == 3 else "id") if isinstance(codec, dict) else None
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"codecs should be among {', '.join(sorted(known))}, got {shown(name)}.")
    settings = codec.get("configuration") or {} if version == 3 else codec
    for key, value in settings.items():
        if name == "sharding_indexed":
            continue  # its parts are checked one by one
        values = value if isinstance(value, list) and len(value) <= RANK else [value]
        words = all(WORD.fullmatch(one) for one in values if isinstance(one, str))
        if not words or not all(isinstance(one, str | int | float | None) for one in values):
            raise ValueError(
                f"the codec {name} should have numbers and words as settings, got {shown(value)}."
            )
        if key in ("dtype", "astype") and np.dtype(value).kind not in "biufc":
            raise ValueError(f"the codec {name} should have a numeric data type, got {shown(value)}.")
    if name == "crc32c" and settings.get("location", "end") != "end":
        raise ValueError("a checksum should be the last codec.")
    return name


def _chain(names: Sequence[str]) -> tuple[str, int]:
    """The compressor among codecs, and the number of bytes of checksums after it."""
    places = [i for i, name in enumerate(names) if name in COMPRESSORS]
    after = names[places[0] + 1 :] if places else []
    if len(places) > 1 or not all(name in CHECKSUMS for name in after) or len(names) > RANK:
        raise ValueError(f"codecs should be one compressor, then only checksums, got {listed(names)}.")
    return (names[places[0]] if places else ""), 4 * len(after)


def _check_sizes(array: Array) -> None:
    """Refuse inconsistent or excessive shapes and chunks."""
    if not len(array.shape) == len(array.chunks) == len(array.inner or array.chunks):
        raise ValueError(f"the shape {array.shape} and chunk shape {array.chunks} should be equally long.")
    if not all((*array.chunks, *array.inner)):
        raise ValueError("chunks should not be empty.")
    if array.inner and math.prod(array.chunks) // math.prod(array.inner) > TOUCHED:
        raise ValueError(f"a shard should have at most {TOUCHED} chunks.")
    if any(n % size for n, size in zip(array.chunks, array.inner or array.chunks, strict=True)):
        raise ValueError(f"chunks of shape {array.inner} should fill a shard of shape {array.chunks}.")
    if array.nbytes > STORED or math.prod(array.counts) > CHUNKS or array.size(array.chunks) > CHUNK:
        raise ValueError(
            f"an array should have at most {STORED} bytes, {CHUNKS} chunks and {CHUNK} bytes per chunk, got "
            f"shape {shown(array.shape)} in chunks of {shown(array.chunks)}."
        )
    used = [min(n, size) for n, size in zip(array.shape, array.chunks, strict=True)]
    spare = min(AT_ONCE, math.prod(array.counts)) * (array.size(array.chunks) - array.size(used))
    if spare > SPARE:
        raise ValueError(
            f"chunks of {shown(array.chunks)} are too large for the shape {shown(array.shape)}: {spare} "
            "bytes would be read beyond its end. Write it in smaller chunks."
        )
