"""The page on the paper: its reproduced tables and figures, and which of its claims hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from guardband.base.files import write_text
from guardband.base.limits import printable
from guardband.lab.paper.costs import costs
from guardband.lab.paper.experiments import EXPERIMENTS, PRESETS
from guardband.lab.paper.figures import TITLES, draw_all
from guardband.lab.paper.verdicts import claims, notes, ours
from guardband.lab.studies.base import Result
from guardband.lab.studies.tables import MethodRow, broken, has_law, rows, spread, table, verdict


def write_pages(results: Sequence[Result], folder: Path) -> None:
    """Write `README.md` with verdicts, tables, costs and figures, and the figures as PNG."""
    lines, made, bad = list(HEAD), rows(results), broken(results)
    lawful = sum(has_law(result) for result in results)
    lines += [
        "",
        f"{len(results)} cells, {lawful} of them with an exact law of coverage at each level; "
        f"{len(bad)} broke it (of valid studies one in a thousand has any).",
        "",
        "## Which of the paper's claims hold",
        "",
        *HOW,
        "",
        *claims(made),
        "",
        "## Ours beside it",
        "",
        "Our learner (`LogScale`) on the same trainings, each band beside the plain one on the same scale.",
        "",
        *ours(made),
        "",
        "## What we noticed",
        "",
        "Notes of our own: the paper does not rank methods by ACD, nor take coverage for the worth of a "
        "network.",
        "",
        *notes(made),
    ]
    for name in EXPERIMENTS:
        for preset in PRESETS:
            mine = [row for row in made if row.experiment == f"{name}, {preset}"]
            if mine:
                lines += ["", f"## {name}, {preset}", "", *table(mine, bad)]
                if mine[0].results[0]["found"]["regions"]:
                    lines += ["", *_regions(mine, bad)]
    lines += ["", "## What it cost", "", *costs(results)]
    lines += ["", "## Figures", ""]
    for preset in PRESETS:
        for number, name in draw_all(made, preset, folder).items():
            lines += [f"![{TITLES[number]} ({preset})]({name})", ""]
    write_text(folder / "README.md", printable("\n".join(lines).rstrip()) + "\n")


HEAD = (
    "# The paper, over many seeds",
    "",
    "Made by `guardband study paper`; `cells.jsonl` holds every result, one in a line. Every experiment of "
    "[arXiv:2509.13717](https://arxiv.org/abs/2509.13717) in two presets: *ours* trains by the library's "
    "defaults (its likelihood knows the noise of most points; on the oscillator, a quarter of whose points "
    "are noisier, the root mean square), *paper* with the paper's steps, weights and full batches. The "
    "paper's faults are corrected in "
    "both: exact ranks, noise applied once, root mean square distances, the penultimate layer as latent "
    "space, a proper posterior for VI and HMC, positive local shapes, the same predictor before and after. "
    "*Vanilla* calibrates |y - mean|, *scaled* |y - mean| / scale, *local* learns a shape from training "
    "residuals. Medians over training seeds (range), means over recalibrations with fresh calibration and "
    "test data.",
)

HOW = (
    "Each sentence is held against the same kind of method: the paper's local band is the quantile (pinball) "
    "network on the distance, its rival the plain band on the distance, both on the same trainings. A "
    "sentence is true of a training or not. The table says of how many, with the exact 95 % interval "
    "(Clopper and Pearson) for the share of all trainings; the paper has one of each. That coverage after "
    "calibration is what was asked is the law above.",
    "",
    "- *Restores* is judged as the paper states it: up to its own figure, or to 0.95 where that figure is "
    "higher. Where the median falls short of 0.95 it says so.",
    "- VI, HMC and latent distance are corrected here, so they cannot refute a sentence about what the "
    "authors' code computed: a sentence carries over to the corrected method, or it does not. Our dropout is "
    "another one too, in one layer and of half the rate.",
    "- The oscillator's test targets get the island noise once; in the authors' code they get it twice.",
    "- One network learns one shape for all levels; the authors train one for each level. Where a held-out "
    "score prefers it, our `Local` takes a flat shape instead, which the paper's does not. The band is then "
    "the plain one and not judged, only counted (*flat in*): with these are left out those trainings in "
    "which the network did worst.",
)
"""The rules by which the claims are judged."""


def _regions(mine: Sequence[MethodRow], bad: dict[str, float]) -> Iterator[str]:
    """Yield the table on the noisy region: the authors' mask, and the region itself."""
    yield "| method | coverage in the authors' mask | ACD there | in the noisy region | width | the law |"
    yield "|---|---|---|---|---|---|"
    for row in mine:
        mask = ("regions", "mask")
        acd = spread(row.find(*mask, "acd")) if len(row.levels) > 1 else "-"
        yield (
            f"| {row.method} | {spread(row.coverage(*mask))} | {acd} | "
            f"{spread(row.coverage('regions', 'region'))} | {spread(row.find('width'))} | "
            f"{verdict(row, bad)} |"
        )
