"""Verdicts: the paper's claims compared with the same kind of method, training by training.

A claim is true of one training or not; the verdict counts the trainings, with the exact interval of Clopper
and Pearson for the share of all trainings. A separate table has our learner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from guardband.lab.paper.experiments import PRESETS, Preset
from guardband.lab.studies.tables import MethodRow
from guardband.metrics import acd_floor

Rows: TypeAlias = Mapping[tuple[str, str], MethodRow]
"""All rows by experiment with its preset, and by method."""

TARGET = 0.95
TRAINED: dict[Preset, str] = {"paper": "trained as in the paper", "ours": "trained by our defaults"}
"""The columns, the paper's first."""


class Reported(NamedTuple):
    """Coverage at 95 % and ACD, before calibration and after."""

    before: float
    acd: float
    after: float
    acd_after: float


class ReportedLocal(NamedTuple):
    """Coverage where the noise is large and width everywhere, of the plain and of the local band, at 95 %."""

    plain: float
    local: float
    wide: float
    narrow: float


PAPER: dict[tuple[str, str], Reported] = {
    ("allen-cahn", "distance"): Reported(1.00, 0.3395, 0.96, 0.0329),
    ("allen-cahn", "latent distance"): Reported(0.84, 0.0929, 0.95, 0.0310),
    ("allen-cahn", "dropout"): Reported(0.42, 0.2814, 0.97, 0.0386),
    ("allen-cahn", "VI"): Reported(0.99, 0.1205, 0.94, 0.0381),
    ("allen-cahn", "HMC"): Reported(0.76, 0.1281, 0.95, 0.0486),
    ("helmholtz", "distance"): Reported(1.00, 0.2643, 0.95, 0.0517),
    ("helmholtz", "latent distance"): Reported(0.12, 0.4090, 0.92, 0.0467),
    ("helmholtz", "dropout"): Reported(0.99, 0.0888, 0.95, 0.0226),
}
"""The paper's Tables 1 and 2."""

PAPER_LOCAL: dict[str, ReportedLocal] = {
    "oscillator": ReportedLocal(0.76, 0.94, 0.9476, 0.6600),
    "A": ReportedLocal(0.85, 0.88, 0.737, 0.309),
    "B": ReportedLocal(0.88, 0.92, 0.956, 0.477),
    "C": ReportedLocal(0.81, 0.96, 0.947, 0.812),
}
"""The oscillator's are those of Table 3, where the island noise was applied twice to the test targets.

Those of A, B and C were stored by the authors' code; the text has them as curves only.
"""

PAPER_ISLANDS = (0.2925, 0.0669)
"""Table 3: ACD on the oscillator's islands, of the plain and of the local band."""

CORRECTED = ("latent distance", "VI", "HMC")
"""Corrected methods, which cannot refute a claim about the authors' code."""

PLAIN, THEIRS = "distance, scaled", "distance, pinball network, local"
"""The paper's pair for noise that varies: one scale, calibrated by one number or by a quantile network."""

OURS = {"constant width, local": "constant width", "distance, local": "distance, scaled"}
"""Our learner on two scales, and the plain band on the same scale."""

REGION = ("regions", "mask")


def claims(made: Sequence[MethodRow]) -> Iterator[str]:
    """Each claim of the paper, the reported figures, and the result of the same kind of method by preset."""
    yield f"| claim of the paper | reported | {' | '.join(TRAINED.values())} |"
    yield "|---|---|---|---|"
    for claim, reported, found in _sentences(_by_name(made)):
        yield f"| {claim} | {reported} | {' | '.join(found)} |"


def _sentences(by: Rows) -> Iterator[tuple[str, str, list[str]]]:
    """Each claim with the paper's figure and the result for each preset."""
    yield (
        "poisson, VI: under-covers before calibration",
        "in words",
        [_direction(by.get((f"poisson, {preset}", "VI, scaled")), False, "VI", preset) for preset in TRAINED],
    )
    yield (
        "poisson, VI: calibration lowers ACD",
        "in words",
        [_lowered(by.get((f"poisson, {preset}", "VI, scaled")), "VI", preset) for preset in TRAINED],
    )
    for (experiment, method), its in PAPER.items():
        rows: dict[Preset, MethodRow | None] = {
            preset: by.get((f"{experiment}, {preset}", f"{method}, scaled")) for preset in TRAINED
        }
        over = its.before > TARGET
        yield (
            f"{experiment}, {method}: {'over' if over else 'under'}-covers before calibration",
            f"{its.before:.2f}",
            [_direction(row, over, method, preset) for preset, row in rows.items()],
        )
        yield (
            f"{experiment}, {method}: calibration lowers ACD",
            f"{its.acd:.3f} to {its.acd_after:.3f}",
            [_lowered(row, method, preset) for preset, row in rows.items()],
        )
    for experiment, local in PAPER_LOCAL.items():
        yield from _local_sentences(experiment, local, by)


