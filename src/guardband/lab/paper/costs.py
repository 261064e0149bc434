"""The cost of the paper's study, per training run, chain and curve and in total, and the authors' cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from guardband.lab.paper.experiments import EXPERIMENTS
from guardband.lab.studies.base import Result

AUTHORS = {
    "allen-cahn": (179, "4500 steps"),
    "A": (179, "4500 steps"),
    "B": (179, "4500 steps"),
    "C": (179, "4500 steps"),
    "helmholtz": (3400, "5000 steps at 650 to 713 ms"),
    "oscillator": (310, "20 000 steps at 14 to 17 ms"),
    "VI": (1410, "30 000 steps at 34 to 60 ms"),
    "HMC": (2800, "6000 iterations"),
    "curve": (19 * 77, "nineteen quantile networks"),
}
"""CPU seconds of the authors' code on one core of a server, approximate: training runs and later steps."""

PRESETS = ("paper", "ours")
NETWORK, CURVE = "constant width", "distance, pinball network, local"


class Line(NamedTuple):
    """A part of the cost: the cells that have it, which of their seconds count, and the authors' cost."""

    name: str
    experiment: str
    method: str
    part: str
    authors: str


LINES = (
    *(Line(f"training, {name}", name, NETWORK, "training", name) for name in EXPERIMENTS),
    Line("VI, allen-cahn", "allen-cahn", "VI, scaled", "predictor", "VI"),
    Line("HMC, allen-cahn", "allen-cahn", "HMC, scaled", "predictor", "HMC"),
    Line("coverage curve, paper's shape", "oscillator", CURVE, "evaluation", "curve"),
    Line("coverage curve, our shape", "oscillator", "constant width, local", "evaluation", "curve"),
)


def costs(results: Sequence[Result]) -> Iterator[str]:
    """Two tables: the cost of each part with the error of its network, and the total cost."""
    yield (
        "Median CPU seconds on two busy cores; the authors' code ran on one core of a server. A curve "
        "includes "
        "its 1000 recalibrations. Errors are medians over the seeds common to both presets, so the networks "
        "saw the same data."
    )
    yield ""
    yield (
        "| part | authors' code | `paper` | `ours` | authors' / `paper` | `paper` / `ours` | "
        "error, `paper` | error, `ours` |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for line in LINES:
        yield _row(line, results)
    yield ""
    yield "| CPU hours | `paper` | authors' code for the same | `ours` | seeds, `paper` | seeds, `ours` |"
    yield "|---|---|---|---|---|---|"
    yield from _totals(results)


def _row(line: Line, results: Sequence[Result]) -> str:
    theirs, note = AUTHORS.get(line.authors, (math.nan, ""))
    paper, ours = (_by_seed(results, f"{line.experiment}, {preset}", line.method) for preset in PRESETS)
    t_paper, t_ours = (_median([r["seconds"][line.part] for r in its.values()]) for its in (paper, ours))
    errors = [
        _median([its[seed]["found"]["l2"] for seed in paper.keys() & ours.keys()]) for its in (paper, ours)
    ]
    columns = (
        line.name,
        f"{theirs} ({note})" if note else "-",
        _formatted(t_paper, ".0f"),
        _formatted(t_ours, ".0f"),
        _formatted(theirs / t_paper, ".1f"),
        _formatted(t_paper / t_ours, ".1f"),
        *(_formatted(error, ".2%") for error in errors),
    )
    return f"| {' | '.join(columns)} |"


def _totals(results: Sequence[Result]) -> Iterator[str]:
    totals = np.zeros(3)
    for name in EXPERIMENTS:
        paper, ours = ([r for r in results if r["cell"]["experiment"] == f"{name}, {p}"] for p in PRESETS)
        hours = np.array([_spent(paper), _authors(name, paper), _spent(ours)]) / 3600
        totals += np.nan_to_num(hours)
        seeds = [len({r["cell"]["training"]["seed"] for r in its}) for its in (paper, ours)]
        yield f"| {name} | {' | '.join(_formatted(h, '.2f') for h in hours)} | {seeds[0]} | {seeds[1]} |"
    yield f"| all | {' | '.join(_formatted(h, '.1f') for h in totals)} | | |"


def _spent(mine: Sequence[Result]) -> float:
    """Total CPU seconds: each training run and each predictor once, and every evaluation."""
    trainings = {str(r["cell"]["training"]): r["seconds"]["training"] for r in mine}
    predictors = {
        str((r["cell"]["training"], r["cell"]["predictor"])): r["seconds"]["predictor"] for r in mine
    }
    return sum(trainings.values()) + sum(predictors.values()) + sum(r["seconds"]["evaluation"] for r in mine)


def _authors(name: str, mine: Sequence[Result]) -> float:
    """The same work at the authors' costs: networks, chains, variational fits and local curves."""
    if name not in AUTHORS:
        return math.nan
    methods = [r["cell"]["method"] for r in mine]
    networks = {str(r["cell"]["training"]) for r in mine if r["cell"]["method"][:3] not in ("VI,", "HMC")}
    counts = {name: len(networks), "curve": methods.count(CURVE)}
    counts |= {what: methods.count(f"{what}, scaled") for what in ("VI", "HMC")}
    return sum(count * AUTHORS[what][0] for what, count in counts.items())


def _by_seed(results: Sequence[Result], experiment: str, method: str) -> dict[int, Result]:
    return {
        r["cell"]["training"]["seed"]: r
        for r in results
        if (r["cell"]["experiment"], r["cell"]["method"]) == (experiment, method)
    }


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if values else math.nan


def _formatted(value: float, digits: str) -> str:
    return "-" if math.isnan(value) else format(value, digits)
