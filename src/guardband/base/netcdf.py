"""NetCDF files, which a separate process inspects before they are opened here."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from guardband.base import extras, separate
from guardband.base.files import opened
from guardband.base.limits import (
    CHUNK,
    PACKED,
    SMALL,
    STORED,
    WIDEST,
    Json,
    check_decoded,
    printable,
    shown,
)

if TYPE_CHECKING:
    import xarray

HDF5, CLASSIC = b"\x89HDF\r\n\x1a\n", (b"CDF\x01", b"CDF\x02")
NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
"""The name of a dataset that represents a dimension without coordinates and was never written."""

LIBRARIES = ("h5py", "h5netcdf", "scipy.io", "xarray")


Absent: TypeAlias = tuple[int, int, str]
"""The number of absent chunks of a variable, of all its chunks, and its fill value."""

Hdf5: TypeAlias = Any
"""A file or dataset of h5py, which is optional."""


def open_dataset(path: Path, names: Collection[str], *, missing: str = "refuse") -> xarray.Dataset:
    """Open a NetCDF file lazily as an xarray dataset; a file that refers to other files is refused.

    Absent chunks of the variables `names`, which would be read as values, are refused too unless `missing` is
    "fill".
    """
    found = looked_through(path)
    for name, (absent, among, value) in found["absent"].items():
        if name in names and missing != "fill":
            raise ValueError(
                f"{path}: {absent} of {among} chunks of `{called(name)}` are absent, and would be read as "
                f"{value}. "
                'If that is their value, pass missing="fill"; otherwise write them again.'
            )
    return extras.load("xarray", "scale").open_dataset(path, engine=found["engine"], cache=False)


def called(name: str) -> str:
    """A name for error messages."""
    return printable(name[:40])


def variables(path: Path) -> list[str]:
    """The names of all variables."""
    return looked_through(path)["variables"]


def looked_through(path: Path) -> dict[str, Json]:
    """The engine for a file, its variables, and those with absent chunks; an unsafe file is an error."""
    try:
        with opened(path, at_most=STORED, follow=True) as (descriptor, _):
            engine = _engine(os.read(descriptor, 8))
        extras.load(engine, "scale")
        found = json.loads(separate.run(__name__, "look", path))
    except OSError as error:
        raise ValueError(f"{path}: {error}") from error
    if "error" in found:
        raise ValueError(f"{path}: {found['error']}")
    return found | {"engine": engine}


def _engine(head: bytes) -> str:
    if head.startswith(HDF5):
        return "h5netcdf"
    if head.startswith(CLASSIC):
        return "scipy"
    raise ValueError(
        "This is neither a Zarr store nor a NetCDF file. Open it with xarray, and pass the dataset."
    )


def look() -> None:  # pragma: no cover, in another process
    """In the other process: inspect the file on the command line, and print the result as JSON."""
    out = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(out, "w") as file:
        try:
            found = inspected(Path(sys.argv[1]))
        except Exception as error:
            said = str(error) if type(error) is ValueError else f"{type(error).__name__}: {shown(str(error))}"
            found = {"error": said}
        json.dump(found, file)


def inspected(path: Path, *, limited: bool = True) -> dict[str, Json]:
    """Refuse links, external data and absurd sizes; return all variables and those with absent chunks."""
    with opened(path, at_most=STORED, follow=True) as (descriptor, _):
        engine = _engine(os.read(descriptor, 8))
    if limited:  # pragma: no cover, in another process
        separate.begin(LIBRARIES, 0)
    absent = _absent_chunks(path) if engine == "h5netcdf" else {}
    xarray = extras.load("xarray", "scale")
    with xarray.open_dataset(path, engine=engine, cache=False, decode_cf=False) as dataset:
        for variable in (dataset, *dataset.variables.values()):
            check_decoded(variable.attrs)
        decoded = xarray.decode_cf(dataset)
        return {"variables": [str(name) for name in decoded.variables], "absent": absent}


def own_variables(file: Hdf5) -> Iterator[tuple[str, Hdf5]]:
    """The variables of an HDF5 file by name; a `ValueError` if one is a link or is stored in another file."""
    h5py = extras.load("h5py", "scale")
    links: dict[str, object] = {}
    file.visititems_links(lambda name, link: links.__setitem__(name, link) if len(links) < WIDEST else 1)
    if len(links) >= WIDEST:
        raise ValueError(f"The file should have fewer than {WIDEST} variables and groups.")
    for name, link in links.items():
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"`{called(name)}` should be in the file itself, but is a link. Copy the data.")
        if isinstance(variable := file[name], h5py.Dataset):
            if variable.external or variable.is_virtual:
                raise ValueError(
                    f"`{called(name)}` should be in the file itself, but is in another file. Copy it."
                )
            yield name, variable


def _absent_chunks(path: Path) -> dict[str, Absent]:
    with extras.load("h5py", "scale").File(path, "r") as file:
        found = {name: _absent(name, variable) for name, variable in own_variables(file)}
    return {name: absent for name, absent in found.items() if absent is not None}


def _absent(name: str, variable: Hdf5) -> Absent | None:
    """The absent chunks of a variable, or None if it is complete; an absurd size is an error."""
    shape, chunks = variable.shape or (), variable.chunks
    nbytes = math.prod(shape) * variable.dtype.itemsize
    if nbytes > STORED or (chunks and math.prod(chunks) * variable.dtype.itemsize > CHUNK):
        raise ValueError(f"`{called(name)}` should be smaller, got shape {shape} in chunks of {chunks}.")
    stored = variable.id.get_storage_size()
    if not stored and bytes(variable.attrs.get("NAME", b"")).startswith(NO_VARIABLE):
        return None
    if nbytes > SMALL + PACKED * stored:
        raise ValueError(f"`{called(name)}` has {stored} bytes, and claims to unpack to {nbytes}.")
    if not nbytes or variable.dtype.kind == "O":
        return None
    among = math.prod(-(-n // size) for n, size in zip(shape, chunks, strict=True)) if chunks else 1
    absent = among - variable.id.get_num_chunks() if chunks else int(stored == 0)
    fill = variable.fillvalue
    if not absent or fill != fill or fill == variable.attrs.get("_FillValue", math.nan):
        return None  # complete, or read as missing values
    return absent, among, str(fill)
