"""Bands that follow the noise: local conformal prediction on the paper's noise fields and on a new one.

    python benchmarks/local.py [--only oscillator|A|B|C|front|even] [--seeds 10-19] [--pictures] [--page]

The settings are the same for all fields. Each training seed appends one line per method to
`results/data/local.jsonl`; existing lines are not recomputed. The page `results/local.md` summarizes all of
them. With `--pictures`, bands, widths and coverage curves of the first seed are drawn into `docs/images`.

The network is trained by default settings on as many noisy observations as in the paper. Its mean and every
shape are evaluated once at POOL uniform points; calibration and test sets are then drawn from these points
with replacement and with fresh noise, DRAWS times. A local band with one shape for all levels is computed as
a band on the scale g. Everything runs on one core.
"""

import argparse
import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ledger import Ledger

import guardband as gb
from guardband import lab, pinn
from guardband.base import files
from guardband.conformal.local.shape import at_level, best_shape
from guardband.conformal.rank import rank
from guardband.metrics import acd, acd_floor
from guardband.pinn.problems import AllenCahn2D, DampedOscillator, Problem, noise

torch.set_num_threads(1)
LEDGER = Ledger("local")
IMAGES = Path(__file__).parent.parent / "docs" / "images"
POOL, DRAWS, LEVEL = 8000, 1000, "0.95"
FIELDS: dict[str, tuple[Problem, noise.Noise, int, str]] = {
    "oscillator": (DampedOscillator(), noise.Islands(), 1000, "10-19"),
    "A": (AllenCahn2D(), noise.NoisyDisk(), 2000, "10-15"),
    "B": (AllenCahn2D(), noise.Ring(), 2000, "10-15"),
    "C": (AllenCahn2D(), noise.DiscAndCorner(), 2000, "10-15"),
    "front": (AllenCahn2D(), noise.Front(), 2000, "10-15"),
    "even": (AllenCahn2D(), noise.Even(), 2000, "10-15"),
}


class Bench:
    """A noise field with a network trained from one seed."""

    def __init__(self, name: str, seed: int) -> None:
        self.problem, self.noise, self.test, _ = FIELDS[name]
        settings = lab.paper.settings(self.problem)
        self.name, self.seed, self.cal = name, seed, settings.cal
        self.train = self.problem.observe(settings.train, noise=self.noise, seed=1000 + seed)
        net = pinn.mlp(self.problem.domain.d, settings.widths, seed=seed)
        likelihood = pinn.Likelihood(data=settings.noise)
        self.fitted = pinn.fit(
            self.problem,
            net,
            self.train,
            likelihood=likelihood,
            recipe=pinn.Recipe(),
            seed=seed,
            progress=False,
        )
        x = self.problem.domain.uniform(POOL, torch.Generator().manual_seed(seed)).double()
        self.x, self.truth = x.numpy(), self.problem.solution(x).numpy()[:, 0]
        self.mean = self.fitted(self.x)[:, 0]
        self.sd = self.noise(x).numpy()[:, 0]
        self.authors_region, self.region = self.noise.authors_region(x).numpy(), self.noise.region(x).numpy()
        self.residuals = np.abs(np.asarray(self.fitted(self.train.x) - self.train.y, dtype=float))[:, 0]
        self.points = np.asarray(self.train.x, dtype=float)

    def learn(self, learner: Any) -> Callable[[str], np.ndarray]:
        shape = best_shape(learner, self.points, self.residuals)
        if getattr(shape, "per_level", False):
            return lambda level: at_level(shape, level)(self.x)
        once = shape(self.x)
        return lambda level: once


def constant(bench: Bench) -> Callable[[str], np.ndarray]:
    return lambda level: np.ones(POOL)


def oracle(bench: Bench) -> Callable[[str], np.ndarray]:
    return lambda level: bench.sd


def distance(bench: Bench) -> Callable[[str], np.ndarray]:
    n_neighbors = 20 if bench.name == "oscillator" else 30
    scale = gb.predictors.Distance(bench.fitted, n_neighbors=n_neighbors)(bench.x).scale
    assert scale is not None
    return lambda level: scale[:, 0]


