"""The page of `benchmarks/surrogates.py`: its tables, and the claims that are checked."""

from typing import Any

import numpy as np
from claims import claim

Row = dict[str, Any]
FALSE = 1e-3
HEAD = """\
# Surrogates of solvers

Written by `python benchmarks/surrogates.py`, at 90 %. Models were trained by their own libraries on one \
core. The pool consists of fresh solver fields that neither trained a model nor shaped a band. It is split \
at random 1000 times into n calibration fields and N - n test fields. Given the pool, the number of covered \
fields in one split follows exactly BetaBinomial(N - n, k, n + 1 - k), and splits are independent, so their \
sum has an exact distribution.

**Coverage tests the code; widths compare the methods.** Any shape learned on other fields is valid, and a \
good shape gives a narrow band. All cells: [surrogates.csv](data/surrogates.csv) (promise, shape, n, \
coverage, width, share of area inside, fields covered everywhere, coverage by quarters of the input size, \
CPU seconds)."""


UQNO = """\
Both rules use the same model, shape and promise: with probability 90 %, at least 90 % of the nodes are \
covered. The rule is re-derived from `scripts/train_uqno_darcy.py` of neuraloperator. It covers more nodes \
of each field than requested, by a Hoeffding bound for independent nodes, and then takes a lower rank over \
fields than the exact one. The rank within a field implies a share of covered nodes; *own share* is the \
probability that a field reaches it. At the exact rank over fields, this probability is at least 90 %. \
Nodes are weighted equally here, as in UQNO, and by their cells in the tables above."""
UQNO_COLUMNS = (
    "shape",
    "rule",
    "n",
    "nodes that may lie outside",
    "rank over fields (exact)",
    "coverage",
    "own share (law)",
    "width",
)
STEPS = """\
The table shows the joint coverage of all steps and nodes of a trajectory, at 90 % and n = 200. *Steps \
apart* means that each step is calibrated separately, at 90 % or at 99.5 % (Bonferroni); the latter needs \
199 trajectories for a finite band. Figures for n = 19 and 50: \
[surrogates_steps.csv](data/surrogates_steps.csv)."""
PROMISED = ("Simultaneous", "Share(0.1)", "Norm L2", "Norm H1", "RiskControl: share outside")
LARGEST = 200


def page(rows: list[Row], planned: list[str]) -> tuple[list[str], list[Row]]:
    """The lines of the page and the claims; planned models without rows are listed as not yet run."""
    models = [row for row in rows if row["what"] == "model"]
    cells = [row for row in rows if row["what"] == "promise"]
    narrow, ratios = narrowness(models, cells)
    claims = claims_of(cells, ratios)
    lines = [
        HEAD,
        "",
        "## Claims",
        "",
        *of_claims(claims),
        "",
        "## The models",
        "",
        *of_models(models),
    ]
    lines += ["", "## Width of the default relative to constant width", "", *narrow]
    lines += ["", "## Widths by promise and shape", "", *of_cells(models, cells)]
    lines += rivals(rows)
    missing = [name for name in planned if name not in {row["model"] for row in models}]
    dear = {row["model"] for row in cells if "cross-fitted" in row["shape"]}
    missing += [f"ensembles and cross-fitting on {name}" for name in ("burgers", "darcy") if name not in dear]
    if missing:
        lines += ["", f"Not yet run: {', '.join(missing)}. The same command resumes with them."]
    return lines, claims


def of_claims(claims: list[Row]) -> list[str]:
    """Each claim with its bound."""
    lines = ["| claim | bound | measured | |", "|---|---|---|---|"]
    for found in claims:
        verdict = "holds" if found["holds"] else "**does not hold**"
        lines.append(f"| {found['name']} | {found['bound']} | {found['value']:g} | {verdict} |")
    return lines


def of_models(models: list[Row]) -> list[str]:
    """Accuracy and cost of each model."""
    lines = ["| name | model | relative L2 | training, CPU s | shaping fields | pool |", "|---" * 6 + "|"]
    for row in models:
        cost = f"{row['training_cpu']:.0f}"
        lines.append(
            f"| {row['model']} | {row['about']} | {row['relative L2']:.2%} | {cost} | {row['shaping']} | "
            f"{row['pool']} |"
        )
    return lines


def narrowness(models: list[Row], cells: list[Row]) -> tuple[list[str], dict[str, float]]:
    """Widths of the default relative to the constant shape, for the promise about all nodes."""
    lines = [
        "The table shows ratios of mean widths of `Simultaneous`, for n = 19 / 50 / 200, and the chosen "
        "shape.",
        "",
    ]
    lines += ["| model | ratio | shape |", "|---|---|---|"]
    ratios = {}
    for model in models:
        some = [r for r in cells if (r["model"], r["promise"]) == (model["model"], "Simultaneous")]
        constant = {row["n"]: row["width"] for row in some if row["shape"] == "constant"}
        default = {row["n"]: row for row in some if row["shape"].startswith("default")}
        if not default:
            continue
        each = [row["width"] / constant[n] for n, row in default.items()]
        ratios[model["model"]] = max(each)
        chosen, candidates, _ = next(iter(default.values()))["said"].partition(";")
        lines.append(f"| {model['model']} | {three(each)} | {chosen}{')' if candidates else ''} |")
    return lines, ratios


