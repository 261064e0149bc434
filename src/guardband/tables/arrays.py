"""Arrays: .npz, as `numpy.savez` writes it; what an array claims to be is counted before it is unpacked."""

from __future__ import annotations

import io
import zipfile
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from guardband.tables.table import Budget, Columns, Table, TableError


def read(data: bytes, budget: Budget) -> Columns:
    """The columns of a .npz: arrays (n,), or (n, k) as name0, name1, ..."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise TableError(
                    f"`{name[:40]}` should be as numpy.savez writes it, and is compressed otherwise."
                )
            with archive.open(member) as file:
                shape, _, dtype = _header(file)
                if len(shape) not in (1, 2):
                    raise TableError(f"`{name[:40]}` should be (n,) or (n, k), got {shape}. Leave it out.")
                # Text becomes objects of Python, and then as wide as its longest cell.
                width = 8 if dtype.kind in "fiub" else 4 * dtype.itemsize + 64
                budget.take(shape[0], shape[1] if len(shape) == 2 else 1, width)
            with archive.open(member) as file:
                array = npy.read_array(file, allow_pickle=False)
            if array.ndim == 1:
                yield name, array
            else:
                yield from ((f"{name}{j}", column) for j, column in enumerate(array.T))


def _header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    first = npy.read_magic(file) == (1, 0)
    return npy.read_array_header_1_0(file) if first else npy.read_array_header_2_0(file)


def write(table: Table, *_: Any) -> bytes:
    """As `numpy.savez`, which has no name `file` to give, and the same bytes every time."""
    buffer = io.BytesIO()
    write_to(buffer, table)
    return buffer.getvalue()


def write_to(file: BinaryIO, table: Table) -> None:
    """Write a .npz column by column."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, column in table.columns.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                npy.write_array(member, column, allow_pickle=False)
