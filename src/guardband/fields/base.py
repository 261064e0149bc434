"""The points of a field in chunks, and the band over a chunk, computed in micro-batches."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as part_of
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np

from guardband.base.arrays import to_numpy
from guardband.conformal import Calibrated
from guardband.conformal.rank import allow_infinite
from guardband.values import Prediction, cf

Block: TypeAlias = tuple[slice, ...]
"""A part of a field: a slice per axis."""

Attributes: TypeAlias = dict[str, str | float]
"""Attributes of a variable or a store, by the CF conventions."""

POINTS_PER_CHUNK = 2**18
"""Largest number of points in a chunk, which is computed and written as a whole."""

Coordinate: TypeAlias = tuple[tuple[str, ...], np.ndarray, dict[str, str]]
"""Dimensions, values and attributes, in the form that xarray expects."""

PARTS = ("mean", "lower", "upper")
"""The parts of a band that are computed by default."""

BATCHES = (512, 1024, 2048, 4096, 8192, 16384)
"""Micro-batch sizes that a short timing run compares."""

USUAL = 4096
"""Default size of a micro-batch."""


@dataclass(frozen=True, eq=False)
class Chunked:
    """A calibration and points in chunks that are computed independently.

    `axes` are the coordinates of a grid, or one axis of points (n, d).
    """

    calibrated: Calibrated
    axes: dict[str, np.ndarray]
    levels: tuple[str, ...]
    names: tuple[str, ...] = ()
    units: dict[str, str] = part_of(default_factory=dict)
    parts: tuple[str, ...] = PARTS
    chunk: int = POINTS_PER_CHUNK
    unit: ClassVar[str] = "point"

    @cached_property
    def data(self) -> str:
        """A fingerprint of data that are read from files; empty if the points come from the axes."""
        return ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of points along each axis."""
        return tuple(len(values) for values in self.axes.values())

    @property
    def variables(self) -> list[str]:
        """The names of all variables: of every output, the mean and the other parts at every level."""
        ends = [f"{part}_{level}" for level in self.levels for part in self.parts if part != "mean"]
        found = ["mean", *ends] if "mean" in self.parts else ends
        return [f"{name}_{part}" if name else part for name in self.names or ("",) for part in found]

    @cached_property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a chunk: complete rows of the last axes as far as they fit."""
        sizes, room = [], max(1, self.chunk)
        for n in reversed(self.shape):
            sizes.append(min(n, room))
            room = max(1, room // n)
        return tuple(reversed(sizes))

    def regions(self) -> Iterator[Block]:
        """Iterate over the chunks in order.

        Yields
        ------
        tuple of slice
            One slice per axis.
        """
        starts = [range(0, n, size) for n, size in zip(self.shape, self.chunks, strict=True)]
        for corner in itertools.product(*starts):
            ends = zip(corner, self.chunks, self.shape, strict=True)
            yield tuple(slice(start, min(start + size, n)) for start, size, n in ends)

    def __len__(self) -> int:
        return math.prod(self.shape)

    def __repr__(self) -> str:
        shape = ", ".join(f"{name}={n}" for name, n in zip(self.axes, self.shape, strict=True))
        return f"{type(self).__name__}({shape}: {', '.join(self.variables)})"

    def points(self, region: Block) -> np.ndarray:
        """Return the points of a region.

        Parameters
        ----------
        region
            One slice per axis.

        Returns
        -------
        np.ndarray
            Points, shape (n, d), in the order of a flattened array.
        """
        if not self.is_grid:
            return self.axes["point"][region[0]]
        parts = [values[part] for values, part in zip(self.axes.values(), region, strict=True)]
        return np.stack([axis.reshape(-1) for axis in np.meshgrid(*parts, indexing="ij")], axis=1)

    def compute(self, region: Block | None = None, *, batch: int = USUAL) -> dict[str, np.ndarray]:
        """Compute the variables in memory.

        Parameters
        ----------
        region
            One slice per axis, by default everything.
        batch
            Size of a micro-batch.

        Returns
        -------
        dict of str to np.ndarray
            Values by variable, in the shape of the region.
        """
        if region is None:
            whole = {name: np.empty(self.shape, self.dtype) for name in self.variables}
            for chunk in self.regions():  # the same chunks as in all other methods, so the numbers agree
                for name, values in self.compute(chunk, batch=batch).items():
                    whole[name][chunk] = values
            return whole
        size = tuple(part.stop - part.start for part in region)
        ends = self.ends(predicted(self.calibrated, self.points(region), batch))
        return {name: values.reshape(size) for name, values in ends.items()}

    def ends(self, prediction: Prediction) -> dict[str, np.ndarray]:
        """Return the variables for a prediction.

        Parameters
        ----------
        prediction
            Prediction at some points.

        Returns
        -------
        dict of str to np.ndarray
            Values by variable, one array per output.
        """
        ends = [prediction.mean] if "mean" in self.parts else []
        with allow_infinite():
            for level in self.levels:
                band = self.calibrated.band(prediction, level)
                ends += [getattr(band, part) for part in self.parts if part != "mean"]
        outputs = range(max(1, len(self.names)))
        arrays = [to_numpy(end) for end in ends]
        values = [end[..., j].astype(self.dtype, copy=False) for j in outputs for end in arrays]
        return dict(zip(self.variables, values, strict=True))

    def tuned_batch(self) -> int:
        """Measure which micro-batch size is fastest, which takes a second or two.

        All sizes are timed in turn on the same points, and the best times are compared, to
        reduce the influence of other work on the machine. A small field uses the default.

        Returns
        -------
        int
            Size of a micro-batch.
        """
        x = self.points(next(self.regions()))[: 2 * max(BATCHES)]
        if len(self) < 50 * len(x) or len(x) < max(BATCHES):
            return USUAL
        best = dict.fromkeys(BATCHES, math.inf)
        for _, batch in itertools.product(range(5), BATCHES):
            start = time.perf_counter()
            predicted(self.calibrated, x, batch)
            best[batch] = min(best[batch], time.perf_counter() - start)
        return min(BATCHES, key=lambda batch: best[batch])

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(self.axes)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of coordinates and results."""
        return next(iter(self.axes.values())).dtype

    def coordinates(self) -> dict[str, Coordinate]:
        """Return the coordinates of a grid by name, or the coordinates of points as x0, x1, ...

        Returns
        -------
        dict
            Dimensions, values and attributes by name.
        """
        if self.is_grid:
            units = {name: {"units": self.units[name]} if name in self.units else {} for name in self.axes}
            return {name: ((name,), values, units[name]) for name, values in self.axes.items()}
        return {f"x{j}": (("point",), values, {}) for j, values in enumerate(self.axes["point"].T)}

    @property
    def is_grid(self) -> bool:
        """Whether the points are all combinations of coordinates rather than a list of points."""
        return all(values.ndim == 1 for values in self.axes.values())

    def attributes(self, variable: str) -> Attributes:
        """Return the attributes of a variable by the CF conventions.

        Parameters
        ----------
        variable
            Name of the variable.

        Returns
        -------
        dict
            Attributes by name.
        """
        head, _, level = variable.rpartition("_")
        output, _, part = (variable if variable.endswith("mean") else head).rpartition("_")
        about: Attributes = {"units": self.units[output]} if output in self.units else {}
        of = f" of {output}" if output else ""
        if part == "mean":
            each = len(self.variables) // max(1, len(self.names))  # variables of one output are adjacent
            first = self.variables.index(variable)
            ends = self.variables[first + 1 : first + each]
            return about | {"long_name": f"prediction{of}", "ancillary_variables": " ".join(ends)}
        what = "width" if part == "width" else f"{part} end"
        return about | {
            "long_name": f"{what} of the {level} prediction band{of}",
            "level": float(level),
        }

    def about(self) -> Attributes:
        """Return the attributes of the whole field, with its guarantee.

        Returns
        -------
        dict
            Attributes by name.
        """
        return {
            "Conventions": cf.CONVENTIONS,
            "title": "prediction bands by guardband",
            "comment": self.calibrated.promise,
            "calibration": repr(self.calibrated),
        }


def predicted(calibrated: Calibrated, x: np.ndarray, batch: int) -> Prediction:
    """The prediction at x, computed in micro-batches."""
    parts = [calibrated.predict(x[start : start + batch]) for start in range(0, len(x), batch)]
    return type(parts[0]).joined(parts)
