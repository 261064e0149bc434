"""Results written by guardband 0.1, which contain no law: it follows from the name of the calibrator."""

from __future__ import annotations

from guardband.conformal.rank import rank
from guardband.lab.studies.base import Result

LAWFUL = ("Split", "Local")
"""The calibrators of version 0.1 whose coverage follows the beta-binomial law, by their names in files."""


def laws(cell: Result) -> list[list[list[int]]] | None:
    """Return k, n and m of the law of one draw at each level, or None if there is no law."""
    calibrator = cell["calibrator"]
    name = str(calibrator.get("use", calibrator.get("kind", ""))).rpartition(".")[2]
    if name not in LAWFUL:
        return None
    n, m = cell["cal"], cell["test"]
    return [[[rank(n, level), n, m]] for level in cell["levels"]]
