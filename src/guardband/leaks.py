"""Leaks: which rows are known already, exactly or nearly: moved by a hair, or rounded."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from guardband.arrays import Array, ArrayLike, flat, namespace, rows, to_numpy

WARN, REFUSE = 5e-3, 1e-6
"""Chances that honest rows look so much like known ones, below which there is a warning, or a refusal."""

NEAR = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3)
"""How near is near, in spreads of each column: all these are tried."""

HAIR = 1e-6
"""Nearer than this, in spreads, no fresh noise brings readings together."""

DIGITS = (2, 3, 4)
"""To how many significant digits, and to how many decimals, rows may have been rounded."""

FEW = 3
"""Fewer rows than this that are near, but not the same, are no reason to refuse."""

NEIGHBORS, SAMPLE = 4, 2000
"""From so many neighbors of so many known rows it is learnt how near rows lie by chance."""

COLUMNS = 8
"""Neighbors are looked for in so many columns, and compared in all."""

Verdict = Literal["refuse", "warn", "fine"]


@dataclass(frozen=True)
class Copies:
    """How many rows are known already, exactly or nearly, and what to do about it. Prints as a sentence.

    `exact` rows are equal to known ones and `near` rows are so but for a hair, or for rounding; `first` is
    the first of both. `places` counts the rows whose inputs are known, whatever was measured there. `chance`
    is how often honest rows look so much like known ones, or more; the `verdict` follows from it.

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
    """Which rows of x (n, d) and y (n, m) are known rows, exactly or nearly; whole fields are rows too.

    Honest rows are assumed to be of one of two kinds. Either they are drawn as the known rows were (at
    random, or between them), and then lie no nearer to those than those lie to each other; or they are new
    readings at known places, and then agree no better than readings that differ do, with noise that is not
    far below the last digit. Only what neither explains is a copy. Rows that are noise-free count as copies
    where x and y both agree. Where known rows lie closer together than rounding moves them, a rounded copy
    cannot be told from a fresh row.

    `points` and `known` are what the sentence calls them: "calibration", "test", "training", "held-out".

    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> x, y = draw.uniform(size=(100, 2)), draw.normal(size=100)
    >>> print(find_copies(x, y, x[:30].round(3), y[:30].round(3), points="test"))
    30 of 30 test points are training points but for a hair or for rounding, the first in row 0. The network \
has seen them, so they are covered too easily and prove nothing. Test on others.
    """
    names = ("known_x", "known_y", "x", "y")
    given = [rows(a, name) for a, name in zip((known_x, known_y, x, y), names, strict=True)]
    arrays, eps = [to_numpy(a) for a in given], [float(namespace(a).finfo(a.dtype).eps) for a in given]
    words = _Words(points, known)
    n = len(arrays[2])
    if any(arrays[i].shape[1:] != arrays[i + 2].shape[1:] for i in (0, 1)):
        text = f"The {known} points have another shape, so {points} points cannot be compared with them."
        return Copies(n, 0, 0, None, 0, 1.0, "fine", text)
    if any(len(arrays[i]) != len(arrays[i + 1]) for i in (0, 2)):
        raise ValueError(
            f"Rows of x and y should pair up, got {', '.join(str(len(a)) for a in arrays)} rows."
        )
    known_ones, kept = (np.flatnonzero(_finite(*arrays[i : i + 2])) for i in (0, 2))
    if len(known_ones) == 0 or len(kept) == 0:
        return Copies(n, 0, 0, None, 0, 1.0, "fine", words.fine(n, 0, 0))
    precision = (max(eps[0], eps[2]), max(eps[1], eps[3]))
    old, new = [a[known_ones] for a in arrays[:2]], [a[kept] for a in arrays[2:]]
    if _far(old, new, precision):
        return Copies(n, 0, 0, None, 0, 1.0, "fine", words.fine(n, 0, 0))
    compared = _Compared.of(old[0], old[1], new[0], new[1], precision)
    same, places = compared.same, int(compared.same_x.sum())
    worst, moved, more = _equal(compared), same & False, 0.0
    for found in _nearly(compared):
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
    """A model is better at points it has learnt from, so their scores promise too much."""
    for what, (known_x, known_y) in used.items():
        if x is None:
            continue
        found = find_copies(known_x, known_y, x, y, points="calibration", known=what)
        if found.verdict == "refuse":
            raise ValueError(found.text)
        if found.verdict == "warn":
            warnings.warn(found.text, stacklevel=3)


