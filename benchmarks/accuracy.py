"""Accuracy of a PINN and its CPU time: our default compared with the paper's setting and other engines.

    python benchmarks/accuracy.py [--only helmholtz] [--recipe third|automatic|ours|paper|deepxde|pina]
        [--seeds 10-19] [--page]

Everything runs on one core. Each run appends a line to `results/data/training.jsonl`, finished runs are not
repeated, and the table `results/training.md` summarizes all of them. Settings were chosen on seeds 0 to 3 and
are reported on seeds 10 to 19, with fresh data. The error is relative L2 with respect to the exact solution
at 10 000 uniform points.
"""

import argparse
import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import time

import numpy as np
import torch
from ledger import Ledger

import guardband as gb
from guardband import lab, pinn
from guardband.base import files
from guardband.pinn.problems import AllenCahn2D, DampedOscillator, Helmholtz3D, Poisson1D, Problem

torch.set_num_threads(1)
LEDGER = Ledger("training")
PROBLEMS: dict[str, Problem] = {
    "poisson": Poisson1D(),
    "allen-cahn": AllenCahn2D(),
    "oscillator": DampedOscillator(),
    "helmholtz": Helmholtz3D(),
}
BOUNDS = {"poisson": (3.0, 10), "allen-cahn": (1.4, 15), "oscillator": (1.5, 30), "helmholtz": (1.6, 30)}


ENGINES = ("deepxde", "pina")
RECIPES = ("third", "automatic", "ours", "paper", *ENGINES)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=PROBLEMS, help="one problem")
    parser.add_argument("--recipe", choices=RECIPES, default="automatic")
    parser.add_argument("--seeds", default="10-19", help="first-last")
    parser.add_argument("--page", action="store_true", help="only rewrite the page from the stored rows")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split("-"))
    for name in [options.only] if options.only else PROBLEMS:
        for seed in [] if options.page else range(first, last + 1):
            if not LEDGER.rows(problem=name, recipe=options.recipe, seed=seed):
                LEDGER.add([(race if options.recipe in ENGINES else run)(name, options.recipe, seed)])
    files.write_text(LEDGER.page, table())


def run(name: str, recipe: str, seed: int) -> dict[str, object]:
    """One training run and its error."""
    problem = PROBLEMS[name]
    settings = lab.paper.settings(problem)
    data = problem.observe(settings.train, noise=settings.noise, seed=1000 + seed)
    net = pinn.mlp(problem.domain.d, settings.widths, seed=seed)
    likelihood, steps = pinn.Likelihood(data=settings.noise), pinn.Recipe()
    if recipe == "paper":
        likelihood, steps = lab.paper.likelihood(problem), lab.paper.recipe(problem)
    elif recipe != "ours":
        net = pinn.mlp(problem, seed=seed)
        budget = seconds_of(name) / 3 if recipe == "third" else None
        steps = pinn.Recipe.automatic(problem, data=True, seconds=budget)
    start = time.process_time()
    fitted = pinn.fit(problem, net, data, likelihood=likelihood, recipe=steps, seed=seed, progress=False)
    seconds = time.process_time() - start
    x = problem.domain.uniform(10_000, torch.Generator().manual_seed(seed))
    return {
        "problem": name,
        "recipe": recipe,
        "seed": seed,
        "error": gb.metrics.relative_l2(fitted(x), problem.solution(x)),
        "cpu_seconds": round(seconds, 1),
        "steps": int(fitted.history[-1]["step"]),
        "torch": torch.__version__,
        "guardband": gb.__version__,
    }


def seconds_of(name: str) -> float:
    """Median CPU seconds of the recipe of version 0.1."""
    taken = of(name, "ours", "cpu_seconds")
    if not len(taken):
        raise SystemExit(
            f"`--recipe third` needs the times of `ours`. Run --recipe ours --only {name} first."
        )
    return float(np.median(taken))


def race(name: str, engine_name: str, seed: int) -> dict[str, object]:
    """Another engine until it reaches our required accuracy: Adam at 1e-3, then L-BFGS if it has it.

    Adam takes at most 20 000 steps, and the error is evaluated every 500, outside the timing. DeepXDE
    switches to L-BFGS after 5000, as in its documentation. The weights of the loss are the paper's.
    """
    import training

    work = training.Work(PROBLEMS[name], seed=1000 + seed)
    torch.manual_seed(seed)
    engine: training.Engine = getattr(training, engine_name)(work)
    x = work.problem.domain.uniform(10_000, torch.Generator().manual_seed(seed))
    truth = work.problem.solution(x)
    best, seconds, steps = np.inf, 0.0, 0
    while steps < 20_000 and best > BOUNDS[name][0] / 100:
        start = time.process_time()
        if steps >= 5000 and engine.finish is not None:
            engine.finish(500)
        else:
            for _ in range(500):
                engine.step()
        seconds += time.process_time() - start
        steps += 500
        best = min(best, gb.metrics.relative_l2(engine.predict(x), truth))
    return {
        "problem": name,
        "recipe": engine_name,
        "seed": seed,
        "error": best,
        "cpu_seconds": round(seconds, 1),
        "steps": steps,
        "torch": torch.__version__,
        "guardband": gb.__version__,
    }


def table() -> str:
    """The Markdown page."""
    lines = [
        "# Time to accuracy",
        "",
        "Written by `python benchmarks/accuracy.py`: CPU seconds on one core, with the networks and sizes of "
        "[arXiv:2509.13717](https://arxiv.org/abs/2509.13717). Entries are medians and ranges over training "
        "seeds, each with fresh data; the error is relative L2 in percent. `automatic` is the default of "
        "`pinn.fit` on the network of `pinn.mlp(problem)`, `third` is the same in a third of the time of "
        "`ours`, and `ours` is the recipe of version 0.1, `pinn.Recipe()` (Adam and L-BFGS). `ratio` is the "
        "ratio of median errors to `ours` on the same data.",
        "",
        "| problem | setting | seeds | error, % | range | ratio | CPU s | range | bound |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in PROBLEMS:
        errors = {recipe: of(name, recipe, "error") for recipe in RECIPES}
        for recipe, found in errors.items():
            if len(found):
                seconds = of(name, recipe, "cpu_seconds")
                ratio = np.median(found) / np.median(errors["ours"]) if len(errors["ours"]) else np.nan
                cells = [name, recipe, len(found), f"{np.median(found):.2g}"]
                cells += [f"{found.min():.2g} to {found.max():.2g}", f"{ratio:.2g}"]
                cells += [f"{np.median(seconds):.3g}", f"{seconds.min():.3g} to {seconds.max():.3g}"]
                cells += [bound(name, recipe, np.median(found), np.median(seconds), ratio)]
                lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def of(name: str, recipe: str, column: str) -> np.ndarray:
    """One figure of each run, errors in percent."""
    found = [float(row[column]) for row in LEDGER.rows(problem=name, recipe=recipe)]
    return np.array(found) * (100 if column == "error" else 1)


def bound(name: str, recipe: str, error: float, seconds: float, ratio: float) -> str:
    """The required bound, and whether it holds."""
    most, cpu = BOUNDS[name]
    asked = {
        "third": ("ratio at most 1.1", ratio <= 1.1),
        "ours": (f"{most} % in {cpu} s", error <= most and seconds <= cpu),
    }
    if recipe in asked:
        said, holds = asked[recipe]
        return f"{said}: {'holds' if holds else 'does not hold'}"
    return f"time to {most} %, or 20 000 steps" if recipe in ENGINES else ""


if __name__ == "__main__":
    main()
