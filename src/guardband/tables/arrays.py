"""NumPy's .npz format; the declared size of an array is checked before it is unpacked."""

from __future__ import annotations

import io
import zipfile
from typing import IO, BinaryIO

import numpy as np
from numpy.lib import format as npy

from guardband.tables.table import Budget, Columns, Table, TableError

HEADER = 10_000
"""Largest header of an array, in bytes."""


def read(data: bytes, budget: Budget) -> Columns:
    """The columns of a .npz: arrays (n,), or (n, k) as name0, name1, ..."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise TableError(
                    f"`{name[:40]}` should be stored as numpy.savez does, but its compression differs."
                )
            with archive.open(member) as file:
                shape, _, dtype = _header(file)
                if len(shape) not in (1, 2):
                    raise TableError(
                        f"`{name[:40]}` should have shape (n,) or (n, k), got {shape}. Remove it."
                    )
                budget.take(shape[0], shape[1] if len(shape) == 2 else 1, max(8, dtype.itemsize))
            with archive.open(member) as file:
                array = npy.read_array(file, allow_pickle=False)
            if array.ndim == 1:
                yield name, array
            else:
                yield from ((f"{name}{j}", column) for j, column in enumerate(array.T))


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and dtype in the header of an array, which numpy would read at any declared length."""
    begin = file.read(8)
    first = begin[6:7] == b"\x01"
    length = file.read(2 if first else 4)
    if not begin.startswith(b"\x93NUMPY") or int.from_bytes(length, "little") > HEADER:
        raise TableError("Every array should have the header that numpy.save writes. Save the file again.")
    header = io.BytesIO(length + file.read(HEADER))
    return npy.read_array_header_1_0(header) if first else npy.read_array_header_2_0(header)


def write(table: Table, *_: object) -> bytes:
    """A .npz like that of `numpy.savez`, but with reproducible bytes, and any column name, even `file`."""
    buffer = io.BytesIO()
    write_to(buffer, table)
    return buffer.getvalue()


def write_to(file: BinaryIO, table: Table) -> None:
    """Write a .npz column by column."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, column in table.columns.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                npy.write_array(member, column, allow_pickle=False)
