"""Ledgers: results as lines of JSON, added one by one, so that a study that was stopped goes on."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results"


class Ledger:
    """`results/<name>.jsonl`, and the page `results/<name>.md` that is made of it."""

    def __init__(self, name: str) -> None:
        self.path, self.page = RESULTS / f"{name}.jsonl", RESULTS / f"{name}.md"

    def rows(self, **having: Any) -> list[dict[str, Any]]:
        """All rows, or those that have these values."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        found = [json.loads(line) for line in lines]
        return [row for row in found if all(row[key] == value for key, value in having.items())]

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Write rows at the end, and on the screen."""
        RESULTS.mkdir(exist_ok=True)
        with self.path.open("a") as file:
            for row in rows:
                print(row, flush=True)
                file.write(json.dumps(row) + "\n")
                file.flush()
