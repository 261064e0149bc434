"""The page of `benchmarks/coefficients.py`: tables of its stored rows, and tests of the stated coverage."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import binom

Row = dict[str, Any]
LEVEL = 0.95
VALID = {
    "signs": ("gaussian", "laplace", "heteroskedastic"),
    "permutations": ("gaussian", "laplace", "lognormal", "offset"),
}
"""The noise models for which each method states its level."""

HEAD = """\
# Coefficients

Written by `python benchmarks/coefficients.py`, at 95 %. True coefficients are drawn at \
random from their ranges. Coverage is the share of data sets whose region contains \
the truth. The solver is the reference solution, a trained network, or a network stopped early; for the \
two networks the region is widened by Delta from `solved.check`, which never uses the truth. Wald and \
profile regions are asymptotic and assume Gaussian noise. Signs assume noise that is symmetric about zero, \
so they may fail for lognormal and offset noise; permutations assume exchangeable noise, so they may fail \
for heteroskedastic noise. All cells: [coefficients.csv](data/coefficients.csv)."""


def rejected(rows: list[Row]) -> list[str]:
    """Cells whose stated coverage is rejected by a one-sided test, at 1e-3 over all cells together."""
    rows = [row for row in rows if row["part"] == "coverage"]
    tests = [(row, method) for row in rows for method, noises in VALID.items() if row["noise"] in noises]
    found = []
    for row, method in tests:
        inside = round(row[method] * row["sets"])
        if binom.cdf(inside, row["sets"], LEVEL) < 1e-3 / len(tests):
            found.append(f"{method} on {row['problem']}, {row['noise']}, n = {row['n']}, {row['solver']}")
    return found


def page(rows: list[Row]) -> str:
    """The Markdown page."""
    total = sum(row["cpu_seconds"] for row in rows)
    lines = [HEAD, ""]
    for name, make in SECTIONS.items():
        mine = [row for row in rows if row["part"] == name]
        if mine:
            lines += [*make(mine), ""]
    if any(row["part"] == "coverage" for row in rows):
        wrong = rejected(rows)
        verdict = f"rejects {'; '.join(wrong)}" if wrong else "rejects none"
        lines += [
            "A one-sided test of the stated 95 %, at 1e-3 over all cells whose noise is as assumed, "
            f"{verdict}.",
            "",
        ]
    return "\n".join([*lines, f"CPU seconds of all cells: {total:.0f}.", ""])


def covered(rows: list[Row]) -> list[str]:
    """Coverage over problems and numbers of readings, then lengths and the error estimate."""
    methods = ("wald", "profile", "signs", "permutations")
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    sizes = sorted({row["n"] for row in rows})
    lines = [
        "## Joint coverage",
        "",
        f"Median and (lowest) coverage over {len(problems)} problems ({', '.join(problems)}) and "
        f"n = {', '.join(map(str, sizes))}, with {min(row['sets'] for row in rows)} data sets in each cell. "
        "The last column names the methods that state 95 % for this noise.",
        "",
        "| solver | noise | cells | Wald | profile | signs | permutations | stated by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for solver in dict.fromkeys(row["solver"] for row in rows):
        for noise in dict.fromkeys(row["noise"] for row in rows):
            some = [row for row in rows if (row["solver"], row["noise"]) == (solver, noise)]
            if some:
                each = [[row[method] for row in some] for method in methods]
                cells = " | ".join(f"{np.median(values):.3f} ({min(values):.3f})" for values in each)
                stated = ", ".join(method for method, noises in VALID.items() if noise in noises)
                lines.append(f"| {solver} | {noise} | {len(some)} | {cells} | {stated} |")
    return [*lines, "", *lengths(rows), "", *estimated(rows)]


def lengths(rows: list[Row]) -> list[str]:
    """Interval lengths of each problem with Gaussian noise and n = 40."""
    lines = [
        "## Lengths of intervals",
        "",
        "Entries are medians over 100 data sets with Gaussian noise, n = 40, as shares of the range of each "
        "coefficient.",
        "",
        "| problem | solver | profile | signs | permutations |",
        "|---|---|---|---|---|",
    ]
    for row in in_order(rows):
        if "lengths" in row and row["noise"] == "gaussian":
            parts = " | ".join(", ".join(f"{v:.2g}" for v in part) for part in row["lengths"].values())
            lines.append(f"| {row['problem']} | {row['solver']} | {parts} |")
    return lines


def estimated(rows: list[Row]) -> list[str]:
    """How far Delta lies above the true error of the solver."""
    ratios = [row["delta_over_error"] for row in rows if "delta_over_error" in row]
    if not ratios:
        return []
    return [
        f"Delta over the true error of the solver, in {len(ratios)} cells: {min(ratios):.2g} to "
        f"{max(ratios):.2g}, median {np.median(ratios):.2g}."
    ]


def flat(rows: list[Row]) -> list[Row]:
    """The cells of coverage as rows of a table."""
    found = []
    for row in in_order([row for row in rows if row["part"] == "coverage"]):
        plain = {key: value for key, value in row.items() if key not in ("part", "lengths")}
        for method, values in row.get("lengths", {}).items():
            plain |= {f"length {i + 1}, {method}": value for i, value in enumerate(values)}
        found.append(plain)
    return found


def in_order(rows: list[Row]) -> list[Row]:
    """Rows ordered by problem, solver and noise as first encountered, then by number of readings."""
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
        "## Share of a wide range that is accepted",
        "",
        "Entries are means over data sets for the oscillator, with damping 0.02 to 0.3, frequency 2 to 12, n "
        "= 40.",
        "",
        "| truths | signs | permutations | profile |",
        "|---|---|---|---|",
    ]
    (row,) = rows
    for where in ("anywhere", "weak damping"):
        shares = " | ".join(f"{100 * row[where][k]:.2g} %" for k in ("signs", "permutations", "profile"))
        head.append(f"| {where} | {shares} |")
    return head


def undetermined(rows: list[Row]) -> list[str]:
    (row,) = rows
    return [
        "## Coefficients that the readings do not determine",
        "",
        f"Of {row['of']} data sets each, the report named the problem in",
        "",
        f"- {row['product']} where two coefficients enter only as their product (the shortest interval of "
        f"one of them was {row['shortest_product']:.2f} of its range),",
        f"- {row['not_seen']} where the readings do not depend on the coefficient,",
        f"- {row['outside']} where the truth lies outside the range.",
    ]


def alarms(rows: list[Row]) -> list[str]:
    (row,) = rows
    return [
        "## The test of the equation",
        "",
        f"With a reaction term missing from the equation, the test alarms in {row['wrong']} of {row['of']} "
        f"data sets; with the right equation in {row['valid_alarms']} of {row['valid']}, at a level of 1 %.",
    ]


def chosen_readings(rows: list[Row]) -> list[str]:
    head = [
        "## Ten more readings",
        "",
        "The columns show the median ratio of profile interval lengths (ten random further readings over ten "
        "chosen ones) and the coverage of the region from all thirty readings:",
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
        "## A coefficient k(x), inferred with u",
        "",
        f"Relative L2 errors over {row['of']} data sets of 40 readings of u, {row['seconds']} CPU s each: "
        f"u {u}; k {k}.",
    ]


SECTIONS: dict[str, Callable[[list[Row]], list[str]]] = {
    "coverage": covered,
    "families": families,
    "wide": accepted_of_wide,
    "words": undetermined,
    "doubt": alarms,
    "design": chosen_readings,
    "field": varying,
}
