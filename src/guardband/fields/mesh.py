"""Meshes: bands as files for ParaView and PyVista."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from guardband.base import extras
from guardband.base.arrays import ArrayLike, floats, rows, to_numpy
from guardband.values import Band

if TYPE_CHECKING:
    from pyvista import DataSet

CELLS = {1: "LINE", 2: "QUAD", 3: "HEXAHEDRON"}
"""Type of the cells of a grid, by its number of axes."""


def write_mesh(
    band: Band,
    grid: Mapping[str, ArrayLike] | ArrayLike | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    names: Sequence[str] = (),
) -> Path:
    """Write a band at points, or around one whole field, for ParaView (.vtu, .vtk).

    Parameters
    ----------
    band
        Band to write.
    grid
        Positions of the points: named coordinates of a grid, with the last axis varying fastest; points,
        shape (n, d); or a mesh file, whose nodes are the points.
    path
        File to write, .vtu or .vtk.
    names
        Names of the outputs, if there are several.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import guardband as gb
    >>> # one field of an operator such as an FNO, on 4 x 3 nodes
    >>> field = np.zeros((1, 12, 1))
    >>> band = gb.Band(None, field, field - 1, field + 1, 0.9)
    >>> path = tempfile.mkdtemp() + "/band.vtu"
    >>> grid = {"x": np.linspace(0, 1, 4), "y": np.linspace(0, 1, 3)}
    >>> gb.fields.write_mesh(band, grid, path).name
    'band.vtu'
    """
    known = band.grid.dims if band.grid is not None else () if band.names is None else band.names.axes
    if known and isinstance(grid, Mapping):
        if {*grid} != {*known}:
            raise ValueError(f"`grid` should have the axes {', '.join(known)}, got {', '.join(grid)}.")
        grid = {name: grid[name] for name in known}
    mesh = mesh_of(grid)
    m = int(band.mean.shape[-1])
    if names and len(names) != m:
        raise ValueError(f"`names` should name the {m} outputs, got {len(names)}.")
    known = () if band.names is None or m == 1 else band.names.outputs
    labels = names or known or output_names(m) or ("",)
    ends = {"mean": band.mean, f"lower_{band.level:g}": band.lower, f"upper_{band.level:g}": band.upper}
    variables: dict[str, np.ndarray] = {}
    if band.mean.ndim > 2 and len(band.mean) != 1:
        raise ValueError(f"A mesh holds one field, got {len(band.mean)}. Write one file per field.")
    for (j, label), (part, values) in itertools.product(enumerate(labels), ends.items()):
        variables[f"{label}_{part}" if label else part] = to_numpy(values)[..., j].reshape(-1)
    return write_variables(mesh, variables, path)


def output_names(m: int) -> tuple[str, ...]:
    """Default names of several outputs; a single one has no name."""
    return () if m == 1 else tuple(f"y{j}" for j in range(m))


def write_variables(mesh: DataSet, variables: Mapping[str, np.ndarray], path: str | os.PathLike[str]) -> Path:
    """Write a mesh with values at its nodes, in addition to its existing values."""
    for name, values in variables.items():
        if len(values) != len(mesh.points):
            raise ValueError(
                f"`{name}` should have a value for each of {len(mesh.points)} nodes, got {len(values)}."
            )
    path = Path(path)
    if path.suffix not in (".vtu", ".vtk"):
        raise ValueError(f"A mesh is written as .vtu or .vtk, got {path.suffix!r}.")
    written = mesh.cast_to_unstructured_grid()
    for name, values in variables.items():
        written.point_data[name] = values.astype(float)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as folder:  # replace the file atomically
        temporary = Path(folder) / path.name
        written.save(temporary)
        os.replace(temporary, path)
    return path


def mesh_of(grid: Mapping[str, ArrayLike] | ArrayLike | str | os.PathLike[str]) -> DataSet:
    """The mesh in a file, a mesh with the cells of a grid, or one of isolated points."""
    pyvista = extras.load("pyvista", "geometry")
    if isinstance(grid, str | os.PathLike):
        if not Path(grid).is_file():
            raise FileNotFoundError(f"There is no mesh {os.fspath(grid)}.")
        try:
            mesh = pyvista.read(grid)
        except Exception as error:
            raise ValueError(f"{os.fspath(grid)} cannot be read as a mesh: {error}") from error
        if not isinstance(mesh, pyvista.DataSet) or not mesh.n_points:
            raise ValueError(f"{os.fspath(grid)} cannot be read as a mesh: it has no points.")
        return mesh
    if isinstance(grid, Mapping):
        axes = [to_numpy(floats(values, name)).astype(float) for name, values in grid.items()]
        x = np.stack([part.reshape(-1) for part in np.meshgrid(*axes, indexing="ij")], axis=1)
        cells = _cells([len(axis) for axis in axes])
    else:
        x = to_numpy(rows(grid, "grid")).astype(float)
        cells = "VERTEX", np.arange(len(x))[:, None]
    if x.shape[1] > 3:
        raise ValueError(f"A mesh has at most three coordinates, got {x.shape[1]}. Hold the others fixed.")
    points = np.zeros((len(x), 3))
    points[:, : x.shape[1]] = x
    kind, corners = cells
    return pyvista.UnstructuredGrid({pyvista.CellType[kind]: corners}, points)


def _cells(shape: Sequence[int]) -> tuple[str, np.ndarray]:
    """The lines, quadrilaterals or hexahedra of a grid, with corners in VTK's order."""
    number = np.arange(int(np.prod(shape))).reshape(shape)
    around = {1: [(0,), (1,)], 2: [(0, 0), (1, 0), (1, 1), (0, 1)]}
    around[3] = [(*corner, up) for up in (0, 1) for corner in around[2]]
    corners = [
        number[tuple(slice(step, n - 1 + step) for step, n in zip(corner, shape, strict=True))].reshape(-1)
        for corner in around[len(shape)]
    ]
    return CELLS[len(shape)], np.stack(corners, axis=1)
