"""Give stored results today's names and keys: `python tools/rename_cells.py results/paper ...`.

The key of a cell is a hash of its description, and the description names classes and fields. Where the
library renames one, results made before have the old name, and no study finds them. This script puts the new
names in, and the key that follows from them, and a checksum where there is none. It adds and drops no input,
and what was measured, with which versions, on how many threads and how long, stays as it was. A second run
changes nothing.

A new name is one more line in `KINDS` or `FIELDS`.
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
"""Classes and functions, by what they were called."""

POINTS = {"inside": "n_interior", "faces": "n_boundary"}
FIELDS = {
    "guardband.Recipe": POINTS | {"patience": "min_improvement"},
    "guardband.MeanFieldVI": POINTS,
    "guardband.HMC": POINTS,
    "guardband.Distance": {"neighbours": "n_neighbors"},
    "guardband.LatentDistance": {"neighbours": "n_neighbors"},
}
"""Fields and options of a class, by its name today and by what they were called."""


def renamed(described: Any) -> Any:
    """A description with today's names."""
    if isinstance(described, list):
        return [renamed(item) for item in described]
    if isinstance(described, dict):
        kind = str(described.get("kind") or described.get("use"))
        names = FIELDS.get(KINDS.get(kind, kind), {})
        return {names.get(name, name): renamed(item) for name, item in described.items()}
    return KINDS.get(described, described) if isinstance(described, str) else described


def record(line: str) -> str:
    """The line of a stored result under today's names; the same line if nothing is new."""
    result = json.loads(line)
    cell = renamed(result["cell"])
    new = result | {"key": key_of(cell), "cell": cell}
    return line if new == result and records.CHECKSUM in result else records.sealed(new)


def rename(folder: Path) -> int:
    """Pack the results of a study's folder and rename them; how many were changed."""
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