def _local_sentences(experiment: str, its: ReportedLocal, by: Rows) -> Iterator[tuple[str, str, list[str]]]:
    """Claims about the local band, compared with the plain band on the same scale and trainings."""
    pairs = [Pair.of(by, f"{experiment}, {preset}", PLAIN, THEIRS) for preset in TRAINED]
    yield (
        f"{experiment}: plain CP under-covers where the noise is large",
        f"{its.plain:.2f}",
        [f"{_median(pair.plain)}: {_count(pair.plain < TARGET)}" if pair else "-" for pair in pairs],
    )
    sentences: list[tuple[str, str, Callable[[Pair], str]]] = [
        (
            "local CP covers more there than plain CP",
            f"{its.plain:.2f} to {its.local:.2f}",
            lambda pair: f"{_median(pair.local)}: {_count(pair.local > pair.plain)}",
        ),
        ("local CP restores coverage there", f"{its.local:.2f}", lambda pair: _restored(pair, its.local)),
        (
            "local CP is sharper over the whole domain",
            f"{its.wide:.3f} to {its.narrow:.3f}",
            lambda pair: (
                f"{np.median(pair.wide):.3f} to {np.median(pair.narrow):.3f}: "
                f"{_count(pair.narrow < pair.wide)}"
            ),
        ),
    ]
    if experiment == "oscillator":
        before, after = PAPER_ISLANDS
        sentences.append(
            (
                "ACD there falls more than fourfold",
                f"{before} to {after}",
                lambda pair: (
                    f"{np.median(pair.acd_plain):.3f} to {np.median(pair.acd_local):.3f}: "
                    f"{_count(4 * pair.acd_local < pair.acd_plain)}"
                ),
            )
        )
    for claim, reported, judge in sentences:
        yield f"{experiment}: {claim}", reported, [_if_shaped(pair, judge) for pair in pairs]


def _if_shaped(pair: Pair | None, judge: Callable[[Pair], str]) -> str:
    """The result on trainings whose local band has a shape; the paper has no flat shapes."""
    if pair is None:
        return "-"
    shaped = pair.shaped()
    flat = len(pair.plain) - len(shaped.plain)
    if not len(shaped.plain):
        return f"flat in all {flat}"
    return judge(shaped) + (f"; flat in {flat} more" if flat else "")


class Pair(NamedTuple):
    """A plain band and a local one of the same trainings: coverage and ACD in the region, width in all."""

    plain: np.ndarray
    local: np.ndarray
    acd_plain: np.ndarray
    acd_local: np.ndarray
    wide: np.ndarray
    narrow: np.ndarray

    @classmethod
    def of(cls, by: Rows, experiment: str, plain: str, local: str) -> Pair | None:
        """The pair on the trainings that both have; an unfinished study may lack some."""
        rows = [by.get((experiment, method)) for method in (plain, local)]
        if any(row is None for row in rows):
            return None
        seeded = [{r["cell"]["training"]["seed"]: r for r in row.results} for row in rows if row is not None]
        both = sorted(seeded[0].keys() & seeded[1].keys())
        if not both:
            return None
        a, b = (MethodRow(experiment, "", [its[seed] for seed in both]) for its in seeded)
        return cls(
            *(row.coverage(*REGION) for row in (a, b)),
            *(row.find(*REGION, "acd") for row in (a, b)),
            *(row.find("width") for row in (a, b)),
        )

    def shaped(self) -> Pair:
        """The pair without trainings that fell back to a flat shape, for which both bands are equal."""
        return Pair(*(part[~np.isclose(self.narrow, self.wide, rtol=1e-6)] for part in self))


def _restored(pair: Pair, theirs: float) -> str:
    """Whether coverage reaches the paper's figure or 95 %, whichever is lower, rounded to its two digits."""
    reached = np.round(pair.local, 2) >= min(theirs, TARGET)
    short = reached.any() and round(float(np.median(pair.local)), 2) < TARGET
    return f"{_median(pair.local)}: {_count(reached)}" + (", short of 0.95" if short else "")


