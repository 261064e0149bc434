"""Testing: the laws every predictor, score and calibrator obeys, to be run on your own.

    gb.testing.check_predictor(MyPredictor(net), x)
    gb.testing.check_score(MyScore())
    gb.testing.check_threshold(MyCalibrator())
    gb.testing.check_calibrator(MyCalibrator())
    gb.testing.check_calibrated(my_calibrated, x, y)
    gb.testing.check_problem(MyProblem())
    gb.testing.check_domain(MyShape())

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
from typing import Any, TypeAlias

import numpy as np
import torch

from guardband.arrays import Array, to_numpy, to_torch
from guardband.calibration import calibrate
from guardband.conformal import Calibrated
from guardband.conformal.base import Calibrator
from guardband.conformal.by_scores import on_scores
from guardband.conformal.laws import tails, total_counts
from guardband.conformal.rank import InfiniteBandWarning, Level
from guardband.conformal.scores import Scaled, Score
from guardband.geometry.laws import check_domain as check_domain
from guardband.predictors import PredictionFunction
from guardband.problems import AutogradField, Problem
from guardband.problems.base import conditions_in
from guardband.values import Band, Prediction, Predictor

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
    size = max(float(abs(to_numpy(values)).max()) for values in whole.parts.values())
    others = (again, *parts, turned)
    for name in dict.fromkeys(name for made in (whole, *others) for name in made.parts):
        assert all(name in made.parts for made in (whole, *others)), f"{name} comes and goes with x"
        values = whole.parts[name]
        assert np.array_equal(to_numpy(values), to_numpy(again.parts[name])), (
            f"the same x should give the same {name}: keep random draws from construction on"
        )
        joined = np.concatenate([to_numpy(part.parts[name]) for part in parts])
        flipped = to_numpy(turned.parts[name])[::-1]
        for other, how in ((joined, "in chunks"), (flipped, "in another order")):
            gap = float(abs(to_numpy(values) - other).max())
            assert gap <= tolerance * size, f"{name} {how} differs from {name} as a whole by {gap:g}"
    at_training = getattr(predictor, "at_training", None)  # a plain function has none
    if at_training is not None:
        with untouched(predictor):
            assert len(at_training(x)) == len(x), "at_training should return a row per point"


def check_score(
    score: Score,
    *,
    outputs: int = 1,
    nodes: int | None = None,
    predictions: Callable[[Prediction], Prediction] | None = None,
    seed: int = 0,
) -> None:
    """A score is a number per row, and its set holds exactly the targets that score at most q.

    With `nodes`, whole fields (N, nodes, outputs) are scored. `predictions` turns a prediction with mean and
    scale into one of the kind that the score wants. Where the set is a box, what it contains lies between its
    ends.

    >>> import guardband as gb
    >>> gb.testing.check_score(gb.Scaled(), outputs=2)
    >>> gb.testing.check_score(gb.Simultaneous(), nodes=5)
    """
    generator = np.random.default_rng(seed)
    made = predictions or (lambda prediction: prediction)
    for dtype in (np.float64, np.float32):
        for stretch in (1.0, 1e-6, 1e6):
            plain, y = _random_predictions(generator, outputs, nodes, stretch, dtype)
            prediction = made(plain)
            scores = to_numpy(score(prediction, y)).astype(float)
            rows = (len(y),) if score.joint else (len(y), *scores.shape[1:])
            assert scores.shape == rows and scores.ndim <= 2, f"one score per row, got shape {scores.shape}"
            assert not np.isnan(scores).any(), "scores should be numbers, never NaN"
            in_torch = made(Prediction(None, to_torch(plain.mean), to_torch(plain.scale)))
            same = np.allclose(to_numpy(score(in_torch, to_torch(y))), scores, rtol=1e-5, atol=1e-30)
            assert same, "numpy and torch should give the same scores"
            if score.joint:
                _check_membership(score, prediction, y, scores)


def _check_membership(score: Score, prediction: Prediction, y: Array, scores: np.ndarray) -> None:
    previous = np.zeros(len(y))
    for k in (1, len(y) // 2, len(y)):
        q = float(np.sort(scores)[k - 1])
        inside = score.contains(prediction, y, q)
        assert np.array_equal(inside, scores <= q), "`contains` should be: the score is at most q"
        band = _shown(score, prediction, q)
        if band is None:
            continue
        inside = to_numpy(band.contains(y))
        assert inside[scores <= q].all(), "a target that scores at most q lies outside its own band"
        beyond = scores > q + 1e-4 * abs(q) + 1e-30
        # Rounding outwards may let in what misses by a few ulp; that counts only beside a large mean.
        modest = np.finfo(prediction.mean.dtype).eps * abs(prediction.mean).max() < 1e-10
        assert not (modest and inside[beyond].any()), "a target that scores more than q lies inside"
        width = to_numpy(band.width).reshape(len(y), -1).max(axis=-1).astype(float)
        assert k == 1 or (width >= previous).all(), "a larger q should not give a narrower band"
        previous = width
        if not isinstance(band, Band):
            continue
        one_by_one = score.band(prediction, np.full(len(y), q), 0.9)
        for end in ("lower", "upper"):
            same = np.array_equal(to_numpy(getattr(one_by_one, end)), to_numpy(getattr(band, end)))
            assert same, "q per row differs from the same q for all"
    for q in (np.inf, np.full(len(y), np.inf)):
        assert score.contains(prediction, y, q).all(), "q = inf should contain everything"
        everything = _shown(score, prediction, q)
        if isinstance(everything, Band):
            assert (to_numpy(everything.lower) == -np.inf).all(), "q = inf should reach to -infinity"
            assert (to_numpy(everything.upper) == np.inf).all(), "q = inf should reach to infinity"


def _shown(score: Score, prediction: Prediction, q: float | np.ndarray) -> Any:
    """The set as a value, None where the score has no such thing."""
    if type(score).band is Score.band:
        return None
    return score.band(prediction, q, 0.9)


def check_threshold(
    calibrator: Calibrator,
    *,
    n: int = 60,
    sampler: Sampler | None = None,
    score: Score | None = None,
    seed: int = 0,
) -> None:
    """A threshold is a number, or one per row, that grows with the level and does not depend on other rows.

    It leaves no trace, is infinite where it says that it has too few points, and asks for groups if it says
    so. Its laws count all test points; if one law holds for all of them, as many calibration points as that
    says lie within the threshold.

    >>> import guardband as gb
    >>> gb.testing.check_threshold(gb.Split())
    """
    generator = np.random.default_rng(seed)
    world, sampler = HOMOSKEDASTIC, sampler or exchangeable
    draw = sampler(world, generator, n, 40, 1)
    with warnings.catch_warnings(), untouched(calibrator):
        warnings.simplefilter("ignore")
        calibrated = calibrate(
            partial(world.predict, outputs=1),
            draw.x_cal,
            draw.y_cal,
            score=score or Scaled(),
            calibrator=calibrator,
            groups=draw.groups_cal,
        )
        prediction, before = calibrated.predict(draw.x), -np.inf
        threshold = calibrated.threshold
        for level in ("0.1", "0.5", "0.9", "0.99", "0.9999"):
            q = np.asarray(threshold(prediction, level, draw.groups), dtype=float)
            assert q.shape in ((), (len(draw.x),)), f"one threshold, or one per row, got shape {q.shape}"
            assert not np.isnan(q).any(), "a threshold should be a number, never NaN"
            assert (q >= before).all(), "a higher level should not give a lower threshold"
            before = q
            if q.ndim:
                some = slice(3, 11)
                groups = None if draw.groups is None else draw.groups[some]
                part = threshold(prediction.take(some), level, groups)
                assert np.array_equal(part, q[some]), "a row's threshold should not depend on other rows"
            size = calibrated.size(level)
            if size is not None and size.have < size.need:
                assert np.isinf(q).any(), f"{size.have:g} of {size.need:g} points, and yet a finite threshold"
            pieces = calibrated.laws_for(prediction, level, draw.groups)
            if pieces is not None:
                assert sum(m for _, m in pieces) == len(draw.x), "the laws should count all test points"
            if pieces is not None and len(pieces) == 1 and not calibrated.needs_groups:
                k = pieces[0][0].k
                inside = int(calibrated.contains(calibrated.prediction, draw.y_cal, level).sum())
                assert inside >= min(k, len(draw.y_cal)), (
                    f"its law says that {k} points lie inside, {inside} do"
                )
        if calibrated.needs_groups:
            try:
                calibrated.band(prediction, 0.5)
            except (ValueError, TypeError):
                return
            raise AssertionError("it says that it needs groups, and yet answers without")


def check_calibrated(
    calibrated: Calibrated,
    x: Array,
    y: Array,
    *,
    groups: Any = None,
    levels: Sequence[Level] = (0.5, 0.9),
) -> None:
    """A calibration answers the same at every call, alone or among others, and its parts agree.

    For methods that are more than a score and a threshold. `x` and `y` should be a few dozen new points.
    A target that `contains` lets in lies in the set that is shown; what is promised is a probability, or
    None; the laws count all points. Whether the promise is kept has to be shown by draws of your own.

    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 90)
    >>> calibrated = gb.calibrate(np.sin, x[::2], np.sin(x[::2]) + 0.1 * np.cos(50 * x[::2]))
    >>> gb.testing.check_calibrated(calibrated, x[1::2], np.sin(x[1::2]))
    """
    x = x[:, None] if x.ndim == 1 else x
    some = slice(3, 11)
    few = None if groups is None else groups[some]
    assert calibrated.promise.strip().endswith("."), "`promise` should be sentences for a person"
    with warnings.catch_warnings(), untouched(calibrated):
        warnings.simplefilter("ignore", InfiniteBandWarning)
        prediction = calibrated.predict(x)
        assert len(prediction) == len(x), f"one row per point, got {len(prediction)} for {len(x)}"
        for level in levels:
            promised = calibrated.promised(level)
            assert promised is None or 0 <= promised < 1, f"a probability is promised, got {promised}"
            inside = calibrated.contains(x, y, level, groups=groups)
            again = calibrated.contains(prediction, y, level, groups=groups)
            assert np.array_equal(inside, again), "a prediction already made should give the same answer"
            part = calibrated.contains(x[some], y[some], level, groups=few)
            assert np.array_equal(part, inside[some]), "a row's set should not depend on other rows"
            try:
                shown = calibrated.band(prediction, level, groups=groups)
            except TypeError:  # a set that cannot be shown
                continue
            held = to_numpy(shown.contains(y))
            whole = inside if inside.ndim == 1 else inside.all(axis=1)
            assert held[whole].all(), "a target that `contains` lets in lies outside the set that is shown"
            pieces = calibrated.laws_for(prediction, level, groups)
            if pieces is not None:
                assert sum(m for _, m in pieces) == len(x), "the laws should count all test points"


def check_problem(problem: Problem, *, tolerance: float = 1e-6, points: int = 200, seed: int = 0) -> None:
    """The exact solution of a problem solves its equation and meets its conditions; shapes are (n, m).

    What the solution leaves is held against what another smooth function of its size leaves. Without a
    `solution` only shapes are looked at.

    >>> import guardband as gb
    >>> gb.testing.check_problem(gb.problems.Poisson1D())
    """
    generator = torch.Generator().manual_seed(seed)
    x = problem.domain.uniform(points, generator, dtype=torch.float64)
    names = problem.names
    m = len(names.outputs)
    with untouched(problem):
        try:
            u = problem.solution(x)
            known = problem.solution
        except NotImplementedError:
            u, known = None, _smooth(m, 1.0)
        if u is not None:
            assert u.shape == (points, m), (
                f"solution should be (n, {m}), got {tuple(u.shape)} for {points} points"
            )
        conditions = conditions_in(problem)
        edges = [c.points(problem.domain, 20) for c in conditions]
        places = [
            (x, None, problem.misses),
            *((e.points, e.normals, c.residual) for e, c in zip(edges, conditions, strict=True)),
        ]
        for at, normals, residual in places:
            miss = residual(at, AutogradField(known, at, names, normals))
            assert miss.ndim == 2 and len(miss) == len(at), (
                f"a residual should be (n, equations), got {tuple(miss.shape)} for {len(at)} points"
            )
            assert bool(torch.isfinite(miss).all()), "a residual should be finite inside the domain"
            if u is not None:
                largest = float(u.detach().abs().max())
                other = AutogradField(_smooth(m, largest), at, names, normals)
                size = float(residual(at, other).detach().abs().max()) or 1.0
                worst = float(miss.detach().abs().max())
                assert worst <= tolerance * size or worst <= 1e-14 * largest, (
                    f"the solution should make the residual vanish, it leaves {worst:.3g} where another "
                    f"function leaves {size:.3g}"
                )


def _smooth(outputs: int, size: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Any smooth function of x with this many outputs, of this size."""
    return lambda x: size * torch.sin(x.sum(dim=1, keepdim=True) + torch.arange(outputs, dtype=x.dtype))


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
    predictions: Callable[[Prediction], Prediction] | None = None,
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
    draw. `predictions` turns a prediction with mean and scale into one of the kind that the score wants.
    `false_alarm` is the probability that a perfect calibrator fails
    anywhere in this call, shared equally among the cells.

    >>> import guardband as gb
    >>> gb.testing.check_calibrator(gb.Split(), draws=50, sizes=[9])
    """
    allowed = false_alarm / (2 * len(worlds) * len(sizes) * len(levels))
    score = score or Scaled()
    for i, world in enumerate(worlds):
        for n in sizes:
            generator = np.random.default_rng([seed, i, n])

            predict = partial(_predict, world, outputs, predictions)
            calibrated_draw = partial(
                _calibrated_draw,
                calibrator,
                score,
                confidence,
                sampler,
                world,
                predict,
                generator,
                n,
                outputs,
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


def _predict(
    world: World, outputs: int, predictions: Callable[[Prediction], Prediction] | None, x: np.ndarray
) -> Prediction:
    made = world.predict(x, outputs)
    return made if predictions is None else predictions(made)


def _calibrated_draw(
    calibrator: Calibrator,
    score: Score,
    confidence: Level | None,
    sampler: Sampler,
    world: World,
    predict: Callable[[np.ndarray], Prediction],
    generator: np.random.Generator,
    n: int,
    outputs: int,
    m: int,
    door: bool = False,
) -> tuple[Calibrated, Draw]:
    """A calibration and what it was drawn with: through the door, where the model is asked again, or not."""
    draw = sampler(world, generator, n, m, outputs)
    options: dict[str, Any] = dict(
        score=score, calibrator=calibrator, groups=draw.groups_cal, confidence=confidence
    )
    if door:
        return calibrate(predict, draw.x_cal, draw.y_cal, **options), draw
    return on_scores(PredictionFunction(predict), predict(draw.x_cal), draw.y_cal, **options), draw


def _tally(
    calibrated_draw: Callable[..., tuple[Calibrated, Draw]], levels: Sequence[Level], draws: int
) -> Iterator[tuple[Level, int, np.ndarray, bool]]:
    """For each level: how many test points were covered, the law of that number, whether it is exact."""
    first, draw = calibrated_draw(TEST_POINTS, door=True)
    there, first_groups = first.predict(draw.x), draw.groups
    known = first.laws_for(there, levels[0], draw.groups)
    exact_law, first_law = known is not None, list(known or ())
    m = TEST_POINTS if exact_law else 1
    covered = dict.fromkeys(levels, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        for _ in range(draws):
            calibrated, draw = calibrated_draw(m)
            prediction = calibrated.predict(draw.x)
            if exact_law:
                same = list(calibrated.laws_for(prediction, levels[0], draw.groups) or ()) == first_law
                assert same, "the law changes from draw to draw: the sampler should give parts of equal sizes"
            for level in levels:
                try:  # what a user is shown, where the set can be shown
                    inside = calibrated.band(prediction, level, groups=draw.groups).contains(draw.y)
                except TypeError:
                    inside = calibrated.contains(prediction, draw.y, level, groups=draw.groups)
                covered[level] += int(inside[:m].sum())
    for level in levels:
        pieces = first.laws_for(there, level, first_groups) if exact_law else None
        chance = float(first.promised(level) or 0)
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
    generator: np.random.Generator, outputs: int, nodes: int | None, stretch: float, dtype: type
) -> tuple[Prediction, np.ndarray]:
    """Predictions and targets of all sizes, some exactly hit, some with a scale of zero."""
    n = 200
    shape = (n, outputs) if nodes is None else (n, nodes, outputs)
    mean = (stretch * generator.normal(size=shape)).astype(dtype)
    scale = abs(generator.normal(size=shape)).astype(dtype)
    scale[::20] = 0
    y = (mean + generator.standard_t(2, size=shape) * (scale + 0.01)).astype(dtype)
    y[::10] = mean[::10]
    return Prediction(None, mean, scale), y
