"""Accuracy of a network after a fixed CPU time, on all problems of the catalogue, compared with engines.

    python benchmarks/records.py [--problems Burgers1D Wave1D] [--seeds 10 11] [--seconds 3 10]
        [--contenders guardband adam deepxde pina] [--engines PYTHON] [--out FILE] [--page]

Networks are trained on one thread on the equation and its conditions, without data or noise; times are CPU
seconds of the training call. The error is relative L2 of each output at 10 000 uniform points; pressures are
compared up to their mean. Contenders:

- guardband: `pinn.mlp(problem)` by `pinn.Recipe.automatic(problem, seconds=...)`, and its verdict;
- readings: the same with 20 noise-free readings, for an equation with several solutions;
- adam: the recipe of version 0.1.0, Adam and then L-BFGS, each for half of the time;
- deepxde: DeepXDE on PyTorch, following the nearest example of its documentation (`peers/by_deepxde.py`);
- pina: PINA on three problems (`peers/by_pina.py`).

The last two run in `--engines`, a Python with deepxde, pina-mathlab and guardband. Each run appends a line to
the file, and finished runs are not repeated. `--page` only rewrites the page and table from the stored rows.
"""

import argparse
import json
import os

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from catalogue import scales
from ledger import Ledger
from peers.scoring import PROBLEMS, errors

import guardband as gb
from guardband import pinn
from guardband.base import files

torch.set_num_threads(1)
HERE = Path(__file__).parent
LEDGER = Ledger("records")
PILOT = 50
"""Steps of Adam that are timed to estimate the cost of one."""


@dataclass(frozen=True)
class Contender:
    """The budgets, seeds and problems of one contender."""

    seconds: tuple[float, ...]
    seeds: tuple[int, ...] = (10, 11, 12, 13, 14)
    problems: tuple[str, ...] = tuple(PROBLEMS)
    peer: str | None = None
    """The module that runs it in a separate process."""


CONTENDERS = {
    "guardband": Contender((3, 10, 30, 100)),
    "readings": Contender((10,), tuple(range(10, 30)), ("AllenCahn2D",)),
    "adam": Contender((30, 100)),
    "deepxde": Contender((30, 100), peer="peers.by_deepxde"),
    "pina": Contender(
        (30, 100), (10, 11, 12), ("AllenCahn2D", "Burgers1D", "Poisson1D"), peer="peers.by_pina"
    ),
}

CANNOT: dict[str, str] = {}
"""Problems that DeepXDE cannot express, and the reason."""

LITERATURE = {
    "AllenCahn1D": "PINN* .498, PirateNet 2.2e-5, jaxpi2 4.0e-6, SSBroyden* 1.9e-6",
    "Burgers1D": "PINN* 6.7e-4, PirateNet* 8.2e-5, jaxpi2 4.0e-5, SSBroyden* 8e-9, PINNacle 1.5e-2",
    "Cavity": "at other Re: PirateNet 4.2e-2 (3200), jaxpi2 4.3e-2 (5000)",
    "KortewegDeVries": "PirateNet 4.3e-4, jaxpi2 1.5e-4, SSBroyden* 2.2e-6",
    "KuramotoSivashinsky": "PirateNet .161, jaxpi2 4.3e-3",
    "Wave1D": "jaxpi2 1.2e-5, PINNacle 9.8e-2",
}
"""Published relative L2 errors for equations of this name; the page explains the methods."""

NOTES = """
The figures are of jaxpi2 (one GPU, 50 000 to 100 000 steps), PirateNet with Adam, SSBroyden (a quasi-Newton
method with adaptive points, 2 011 weights), and the best of the methods compared in PINNacle. A star marks a
figure that another paper quotes. Machines, budgets and test points differ from those used here.

Some guardband runs were repeated after changes to the code: those that ended early, after stalled runs
received more points; those in time windows, after one network was tried on all times first; and those of
Advection1D, AllenCahn1D, Cylinder, KortewegDeVries, Kovasznay, KuramotoSivashinsky, TaylorGreen2D and
VibratingBeam, after their sizes and scales changed. The other runs used version 0.2.0 and its development
versions. Each verdict uses the rule of the version that ran.

DeepXDE runs on PyTorch, in float32 unless noted, with Adam at 1e-3 for half of the time and L-BFGS for the
rest. Networks, points, weights and transforms follow the examples of its documentation, and rings are closed
as in guardband's networks. Fewer points than in the example were tried on seed 10 for 15 s and kept where
they helped: TaylorGreen2D (instead of 5 000), Kovasznay and AllenCahn1D; Cavity and Cylinder follow Kovasznay
untested. Float64 was tried in the same way and kept for Beam and Poisson1D. PINA trains networks of 3 x 32 in
the same two halves. The examples:
"""


