"""What guardband 0.1 wrote of a cell: not which law it follows, which the name of its calibrator told."""

from __future__ import annotations

from guardband.conformal.rank import rank
from guardband.lab.studies.base import Result

LAWFUL = ("Split", "Local")
"""The calibrators of 0.1 whose coverage follows the Beta-binomial law, as its files name them."""


def laws(cell: Result) -> list[list[list[int]]] | None:
    """At each level k, n and m of the law of one draw; None where there is none."""
    calibrator = cell["calibrator"]
    name = str(calibrator.get("use", calibrator.get("kind", ""))).rpartition(".")[2]
    if name not in LAWFUL:
        return None
    n, m = cell["cal"], cell["test"]
    return [[[rank(n, level), n, m]] for level in cell["levels"]]
