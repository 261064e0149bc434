"""Smooth distances: functions that vanish on a part of a boundary, from which hard constraints are made.

By R-functions, which are to smooth functions what "and", "or" and "not" are to sets: f is positive inside a
shape and negative outside.
"""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor


def both(*depths: Tensor) -> Tensor:
    """Positive where all are.

    >>> one, two = torch.tensor([3.0, 3.0, -3.0]), torch.tensor([4.0, -4.0, -4.0])
    >>> both(one, two).tolist()
    [2.0, -6.0, -12.0]
    """
    return reduce(lambda a, b: a + b - root(a * a + b * b), depths)


def either(*depths: Tensor) -> Tensor:
    """Positive where one is."""
    return reduce(lambda a, b: a + b + root(a * a + b * b), depths)


def nearest(*distances: Tensor) -> Tensor:
    """0 where one of these distances is, and about the smallest of them elsewhere.

    >>> nearest(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 1.0])).tolist()
    [0.0, 0.5]
    """
    return reduce(lambda a, b: a * b / (a + b).clamp(min=_tiny(a)), distances)


def trimmed(plane: Tensor, within: Tensor) -> Tensor:
    """0 where `plane` is and `within` is not negative; positive elsewhere, and about |plane| near there."""
    beyond = (root(within * within + plane**4) - within) / 2
    return root(plane * plane + beyond * beyond)


def root(square: Tensor) -> Tensor:
    """The square root, whose slope at 0 is not infinite but 0."""
    return torch.where(square > _tiny(square), square, _tiny(square)).sqrt() * (square > _tiny(square))


def _tiny(like: Tensor) -> float:
    return float(torch.finfo(like.dtype).tiny)
