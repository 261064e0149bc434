"""Ledgers: one line of JSON per result, appended as it is measured, so an interrupted study can resume."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results"


class Ledger:
    """Rows in `results/data/<name>.jsonl`, the page `results/<name>.md` and full tables as CSV."""

    def __init__(self, name: str) -> None:
        self.path, self.page = RESULTS / "data" / f"{name}.jsonl", RESULTS / f"{name}.md"

    def move(self, path: Path) -> None:
        """Keep the rows in another file, and the page next to it."""
        if path != self.path:
            self.path, self.page = path, path.with_suffix(".md")

    def rows(self, **having: Any) -> list[dict[str, Any]]:
        """All rows, or those that have these values."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        found = [json.loads(line) for line in lines]
        return [row for row in found if all(row[key] == value for key, value in having.items())]

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Append rows to the file, and print them."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            for row in rows:
                print(row, flush=True)
                file.write(json.dumps(row) + "\n")
                file.flush()

    def write_table(self, rows: Iterable[dict[str, Any]], suffix: str = "") -> None:
        """Write the full table behind the page as `results/data/<name><suffix>.csv`."""
        rows = list(rows)
        columns = list(dict.fromkeys(name for row in rows for name in row))
        with self.path.with_name(f"{self.path.stem}{suffix}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
