"""Recompute random local cells of the paper's study and compare them with the stored results.

    python benchmarks/again.py [--cells 20]

Random `Local` cells of inexpensive experiments (our preset) are trained and evaluated again, and compared
with results/paper/cells.jsonl. The stored cells were computed with a band on the scale times the shape, these
with `Local`, so the comparison also tests that the two are equal.

1. With the same draws of calibration and test sets: the number of equal counts of covered points, and the
   differences of widths. A network trained on another machine differs in digits, and so do these figures.
2. With fresh draws: the counts are two independent samples from one law, the sum over 1000 recalibrations of
   BetaBinomial(m, k, n + 1 - k), whatever the network. Their difference has an exact law. The two-sided
   p-value of each cell and level is compared with 0.001 over the number of comparisons (Bonferroni), so at
   most one correct study in a thousand fails.

The study resumes from results/data/again.jsonl, which has a line for each cell. Writes results/again.md.
"""

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
import torch
from ledger import RESULTS, Ledger

import guardband as gb
from guardband import lab
from guardband.base import files
from guardband.conformal import CoverageLaw, rank
from guardband.lab.studies import Cell, Factory
from guardband.lab.studies.runner import Pool, learn, recalibrated
from guardband.metrics import relative_l2

CHEAP = ("oscillator", "A", "B", "C", "allen-cahn")
ALARM = 1e-3
FRESH = 10_000
"""Added to the training seed for draws that the stored results did not use."""

FURTHEST = 100_000
"""The largest difference in the table of probabilities: tens of standard deviations."""

LEDGER = Ledger("again")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, default=20, help="how many cells are recomputed")
    torch.set_num_threads(1)
    wanted = chosen(parser.parse_args().cells)
    packed = {result["key"]: result for result in lab.campaign.results(RESULTS / "paper")}
    for cell in wanted:
        if not LEDGER.rows(**named(cell)):
            LEDGER.add([compared(cell, packed[cell.key])])
    rows = [row for cell in wanted for row in LEDGER.rows(**named(cell))]
    files.write_text(LEDGER.page, page(rows))
    LEDGER.write_table(flat(rows))
    found = claims(rows)
    print(json.dumps({"claims": found}))
    sys.exit(0 if all(claim["holds"] for claim in found) else 1)


def chosen(n: int) -> list[Cell]:
    """Random local cells of inexpensive experiments, ordered by training."""
    local = [
        cell
        for cell in lab.paper.study(only=CHEAP, presets=["ours"]).cells
        if isinstance(cell.calibrator, Factory) and cell.calibrator.make is gb.Local
    ]
    some = random.Random(0).sample(local, n)
    return sorted(some, key=lambda cell: (cell.experiment, cell.training.seed, cell.method))


def named(cell: Cell) -> dict[str, Any]:
    """The fields that identify a cell in the ledger; its key may change with class names."""
    experiment = cell.experiment.split(",")[0]
    return {"experiment": experiment, "method": cell.method, "seed": cell.training.seed}


def compared(cell: Cell, packed: dict[str, Any]) -> dict[str, Any]:
    """One recomputed cell, compared with the stored one."""
    fitted, pool = cell.training.fit(), Pool(cell.training)
    start = time.process_time()
    predictor = cell.predictor(fitted)
    prediction = predictor(pool.x)
    learned = learn(cell, fitted.training_data, predictor).at_points(pool.x)
    new = recalibrated(cell, pool, prediction, learned)
    seconds = time.process_time() - start
    fresh = recalibrated(cell, pool, prediction, learned, seed=FRESH + cell.training.seed)
    old = packed["found"]
    counts = np.array([old["covered"], new["covered"]])
    chances = [
        two_sample(cell.cal, cell.test, cell.draws, level, abs(a - b))
        for level, a, b in zip(cell.levels, old["covered"], fresh["covered"], strict=True)
    ]
    return {
        **named(cell),
        "points": old["points"],
        "counts": len(cell.levels),
        "same_counts": int((counts[0] == counts[1]).sum()),
        "largest_difference": int(abs(counts[0] - counts[1]).max()),
        "smallest_p": float(f"{min(chances):.3g}"),
        "width": [old["width"], float(f"{new['width']:.9g}")],
        "l2": [old["l2"], float(f"{relative_l2(prediction.mean, pool.truth):.9g}")],
        "evaluation_seconds": [packed["seconds"]["evaluation"], round(seconds, 2)],
        "versions": {"guardband": gb.__version__, "torch": torch.__version__, "numpy": np.__version__},
    }


@cache
def _at_least(n: int, m: int, draws: int, level: str) -> np.ndarray:
    """The probability that two independent counts differ by at least 0, 1, 2, ..."""
    size = 1 << (2 * draws * m + 1).bit_length()
    one = np.fft.rfft(CoverageLaw(rank(n, level), n).counts(m), size)
    law = np.fft.irfft(np.abs(one) ** (2 * draws), size)[:FURTHEST].clip(min=0)
    within = np.concatenate([[0.0], 2 * np.cumsum(law) - law[0]])  # differences of either sign
    return np.clip(1 - within, 0, 1)


def two_sample(n: int, m: int, draws: int, level: str, difference: int) -> float:
    """The probability that two independent counts differ by at least `difference`."""
    return float(_at_least(n, m, draws, level)[min(difference, FURTHEST)])


def claims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The claim of the two-sample test over all cells and levels."""
    bound = ALARM / sum(row["counts"] for row in rows)
    p = min(row["smallest_p"] for row in rows)
    return [{"name": "smallest_two_sample_p", "value": p, "bound": f">= {bound:.2g}", "holds": p >= bound}]


def page(rows: list[dict[str, Any]]) -> str:
    """The Markdown page."""
    counts, same = (sum(row[name] for row in rows) for name in ("counts", "same_counts"))
    off = [abs(row["width"][1] / row["width"][0] - 1) for row in rows]
    (found,) = claims(rows)
    versions = ", ".join(f"{name} {version}" for name, version in rows[0]["versions"].items())
    widths = f"by at most {max(off):.2g} of themselves" if max(off) else "in none of nine digits"
    conclusion = (
        "The samples are consistent with one distribution."
        if found["holds"]
        else "**The samples do not follow one distribution.**"
    )
    lines = [
        "# Local cells, recomputed",
        "",
        f"{len(rows)} random `Local` cells of [the paper's study](paper/README.md) were retrained and "
        f"evaluated with the calibrator ({versions}) by `python benchmarks/again.py`. The stored cells were "
        "computed with a band on the scale times the shape. Each cell: [again.csv](data/again.csv).",
        "",
        f"- Same draws: {same} of {counts} counts of covered points are equal; widths at 95 % differ "
        f"{widths}.",
        f"- Fresh draws: the smallest two-sample p-value of {counts} comparisons is {found['value']:.2g}; at "
        f"most a share {ALARM:g} of correct studies has one below {ALARM / counts:.2g}. {conclusion}",
        "",
        "The two-sample test is valid whatever the networks are. With the same draws, counts and widths are "
        "equal only if the trained network is identical; a different machine or version of torch changes its "
        "digits.",
    ]
    return "\n".join(lines) + "\n"


def flat(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The cells as rows of a table, with separate columns for stored and recomputed figures."""
    for row in rows:
        plain = {name: value for name, value in row.items() if not isinstance(value, list | dict)}
        pairs = {name: value for name, value in row.items() if isinstance(value, list)}
        yield (
            plain
            | {f"{name}, stored": value[0] for name, value in pairs.items()}
            | {f"{name}, recomputed": value[1] for name, value in pairs.items()}
        )


if __name__ == "__main__":
    main()
