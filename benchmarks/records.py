"""How accurate a network is after so many CPU seconds, on all problems of the catalogue, beside engines.

    python benchmarks/records.py [--problems Burgers1D Wave1D] [--seeds 10 11] [--seconds 3 10]
        [--contenders guardband adam deepxde pina] [--engines PYTHON] [--out FILE] [--page]

One thread, CPU seconds of the training call alone, the equation and its conditions, no data and no noise. The
error is relative L2 of each output at 10 000 uniform points, a pressure up to its mean. Contenders:

- guardband: `pinn.mlp(problem)` by `pinn.Recipe.automatic(problem, seconds=...)`, and its verdict;
- readings: the same with 20 readings without noise, where the equation has several solutions;
- adam: what 0.1.0 did, Adam and then L-BFGS, each with half of the time;
- deepxde: DeepXDE on PyTorch, as the nearest example of its documentation does it (`peers/by_deepxde.py`);
- pina: PINA on three problems (`peers/by_pina.py`).

The last two run by `--engines`, a Python that has deepxde, pina-mathlab and guardband. Each run adds a line
to the file, and runs that are there are not repeated; `--page` only makes the page beside it anew.
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
"""Steps of Adam that tell what one of them costs."""


@dataclass(frozen=True)
class Contender:
    """Who runs for how long, from which seeds, and on which problems."""

    seconds: tuple[float, ...]
    seeds: tuple[int, ...] = (10, 11, 12, 13, 14)
    problems: tuple[str, ...] = tuple(PROBLEMS)
    peer: str | None = None
    """The module that runs it, in a process of its own."""


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
"""Problems that DeepXDE cannot state, and why."""

LITERATURE = {
    "AllenCahn1D": "PINN* .498, PirateNet 2.2e-5, jaxpi2 4.0e-6, SSBroyden* 1.9e-6",
    "Burgers1D": "PINN* 6.7e-4, PirateNet* 8.2e-5, jaxpi2 4.0e-5, SSBroyden* 8e-9, PINNacle 1.5e-2",
    "Cavity": "at other Re: PirateNet 4.2e-2 (3200), jaxpi2 4.3e-2 (5000)",
    "KortewegDeVries": "PirateNet 4.3e-4, jaxpi2 1.5e-4, SSBroyden* 2.2e-6",
    "KuramotoSivashinsky": "PirateNet .161, jaxpi2 4.3e-3",
    "Wave1D": "jaxpi2 1.2e-5, PINNacle 9.8e-2",
}
"""Relative L2 as published for equations of this name; the page says what stands behind the names."""

NOTES = """
Literature: jaxpi2 on one GPU, 50 000 to 100 000 steps; PirateNet by Adam; SSBroyden, a quasi-Newton method
with adaptive points and 2 011 weights; PINNacle, the best of the methods compared there. A star is a figure
that another paper quotes. They were made on other machines, with other budgets, and on other points.

Runs by guardband that ended before their time were made again when a run that stalls came to be given more
points; those in windows of time when one network came to try all times first; and those of Advection1D,
AllenCahn1D, Cylinder, KortewegDeVries, Kovasznay, KuramotoSivashinsky, TaylorGreen2D and VibratingBeam when
their sizes and scales changed. The others are of 0.2.0 and of the versions before it. The verdict on a run
is by the rule of that version.

