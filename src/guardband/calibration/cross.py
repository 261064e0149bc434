"""Calibrate by cross-validation: every reading is used for training and for calibration."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path

import numpy as np

from guardband.base.arrays import Model, fingerprint
from guardband.base.engine import On, connect, each, one_thread, takes_old_places
from guardband.base.files import read_bytes, write_text
from guardband.base.limits import MIB
from guardband.calibration.calibrate import as_predictor
from guardband.calibration.partition import Rows, pair_of, taken
from guardband.conformal.base import Groups, group_labels
from guardband.conformal.cross import CrossValidated, predict_each
from guardband.conformal.score_calibrated import checked_names
from guardband.leaks import refuse_leaks
from guardband.store import load, save
from guardband.store.versions import MANIFEST
from guardband.values import Names, Observations, Predictor
from guardband.values.frames import Columns

IDENTITY = "cross.json"
"""The file that identifies the readings, folds and seed of the models in a folder."""


@takes_old_places
def calibrate_cross(
    fit: Callable[[Observations], Model],
    data: Rows,
    *,
    folds: int | None = None,
    groups: Groups = None,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    on: On = None,
    names: Names | Sequence[str] | None = None,
) -> CrossValidated:
    """Calibrate by cross-validation (jackknife+ or CV+), with all readings used for training and calibration.

    Use this function for small data sets of about twenty to a hundred points.

    Parameters
    ----------
    fit
        A function that trains a model on `Observations` and returns it. The model has one output and any type
        that `gb.calibrate` accepts. The function is called once per fold, with the readings of all other
        folds in random order.
    data
        All readings: `Observations` or a pair (x, y), with one output.
    folds
        Number of folds (CV+). By default every reading, or group, is a fold (jackknife+).
    groups
        One label per row. A group is left out as a whole and counts as one unit, regardless of its size; the
        guarantee applies to a reading of a new group.
    seed
        Seed of the random assignment of rows to folds.
    out
        Folder in which each model is saved after training. An interrupted run resumes when called again with
        the same arguments. A folder with models from different readings, folds or seeds is refused.
    on
        Where models are trained, as in `FieldBand.to_zarr`. The default is this process; `on=4` starts four
        Dask workers.
    names
        Names for the columns of an array x, shown in tables and reports.

    Returns
    -------
    CrossValidated
        The calibrated models. `calibrated(x, level)` returns a `Band`.

    Notes
    -----
    The guaranteed coverage is lower than the level, while the actual coverage is usually close to the level.
    `promise` states both. Hyperparameters must be fixed without the readings, or chosen inside `fit` from the
    readings that it receives; the guarantee is void for hyperparameters that were tuned on all readings.

    If a model is trained only on an equation, use `gb.calibrate` on all readings instead. Its bands are
    narrower, and it guarantees the level itself. If a few readings should correct a trained network, see
    `pinn.Tangent`.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> def fit(data):
    ...     line = np.polyfit(data.x[:, 0], data.y[:, 0], 1)
    ...     return lambda x: np.polyval(line, x)
    >>> x = np.linspace(0, 1, 30)
    >>> calibrated = gb.calibration.calibrate_cross(fit, (x, x + 0.1 * np.cos(50 * x)))
    >>> calibrated
    Jackknife+(30 models, n=30)
    >>> calibrated([0.2, 0.4], level=0.9)
    Band(level=0.9, 2 points)
    """
    x, y = pair_of(data)
    data = data if isinstance(data, Observations) else Observations(x, y)
    if not callable(fit):
        raise TypeError(f"`fit` should be a function of observations, got {type(fit).__name__}.")
    if tuple(data.y.shape[1:]) != (1,):
        raise ValueError(
            f"Cross-calibration supports one output, y of shape (n, 1), got {tuple(data.y.shape)}. Calibrate "
            "each output separately."
        )
    group = None if groups is None else group_labels(groups, len(data))
    fold = assign_folds(len(data), folds, group, seed)
    all_folds = [Fold(data, fold, k, seed) for k in range(fold.max() + 1)]
    with connect(on) as client:
        folder = None if out is None else Path(out)
        models = dict(_saved(folder, data, fold, seed))
        for k, model in each(
            client, partial(trained, fit), [one for one in all_folds if one.k not in models]
        ):
            all_folds[k].refuse_seen(model)
            models[k] = model if folder is None else _save(model, folder, k)
    in_order = tuple(models[one.k] for one in all_folds)
    columns = None if data.names is None else Columns(data.names, data.names)
    prediction = predict_each(in_order, data.x, columns)
    checked = None if names is None else checked_names(names, in_order[0], prediction, columns)
    return CrossValidated(in_order, fold, prediction, data.y, group, columns, checked)


@dataclass(frozen=True, eq=False)
class Fold:
    """All readings, the fold of each, and the index of the fold that is left out."""

    data: Observations
    fold: np.ndarray
    k: int
    seed: int

    @property
    def others(self) -> Observations:
        """The training data of this fold: the readings of all other folds, in random order."""
        rows = np.random.default_rng([self.seed, self.k]).permutation(np.flatnonzero(self.fold != self.k))
        return Observations(taken(self.data.x, rows), taken(self.data.y, rows), names=self.data.names)

    def refuse_seen(self, model: Predictor) -> None:
        """Refuse a model that was trained on readings of the fold that was left out."""
        if model.training_data is None:
            return
        rows = np.flatnonzero(self.fold == self.k)
        names, data = model.training_data.names, self.data
        if names is not None and {*names} == {*(data.names or ())}:
            data = data.on_axes(names)
        left_out = taken(data.x, rows), taken(data.y, rows)
        try:
            refuse_leaks({"training": model.training_data}, *left_out)
        except ValueError as error:
            raise ValueError(
                f"`fit` should train only on the observations that it receives: {error}"
            ) from error


def trained(fit: Callable[[Observations], Model], fold: Fold) -> tuple[int, Predictor]:
    """Train a model without one fold, and return the index of the fold and the model."""
    with one_thread():
        model = fit(fold.others)
    if model is None:
        raise TypeError("`fit` should return the trained model, got None.")
    return fold.k, as_predictor(model, fold.data.x)


def assign_folds(n: int, folds: int | None, groups: np.ndarray | None, seed: int) -> np.ndarray:
    """The random fold of each row, shape (n,); the numbers of units per fold differ by at most one."""
    unit = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    units = int(unit.max(initial=-1)) + 1
    what = "readings" if groups is None else "groups"
    if units < 2:
        raise ValueError(f"`data` should hold at least 2 {what}, one to leave out and one to train on.")
    count = units if folds is None else folds
    if isinstance(count, bool) or not isinstance(count, Integral) or not 2 <= count <= units:
        raise ValueError(
            f"`folds` should be an integer from 2 to the number of {what}, {units}, or None to leave out "
            f"one at a time, got {folds!r}."
        )
    return np.random.default_rng(seed).permutation(np.arange(units) % int(count))[unit]


def _saved(
    out: Path | None, data: Observations, fold: np.ndarray, seed: int
) -> Iterator[tuple[int, Predictor]]:
    """The models saved in a folder, which is marked with the identity of the run; other runs' are refused."""
    if out is None:
        return
    wanted = {"readings": fingerprint([data.x, data.y]), "folds": fingerprint([fold]), "seed": seed}
    path = out / IDENTITY
    if not path.exists():
        if out.exists() and any(out.iterdir()):
            raise FileExistsError(f"{out} contains other files. Pass an empty folder as `out`.")
        write_text(path, json.dumps(wanted) + "\n")
    found = json.loads(read_bytes(path, at_most=MIB))
    if found != wanted:
        other = ", ".join(name for name in wanted if found.get(name) != wanted[name])
        raise ValueError(
            f"{out} contains models of a different run, which differs in {other}. Repeat the "
            "original call, or pass a different folder as `out`."
        )
    for k in range(fold.max() + 1):
        if (out / _name(k) / MANIFEST).exists():
            yield k, load(out / _name(k), Predictor)


def _save(model: Predictor, out: Path, k: int) -> Predictor:
    """Save a model and return it; a model that cannot be saved is refused."""
    try:
        save(model, out / _name(k), overwrite=True)
    except TypeError as error:
        raise TypeError(
            f"With `out` each model is saved, but this one cannot be saved: {error} Or omit `out`."
        ) from error
    return model


def _name(k: int) -> str:
    return f"fold-{k}"
