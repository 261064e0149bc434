"""The runner: runs cells, and makes nothing twice that two of them need.

A cell's network predicts once, at POOL points uniform in the domain. Calibration and test sets are then
drawn from these with replacement and with fresh noise, again and again: independent experiments on one frozen
network, so that the number of points covered in all of them has an exact law.
"""

from __future__ import annotations

import platform
import time
import warnings
from importlib import metadata
from pathlib import Path
from statistics import NormalDist
from typing import Any

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

POOL = 8000
AT = "0.95"
"""The level at which widths are measured; the highest one if a cell does not ask for it."""


class CellRunner:
    """Runs cells; the last training and the last predictor stay for the next cell.

    With a `folder`, trainings leave checkpoints and finished networks there, so that a killed one goes on.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._made: dict[str, Any] = {}

    def run(self, cell: Cell) -> Result:
        """All that is to be known of a cell, as plain JSON."""
        fitted, training_seconds = self._once(
            "training", cell.training.key, lambda: self._train(cell.training)
        )
        key = f"{cell.training.key} {describe(cell.predictor)}"
        predictor, predictor_seconds = self._once("predictor", key, lambda: _timed(cell.predictor, fitted))
        start = time.process_time()
        pool = Pool(cell.training)
        prediction = predictor(pool.x)
        learned = learn(cell, fitted.training_data, predictor)
        found = recalibrated(cell, pool, prediction, learned.at_points(pool.x))
        found["l2"] = relative_l2(prediction.mean, pool.truth)
        if cell.grid:
            found["field"] = _field(cell, predictor, learned)
        verdict = getattr(getattr(predictor, "diagnostics", None), "verdict", None)
        return {
            "key": cell.key,
            "cell": describe(cell),
            "found": _rounded(found | ({"verdict": verdict} if verdict else {})),
            "versions": _versions(),
            "threads": torch.get_num_threads(),
            "seconds": {
                "training": round(training_seconds, 2),
                "predictor": round(predictor_seconds, 2),
                "evaluation": round(time.process_time() - start, 2),
            },
        }

    def _once(self, what: str, key: str, make: Any) -> Any:
        if self._made.get(what, (None,))[0] != key:
            self._made[what] = (key, make())
        return self._made[what][1]

    def _train(self, training: Training) -> tuple[Fitted, float]:
        if self.folder is None:
            return _timed(training.fit, None)
        path = self._path(training)
        try:
            return _kept(path, training)
        except FileNotFoundError:
            pass
        except checkpoint.DamagedCheckpoint:
            path.unlink()  # and made again
        started = path.with_suffix(".checkpoint")
        try:
            fitted, seconds = _timed(training.fit, started)
        except checkpoint.DamagedCheckpoint:
            started.unlink()
            fitted, seconds = _timed(training.fit, started)
        _keep(path, fitted, seconds)
        return _kept(path, training)

    def _path(self, training: Training) -> Path:
        assert self.folder is not None
        return self.folder / f"{training.key}.network"

    def forget(self, training: Training) -> None:
        """Remove a training from the folder, once nobody needs it any more."""
        if self.folder is not None:
            self._path(training).unlink(missing_ok=True)


class Pool:
    """The points at which a network is looked at, the truth there, the noise, and the noisy regions."""

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
    """The cell's calibrator with all that it learns before it sees calibration data; once for a cell."""
    calibrator = cell.calibrator
    calibrator = refuse_whole(calibrator(training_data) if isinstance(calibrator, Factory) else calibrator)
    return calibrator.learn(predictor, cell.score)


