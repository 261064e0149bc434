"""Testing: the laws every predictor, score and calibrator obeys, to be run on your own.

    gb.testing.check_predictor(MyPredictor(net), x)
    gb.testing.check_score(MyScore())
    gb.testing.check_calibrator(MyCalibrator())

Each returns nothing when the laws hold and raises an `AssertionError` that names the broken one.
Randomness is seeded, so a result is the same at every run; `check_calibrator` compares with exact laws
and states its false-alarm rate.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import torch

from guardband.arrays import Array, to_numpy, to_torch
from guardband.conformal.base import Calibrator
from guardband.conformal.calibrate import Calibrated, calibrate
from guardband.conformal.laws import tails, total_counts
from guardband.conformal.rank import InfiniteBandWarning, Level, exact
from guardband.conformal.scores import Scaled, Score
from guardband.values import Prediction, Predictor

TEST_POINTS = 50
"""How many test points each experiment of `check_calibrator` counts, where the law is exact."""


def check_predictor(predictor: Predictor, x: Array, *, tolerance: float = 1e-5) -> None:
    """A predictor is a fixed function of x that leaves no trace, with a finite scale >= 0.

    `x` (n, d) should hold a few dozen typical points. `tolerance` is relative to the largest mean or
    scale and allows for matrix products that round differently in batches of different size.

    >>> import numpy as np
    >>> import guardband as gb
    >>> def predictor(x):
    ...     return gb.Prediction(x, x, 1 + x**2)
    >>> gb.testing.check_predictor(predictor, np.linspace(0, 1, 20)[:, None])
    """
    x = x[:, None] if x.ndim == 1 else x
    before = to_numpy(x).copy()
    with untouched(predictor):
        whole = predictor(x)
        again = predictor(x)
        parts = [predictor(part) for part in (x[:7], x[7:8], x[8:])]
        turned = predictor(x[list(reversed(range(len(x))))])
    assert np.array_equal(to_numpy(x), before), "the points x were changed by the call"
    assert isinstance(whole, Prediction), f"it should return a Prediction, got {type(whole).__name__}"
    assert len(whole) == len(x), f"it should return a row per point, got {len(whole)} for {len(x)}"
    assert isinstance(whole.mean, type(x)), (
        f"it should answer with the kind of array it was given, {type(x).__name__}, got "
        f"{type(whole.mean).__name__}"
    )
    assert whole.mean.dtype == x.dtype, f"the dtype should follow x, {x.dtype}, got {whole.mean.dtype}"
    known = [values for values in (whole.mean, whole.scale) if values is not None]
    size = max(float(abs(to_numpy(values)).max()) for values in known)
    for name in ("mean", "scale"):
        values = getattr(whole, name)
        others = [getattr(other, name) for other in (again, *parts, turned)]
        assert all((other is None) == (values is None) for other in others), f"{name} comes and goes with x"
        if values is None:
            continue
        assert np.array_equal(to_numpy(values), to_numpy(getattr(again, name))), (
            f"the same x should give the same {name}: keep random draws from construction on"
        )
        joined = np.concatenate([to_numpy(getattr(part, name)) for part in parts])
        flipped = to_numpy(getattr(turned, name))[::-1]
        for other, how in ((joined, "in chunks"), (flipped, "in another order")):
            gap = float(abs(to_numpy(values) - other).max())
            assert gap <= tolerance * size, f"{name} {how} differs from {name} as a whole by {gap:g}"
    at_training = getattr(predictor, "at_training", None)
    if at_training is not None:
        with untouched(predictor):
            assert len(at_training(x)) == len(x), "at_training should return a row per point"


def check_score(score: Score, *, outputs: int = 1, seed: int = 0) -> None:
    """A score is a number >= 0 per row, and its band holds just the targets that score at most q.

    >>> import guardband as gb
    >>> gb.testing.check_score(gb.Scaled(), outputs=2)
    """
    generator = np.random.default_rng(seed)
    for dtype in (np.float64, np.float32):
        for stretch in (1.0, 1e-6, 1e6):
            prediction, y = _random_predictions(generator, outputs, stretch, dtype)
            scores = to_numpy(score(prediction, y)).astype(float)
            assert scores.shape == (len(y),), f"one score per row, got shape {scores.shape}"
            assert (scores >= 0).all(), "scores should be numbers >= 0, never NaN"
            in_torch = Prediction(None, to_torch(prediction.mean), to_torch(prediction.scale))
            same = np.allclose(to_numpy(score(in_torch, to_torch(y))), scores, rtol=1e-5)
            assert same, "numpy and torch should give the same scores"
            _check_membership(score, prediction, y, scores)


def _check_membership(score: Score, prediction: Prediction, y: Array, scores: np.ndarray) -> None:
    previous = np.zeros(len(y))
    for k in (1, len(y) // 2, len(y)):
        q = float(np.sort(scores)[k - 1])
        band = score.band(prediction, q, 0.9)
        inside = to_numpy(band.contains(y))
        assert inside[scores <= q].all(), "a target that scores at most q lies outside its own band"
        beyond = scores > q * (1 + 1e-4) + 1e-30
        # Rounding outwards may let in what misses by a few ulp; that counts only beside a large mean.
        modest = np.finfo(prediction.mean.dtype).eps * abs(prediction.mean).max() < 1e-10
        assert not (modest and inside[beyond].any()), "a target that scores more than q lies inside"
        width = to_numpy(band.width).max(axis=-1).astype(float)
        assert (width >= previous).all(), "a larger q should not give a narrower band"
        previous = width
        one_by_one = score.band(prediction, np.full(len(y), q), 0.9)
        for end in ("lower", "upper"):
            same = np.array_equal(to_numpy(getattr(one_by_one, end)), to_numpy(getattr(band, end)))
            assert same, "q per row differs from the same q for all"
    for q in (np.inf, np.full(len(y), np.inf)):
        everything = score.band(prediction, q, 0.9)
        assert (to_numpy(everything.lower) == -np.inf).all(), "q = inf should reach to -infinity"
        assert (to_numpy(everything.upper) == np.inf).all(), "q = inf should reach to infinity"


@dataclass(frozen=True)
class World:
    """A made-up truth to draw from: how y scatters around the mean, and whether scores can tie.

    >>> import guardband as gb
    >>> world = gb.testing.World("exponential", lambda g, x: g.exponential(size=x.shape), lambda x: 1 + x)
    >>> gb.testing.check_calibrator(gb.Split(), worlds=[world], draws=20, sizes=[9])
    """

    name: str
    noise: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    scale: Callable[[np.ndarray], np.ndarray]
    ties: bool = False

    def observe(self, generator: np.random.Generator, x: np.ndarray, outputs: int) -> np.ndarray:
        """Targets (n, outputs) at x (n, 1)."""
        return np.sin(3 * x) + self.noise(generator, np.repeat(x, outputs, axis=1))

    def predict(self, x: np.ndarray, outputs: int) -> Prediction:
        """An imperfect mean and a scale that is roughly right."""
        mean = np.sin(3 * x) + 0.02 * np.cos(9 * x) * (not self.ties)
        return Prediction(x, *(np.repeat(part, outputs, axis=1) for part in (mean, self.scale(x))))


HOMOSKEDASTIC = World("homoskedastic", lambda g, x: 0.1 * g.normal(size=x.shape), lambda x: 0.1 + 0.05 * x)
HETEROSKEDASTIC = World(
    "heteroskedastic",
    lambda g, x: (0.02 + 0.5 * x**2) * g.normal(size=x.shape),
    lambda x: 0.05 + 0.4 * x**2,
)
HEAVY_TAILS = World(
    "heavy tails with ties",
    lambda g, x: 0.5 * np.round(2 * g.standard_t(2, size=x.shape)),
    lambda x: np.where(x > 0.5, 1.0, 0.5),
    ties=True,
)
WORLDS = (HOMOSKEDASTIC, HETEROSKEDASTIC, HEAVY_TAILS)


@dataclass(frozen=True, eq=False)
class Draw:
    """One independent experiment: calibration and test data, with group labels where they matter.

    >>> import numpy as np
    >>> import guardband as gb
    >>> generator = np.random.default_rng(0)
    >>> draw = gb.testing.exchangeable(gb.testing.HOMOSKEDASTIC, generator, n=30, m=50, outputs=1)
    >>> draw.x_cal.shape, draw.y.shape
    ((30, 1), (50, 1))
    """

    x_cal: np.ndarray
    y_cal: np.ndarray
    x: np.ndarray
    y: np.ndarray
    groups_cal: np.ndarray | None = None
    groups: np.ndarray | None = None


Sampler: TypeAlias = Callable[[World, np.random.Generator, int, int, int], Draw]
"""(world, generator, n calibration points, m test points, outputs) -> Draw."""


def exchangeable(world: World, generator: np.random.Generator, n: int, m: int, outputs: int) -> Draw:
    """All points drawn alike: the setting of `Split`.

    >>> import guardband as gb
    >>> gb.testing.check_calibrator(gb.Split(), sampler=gb.testing.exchangeable, draws=20, sizes=[9])
    """
    x = generator.uniform(size=(n + m, 1))
    y = world.observe(generator, x, outputs)
    return Draw(x[:n], y[:n], x[n:], y[n:])


def two_groups(world: World, generator: np.random.Generator, n: int, m: int, outputs: int) -> Draw:
    """Two regimes, left and right, n calibration points in each: the setting of `Grouped`.

    >>> import guardband as gb
    >>> gb.testing.check_calibrator(gb.Grouped(), sampler=gb.testing.two_groups, draws=20, sizes=[9])
    """
    m = max(2, m)
    sides = [exchangeable(world, generator, n, m // 2, outputs) for _ in range(2)]
    moved = [(0.5 * side.x_cal + 0.5 * i, 0.5 * side.x + 0.5 * i) for i, side in enumerate(sides)]
    x_cal, x = (np.concatenate([pair[j] for pair in moved]) for j in range(2))
    return Draw(
        x_cal,
        world.observe(generator, x_cal, outputs),
        x,
        world.observe(generator, x, outputs),
        np.repeat(["left", "right"], n),
        np.repeat(["left", "right"], m // 2),
    )


def new_sensors(world: World, generator: np.random.Generator, n: int, m: int, outputs: int) -> Draw:
    """n sensors with one to six readings and a bias each, m new ones: the setting of `Clustered`.

    >>> import guardband as gb
    >>> gb.testing.check_calibrator(gb.Clustered(), sampler=gb.testing.new_sensors, draws=50, sizes=[9])
    """
    sensor = np.repeat(np.arange(n), generator.integers(1, 7, size=n))
    bias = 0.3 * generator.normal(size=(n + m, 1))
    x = generator.uniform(size=(len(sensor) + m, 1))
    y = world.observe(generator, x, outputs) + bias[np.concatenate([sensor, n + np.arange(m)])]
    return Draw(x[:-m], y[:-m], x[-m:], y[-m:], sensor)


def check_calibrator(
    calibrator: Calibrator,
    *,
    score: Score | None = None,
    sampler: Sampler = exchangeable,
    outputs: int = 1,
    confidence: Level | None = None,
    worlds: Sequence[World] = WORLDS,
    sizes: Sequence[int] = (9, 19, 30, 100),
    levels: Sequence[Level] = (0.5, 0.8, 0.9, 0.95),
    draws: int = 400,
    false_alarm: float = 1e-3,
    seed: int = 0,
) -> None:
    """Coverage over many independent experiments is what the exact law says, at every size and level.

    Each of `draws` experiments calibrates anew and counts covered test points. Their sum is held
    against the exact law of `Threshold.laws`, on both sides (below only, where scores can tie). Where
    a threshold knows no law, one test point per experiment is held against Binomial(draws, level)
    from below; use 2000 draws then. A sampler of your own must give groups of the same sizes at every
    draw. `false_alarm` is the probability that a perfect calibrator fails
    anywhere in this call, shared equally among the cells.

    >>> import guardband as gb
    >>> gb.testing.check_calibrator(gb.Split(), draws=50, sizes=[9])
    """
    allowed = false_alarm / (2 * len(worlds) * len(sizes) * len(levels))
    score = score or Scaled()
    for i, world in enumerate(worlds):
        for n in sizes:
            generator = np.random.default_rng([seed, i, n])

            calibrated_draw = partial(
                _calibrated_draw, calibrator, score, confidence, sampler, world, generator, n, outputs
            )
            for level, covered, law, exact_law in _tally(calibrated_draw, levels, draws):
                total = len(law) - 1
                seen = (
                    f"{calibrator!r} with {score!r} covers {covered / total:.4f} of {total} points at "
                    f"level {level} with n = {n} in the {world.name} world, "
                    f"the law says {law @ np.arange(total + 1) / total:.4f}"
                )
                below, above = tails(law, covered)
                assert below > allowed, f"coverage is too low: {seen} (p = {below:.2g})"
                if exact_law and not world.ties:
                    assert above > allowed, f"coverage is too high: {seen} (p = {above:.2g})"


def _calibrated_draw(
    calibrator: Calibrator,
    score: Score,
    confidence: Level | None,
    sampler: Sampler,
    world: World,
    generator: np.random.Generator,
    n: int,
    outputs: int,
    m: int,
) -> tuple[Calibrated, Draw]:
    draw = sampler(world, generator, n, m, outputs)
    calibrated = calibrate(
        partial(world.predict, outputs=outputs),
        draw.x_cal,
        draw.y_cal,
        score=score,
        calibrator=calibrator,
        groups=draw.groups_cal,
        confidence=confidence,
    )
    return calibrated, draw


def _tally(
    calibrated_draw: Callable[[int], tuple[Calibrated, Draw]], levels: Sequence[Level], draws: int
) -> Iterator[tuple[Level, int, np.ndarray, bool]]:
    """For each level: how many test points were covered, the law of that number, whether it is exact."""
    first, draw = calibrated_draw(TEST_POINTS)
    exact_law = first.threshold.laws(levels[0], TEST_POINTS, draw.groups) is not None
    m = TEST_POINTS if exact_law else 1
    covered = dict.fromkeys(levels, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        for _ in range(draws):
            calibrated, draw = calibrated_draw(m)
            prediction = calibrated.predict(draw.x)
            for level in levels:
                band = calibrated.band(prediction, level, groups=draw.groups)
                covered[level] += int(band.contains(draw.y)[:m].sum())
    for level in levels:
        pieces = first.threshold.laws(level, m, draw.groups)
        chance = float(exact(level))
        law = _binomial(draws, chance) if pieces is None else total_counts(pieces, repeats=draws)
        yield level, covered[level], law, exact_law


def _binomial(n: int, p: float) -> np.ndarray:
    from scipy.stats import binom

    return binom.pmf(np.arange(n + 1), n, p)


@contextmanager
def untouched(*owners: object) -> Iterator[None]:
    """Global random state, default dtype and the mode of networks are afterwards what they were.

    Networks are looked for among the attributes of the owners.

    >>> import numpy as np
    >>> import guardband as gb
    >>> with gb.testing.untouched():
    ...     _ = np.random.default_rng(0).normal()
    """
    networks = [
        value
        for owner in owners
        for value in (owner, *getattr(owner, "__dict__", {}).values())
        if isinstance(value, torch.nn.Module)
    ]
    before = _global_state(networks)
    yield
    after = _global_state(networks)
    for name in before:
        assert before[name] == after[name], f"{name} was changed by the call"


def _global_state(networks: Sequence[torch.nn.Module]) -> dict[str, object]:
    legacy = np.random.get_state(legacy=False)
    return {
        "Python's global random state": random.getstate(),
        "numpy's global random state": repr(legacy) + str(legacy["state"]["key"].tobytes()),  # type: ignore[index]
        "torch's global random state": torch.get_rng_state().numpy().tobytes(),
        "torch's default dtype": torch.get_default_dtype(),
        "torch's gradient mode": torch.is_grad_enabled(),
        "the mode of a network": [m.training for net in networks for m in net.modules()],
    }


def _random_predictions(
    generator: np.random.Generator, outputs: int, stretch: float, dtype: type
) -> tuple[Prediction, np.ndarray]:
    """Predictions and targets of all sizes, some exactly hit, some with a scale of zero."""
    n = 200
    mean = (stretch * generator.normal(size=(n, outputs))).astype(dtype)
    scale = abs(generator.normal(size=(n, outputs))).astype(dtype)
    scale[::20] = 0
    y = (mean + generator.standard_t(2, size=(n, outputs)) * (scale + 0.01)).astype(dtype)
    y[::10] = mean[::10]
    return Prediction(None, mean, scale), y
