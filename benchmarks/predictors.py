"""Predictors of uncertainty compared with constant width.

    python benchmarks/predictors.py [--problem allen-cahn|helmholtz] [--seeds 10-14] [--only M] [--pictures]
        [--page]

Each method on each training seed appends a line to `results/data/predictors.jsonl`; existing lines are not
recomputed. The tables of `results/predictors.md` summarize all of them. `--pictures` also draws the error and
the calibrated band of the first seed's methods into `docs/images`.

Training uses Adam and L-BFGS (`pinn.Recipe()`) on fresh data. Every method predicts once at POOL uniform
points; calibration and test sets of the paper's size are then drawn from these points, with replacement and
fresh noise, DRAWS times. These experiments are independent, and their summed coverage has an exact law. Times
are CPU seconds on one core.
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
# Predictors of uncertainty

Written by `python benchmarks/predictors.py` and `python benchmarks/predictors.py --problem helmholtz`:
medians over training seeds at 95 %, with the networks and sizes of the paper,
[arXiv:2509.13717](https://arxiv.org/abs/2509.13717), and {DRAWS} recalibrations per seed. *Raw* is mean +-
1.96 scale, before calibration. *Width* is the mean width after calibration: for noisy targets with the
scale alone, for noisy targets with the noise added to the scale (`gb.conformal.Total`), and for the
noise-free truth when calibrated on it. *Cost* includes training and is relative to one default training
run; *us/point* is the cost of a prediction. Ranges over seeds: [predictors.csv](data/predictors.csv)."""


class Bench:
    """A problem and a training seed, with the trained networks that methods share, computed on first use."""

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
    parser.add_argument("--page", action="store_true", help="only rewrite the page from the stored rows")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split("-"))
    for seed in [] if options.page else range(first, last + 1):
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
    LEDGER.write_table(row for problem in PROBLEMS for row in summaries(LEDGER.rows(problem=problem)))


def make(bench: Bench, name: str) -> tuple[Any, float]:
    """The predictor and its total CPU seconds, including its own training."""
    before = dict(bench.seconds)
    start = time.process_time()
    predictor = METHODS[name](bench)
    seconds = time.process_time() - start - sum(bench.seconds[i] for i in bench.seconds if i not in before)
    trainings = {"ensemble of 5": range(5), "dropout": (), "dropout, the paper's": ()}.get(name, (0,))
    return predictor, seconds + sum(bench.seconds[i] for i in trainings)


def measure(bench: Bench, predictor: Any, seconds: float) -> dict[str, float | str]:
    """The figures of one method on one seed."""
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
    """Coverage and mean width over fresh calibration and test sets, and the two tails of the exact law."""
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
    """Medians of every method, and a sentence on the exact law."""
    yield (
        "| method | relative L2, % | Spearman of scale and error | raw coverage, noisy / truth | "
        "width, noisy | width, noise added | width, truth | cost | us/point |"
    )
    yield "|" + "---|" * 9
    found = list(summaries(mine))
    for row in found:
        scaled = row["Spearman"] is not None
        yield (
            f"| {row['method']} | {100 * row['relative L2']:.2f} | "
            + (f"{row['Spearman']:.2f}" if scaled else "-")
            + " | "
            + (f"{row['raw coverage, noisy']:.3f} / {row['raw coverage, truth']:.3f}" if scaled else "-")
            + f" | {row['width, noisy']:.3f} | {row['width, noise added']:.3f} | {row['width, truth']:.4f} | "
            f"{row['cost']:.2f} | {row['us/point']:.0f} |"
        )
    coverage = [row["coverage after"] for row in found]
    yield ""
    yield (
        f"Coverage after calibration is {min(coverage):.4f} to {max(coverage):.4f}. The summed coverage of "
        f"each of {max(row['seeds'] for row in found)} seeds is consistent with its exact beta-binomial "
        f"distribution for {sum(row['law'] == 'holds' for row in found)} of {len(found)} methods, at a total "
        "false-alarm rate of 0.1 %."
    )


def summaries(mine: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The medians of every method over the seeds, with the range of errors."""
    cells = 4 * len(mine)
    for name in METHODS:
        its = [row for row in mine if row["method"] == name]
        if not its:
            continue
        middle = {key: float(np.median([row[key] for row in its])) for key in KEYS if key in its[0]}
        worst = min(min(row[f"{k}_below"], row[f"{k}_above"]) for row in its for k in ("noisy", "total"))
        yield {
            "problem": its[0]["problem"],
            "method": name,
            "seeds": len(its),
            **{title: middle.get(key) for key, title in KEYS.items()},
            "relative L2, lowest": min(row["l2"] for row in its),
            "relative L2, highest": max(row["l2"] for row in its),
            "law": "holds" if worst > 1e-3 / cells else f"broken (p = {worst:.1g})",
        }


KEYS = {
    "l2": "relative L2",
    "spearman": "Spearman",
    "raw_noisy": "raw coverage, noisy",
    "raw_truth": "raw coverage, truth",
    "noisy_coverage": "coverage after",
    "noisy_width": "width, noisy",
    "total_width": "width, noise added",
    "truth_width": "width, truth",
    "cost": "cost",
    "microseconds_per_point": "us/point",
}
"""The stored figures that are summarized, and their titles."""


if __name__ == "__main__":
    main()
