"""Formats of other libraries: Parquet and NetCDF, read in a separate process, and VTK."""

from __future__ import annotations

import io
import json
import math
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from guardband.base import extras, files, separate
from guardband.base.limits import SWELL, TABLE
from guardband.base.netcdf import own_variables
from guardband.tables import arrays
from guardband.tables.table import (
    Budget,
    Columns,
    Reader,
    Table,
    TableError,
    Unsound,
    check_cells,
    wrong,
)

if TYPE_CHECKING:
    from guardband.base.arrays import ArrayLike

ROWS = 2**16
"""Number of rows of a .parquet unpacked at a time."""

LIBRARIES: dict[str, tuple[str, ...]] = {
    ".parquet": ("pyarrow", "pyarrow.parquet"),
    ".nc": ("xarray", "h5py", "h5netcdf", "scipy.io"),
}


def read(path: Path) -> bytes:
    """The columns of a file as a .npz, read in a separate process; its errors are raised here."""
    try:
        found = separate.run(__name__, "answer", path)
    except ChildProcessError as error:
        raise TableError(str(error)) from error
    if found.startswith(b"PK"):
        return found
    kind, text = json.loads(found)
    raise {"TableError": TableError, "ImportError": ImportError}.get(kind, Unsound)(text)


def answer() -> None:  # pragma: no cover, in another process
    """In the separate process: read the file in `sys.argv`, and write a .npz or an error to stdout."""
    out = os.dup(1)
    os.dup2(2, 1)  # keep the output of libraries out of the answer
    path = Path(sys.argv[1])
    kind = path.suffix.lower()
    with os.fdopen(out, "wb") as file:
        try:
            data = files.read_bytes(path, at_most=TABLE, follow=True)
            separate.begin(LIBRARIES[kind], len(data))
            table = Table.gathered(data, READERS[kind])
        except (TableError, ImportError) as error:
            file.write(json.dumps([type(error).__name__, str(error)]).encode())
        except MemoryError:
            text = (
                f"The columns take more than {SWELL} times the bytes of their file. Shorten long cells of "
                "text, save with less compression, or split the file."
            )
            file.write(json.dumps(["TableError", text]).encode())
        except Exception as error:
            file.write(json.dumps(["", f"{type(error).__name__}: {str(error)[:200]}"]).encode())
        else:
            arrays.write_to(file, table)


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
    # Dictionary encoding keeps a long cell that occurs a million times in memory only once.
    file = parquet.ParquetFile(io.BytesIO(data), read_dictionary=about.schema.names)
    table = arrow.Table.from_batches(list(file.iter_batches(ROWS, use_threads=False)), file.schema_arrow)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count:
            raise wrong(name, column.is_null().to_pylist().index(True) + 1, "be complete", "null")
        yield name, _cells(arrow, column, budget)


def _cells(arrow: ModuleType, column: Any, budget: Budget) -> ArrayLike:
    """The cells of a column as an array; a dictionary-encoded column becomes an array of text."""
    if not arrow.types.is_dictionary(column.type):
        return column.to_numpy()
    column = column.unify_dictionaries()
    words = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
    if not words or not all(isinstance(word, str) for word in words):
        return np.array(column.to_pylist())
    nbytes = 4 * max(1, *map(len, words)) * (len(words) + len(column))
    if nbytes > budget.left:
        raise TableError(f"A text cell should be short, got {max(map(len, words))} characters. Shorten it.")
    distinct = np.array(words, dtype=np.str_)
    return np.concatenate([distinct[chunk.indices.to_numpy()] for chunk in column.chunks])


def write_parquet(table: Table, *_: object) -> bytes:
    """The bytes of a .parquet."""
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
        _check_hdf5(data)
    with xarray.open_dataset(io.BytesIO(data), engine=engine, decode_times=False) as dataset:
        grid = max((variable.dims for variable in dataset.variables.values()), key=len, default=())
        sizes = {name: dataset.sizes[name] for name in grid}
        budget.take(math.prod(sizes.values()), len(dataset.variables))
        axes = [name for name in grid if name in dataset.coords]
        variables = dict.fromkeys([*axes, *dataset.coords, *dataset.data_vars])
        for name in sorted(variables, key=lambda name: dataset[name].attrs.get("column", 0)):
            dims = set(dataset[name].dims)
            if not dims <= set(grid) or (name in dataset.data_vars and dims != set(grid)):
                raise TableError(
                    f"`{name}` should have dimensions {grid}, got {dataset[name].dims}. Remove it."
                )
            spelled = name.encode("latin-1").decode("utf-8") if engine == "scipy" else name  # see _latin
            yield spelled, dataset.variables[name].set_dims(sizes).values.ravel()


def _check_hdf5(data: bytes) -> None:
    """Refuse groups and, since HDF5 files can refer to other files, links and external data."""
    with extras.load("h5py", "scale").File(io.BytesIO(data)) as file:
        dict(file.attrs)  # fails here for damaged files, for which h5netcdf would warn in `__del__`
        try:
            variables = list(own_variables(file))
        except ValueError as error:
            raise TableError(str(error)) from error
        for name, variable in variables:
            if "/" in name:
                raise TableError(
                    f"`{name[:40]}` is in a group, and groups are not read. Move it to the root."
                )
            check_cells(math.prod(variable.shape or ()), 1)


def write_netcdf(table: Table, *_: object) -> bytes:
    """The bytes of a .nc in the classic format, which does not need HDF5."""
    xarray = extras.load("xarray", "scale")
    if any("/" in name for name in table.names):
        raise TableError("Column names in a .nc should not contain '/', which separates groups. Rename them.")
    columns = {_latin(name): column for name, column in table.columns.items()}
    rows = max(columns, key=len) + "_row"  # longer than any name, so it differs from all of them
    numbered = enumerate(columns.items())  # since scipy sorts variables by shape
    dataset = xarray.Dataset({name: (rows, column, {"column": j}) for j, (name, column) in numbered})
    return bytes(dataset.to_netcdf(engine="scipy", format="NETCDF3_64BIT"))


def _latin(name: str) -> str:
    """A name that scipy, which encodes names in Latin-1, writes as UTF-8."""
    return name.encode("utf-8").decode("latin-1")


def write_mesh(table: Table, points: Sequence[str], ending: str) -> bytes:
    """The bytes of a .vtk or .vtu with a vertex for every row."""
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


READERS: dict[str, Reader] = {".parquet": read_parquet, ".nc": read_netcdf}