def shared_rows(a: Sequence[Array], b: Sequence[Array]) -> np.ndarray:
    """Which rows of the arrays `a`, side by side, stand in `b` too: (n,) booleans.

    Numbers are compared in the coarser of their two dtypes.

    >>> shared_rows([np.array([[1.0], [2.0]])], [np.array([[2.0], [3.0]])])
    array([False,  True])
    """
    a, b = [to_numpy(part) for part in a], [to_numpy(part) for part in b]
    dtypes = [min(p.dtype, q.dtype, key=lambda d: d.itemsize) for p, q in zip(a, b, strict=True)]
    return np.isin(_row_keys(a, dtypes), _row_keys(b, dtypes))


def more_than_repeats(same: np.ndarray, known: Sequence[Array]) -> bool:
    """Whether so many rows that stand among the known ones, (n,) booleans, must have been taken from them.

    Coarse sensors repeat themselves. Where known rows do so, new ones of their kind coincide with them about
    as often; twice that and five more are let pass.

    >>> known = np.array([[1.0], [1.0], [2.0], [3.0]])
    >>> more_than_repeats(np.array([True] * 6 + [False] * 4), [known])
    False
    """
    arrays = [to_numpy(part) for part in known]
    keys = _row_keys(arrays, [part.dtype for part in arrays])
    _, counts = np.unique(keys, return_counts=True)
    expected = len(same) * counts[counts > 1].sum() / max(1, len(keys))
    return bool(same.sum() > (2 * expected + 5 if expected else 0))


def _row_keys(parts: Sequence[np.ndarray], dtypes: Sequence[np.dtype]) -> np.ndarray:
    """The bytes of each row as one key; adding 0 turns -0.0 into 0.0, so that equal is equal."""
    columns = [
        np.ascontiguousarray(flat(part).astype(dtype) + dtype.type(0))
        for part, dtype in zip(parts, dtypes, strict=True)
    ]
    data = np.ascontiguousarray(np.hstack([column.view(np.uint8) for column in columns]))
    return data.view(np.dtype((np.void, data.shape[1]))).ravel()


@dataclass(frozen=True)
class _Words:
    """What is said, of points that should not be known."""

    points: str
    known: str

    def fine(self, n: int, places: int, same: int) -> str:
        points, known = f"{self.points} point", f"{self.known} point"
        if same:
            return (
                f"{same} of {n} {points}s coincide with {known}s, as chance allows: readings are coarse, or "
                "rows repeat themselves."
            )
        if places:
            return (
                f"{places} of {n} {points}s lie at {self.known} inputs, with other readings, as of sensors "
                "that were read again."
            )
        return f"No {points} is a {known}, exactly or nearly."

    def of(self, verdict: Verdict, n: int, exact: int, near: int, first: int) -> str:
        but = "" if not near else " but for a hair or for rounding" if not exact else ", exactly or nearly"
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


@dataclass(frozen=True, eq=False)
class _Suspicion:
    """Rows that agree with known ones, how often so many do by chance, and how many more they are."""

    copied: np.ndarray
    chance: float
    sure: bool = False
    more: float = 0.0

    @property
    def verdict(self) -> Verdict:
        if self.chance > WARN:
            return "fine"
        return "refuse" if self.sure and self.chance <= REFUSE else "warn"

    @property
    def weight(self) -> tuple[int, float]:
        """What makes one suspicion graver than another."""
        return ("fine", "warn", "refuse").index(self.verdict), -self.chance


