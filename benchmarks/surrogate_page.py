"""The page of `benchmarks/surrogates.py`: what the rows of its ledger say, and what is claimed of them."""

from typing import Any

import numpy as np
from claims import claim

Row = dict[str, Any]
FALSE = 1e-3
HEAD = """\
# Surrogates of solvers

Made by `python benchmarks/surrogates.py`, at 90 %. Models were trained here by their own libraries, on one \
core. A pool of fresh solver fields, which neither trained a model nor learned a shape, is split at random \
1000 times into n calibration fields and the rest, on which the band is tested. Given the pool, ranks alone \
decide, so the number of fields covered in one split is exactly BetaBinomial(N - n, k, n + 1 - k), for a \
finite pool too, and splits are independent: the sum over all has an exact law.

**Coverage here tests the code; widths test the method.** Any shape that comes from other fields is valid, \
a good one is narrow. *Width* is the mean width of the band, or the radius of the ball, over the root mean \
square of the solutions in the same norm; of a quantity, of that quantity. *Area*: the mean share of \
nodes inside, read off at 2048 thresholds. *Wholly*: the share of fields that lie between the ends \
everywhere, which `Share` and `RiskControl` do not promise; for a norm, which is no pointwise band, the \
share that mean +- the ball's root mean square would hold. *Quarters*: coverage in the quarters of the pool \
from the smallest inputs to the largest, n = 200; adaptive is not conditional. *CPU*: seconds to learn the \
shape and answer the pool; microseconds to score a field."""


