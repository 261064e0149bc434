"""Distances between rows and known rows, and the probability that they occur by chance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from guardband.leaks.digits import COLUMNS, Rounding
from guardband.leaks.tables import SAMPLE, Compared
from guardband.leaks.units import HAIR, Units

NEIGHBORS = 4
"""The number of neighbors of known rows from which the distribution of distances is estimated."""


@dataclass(frozen=True, eq=False)
class Distances:
    """Distances between rows in the maximum norm, with each column in its unit."""

    compared: Compared
    units: tuple[Units, Units]
    rounding: Rounding | None = None

    def by_chance(self, near: float) -> float:
        """The probability that a row with the distribution of the known rows is this near to one of them.

        The probability is estimated by leaving out known rows in turn. If too few of them are this near, the
        density of rows around them is extrapolated to small distances.
        """
        between = self._between
        close, n = int((between[:, 0] <= near).sum()), len(between)
        bound = share_bound(close, n)
        if close >= 5 and not self._regular:
            return bound
        farthest = np.maximum(between[:, -1], 1e-300)
        share = 2 * max(1, between.shape[1] - 1) * (near / farthest).clip(0, 1) ** self._dimension
        smooth = float(share.clip(0, 1).mean()) + (bound if close else 0.0)
        return min(1.0, smooth if self._regular else min(smooth, bound))

    @property
    def last_bit(self) -> float:
        """The smallest distance between different floating-point inputs."""
        compared = self.compared
        size = np.abs(self.units[0](compared.known_x[compared.sample])).max(axis=0)
        return compared.precision[0] * float(size.min(initial=1.0))

    def agree_again(
        self, near: float, at_known: np.ndarray, close: np.ndarray, place: np.ndarray, *, certain: bool
    ) -> tuple[float, bool]:
        """The probability that a new reading at a known input agrees with an old one, and its reliability.

        The probability is estimated from repeated readings among the known rows, or among those new rows at
        known inputs that are not close, and otherwise from readings at neighboring inputs.
        """
        compared, found = self.compared, []
        _, number, counts = np.unique(compared.known_place, return_inverse=True, return_counts=True)
        repeated = compared.sample[counts[number[compared.sample]] > 1]
        neighboring = compared.sample[self._next_places[0] <= near]
        if len(repeated) >= 10:
            distances, _ = self._readings(
                compared.known_place[repeated], compared.known_y[repeated], repeated
            )
            times = counts[number[repeated]]
            found.append(1 - (1 - agreement(distances / near)) ** float(np.mean(times / (times - 1))))
        elif len(neighboring) >= 10:
            next_place = self._next_places[1][self._next_places[0] <= near]
            found.append(agreement(self._readings(next_place, compared.known_y[neighboring])[0] / near))
        others = np.flatnonzero(at_known & ~close)
        apart, nearest = self._readings(place[others], compared.y[others])
        apart /= near
        if len(apart) >= (20 if found else 5):
            found.append(agreement(apart, apart=True))
            found.append(self._agreement_by_size(near, compared.y[at_known], compared.y[others] - nearest))
        if found:
            return min(1.0, max(found)), True
        if len(apart) and np.median(apart) < 3:
            return 0.95, False
        distances, _ = self._readings(self._next_places[1], compared.known_y[compared.sample])
        return agreement(distances / near), certain and (len(apart) == 0 or near <= HAIR)

    def _agreement_by_size(self, near: float, y: np.ndarray, differences: np.ndarray) -> float:
        """The probability of agreement if the last digit varies in size but differences do not."""
        if not self.units[1].floating.any():
            return 0.0
        enough = near * self.units[1].size(y[:200])
        differences = np.abs(differences[:200])
        return float(np.mean([agreement((differences / size).max(axis=1), apart=True) for size in enough]))

    @property
    def _sample_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The known rows that are left out in turn, rounded like the new rows."""
        x, y = self.compared.known_x[self.compared.sample], self.compared.known_y[self.compared.sample]
        return (x, y) if self.rounding is None else (self.rounding.round(x), self.rounding.round(y))

    @cached_property
    def nearest(self) -> np.ndarray:
        """The distance of each new row to the nearest known row, (n,)."""
        return self._search(self.compared.x, self.compared.y, 1)[:, 0]

    @cached_property
    def _between(self) -> np.ndarray:
        """The distances of known rows of the sample to their neighbors, (rows, neighbors)."""
        sample, (_, number, repeated) = self.compared.sample, self._distinct
        distances = self._search(*self._sample_rows, NEIGHBORS, number[sample])
        between = np.where(repeated[sample, None], np.roll(distances, 1, axis=1), distances)
        between[repeated[sample], 0] = 0.0
        return between

    def _search(self, x: np.ndarray, y: np.ndarray, k: int, left_out: np.ndarray | None = None) -> np.ndarray:
        """The distances of rows x and y to the k nearest distinct known rows."""
        (in_x, in_y), first = self.units, self._distinct[0]
        known = np.hstack([in_x(self.compared.known_x[first]), in_y(self.compared.known_y[first])])
        return search(known, np.hstack([in_x(x), in_y(y)]), max(1, min(k, len(known) - 1)), left_out)[0]

    @cached_property
    def _distinct(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The first index of each distinct known row, the distinct row of each row, and if it is repeated."""
        _, first, number, counts = np.unique(
            self.compared.known_row, return_index=True, return_inverse=True, return_counts=True
        )
        return first, number, counts[number] > 1

    @cached_property
    def _dimension(self) -> float:
        """A cautious estimate of the intrinsic dimension of the known rows, at least 1."""
        between = self._between
        between = between[between[:, 0] > 0]
        most = max(1, self.compared.x.shape[1] if self._regular else self.compared.continuous)
        growth = np.log(between[:, -1:] / between[:, :-1]).mean() if between[:, :-1].size else 0.0
        return float(np.clip(0.8 / growth, 1, most)) if growth > 0 else float(most)

    @cached_property
    def _regular(self) -> bool:
        """Whether known inputs lie on a grid, so that new inputs may be nearer to them than the grid spacing.

        For random inputs in d dimensions, the distances of the two nearest neighbors differ by a factor of
        about exp(1 / d).
        """
        compared, in_x = self.compared, self.units[0]
        _, first = np.unique(compared.known_place, return_index=True)
        d = compared.x.shape[1]
        if len(first) < 3 or d == 0:
            return True
        known = in_x(compared.known_x[first])
        sample = np.random.default_rng(0).permutation(len(first))[:SAMPLE]
        distances, _ = search(known, known[sample], 2, sample)
        apart = distances[distances[:, 0] > 0]
        return len(apart) == 0 or float(np.log(apart[:, 1] / apart[:, 0]).mean()) < 0.3 / d

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """The distance in x of each new row to the nearest known input, and this input."""
        compared, in_x = self.compared, self.units[0]
        places, first = np.unique(compared.known_place, return_index=True)
        distances, nearest = search(in_x(compared.known_x[first]), in_x(compared.x), 1)
        return distances[:, 0], places[nearest[:, 0]]

    @cached_property
    def _next_places(self) -> tuple[np.ndarray, np.ndarray]:
        """The distance in x of each known row of the sample to the nearest other input, and this input."""
        compared, in_x = self.compared, self.units[0]
        places, first, number = np.unique(compared.known_place, return_index=True, return_inverse=True)
        number = number[compared.sample]
        if len(places) == 1:
            return np.full(len(number), np.inf), places[number]
        known = in_x(compared.known_x[first])
        distances, nearest = search(known, known[number], 1, number)
        return distances[:, 0], places[nearest[:, 0]]

    def _readings(
        self, place: np.ndarray, y: np.ndarray, left_out: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The distance of y to the nearest known reading at an input, and this reading."""
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
            distances, nearest = search(known, new, 1)
            return distances[:, 0], known_y[nearest[:, 0]]
        distances, nearest = search(known, new, 1, number[left_out])
        return np.where(repeated[left_out], 0.0, distances[:, 0]), known_y[nearest[:, 0]]


def search(
    known: np.ndarray, new: np.ndarray, k: int, left_out: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The distances and indices of the k nearest known rows of each new row, in the maximum norm.

    `left_out` is the known row, if any, that is excluded for each new row. With many columns, candidates are
    found with some of the columns and compared in all of them.
    """
    from scipy.spatial import KDTree

    width = known.shape[1]
    few = np.unique(np.linspace(0, width - 1, COLUMNS).astype(int)) if width > COLUMNS else np.arange(width)
    if width == 0:
        known, new, few = np.zeros((len(known), 1)), np.zeros((len(new), 1)), np.arange(1)
    wanted = min(len(known), k + (left_out is not None) + (4 if width > COLUMNS else 0))
    tree = KDTree(known[:, few], balanced_tree=False)
    query = tree.query(new[:, few], wanted, p=np.inf)
    distances, nearest = (np.asarray(part).reshape(len(new), wanted) for part in query)
    if width > COLUMNS:
        for start in range(0, len(new), 1000):
            part = slice(start, start + 1000)
            distances[part] = np.abs(known[nearest[part]] - new[part, None]).max(axis=-1)
    if left_out is not None:
        distances = np.where(nearest == left_out[:, None], np.inf, distances)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(nearest, order, axis=1)


def agreement(times: np.ndarray, *, apart: bool = False) -> float:
    """An upper bound for the probability that readings agree, from distances of pairs.

    Distances are in units of the largest distance that counts as agreement. Differences are assumed to be
    evenly distributed near zero. If pairs that agree were omitted (`apart`) and the remaining pairs are
    hardly farther apart, digits are as coarse as the noise, and nearly all readings may agree.
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


def share_bound(count: int, n: int) -> float:
    """A 99 % upper bound for a probability from `count` of n events; they come in pairs and count half."""
    from scipy.special import betaincinv

    return 1.0 if count >= n else float(betaincinv(count / 2 + 1, (n - count) / 2, 0.99))


def binomial_tail(close: np.ndarray, among: np.ndarray, chance: float) -> float:
    """The probability that at least this many of `among` are close, each with probability `chance`."""
    from scipy.special import bdtrc

    count, n = int(close.sum()), int(among.sum())
    return float(bdtrc(count - 1, n, min(1.0, chance))) if count else 1.0