METHODS: dict[str, Callable[[Bench], Callable[[str], np.ndarray]]] = {
    "constant width": constant,
    "CP on the distance": distance,
    "Local, log-scale (default)": lambda bench: bench.learn(gb.conformal.LogScale()),
    "Local, pinball network": lambda bench: bench.learn(pinn.PinballNetwork()),
    "Local, pinball, a shape per level": lambda bench: bench.learn(pinn.PinballNetwork(per_level=True)),
    "the oracle that knows the noise": oracle,
}
COSTLY = ("Local, pinball, a shape per level",)
"""Methods that run on the oscillator only."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=FIELDS, action="append", help="one field; may be repeated")
    parser.add_argument("--seeds", help="first-last; by default 10-19 for the oscillator, else 10-15")
    parser.add_argument("--pictures", action="store_true", help="draw the first seed")
    parser.add_argument("--page", action="store_true", help="only rewrite the page from the stored rows")
    options = parser.parse_args()
    for name in [] if options.page else options.only or FIELDS:
        first, last = map(int, (options.seeds or FIELDS[name][3]).split("-"))
        for seed in range(first, last + 1):
            missing = methods(name) - {row["method"] for row in LEDGER.rows(field=name, seed=seed)}
            pictured = options.pictures and seed == first
            if not missing and not pictured:
                continue
            bench = Bench(name, seed)
            if missing:
                LEDGER.add(list(measure(bench, missing)))
            if pictured:
                draw(bench)
    files.write_text(LEDGER.page, page())
    LEDGER.write_table(flat())


def methods(name: str) -> set[str]:
    """The methods that are measured on a field."""
    return {method for method in (*METHODS, "localized") if method not in COSTLY or name == "oscillator"}


def measure(bench: Bench, missing: set[str]) -> Iterator[dict[str, Any]]:
    """One row for each missing method."""
    for method, make in METHODS.items():
        if method not in missing:
            continue
        start = time.process_time()
        shape_at = make(bench)
        shapes = {level: shape_at(level) for level in gb.conformal.LEVELS}
        seconds = time.process_time() - start
        yield {"field": bench.name, "method": method, "seed": bench.seed, **recalibrated(bench, shapes)} | {
            "seconds": round(seconds, 2),
            "l2": gb.metrics.relative_l2(bench.mean, bench.truth),
        }
    if "localized" in missing:
        yield {"field": bench.name, "method": "localized", "seed": bench.seed, **localized(bench)}


def recalibrated(bench: Bench, shapes: dict[str, np.ndarray]) -> dict[str, float]:
    """Coverage everywhere and in both regions, width and ACD, over many calibration and test sets."""
    generator = np.random.default_rng(bench.seed)
    n, m = bench.cal, bench.test
    sums = {place: np.zeros((2, len(gb.conformal.LEVELS))) for place in ("all", "mask", "region")}
    deviations = {"all": 0.0, "mask": 0.0}
    width = 0.0
    for _ in range(DRAWS):
        rows = generator.integers(POOL, size=n + m)
        y = bench.truth[rows] + bench.sd[rows] * generator.normal(size=n + m)
        miss = np.abs(y - bench.mean[rows])
        test = rows[n:]
        inside = np.empty((len(gb.conformal.LEVELS), m), bool)
        for i, level in enumerate(gb.conformal.LEVELS):
            scores = miss / shapes[level][rows]
            q = np.sort(scores[:n])[rank(n, level) - 1]
            inside[i] = scores[n:] <= q
            if level == LEVEL:
                width += 2 * q * float(shapes[level][test].mean())
        places = {"all": np.ones(m, bool), "mask": bench.authors_region[test], "region": bench.region[test]}
        for place, chosen in places.items():
            sums[place] += [inside[:, chosen].sum(axis=1), np.full(len(gb.conformal.LEVELS), chosen.sum())]
            if place in deviations and chosen.any():
                deviations[place] += acd(tuple(inside[:, chosen].mean(axis=1)), gb.conformal.LEVELS)
    curves = {place: total[0] / total[1] for place, total in sums.items()}
    at = gb.conformal.LEVELS.index(LEVEL)
    below, above = tails(int(sums["all"][0, at]), n, m)
    return {
        "coverage": curves["all"][at],
        "in_mask": curves["mask"][at],
        "in_region": curves["region"][at],
        "width": width / DRAWS,
        "acd": deviations["all"] / DRAWS,
        "acd_mask": deviations["mask"] / DRAWS,
        "below": below,
        "above": above,
    }


def tails(covered: int, n: int, m: int) -> tuple[float, float]:
    """The two tails of the exact law at the number of covered points in all draws."""
    from guardband.conformal.laws import CoverageLaw, tails, total_counts

    below, above = tails(total_counts([(CoverageLaw(rank(n, LEVEL), n), m)], repeats=DRAWS), covered)
    return float(below), float(above)


def localized(bench: Bench) -> dict[str, float]:
    """Randomly localized conformal prediction at 95 %, over 100 draws."""
    generator = np.random.default_rng(bench.seed)
    calibrator = gb.conformal.RandomlyLocalized(inputs=bench.points)
    counts, infinite, width, finite = np.zeros((3, 2)), 0, 0.0, 0
    n, m = bench.cal, bench.test
    for _ in range(100):
        rows = generator.integers(POOL, size=n + m)
        y = bench.truth[rows] + bench.sd[rows] * generator.normal(size=n + m)
        x, mean = bench.x[rows], bench.mean[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gb.conformal.InfiniteBandWarning)
            calibrated = gb.calibrate_arrays(mean[:n], y[:n], x_cal=x[:n], calibrator=calibrator)
            band = calibrated.band(gb.Prediction(x[n:], mean[n:]), LEVEL)
        inside = band.contains(y[n:])
        for k, chosen in enumerate(
            (np.ones(m, bool), bench.authors_region[rows[n:]], bench.region[rows[n:]])
        ):
            counts[k] += inside[chosen].sum(), chosen.sum()
        wide = band.width[:, 0]
        infinite += int(np.isinf(wide).sum())
        width += float(wide[np.isfinite(wide)].sum())
        finite += int(np.isfinite(wide).sum())
    coverage, in_mask, in_region = counts[:, 0] / counts[:, 1]
    found = {"coverage": coverage, "in_mask": in_mask, "in_region": in_region}
    return found | {"width": width / finite, "infinite": infinite / (infinite + finite)}


def draw(bench: Bench) -> None:
    """The figures of the paper: bands or widths, and coverage curves in the noisy region and everywhere."""
    import matplotlib.pyplot as plt

    problem, model = bench.problem, bench.noise
    cal = problem.observe(bench.cal, noise=model, seed=2000 + bench.seed)
    test = problem.observe(bench.test, noise=model, seed=3000 + bench.seed)
    predictor = gb.predictors.Distance(bench.fitted)
    plain = gb.calibrate(predictor, cal.x, cal.y)
    local = gb.calibrate(gb.predictors.MeanOnly(bench.fitted), cal.x, cal.y, calibrator=gb.Local(bench.train))
    line = problem.domain.d == 1
    figure = plt.figure(figsize=(8, 10) if line else (13, 7.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(6, 4) if line else (3.6, 4))  # type: ignore[misc]
    if line:
        axes = above.subplots(2, 1, sharex=True, sharey=True)
        x = problem.domain.grid(600)
        for ax, calibrated, title in zip(
            axes, (plain, local), ("CP on the distance", "local CP"), strict=True
        ):
            gb.plot.band(calibrated(x, 0.9), data=test, truth=problem.solution(x), ax=ax)
            ax.set_title(f"{title}, 90 %", fontsize="medium")
    else:
        axes = above.subplots(1, 3)
        x = problem.domain.grid(70)
        gb.plot.heatmap(x, 2 * 1.96 * model(x), names=problem.names, ax=axes[0])
        gb.plot.width(plain(x), ax=axes[1])
        gb.plot.width(local(x), ax=axes[2])
        for ax, title in zip(axes, ("3.92 noise", "CP on the distance", "local CP"), strict=True):
            ax.set_title(f"{bench.name}: width at 95 %, {title}", fontsize="medium")
            ax.contour(
                *np.meshgrid(np.linspace(-1, 1, 70), np.linspace(-1, 1, 70)),
                model.authors_region(x).double().reshape(70, 70).T,
                levels=[0.5],
                colors="white",
                linestyles="dashed",
                linewidths=1,
            )
    axes = below.subplots(1, 2, sharey=True)
    inside = model.authors_region(test.x).numpy()
    for calibrated, label, color in (
        (plain, "CP on the distance", gb.plot.ORANGE),
        (local, "local CP", gb.plot.BLUE),
    ):
        evaluation = gb.evaluate(calibrated, test.x, test.y, regions={"noisy": inside})
        for ax, row in zip(axes, evaluation.rows[:2][::-1], strict=True):
            ax.plot(
                [float(level) for level in gb.conformal.LEVELS],
                row.coverages,
                "o-",
                ms=3,
                color=color,
                label=f"{label}, ACD {row.acd:.3f}",
            )
    for ax, title in zip(axes, ("in the noisy region", "everywhere"), strict=True):
        ax.plot([0, 1], [0, 1], ":", color=gb.plot.GRAY)
        ax.set(title=f"{bench.name}: {title}", xlabel="requested level", aspect="equal")
        ax.legend(frameon=False, fontsize="small")
    axes[0].set_ylabel("measured coverage")
    figure.savefig(IMAGES / f"local-{bench.name.lower()}.png", dpi=90)
    plt.close(figure)


HEAD = f"""\
# Bands that follow the noise

