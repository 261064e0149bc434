"""Seven ways to say how unsure a network is, side by side with constant width.

    python benchmarks/predictors.py [--problem allen-cahn|helmholtz] [--seeds 10-14] [--only M] [--pictures]

Each method on each training seed adds a line to `results/data/predictors.jsonl`; lines that exist are not
computed again. The tables of `results/predictors.md` are made from all of them. `--pictures` also draws
error and calibrated band of the first seed's methods into `docs/images`.

Trainings use Adam and L-BFGS (`pinn.Recipe()`) on fresh data. Every method predicts once at POOL uniform
points; calibration and test sets of the paper's size are then drawn from them, with replacement and with
fresh noise, DRAWS times over: independent experiments, whose summed coverage has an exact law. One core, CPU
seconds.
"""

import argparse
import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ledger import Ledger
from scipy.stats import spearmanr

import guardband as gb
from guardband import lab, pinn
from guardband.base import files
from guardband.conformal.laws import tails, total_counts
from guardband.pinn import Fitted
from guardband.pinn.problems import AllenCahn2D, Helmholtz3D, Problem

torch.set_num_threads(1)
LEDGER = Ledger("predictors")
IMAGES = Path(__file__).parent.parent / "docs" / "images"
PROBLEMS: dict[str, Problem] = {"allen-cahn": AllenCahn2D(), "helmholtz": Helmholtz3D()}
POOL, DRAWS, LEVEL = 4000, 1000, 0.95
HEAD = f"""\
# How unsure: the predictors side by side

Made by `python benchmarks/predictors.py` and `python benchmarks/predictors.py --problem helmholtz`: medians
over training seeds at 95 %, the paper's networks and sizes, {DRAWS} recalibrations per seed. *Raw* is
mean +- 1.96 scale, before calibration. *Width* is the mean width after calibration: for noisy targets with
the scale alone, for noisy targets with the noise added to the scale (`gb.conformal.Total`), and for the
noise-free truth when calibrated on it. *The law* says whether the summed coverage of each seed lies within
its exact Beta-binomial law (total false-alarm rate 0.1 % per table). *Cost* is in units of one default
training, that training included; *us/point* is what a prediction costs."""


class Bench:
    """A problem and a training seed: the trainings that the methods share, made when first asked for."""

    def __init__(self, name: str, seed: int) -> None:
        self.problem, self.seed = PROBLEMS[name], seed
        self.settings = settings = lab.paper.settings(self.problem)
        self.noise = float(settings.noise)
        self.train = self.problem.observe(settings.train, noise=self.noise, seed=1000 + seed)
        self.seconds: dict[int, float] = {}
        self._nets: dict[int, Fitted] = {}

    def fit(self, seed: int, **options: Any) -> Fitted:
        net = pinn.mlp(self.problem.domain.d, self.settings.widths, seed=seed, **options)
        likelihood = pinn.Likelihood(data=self.noise)
        return pinn.fit(
            self.problem,
            net,
            self.train,
            likelihood=likelihood,
            recipe=pinn.Recipe(),
            seed=seed,
            progress=False,
        )

    def member(self, i: int) -> Fitted:
        """The i-th default training on these data; its time is kept."""
        if i not in self._nets:
            start = time.process_time()
            self._nets[i] = self.fit(self.seed + 100 * i)
            self.seconds[i] = time.process_time() - start
        return self._nets[i]

    @cached_property
    def fitted(self) -> Fitted:
        return self.member(0)

    @property
    def training_seconds(self) -> float:
        return self.seconds[0]

    @cached_property
    def pool(self) -> tuple[np.ndarray, np.ndarray]:
        x = self.problem.domain.uniform(POOL, torch.Generator().manual_seed(self.seed)).double()
        return x.numpy(), self.problem.solution(x).numpy()


