"""Alarm: do the scores still come from one law? A test that never ends, with a stated rate of false alarms.

The p-value of a score is the share of all earlier ones, and of itself, that are as large, ties broken at
random: p = (number greater + u (number equal + 1)) / (n + 1). If scores are exchangeable these p-values are
uniform and independent of each other. So bets f(p) on them, with mean 1, gain nothing, and R = (1 + R) f(p)
grows by 1 a step on average (Shiryaev-Roberts). An alarm at R >= A takes at least A away, so in t steps there
are at most t / A false alarms on average, and the mean time to the first is at least A. Starting anew every
so many steps takes more away, and changes nothing of this. (Vovk, Gammerman and Shafer 2005; Volkhonskiy et
al. 2017) Against a fixed calibration set p-values would depend on each other, and nothing would hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guardband.base.kept import kept
from guardband.streams.base import State
from guardband.streams.earlier import EarlierScores
from guardband.streams.settings import positive

POWERS = (0.3, 0.6, 0.9)
"""Bets power p^(power - 1) on small p-values, large scores, and the same on small scores."""

BETS = tuple((side, power) for side in (0, 1) for power in POWERS)

SMALLEST = 2.0**-53
DRAWN = 1000
"""How many random numbers are drawn at a time."""


@kept
@dataclass(frozen=True)
class Alarm:
    """When scores have changed: Shiryaev-Roberts on smoothed p-values, with a `threshold` in steps.

    While scores stay exchangeable, those of the calibration included, there is at most one false alarm in
    `threshold` steps on average. Scores that depend on those before them, such as errors that change slowly,
    are not exchangeable even if their law never changes, and raise many more. It looks at scores that became
    larger and at such that became smaller. After an alarm, and every `restart` steps,
    it begins anew with no earlier scores: so the new state of things is learned, and memory stays bounded. In
    the steps after that it sees little, for it has little to compare with.

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
            raise ValueError(f"`seed` should be a whole number from 0 on, got {self.seed!r}.")

    @property
    def promise(self) -> str:
        """How often there is a false alarm, and what that assumes."""
        return (
            "While scores, those of the calibration included, are exchangeable, drawn alike and in no "
            f"special order, the mean time to a false alarm is at least {self.threshold:g} steps. Scores "
            "that depend on those before them raise more."
        )

    def start(self, scores: np.ndarray) -> AlarmWatch:
        """Begin with the calibration scores as the earlier ones."""
        return AlarmWatch(self, scores)


class AlarmWatch:
    """An alarm on its way along a stream. It changes with every score."""

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
        """R, the mean over all bets."""
        return sum(self.gains) / len(self.gains)

    def update(self, score: float) -> tuple[float, bool]:
        """The p-value of the next score, and whether there is an alarm."""
        greater, equal = self.earlier.place(score)
        p = (greater + self._chance() * (equal + 1)) / (len(self.earlier) + 1)
        self.earlier.add(score)
        self.seen, self.since = self.seen + 1, self.since + 1
        sides = max(p, SMALLEST), max(1 - p, SMALLEST)
        bets = zip(self.gains, BETS, strict=True)
        self.gains = [(1 + gain) * power * sides[side] ** (power - 1) for gain, (side, power) in bets]
        alarm = self.statistic >= self.settings.threshold
        if alarm or self.since >= self.settings.restart:
            self._begin(np.empty(0))
        return p, alarm

    def _begin(self, scores: np.ndarray) -> None:
        self.earlier, self.since = EarlierScores(scores), 0
        self.gains = [0.0] * len(self.gains)

    def _chance(self) -> float:
        """A number in (0, 1] that belongs to this step alone."""
        block, at = divmod(self.seen, DRAWN)
        if at == 0 or not self._drawn:
            self._drawn = (1 - np.random.default_rng((self.settings.seed, block)).random(DRAWN)).tolist()
        return self._drawn[at]

    def state(self) -> State:
        """The earlier scores, the bets' gains, and how many steps were seen."""
        gains = np.array(self.gains)
        return {"earlier": self.earlier.ascending(), "gains": gains, "seen": self.seen, "since": self.since}

    def restore(self, state: State) -> None:
        """The same."""
        self.earlier = EarlierScores(state["earlier"])
        self.gains = [float(gain) for gain in state["gains"]]
        self.seen, self.since, self._drawn = int(state["seen"]), int(state["since"]), []
