"""Pages of results are what their scripts write from the stored rows, and tables have all of these rows."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT, script

RESULTS, BENCHMARKS = ROOT / "results", ROOT / "benchmarks"
PAGES = {
    "accuracy": "table()",
    "catalogue": "table()",
    "inverse": "page()",
    "local": "page()",
    "newton": "page(LEDGER.rows())",
    "optimizers": "page()",
    "predictors": "page()",
    "records": "page()",
    "ssbroyden": "page()",
    "verdicts": "table(LEDGER.rows())[0]",
    "worth": "page(found())",
}
"""Scripts, and the expression that gives their page."""


def stored(name: str) -> list[dict[str, Any]]:
    """The rows of a ledger."""
    return [json.loads(line) for line in (RESULTS / f"data/{name}.jsonl").read_text().splitlines()]


def table(path: str) -> list[dict[str, str]]:
    """The rows of a CSV file of results."""
    return list(csv.DictReader((RESULTS / path).read_text().splitlines()))


def test_the_page_of_coefficients_is_that_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    made = script("benchmarks/coefficient_page.py")
    rows = stored("coefficients")
    assert (RESULTS / "coefficients.md").read_text() == made.page(rows)
    cells = [row for row in rows if row["part"] == "coverage"]
    assert sorted(float(row["signs"]) for row in table("data/coefficients.csv")) == sorted(
        row["signs"] for row in cells
    )


def test_the_page_of_surrogates_is_that_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    made = script("benchmarks/surrogate_page.py")
    rows = stored("surrogates")
    lines, claims = made.page(rows, list(dict.fromkeys(row["model"] for row in rows)))
    assert (RESULTS / "surrogates.md").read_text() == "\n".join(lines) + "\n"
    assert all(claim["holds"] for claim in claims)
    for what, path in (("promise", "data/surrogates.csv"), ("steps", "data/surrogates_steps.csv")):
        assert len(table(path)) == sum(row["what"] == what for row in rows)


def test_the_tables_of_the_paper_have_a_row_for_each_method() -> None:
    rows = table("paper/tables.csv")
    page = (RESULTS / "paper/README.md").read_text()
    assert len({(row["experiment"], row["method"]) for row in rows}) == len(rows) > 60
    assert all(f"| {row['method']} | {row['seeds']} |" in page for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_that_of_its_rows(name: str, tmp_path: Path) -> None:
    """In a separate process, because benchmarks set the number of threads when they are imported."""
    text = f"import {name}; {name}.LEDGER.page.read_text() == eval({PAGES[name]!r}, vars({name})) or 1 / 0"
    paths = os.pathsep.join([str(ROOT / "src"), str(BENCHMARKS), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-500:]


def test_the_pages_stay_short() -> None:
    words = sum(len(path.read_text().split()) for path in RESULTS.rglob("*.md"))
    assert words <= 20_000
