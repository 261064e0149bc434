"""Runs cells, and shares trained networks and predictors between them.

A cell's network predicts once, at POOL points that are uniform in the domain. Calibration and test sets are
drawn from these with replacement and with fresh noise. Each draw is an independent experiment on the same
network, so the number of covered points over all draws has an exact law.
"""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from statistics import NormalDist
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch

from guardband.base.arrays import to_numpy
from guardband.conformal import Calibrated, InfiniteBandWarning, Learned, raw_band
from guardband.conformal.score_calibrated import calibrate_prediction
from guardband.lab.studies.base import Cell, Factory, Result, Training, describe, refuse_whole
from guardband.metrics import relative_l2
from guardband.pinn.misses.likelihood import Likelihood
from guardband.pinn.problems.noise import Noise
from guardband.pinn.training import checkpoint
from guardband.pinn.training.fitted import Fitted
from guardband.values import Observations, Prediction, Predictor

S = TypeVar("S")
T = TypeVar("T")
Law: TypeAlias = list[list[int]]
"""The law of one test set: k, n and m of each of its parts."""

POOL = 8000
AT = "0.95"
"""The level at which widths are measured; the highest level if a cell does not include it."""


class CellRunner:
    """Runs cells; the last trained network and the last predictor are kept for the next cell.

    With a `folder`, checkpoints and finished networks are saved there, so that killed training runs resume.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._cache: dict[str, tuple[str, Any]] = {}

    def run(self, cell: Cell) -> Result:
        """Run a cell and return its result as plain JSON."""
        fitted, training_seconds = self._once(
            "training", cell.training.key, lambda: self._train(cell.training)
        )
        key = f"{cell.training.key} {describe(cell.predictor)}"
        predictor, predictor_seconds = self._once("predictor", key, lambda: _timed(cell.predictor, fitted))
        start = time.process_time()
        pool = Pool(cell.training)
        prediction = predictor(pool.x)
        learned = learn(cell, fitted.training_data, predictor)
        measured = recalibrated(cell, pool, prediction, learned.at_points(pool.x))
        measured["l2"] = relative_l2(prediction.mean, pool.truth)
        if cell.grid:
            measured["field"] = _field(cell, predictor, learned)
        verdict = getattr(getattr(predictor, "diagnostics", None), "verdict", None)
        return {
            "key": cell.key,
            "cell": describe(cell),
            "found": _rounded(measured | ({"verdict": verdict} if verdict else {})),
            "versions": _versions(),
            "threads": torch.get_num_threads(),
            "seconds": {
                "training": round(training_seconds, 2),
                "predictor": round(predictor_seconds, 2),
                "evaluation": round(time.process_time() - start, 2),
            },
        }

    def _once(self, what: str, key: str, make: Callable[[], T]) -> T:
        if self._cache.get(what, (None,))[0] != key:
            self._cache[what] = (key, make())
        return self._cache[what][1]

    def _train(self, training: Training) -> tuple[Fitted, float]:
        if self.folder is None:
            return _timed(training.fit, None)
        path = self._path(training)
        try:
            return _load(path, training)
        except FileNotFoundError:
            pass
        except checkpoint.DamagedCheckpoint:
            path.unlink()  # train again
        started = path.with_suffix(".checkpoint")
        try:
            fitted, seconds = _timed(training.fit, started)
        except checkpoint.DamagedCheckpoint:
            started.unlink()
            fitted, seconds = _timed(training.fit, started)
        _save(path, fitted, seconds)
        return _load(path, training)

    def _path(self, training: Training) -> Path:
        assert self.folder is not None
        return self.folder / f"{training.key}.network"

    def forget(self, training: Training) -> None:
        """Remove a trained network that is no longer needed from the folder."""
        if self.folder is not None:
            self._path(training).unlink(missing_ok=True)


class Pool:
    """The points at which a network is evaluated, with the truth, the noise, and the noisy regions."""

    x: np.ndarray
    truth: np.ndarray
    sd: np.ndarray
    regions: dict[str, np.ndarray]

    def __init__(self, training: Training) -> None:
        generator = torch.Generator().manual_seed(training.seed)
        x = training.problem.domain.uniform(POOL, generator).double()
        noise = training.noise
        self.x, self.truth = x.numpy(), training.problem.solution(x).numpy()
        self.sd = noise(x).numpy() if isinstance(noise, Noise) else np.full((POOL, 1), float(noise))
        self.regions = (
            {"mask": noise.authors_region(x).numpy(), "region": noise.region(x).numpy()}
            if isinstance(noise, Noise)
            else {}
        )


def learn(cell: Cell, training_data: Observations | None, predictor: Predictor) -> Learned:
    """Return the cell's calibrator after it has learned what does not depend on calibration data."""
    calibrator = cell.calibrator
    calibrator = refuse_whole(calibrator(training_data) if isinstance(calibrator, Factory) else calibrator)
    return calibrator.learn(predictor, cell.score)