def _direction(row: MethodRow | None, over: bool, method: str, preset: Preset) -> str:
    if row is None:
        return "-"
    raw = row.coverage("before")
    return f"{_median(raw)}: {_count(raw > TARGET if over else raw < TARGET, _other(method, preset))}"


def _lowered(row: MethodRow | None, method: str, preset: Preset) -> str:
    if row is None:
        return "-"
    before, after = row.find("before", "acd"), row.find("acd")
    return (
        f"{np.median(before):.3f} to {np.median(after):.3f}: {_count(after < before, _other(method, preset))}"
    )


def _other(method: str, preset: Preset) -> str:
    """The method that replaces the one of the claim, or an empty string if it is the same."""
    if method in CORRECTED:
        return "corrected method"
    return "our dropout" if (method, preset) == ("dropout", "ours") else ""


def _count(true: np.ndarray, other: str = "") -> str:
    """The number of trainings in which a claim is true, in words."""
    k, n = int(true.sum()), len(true)
    low, high = share(k, n)
    of = f"{k} of {n} {'seed' if n == 1 else 'seeds'} [{low:.2f}, {high:.2f}]"
    if other:
        return f"{of} ({other})" if k else f"does not carry over, {of} ({other})"
    return of if k else f"**not reproduced**, {of}"


def _median(values: np.ndarray) -> str:
    return f"{np.median(values):.3f}"


def share(k: int, n: int) -> tuple[float, float]:
    """The 95 % interval for a share of which k of n were seen (Clopper and Pearson 1934).

    >>> low, high = share(3, 3)
    >>> round(low, 2), high
    (0.29, 1.0)
    """
    from scipy.stats import beta

    low = float(beta.ppf(0.025, k, n - k + 1)) if k else 0.0
    high = float(beta.ppf(0.975, k + 1, n - k)) if k < n else 1.0
    return low, high


def ours(made: Sequence[MethodRow]) -> Iterator[str]:
    """Our local bands on the same trainings, each with the plain band on the same scale."""
    yield (
        "| experiment | preset | band | coverage where the noise is large | of the plain band | "
        "at least 0.95 there | width | of the plain band | narrower |"
    )
    yield "|" + "---|" * 9
    by = _by_name(made)
    for experiment in PAPER_LOCAL:
        for preset in TRAINED:
            for local, plain in OURS.items():
                pair = Pair.of(by, f"{experiment}, {preset}", plain, local)
                if pair is not None:
                    reached = np.round(pair.local, 2) >= TARGET
                    yield (
                        f"| {experiment} | {preset} | {local} | {_median(pair.local)} | "
                        f"{_median(pair.plain)} | {_plainly(reached)} | {_median(pair.narrow)} | "
                        f"{_median(pair.wide)} | {_plainly(pair.narrow < pair.wide)} |"
                    )


def _plainly(true: np.ndarray) -> str:
    low, high = share(int(true.sum()), len(true))
    return f"{int(true.sum())} of {len(true)} [{low:.2f}, {high:.2f}]"


def notes(made: Sequence[MethodRow]) -> Iterator[str]:
    """Observations that the paper does not make."""
    for experiment in ("allen-cahn", "helmholtz"):
        mine = [
            row
            for row in made
            if row.experiment in {f"{experiment}, {preset}" for preset in PRESETS}
            and row.method.endswith("scaled")
        ]
        if mine:
            floor = acd_floor(mine[0].cell["cal"], mine[0].cell["test"])
            medians = [float(np.median(row.find("acd"))) for row in mine]
            theirs = [its.acd_after for (name, _), its in PAPER.items() if name == experiment]
            yield (
                f"- ACD after calibration does not distinguish the methods on {experiment}: over many "
                f"recalibrations all have {min(medians):.3f} to {max(medians):.3f}. In a single experiment "
                "an "
                f"exactly valid band has {floor.low:.3f} to {floor.high:.3f}, which includes the paper's "
                f"values, {min(theirs):.3f} to {max(theirs):.3f}."
            )
    scaled = [row for row in made if row.method.endswith("scaled")]
    if scaled:
        worst = max(scaled, key=lambda row: float(np.median(row.find("l2"))))
        yield (
            f"- Coverage does not measure a network's accuracy: {worst.method.split(',')[0]} on "
            f"{worst.experiment} "
            f"has a relative error of {np.median(worst.find('l2')):.0%} and a coverage of "
            f"{worst.coverage().mean():.3f} after calibration. Errors and widths are in the tables below."
        )


def _by_name(made: Sequence[MethodRow]) -> Rows:
    return {(row.experiment, row.method): row for row in made}
