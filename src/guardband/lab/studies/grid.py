"""Studies of all combinations of training runs, predictors and calibrators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from guardband.conformal import Calibrator, Split
from guardband.lab.studies.base import Cell, Factory, Study, Training
from guardband.lab.studies.tables import write_page


def grid(
    name: str,
    trainings: Iterable[Training],
    predictors: Mapping[str, Factory],
    calibrators: Mapping[str, Factory | Calibrator] | None = None,
    **options: Any,
) -> Study:
    """Return a study of every predictor with every calibrator on every training run.

    Training runs that differ only in their seed form one experiment; other training runs on the same problem
    are numbered.

    Parameters
    ----------
    name
        The name of the study.
    trainings
        The training runs.
    predictors
        Factories of predictors by name.
    calibrators
        Calibrators, or factories of them, by name; by default `Split()`.
    **options
        Further arguments of `Cell`.

    Returns
    -------
    Study
        The study.

    Examples
    --------
    >>> import guardband as gb
    >>> from guardband import pinn
    >>> from guardband.lab.studies import Training, Factory, grid
    >>> trainings = [
    ...     Training(pinn.problems.Poisson1D(), (16, 16), n=60, noise=0.1, seed=s)
    ...     for s in range(5)
    ... ]
    >>> constant = {"constant": Factory(gb.predictors.MeanOnly)}
    >>> study = grid("mine", trainings, constant, cal=30, test=100)
    >>> len(study.cells), study.cells[0].key == study.cells[1].key
    (5, False)
    """
    trainings = list(trainings)
    names = _experiments(trainings)
    cells = [
        Cell(
            experiment,
            f"{method}, {how}" if calibrators else method,
            training,
            predictor,
            calibrator=calibrator,
            **options,
        )
        for training, experiment in zip(trainings, names, strict=True)
        for method, predictor in predictors.items()
        for how, calibrator in (calibrators or {"split": Split()}).items()
    ]
    return Study(name, cells, write_page)


def _experiments(trainings: Sequence[Training]) -> list[str]:
    """Return the problem's name for each training run, numbered if runs differ in more than the seed."""
    kinds: dict[str, list[str]] = {}
    numbered = []
    for training in trainings:
        name, kind = type(training.problem).__name__, replace(training, seed=0).key
        known = kinds.setdefault(name, [])
        if kind not in known:
            known.append(kind)
        numbered.append((name, known.index(kind) + 1))
    return [f"{name} {number}" if len(kinds[name]) > 1 else name for name, number in numbered]