def recalibrated(
    cell: Cell, pool: Pool, prediction: Prediction, learned: Learned, seed: int | None = None
) -> Result:
    """Measure coverage, ACD and width over many calibration and test sets, before and after calibration.

    The seed of the draws is that of the training, unless given.
    """
    generator = np.random.default_rng(cell.training.seed if seed is None else seed)
    score, scale = cell.score, prediction.scale
    at = cell.levels.index(AT) if AT in cell.levels else len(cell.levels) - 1
    tally = {name: Tally(cell.levels) for name in ("after", "before", *pool.regions)}
    normal = np.array([[NormalDist().inv_cdf((1 + float(level)) / 2)] for level in cell.levels])
    truth = infinite = width = finite = raw_width = 0.0
    laws: list[Law | None] | None = None
    n = cell.cal
    for draw in range(cell.draws):
        rows = generator.integers(POOL, size=n + cell.test)
        y = pool.truth[rows] + pool.sd[rows] * generator.normal(size=pool.truth[rows].shape)
        new = rows[n:]
        calibrated = calibrate_prediction(
            None, prediction.take(rows[:n]), y[:n], score=score, calibrator=learned.plain, learned=learned
        )
        query = prediction.take(new)
        found = [_law(calibrated, query, level) for level in cell.levels]
        # if the law differs between draws, their sum has no simple law
        laws = found if None not in found and (draw == 0 or laws == found) else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InfiniteBandWarning)
            thresholds = [calibrated.threshold(query, level) for level in cell.levels]
        band = score.band(query, thresholds[at], float(cell.levels[at]))
        scores = score(query, y[n:])
        inside = np.stack([scores <= q for q in thresholds])
        tally["after"].add(inside)
        for name, chosen in pool.regions.items():
            tally[name].add(inside[:, chosen[new]])
        truth += float(band.contains(pool.truth[new]).sum())
        wide = to_numpy(band.width).astype(float)
        infinite += float(np.isinf(wide).mean())
        width += float(wide[np.isfinite(wide)].sum())
        finite += int(np.isfinite(wide).sum())
        if scale is not None and _has_before(cell, learned):
            tally["before"].add(scores <= normal)
            raw_width += float(raw_band(query, cell.levels[at], score=score).width.mean())  # type: ignore[arg-type]
    result: Result = tally.pop("after").result()
    before = tally.pop("before")
    if before.draws:
        result["before"] = before.result() | {"width": raw_width / cell.draws}
    return result | {
        "width": width / finite if finite else None,
        "infinite": infinite / cell.draws,
        "truth": truth / (cell.draws * cell.test),
        "regions": {name: its.result() for name, its in tally.items()},
        "laws": laws,
    }


def _law(calibrated: Calibrated, query: Prediction, level: str) -> Law | None:
    """Return the law of one test set, or None if there is none."""
    pieces = calibrated.laws_for(query, level)
    return None if pieces is None else [[law.k, law.n, m] for law, m in pieces]


class Tally:
    """Counts of covered points at each level, and the mean ACD, over draws."""

    levels: np.ndarray
    covered: np.ndarray
    points: int
    draws: int
    deviations: float

    def __init__(self, levels: tuple[str, ...]) -> None:
        self.levels = np.array([float(level) for level in levels])
        self.covered = np.zeros(len(levels), dtype=int)
        self.points = self.draws = 0
        self.deviations = 0.0

    def add(self, inside: np.ndarray) -> None:
        """Add one test set, (levels, points) booleans."""
        if inside.shape[1]:
            self.covered += inside.sum(axis=1)
            self.points += inside.shape[1]
            self.draws += 1
            self.deviations += float(abs(inside.mean(axis=1) - self.levels).mean())

    def result(self) -> Result:
        """Return counts, points and ACD as plain numbers."""
        return {
            "covered": self.covered.tolist(),
            "points": self.points,
            "acd": self.deviations / self.draws if self.draws else None,
        }


def _has_before(cell: Cell, learned: Learned) -> bool:
    """Whether the predictor's own scale is calibrated, so that there is a band before calibration."""
    return learned.plain == learned and cell.score.plain != cell.score


def _field(cell: Cell, predictor: Predictor, learned: Learned) -> Result:
    """Return the mean, its error and the widths before and after one calibration, on a regular grid."""
    problem = cell.training.problem
    x = problem.domain.grid(cell.grid).double()
    prediction = predictor(x.numpy())
    data = problem.observe(cell.cal, noise=cell.training.noise, seed=2000 + cell.training.seed)
    x_cal, y_cal = (to_numpy(part).astype(float) for part in (data.x, data.y))
    at = predictor(x_cal)
    threshold = cell.score.threshold(learned, to_numpy(cell.score(at, y_cal)), at)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        width = cell.score.band(prediction, threshold(prediction, AT), float(AT)).width
    values = {
        "mean": prediction.mean[:, 0],
        "error": abs(prediction.mean - problem.solution(x).numpy())[:, 0],
        "width": width[:, 0],
    }
    if prediction.scale is not None:
        values["before"] = raw_band(prediction, AT).width[:, 0]
    return {
        name: [float(f"{value:.3g}") if np.isfinite(value) else None for value in its]
        for name, its in values.items()
    }


def _save(path: Path, fitted: Fitted, seconds: float) -> None:
    """Write a network atomically, with a checksum."""
    scales = fitted.likelihood
    about = {"seconds": seconds, "scales": [scales.data, scales.physics, scales.boundary]}
    checkpoint.write(path, about | {"weights": dict(fitted.net.state_dict())})


def _load(path: Path, training: Training) -> tuple[Fitted, float]:
    """Load a network that `_save` wrote."""
    found = checkpoint.read(path)
    net = training.net()
    try:
        net.load_state_dict(found["weights"])
        likelihood, seconds = Likelihood(*found["scales"]), float(found["seconds"])
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise checkpoint.damaged(path, str(error)) from error
    fitted = Fitted(net.eval(), training.problem, training.observe(), likelihood, training.recipe, [])
    return fitted, seconds


def _timed(make: Callable[[S], T], source: S) -> tuple[T, float]:
    """Return the result of a call and its CPU seconds."""
    start = time.process_time()
    result = make(source)
    return result, time.process_time() - start


def _rounded(value: Any) -> Any:
    """Round floats to nine digits, so that equal results are the same text on any machine."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def _versions() -> dict[str, str]:
    return {
        "guardband": metadata.version("guardband"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
