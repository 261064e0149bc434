"""Update names and keys of stored results: `python tools/rename_cells.py results/paper ...`.

The key of a cell is a hash of its description, which contains names of classes and fields. After a rename in
the library, studies no longer find results stored under the old name. This script writes the new names, the
resulting keys, and missing checksums. It adds and drops no input and leaves measurements, versions, threads
and times unchanged. Running it again changes nothing.

For a new name, add a line to `KINDS` or `FIELDS`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from guardband.base.files import write_text
from guardband.lab.studies import records
from guardband.lab.studies.base import key_of

KINDS = {
    "guardband.Constant": "guardband.MeanOnly",
    "guardband.Disc": "guardband.NoisyDisk",
}
"""Current names of classes and functions by their former names."""

POINTS = {"inside": "n_interior", "faces": "n_boundary"}
FIELDS = {
    "guardband.Recipe": POINTS | {"patience": "min_improvement"},
    "guardband.MeanFieldVI": POINTS,
    "guardband.HMC": POINTS,
    "guardband.Distance": {"neighbours": "n_neighbors"},
    "guardband.LatentDistance": {"neighbours": "n_neighbors"},
}
"""Former names of the fields and options of a class, by its current name."""


def renamed(described: Any) -> Any:
    """A description with current names."""
    if isinstance(described, list):
        return [renamed(item) for item in described]
    if isinstance(described, dict):
        kind = str(described.get("kind") or described.get("use"))
        names = FIELDS.get(KINDS.get(kind, kind), {})
        return {names.get(name, name): renamed(item) for name, item in described.items()}
    return KINDS.get(described, described) if isinstance(described, str) else described


def record(line: str) -> str:
    """The line of a stored result with current names; the same line if nothing changed."""
    result = json.loads(line)
    cell = renamed(result["cell"])
    new = result | {"key": key_of(cell), "cell": cell}
    return line if new == result and records.CHECKSUM in result else records.sealed(new)


def rename(folder: Path) -> int:
    """Pack the results of a study's folder and rename them; return the number of changed results."""
    records.pack(folder)
    before = records.look(folder).every
    after = [record(line) for line in before]
    if after != before:
        write_text(folder / records.PACK, records.joined(after))
    return sum(new != old for new, old in zip(after, before, strict=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    for folder in parser.parse_args().folders:
        print(f"{folder}: {rename(folder)} results changed")
