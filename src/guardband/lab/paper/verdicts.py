"""Verdicts: the paper's claims compared with the same kind of method, one training run at a time.

In each training run a claim is either true or false. The verdict counts the runs in which it is true, with
the exact interval of Clopper and Pearson for the share of all runs. A separate table shows our learner.
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
    """Reported coverage at 95 % and ACD, before and after calibration."""

    before: float
    acd: float
    after: float
    acd_after: float


class ReportedLocal(NamedTuple):
    """Reported coverage in the noisy region and mean width of the plain and the local band, at 95 %."""

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
"""For the oscillator from Table 3, for which the island noise was applied twice to the test targets.

For A, B and C from files that the authors' code stored; the paper only shows curves.
"""

PAPER_ISLANDS = (0.2925, 0.0669)
"""Table 3: ACD on the oscillator's islands, of the plain and the local band."""

CORRECTED = ("latent distance", "VI", "HMC")
"""Methods that differ from the authors' code, so they cannot refute claims about it."""

PLAIN, THEIRS = "distance, scaled", "distance, pinball network, local"
"""The paper's pair for heteroscedastic noise: a scale calibrated by one number or a quantile network."""

OURS = {"constant width, local": "constant width", "distance, local": "distance, scaled"}
"""Our learner on two scales, with the plain band on the same scale."""

REGION = ("regions", "mask")


def claims(made: Sequence[MethodRow]) -> Iterator[str]:
    """Yield the table of claims: the paper's figure, and our result for the same kind of method by preset."""
    yield f"| claim of the paper | reported | {' | '.join(TRAINED.values())} |"
    yield "|---|---|---|---|"
    for claim, reported, found in _findings(_by_name(made)):
        yield f"| {claim} | {reported} | {' | '.join(found)} |"


def _findings(by: Rows) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each claim with the paper's figure and our finding for each preset."""
    yield (
        "poisson, VI: under-covers before calibration",
        "in words",
        [_direction(by.get((f"poisson, {preset}", "VI, scaled")), False, "VI", preset) for preset in TRAINED],
    )
    yield (
        "poisson, VI: calibration lowers ACD",
        "in words",
        [_lower_acd(by.get((f"poisson, {preset}", "VI, scaled")), "VI", preset) for preset in TRAINED],
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
            [_lower_acd(row, method, preset) for preset, row in rows.items()],
        )
    for experiment, local in PAPER_LOCAL.items():
        yield from _local_findings(experiment, local, by)


def _local_findings(experiment: str, its: ReportedLocal, by: Rows) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the claims that compare the paper's local band with the plain one in the same training runs."""
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
        yield f"{experiment}: {claim}", reported, [_judged(pair, judge) for pair in pairs]


def _judged(pair: Pair | None, judge: Callable[[Pair], str]) -> str:
    """Judge the training runs in which the local band has a shape; the paper has no flat bands."""
    if pair is None:
        return "-"
    shaped = pair.shaped()
    flat = len(pair.plain) - len(shaped.plain)
    if not len(shaped.plain):
        return f"flat in all {flat}"
    return judge(shaped) + (f"; flat in {flat} more" if flat else "")


class Pair(NamedTuple):
    """A plain and a local band in the same training runs: coverage and ACD in the region, and mean width."""

    plain: np.ndarray
    local: np.ndarray
    acd_plain: np.ndarray
    acd_local: np.ndarray
    wide: np.ndarray
    narrow: np.ndarray

    @classmethod
    def of(cls, by: Rows, experiment: str, plain: str, local: str) -> Pair | None:
        """Return the pair on common training runs; an unfinished study may lack some."""
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
        """Return the pair without the training runs with a flat shape, for which the two bands are equal."""
        return Pair(*(part[~np.isclose(self.narrow, self.wide, rtol=1e-6)] for part in self))


def _restored(pair: Pair, theirs: float) -> str:
    """Count the training runs whose coverage reaches the paper's figure, or 95 % if that is lower."""
    reached = np.round(pair.local, 2) >= min(theirs, TARGET)
    short = reached.any() and round(float(np.median(pair.local)), 2) < TARGET
    return f"{_median(pair.local)}: {_count(reached)}" + (", short of 0.95" if short else "")


def _direction(row: MethodRow | None, over: bool, method: str, preset: Preset) -> str:
    if row is None:
        return "-"
    raw = row.coverage("before")
    return f"{_median(raw)}: {_count(raw > TARGET if over else raw < TARGET, _other(method, preset))}"


def _lower_acd(row: MethodRow | None, method: str, preset: Preset) -> str:
    if row is None:
        return "-"
    before, after = row.find("before", "acd"), row.find("acd")
    return (
        f"{np.median(before):.3f} to {np.median(after):.3f}: {_count(after < before, _other(method, preset))}"
    )


def _other(method: str, preset: Preset) -> str:
    """Return a name for our method if it differs from the paper's, otherwise an empty string."""
    if method in CORRECTED:
        return "corrected method"
    return "our dropout" if (method, preset) == ("dropout", "ours") else ""


def _count(true: np.ndarray, other: str = "") -> str:
    """The number of training runs in which a claim is true, in words."""
    k, n = int(true.sum()), len(true)
    low, high = share(k, n)
    of = f"{k} of {n} {'seed' if n == 1 else 'seeds'} [{low:.2f}, {high:.2f}]"
    if other:
        return f"{of} ({other})" if k else f"does not carry over, {of} ({other})"
    return of if k else f"**not reproduced**, {of}"


def _median(values: np.ndarray) -> str:
    return f"{np.median(values):.3f}"


def share(k: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval for a share, given k of n (Clopper and Pearson 1934).

    >>> low, high = share(3, 3)
    >>> round(low, 2), high
    (0.29, 1.0)
    """
    from scipy.stats import beta

    low = float(beta.ppf(0.025, k, n - k + 1)) if k else 0.0
    high = float(beta.ppf(0.975, k + 1, n - k)) if k < n else 1.0
    return low, high


def ours(made: Sequence[MethodRow]) -> Iterator[str]:
    """Our local bands in the same training runs, each with the plain band on the same scale."""
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
                        f"{_median(pair.plain)} | {_share_of(reached)} | {_median(pair.narrow)} | "
                        f"{_median(pair.wide)} | {_share_of(pair.narrow < pair.wide)} |"
                    )


def _share_of(true: np.ndarray) -> str:
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
