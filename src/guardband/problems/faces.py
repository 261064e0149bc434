"""Faces of boxes: the two ends of each axis, and points on them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from guardband.geometry import Box


@dataclass(frozen=True)
class Face:
    """One end of one axis: `side` is -1 for the lower end, +1 for the upper (the outward normal).

    >>> import guardband as gb
    >>> inflow = gb.problems.Dirichlet(1.0, on=gb.problems.Face(axis=0, side=-1))
    """

    axis: int
    side: int


def faces_of(box: Box) -> list[Face]:
    """The 2 d faces: the lower and the upper end of each axis.

    >>> faces_of(Box(0, 1))
    [Face(axis=0, side=-1), Face(axis=0, side=1)]
    """
    return [Face(axis, side) for axis in range(box.d) for side in (-1, 1)]


def size_of(face: Face, box: Box) -> float:
    """The area of a face: a length in two dimensions, 1 (a point) in one."""
    return math.prod(2 * half for axis, half in enumerate(box.reach) if axis != face.axis)


def points_on(face: Face, box: Box, n: int, generator: torch.Generator | None = None) -> Tensor:
    """About n points on a face: an even grid, or uniform at random if a generator is given."""
    if box.d == 1:
        n = 1
    if generator is None:
        per_axis = round(n ** (1 / max(1, box.d - 1)))
        points = box.grid([1 if axis == face.axis else per_axis for axis in range(box.d)])
    else:
        points = box.uniform(n, generator)
    points[:, face.axis] = (box.lower if face.side < 0 else box.upper)[face.axis]
    return points