DeepXDE runs on PyTorch, in float32 unless said, Adam at 1e-3 for half of the time and L-BFGS for the rest.
Networks, points, weights and transforms follow the examples of its documentation, and rings are closed by
its networks, as by guardband's. Fewer points than the example's were tried on seed 10 for 15 s. On
TaylorGreen2D (against 5 000) they were far better, on Kovasznay and AllenCahn1D a little, which may be
chance, and these have them; on Burgers1D they were worse, and it has the example's. Cavity and Cylinder
follow Kovasznay and were not tried. Float64, tried in the same way, is there where it was better: Beam and
Poisson1D. PINA trains networks of 3 x 32 in the same two halves. The examples:
"""


@dataclass(frozen=True)
class Run:
    """One training."""

    problem: str
    contender: str
    seconds: float
    seed: int

    @property
    def key(self) -> dict[str, Any]:
        """What it is called in the file."""
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
        files.write_text(LEDGER.page, page())
    files.write_text(LEDGER.page, page())
    sys.exit(1 if failed else 0)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--seeds", nargs="+", type=int, help="instead of each contender's own")
    parser.add_argument("--seconds", nargs="+", type=float, help="instead of each contender's own")
    parser.add_argument("--engines", default=sys.executable, help="a Python that has deepxde and pina")
    parser.add_argument("--out", type=Path, default=LEDGER.path, help="the file of results")
    parser.add_argument("--page", action="store_true", help="only make the page anew")
    return parser.parse_args()


def planned(options: argparse.Namespace) -> Iterator[Run]:
    """All runs that are asked for, one seed after the other."""
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
    """One training, its error in each output and what it took."""
    module = CONTENDERS[run.contender].peer
    found = ours(run) if module is None else by_peer(run, module, engines)
    return run.key | found | {"guardband": gb.__version__}


def ours(run: Run) -> dict[str, Any]:
    """By this library."""
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
    """A fit without a word; of one that ran away the last good network."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return pinn.fit(problem, net, progress=False, **asked)
        except pinn.TrainingDiverged as error:
            return error.fitted


@cache
def warm_up() -> None:
    """What is imported by the first step of all is no part of any training."""
    problem = PROBLEMS["Poisson1D"]
    for recipe in (pinn.Recipe(steps=2, finish=2), pinn.Recipe.by_newton(2)):
        trained(problem, pinn.mlp(problem), recipe=recipe)


def automatic(problem: pinn.Problem, run: Run) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The network and the recipe that the library chooses itself."""
    data = problem.observe(20, seed=1000 + run.seed) if run.contender == "readings" else None
    recipe = pinn.Recipe.automatic(problem, data=data is not None, seconds=run.seconds)
    return pinn.mlp(problem, seed=run.seed), {"training_data": data, "recipe": recipe}


def as_before(problem: pinn.Problem, run: Run) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The network, the scales and the steps of 0.1.0, with as many steps as half of the time allows."""
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
    """By another engine, in its own process, which measures itself."""
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
        "# Accuracy after so many CPU seconds",
        "",
        "Made by `python benchmarks/records.py`: one thread, CPU seconds of the training call, the equation",
        "and its conditions alone. Relative L2 of each output at 10 000 uniform points, a pressure up to its",
        "mean: the median over the seeds, and the worst of them in brackets. `adam` is what 0.1.0 did, Adam",
        "and L-BFGS on its networks and with its scales.",
        "",
        "## Guardband",
        "",
        *errors_table(rows, [("guardband", seconds) for seconds in CONTENDERS["guardband"].seconds]),
        *with_readings(rows),
    ]
    for seconds in CONTENDERS["deepxde"].seconds:
        names = [name for name in CONTENDERS if name != "readings"]
        lines += ["", f"## Contenders after {seconds:g} s", ""]
        lines += errors_table(rows, [(name, seconds) for name in names], compare=True)
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
    """The errors of some contenders on each output; `compare` adds the ratio of DeepXDE's to guardband's."""
    yield from head(
        [
            *(f"{name} {seconds:g} s" for name, seconds in budgets),
            *(["deepxde / guardband"] if compare else []),
        ]
    )
    for problem in PROBLEMS:
        mine = [row for row in rows if row["problem"] == problem]
        outputs = PROBLEMS[problem].names.outputs
        for output in outputs:
            found = {budget: errors_of(mine, *budget, output) for budget in budgets}
            by_name = {name: errors for (name, _), errors in found.items()}
            cells = [said(problem, name, found[name, seconds]) for name, seconds in budgets]
            cells += [ratio(by_name["deepxde"], by_name["guardband"])] if compare else []
            yield row_of([problem if len(outputs) == 1 else f"{problem}, {output}", *cells])


def head(titles: list[str]) -> list[str]:
    """The first two lines of a table over problems."""
    return [row_of(["problem", *titles]), "|" + "---|" * (1 + len(titles))]


