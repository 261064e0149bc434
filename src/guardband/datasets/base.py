"""Dataset: pairs of input and solution fields, computed once and stored in a folder."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from tqdm.auto import tqdm

from guardband.base.files import read_bytes, write_bytes
from guardband.values.grids import Fields

AT_MOST = 2**34
"""Largest size of a file in the folder, in bytes."""

VERSION = 1
"""Version of the solvers, increased when their results change."""

Part = tuple[np.ndarray, np.ndarray]

Setting: TypeAlias = int | float | bool


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Inputs and solutions, one row per sample, which unpack as `x, y = dataset`.

    Parameters
    ----------
    x
        Input fields.
    y
        Solutions, in the same order.
    about
        Description of the equation.

    Examples
    --------
    >>> import guardband as gb
    >>> x, y = gb.datasets.burgers(4, nodes=16, folder=None, progress=False)
    >>> x, y
    (Fields(4 fields, x=16, 1 output), Fields(4 fields, x=16, 1 output))
    """

    x: Fields
    y: Fields
    about: str

    def __iter__(self) -> Iterator[Fields]:
        return iter((self.x, self.y))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: slice | Sequence[int] | np.ndarray) -> Dataset:
        """Select rows by a slice, indices or booleans."""
        return Dataset(self.x[rows], self.y[rows], self.about)

    def __repr__(self) -> str:
        size = (self.x.values.nbytes + self.y.values.nbytes) / 2**20
        return f"Dataset({len(self)} rows, {size:.3g} MiB: {self.about})"


def usual_folder() -> Path:
    """The default folder of solutions: GUARDBAND_DATA, or the user's cache."""
    chosen = os.environ.get("GUARDBAND_DATA")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen) if chosen else Path(cache) / "guardband"


def solved(
    name: str,
    settings: Mapping[str, Setting],
    n: int,
    solve: Callable[[int, int], Part],
    *,
    batch: int,
    folder: str | os.PathLike[str] | None,
    progress: bool,
) -> Part:
    """Inputs and solutions of n rows by `solve(first, last)`, in batches; stored batches are read instead."""
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"`n` should be a positive integer, got {n!r}.")
    root = usual_folder() if folder == "usual" else folder
    text = json.dumps({"name": name, "version": VERSION, **settings}, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    parts = []
    with tqdm(total=n, disable=not progress, desc=name, unit="field") as bar:
        for first in range(0, n, batch):
            path = None if root is None else Path(root) / f"{name}-{key}" / f"{first:06d}.npz"
            parts.append(_batch(path, solve, first, min(first + batch, n)))
            bar.update(len(parts[-1][0]))
    x, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return x, y


def drawn(seed: int, first: int, last: int, draw: Callable[[np.random.Generator], np.ndarray]) -> np.ndarray:
    """Random rows, each from its own generator, so that row i does not depend on the number of rows."""
    return np.stack([draw(np.random.default_rng([seed, row])) for row in range(first, last)])


def _batch(path: Path | None, solve: Callable[[int, int], Part], first: int, last: int) -> Part:
    """The rows from first to last, read from the file at `path` if it has them, else solved and written."""
    if path is not None and path.exists():
        with np.load(io.BytesIO(read_bytes(path, at_most=AT_MOST)), allow_pickle=False) as found:
            if len(found["x"]) >= last - first:
                return found["x"][: last - first], found["y"][: last - first]
    x, y = (part.astype(np.float32) for part in solve(first, last))
    if path is not None:
        buffer = io.BytesIO()
        np.savez(buffer, x=x, y=y)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, buffer.getvalue())
    return x, y