Method = Callable[[Bench], Any]
METHODS: dict[str, Method] = {
    "constant width": lambda b: gb.predictors.MeanOnly(b.fitted),
    "distance": lambda b: gb.predictors.Distance(
        b.fitted, n_neighbors=NEIGHBORS[type(b.problem).__name__][0]
    ),
    "latent distance": lambda b: pinn.predictors.LatentDistance(
        b.fitted, n_neighbors=NEIGHBORS[type(b.problem).__name__][1]
    ),
    "dropout": lambda b: pinn.predictors.Dropout(b.fit(b.seed, dropout=0.05)),
    "dropout, the paper's": lambda b: pinn.predictors.Dropout(b.fit(b.seed, dropout=0.1, where="all")),
    "ensemble of 5": lambda b: gb.predictors.Ensemble([b.member(i) for i in range(5)]),
    "last-layer Laplace": lambda b: pinn.predictors.LastLayerLaplace(b.fitted),
    "last-layer Laplace, one layer": lambda b: pinn.predictors.LastLayerLaplace(b.fitted, layers=1),
    "last-layer Laplace, data only": lambda b: pinn.predictors.LastLayerLaplace(b.fitted, physics=False),
    "Laplace": lambda b: pinn.predictors.Laplace(b.fitted),
    "Laplace, data only": lambda b: pinn.predictors.Laplace(b.fitted, physics=False),
    "VI, tempered": lambda b: pinn.predictors.MeanFieldVI(b.fitted, progress=False),
    "VI, untempered": lambda b: pinn.predictors.MeanFieldVI(b.fitted, kl=1.0, progress=False),
    "HMC": lambda b: pinn.predictors.HMC(b.fitted, progress=False),
}
NEIGHBORS = {"AllenCahn2D": (20, 20), "Helmholtz3D": (15, 10)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problem", choices=PROBLEMS, default="allen-cahn")
    parser.add_argument("--seeds", default="10-14", help="first-last")
    parser.add_argument("--only", choices=METHODS, action="append", help="one method; may be repeated")
    parser.add_argument("--pictures", action="store_true", help="draw the first seed's methods")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split("-"))
    for seed in range(first, last + 1):
        bench = Bench(options.problem, seed)
        pictured = {}
        for name in options.only or METHODS:
            key = {"problem": options.problem, "method": name, "seed": seed}
            known, pictures = bool(LEDGER.rows(**key)), options.pictures and seed == first
            if known and not pictures:
                continue
            predictor, seconds = make(bench, name)
            if not known:
                LEDGER.add([key | measure(bench, predictor, seconds)])
            if pictures:
                pictured[name] = predictor
        if pictured:
            draw(bench, pictured)
            draw_coverage(bench, pictured)
    files.write_text(LEDGER.page, page())


def make(bench: Bench, name: str) -> tuple[Any, float]:
    """The predictor, and what it cost in all: the CPU seconds of its own trainings included."""
    before = dict(bench.seconds)
    start = time.process_time()
    predictor = METHODS[name](bench)
    seconds = time.process_time() - start - sum(bench.seconds[i] for i in bench.seconds if i not in before)
    trainings = {"ensemble of 5": range(5), "dropout": (), "dropout, the paper's": ()}.get(name, (0,))
    return predictor, seconds + sum(bench.seconds[i] for i in trainings)


def measure(bench: Bench, predictor: Any, seconds: float) -> dict[str, float | str]:
    """All that the tables show of one method on one seed."""
    bench.member(0)
    x, truth = bench.pool
    start = time.process_time()
    prediction = predictor(x)
    microseconds = 1e6 * (time.process_time() - start) / len(x)
    error = abs(prediction.mean - truth)[:, 0]
    row: dict[str, float | str] = {
        "l2": gb.metrics.relative_l2(prediction.mean, truth),
        "cost": seconds / bench.training_seconds,
        "seconds": round(seconds, 2),
        "microseconds_per_point": round(microseconds, 1),
    }
    generator = np.random.default_rng(bench.seed)
    if prediction.scale is not None:
        noisy = truth + bench.noise * generator.normal(size=truth.shape)
        raw = gb.conformal.raw_band(prediction, LEVEL)
        row["spearman"] = float(spearmanr(prediction.scale[:, 0], error).statistic)  # type: ignore
        row["raw_noisy"] = float(raw.contains(noisy).mean())
        row["raw_truth"] = float(raw.contains(truth).mean())
    for name, score, noise in (
        ("noisy", gb.Scaled(), bench.noise),
        ("total", gb.conformal.Total(noise=bench.noise), bench.noise),
        ("truth", gb.Scaled(), 0.0),
    ):
        covered, width, (below, above) = recalibrated(bench, prediction, score, noise, generator)
        row |= {f"{name}_coverage": covered, f"{name}_width": width}
        if noise:
            row |= {f"{name}_below": below, f"{name}_above": above}
    verdict = getattr(getattr(predictor, "diagnostics", None), "verdict", None)
    return row | ({"verdict": verdict} if verdict else {})


def recalibrated(
    bench: Bench, prediction: gb.Prediction, score: Any, noise: float, generator: np.random.Generator
) -> tuple[float, float, tuple[float, float]]:
    """Coverage and mean width over many fresh calibration and test sets, and the exact law's two tails."""
    _, truth = bench.pool
    n, m = bench.settings.cal, bench.settings.test
    covered, width = 0, 0.0
    laws = None
    for _ in range(DRAWS):
        rows = generator.integers(len(truth), size=n + m)
        y = truth[rows] + noise * generator.normal(size=(n + m, 1))
        mean = prediction.mean[rows]
        scale = None if prediction.scale is None else prediction.scale[rows]
        calibrated = gb.calibrate_arrays(mean[:n], y[:n], None if scale is None else scale[:n], score=score)
        at = gb.Prediction(None, mean[n:], None if scale is None else scale[n:])
        band = calibrated.band(at, LEVEL)
        covered += int(band.contains(y[n:]).sum())
        width += float(band.width.mean())
        laws = laws or calibrated.threshold.laws(LEVEL, m, None)
    assert laws is not None
    below, above = tails(total_counts(laws, repeats=DRAWS), covered)
    return covered / (DRAWS * m), width / DRAWS, (float(below), float(above))