@dataclass(frozen=True, eq=False)
class _Compared:
    """Known rows and new ones as float64, (n, columns); columns that never change are left out.

    `place` numbers the inputs and is -1 for new ones, `value` numbers the readings, `row` is place times
    `width` plus value; equal ones have the same number. `same_x` and `same` say which new rows equal known
    ones in x, and in x and y. From the known rows of the `sample` it is learnt how near rows lie by chance.
    """

    known_x: np.ndarray
    known_y: np.ndarray
    x: np.ndarray
    y: np.ndarray
    known_place: np.ndarray
    known_row: np.ndarray
    place: np.ndarray
    same: np.ndarray
    value: np.ndarray
    width: int
    repeated: int
    precision: tuple[float, float]
    sample: np.ndarray

    @classmethod
    def of(
        cls,
        known_x: np.ndarray,
        known_y: np.ndarray,
        x: np.ndarray,
        y: np.ndarray,
        precision: tuple[float, float],
    ) -> _Compared:
        known_place, place = _numbered(known_x, x)
        known_value, value = _numbered(known_y, y)
        width = int(max(known_value.max(), value.max())) + 1
        known_row, row = known_place * width + known_value, place * width + value
        known_x, x = _varying(known_x, x)
        known_y, y = _varying(known_y, y)
        sample = np.random.default_rng(0).permutation(len(known_x))[:SAMPLE]
        _, counts = np.unique(known_row, return_counts=True)
        return cls(
            known_x,
            known_y,
            x,
            y,
            known_place,
            known_row,
            np.where(np.isin(place, known_place), place, -1),
            np.isin(row, known_row),
            value,
            width,
            int(counts[counts > 1].sum()),
            precision,
            sample,
        )

    @cached_property
    def telling(self) -> np.ndarray:
        """The new rows that are not of dead sensors, which say nothing wherever they stand."""
        if not self.same.any() or (self.steps_y != 0).all():
            return np.ones(len(self.x), bool)
        values, places = np.unique(np.unique(self.known_row) % self.width, return_counts=True)
        return ~(self.same & np.isin(self.value, values[places > 1]))

    @cached_property
    def steps_x(self) -> np.ndarray:
        """The `_resolution` of each column of x."""
        return np.array([_resolution(column, self.precision[0]) for column in self.known_x[self.sample].T])

    @cached_property
    def steps_y(self) -> np.ndarray:
        """The `_resolution` of each column of y."""
        return np.array([_resolution(column, self.precision[1]) for column in self.known_y[self.sample].T])

    @property
    def same_x(self) -> np.ndarray:
        return self.place >= 0

    @property
    def continuous(self) -> int:
        return int((self.steps_x == 0).sum() + (self.steps_y == 0).sum())


QUICK = 50_000
"""Numbers that are compared with each other at once, where tables are small."""


def _far(known: Sequence[np.ndarray], new: Sequence[np.ndarray], precision: tuple[float, float]) -> bool:
    """Whether small tables are seen at once to have nothing in common: no place, no near row, no rounded one.

    Most have not. A column's spread is less than 2.2 of its standard deviations, whatever it holds.
    """
    columns = [
        (old, fresh, eps)
        for a, b, eps in zip(known, new, precision, strict=True)
        for old, fresh in zip(flat(a).astype(float).T, flat(b).astype(float).T, strict=True)
    ]
    if len(known[0]) * len(new[0]) * len(columns) > QUICK:
        return False
    near = there = np.ones((len(new[0]), len(known[0])), bool)
    for number, (old, fresh, eps) in enumerate(columns):
        with np.errstate(over="ignore", invalid="ignore"):
            spread, apart = old.std(), np.abs(fresh[:, None] - old)
        dust = 4 * eps * np.abs(old).max()
        if not dust < 1e-4 * spread < math.inf:  # hardly more than one number, or beyond all measure
            return False
        near = near & (apart <= 2.2 * NEAR[-1] * spread)
        if number < math.prod(known[0].shape[1:]):
            there = there & (apart <= dust)
    return not (near.any() or there.any() or any(_rounded(new, precision, kind) for kind in (True, False)))


def _rounded(new: Sequence[np.ndarray], precision: tuple[float, float], significant: bool) -> bool:
    """Whether more than a few rows are written with few digits."""
    rounding, (x, y) = _Rounding(DIGITS[-1], significant), map(flat, new)
    short = rounding.has(y, precision[1])
    return bool(short.sum() >= FEW and rounding.has(x[short], precision[0]).sum() >= FEW)


