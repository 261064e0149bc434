"""Limits: how much is believed of files that somebody else may have written, all in one place.

What a load needs of memory is at most `FACTOR` times the bytes on the disk, and `ROOM` more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
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

COUNTS = 2**25
"""Points covered in all draws of a result, whose law is computed when a page is made."""

WORDS = 4 * MIB
"""Letters of the words of a calibration, each counted as the longest: they are kept that wide."""

DIGITS = 60
"""Digits, and decimal exponent, of a level or a stored fraction: more make no difference, and take long."""

SHOWN, LONGEST = 80, 2000
"""Characters of a name or a value that an error shows, and of the whole error."""


def parsed(data: bytes) -> Any:
    """JSON that is not made to take more memory than there is.

    >>> parsed(b'{"level": 0.9}')
    {'level': 0.9}
    """
    entries = sum(data.count(sign) for sign in (b",", b"[", b"{"))
    if entries > ENTRIES:
        raise ValueError(f"It has {entries} entries; at most {ENTRIES} are read.")
    return json.loads(data)


def shown(value: object) -> str:
    r"""A value as an error shows it: escaped, so that it cannot write to the terminal, and cut.

    >>> print(shown("\x1b[2J"), len(shown("long" * 1000)))
    '\x1b[2J' 83
    """
    try:
        text = repr(value)
    except ValueError:  # of whole numbers Python prints some thousand digits
        return "a number of too many digits"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def printable(text: str) -> str:
    r"""A sentence with untrusted names in it: characters that would move the cursor are escaped.

    >>> print(printable("Column `\x1b[2J` in µm²"))
    Column `\x1b[2J` in µm²
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\u00a0" else repr(c)[1:-1] for c in text)


def listed(words: Sequence[str], most: int = 20) -> str:
    """Words with commas between them; of many the first, and how many more there are.

    >>> listed(["a", "b", "c", "d"], most=2)
    'a, b and 2 more'
    """
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
