"""Count rows that occur in a known data set, decide whether chance explains them, and describe the result."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from guardband.base.arrays import Array, ArrayLike, namespace, rows, to_numpy
from guardband.leaks.suspicions import Verdict, equal, nearly, nothing_in_common
from guardband.leaks.tables import Compared, finite, without_gaps


@dataclass(frozen=True)
class Copies:
    """The number of rows that occur in a known data set, and the verdict; it prints as a sentence.

    `exact` rows equal known rows, and `near` rows equal them up to a small perturbation or rounding; `first`
    is the first row of both kinds. `places` counts the rows with known inputs, regardless of their readings.
    `chance` is the probability that independent rows resemble known rows at least as much; the `verdict`
    follows from it.

    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> x, y = draw.uniform(size=(100, 2)), draw.normal(size=100)
    >>> found = find_copies(x, y, x[:30] + 1e-9, y[:30])
    >>> found.verdict, found.exact, found.near, found.first
    ('refuse', 0, 30, 0)
    >>> find_copies(x, y, x[:30], draw.normal(size=30)).verdict
    'fine'
    """

    n: int
    exact: int
    near: int
    first: int | None
    places: int
    chance: float
    verdict: Verdict
    text: str

    def __str__(self) -> str:
        return self.text


def find_copies(
    known_x: ArrayLike,
    known_y: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    *,
    points: str = "calibration",
    known: str = "training",
) -> Copies:
    """Find rows of x (n, d) and y (n, m) that are known rows, exactly or nearly; a whole field is one row.

    Independent rows are assumed to be of one of two kinds. Rows of the first kind have the distribution of
    the known rows, or lie between them, so they are no nearer to known rows than known rows are to each
    other. Rows of the second kind are new readings at known inputs, so they agree no better than repeated
    readings whose noise is not far below the last digit. Rows that fit neither kind are copies. Noise-free
    rows count as copies if both x and y agree. If known rows are closer to each other than the rounding
    error, a rounded copy cannot be distinguished from a fresh row.

    `points` and `known` are the names of both sets in the sentence: "calibration", "test", "training" or
    "held-out".

    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> x, y = draw.uniform(size=(100, 2)), draw.normal(size=100)
    >>> print(find_copies(x, y, x[:30].round(3), y[:30].round(3), points="test"))
    30 of 30 test points are training points up to perturbation or rounding, the first in row 0. The network \
has seen them, so they are covered too easily and prove nothing. Test on others.
    """
    names = ("known_x", "known_y", "x", "y")
    given = [rows(a, name) for a, name in zip((known_x, known_y, x, y), names, strict=True)]
    arrays, eps = [to_numpy(a) for a in given], [float(namespace(a).finfo(a.dtype).eps) for a in given]
    if arrays[0].shape[1:] == arrays[2].shape[1:]:
        arrays[0], arrays[2] = without_gaps(arrays[0], arrays[2])
    words = _Words(points, known)
    n = len(arrays[2])
    if any(arrays[i].shape[1:] != arrays[i + 2].shape[1:] for i in (0, 1)):
        text = f"The {known} points have a different shape, so {points} points cannot be compared with them."
        return Copies(n, 0, 0, None, 0, 1.0, "fine", text)
    if any(len(arrays[i]) != len(arrays[i + 1]) for i in (0, 2)):
        raise ValueError(
            f"Rows of x and y should pair up, got {', '.join(str(len(a)) for a in arrays)} rows."
        )
    known_ones, kept = (np.flatnonzero(finite(*arrays[i : i + 2])) for i in (0, 2))
    if len(known_ones) == 0 or len(kept) == 0:
        return Copies(n, 0, 0, None, 0, 1.0, "fine", words.fine(n, 0, 0))
    precision = (max(eps[0], eps[2]), max(eps[1], eps[3]))
    old, new = [a[known_ones] for a in arrays[:2]], [a[kept] for a in arrays[2:]]
    if nothing_in_common(old, new, precision):
        return Copies(n, 0, 0, None, 0, 1.0, "fine", words.fine(n, 0, 0))
    compared = Compared.of(old[0], old[1], new[0], new[1], precision)
    same, places = compared.same, int(compared.same_x.sum())
    worst, moved, more = equal(compared), same & False, 0.0
    for found in nearly(compared):
        worst = max(worst, found, key=lambda suspicion: suspicion.weight)
        if found.verdict != "fine" and found.more > more:
            moved, more = found.copied, found.more
        if worst.verdict == "refuse" and (moved | same).all():
            break
    exact, near = int(same.sum()), int(moved.sum())
    if worst.verdict == "fine":
        return Copies(n, exact, 0, None, places, worst.chance, "fine", words.fine(n, places, exact))
    first = int(kept[(same | moved).argmax()])
    text = words.of(worst.verdict, n, exact, near, first)
    return Copies(n, exact, near, first, places, worst.chance, worst.verdict, text)


def refuse_leaks(used: Mapping[str, Iterable[Array]], x: Array | None, y: Array) -> None:
    """Refuse calibration rows that the model was trained on, since their scores are too small."""
    for what, (known_x, known_y) in used.items():
        if x is None:
            continue
        if known_x.shape[1:] != x.shape[1:]:
            warnings.warn(
                f"The {what} rows have x of shape {tuple(known_x.shape)}, but the calibration rows have x of "
                f"shape {tuple(x.shape)}. They cannot be compared, so common rows would not be noticed.",
                stacklevel=3,
            )
        found = find_copies(known_x, known_y, x, y, points="calibration", known=what)
        if found.verdict == "refuse":
            raise ValueError(found.text)
        if found.verdict == "warn":
            warnings.warn(found.text, stacklevel=3)


@dataclass(frozen=True)
class _Words:
    """The sentences about points that should not be among known points."""

    points: str
    known: str

    def fine(self, n: int, places: int, same: int) -> str:
        points, known = f"{self.points} point", f"{self.known} point"
        if same:
            return (
                f"{same} of {n} {points}s coincide with {known}s, no more than expected by chance: readings "
                "are coarse, or rows are repeated."
            )
        if places:
            return (
                f"{places} of {n} {points}s lie at {self.known} inputs with different readings, as expected "
                "for sensors that were read again."
            )
        return f"No {points} is a {known}, exactly or nearly."

    def of(self, verdict: Verdict, n: int, exact: int, near: int, first: int) -> str:
        but = "" if not near else " up to perturbation or rounding" if not exact else ", exactly or nearly"
        points, known = f"{self.points} points", f"{self.known} points"
        if verdict == "warn":
            return (
                f"{exact + near} of {n} {points} look like {known}{but}, the first in row {first}. If they "
                f"are the same readings: {self._harm[0].lower()}{self._harm[1:]}"
            )
        return f"{exact + near} of {n} {points} are {known}{but}, the first in row {first}. {self._harm}"

    @property
    def _harm(self) -> str:
        if self.known == "calibration":
            return "They are covered by construction and prove nothing. Test on others."
        if self.points == "test":
            return (
                "The network has seen them, so they are covered too easily and prove nothing. Test on others."
            )
        return (
            "The network has seen them, so their scores are too small and the band would cover too little. "
            "Hold out others."
        )