def recalibrated(
    cell: Cell, pool: Pool, prediction: Prediction, learned: Learned, seed: int | None = None
) -> Result:
    """Coverage, ACD and width over many fresh calibration and test sets, before and after calibration.

    They are drawn by the seed of the training, or by another one.
    """
    generator = np.random.default_rng(cell.training.seed if seed is None else seed)
    score, scale = cell.score, prediction.scale
    at = cell.levels.index(AT) if AT in cell.levels else len(cell.levels) - 1
    tally = {name: Tally(cell.levels) for name in ("after", "before", *pool.regions)}
    normal = np.array([[NormalDist().inv_cdf((1 + float(level)) / 2)] for level in cell.levels])
    truth = infinite = width = finite = raw_width = 0.0
    laws: Any = ...
    n = cell.cal
    for _ in range(cell.draws):
        rows = generator.integers(POOL, size=n + cell.test)
        y = pool.truth[rows] + pool.sd[rows] * generator.normal(size=pool.truth[rows].shape)
        new = rows[n:]
        calibrated = calibrate_prediction(
            None, prediction.take(rows[:n]), y[:n], score=score, calibrator=learned.plain, learned=learned
        )
        query = prediction.take(new)
        laws = _same(laws, [_law(calibrated, query, level) for level in cell.levels])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InfiniteBandWarning)
            thresholds = [calibrated.threshold(query, level) for level in cell.levels]
        band = score.band(query, thresholds[at], float(cell.levels[at]))
        scores = score(query, y[n:])  # a target lies in the band if its score is at most the threshold
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
    found: Result = tally.pop("after").result()
    before = tally.pop("before")
    if before.draws:
        found["before"] = before.result() | {"width": raw_width / cell.draws}
    return found | {
        "width": width / finite if finite else None,
        "infinite": infinite / cell.draws,
        "truth": truth / (cell.draws * cell.test),
        "regions": {name: its.result() for name, its in tally.items()},
        "laws": laws,
    }


def _law(calibrated: Calibrated, query: Prediction, level: str) -> list[list[int]] | None:
    """The law of one test set as k, n and m of its parts, None where there is none."""
    pieces = calibrated.laws_for(query, level)
    return None if pieces is None else [[law.k, law.n, m] for law, m in pieces]


def _same(before: Any, now: Any) -> Any:
    """The laws of all draws, if every draw has the same; else None: their sum has no simple law."""
    return now if before in (..., now) and None not in now else None


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
        """Counts, points and ACD as plain numbers."""
        return {
            "covered": self.covered.tolist(),
            "points": self.points,
            "acd": self.deviations / self.draws if self.draws else None,
        }


def _has_before(cell: Cell, learned: Learned) -> bool:
    """Whether the predictor's own scale is what is calibrated, so that there is a band before it."""
    return learned.plain == learned and cell.score.plain != cell.score


def _field(cell: Cell, predictor: Predictor, learned: Learned) -> Result:
    """The mean, its error and the widths before and after one calibration, on a regular grid."""
    problem = cell.training.problem
    x = problem.domain.grid(cell.grid).double()
    prediction = predictor(x.numpy())
    seen = problem.observe(cell.cal, noise=cell.training.noise, seed=2000 + cell.training.seed)
    x_cal, y_cal = (to_numpy(part).astype(float) for part in (seen.x, seen.y))
    at = predictor(x_cal)
    threshold = cell.score.threshold(learned, to_numpy(cell.score(at, y_cal)), at)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteBandWarning)
        width = cell.score.band(prediction, threshold(prediction, AT), float(AT)).width
    made = {
        "mean": prediction.mean[:, 0],
        "error": abs(prediction.mean - problem.solution(x).numpy())[:, 0],
        "width": width[:, 0],
    }
    if prediction.scale is not None:
        made["before"] = raw_band(prediction, AT).width[:, 0]
    return {
        name: [float(f"{value:.3g}") if np.isfinite(value) else None for value in values]
        for name, values in made.items()
    }


def _keep(path: Path, fitted: Fitted, seconds: float) -> None:
    """Write a network to the disk, whole or not at all, with a checksum."""
    scales = fitted.likelihood
    about = {"seconds": seconds, "scales": [scales.data, scales.physics, scales.boundary]}
    checkpoint.write(path, about | {"weights": dict(fitted.net.state_dict())})


def _kept(path: Path, training: Training) -> tuple[Fitted, float]:
    """The network that `_keep` wrote."""
    found = checkpoint.read(path)
    net = training.net()
    try:
        net.load_state_dict(found["weights"])
        likelihood, seconds = Likelihood(*found["scales"]), float(found["seconds"])
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise checkpoint.damaged(path, str(error)) from error
    fitted = Fitted(net.eval(), training.problem, training.observe(), likelihood, training.recipe, [])
    return fitted, seconds


def _timed(make: Any, source: Any) -> tuple[Any, float]:
    """What a call gives, and the CPU seconds it took."""
    start = time.process_time()
    made = make(source)
    return made, time.process_time() - start


def _rounded(value: Any) -> Any:
    """Floats to nine digits, so that a result is the same text wherever it is computed alike."""
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
