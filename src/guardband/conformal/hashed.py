"""Random numbers that are a deterministic function of a seed and of data.

A draw that depends only on the seed is the same for every data set. With a fixed seed, a method that is exact
only on average over its draws may then miss the nominal coverage systematically. A draw from a hash of the
seed and the data differs between data sets, and the same call still returns the same result. Identical data
sets get the same draw, so for a fixed seed the coverage is guaranteed for scores without ties, for which no
two data sets are equal. With ties, it is guaranteed on average over seeds, and sets are larger than
necessary.
"""

from __future__ import annotations

import hashlib

import numpy as np

FRESH = (
    "The probability is over calibration sets and over random draws, which are determined by the seed, the "
    "calibration scores and the point; if scores tie, it is also over seeds. One calibration has one draw "
    "at each point, so if points repeat, such as at fixed sensors, the coverage of one calibration varies "
    "more than that of Split()."
)
"""The sentence that promises of randomized methods contain."""

FROZEN = (
    "The probability is also over random draws, which are determined by the seed and the point, as in "
    "guardband 0.2. At points that repeat, such as fixed sensors, the draw is the same for every calibration "
    "set, and the level holds on average over seeds, not for the present one. Calibrate again for new draws."
)
"""The same sentence for calibrations saved by an older release."""


def key(seed: int, *data: np.ndarray) -> bytes:
    """Sixteen bytes derived from a seed and arrays of numbers, rounded to about seven digits.

    Rounding removes the digits in which results of two machines may differ.

    Examples
    --------
    >>> key(0, np.array([0.1 + 0.2])) == key(0, np.array([0.3])), key(0) == key(1)
    (True, False)
    """
    digest = hashlib.shake_128(np.int64(seed).tobytes())
    for array in data:
        mantissa, exponent = np.frexp(np.asarray(array, dtype=float))
        digest.update(np.round(mantissa * 2.0**24).tobytes() + exponent.astype(np.int64).tobytes())
    return digest.digest(16)


def uniform(own: bytes, row: np.ndarray, count: int = 1) -> np.ndarray:
    """`count` numbers, uniform in (0, 1), as a function of a key and one point (d,).

    Examples
    --------
    >>> bool(uniform(b"", np.zeros(2))[0] == uniform(b"", np.array([0.0, -0.0]))[0])
    True
    """
    digest = hashlib.shake_128(own + (row + 0.0).tobytes()).digest(8 * count)
    return ((np.frombuffer(digest, "<u8") >> 12).astype(float) + 0.5) / 2.0**52  # exact, so never 1