@dataclass(frozen=True)
class Run:
    """One training run."""

    problem: str
    contender: str
    seconds: float
    seed: int

    @property
    def key(self) -> dict[str, Any]:
        """The fields that identify it in the file."""
        return vars(self)


def main() -> None:
    options = arguments()
    LEDGER.move(options.out)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    failed = []
    for run in [] if options.page else planned(options):
        if LEDGER.rows(**run.key):
            continue
        try:
            LEDGER.add([measured(run, options.engines)])
        except subprocess.CalledProcessError as error:
            failed.append(run)
            print(f"{run} failed:\n{error.stderr[-2000:]}", file=sys.stderr)
        write()
    write()
    sys.exit(1 if failed else 0)


def write() -> None:
    """Write the page and the table of every output."""
    files.write_text(LEDGER.page, page())
    LEDGER.write_table(flat(LEDGER.rows()))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--seeds", nargs="+", type=int, help="instead of each contender's own")
    parser.add_argument("--seconds", nargs="+", type=float, help="instead of each contender's own")
    parser.add_argument("--engines", default=sys.executable, help="a Python that has deepxde and pina")
    parser.add_argument("--out", type=Path, default=LEDGER.path, help="the file of results")
    parser.add_argument("--page", action="store_true", help="only rewrite the page from the stored rows")
    return parser.parse_args()


def planned(options: argparse.Namespace) -> Iterator[Run]:
    """All selected runs, seed by seed."""
    every = {name: CONTENDERS[name] for name in options.contenders}
    seeds = options.seeds or sorted({seed for contender in every.values() for seed in contender.seeds})
    for seed in seeds:
        for problem in options.problems:
            for name, contender in every.items():
                if problem not in contender.problems or (name == "deepxde" and problem in CANNOT):
                    continue
                if options.seeds or seed in contender.seeds:
                    for seconds in options.seconds or contender.seconds:
                        yield Run(problem, name, float(seconds), seed)


def measured(run: Run, engines: str) -> dict[str, Any]:
    """One training run: its error in each output, and its cost."""
    module = CONTENDERS[run.contender].peer
    found = ours(run) if module is None else by_peer(run, module, engines)
    return run.key | found | {"guardband": gb.__version__}


def ours(run: Run) -> dict[str, Any]:
    """A run of this library."""
    problem = PROBLEMS[run.problem]
    warm_up()
    net, asked = as_before(problem, run) if run.contender == "adam" else automatic(problem, run)
    start = time.process_time()
    fitted = trained(problem, net, seed=run.seed, **asked)
    seconds = time.process_time() - start
    said = {} if run.contender == "adam" else {"verdict": pinn.verdict(problem, fitted).word}
    return {
        "error": errors(problem, lambda x: torch.as_tensor(fitted(x)), run.seed),
        "cpu_seconds": round(seconds, 2),
        "iterations": int(fitted.history[-1]["step"]) if fitted.history else 0,
        **said,
        "torch": torch.__version__,
    }


def trained(problem: pinn.Problem, net: torch.nn.Module, **asked: Any) -> pinn.Fitted:
    """A silent fit; if training diverges, the last good network."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return pinn.fit(problem, net, progress=False, **asked)
        except pinn.TrainingDiverged as error:
            return error.fitted


@cache
def warm_up() -> None:
    """Trigger the imports of the first step, so that they are not timed."""
    problem = PROBLEMS["Poisson1D"]
    for recipe in (pinn.Recipe(steps=2, finish=2), pinn.Recipe.by_newton(2)):
        trained(problem, pinn.mlp(problem), recipe=recipe)


def automatic(problem: pinn.Problem, run: Run) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The library's default network and recipe."""
    data = problem.observe(20, seed=1000 + run.seed) if run.contender == "readings" else None
    recipe = pinn.Recipe.automatic(problem, data=data is not None, seconds=run.seconds)
    return pinn.mlp(problem, seed=run.seed), {"training_data": data, "recipe": recipe}


