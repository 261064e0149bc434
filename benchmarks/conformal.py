"""Speed of calibration and bands compared with bare numpy and other conformal libraries.

    python benchmarks/conformal.py [--quick] [--peers]

All contenders run in one process on one thread, with an allocator that keeps its memory. Each round times
every contender once, and a ratio is the median over rounds of the ratios within a round. The last line is one
JSON object of claims. `--peers` needs `pip install "guardband[peers]"`.
"""

import argparse
import os

from claims import claim, finish, keep_memory

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
if __name__ == "__main__":
    keep_memory()

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import torch

import guardband as gb

torch.set_num_threads(1)
Contender = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, under 45 s on one core")
    parser.add_argument("--peers", action="store_true", help="also crepes, MAPIE and puncc")
    options = parser.parse_args()
    n, m, rounds = (100_000, 1_000_000, 7) if options.quick else (1_000_000, 10_000_000, 7)

    generator = np.random.default_rng(0)
    mean_cal, scale_cal = generator.normal(size=n), 0.1 + generator.uniform(size=n)
    y_cal = mean_cal + scale_cal * generator.normal(size=n)
    mean, scale = generator.normal(size=m), 0.1 + generator.uniform(size=m)
    print(f"{n:,} scores, bands at {m:,} points, 19 levels, float64, one thread\n")

    def ours() -> Iterator[gb.Band]:
        calibrated = gb.calibrate_arrays(mean_cal, y_cal, scale_cal)
        prediction = gb.Prediction(None, mean, scale)
        for level in gb.conformal.LEVELS:
            yield calibrated.band(prediction, level)

    def bare() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        scores = np.sort(abs(y_cal - mean_cal) / scale_cal)
        eps = np.finfo(float).eps
        slack = 4 * eps * abs(mean) + np.finfo(float).tiny
        low, high = mean - slack, mean + slack
        for level in gb.conformal.LEVELS:
            q = scores[math.ceil((n + 1) * Fraction(level)) - 1] * (1 + 4 * eps)
            half = q * scale
            yield low - half, high + half

    alike = all(
        np.array_equal(band.lower[:, 0], low) and np.array_equal(band.upper[:, 0], high)
        for band, (low, high) in zip(ours(), bare(), strict=True)
    )
    contenders: dict[str, Contender] = {
        "guardband": lambda: deque(ours(), maxlen=0),
        "bare numpy": lambda: deque(bare(), maxlen=0),
    }
    times = interleave(contenders, rounds)
    claims = [
        claim("bands_equal_to_bare_numpy", float(alike), ">= 1"),
        claim(
            "calibrate_and_19_levels_vs_bare_numpy",
            ratio(times, "guardband", "bare numpy"),
            "<= 3" if options.quick else "<= 1.15",
        ),
    ]
    if options.peers:
        claims += peers(mean_cal, scale_cal, y_cal, mean, scale, rounds)
    finish(claims)


def peers(
    mean_cal: np.ndarray,
    scale_cal: np.ndarray,
    y_cal: np.ndarray,
    mean: np.ndarray,
    scale: np.ndarray,
    rounds: int,
) -> list[dict[str, object]]:
    """Bands at 19 levels on the same arrays, with every library calibrated in advance on the same scale.

    crepes takes arrays; MAPIE and puncc call models, here ones that return a column of their input.
    """
    from crepes import ConformalRegressor
    from deel.puncc.api.prediction import MeanVarPredictor
    from deel.puncc.regression import LocallyAdaptiveCP
    from mapie.conformity_scores import ResidualNormalisedScore
    from mapie.regression import SplitConformalRegressor
    from sklearn.base import BaseEstimator, RegressorMixin

    class Column(RegressorMixin, BaseEstimator):
        fitted_, n_features_in_ = True, 2

        def __init__(self, column: int) -> None:
            self.column = column

        def fit(self, x: np.ndarray, y: np.ndarray) -> "Column":
            return self

        def predict(self, x: np.ndarray) -> np.ndarray:
            return x[:, self.column]

    levels = [float(level) for level in gb.conformal.LEVELS]
    x_cal, x = np.c_[mean_cal, scale_cal], np.c_[mean, scale]
    calibrated = gb.calibrate_arrays(mean_cal, y_cal, scale_cal)
    crepes = ConformalRegressor().fit(y_cal - mean_cal, sigmas=scale_cal)
    score = ResidualNormalisedScore(residual_estimator=Column(1), prefit=True)
    mapie = SplitConformalRegressor(Column(0), confidence_level=levels, conformity_score=score)
    mapie.conformalize(x_cal, y_cal)
    puncc = LocallyAdaptiveCP(MeanVarPredictor([Column(0), Column(1)], is_trained=[True, True]), train=False)
    puncc.fit(X_calib=x_cal, y_calib=y_cal)

    def ours() -> None:
        prediction = gb.Prediction(None, mean, scale)
        for level in levels:
            calibrated.band(prediction, level)

    print("\nPredicting only")
    times = interleave(
        {
            "guardband": ours,
            "crepes": lambda: [crepes.predict_int(mean, sigmas=scale, confidence=c) for c in levels],
            "MAPIE": lambda: mapie.predict_interval(x),
            "puncc": lambda: [puncc.predict(x, alpha=1 - c) for c in levels],
        },
        rounds,
    )
    return [
        claim("predict_vs_crepes", ratio(times, "crepes", "guardband"), ">= 1.8"),
        claim("predict_vs_mapie", ratio(times, "MAPIE", "guardband"), ">= 5"),
        claim("predict_vs_puncc", ratio(times, "puncc", "guardband"), ">= 5"),
    ]


def interleave(contenders: dict[str, Contender], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each contender in each round, after one round to warm up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, run in contenders.items():
            start = time.process_time()
            run()
            if turn:
                times[name].append(time.process_time() - start)
    for name, seconds in times.items():
        low, middle, high = min(seconds), np.median(seconds), max(seconds)
        print(f"{name:24} {middle:8.3f} s  ({low:.3f} to {high:.3f})")
    return times


def ratio(times: dict[str, list[float]], over: str, under: str) -> float:
    """The median over rounds of the time of `over` divided by that of `under`."""
    return float(np.median(np.array(times[over]) / np.array(times[under])))


if __name__ == "__main__":
    main()
