"""Ledgers: results as lines of JSON, added one by one, so that a study that was stopped goes on."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results"


class Ledger:
    """Rows in `results/data/<name>.jsonl`, and the page `results/<name>.md` made from them."""

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
        """Write rows at the end, and on the screen."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            for row in rows:
                print(row, flush=True)
                file.write(json.dumps(row) + "\n")
                file.flush()