def _numbered(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers for the rows of two arrays, the same number for equal rows, in the coarser of their dtypes."""
    dtype = min(a.dtype, b.dtype, key=lambda d: d.itemsize)
    keys = np.concatenate([_row_keys([part], [dtype]) for part in (a, b)])
    _, numbers = np.unique(keys, return_inverse=True)
    return numbers[: len(a)], numbers[len(a) :]


def _finite(*parts: np.ndarray) -> np.ndarray:
    """Which rows can be compared."""
    return np.all([np.isfinite(flat(part)).all(axis=1) for part in parts], axis=0)


def _varying(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The columns that change; those with numbers beyond all measure in other units."""
    a, b = (flat(part).astype(float) for part in (a, b))
    varies = (a != a[0]).any(axis=0) | (b != a[0]).any(axis=0)
    a, b = a[:, varies], b[:, varies]
    size = np.maximum(np.abs(a).max(axis=0, initial=0.0), np.abs(b).max(axis=0, initial=0.0))
    unit = np.where((size < 1e-100) | (size > 1e100), size, 1.0)
    return a / unit, b / unit


def _resolution(column: np.ndarray, eps: float) -> float:
    """How coarse a column is: its step, such as 0.01; minus its significant digits; 0 if it is continuous."""
    if eps > 1e-5:
        return float(np.floor(np.log10(eps)))
    values = np.unique(column)
    size = float(np.abs(values).max())
    if len(values) == 1:
        return max(size, 1.0) if len(column) > 1 else 0.0
    step = _even_step(values, len(column), eps * size)
    for digits in DIGITS:
        if _Rounding(digits, True).has(values[:, None], eps).all():
            last = 10.0 ** (_exponents(np.array(size)) + 1 - digits)
            return float(-digits) if step < 0.5 * last else step
    return step


def _even_step(values: np.ndarray, n: int, dust: float) -> float:
    """The step between the ascending values of a column; 0 if there is none."""
    gaps, reach = np.diff(values), float(values[-1] - values[0])
    for decimals in range(-9, 10):
        step = 10.0**-decimals
        if reach <= 1e5 * step and dust < 0.01 * step:
            if (np.abs(values - np.rint(values / step) * step) <= 4 * dust).all():
                return step
    if 2 * len(values) <= n:
        return float(gaps.min())
    return _common_step(values - values[0], gaps, dust) if len(values) >= 10 else 0.0


def _common_step(offsets: np.ndarray, gaps: np.ndarray, dust: float) -> float:
    """The step all offsets (ascending from 0) are multiples of, as readings of a converter are; or 0."""
    step = float(gaps.min())
    for gap in np.sort(gaps[gaps <= 20 * step])[:200]:
        rest = abs(gap - round(gap / step) * step)
        while rest > 0.05 * step:
            step, rest = rest, abs(step - round(step / rest) * rest)
        if step <= 20 * dust:
            return 0.0
    limit = 16 * step
    while True:
        near = offsets[(offsets > 0) & (offsets <= limit)]
        if len(near):
            k = np.maximum(np.rint(near / step), 1)
            if (np.abs(near - k * step) > 0.05 * step).any():
                return 0.0
            step = float((near * k).sum() / (k * k).sum())
        if limit > offsets[-1]:
            return step if offsets[-1] <= 1e5 * step else 0.0
        limit *= 4


def _nearly(compared: _Compared) -> Iterator[_Suspicion]:
    """Rows that are not equal to known ones but near, for all that may have moved them."""
    if len(compared.known_x) <= FEW or compared.same.all():
        return
    by_spread = _Ruler(compared, _spreads(compared))
    for near in NEAR if (by_spread.nearest <= NEAR[-1]).any() else ():
        among = ~compared.same if near <= HAIR else ~compared.same_x
        yield by_spread.suspicion(near, among, certain=near <= HAIR)
    for rounding, among in _roundings(compared):
        ruler = _Ruler(compared, rounding.units(compared), rounding)
        yield ruler.suspicion(1 + 1e-6, among, certain=False)


def _roundings(compared: _Compared) -> Iterator[tuple[_Rounding, np.ndarray]]:
    """How new rows may have been rounded, where known rows are not, and which rows have so few digits."""
    for significant in (True, False):
        before = 0
        if _digits(compared, _Rounding(DIGITS[-1], significant)).sum() < FEW:
            continue
        for digits in DIGITS:
            rounding = _Rounding(digits, significant)
            among = _digits(compared, rounding)
            count = int(among.sum())
            if count >= FEW and count > 1.1 * before and 2 * rounding.share(compared) < 1:
                yield rounding, among
            before = count


def _digits(compared: _Compared, rounding: _Rounding) -> np.ndarray:
    """Which new rows are written with no more digits than rounding leaves, and are not known as they are."""
    in_x, in_y = compared.precision
    return rounding.has(compared.x, in_x) & rounding.has(compared.y, in_y) & ~compared.same


def _equal(compared: _Compared) -> _Suspicion:
    """Rows that are equal to known ones: copies, unless known rows repeat themselves as often."""
    if not compared.same.any():
        return _Suspicion(compared.same, 1.0)
    close, at_known = compared.same & compared.telling, compared.same_x & compared.telling
    if not close.any():
        return _Suspicion(close, 1.0)
    steps = (
        _stepped(compared.steps_x, compared.known_x, compared.x),
        _stepped(compared.steps_y, compared.known_y, compared.y),
    )
    repeated = (compared.repeated, len(compared.known_x))
    chance = _at_most(*repeated) if compared.repeated else 0.0
    if len(compared.known_x) > FEW:
        coarse = compared.continuous == 0
        ruler = _Ruler(compared, steps if coarse else _spreads(compared))
        chance = max(chance, min(ruler.by_chance(0.5 if coarse else ruler.last_bit), _at_most(*repeated)))
    drawn = _tail(close, compared.telling, chance)
    again, sure = 0.0, True
    if (compared.steps_y != 0).all():
        ruler = _Ruler(compared, (_Units.of(np.ones(compared.x.shape[1])), steps[1]))
        again, sure = ruler.agree_again(0.5, at_known, close, compared.place, certain=True)
    found = max(drawn, _tail(close, at_known, again))
    if close.all() and close.sum() >= FEW and drawn <= REFUSE < found:  # all known, and y does not tell why
        return _Suspicion(close, min(found, WARN), more=float(close.sum()))
    return _Suspicion(close, found, sure, float(close.sum()))


@dataclass(frozen=True, eq=False)
class _Ruler:
    """Distances between rows, the largest over columns, each column in its own units."""

    compared: _Compared
    units: tuple[_Units, _Units]
    rounding: _Rounding | None = None

    def suspicion(self, near: float, among: np.ndarray, *, certain: bool) -> _Suspicion:
        """Rows so near to known ones in x and y, unless they lie there, or agree there, by chance."""
        close = (self.nearest <= near) & among
        if not close.any():
            return _Suspicion(close, 1.0)
        chance = self.by_chance(near)
        drawn = _tail(close, among, chance)
        if drawn > WARN:
            return _Suspicion(close, drawn)
        distance, place = self._places
        at_known = (distance <= near) & among
        mostly_at = 2 * (close & self.compared.same_x).sum() > close.sum()
        certain_then = certain or (self.rounding is not None and not mostly_at)
        again, sure = self.agree_again(near, at_known, close, place, certain=certain_then)
        if mostly_at and not certain and 2 * close.sum() < at_known.sum():
            sure = False
        found = max(drawn, _tail(close, at_known, again))
        more = float(close.sum() - chance * among.sum())
        return _Suspicion(close, found, sure and bool(close.sum() >= FEW), more)

    def by_chance(self, near: float) -> float:
        """The probability that a row drawn as the known ones were comes so near to one of them.

        Known rows show it themselves, each left out in turn; where too few of them do, the density of rows
        around them does, smoothly continued to small distances.
        """
        between = self._between
        seen, n = int((between[:, 0] <= near).sum()), len(between)
        at_most = _at_most(seen, n)
        if seen >= 5 and not self._regular:
            return at_most
        farthest = np.maximum(between[:, -1], 1e-300)
        share = 2 * max(1, between.shape[1] - 1) * (near / farthest).clip(0, 1) ** self._dimension
        smooth = float(share.clip(0, 1).mean()) + (at_most if seen else 0.0)
        return min(1.0, smooth if self._regular else min(smooth, at_most))

    @property
    def last_bit(self) -> float:
        """How far apart inputs must lie to be different numbers."""
        compared = self.compared
        size = np.abs(self.units[0](compared.known_x[compared.sample])).max(axis=0)
        return compared.precision[0] * float(size.min(initial=1.0))

    def agree_again(
        self, near: float, at_known: np.ndarray, close: np.ndarray, place: np.ndarray, *, certain: bool
    ) -> tuple[float, bool]:
        """The probability that a new reading at a known place agrees with an old one, and if that is sure.

        Readings that were repeated show it: among the known rows, or among the new ones at known places that
        are not close. Without such, readings at neighboring places must do.
        """
        compared, found = self.compared, []
        _, number, counts = np.unique(compared.known_place, return_inverse=True, return_counts=True)
        repeated = compared.sample[counts[number[compared.sample]] > 1]
        next_door = compared.sample[self._next_places[0] <= near]
        if len(repeated) >= 10:
            distances, _ = self._readings(
                compared.known_place[repeated], compared.known_y[repeated], repeated
            )
            often = counts[number[repeated]]
            found.append(1 - (1 - _agreement(distances / near)) ** float(np.mean(often / (often - 1))))
        elif len(next_door) >= 10:
            place_there = self._next_places[1][self._next_places[0] <= near]
            found.append(_agreement(self._readings(place_there, compared.known_y[next_door])[0] / near))
        others = np.flatnonzero(at_known & ~close)
        apart, nearest = self._readings(place[others], compared.y[others])
        apart /= near
        if len(apart) >= (20 if found else 5):
            found.append(_agreement(apart, apart=True))
            found.append(self._agreement_by_size(near, compared.y[at_known], compared.y[others] - nearest))
        if found:
            return min(1.0, max(found)), True
        if len(apart) and np.median(apart) < 3:
            return 0.95, False
        distances, _ = self._readings(self._next_places[1], compared.known_y[compared.sample])
        return _agreement(distances / near), certain and (len(apart) == 0 or near <= HAIR)

    def _agreement_by_size(self, near: float, y: np.ndarray, differences: np.ndarray) -> float:
        """The same if readings differ alike everywhere, but their last digit is not of one size."""
        if not self.units[1].floating.any():
            return 0.0
        enough = near * self.units[1].size(y[:200])
        differences = np.abs(differences[:200])
        return float(np.mean([_agreement((differences / size).max(axis=1), apart=True) for size in enough]))

    @property
    def _looked(self) -> tuple[np.ndarray, np.ndarray]:
        """The known rows that are left out in turn, rounded as new rows are."""
        parts = (self.compared.known_x[self.compared.sample], self.compared.known_y[self.compared.sample])
        return parts if self.rounding is None else tuple(self.rounding.round(a) for a in parts)  # type: ignore

    @cached_property
    def nearest(self) -> np.ndarray:
        """From each new row to the nearest known one, (n,)."""
        return self._search(self.compared.x, self.compared.y, 1)[:, 0]

    @cached_property
    def _between(self) -> np.ndarray:
        """From known rows of the sample to their neighbors, (rows, neighbors)."""
        sample, (_, number, repeated) = self.compared.sample, self._distinct
        distances = self._search(*self._looked, NEIGHBORS, number[sample])
        between = np.where(repeated[sample, None], np.roll(distances, 1, axis=1), distances)
        between[repeated[sample], 0] = 0.0
        return between

    def _search(self, x: np.ndarray, y: np.ndarray, k: int, left_out: np.ndarray | None = None) -> np.ndarray:
        """From rows x and y to the k nearest different known ones."""
        (in_x, in_y), first = self.units, self._distinct[0]
        known = np.hstack([in_x(self.compared.known_x[first]), in_y(self.compared.known_y[first])])
        return _search(known, np.hstack([in_x(x), in_y(y)]), max(1, min(k, len(known) - 1)), left_out)[0]

    @cached_property
    def _distinct(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where each different known row stands first, which of them each row is, and if it is repeated."""
        _, first, number, counts = np.unique(
            self.compared.known_row, return_index=True, return_inverse=True, return_counts=True
        )
        return first, number, counts[number] > 1

    @cached_property
    def _dimension(self) -> float:
        """In how many dimensions known rows spread around each other, cautiously: at least 1."""
        between = self._between
        between = between[between[:, 0] > 0]
        most = max(1, self.compared.x.shape[1] if self._regular else self.compared.continuous)
        growth = np.log(between[:, -1:] / between[:, :-1]).mean() if between[:, :-1].size else 0.0
        return float(np.clip(0.8 / growth, 1, most)) if growth > 0 else float(most)

    @cached_property
    def _regular(self) -> bool:
        """Whether known places lie on a grid, so that new ones may lie nearer to them than they do.

        At random the two nearest neighbors in d dimensions differ in distance by a factor exp(1 / d).
        """
        compared, in_x = self.compared, self.units[0]
        _, first = np.unique(compared.known_place, return_index=True)
        d = compared.x.shape[1]
        if len(first) < 3 or d == 0:
            return True
        known, looked = (
            in_x(compared.known_x[first]),
            np.random.default_rng(0).permutation(len(first))[:SAMPLE],
        )
        distances, _ = _search(known, known[looked], 2, looked)
        apart = distances[distances[:, 0] > 0]
        return len(apart) == 0 or float(np.log(apart[:, 1] / apart[:, 0]).mean()) < 0.3 / d

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """From each new row to the nearest known place: how far in x, and which place."""
        compared, in_x = self.compared, self.units[0]
        places, first = np.unique(compared.known_place, return_index=True)
        distances, nearest = _search(in_x(compared.known_x[first]), in_x(compared.x), 1)
        return distances[:, 0], places[nearest[:, 0]]

    @cached_property
    def _next_places(self) -> tuple[np.ndarray, np.ndarray]:
        """From each known row of the sample to the nearest other place: how far in x, and which place."""
        compared, in_x = self.compared, self.units[0]
        places, first, number = np.unique(compared.known_place, return_index=True, return_inverse=True)
        number = number[compared.sample]
        if len(places) == 1:
            return np.full(len(number), np.inf), places[number]
        known = in_x(compared.known_x[first])
        distances, nearest = _search(known, known[number], 1, number)
        return distances[:, 0], places[nearest[:, 0]]

    def _readings(
        self, place: np.ndarray, y: np.ndarray, left_out: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """How far y is from the nearest known reading at that place, and that reading."""
        in_y, (first, number, repeated) = self.units[1], self._distinct
        known_y = self.compared.known_y[first]
        if len(place) == 0:
            return np.zeros(0), known_y[:0]
        known, new = in_y(known_y), in_y(y)
        both = np.vstack([known, new])
        apart = 4 * float(np.ptp(both)) + 1.0 if both.size else 1.0
        known = np.hstack([self.compared.known_place[first, None] * apart, known])
        new = np.hstack([place[:, None] * apart, new])
        if left_out is None:
            distances, nearest = _search(known, new, 1)
            return distances[:, 0], known_y[nearest[:, 0]]
        distances, nearest = _search(known, new, 1, number[left_out])
        return np.where(repeated[left_out], 0.0, distances[:, 0]), known_y[nearest[:, 0]]


@dataclass(frozen=True)
class _Rounding:
    """Rounding to so many significant digits, or decimals."""

    digits: int
    significant: bool

    def round(self, a: np.ndarray) -> np.ndarray:
        if not self.significant:
            return np.round(a, self.digits)
        unit = 10.0 ** (_exponents(a) + 1 - self.digits)
        return np.rint(a / unit) * unit

    def has(self, a: np.ndarray, eps: float) -> np.ndarray:
        """Which rows are written with no more digits than this."""
        found = np.ones(len(a), bool)
        for columns in (slice(0, COLUMNS), slice(COLUMNS, None)):  # a few columns tell of most rows
            part = a[found, columns]
            found[found] = np.all(np.abs(self.round(part) - part) <= 4 * eps * np.abs(part), axis=1)
        return found

    def share(self, compared: _Compared) -> float:
        """The share of known rows that are."""
        has = self.has(compared.known_x[compared.sample], compared.precision[0])
        return float((has & self.has(compared.known_y[compared.sample], compared.precision[1])).mean())

    def units(self, compared: _Compared) -> tuple[_Units, _Units]:
        """Units such that rounding moves nothing by more than 1."""
        in_x, in_y = compared.precision
        return self._units(in_x, compared.known_x, compared.x), self._units(
            in_y, compared.known_y, compared.y
        )

    def _units(self, eps: float, *values: np.ndarray) -> _Units:
        size = np.abs(np.vstack(values)).max(axis=0, initial=0.0)
        if not self.significant:
            return _Units.of(0.5 * 10.0**-self.digits + 4 * eps * size)
        half = 0.5 * 10.0 ** (1 - self.digits) + 40 * eps
        return _Units.of(np.full(len(size), half), np.ones(len(size), bool), *values)


@dataclass(frozen=True, eq=False)
class _Units:
    """Coordinates of columns in units of their own.

    In a floating column each decade is 9 long and numbers in it are evenly spaced, as their digits are;
    `least` is its first decade.
    """

    unit: np.ndarray
    floating: np.ndarray
    least: np.ndarray

    @classmethod
    def of(cls, unit: np.ndarray, floating: np.ndarray | None = None, *values: np.ndarray) -> _Units:
        if floating is None or not floating.any():
            return cls(unit, np.zeros(len(unit), bool), np.zeros(len(unit)))
        both = np.vstack(values)
        least = np.where(both != 0, _exponents(both), np.inf).min(axis=0)
        return cls(unit, floating, np.where(np.isfinite(least), least, 0.0))

    def __call__(self, a: np.ndarray) -> np.ndarray:
        if not self.floating.any():
            return a / self.unit
        exponents = _exponents(a)
        digits = np.sign(a) * (9 * (exponents - self.least) + np.abs(a) / 10.0**exponents)
        return np.where(self.floating, digits, a) / self.unit

    def size(self, a: np.ndarray) -> np.ndarray:
        """How large one unit is at each number."""
        return np.where(self.floating, 10.0 ** _exponents(a), 1.0) * self.unit


def _stepped(steps: np.ndarray, *values: np.ndarray) -> _Units:
    """Units in which one step of a coarse column is 1."""
    unit = np.where(steps < 0, 10.0 ** (1 + steps.clip(max=0)), np.where(steps > 0, steps, 1.0))
    return _Units.of(unit, steps < 0, *values)


def _exponents(a: np.ndarray) -> np.ndarray:
    """The decimal exponent of each number: 2 for 123; 0 for 0."""
    size = np.abs(a)
    exponents = np.floor(np.log10(np.where(size > 0, size, 1.0)))
    return exponents.clip(-290, 290)


def _spreads(compared: _Compared) -> tuple[_Units, _Units]:
    """Units of each column's own spread, that of the middle half of the known rows."""
    in_x, in_y = compared.precision
    return (
        _Units.of(_spread(compared.known_x[compared.sample], compared.x, in_x)),
        _Units.of(_spread(compared.known_y[compared.sample], compared.y, in_y)),
    )


def _spread(known: np.ndarray, new: np.ndarray, eps: float) -> np.ndarray:
    low, high = np.quantile(known, [0.25, 0.75], axis=0)
    spread = np.where(high > low, (high - low) / 1.35, known.std(axis=0))
    size, moved = np.abs(known).max(axis=0), np.abs(new - known[0]).max(axis=0)
    never = np.where(moved <= HAIR * size.clip(1), size.clip(1), moved)  # of columns that do not change
    return np.where(spread > 4 * eps * size, spread, never)


def _search(
    known: np.ndarray, new: np.ndarray, k: int, left_out: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest known rows of each new one, by the largest difference over columns: how far, and which.

    `left_out` is the known row, if any, that each new one is not to be compared with. With many columns,
    candidates are found in a few of them and compared in all.
    """
    from scipy.spatial import cKDTree  # type: ignore[attr-defined]

    width = known.shape[1]
    few = np.unique(np.linspace(0, width - 1, COLUMNS).astype(int)) if width > COLUMNS else np.arange(width)
    if width == 0:
        known, new, few = np.zeros((len(known), 1)), np.zeros((len(new), 1)), np.arange(1)
    wanted = min(len(known), k + (left_out is not None) + (4 if width > COLUMNS else 0))
    tree = cKDTree(known[:, few], balanced_tree=False)
    distances, nearest = tree.query(new[:, few], range(1, wanted + 1), p=np.inf)
    if width > COLUMNS:
        for start in range(0, len(new), 1000):
            part = slice(start, start + 1000)
            distances[part] = np.abs(known[nearest[part]] - new[part, None]).max(axis=-1)
    if left_out is not None:
        distances = np.where(nearest == left_out[:, None], np.inf, distances)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(nearest, order, axis=1)


def _agreement(times: np.ndarray, *, apart: bool = False) -> float:
    """The probability that readings agree, at most, from how many times too far apart pairs of them are.

    Differences are about evenly spread near zero. Where pairs that agree were left out (`apart`) and the
    rest lie hardly farther apart, digits are as coarse as noise, and nearly all may agree.
    """
    from scipy.special import betaincinv

    agree, n = int((times <= 1).sum()), len(times)
    if agree:
        return 1.0 if agree == n else float(betaincinv(agree + 1, n - agree, 0.95))
    count = -(-3 * n // 10)
    reach = float(np.partition(times, count - 1)[count - 1])
    if reach < 3 and apart:
        return 0.95
    share = float(betaincinv(count + 1, n - count, 0.95))
    return min(0.95, share * min(1.0, 1.2 / (reach - 1)))


def _at_most(seen: int, of: int) -> float:
    """A bound on the share of which so many were seen; they come in pairs, so half of them count."""
    from scipy.special import betaincinv

    return 1.0 if seen >= of else float(betaincinv(seen / 2 + 1, (of - seen) / 2, 0.99))


def _tail(close: np.ndarray, among: np.ndarray, chance: float) -> float:
    """The probability that so many or more are close among these, each by this chance."""
    from scipy.special import bdtrc

    count, n = int(close.sum()), int(among.sum())
    return float(bdtrc(count - 1, n, min(1.0, chance))) if count else 1.0
