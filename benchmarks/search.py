"""A search inside `ConformalRegressor`, and the same search outside.

    python benchmarks/search.py [--draws 500]

Each draw is one table of 40 rows, of which 20 calibrate at level 0.9, and 20 new rows. `pipeline` searches
the strength of a ridge behind a `ColumnTransformer` of words and numbers; `trees` searches 25 seeds for the
random tree that looks best; `sensors` searches 50 uninformative sensors for the one to regress on. Inside,
`ConformalRegressor(GridSearchCV(...))`, the search sees only rows that are not held out; outside,
`GridSearchCV(ConformalRegressor(...))`, it has seen the calibration rows. Counts are tested two-sided against
their exact law. Writes `results/search.md`.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import ExtraTreeRegressor

from guardband.base import files
from guardband.conformal import CoverageLaw, rank
from guardband.conformal.laws import tails, total_counts
from guardband.integrations.sklearn import ConformalRegressor

ROWS, HELD_OUT, NEW, LEVEL, SEEDS, SENSORS = 40, 20, 20, 0.9, 25, 50
REGIMES = ["laminar", "turbulent"]
Table = tuple[Any, np.ndarray]


def frame(seed: int, n: int) -> Table:
    """A regime in words, two numbers, and the target."""
    generator = np.random.default_rng(seed)
    numbers, regime = generator.normal(size=(n, 2)), generator.integers(2, size=n)
    x = pandas.DataFrame({"regime": np.array(REGIMES)[regime], "a": numbers[:, 0], "b": numbers[:, 1]})
    return x, regime + numbers[:, 0] + generator.normal(size=n)


def array(seed: int, n: int) -> Table:
    """Five numbers that are nearly uninformative about the target."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, 5))
    return x, 0.3 * x[:, 0] + generator.normal(size=n)


def pipeline(seed: int) -> ConformalRegressor:
    """Columns, a ridge and its search, all inside."""
    words = OneHotEncoder(drop="first").set_params(categories=[REGIMES])
    columns = ColumnTransformer([("words", words, ["regime"]), ("numbers", StandardScaler(), ["a", "b"])])
    model = Pipeline([("columns", columns), ("ridge", Ridge())])
    search = GridSearchCV(model, {"ridge__alpha": [0.1, 10.0]}, cv=2)
    return ConformalRegressor(search, calibration_size=HELD_OUT, random_state=seed)


def trees_inside(seed: int) -> ConformalRegressor:
    """A search among seeds without the held-out rows."""
    search = GridSearchCV(ExtraTreeRegressor(max_depth=3), {"random_state": range(SEEDS)}, cv=2)
    return ConformalRegressor(search, calibration_size=HELD_OUT, random_state=seed)


def trees_outside(seed: int) -> GridSearchCV:
    """A search among seeds with the calibration rows."""
    model = ConformalRegressor(
        ExtraTreeRegressor(max_depth=3), calibration_size=HELD_OUT / ROWS, random_state=seed
    )
    return GridSearchCV(model, {"estimator__random_state": range(SEEDS)}, cv=2)


class OneSensor(RegressorMixin, BaseEstimator):
    """Least squares on one column."""

    def __init__(self, column: int = 0) -> None:
        self.column = column

    def fit(self, X: np.ndarray, y: np.ndarray) -> "OneSensor":
        self.line_ = np.polyfit(X[:, self.column], y, 1)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.polyval(self.line_, X[:, self.column])


def sensors(seed: int, n: int) -> Table:
    """Sensors and a target that is independent of them."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, SENSORS)), generator.normal(size=n)


def sensors_inside(seed: int) -> ConformalRegressor:
    """A search among sensors without the held-out rows."""
    search = GridSearchCV(OneSensor(), {"column": range(SENSORS)}, cv=2)
    return ConformalRegressor(search, calibration_size=HELD_OUT, random_state=seed)


def sensors_outside(seed: int) -> GridSearchCV:
    """A search among sensors with the calibration rows."""
    model = ConformalRegressor(OneSensor(), calibration_size=HELD_OUT / ROWS, random_state=seed)
    return GridSearchCV(model, {"estimator__column": range(SENSORS)}, cv=2)


def covered(made: Callable[[int], Any], table: Callable[[int, int], Table], seed: int) -> int:
    """The number of new rows inside their intervals."""
    x, y = table(seed, ROWS + NEW)
    fitted = made(seed).fit(x[:ROWS], y[:ROWS])
    model = getattr(fitted, "best_estimator_", fitted)
    ends = np.asarray(model.predict_interval(x[ROWS:], level=LEVEL))[:, -2:]
    return int(((ends[:, 0] <= y[ROWS:]) & (y[ROWS:] <= ends[:, 1])).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=500)
    draws = parser.parse_args().draws
    law = CoverageLaw(rank(HELD_OUT, LEVEL), HELD_OUT)
    lines = [
        "# Model search inside and outside the regressor",
        "",
        f"Written by `python benchmarks/search.py`: {draws} tables at level {LEVEL}, each with {ROWS} rows, "
        f"{HELD_OUT} of them for calibration, and {NEW} new rows. *Inside*, "
        "`ConformalRegressor(GridSearchCV(...))` searches without the calibration rows; *outside*, "
        "`GridSearchCV(ConformalRegressor(...))` searches with them.",
        "",
        "| search | coverage | p (two-sided, exact law) |",
        "|---|---|---|",
        f"| exact law | {law.mean:.4f} | |",
    ]
    runs = {
        "pipeline, inside": (pipeline, frame),
        "trees, inside": (trees_inside, array),
        "trees, outside": (trees_outside, array),
        "sensors, inside": (sensors_inside, sensors),
        "sensors, outside": (sensors_outside, sensors),
    }
    for name, (made, table) in runs.items():
        count = sum(covered(made, table, seed) for seed in range(draws))
        p = min(1.0, 2 * min(tails(total_counts([(law, NEW)], repeats=draws), count)))
        lines.append(f"| {name} | {count / (draws * NEW):.4f} | {p:.2g} |")
        print(lines[-1], flush=True)
    files.write_text(Path(__file__).parent.parent / "results" / "search.md", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
