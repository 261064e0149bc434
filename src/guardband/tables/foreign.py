"""Foreign formats: Parquet, NetCDF and VTK, by other libraries; they read where `apart.py` says."""

from __future__ import annotations

import io
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from guardband.base import extras
from guardband.base.netcdf import own_variables
from guardband.tables.table import Budget, Columns, Table, TableError, check_cells, wrong

ROWS = 2**16
"""Rows of a .parquet that are unpacked at a time."""


def read_parquet(data: bytes, budget: Budget) -> Columns:
    """The columns of a .parquet."""
    arrow, parquet = extras.load("pyarrow", "tables"), extras.load("pyarrow.parquet", "tables")
    about = parquet.read_metadata(io.BytesIO(data))
    schema = about.schema.to_arrow_schema()
    for field in schema:
        if arrow.types.is_nested(field.type):
            raise TableError(
                f"Column `{field.name[:40]}` should hold numbers or text, got {str(field.type)[:40]}."
            )
    budget.take(about.num_rows, about.num_columns)
    # Text stays a dictionary: a long cell that occurs a million times is in memory once.
    file = parquet.ParquetFile(io.BytesIO(data), read_dictionary=about.schema.names)
    table = arrow.Table.from_batches(list(file.iter_batches(ROWS, use_threads=False)), file.schema_arrow)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count:
            raise wrong(name, column.is_null().to_pylist().index(True) + 1, "be complete", "null")
        yield name, _cells(arrow, column, budget)


def _cells(arrow: Any, column: Any, budget: Budget) -> Any:
    """The cells of a column as an array: of words, each once in the file, as one of text."""
    if not arrow.types.is_dictionary(column.type):
        return column.to_numpy()
    column = column.unify_dictionaries()
    words = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
    if not words or not all(isinstance(word, str) for word in words):
        return np.array(column.to_pylist())
    wide = 4 * max(1, *map(len, words)) * (len(words) + len(column))
    if wide > budget.left:
        raise TableError(
            f"A cell of text should be short, got {max(map(len, words))} characters. Shorten it."
        )
    known = np.array(words, dtype=np.str_)
    return np.concatenate([known[chunk.indices.to_numpy()] for chunk in column.chunks])


def write_parquet(table: Table, *_: Any) -> bytes:
    """A .parquet."""
    arrow, parquet = extras.load("pyarrow", "tables"), extras.load("pyarrow.parquet", "tables")
    buffer = io.BytesIO()
    columns = {name: arrow.array(column.tolist()) for name, column in table.columns.items()}
    parquet.write_table(arrow.table(columns), buffer)
    return buffer.getvalue()


def read_netcdf(data: bytes, budget: Budget) -> Columns:
    """The columns of a .nc: its variables, over one dimension or a grid."""
    xarray = extras.load("xarray", "scale")
    engine = "h5netcdf" if data.startswith(b"\x89HDF") else "scipy"
    extras.load(engine, "scale")
    if engine == "h5netcdf":
        _look_through(data)
    with xarray.open_dataset(io.BytesIO(data), engine=engine, decode_times=False) as dataset:
        grid = max((variable.dims for variable in dataset.variables.values()), key=len, default=())
        sizes = {name: dataset.sizes[name] for name in grid}
        budget.take(math.prod(sizes.values()), len(dataset.variables))
        axes = [name for name in grid if name in dataset.coords]
        variables = dict.fromkeys([*axes, *dataset.coords, *dataset.data_vars])
        for name in sorted(variables, key=lambda name: dataset[name].attrs.get("column", 0)):
            dims = set(dataset[name].dims)
            if not dims <= set(grid) or (name in dataset.data_vars and dims != set(grid)):
                raise TableError(f"`{name}` should lie over {grid}, got {dataset[name].dims}. Leave it out.")
            spelled = name.encode("latin-1").decode("utf-8") if engine == "scipy" else name  # see _latin
            yield spelled, dataset.variables[name].set_dims(sizes).values.ravel()


def _look_through(data: bytes) -> None:
    """HDF5 can lead to other files, by links and by data kept elsewhere; a table comes from one file."""
    with extras.load("h5py", "scale").File(io.BytesIO(data)) as file:
        dict(file.attrs)  # h5netcdf complains in `__del__` about files that h5py cannot open
        try:
            variables = list(own_variables(file))
        except ValueError as error:
            raise TableError(str(error)) from error
        for name, variable in variables:
            if "/" in name:
                raise TableError(f"`{name[:40]}` stands in a group, which is not read. Put it at the top.")
            check_cells(math.prod(variable.shape or ()), 1)


def write_netcdf(table: Table, *_: Any) -> bytes:
    """A .nc in the classic format, which needs no HDF5."""
    xarray = extras.load("xarray", "scale")
    if any("/" in name for name in table.names):
        raise TableError(
            "Column names in a .nc should be without '/', which names a folder there. Rename them."
        )
    columns = {_latin(name): column for name, column in table.columns.items()}
    rows = max(columns, key=len) + "_row"  # longer than any name, so it is none of them
    numbered = enumerate(columns.items())  # because scipy sorts them by their shape
    dataset = xarray.Dataset({name: (rows, column, {"column": j}) for j, (name, column) in numbered})
    return bytes(dataset.to_netcdf(engine="scipy", format="NETCDF3_64BIT"))


def _latin(name: str) -> str:
    """A name in the letters that make scipy, which knows Latin-1 alone, write it in UTF-8."""
    return name.encode("utf-8").decode("latin-1")


def write_mesh(table: Table, points: Sequence[str], ending: str) -> bytes:
    """A .vtk or .vtu with a vertex at every row."""
    pyvista = extras.load("pyvista", "geometry")
    places = np.zeros((len(table), 3))
    places[:, : len(points)] = table.matrix(points)
    mesh = pyvista.UnstructuredGrid({pyvista.CellType.VERTEX: np.arange(len(table))[:, None]}, places)
    for name in table.names:
        if name not in points:
            mesh.point_data[name] = table.matrix([name])[:, 0]
    with tempfile.TemporaryDirectory() as folder:
        mesh.save(Path(folder, f"table{ending}"))
        return Path(folder, f"table{ending}").read_bytes()
