"""Crossing: calibrate without spending a reading, by models that were each trained without some of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from guardband.base.arrays import fingerprint
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
"""What says of a folder which readings and folds its models belong to."""


@takes_old_places
def calibrate_cross(
    fit: Callable[[Observations], Any],
    data: Rows,
    *,
    folds: int | None = None,
    groups: Groups = None,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    on: On = None,
    names: Names | Sequence[str] | None = None,
) -> CrossValidated:
    """Calibrate on all readings and train on all of them: jackknife+ and CV+, for twenty to a hundred points.

    `fit(observations)` trains a model of one output and returns it: anything that `gb.calibrate` takes. It is
    called once for each fold, with the readings of all others, in random order. Settings (hyperparameters)
    must be fixed without the readings, or chosen inside `fit` by those that it is given: the promise is void
    for settings that were tuned on all of them. Without `folds` each reading is left out by itself, which is
    jackknife+; with `folds=10` a tenth at a time, which is CV+. Rows are dealt to folds at random, by `seed`.
    With `groups`, one label per row, a group is left out as a whole and counts as one, however many readings
    it has, and the promise is about a reading of a new group.

    The promise is weaker than the level, and what is seen is usually near the level: `promise` has both.
    Where training is by an equation alone, calibrate on all readings by `gb.calibrate`, which is narrower and
    promises the level itself; where few readings should correct a network, see `pinn.Tangent`.

    Models are trained in this process, or where `on` says, as for `FieldBand.to_zarr`: `on=4` is so many Dask
    workers here. With a folder `out` each is kept there when it is finished: a run that was killed goes on
    with the others when called again in the same way, with the same `fit`. Folders of other readings, folds
    or seeds are refused.

    `names` are those of the columns of x, where it is an array; tables and reports show them.

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
            f"Cross-calibration is about one output, y of shape (n, 1), got {tuple(data.y.shape)}. Calibrate "
            "each output by itself."
        )
    of = None if groups is None else group_labels(groups, len(data))
    fold = dealt(len(data), folds, of, seed)
    asked = [Fold(data, fold, k, seed) for k in range(fold.max() + 1)]
    with connect(on) as client:
        kept = None if out is None else Path(out)
        models = dict(_kept(kept, data, fold, seed))
        for k, model in each(client, partial(trained, fit), [one for one in asked if one.k not in models]):
            asked[k].refuse_seen(model)
            models[k] = model if kept is None else _keep(model, kept, k)
    in_order = tuple(models[one.k] for one in asked)
    columns = None if data.names is None else Columns(data.names, data.names)
    prediction = predict_each(in_order, data.x, columns)
    known = None if names is None else checked_names(names, in_order[0], prediction, columns)
    return CrossValidated(in_order, fold, prediction, data.y, of, columns, known)


@dataclass(frozen=True, eq=False)
class Fold:
    """One of several folds: all readings, the fold of each, the number of this one, and a seed."""

    data: Observations
    fold: np.ndarray
    k: int
    seed: int

    @property
    def others(self) -> Observations:
        """What the model is trained on: the readings of all other folds, in random order."""
        rows = np.random.default_rng([self.seed, self.k]).permutation(np.flatnonzero(self.fold != self.k))
        return Observations(taken(self.data.x, rows), taken(self.data.y, rows), names=self.data.names)

    def refuse_seen(self, model: Predictor) -> None:
        """A model that has seen what was left out is too good there."""
        if model.training_data is None:
            return
        rows = np.flatnonzero(self.fold == self.k)
        names, data = model.training_data.names, self.data
        if names is not None and {*names} == {*(data.names or ())}:
            data = data.on_axes(names)
        out = taken(data.x, rows), taken(data.y, rows)
        try:
            refuse_leaks({"training": model.training_data}, *out)
        except ValueError as error:
            raise ValueError(
                f"`fit` should train on the observations that it is given, and on no others: {error}"
            ) from error


def trained(fit: Callable[[Observations], Any], fold: Fold) -> tuple[int, Predictor]:
    """The number of a fold, and a model that has not seen it."""
    with one_thread():
        model = fit(fold.others)
    if model is None:
        raise TypeError("`fit` should return the model that it has trained, got None.")
    return fold.k, as_predictor(model, fold.data.x)


def dealt(n: int, folds: int | None, groups: np.ndarray | None, seed: int) -> np.ndarray:
    """Which fold each row is in, (n,): units at random, as many in each as can be."""
    unit = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    units = int(unit.max(initial=-1)) + 1
    what = "readings" if groups is None else "groups"
    if units < 2:
        raise ValueError(f"`data` should hold at least 2 {what}, one to leave out and one to train on.")
    count = units if folds is None else folds
    if isinstance(count, bool) or not isinstance(count, Integral) or not 2 <= count <= units:
        raise ValueError(
            f"`folds` should be a whole number from 2 to the {units} {what}, or None to leave out one at a "
            f"time, got {folds!r}."
        )
    return np.random.default_rng(seed).permutation(np.arange(units) % int(count))[unit]


def _kept(
    out: Path | None, data: Observations, fold: np.ndarray, seed: int
) -> Iterator[tuple[int, Predictor]]:
    """The models that a folder holds; it is marked with what it belongs to, and others are refused."""
    if out is None:
        return
    mine = {"readings": fingerprint([data.x, data.y]), "folds": fingerprint([fold]), "seed": seed}
    path = out / IDENTITY
    if not path.exists():
        if out.exists() and any(out.iterdir()):
            raise FileExistsError(f"{out} holds something else. Give `out` a folder of its own.")
        write_text(path, json.dumps(mine) + "\n")
    theirs = json.loads(read_bytes(path, at_most=MIB))
    if theirs != mine:
        other = ", ".join(name for name in mine if theirs.get(name) != mine[name])
        raise ValueError(
            f"{out} holds models of another run: its {other} differ. Call it as before, or give "
            "`out` another folder."
        )
    for k in range(fold.max() + 1):
        if (out / _name(k) / MANIFEST).exists():
            yield k, load(out / _name(k), Predictor)


def _keep(model: Predictor, out: Path, k: int) -> Predictor:
    """A model, written whole; one that cannot be kept is refused."""
    try:
        save(model, out / _name(k), overwrite=True)
    except TypeError as error:
        raise TypeError(
            f"With `out` each model is kept on disk, and this one cannot be: {error} Or leave `out` away."
        ) from error
    return model


def _name(k: int) -> str:
    return f"fold-{k}"