def draw(bench: Bench, predictors: dict[str, Any]) -> None:
    """Error and calibrated half-width on one color scale, for every method that has a scale."""
    import matplotlib.pyplot as plt

    problem = bench.problem
    x = problem.domain.grid([60, 60, *[1] * (problem.domain.d - 2)]).double()
    x[:, 2:] = torch.tensor(problem.domain.center)[2:]
    cal = problem.observe(bench.settings.cal, noise=0.0, seed=2000 + bench.seed)
    for name, predictor in predictors.items():
        if predictor(x[:1]).scale is None:
            continue
        band = gb.calibrate(predictor, cal.x, cal.y)(x, level=LEVEL)
        error = (band.mean - problem.solution(x)).abs()
        figure, axes = plt.subplots(1, 2, figsize=(5.6, 3.2), layout="constrained")
        panels = {"error": error, f"half the {100 * LEVEL:.0f} % band": band.width / 2}
        for ax, (title, values) in zip(axes, panels.items(), strict=True):
            limits = (0, 2 * float(error.quantile(LEVEL)))
            options = {"limits": limits, "cmap": "cividis", "colorbar": "bottom"}
            gb.plot.heatmap(x[:, :2], values, names=problem.names, ax=ax, **options)
            ax.set_title(title, fontsize="medium")
            ax.label_outer()
        figure.suptitle(name)
        figure.savefig(IMAGES / f"{slug(bench, name)}.png", dpi=90)
        plt.close(figure)


def draw_coverage(bench: Bench, predictors: dict[str, Any]) -> None:
    """Coverage against level before and after calibration, one panel per method."""
    import matplotlib.pyplot as plt

    cal = bench.problem.observe(bench.settings.cal, noise=bench.noise, seed=2000 + bench.seed)
    test = bench.problem.observe(2000, noise=bench.noise, seed=3000 + bench.seed)
    columns = 4
    lines = -(-len(predictors) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(3 * columns, 3 * lines), layout="constrained", sharex=True, sharey=True
    )
    for ax in axes.flat[len(predictors) :]:
        ax.axis("off")
    for i, (ax, (name, predictor)) in enumerate(zip(axes.flat, predictors.items(), strict=False)):
        evaluation = gb.evaluate(gb.calibrate(predictor, cal.x, cal.y), test.x, test.y)
        gb.plot.coverage_curve(evaluation, ax=ax)
        ax.set_title(name, fontsize="medium")
        ax.label_outer()
        if i != 1:  # the first has no band before calibration
            ax.get_legend().remove()
    figure.savefig(IMAGES / f"{slug(bench, 'coverage')}.png", dpi=90)
    plt.close(figure)


def slug(bench: Bench, name: str) -> str:
    problem = type(bench.problem).__name__.lower()
    return f"{problem}-{name}".replace(",", "").replace("'", "").replace(" ", "-").lower()


def page() -> str:
    """The Markdown page of all problems."""
    lines = [HEAD]
    for problem in PROBLEMS:
        mine = LEDGER.rows(problem=problem)
        if mine:
            lines += ["", f"## {problem}", "", *table(mine)]
    return "\n".join(lines) + "\n"


def table(mine: list[dict[str, Any]]) -> Iterator[str]:
    yield (
        "| method | seeds | relative L2, % | Spearman of scale and error | raw coverage, noisy / truth | "
        "coverage after | the law | width, noisy | width, noise added | width, truth | cost | us/point |"
    )
    yield "|" + "---|" * 12
    cells = 4 * len(mine)
    for name in METHODS:
        its = [row for row in mine if row["method"] == name]
        if not its:
            continue

        def middle(key: str, its: list[dict[str, Any]] = its) -> float:
            return float(np.median([row[key] for row in its if key in row] or [np.nan]))

        l2 = [100 * row["l2"] for row in its]
        worst = min(min(row[f"{k}_below"], row[f"{k}_above"]) for row in its for k in ("noisy", "total"))
        law = "holds" if worst > 1e-3 / cells else f"broken (p = {worst:.1g})"
        scaled = "spearman" in its[0]
        yield (
            f"| {name} | {len(its)} | {np.median(l2):.2f} ({min(l2):.2f} to {max(l2):.2f}) | "
            + (f"{middle('spearman'):.2f}" if scaled else "-")
            + " | "
            + (f"{middle('raw_noisy'):.3f} / {middle('raw_truth'):.3f}" if scaled else "-")
            + f" | {middle('noisy_coverage'):.4f} | {law} | {middle('noisy_width'):.3f} | "
            f"{middle('total_width'):.3f} | {middle('truth_width'):.4f} | {middle('cost'):.2f} | "
            f"{middle('microseconds_per_point'):.0f} |"
        )


if __name__ == "__main__":
    main()
