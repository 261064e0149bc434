"""The page of `benchmarks/coefficients.py`: what the rows of its ledger say, and whether a promise fails."""

from collections.abc import Callable
from typing import Any

from scipy.stats import binom

import guardband as gb

Row = dict[str, Any]
LEVEL = 0.95
VALID = {
    "signs": ("gaussian", "laplace", "heteroskedastic"),
    "permutations": ("gaussian", "laplace", "lognormal", "offset"),
}
"""Where each method promises its level."""

HEAD = """\
# Coefficients

Made by `python benchmarks/coefficients.py`, at 95 %. Truths are random in the ranges. Coverage is \
membership of the truth in all data sets, lengths are medians of the first hundred at n = 40. Signs and \
permutations are drawn afresh for each data set, before it. The solver is the reference, a network in its \
place, or a network that was stopped early; the last two with Delta by `solved.check`, never from the \
truth. Wald and profile are asymptotic, and for Gaussian noise; signs assume that noise is symmetric about \
zero, permutations that it is exchangeable, so signs may fail with lognormal and offset noise, permutations \
with heteroskedastic noise."""


def rejected(rows: list[Row]) -> list[str]:
    """Cells in which a promise is rejected, one-sided at 1e-3 over all of them together."""
    rows = [row for row in rows if row["part"] == "coverage"]
    tests = [(row, method) for row in rows for method, noises in VALID.items() if row["noise"] in noises]
    found = []
    for row, method in tests:
        inside = round(row[method] * row["sets"])
        if binom.cdf(inside, row["sets"], LEVEL) < 1e-3 / len(tests):
            found.append(f"{method} on {row['problem']}, {row['noise']}, n = {row['n']}, {row['solver']}")
    return found


def page(rows: list[Row]) -> str:
    """The page that is made of all rows."""
    total = sum(row["cpu_seconds"] for row in rows)
    lines = [HEAD, ""]
    for name, make in SECTIONS.items():
        mine = [row for row in rows if row["part"] == name]
        if mine:
            lines += [*make(mine), ""]
    if any(row["part"] == "coverage" for row in rows):
        wrong = rejected(rows)
        said = "No promise is rejected" if not wrong else f"Rejected: {'; '.join(wrong)};"
        lines += [f"{said}, one-sided at 1e-3 over all cells in which the noise is as assumed.", ""]
    return "\n".join([*lines, f"CPU seconds of all cells: {total:.0f}. Guardband {gb.__version__}.", ""])


def covered(rows: list[Row]) -> list[str]:
    head = [
        "## Joint coverage and lengths",
        "",
        "Lengths are shares of each range, medians at n = 40, by profile / signs / permutations.",
    ]
    columns = "problem, solver, noise, n, sets, Wald, profile, signs, permutations, lengths, Delta / error"
    head += ["", f"| {columns.replace(', ', ' | ')} |", "|" + "---|" * len(columns.split(", "))]
    for row in in_order(rows):
        four = " | ".join(f"{row[k]:.3f}" for k in ("wald", "profile", "signs", "permutations"))
        lengths = " / ".join(" ".join(f"{v:.2g}" for v in part) for part in row.get("lengths", {}).values())
        over = f"{row['delta_over_error']:.2g}" if "delta_over_error" in row else ""
        start = f"| {row['problem']} | {row['solver']} | {row['noise']} | {row['n']} | {row['sets']}"
        head.append(f"{start} | {four} | {lengths} | {over} |")
    return head


def in_order(rows: list[Row]) -> list[Row]:
    """By problem, solver, noise and number of readings; the first three as they first came up."""
    ranks = {key: list(dict.fromkeys(row[key] for row in rows)) for key in ("problem", "solver", "noise")}
    return sorted(rows, key=lambda row: (*(ranks[key].index(row[key]) for key in ranks), row["n"]))


def families(rows: list[Row]) -> list[str]:
    head = [
        "## Networks",
        "",
        "| problem | CPU seconds | median relative L2 | worst over the range |",
        "|---|---|---|---|",
    ]
    return head + [
        f"| {r['problem']} | {r['seconds']} | {r['median']:.1e} | {r['worst']:.1e} |" for r in rows
    ]


def accepted_of_wide(rows: list[Row]) -> list[str]:
    head = [
        "## How much of a wide range is accepted",
        "",
        "Oscillator, damping .02 to .3, frequency 2 to 12, n = 40: mean share of the range over data sets.",
        "",
        "| truths | signs | permutations | profile |",
        "|---|---|---|---|",
    ]
    (row,) = rows
    for where in ("anywhere", "weak damping"):
        shares = " | ".join(f"{100 * row[where][k]:.2g} %" for k in ("signs", "permutations", "profile"))
        head.append(f"| {where} | {shares} |")
    return head


def said_in_words(rows: list[Row]) -> list[str]:
    (row,) = rows
    return [
        "## What cannot be known is said",
        "",
        f"Of {row['of']} data sets each, it was said in words in",
        "",
        f"- {row['product']} where two coefficients enter as their product (the shortest interval of one of "
        f"them was {row['shortest_product']:.2f} of its range),",
        f"- {row['not_seen']} where no reading sees the coefficient,",
        f"- {row['outside']} where the truth lies outside of the range.",
    ]


def alarms(rows: list[Row]) -> list[str]:
    (row,) = rows
    return [
        "## Alarms about the equation",
        "",
        f"A reaction that the equation leaves out: alarm in {row['wrong']} of {row['of']} data sets. The "
        f"right equation: alarm in {row['valid_alarms']} of {row['valid']}, at a level of 1 %.",
    ]


def chosen_readings(rows: list[Row]) -> list[str]:
    head = [
        "## Ten more readings",
        "",
        "Length of profile intervals after ten random readings over that after ten chosen ones, in the "
        "median, and how often the region from all thirty holds the truth:",
        "",
        "| problem | ratio | coverage |",
        "|---|---|---|",
    ]
    (row,) = rows
    return head + [
        f"| {name} | {row[name]['ratio']:.2f} | {row[name]['coverage']:.3f} |"
        for name in ("oscillator", "heat")
    ]


def varying(rows: list[Row]) -> list[str]:
    (row,) = rows
    u, k = (
        ", ".join(f"{word} {100 * row[name][word]:.2g} %" for word in ("median", "worst")) for name in "uk"
    )
    return [
        "## A coefficient k(x), found with u",
        "",
        f"Relative L2 errors over {row['of']} data sets of 40 readings of u, {row['seconds']} CPU s each: "
        f"u {u}; k {k}.",
    ]


SECTIONS: dict[str, Callable[[list[Row]], list[str]]] = {
    "coverage": covered,
    "families": families,
    "wide": accepted_of_wide,
    "words": said_in_words,
    "doubt": alarms,
    "design": chosen_readings,
    "field": varying,
}
