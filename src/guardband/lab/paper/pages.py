"""The page on the paper: its tables and figures recomputed, and which of its claims hold."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guardband.base.files import write_text
from guardband.base.limits import printable
from guardband.lab.paper.costs import costs
from guardband.lab.paper.experiments import EXPERIMENTS, PRESETS
from guardband.lab.paper.figures import TITLES, draw_all
from guardband.lab.paper.verdicts import claims, notes, ours
from guardband.lab.studies.base import Result
from guardband.lab.studies.tables import MethodRow, broken, has_law, rows, verdict


def write_pages(results: Sequence[Result], folder: Path) -> None:
    """`README.md` with verdicts, tables, costs and figures, `tables.csv` with ranges, and figures as PNG."""
    lines, made, bad = list(HEAD), rows(results), broken(results)
    lawful = sum(has_law(result) for result in results)
    lines += [
        "",
        f"{len(results)} cells, {lawful} of them with an exact law of coverage at each level; "
        f"{len(bad)} broke it. One in a thousand valid studies has any such cell.",
        "",
        "## Which of the paper's claims hold",
        "",
        *HOW,
        "",
        *claims(made),
        "",
        "## Comparison with our learner",
        "",
        "The table compares our learner (`LogScale`) with the plain band on the same scale and the same "
        "trained networks.",
        "",
        *ours(made),
        "",
        "## Further observations",
        "",
        "The paper neither ranks methods by ACD nor judges networks by their coverage.",
        "",
        *notes(made),
    ]
    for name in EXPERIMENTS:
        for preset in PRESETS:
            mine = [row for row in made if row.experiment == f"{name}, {preset}"]
            if mine:
                lines += ["", f"## {name}, {preset}", "", *_table(mine, bad)]
    lines += ["", "## Cost", "", *costs(results)]
    lines += ["", "## Figures", ""]
    for preset in PRESETS:
        for number, name in draw_all(made, preset, folder).items():
            lines += [f"![{TITLES[number]} ({preset})]({name})", ""]
    write_text(folder / "README.md", printable("\n".join(lines).rstrip()) + "\n")
    write_text(folder / "tables.csv", _every_figure(made, bad))


HEAD = (
    "# The paper, over many seeds",
    "",
    "Written by `guardband study paper`; `cells.jsonl` has every result and `tables.csv` the ranges over "
    "seeds. Every experiment of [arXiv:2509.13717](https://arxiv.org/abs/2509.13717) runs in two presets. "
    "*Ours* trains with the library's defaults; its likelihood uses the noise of most points (on the "
    "oscillator, where a quarter of the points are noisier, the root mean square). *Paper* uses the paper's "
    "steps, weights and full batches. Errors of the paper are corrected in both: exact ranks, noise applied "
    "once, root mean square distances, the penultimate layer as latent space, a proper posterior for VI and "
    "HMC, positive local shapes, and the same predictor before and after calibration. *Vanilla* calibrates "
    "|y - mean|, *scaled* |y - mean| / scale, and *local* learns a shape from training residuals. Figures "
    "are medians over training seeds and means over recalibrations with fresh calibration and test data.",
)

HOW = (
    "Each claim is compared with the same kind of method: the paper's local band is the quantile (pinball) "
    "network on the distance, and the plain band on the distance is its baseline, on the same trained "
    "networks. The table gives the median over seeds, the number of seeds for which the claim is true, and "
    "the exact 95 % interval (Clopper and Pearson) for that share among all training runs. The paper has one "
    "training run of each.",
    "",
    "- *Restores* means up to the paper's own figure, or to 0.95 if that figure is higher. The cell says so "
    "if "
    "the median is short of 0.95.",
    "- VI, HMC and latent distance are corrected here, so they cannot refute a claim about the authors' "
    "code, but only show whether it carries over to the corrected method. Our dropout differs too: it is in "
    "one layer, at half the rate.",
    "- The oscillator's test targets receive the island noise once; in the authors' code they receive it "
    "twice.",
    "- One network learns one shape for all levels; the authors train one for each level. If a held-out "
    "score prefers it, our `Local` takes a flat shape, which the paper's never does. The band is then the "
    "plain one and is counted (*flat in*) but not judged. This excludes the runs in which the network "
    "performed worst.",
)
"""The rules by which the claims are judged."""

COLUMNS = "method | seeds | relative L2, % | coverage before | coverage after | width before | width after"
REGIONS = "coverage in the authors' mask | in the noisy region"


def _table(mine: Sequence[MethodRow], bad: dict[str, float]) -> Iterator[str]:
    """Medians of one experiment, with the coverage in its regions if it has any."""
    cell = mine[0].cell
    has_regions = bool(mine[0].results[0]["found"]["regions"])
    columns = f"{COLUMNS} | {REGIONS}" if has_regions else COLUMNS
    yield (
        f"{cell['cal']} calibration and {cell['test']} test points, {cell['draws']} recalibrations per seed."
    )
    yield ""
    yield f"| {columns} |"
    yield "|" + "---|" * (columns.count(" | ") + 1)
    for row in mine:
        before = ["-", "-"]
        if row.has_before:
            before = [_median(row.coverage("before")), _median(row.find("before", "width"))]
        infinite = row.find("infinite").mean()
        width = _median(row.find("width")) + (f", {infinite:.0%} infinite" if infinite else "")
        cells = [row.method, str(len(row.results)), _median(100 * row.find("l2"), ".2f")]
        cells += [before[0], _after(row, bad), before[1], width]
        if has_regions:
            cells += [_median(row.coverage("regions", part)) for part in ("mask", "region")]
        yield f"| {' | '.join(cells)} |"


def _after(row: MethodRow, bad: dict[str, float]) -> str:
    """Coverage after calibration, with a note if it has no exact law or breaks it."""
    note = {"holds": "", "-": " (no exact law)"}.get(said := verdict(row, bad), f", {said}")
    return f"{row.coverage().mean():.4f}{note}"


def _median(values: np.ndarray, digits: str = ".3f") -> str:
    return "nan" if np.isnan(values).all() else format(np.nanmedian(values), digits)


def _every_figure(made: Sequence[MethodRow], bad: dict[str, float]) -> str:
    """The median and range over seeds of every figure, as CSV."""
    found = [_figures(row, bad) for row in made]
    columns = list(dict.fromkeys(name for figures in found for name in figures))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return printable(text.getvalue())


def _figures(row: MethodRow, bad: dict[str, float]) -> dict[str, Any]:
    """One row of the CSV."""
    values = {
        "relative L2": row.find("l2"),
        "coverage after": row.coverage(),
        "width after": row.find("width"),
    }
    values |= {"infinite": row.find("infinite"), "truth covered": row.find("truth")}
    if len(row.levels) > 1:
        values["ACD after"] = row.find("acd")
    if row.has_before:
        values["coverage before"] = row.coverage("before")
        values |= {f"{name} before": row.find("before", name.lower()) for name in ("ACD", "width")}
    if row.results[0]["found"]["regions"]:
        for name, part in (("authors' mask", "mask"), ("noisy region", "region")):
            values[f"coverage in the {name}"] = row.coverage("regions", part)
        if len(row.levels) > 1:
            values["ACD in the authors' mask"] = row.find("regions", "mask", "acd")
    figures: dict[str, Any] = {"experiment": row.experiment, "method": row.method, "seeds": len(row.results)}
    for name, each in values.items():
        for which, value in (("median", np.nanmedian), ("lowest", np.nanmin), ("highest", np.nanmax)):
            figures[f"{name}, {which}"] = "nan" if np.isnan(each).all() else f"{value(each):.6g}"
    cost = row.seconds["training"] + row.seconds["predictor"]
    return figures | {"the law": verdict(row, bad), "CPU s": f"{cost:.4g}"}