def row_of(cells: list[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def with_readings(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The errors with some readings, on the few problems that need them."""
    contender = CONTENDERS["readings"]
    for problem in contender.problems:
        mine = [row for row in rows if row["problem"] == problem]
        for seconds in contender.seconds:
            found = errors_of(mine, "readings", seconds, PROBLEMS[problem].names.outputs[0])
            yield ""
            yield f"With 20 readings, {problem} after {seconds:g} s: {said(problem, 'readings', found)}."


def literature() -> Iterator[str]:
    """Published figures; the notes say what they stand for."""
    yield from ("", "## Literature", "", *head(["relative L2"]))
    yield from (row_of([problem, published]) for problem, published in LITERATURE.items())


def errors_of(rows: list[dict[str, Any]], contender: str, seconds: float, output: str) -> list[float]:
    """The errors of all seeds."""
    mine = [row for row in rows if row["contender"] == contender and row["seconds"] == seconds]
    return [row["error"][output] for row in mine]


def said(problem: str, contender: str, found: list[float]) -> str:
    """The median, and the worst if there are several."""
    if contender == "deepxde" and problem in CANNOT:
        return CANNOT[problem]
    if not found:
        return ""
    middle = f"{np.median(found):.1e}"
    return middle if len(found) == 1 else f"{middle} ({max(found):.1e})"


def ratio(above: list[float], below: list[float]) -> str:
    """How many times the one median is the other."""
    return f"{np.median(above) / np.median(below):.2g}" if above and below else ""


def seeds(rows: list[dict[str, Any]], budgets: list[Budget]) -> Iterator[str]:
    """How many seeds stand behind the figures of each column, and how long its runs took at most."""
    yield from ("", "Seeds behind a figure, and their longest run, which finishes its last step:", "")
    for contender, seconds in budgets:
        mine = [row for row in rows if row["contender"] == contender and row["seconds"] == seconds]
        if mine:
            found = Counter(row["problem"] for row in mine).values()
            many = f"{min(found)} to {max(found)}" if min(found) < max(found) else f"{max(found)}"
            problems = f"{len(found)} problem{'s' if len(found) > 1 else ''}"
            longest = max(row["cpu_seconds"] for row in mine)
            yield f"- {contender} {seconds:g} s: {many}, on {problems}; at most {longest:.1f} CPU s"


def verdicts(rows: list[dict[str, Any]]) -> Iterator[str]:
    """What the verdict said of runs that were wrong, and of runs that were right."""
    judged = [(max(row["error"].values()), row["verdict"] == "converged") for row in rows if "verdict" in row]
    wrong, right = ([ok for e, ok in judged if e > 0.1], [ok for e, ok in judged if e < 0.01])
    yield ""
    yield f"Of {len(wrong)} runs by guardband with an error above 10 % the verdict called {sum(wrong)}"
    yield f"converged, and of {len(right)} below 1 % it called {len(right) - sum(right)} something else."


def examples(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Which example of DeepXDE's each of its runs follows."""
    yield ""
    followed = {row["problem"]: row["example"] for row in rows if "example" in row}
    for problem in PROBLEMS:
        if problem in followed:
            yield f"- {problem}: {followed[problem]}"


def limits() -> Iterator[str]:
    """Below which error a figure says nothing: that of the reference."""
    yield from ("", "Solutions that were computed are themselves off, by a relative L2 of", "")
    for name, problem in PROBLEMS.items():
        reference = getattr(problem, "reference", None)
        if reference is not None:
            yield f"- {name}: {', '.join(f'{o} {e:.0e}' for o, e in reference.error.items())}"


def versions(rows: list[dict[str, Any]]) -> Iterator[str]:
    """What the runs were made with."""
    used = {f"{name} {row[name]}" for row in rows for name in ("guardband", "torch")}
    used |= {row["engine"] for row in rows if "engine" in row}
    yield from ("", f"Versions: {', '.join(sorted(used)) or 'none yet'}.")


if __name__ == "__main__":
    main()
