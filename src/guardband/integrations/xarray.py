"""Bands over the variables of a dataset: `ds.guardband.calibrate`, `.band` and `.check`.

    import guardband.integrations.xarray

registers the accessor with xarray.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from guardband.base.arrays import to_numpy
from guardband.calibration.calibrate import calibrate
from guardband.checks.checks import Findings, check
from guardband.conformal import Calibrated
from guardband.conformal.base import Groups
from guardband.conformal.rank import Level, exact
from guardband.values import Band, cf
from guardband.values.labeled import arranged_targets

try:
    import xarray
except ImportError as _error:
    raise ImportError('This needs xarray: pip install "guardband[xarray]".') from _error

KEPT = ("units", "standard_name")
"""Attributes of a measured variable that are copied to its band."""

Names = str | Sequence[str]


@xarray.register_dataset_accessor("guardband")
class DatasetBands:
    """The accessor `ds.guardband`: each point of the dataset is one row, regardless of its dimensions.

    Bands inherit the names, units, dimensions and coordinates of the dataset.

    Parameters
    ----------
    dataset
        The dataset; xarray passes it.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray
    >>> import guardband.integrations.xarray
    >>> x, t = np.linspace(0, 1, 8), np.linspace(0, 2, 5)
    >>> u = np.sin(x)[:, None] * np.exp(-t) + 0.01 * np.cos(np.arange(40.0)).reshape(8, 5)
    >>> ds = xarray.Dataset({"u": (("x", "t"), u, {"units": "K"})}, coords={"x": x, "t": t})
    >>> calibrated = ds.guardband.calibrate(
    ...     lambda x: np.sin(x[:, 0]) * np.exp(-x[:, 1]), "u"
    ... )
    >>> band = ds.guardband.band(calibrated, "u", level=0.9)
    >>> band["u_upper"].dims, band["u_upper"].attrs["units"], band.attrs["Conventions"]
    (('x', 't'), 'K', 'CF-1.11')
    """

    def __init__(self, dataset: xarray.Dataset) -> None:
        self._dataset = dataset

    def calibrate(
        self, model: Any, outputs: Names, *, inputs: Names | None = None, **options: Any
    ) -> Calibrated:
        """Calibrate a model on measured variables, at all points of the dataset.

        Parameters
        ----------
        model
            The model or predictor, as in `gb.calibrate`.
        outputs
            The measured variables, in the order of the model's outputs.
        inputs
            The variables or coordinates that are the columns of x, in the order of the model; by default the
            coordinates of the dimensions.
        **options
            Further arguments of `gb.calibrate`.

        Returns
        -------
        Calibrated
            The calibration.
        """
        names = _as_list(outputs)
        x, dims, _ = self._places(inputs)
        columns = [self._dataset[name].broadcast_like(_shape(self._dataset, dims)) for name in names]
        y = np.stack([column.transpose(*dims).values.reshape(-1) for column in columns], axis=1)
        return calibrate(model, x, _table(y, names, self._dataset), **options)

    def band(
        self,
        calibrated: Calibrated,
        outputs: Names,
        *,
        inputs: Names | None = None,
        level: Level = 0.95,
        groups: Groups = None,
    ) -> xarray.Dataset:
        """Return the band at all points of the dataset.

        Parameters
        ----------
        calibrated
            The calibration.
        outputs
            The names of the outputs.
        inputs
            The variables or coordinates that are the columns of x; by default the coordinates of the
            dimensions.
        level
            Requested coverage, strictly between 0 and 1.
        groups
            One label per point, for calibrators that use groups.

        Returns
        -------
        Dataset
            The variables u_mean, u_lower, u_upper and u_offsets for each output u.
        """
        names = _as_list(outputs)
        x, dims, shape = self._places(inputs, calibrated)
        band = calibrated(x, level, groups=groups)
        if not isinstance(band, Band):
            raise TypeError(
                f"The prediction sets of {calibrated.name} are not boxes; use "
                "calibrated.contains(x, y, level)."
            )
        m = band.mean.shape[-1]
        if m != len(names) or band.mean.ndim != 2:
            raise ValueError(f"`outputs` should name the {m} outputs of the band, got {', '.join(names)}.")
        known = None if calibrated.target_axes is None else calibrated.target_axes.words
        if known is not None and {*known} != {*names}:
            raise ValueError(
                f"`outputs` should name the calibrated variables, {', '.join(map(str, known))}, got "
                f"{', '.join(names)}. Rename the variable: ds.rename(...)."
            )
        names = [str(name) for name in known or names]
        if all(name in self._dataset for name in names):  # in the units of calibration
            empty = _table(np.empty((0, m)), names, self._dataset)
            arranged_targets(empty, calibrated.axes.get("y"), "outputs")
        made: dict[str, Any] = {}
        for j, name in enumerate(names):
            ends = {part: to_numpy(getattr(band, part))[:, j].reshape(shape) for part in ("mean", *cf.ENDS)}
            known = self._dataset[name].attrs if name in self._dataset else {}
            about = {word: known[word] for word in KEPT if word in known}
            made |= cf.variables(dims, ends, float(exact(level)), prefix=f"{name}_", attributes=about)
        coords = {
            name: place.copy() for name, place in self._dataset.coords.items() if {*place.dims} <= {*dims}
        }
        about = cf.dataset_attributes(comment=calibrated.promise, calibration=repr(calibrated))
        return cf.described(xarray.Dataset(made, coords=coords, attrs=about))

    def check(self, calibrated: Calibrated, *, inputs: Names | None = None) -> Findings:
        """Check whether the guarantee is void at the points of the dataset, with `gb.check`.

        Parameters
        ----------
        calibrated
            The calibration.
        inputs
            The variables or coordinates that are the columns of x; by default the coordinates of the
            dimensions.

        Returns
        -------
        Findings
            The findings of `gb.check`.
        """
        return check(calibrated, self._places(inputs, calibrated)[0])

    def _places(
        self, inputs: Names | None, calibrated: Calibrated | None = None
    ) -> tuple[xarray.DataArray, tuple[str, ...], tuple[int, ...]]:
        """Return the points (n, d) with named columns, and the dimensions and shape of their grid.

        Columns are in the order of calibration, if it is known.
        """
        data = self._dataset
        names = [str(dim) for dim in data.dims if dim in data.coords] if inputs is None else _as_list(inputs)
        axes = None if calibrated is None else calibrated.axes.get("x")
        if axes is not None and axes.words is not None and {*names} == {*axes.words}:
            names = list(axes.words)
        missing = [name for name in names if name not in data.variables]
        if missing or not names:
            raise ValueError(
                "`inputs` should name variables or coordinates of the dataset, got "
                f"{', '.join(names) or 'none'}; the dataset has {', '.join(map(str, data.variables))}."
            )
        dims = tuple(str(dim) for dim in data.dims if any(dim in data[name].dims for name in names))
        columns = [data[name].broadcast_like(_shape(data, dims)).transpose(*dims).values for name in names]
        x = np.stack([column.reshape(-1) for column in columns], axis=1)
        return _table(x, names, data), dims, tuple(int(data.sizes[dim]) for dim in dims)


def _shape(data: xarray.Dataset, dims: Sequence[str]) -> xarray.DataArray:
    """Return a variable with these dimensions, as a target for broadcasting."""
    sizes = {dim: int(data.sizes[dim]) for dim in dims}
    coords = {dim: data.coords[dim] for dim in dims if dim in data.coords}
    return xarray.DataArray(np.broadcast_to(0.0, tuple(sizes.values())), dims=tuple(dims), coords=coords)


def _table(values: np.ndarray, names: Sequence[str], data: xarray.Dataset) -> xarray.DataArray:
    """Return columns with the names and units of their variables."""
    units = [str(data[name].attrs.get("units", "")) for name in names]
    attrs = {"units": ", ".join(units)} if all(units) else {}
    return xarray.DataArray(values, dims=("row", "column"), coords={"column": list(names)}, attrs=attrs)


def _as_list(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
