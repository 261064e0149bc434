"""Arrays: .npz, as `numpy.savez` writes it; what an array claims to be is counted before it is unpacked."""

from __future__ import annotations

import io
import zipfile
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from guardband.tables.table import Budget, Columns, Table, TableError

HEADER = 10_000
"""Bytes in which an array says what it is."""


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
                budget.take(shape[0], shape[1] if len(shape) == 2 else 1, max(8, dtype.itemsize))
            with archive.open(member) as file:
                array = npy.read_array(file, allow_pickle=False)
            if array.ndim == 1:
                yield name, array
            else:
                yield from ((f"{name}{j}", column) for j, column in enumerate(array.T))


def _header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """What an array claims to be, in at most HEADER bytes: numpy would read a claim of gigabytes first."""
    begin = file.read(8)
    first = begin[6:7] == b"\x01"
    length = file.read(2 if first else 4)
    if not begin.startswith(b"\x93NUMPY") or int.from_bytes(length, "little") > HEADER:
        raise TableError("An array should begin as numpy.save writes it, and one does not. Save it again.")
    claim = io.BytesIO(length + file.read(HEADER))
    return npy.read_array_header_1_0(claim) if first else npy.read_array_header_2_0(claim)


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
