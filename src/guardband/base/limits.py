"""Limits: how much is believed of files that somebody else may have written, all in one place.

What a load needs of memory is at most `FACTOR` times the bytes on the disk, and `ROOM` more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

MIB = 2**20

FACTOR, ROOM = 4, 200 * MIB
"""Memory that reading takes, beside that of the library: bytes on the disk times the one, plus the other."""

MANIFEST, ENTRIES = 32 * MIB, 1_000_000
"""Bytes of a manifest or of a study's description, and values in it: each takes more memory than disk."""

ARRAYS = 2**34
"""Bytes of the arrays of a calibration."""

MODEL = 2**31
"""Bytes of an ONNX model."""

SPARSE = 16
"""A file may be so many times larger than what it occupies on a disk that compresses; more must be holes."""

TABLE, CELLS, WIDEST, NAME = 2**31, 10**8, 10**4, 200
"""Bytes of a data file, its rows times columns, columns, and characters of the name of one."""

SWELL, SMALL = 32, 64 * MIB
"""The columns of a data file take at most so many times its bytes, or so much more where it is small."""

SECONDS = 10
"""CPU seconds that another library may take to read a data file, and one more for each MiB of it."""

STORED, CHUNKS, CHUNK = 2**50, 10**8, 2**31
"""Bytes of an array of a store, its chunks, and bytes of a chunk, all as its metadata claim them."""

TOUCHED = 10_000
"""Chunks that are read at once, and chunks in a shard: zarr lists them in memory before it reads any."""

NODES, RANK, CLAIMS = 1000, 32, 250_000
"""Arrays and groups of a store, dimensions of an array, and values in the metadata of all arrays together."""

PACKED = 1024
"""A chunk is unpacked to at most this many times the bytes of its file, and `SMALL` more."""

SPARE, AT_ONCE = 32 * MIB, 10
"""Bytes of the chunks that are unpacked at once, zarr's default number, that may lie beyond their array."""

OBJECT = 100
"""Bytes that an index takes for each word or date, beside those of the array."""

DECODED = {"units", "calendar", "dtype", "scale_factor", "add_offset", "_FillValue", "missing_value"}
DECODED |= {"_Unsigned", "_Encoding", "coordinates", "bounds", "climatology", "grid_mapping"}
"""Attributes that xarray decodes by the CF conventions."""

ATTRIBUTE = 1000
"""Characters of such an attribute: xarray takes a time that grows with the square of the length."""

COUNTS = 2**25
"""Points covered in all draws of a result, whose law is computed when a page is made."""

WORDS = 4 * MIB
"""Letters of the words of a calibration, each counted as the longest: they are kept that wide."""

DIGITS = 60
"""Digits, and decimal exponent, of a level or a stored fraction: more make no difference, and take long."""

SHOWN, LONGEST = 80, 2000
"""Characters of a name or a value that an error shows, and of the whole error."""


INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that Unicode calls printable and fonts draw as nothing."""


def entries(data: bytes) -> int:
    """The number of values in JSON, as far as they take memory."""
    return sum(data.count(sign) for sign in (b",", b"[", b"{"))


def parsed(data: bytes) -> Any:
    """JSON that is not made to take more memory than there is.

    >>> parsed(b'{"level": 0.9}')
    {'level': 0.9}
    """
    if entries(data) > ENTRIES:
        raise ValueError(f"It has {entries(data)} entries; at most {ENTRIES} are read.")
    return json.loads(data)


def check_decoded(attributes: Mapping[str, Any]) -> None:
    """Refuse attributes that xarray would take long to decode.

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


def _plain(value: Any) -> Any:
    """A value of numpy as one of JSON."""
    return value.tolist() if hasattr(value, "tolist") and not isinstance(value, bytes) else str(value)


def shown(value: object, most: int = SHOWN) -> str:
    r"""A value as an error shows it: escaped, so that it cannot write to the terminal, and cut.

    >>> print(shown("\x1b[2J"), len(shown("long" * 1000)))
    '\x1b[2J' 83
    """
    try:
        text = printable(repr(value))
    except ValueError:  # of whole numbers Python prints some thousand digits
        return "a number of too many digits"
    return text if len(text) <= most else f"{text[:most]}..."


def printable(text: str) -> str:
    r"""A sentence with untrusted names in it: control, bidirectional and invisible characters are escaped.

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
    """Words with commas between them; of many the first, and how many more there are.

    >>> listed(["a", "b", "c", "d"], most=2)
    'a, b and 2 more'
    """
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
