"""Arguments of the methods of shapes: points, counts, generators, and names of boundary parts."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import wraps
from numbers import Integral
from typing import Any, SupportsIndex, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from guardband.base.arrays import Array, ArrayLike, rows, to_torch

Contains = TypeVar("Contains", bound=Callable[[Any, Any], Tensor])


def of_any_points(contains: Contains) -> Contains:
    """Let `contains` accept tensors and array-likes; tensors give tensors, array-likes give numpy arrays."""

    @wraps(contains)
    def of_points(self: Any, x: ArrayLike) -> Array:
        points = to_torch(rows(x, "x"))
        if points.ndim != 2 or points.shape[1] != self.d:
            raise ValueError(f"`x` should be points of shape (n, {self.d}), got shape {tuple(np.shape(x))}.")
        found = contains(self, points)
        return found if isinstance(x, Tensor) else found.numpy()

    return cast("Contains", of_points)


def count(n: object) -> int:
    """A number of points as an int; refuse anything but a nonnegative integer."""
    try:
        whole = operator.index(cast("SupportsIndex", n))
    except TypeError:
        cure = f" Write {n:.0f}." if isinstance(n, float) and n.is_integer() else ""
        raise TypeError(f"`n` should be an integer number of points, got {n!r:.80}.{cure}") from None
    if whole < 0:
        raise ValueError(f"`n` should be a nonnegative number of points, got {whole}.")
    return whole


def as_generator(generator: object, seed: object = None) -> torch.Generator | None:
    """The given generator, a new one from a seed, or None for torch's global generator."""
    if generator is not None and seed is not None:
        raise TypeError("`uniform` takes a `generator` or a `seed`, got both.")
    given = seed if generator is None else generator
    if given is None or isinstance(given, torch.Generator):
        return given
    if not isinstance(given, Integral):
        raise TypeError(f"`generator` should be a torch.Generator or a seed, got {given!r:.80}.")
    return torch.Generator().manual_seed(int(given))


def named_parts(on: object) -> tuple[str, ...]:
    """The names of boundary parts; refuse an argument that names none.

    >>> named_parts("left"), named_parts(["left", "top"])
    (('left',), ('left', 'top'))
    """
    if callable(on):
        raise TypeError(
            "`on` should name parts of the boundary here, got a function. Name the parts when you create the "
            'shape: pinn.Disk((0, 0), 1.0, name="hole"), pinn.Polygon(corners, edges=[...]).'
        )
    wanted = (on,) if isinstance(on, str) else tuple(on) if isinstance(on, Iterable) else ()
    if not wanted or not all(isinstance(name, str) and name for name in wanted):
        raise ValueError(
            f'`on` should name parts of the boundary, such as "left" or ("left", "right"), got {on!r:.80}. '
            "Omit `on` for the whole boundary."
        )
    return wanted