UQNO = """\
The same model, shape and promise: with probability 90 % at least 90 % of the nodes are covered. Re-derived \
from `scripts/train_uqno_darcy.py` of neuraloperator. Their rule holds more nodes of each field than the \
promise asks for, by a bound for independent nodes, and then takes a lower rank over fields than the exact \
one. *Own share*: how often a field has the share of nodes inside that their place in a field stands for; \
at the exact rank it would be 90 % or more. Nodes count alike here, as they do there; above they count by \
their cells."""
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
How often all steps and nodes of a trajectory lie inside at once, at 90 %. *Steps apart*: a rank at each \
step, at the level, or at 99.5 % as Bonferroni asks, which needs 199 trajectories."""


def page(rows: list[Row], planned: list[str]) -> tuple[list[str], list[Row]]:
    """The lines of the page, and the claims; models that are planned and have no rows yet are named."""
    models = [row for row in rows if row["what"] == "model"]
    cells = [row for row in rows if row["what"] == "promise"]
    narrow, ratios = narrowness(models, cells)
    claims = claims_of(cells, ratios)
    lines = [
        HEAD,
        "",
        "## What is claimed",
        "",
        *of_claims(claims),
        "",
        "## The models",
        "",
        *of_models(models),
    ]
    lines += ["", "## Constant width beside the default", "", *narrow]
    for model in models:
        some = [row for row in cells if row["model"] == model["model"]]
        lines += ["", f"## {model['about']}", "", *of_cells(some)]
    lines += rivals(rows)
    missing = [name for name in planned if name not in {row["model"] for row in models}]
    dear = {row["model"] for row in cells if "cross-fitted" in row["shape"]}
    missing += [f"ensembles and cross-fitting on {name}" for name in ("burgers", "darcy") if name not in dear]
    if missing:
        lines += ["", f"Not yet run: {', '.join(missing)}. The same command goes on with them."]
    return lines, claims


def of_claims(claims: list[Row]) -> list[str]:
    """Each claim with its bound."""
    lines = ["| claim | bound | measured | |", "|---|---|---|---|"]
    for found in claims:
        verdict = "holds" if found["holds"] else "**does not hold**"
        lines.append(f"| {found['name']} | {found['bound']} | {found['value']:g} | {verdict} |")
    return lines


def of_models(models: list[Row]) -> list[str]:
    """How good each one is."""
    lines = ["| model | relative L2 | training, CPU s | fields that shape | pool |", "|---|---|---|---|---|"]
    for row in models:
        cost = f"{row['training_cpu']:.0f}"
        lines.append(
            f"| {row['about']} | {row['relative L2']:.2%} | {cost} | {row['shaping']} | {row['pool']} |"
        )
    return lines


def narrowness(models: list[Row], cells: list[Row]) -> tuple[list[str], dict[str, float]]:
    """Widths of the default over those of the constant shape, for the promise about all nodes."""
    lines = ["Mean width of `Simultaneous` over that of the constant shape, n = 19 / 50 / 200.", ""]
    lines += ["| model | default | chosen |", "|---|---|---|"]
    ratios = {}
    for model in models:
        some = [r for r in cells if (r["model"], r["promise"]) == (model["model"], "Simultaneous")]
        constant = {row["n"]: row["width"] for row in some if row["shape"] == "constant"}
        default = {row["n"]: row for row in some if row["shape"].startswith("default")}
        if not default:
            continue
        each = [row["width"] / constant[n] for n, row in default.items()]
        ratios[model["model"]] = max(each)
        said = next(iter(default.values()))["said"]
        lines.append(f"| {model['about']} | {three(each)} | {said} |")
    return lines, ratios


def of_cells(cells: list[Row]) -> list[str]:
    """One line for each promise and shape."""
    lines = [
        "| promise | shape | coverage, n = 19 / 50 / 200 | width | area | wholly | quarters | CPU |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for promise in dict.fromkeys(row["promise"] for row in cells):
        for shape in dict.fromkeys(row["shape"] for row in cells):
            some = [row for row in cells if (row["promise"], row["shape"]) == (promise, shape)]
            if not some:
                continue
            last = some[-1]
            covered = [row["coverage"] for row in some] if "coverage" in last else None
            said = three(covered) if covered else "loss " + three([row["loss"] for row in some])
            area = f"{last['area']:.3f}" if "area" in last else ""
            wholly = next((f"{last[key]:.3f}" for key in ("wholly", "as a band") if key in last), "")
            quarters = " ".join(f"{one:.2f}" for one in last.get("quarters", []))
            cost = f"{last['shape_cpu']:.0f} s"
            cost += f", {1e6 * last['score_cpu']:.0f} us" if "score_cpu" in last else ""
            width = " / ".join(f"{row['width']:.3g}" for row in some)
            lines.append(
                f"| {promise} | {shape} | {said} | {width} | {area} | {wholly} | {quarters} | {cost} |"
            )
    return lines


def rivals(rows: list[Row]) -> list[str]:
    """UQNO's rule, and steps one by one."""
    lines = []
    theirs = [row for row in rows if row["what"] == "uqno"]
    if theirs:
        lines += ["", "## Beside UQNO's rule, Darcy, 1024 nodes", "", UQNO, ""]
        lines += ["| " + " | ".join(UQNO_COLUMNS) + " |", "|---" * len(UQNO_COLUMNS) + "|"]
        for r in theirs:
            ranks, own = f"{r['rank']} ({r['exact rank']})", f"{r['own share']:.3f} ({r['law']:.3f})"
            parts = (r["shape"], r["rule"], r["n"], r["nodes outside"], ranks)
            lines.append(
                "| " + " | ".join(map(str, parts)) + f" | {r['coverage']:.3f} | {own} | {r['width']:.4f} |"
            )
    steps = [row for row in rows if row["what"] == "steps"]
    if steps:
        names = {row["model"]: row["about"] for row in rows if row["what"] == "model"}
        lines += ["", "## Rollouts of 20 steps", "", STEPS, ""]
        lines += ["| model | rule | n | joint coverage (law) | width at step 1 / 5 / 10 / 20 |"]
        lines += ["|---|---|---|---|---|"]
        for row in steps:
            law = f" ({row['law']:.3f})" if "law" in row else ""
            some = [row["widths"][k - 1] for k in (1, 5, 10, 20)]
            widths = " / ".join("infinite" if w is None else f"{w:.3g}" for w in some)
            parts = names[row["model"]], row["rule"], str(row["n"]), f"{row['coverage']:.3f}{law}", widths
            lines.append(f"| {' | '.join(parts)} |")
    return lines


def claims_of(cells: list[Row], ratios: dict[str, float]) -> list[Row]:
    """What is claimed: the law family-wise, and how narrow the default is."""
    lowest = min(row["p"] for row in cells) * len(cells)
    others = [value for name, value in ratios.items() if name not in ("burgers", "deeponet")]
    claims = [
        claim("lowest p of all cells, times their number", min(1.0, lowest), f">= {FALSE}"),
        claim("cells in which the sets count otherwise", sum(not r.get("door", True) for r in cells), "<= 0"),
    ]
    if "burgers" in ratios:
        claims.append(claim("default over constant, Burgers of different size", ratios["burgers"], "<= 0.5"))
    if others:
        claims.append(claim("default over constant, the best other data set", min(others), "<= 0.85"))
        claims.append(claim("default over constant, the worst", max(ratios.values()), "<= 1.03"))
    return claims


def three(values: list[float]) -> str:
    """Numbers side by side."""
    return " / ".join(f"{value:.3f}" if np.isfinite(value) else "infinite" for value in values)
