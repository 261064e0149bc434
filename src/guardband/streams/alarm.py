"""Alarm: a sequential test of exchangeability with a stated rate of false alarms.

The smoothed p-value of a score is the share of all scores up to it that are at least as large, with ties
broken at random: p = (number greater + u (number equal + 1)) / (n + 1). If the scores are exchangeable, these
p-values are uniform and independent. Bets f(p) with mean 1 then gain nothing on average, and R = (1 + R) f(p)
grows by 1 per step on average (Shiryaev-Roberts). Each alarm, at R >= A, resets R to 0, so t steps have at
most t / A false alarms on average, and the mean time to the first is at least A. Restarts at fixed intervals
only lower R, so the bounds remain valid. (Vovk, Gammerman and Shafer 2005; Volkhonskiy et al. 2017) Ranks
among a fixed calibration set would give dependent p-values, for which the bounds do not hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guardband.base.kept import kept
from guardband.streams.base import State
from guardband.streams.scores import EarlierScores
from guardband.streams.settings import positive

POWERS = (0.3, 0.6, 0.9)
"""Bets power p^(power - 1) on small p-values, which are large scores, and the same bets on small scores."""

BETS = tuple((side, power) for side in (0, 1) for power in POWERS)

SMALLEST = 2.0**-53
BLOCK = 1000
"""Number of random numbers drawn at a time."""


@kept
@dataclass(frozen=True)
class Alarm:
    """An alarm for changes in the distribution of the scores: the Shiryaev-Roberts procedure on p-values.

    It detects scores that become larger and scores that become smaller.

    Parameters
    ----------
    threshold
        Lower bound on the mean number of steps to a false alarm while all scores, including those of the
        calibration, are exchangeable.
    restart
        Number of steps after which the test restarts without earlier scores, as it does after an alarm. This
        bounds memory and lets the test learn the new distribution, but a restarted test detects little
        at first.
    seed
        Seed of the random numbers that break ties.

    Notes
    -----
    Autocorrelated scores, such as slowly varying errors, are not exchangeable even if their distribution
    is constant, and raise far more alarms.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0).normal
    >>> watch = gb.streams.Alarm().start(abs(draw(size=1000)))
    >>> sum(watch.update(score)[1] for score in abs(draw(size=1000)))
    0
    >>> shifted = enumerate(abs(2 * draw(size=1000)), 1)
    >>> next(step for step, score in shifted if watch.update(score)[1]) < 100
    True
    """

    threshold: float = 1e5
    restart: int = 100_000
    seed: int = 0

    def __post_init__(self) -> None:
        positive(self.threshold, "threshold")
        positive(self.restart, "restart", whole=True)
        if not isinstance(self.seed, int) or isinstance(self.seed, bool) or self.seed < 0:
            raise ValueError(f"`seed` should be a nonnegative integer, got {self.seed!r}.")

    @property
    def promise(self) -> str:
        """A sentence on the rate of false alarms and its assumptions."""
        return (
            "While scores, those of the calibration included, are exchangeable (from one law and in no "
            f"special order), the mean time to a false alarm is at least {self.threshold:g} steps. Scores "
            "that depend on those before them raise more."
        )

    def start(self, scores: np.ndarray) -> AlarmWatch:
        """Start a test with earlier scores.

        Parameters
        ----------
        scores
            Calibration scores, shape (n,).

        Returns
        -------
        AlarmWatch
            The state of the test, which changes with every score.
        """
        return AlarmWatch(self, scores)


class AlarmWatch:
    """The state of an alarm along a stream; every score changes it."""

    settings: Alarm
    earlier: EarlierScores
    gains: list[float]
    seen: int
    since: int
    _drawn: list[float]

    def __init__(self, settings: Alarm, scores: np.ndarray) -> None:
        self.settings = settings
        self.earlier = EarlierScores(scores)
        self.gains = [0.0] * len(BETS)
        self.seen, self.since, self._drawn = 0, 0, []

    @property
    def statistic(self) -> float:
        """R, averaged over all bets."""
        return sum(self.gains) / len(self.gains)

    def update(self, score: float) -> tuple[float, bool]:
        """Take the next score; return its p-value and whether it raises an alarm."""
        greater, equal = self.earlier.place(score)
        p = (greater + self._uniform() * (equal + 1)) / (len(self.earlier) + 1)
        self.earlier.add(score)
        self.seen, self.since = self.seen + 1, self.since + 1
        sides = max(p, SMALLEST), max(1 - p, SMALLEST)
        bets = zip(self.gains, BETS, strict=True)
        self.gains = [(1 + gain) * power * sides[side] ** (power - 1) for gain, (side, power) in bets]
        alarm = self.statistic >= self.settings.threshold
        if alarm or self.since >= self.settings.restart:
            self._restart(np.empty(0))
        return p, alarm

    def _restart(self, scores: np.ndarray) -> None:
        self.earlier, self.since = EarlierScores(scores), 0
        self.gains = [0.0] * len(self.gains)

    def _uniform(self) -> float:
        """A random number in (0, 1] that depends only on the seed and the step."""
        block, i = divmod(self.seen, BLOCK)
        if i == 0 or not self._drawn:
            self._drawn = (1 - np.random.default_rng((self.settings.seed, block)).random(BLOCK)).tolist()
        return self._drawn[i]

    def state(self) -> State:
        """The earlier scores, the gains of the bets, and the numbers of steps."""
        gains = np.array(self.gains)
        return {"earlier": self.earlier.ascending(), "gains": gains, "seen": self.seen, "since": self.since}

    def restore(self, state: State) -> None:
        """Restore a state."""
        self.earlier = EarlierScores(state["earlier"])
        self.gains = [float(gain) for gain in state["gains"]]
        self.seen, self.since, self._drawn = int(state["seen"]), int(state["since"]), []
