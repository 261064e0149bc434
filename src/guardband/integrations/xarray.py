"""xarray: bands over the variables of a dataset, `ds.guardband.calibrate`, `.band` and `.check`.

    import guardband.integrations.xarray

makes the accessor known to xarray.
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
"""Attributes of a measured variable that its band has too."""

Names = str | Sequence[str]


@xarray.register_dataset_accessor("guardband")
class DatasetBands:
    """What `ds.guardband` can do: every place of the dataset is one row, whatever its dimensions are.

    `inputs` are the variables or coordinates that the model takes, in its order; by default the coordinates
    of the dimensions. Names, units, dimensions and coordinates of the dataset go into its band.

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
        """`gb.calibrate(model, x, y, **options)` on the measured variables `outputs`, at all their places."""
        names = _listed(outputs)
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
        """The band at all places: for each output u its u_mean, u_lower, u_upper and u_offsets."""
        names = _listed(outputs)
        x, dims, shape = self._places(inputs, calibrated)
        band = calibrated(x, level, groups=groups)
        if not isinstance(band, Band):
            raise TypeError(
                f"The sets of {calibrated.name} are no boxes: ask calibrated.contains(x, y, level)."
            )
        m = band.mean.shape[-1]
        if m != len(names) or band.mean.ndim != 2:
            raise ValueError(f"`outputs` should name the {m} outputs of the band, got {', '.join(names)}.")
        known = None if calibrated.target_axes is None else calibrated.target_axes.words
        if known is not None and {*known} != {*names}:
            raise ValueError(
                f"`outputs` should name what was calibrated, {', '.join(map(str, known))}, got "
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
        """`gb.check(calibrated, x)`: whether the guarantee is void at these places."""
        return check(calibrated, self._places(inputs, calibrated)[0])

    def _places(
        self, inputs: Names | None, calibrated: Calibrated | None = None
    ) -> tuple[xarray.DataArray, tuple[str, ...], tuple[int, ...]]:
        """The points (n, d) with named columns, and the dimensions and the shape of their places.

        Columns are in the order of calibration, if that is known.
        """
        data = self._dataset
        names = [str(dim) for dim in data.dims if dim in data.coords] if inputs is None else _listed(inputs)
        axes = None if calibrated is None else calibrated.axes.get("x")
        if axes is not None and axes.words is not None and {*names} == {*axes.words}:
            names = list(axes.words)
        missing = [name for name in names if name not in data.variables]
        if missing or not names:
            raise ValueError(
                "`inputs` should name variables or coordinates of the dataset, got "
                f"{', '.join(names) or 'none'}; there are {', '.join(map(str, data.variables))}."
            )
        dims = tuple(str(dim) for dim in data.dims if any(dim in data[name].dims for name in names))
        columns = [data[name].broadcast_like(_shape(data, dims)).transpose(*dims).values for name in names]
        x = np.stack([column.reshape(-1) for column in columns], axis=1)
        return _table(x, names, data), dims, tuple(int(data.sizes[dim]) for dim in dims)


def _shape(data: xarray.Dataset, dims: Sequence[str]) -> xarray.DataArray:
    """A variable of these dimensions, which others are spread over."""
    sizes = {dim: int(data.sizes[dim]) for dim in dims}
    coords = {dim: data.coords[dim] for dim in dims if dim in data.coords}
    return xarray.DataArray(np.broadcast_to(0.0, tuple(sizes.values())), dims=tuple(dims), coords=coords)


def _table(values: np.ndarray, names: Sequence[str], data: xarray.Dataset) -> xarray.DataArray:
    """Columns with the names, and the units, of the variables that they come from."""
    units = [str(data[name].attrs.get("units", "")) for name in names]
    attrs = {"units": ", ".join(units)} if all(units) else {}
    return xarray.DataArray(values, dims=("row", "column"), coords={"column": list(names)}, attrs=attrs)


def _listed(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
