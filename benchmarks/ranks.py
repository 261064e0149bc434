"""Exactness of ranks, of this library and others, on scores 1, 2, ..., n.

    python benchmarks/ranks.py

With n calibration points whose residuals are 1, 2, ..., n, a band at level p must be as wide as the k-th of
them, k = ceil((n + 1) p) in exact arithmetic, and infinite if k > n. Every library runs for all n up to 200
and the 19 levels 0.05 to 0.95, in its plain form: constant width, prefitted model, default settings. Levels
are passed in each library's form, for puncc as alpha = 1 - p. Writes results/data/ranks.json.
"""

import json
import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

import numpy as np

import guardband as gb

RESULTS = Path(__file__).parent.parent / "results/data/ranks.json"
SIZES = range(1, 201)
HalfWidth = Callable[[int, float], float]


def main() -> None:
    warnings.simplefilter("ignore")
    wanted = {(n, p): math.ceil((n + 1) * Fraction(p)) for n in SIZES for p in gb.conformal.LEVELS}
    found = {"cases": len(wanted), "beyond_the_last_score": sum(k > n for (n, _), k in wanted.items())}
    measured = {}
    for name, half_width in {"guardband": ours, "mapie": mapie, "crepes": crepes, "puncc": puncc}.items():
        off, clipped, refused = [], 0, 0
        for (n, p), k in wanted.items():
            try:
                said = half_width(n, float(p))
            except (ValueError, RuntimeError, IndexError, TypeError):
                refused += 1
                continue
            if k > n:
                clipped += math.isfinite(said)
            elif not math.isclose(said, k):
                off.append(min(said, n + 1) - k)
        measured[name] = {
            "version": version(name),
            "wrong_rank": len(off),
            "too_narrow": sum(by < 0 for by in off),
            "furthest_off": max(map(abs, off), default=0),
            "finite_where_it_must_be_infinite": clipped,
            "refused": refused,
        }
        print(name, measured[name])
    RESULTS.write_text(json.dumps({**found, "libraries": measured}, indent=1) + "\n")


def misses(n: int) -> np.ndarray:
    """1, 2, ..., n as floats."""
    return np.arange(1.0, n + 1)


def ours(n: int, level: float) -> float:
    calibrated = gb.calibrate_arrays(np.zeros(n), misses(n))
    return float(calibrated.band(gb.Prediction(None, [0.0]), level).upper.item())


def mapie(n: int, level: float) -> float:
    from mapie.regression import SplitConformalRegressor

    made = SplitConformalRegressor(_zero(), confidence_level=level, prefit=True)
    made.conformalize(np.zeros((n, 1)), misses(n))
    return float(made.predict_interval(np.zeros((1, 1)))[1].reshape(-1)[1])


def crepes(n: int, level: float) -> float:
    from crepes import ConformalRegressor

    return float(ConformalRegressor().fit(misses(n)).predict_int(np.zeros(1), confidence=level)[0, 1])


def puncc(n: int, level: float) -> float:
    from deel.puncc.api.prediction import BasePredictor
    from deel.puncc.regression import SplitCP

    made = SplitCP(BasePredictor(_zero(), is_trained=True), train=False)
    made.fit(X_calib=np.zeros((n, 1)), y_calib=misses(n))
    return float(np.asarray(made.predict(np.zeros((1, 1)), alpha=1 - level)[2]).reshape(-1)[0])


def _zero():  # noqa: ANN202
    from sklearn.base import BaseEstimator, RegressorMixin

    class Zero(RegressorMixin, BaseEstimator):
        """A model that predicts zero."""

        fitted_, n_features_in_ = True, 1

        def fit(self, x: np.ndarray, y: np.ndarray) -> "Zero":
            return self

        def predict(self, x: np.ndarray) -> np.ndarray:
            return np.zeros(len(x))

    return Zero()


if __name__ == "__main__":
    main()
