"""A grid: every predictor with every calibrator on every training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from guardband.conformal import Calibrator, Split
from guardband.studies.base import Cell, Study, Training, Use
from guardband.studies.tables import write_page


def grid(
    name: str,
    trainings: Iterable[Training],
    predictors: Mapping[str, Use],
    calibrators: Mapping[str, Use | Calibrator] | None = None,
    **options: Any,
) -> Study:
    """Every predictor with every calibrator on every training; options are those of `Cell`.

    >>> import guardband as gb
    >>> from guardband.studies import Training, Use, grid
    >>> trainings = [Training(gb.problems.Poisson1D(), (16, 16), n=60, noise=0.1, seed=s) for s in range(5)]
    >>> study = grid("mine", trainings, {"constant": Use(gb.predictors.Constant)}, cal=30, test=100)
    >>> len(study.cells), study.cells[0].key == study.cells[1].key
    (5, False)
    """
    cells = [
        Cell(
            type(training.problem).__name__,
            f"{method}, {how}" if calibrators else method,
            training,
            predictor,
            calibrator=calibrator,
            **options,
        )
        for training in trainings
        for method, predictor in predictors.items()
        for how, calibrator in (calibrators or {"split": Split()}).items()
    ]
    return Study(name, cells, write_page)
