"""Surrogates of solvers: promises, shapes and models, recalibrated a thousand times each.

    python benchmarks/surrogates.py [--models burgers] [--page]

Needs neuraloperator and deepxde. Models are trained by `surrogate_models.py` and kept outside the repository.
Results are appended to `results/data/surrogates.jsonl`, and finished cells are not repeated. Writes
`results/surrogates.md`.

A recalibration draws n fields of the pool at random and tests all others. Given the pool, and without ties,
the number of covered fields is exactly BetaBinomial(N - n, k, n + 1 - k), independent from draw to draw, so
the sum over all draws has an exact law, for a finite pool too.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
import torch
from claims import finish
from ledger import Ledger
from scipy.stats import norm
from surrogate_models import SURROGATES, Surrogate, kept
from surrogate_page import flat, page
from surrogate_rivals import by_steps, compared_with_uqno, largest_by_step

import guardband as gb
from guardband import pinn
from guardband.base import files
from guardband.conformal import CoverageLaw, quantile, rank
from guardband.conformal.laws import tails, total_counts
from guardband.surrogates.growth import sizes

LEVEL, SIZES, DRAWS = 0.9, (19, 50, 200), 1000
PLACES = 2048
"""Number of thresholds at which the share of each field outside is tabulated."""

Promise = Callable[[], gb.conformal.Score]
PROMISES: dict[str, Promise] = {
    "Simultaneous": gb.Simultaneous,
    "Share(0.1)": lambda: gb.Share(0.1),
    "Norm L2": lambda: gb.Norm("L2"),
    "Norm H1": lambda: gb.Norm("H1"),
    "Quantity: maximum": lambda: gb.Quantity(largest),
}
RISK = "RiskControl: share outside"


def largest(u: np.ndarray) -> np.ndarray:
    """The maximum of each field."""
    return u.reshape(len(u), -1).max(axis=1)


Shape = tuple[str, Callable[[], tuple[gb.Predictor, str]]]
"""The name of a shape, and a function that makes a predictor with it and a description."""


def shapes(model: Surrogate) -> Iterator[Shape]:
    """The constant shape, and those that are learned from the shaping fields."""
    x, y = model.shaping
    inner = model.predictor
    yield "constant", lambda: (inner, "")
    if isinstance(inner, gb.Rollout):
        yield "default: step and size", lambda: (shaped := inner.shaped(x, y), repr(shaped))
        return

    def default() -> tuple[gb.Predictor, str]:
        made = pinn.surrogates.adapted(inner, x, y, steps=model.steps)
        return made, repr(made)

    yield "default: adapted", default
    yield "size", lambda: (gb.surrogates.SizeScale.fitted(inner, x, y), "")
    yield "network", lambda: (pinn.surrogates.NetworkScale.fitted(inner, x, y, steps=model.steps), "")


def dear_shapes(model: Surrogate) -> Iterator[Shape]:
    """Shapes that need further training runs of the model: ensembles, and residuals by cross-fitting."""
    if model.members is None or model.refit is None or model.training is None or "alike" in model.name:
        return
    inner = model.predictor
    members, refit, (at, known) = model.members, model.refit, model.training

    def ensemble() -> gb.predictors.Ensemble:
        return gb.predictors.Ensemble([lambda x, one=one: one(x).mean for one in members()])

    def crossed() -> tuple[gb.Predictor, str]:
        found = gb.surrogates.cross_fitted(refit, at, known)
        scale = pinn.surrogates.NetworkScale.fitted(inner, at, known, prediction=found, steps=model.steps)
        return scale, ""

    yield "ensemble of 3, smoothed", lambda: (gb.surrogates.SmoothedScale(ensemble()), "")
    yield "ensemble of 3", lambda: (ensemble(), "")
    yield "network, cross-fitted", crossed


@dataclass(frozen=True, eq=False)
class Pool:
    """Fresh solver fields with their predictions and one shape."""

    model: Surrogate
    shape: str
    prediction: gb.Prediction
    y: gb.Fields
    cpu: float
    said: str

    @staticmethod
    def of(model: Surrogate, shape: str, make: Callable[[], tuple[gb.Predictor, str]]) -> "Pool":
        """The predictions on the pool, from the folder if stored."""

        def answers() -> dict[str, np.ndarray]:
            made, said = make()
            found = made(model.pool[0])
            parts = {"mean": np.asarray(found.mean), "said": np.array(said)}
            return parts | ({} if found.scale is None else {"scale": np.asarray(found.scale)})

        name = "".join(c if c.isalnum() else "-" for c in f"{model.name}-{shape}")
        found = kept(f"pool-{name}", answers)
        scale = found.get("scale")
        prediction = gb.Prediction(None, found["mean"], scale)
        return Pool(model, shape, prediction, model.pool[1], float(found["cpu"]), str(found["said"]))

    @cached_property
    def sups(self) -> np.ndarray:
        """The largest residual of each field, in units of the shape."""
        return gb.Simultaneous(grid=self.y.grid)(self.prediction, self.y.values)

    @cached_property
    def worst(self) -> np.ndarray:
        """The largest residual of each field."""
        return abs(self.y.values - self.prediction.mean).reshape(len(self.y), -1).max(axis=1)

    @cached_property
    def balls(self) -> np.ndarray:
        """The root mean square over the area of each field on the boundary of its ball at q = 1."""
        made = gb.Norm("L2").on(self.y.grid).band(self.prediction, 1.0, 0.5)
        return made.radius / np.sqrt(self.y.grid.cells.sum())

    def ratios(self) -> np.ndarray:
        """|y - mean| / scale at all nodes, sorted in each field, (N, points)."""
        miss = abs(self.y.values - self.prediction.mean)
        if self.prediction.scale is not None:
            miss = miss / self.prediction.scale
        return np.sort(miss.reshape(len(miss), -1).astype(np.float32), axis=1)


def outside(ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The share (N, places) of each field outside at thresholds, the last above all; and these."""
    places = np.quantile(ratios[:, :: max(1, ratios.shape[1] // 256)], np.linspace(0, 1, PLACES))
    places = np.append(places, np.nextafter(ratios.max(), np.inf))
    inside = np.stack([np.searchsorted(one, places, side="right") for one in ratios])
    return 1 - (inside / ratios.shape[1]).astype(np.float32), places


def draws(n: int, total: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Random splits into calibration and test fields."""
    generator = np.random.default_rng(n)
    for _ in range(DRAWS):
        order = generator.permutation(total)
        yield order[:n], order[n:]


def promised(pool: Pool, name: str, table: np.ndarray, places: np.ndarray) -> Iterator[dict[str, Any]]:
    """One promise with one shape, recalibrated at each size."""
    start = time.process_time()
    score = PROMISES[name]().on(pool.y.grid)  # type: ignore[attr-defined]
    scores = score(pool.prediction, pool.y.values)
    cpu, total = (time.process_time() - start) / len(scores), len(scores)
    span = spans(score, pool)
    quarter = np.argsort(np.argsort(sizes(pool.model.pool[0]))) * 4 // total
    for n in SIZES:
        found: list[dict[str, Any]] = []
        for cal, test in draws(n, total):
            q = quantile(scores[cal], LEVEL)
            inside = scores[test] <= q
            row = {"covered": int(inside.sum()), "width": q * float(span[test].mean())}
            row["quarters"] = np.array([inside[quarter[test] == k].mean() for k in range(4)])
            found.append(row | unpromised(pool, score, q, test, table, places, span))
        law = CoverageLaw(rank(n, LEVEL), n)
        counted = sum(row["covered"] for row in found)
        chances = total_counts([(law, total - n)], repeats=DRAWS)
        means = {key: np.mean([row[key] for row in found], axis=0) for key in found[0]}
        yield {
            "n": n,
            "coverage": float(means.pop("covered")) / (total - n),
            "law": law.mean,
            "p": min(1.0, 2 * min(tails(chances, counted))),
            "door": through_the_door(pool, name, scores, n),
            "score_cpu": cpu,
            "width": float(means.pop("width")),
            **{key: np.round(value, 4).tolist() for key, value in means.items()},
        }


def spans(score: gb.conformal.Score, pool: Pool) -> np.ndarray:
    """Width or radius of each field's set at a threshold of 1, over the size of the solutions."""
    made, y = score.band(pool.prediction, 1.0, 0.5), pool.y.values  # type: ignore[attr-defined]
    if isinstance(made, gb.values.NormBand):
        return made.radius / np.sqrt(np.mean(score(gb.Prediction(None, 0 * y), y) ** 2))
    derived = score.derived(y)
    return np.asarray(made.width).reshape(len(y), -1).mean(axis=1) / np.sqrt(np.mean(derived**2))


def unpromised(
    pool: Pool,
    score: gb.conformal.Score,
    q: float,
    test: np.ndarray,
    table: np.ndarray,
    places: np.ndarray,
    span: np.ndarray,
) -> dict[str, float]:
    """Figures without a promise: fields covered everywhere, share of area, a ball read as a band."""
    if isinstance(score, gb.Norm):
        worst = pool.worst[test]
        within = q * pool.balls[test]
        return {"as a band": float((worst <= within).mean())}
    if isinstance(score, gb.Quantity):
        return {}
    at = min(int(np.searchsorted(places, q, side="right")) - 1, len(places) - 1)
    share = 1 - table[test, max(at, 0)]
    return {"area": float(share.mean()), "wholly": float((pool.sups[test] <= q).mean())}


def risk(pool: Pool, table: np.ndarray, places: np.ndarray) -> Iterator[dict[str, Any]]:
    """Risk control of the share outside, with the smallest sufficient threshold of the table."""
    span, total = spans(gb.Simultaneous(grid=pool.y.grid), pool), len(table)
    for n in SIZES:
        lost, width, wholly = [], [], []
        for cal, test in draws(n, total):
            enough = table[cal].sum(axis=0, dtype=float) + 1 <= (n + 1) * (1 - LEVEL) * (1 + 1e-12)
            at = int(enough.argmax())
            lost.append(float(table[test, at].mean()))
            width.append(places[at] * float(span[test].mean()))
            wholly.append(float((pool.sups[test] <= places[at]).mean()))
        off = (np.mean(lost) - (1 - LEVEL)) / (np.std(lost) / np.sqrt(DRAWS))
        yield {
            "n": n,
            "loss": float(np.mean(lost)),
            "p": float(norm.sf(off)),
            "width": float(np.mean(width)),
            "area": 1 - float(np.mean(lost)),
            "wholly": float(np.mean(wholly)),
        }


def through_the_door(pool: Pool, name: str, scores: np.ndarray, n: int) -> bool:
    """Whether `calibrate_arrays` and its sets agree with the scores, in one of the draws."""
    cal, test = next(draws(n, len(scores)))
    made = gb.calibrate_arrays(pool.prediction.take(cal), pool.y[cal], score=PROMISES[name]())
    inside = made.contains(pool.prediction.take(test), pool.y.values[test], LEVEL)
    return bool((np.asarray(inside) == (scores[test] <= quantile(scores[cal], LEVEL))).all())


def study(model: Surrogate, wanted: Iterator[Shape], ledger: Ledger) -> None:
    """All cells of one model with these shapes that are missing in the ledger."""
    for shape, make in wanted:
        names = [*PROMISES, RISK]
        if shape != "constant":
            names.remove("Quantity: maximum")  # a quantity has no nodes, so a shape has no effect
        missing = [name for name in names if len(known(ledger, model.name, shape, name)) < len(SIZES)]
        if not missing:
            continue
        pool = Pool.of(model, shape, make)
        if shape == "constant" and not ledger_has(ledger, "model", model.name):
            ledger.add([about(pool)])
        table, places = outside(pool.ratios())
        for name in missing:
            cells = risk(pool, table, places) if name == RISK else promised(pool, name, table, places)
            head = {"what": "promise", "model": model.name, "shape": shape, "promise": name}
            ledger.add(list(head | row | {"shape_cpu": pool.cpu, "said": pool.said} for row in cells))


def comparisons(model: Surrogate, ledger: Ledger) -> None:
    """UQNO's rule on Darcy, and separately calibrated steps of rollouts."""
    if model.name == "darcy" and not ledger_has(ledger, "uqno", "darcy"):
        for shape, make in shapes(model):
            if shape in ("constant", "network"):
                pool = Pool.of(model, shape, make)
                span = spans(gb.Simultaneous(grid=pool.y.grid), pool)
                rows = compared_with_uqno(pool.ratios(), span, draws, 0.1, LEVEL, SIZES[1:])
                ledger.add(list({"what": "uqno", "model": "darcy", "shape": shape} | row for row in rows))
    if isinstance(model.predictor, gb.Rollout) and not ledger_has(ledger, "steps", model.name):
        pool = next(Pool.of(model, shape, make) for shape, make in shapes(model) if shape != "constant")
        parts = largest_by_step(pool.prediction, pool.y.values)
        rows = by_steps(*parts, draws, LEVEL, SIZES)
        ledger.add(list({"what": "steps", "model": model.name} | row for row in rows))


def about(pool: Pool) -> dict[str, Any]:
    """Accuracy and cost of a model."""
    y = pool.y.values
    axes = tuple(range(1, y.ndim))
    off = np.sqrt(((y - pool.prediction.mean) ** 2).sum(axis=axes) / (y**2).sum(axis=axes))
    return {
        "what": "model",
        "model": pool.model.name,
        "about": pool.model.about,
        "relative L2": float(off.mean()),
        "training_cpu": pool.model.cpu,
        "pool": len(y),
        "shaping": len(pool.model.shaping[1]),
        "fields a second": len(y) / max(pool.cpu, 1e-3),
    }


def ledger_has(ledger: Ledger, what: str, model: str) -> bool:
    """Whether the ledger has rows of this kind."""
    return any(row["what"] == what and row["model"] == model for row in ledger.rows())


def known(ledger: Ledger, model: str, shape: str, promise: str) -> list[dict[str, Any]]:
    """The rows of one promise with one shape."""
    found = [row for row in ledger.rows() if row["what"] == "promise"]
    return [row for row in found if (row["model"], row["shape"], row["promise"]) == (model, shape, promise)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", help="run only these models")
    parser.add_argument("--page", action="store_true", help="only rewrite the page from the stored rows")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", gb.conformal.InfiniteBandWarning)
    ledger = Ledger("surrogates")
    names = [] if options.page else options.models or list(SURROGATES)
    for name in names:
        model = SURROGATES[name]()
        study(model, shapes(model), ledger)
        comparisons(model, ledger)
        written(ledger)
    for name in names:
        model = SURROGATES[name]()
        study(model, dear_shapes(model), ledger)
        written(ledger)
    finish(written(ledger))


def written(ledger: Ledger) -> list[dict[str, Any]]:
    """Write the page and its tables from the stored rows, and return the claims."""
    lines, claims = page(ledger.rows(), list(SURROGATES))
    ledger.write_table(flat(ledger.rows(), "promise"))
    ledger.write_table(flat(ledger.rows(), "steps"), "_steps")
    files.write_text(ledger.page, "\n".join(lines) + "\n")
    return claims


if __name__ == "__main__":
    main()