def of_cells(models: list[Row], cells: list[Row]) -> list[str]:
    """The widths of all promises with each shape at the largest n, and the lowest conditional coverage."""
    covered = [row["coverage"] for row in cells if "coverage" in row]
    losses = [row["loss"] for row in cells if "loss" in row]
    lines = [
        "Entries are mean widths, or radii of balls, over the root mean square of the solutions in the same "
        f"norm, at n = {LARGEST}. Coverage is {min(covered):.3f} to {max(covered):.3f} in all {len(covered)} "
        f"cells, n = 19, 50 and 200; the mean loss of `RiskControl` is at most {max(losses):.3f}, for a "
        "bound of 0.1. *Lowest quarter* is the lowest coverage of `Simultaneous` in the quarters of the pool "
        "by input size: an adaptive band is not conditional on the input.",
        "",
        "| model | shape | Simultaneous | Share(0.1) | L2 | H1 | RiskControl | lowest quarter |",
        "|---" * 8 + "|",
    ]
    for model in models:
        some = [row for row in cells if row["model"] == model["model"] and row["n"] == LARGEST]
        for shape in dict.fromkeys(row["shape"] for row in some):
            by = {row["promise"]: row for row in some if row["shape"] == shape}
            widths = " | ".join(f"{by[name]['width']:.3g}" if name in by else "" for name in PROMISED)
            lowest = min(by["Simultaneous"]["quarters"]) if "Simultaneous" in by else float("nan")
            lines.append(f"| {model['model']} | {shape} | {widths} | {lowest:.2f} |")
    return lines


def flat(rows: list[Row], what: str) -> list[Row]:
    """The rows of one kind as rows of a table."""
    found = []
    for row in rows:
        if row["what"] == what:
            plain = {key: value for key, value in row.items() if key not in ("what", "quarters", "widths")}
            plain |= {f"quarter {i + 1}": value for i, value in enumerate(row.get("quarters", []))}
            plain |= {f"width at step {i + 1}": value for i, value in enumerate(row.get("widths", []))}
            found.append(plain)
    return found


def rivals(rows: list[Row]) -> list[str]:
    """Comparisons with UQNO's rule and with separately calibrated steps."""
    lines = []
    theirs = [row for row in rows if row["what"] == "uqno"]
    if theirs:
        lines += ["", "## Comparison with UQNO's rule, Darcy, 1024 nodes", "", UQNO, ""]
        lines += ["| " + " | ".join(UQNO_COLUMNS) + " |", "|---" * len(UQNO_COLUMNS) + "|"]
        for r in theirs:
            ranks, own = f"{r['rank']} ({r['exact rank']})", f"{r['own share']:.3f} ({r['law']:.3f})"
            parts = (r["shape"], r["rule"], r["n"], r["nodes outside"], ranks)
            lines.append(
                "| " + " | ".join(map(str, parts)) + f" | {r['coverage']:.3f} | {own} | {r['width']:.4f} |"
            )
    steps = [row for row in rows if row["what"] == "steps"]
    if steps:
        lines += ["", "## Rollouts of 20 steps", "", STEPS, ""]
        lines += ["| model | rule | joint coverage (law) | width at step 1 / 5 / 10 / 20 |"]
        lines += ["|---|---|---|---|"]
        for row in [row for row in steps if row["n"] == LARGEST]:
            law = f" ({row['law']:.3f})" if "law" in row else ""
            some = [row["widths"][k - 1] for k in (1, 5, 10, 20)]
            widths = " / ".join("infinite" if w is None else f"{w:.3g}" for w in some)
            parts = row["model"], row["rule"], f"{row['coverage']:.3f}{law}", widths
            lines.append(f"| {' | '.join(parts)} |")
    return lines


def claims_of(cells: list[Row], ratios: dict[str, float]) -> list[Row]:
    """The claims: the exact law over all cells, and the width of the default."""
    lowest = min(row["p"] for row in cells) * len(cells)
    others = [value for name, value in ratios.items() if name not in ("burgers", "deeponet")]
    claims = [
        claim("lowest p-value times the number of cells", min(1.0, lowest), f">= {FALSE}"),
        claim("cells in which sets and scores disagree", sum(not r.get("door", True) for r in cells), "<= 0"),
    ]
    if "burgers" in ratios:
        claims.append(claim("default over constant, Burgers of different size", ratios["burgers"], "<= 0.5"))
    if others:
        claims.append(claim("default over constant, the best other data set", min(others), "<= 0.85"))
        claims.append(claim("default over constant, the worst", max(ratios.values()), "<= 1.03"))
    return claims


def three(values: list[float]) -> str:
    """Numbers separated by slashes."""
    return " / ".join(f"{value:.3f}" if np.isfinite(value) else "infinite" for value in values)