def as_before(problem: pinn.Problem, run: Run) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The network, scales and steps of version 0.1.0, with as many steps as fit into half of the time."""
    d, m = problem.domain.d, len(problem.names.outputs)
    net = pinn.mlp(problem, [min(64, max(32, 16 * (d + m)))] * 3, seed=run.seed)
    asked = {"likelihood": scales(problem, 1.0, 0.05)}
    steps = max(1, int(run.seconds / 2 / adam_step(problem, net, asked)))
    recipe = pinn.Recipe(steps=steps, finish=10**7, min_improvement=0.0, seconds=run.seconds)
    return net, asked | {"recipe": recipe}


def adam_step(problem: pinn.Problem, net: torch.nn.Module, asked: dict[str, Any]) -> float:
    """CPU seconds of one step of Adam."""
    times = []
    for steps in (1, 1 + PILOT):
        start = time.process_time()
        trained(problem, net, recipe=pinn.Recipe(steps=steps, finish=0), **asked)
        times.append(time.process_time() - start)
    return max(1e-4, (times[1] - times[0]) / PILOT)


def by_peer(run: Run, module: str, engines: str) -> dict[str, Any]:
    """A run of another engine in a separate process, which measures itself."""
    paths = [str(HERE), str(HERE.parent / "src")]
    done = subprocess.run(
        [engines, "-m", module, run.problem, "--seed", str(run.seed), "--seconds", str(run.seconds)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


Budget = tuple[str, float]
"""A contender and its CPU seconds."""


def page() -> str:
    """The Markdown page."""
    rows = LEDGER.rows()
    lines = [
        "# Accuracy at a fixed CPU time",
        "",
        "Written by `python benchmarks/records.py`: one thread, training on the equation and its conditions",
        "alone. Times are CPU seconds of the training call. Errors are relative L2 at 10 000 uniform points,",
        "for the output with the largest error; pressures are compared up to their mean. Entries are medians",
        "over the seeds, with the worst seed in parentheses. `adam` is the recipe of version 0.1.0, Adam and",
        "L-BFGS, with the networks and scales of that version. Every output and budget:",
        "[records.csv](data/records.csv).",
        "",
        "## Guardband",
        "",
        *errors_table(rows, [("guardband", seconds) for seconds in CONTENDERS["guardband"].seconds]),
        *with_readings(rows),
    ]
    names = [name for name in CONTENDERS if name not in ("readings", "pina")]
    *earlier, longest = CONTENDERS["deepxde"].seconds
    lines += ["", f"## Comparison after {longest:g} s", ""]
    lines += errors_table(rows, [(name, longest) for name in names], compare=True)
    lines += ["", *by_pina(rows, longest), *(line for seconds in earlier for line in ratios(rows, seconds))]
    lines += [
        *literature(),
        *seeds(rows, [(name, seconds) for name in CONTENDERS for seconds in CONTENDERS[name].seconds]),
        *verdicts(rows),
        *NOTES.splitlines(),
        *examples(rows),
        *limits(),
        *versions(rows),
    ]
    return "\n".join(lines) + "\n"


def errors_table(rows: list[dict[str, Any]], budgets: list[Budget], compare: bool = False) -> Iterator[str]:
    """The errors of some contenders on each problem; `compare` adds the ratio of DeepXDE to guardband."""
    yield from head(
        [
            *(f"{name} {seconds:g} s" for name, seconds in budgets),
            *(["deepxde / guardband"] if compare else []),
        ]
    )
    for problem in PROBLEMS:
        found = {name: errors_of(rows, problem, name, seconds) for name, seconds in budgets}
        cells = [shown(problem, name, errors_of(rows, problem, name, seconds)) for name, seconds in budgets]
        cells += [ratio(found["deepxde"], found["guardband"])] if compare else []
        yield row_of([problem, *cells])


def head(titles: list[str]) -> list[str]:
    """The first two lines of a table over problems."""
    return [row_of(["problem", *titles]), "|" + "---|" * (1 + len(titles))]


def row_of(cells: list[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def with_readings(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The errors with readings, on the problems that need them."""
    contender = CONTENDERS["readings"]
    for problem in contender.problems:
        for seconds in contender.seconds:
            found = errors_of(rows, problem, "readings", seconds)
            yield ""
            yield f"With 20 readings, {problem} after {seconds:g} s: {shown(problem, 'readings', found)}."


def by_pina(rows: list[dict[str, Any]], seconds: float) -> Iterator[str]:
    """The errors of PINA on the problems it was run on."""
    contender = CONTENDERS["pina"]
    found = [
        f"{problem} {shown(problem, 'pina', errors_of(rows, problem, 'pina', seconds))}"
        for problem in contender.problems
    ]
    yield f"PINA after {seconds:g} s: {', '.join(found)}."


def ratios(rows: list[dict[str, Any]], seconds: float) -> Iterator[str]:
    """The range of the ratios of median errors at another budget."""
    each = {
        problem: float(np.median(errors_of(rows, problem, "deepxde", seconds)))
        / float(np.median(errors_of(rows, problem, "guardband", seconds)))
        for problem in PROBLEMS
        if errors_of(rows, problem, "deepxde", seconds)
    }
    low, high = min(each, key=lambda name: each[name]), max(each, key=lambda name: each[name])
    yield (
        f"After {seconds:g} s the ratio of DeepXDE's error to guardband's is {each[low]:.2g} ({low}) to "
        f"{each[high]:.2g} ({high}), median {np.median(list(each.values())):.2g}."
    )


