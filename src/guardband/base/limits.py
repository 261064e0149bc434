"""Limits for files from untrusted sources.

Loading a file takes at most `FACTOR` times its size in memory, plus `ROOM`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""A value of JSON: a dict, list, string, number, boolean or None."""

MIB = 2**20

FACTOR, ROOM = 4, 200 * MIB
"""Memory for reading, in addition to that of the library: `FACTOR` times the bytes on disk, plus `ROOM`."""

MANIFEST, ENTRIES = 32 * MIB, 1_000_000
"""Bytes and values of a manifest or of a study's description; a value takes more space in memory than on
disk."""

ARRAYS = 2**34
"""Bytes of the arrays of a calibration."""

MODEL = 2**31
"""Bytes of an ONNX model."""

SPARSE = 16
"""Maximum ratio of the size of a file to its size on a compressing disk; beyond it, the file has holes."""

TABLE, CELLS, WIDEST, NAME = 2**31, 10**8, 10**4, 200
"""Bytes, cells and columns of a data file, and characters of a column name."""

SWELL, SMALL = 32, 64 * MIB
"""The columns of a data file take at most this multiple of its bytes, plus this much for small files."""

SECONDS = 10
"""CPU seconds for another library to read a data file, plus one second per MiB."""

STORED, CHUNKS, CHUNK = 2**50, 10**8, 2**31
"""Bytes of an array of a store, its chunks, and bytes of a chunk, as claimed by its metadata."""

TOUCHED = 10_000
"""Chunks that are read at once, and chunks in a shard; zarr lists them in memory before it reads any."""

NODES, RANK, CLAIMS = 1000, 32, 250_000
"""Arrays and groups of a store, dimensions of an array, and values in the metadata of all arrays."""

PACKED = 1024
"""A chunk is unpacked to at most this multiple of the bytes of its file, plus `SMALL`."""

SPARE, AT_ONCE = 32 * MIB, 10
"""Bytes beyond the array in chunks that are unpacked at once, and the number of such chunks (zarr's
default)."""

OBJECT = 100
"""Bytes that an index takes for each string or date, in addition to those of the array."""

DECODED = {"units", "calendar", "dtype", "scale_factor", "add_offset", "_FillValue", "missing_value"}
DECODED |= {"_Unsigned", "_Encoding", "coordinates", "bounds", "climatology", "grid_mapping"}
"""Attributes that xarray decodes according to the CF conventions."""

ATTRIBUTE = 1000
"""Characters of such an attribute; the time that xarray takes is quadratic in the length."""

COUNTS = 2**25
"""Test points in all draws of a result; the law of their covered number is computed for each page."""

WORDS = 4 * MIB
"""Characters of the strings of a calibration, which are stored with the width of the longest one."""

DIGITS = 60
"""Digits and decimal exponent of a level or a stored fraction; larger ones are slow and never needed."""

SHOWN, LONGEST = 80, 2000
"""Characters of a name or a value in an error message, and of the whole message."""


INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that are printable according to Unicode but invisible."""


def entries(data: bytes) -> int:
    """An estimate of the number of values in JSON."""
    return sum(data.count(sign) for sign in (b",", b"[", b"{"))


def parsed(data: bytes) -> Json:
    """Parse JSON after a check that it does not exhaust the memory.

    >>> parsed(b'{"level": 0.9}')
    {'level': 0.9}
    """
    if entries(data) > ENTRIES:
        raise ValueError(f"It has {entries(data)} entries, but the limit is {ENTRIES}.")
    return json.loads(data)


def check_decoded(attributes: Mapping[str, object]) -> None:
    """Refuse attributes that xarray would take a long time to decode.

    >>> check_decoded({"units": "days since 2000-01-01" + "," * 10**6})
    Traceback (most recent call last):
        ...
    ValueError: the attribute `units` should have at most 1000 characters, got 1000021.
    """
    for name in sorted(DECODED & attributes.keys()):
        value = attributes[name]
        size = len(value if isinstance(value, str) else json.dumps(value, default=_plain))
        if size > ATTRIBUTE:
            raise ValueError(
                f"the attribute `{name}` should have at most {ATTRIBUTE} characters, got {size}."
            )


def _plain(value: Any) -> Json:
    """A numpy value for JSON."""
    return value.tolist() if hasattr(value, "tolist") and not isinstance(value, bytes) else str(value)


def shown(value: object, most: int = SHOWN) -> str:
    r"""A value for an error message: truncated, and escaped so that it cannot control the terminal.

    >>> print(shown("\x1b[2J"), len(shown("long" * 1000)))
    '\x1b[2J' 83
    """
    try:
        text = printable(repr(value))
    except ValueError:  # Python converts integers of at most a few thousand digits
        return "a number with too many digits"
    return text if len(text) <= most else f"{text[:most]}..."


def printable(text: str) -> str:
    r"""Text with untrusted names, in which control, bidirectional and invisible characters are escaped.

    >>> print(printable("Column `\x1b[2J` in µm², `\u202egpj.exe`, `\u3164`"))
    Column `\x1b[2J` in µm², `\u202egpj.exe`, `\u3164`
    """
    if text.isascii() and text.isprintable():
        return text
    return INVISIBLE.sub(
        lambda found: found[0].encode("unicode_escape").decode(),
        "".join(c if c.isprintable() or c in "\n\u00a0" else repr(c)[1:-1] for c in text),
    )


def listed(words: Sequence[str], most: int = 20) -> str:
    """Words separated by commas; if there are many, the first of them and the number of others.

    >>> listed(["a", "b", "c", "d"], most=2)
    'a, b and 2 more'
    """
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