Written by `python benchmarks/local.py`: means over training seeds at 95 %, with the networks and sizes of
the paper, [arXiv:2509.13717](https://arxiv.org/abs/2509.13717), and {DRAWS} recalibrations per seed
(localized: 100). The settings are the same for all fields. No setting was chosen on *front*; *even* has
constant noise. All figures: [local.csv](data/local.csv)."""


def page() -> str:
    """The Markdown page of all fields."""
    cells = list(flat())
    names = list(dict.fromkeys(row["field"] for row in cells))
    by = {(row["field"], row["method"]): row for row in cells}
    laws = [row["law"] for row in cells if row["law"]]
    lines = [
        HEAD,
        "",
        "## Coverage where the noise is large, and width",
        "",
        "Cells show mean coverage in the region used by the paper's authors (lowest seed) / mean width "
        "everywhere. The last column shows the CPU seconds for learning the shape, averaged over the fields.",
        "",
        f"| method | {' | '.join(names)} | CPU s |",
        "|---" * (2 + len(names)) + "|",
    ]
    for method in (*METHODS, "localized"):
        its = [by.get((name, method)) for name in names]
        shown = [
            f"{row['coverage in mask']:.3f} ({row['lowest seed']:.2f}) / {row['width']:.3f}" if row else ""
            for row in its
        ]
        seconds = [row["CPU s"] for row in its if row and row["CPU s"] != ""]
        cost = f"{np.mean(seconds):.1f}" if seconds else ""
        lines.append(f"| {method} | {' | '.join(shown)} | {cost} |")
    infinite = [row["infinite"] for row in cells if row["infinite"] != ""]
    lines += [
        "",
        f"Localized bands are infinite for {min(infinite):.0%} to {max(infinite):.0%} of the points; widths "
        "are means of the finite ones.",
        "",
        "## The exact distribution",
        "",
        "The coverage everywhere, summed over the draws of each seed, is consistent with its exact "
        f"beta-binomial distribution in {laws.count('holds')} of {len(laws)} cells, at a false-alarm rate of "
        "0.1 % per field. ACD everywhere matches that of an exactly valid band to within "
        f"{max(abs(row['ACD'] - row['ACD floor']) for row in cells if row['ACD'] != ''):.4f}.",
    ]
    return "\n".join(lines) + "\n"


def flat() -> Iterator[dict[str, Any]]:
    """The means of each field and method over the seeds, as rows of a table."""
    for name, (problem, _, test, _) in FIELDS.items():
        mine = LEDGER.rows(field=name)
        floor = acd_floor(lab.paper.settings(problem).cal, test).mean
        for method in (*METHODS, "localized"):
            its = [row for row in mine if row["method"] == method]
            if its:
                yield {"field": name, "method": method, "seeds": len(its), **summary(its, floor, len(mine))}


def summary(its: list[dict[str, Any]], floor: float, size: int) -> dict[str, Any]:
    """The figures of one method on one field."""

    def mean(key: str, digits: int = 5) -> Any:
        return round(float(np.mean([row[key] for row in its])), digits) if key in its[0] else ""

    law = ""
    if "below" in its[0]:
        worst = min(min(row["below"], row["above"]) for row in its)
        law = "holds" if worst > 1e-3 / (2 * size) else f"broken (p = {worst:.1g})"
    return {
        "coverage in mask": mean("in_mask"),
        "lowest seed": min(row["in_mask"] for row in its),
        "highest seed": max(row["in_mask"] for row in its),
        "coverage in region": mean("in_region"),
        "coverage everywhere": mean("coverage"),
        "law": law,
        "width": mean("width"),
        "infinite": mean("infinite"),
        "ACD": mean("acd"),
        "ACD floor": round(floor, 5),
        "ACD in mask": mean("acd_mask"),
        "CPU s": mean("seconds", 2),
    }


if __name__ == "__main__":
    main()