def flat(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The median and worst error of every output, contender and budget."""
    for name, contender in CONTENDERS.items():
        for seconds in contender.seconds:
            for problem in contender.problems:
                mine = [r["error"] for r in chosen(rows, problem, name, seconds)]
                for output in PROBLEMS[problem].names.outputs if mine else ():
                    values = [errors[output] for errors in mine]
                    yield {
                        "problem": problem,
                        "output": output,
                        "contender": name,
                        "seconds": seconds,
                        "seeds": len(values),
                        "median": float(f"{np.median(values):.4g}"),
                        "worst": max(values),
                    }


def chosen(rows: list[dict[str, Any]], problem: str, contender: str, seconds: float) -> list[dict[str, Any]]:
    """The runs of one contender on one problem with one budget."""
    key = (problem, contender, seconds)
    return [row for row in rows if (row["problem"], row["contender"], row["seconds"]) == key]


def literature() -> Iterator[str]:
    """Published figures; the notes explain the methods."""
    yield from ("", "## Literature", "", *head(["relative L2"]))
    yield from (row_of([problem, published]) for problem, published in LITERATURE.items())


def errors_of(rows: list[dict[str, Any]], problem: str, contender: str, seconds: float) -> list[float]:
    """The largest error over the outputs, for each seed."""
    return [max(row["error"].values()) for row in chosen(rows, problem, contender, seconds)]


def shown(problem: str, contender: str, found: list[float]) -> str:
    """The median, and the worst if there are several seeds."""
    if contender == "deepxde" and problem in CANNOT:
        return CANNOT[problem]
    if not found:
        return ""
    middle = f"{np.median(found):.1e}"
    return middle if len(found) == 1 else f"{middle} ({max(found):.1e})"


def ratio(above: list[float], below: list[float]) -> str:
    """The ratio of two medians."""
    return f"{np.median(above) / np.median(below):.2g}" if above and below else ""


def seeds(rows: list[dict[str, Any]], budgets: list[Budget]) -> Iterator[str]:
    """Seeds and longest run of each contender and budget."""
    yield from ("", "Seeds per figure, and the longest run (a run finishes its last step):", "")
    for contender, seconds in budgets:
        mine = [row for row in rows if row["contender"] == contender and row["seconds"] == seconds]
        if mine:
            found = Counter(row["problem"] for row in mine).values()
            many = f"{min(found)} to {max(found)}" if min(found) < max(found) else f"{max(found)}"
            problems = f"{len(found)} problem{'s' if len(found) > 1 else ''}"
            longest = max(row["cpu_seconds"] for row in mine)
            yield f"- {contender} {seconds:g} s: {many}, on {problems}; at most {longest:.1f} CPU s"


def verdicts(rows: list[dict[str, Any]]) -> Iterator[str]:
    """How often the verdict was wrong on inaccurate and on accurate runs."""
    judged = [(max(row["error"].values()), row["verdict"] == "converged") for row in rows if "verdict" in row]
    wrong, right = ([ok for e, ok in judged if e > 0.1], [ok for e, ok in judged if e < 0.01])
    yield ""
    yield (
        f"The verdict called {sum(wrong)} of {len(wrong)} guardband runs with an error above 10 % converged, "
        f"and {len(right) - sum(right)} of {len(right)} with an error below 1 % not converged or suspicious."
    )


def examples(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The example of DeepXDE that each of its runs follows."""
    yield ""
    followed: dict[str, list[str]] = {}
    for problem in PROBLEMS:
        for example in {row["example"] for row in rows if row["problem"] == problem and "example" in row}:
            followed.setdefault(example.partition(":")[0], []).append(problem)
    for example, problems in followed.items():
        yield f"- {example}: {', '.join(problems)}"


def limits() -> Iterator[str]:
    """The errors of computed reference solutions, below which no error can be measured."""
    found = [
        f"{name} {max(reference.error.values()):.0e}"
        for name, problem in PROBLEMS.items()
        if (reference := getattr(problem, "reference", None)) is not None
    ]
    yield ""
    yield f"Relative L2 errors of computed reference solutions, largest of the outputs: {', '.join(found)}."


def versions(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The versions of the packages that ran."""
    used = {f"{name} {row[name]}" for row in rows for name in ("guardband", "torch")}
    used |= {row["engine"] for row in rows if "engine" in row}
    yield from ("", f"Versions: {', '.join(sorted(used)) or 'none yet'}.")


if __name__ == "__main__":
    main()
