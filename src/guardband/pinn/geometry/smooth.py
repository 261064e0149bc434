"""Smooth distance functions, which vanish on a part of a boundary and are the basis of hard constraints.

They are built from R-functions, which combine smooth functions as "and", "or" and "not" combine sets. The
function of a shape is positive inside and negative outside.
"""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor


def both(*depths: Tensor) -> Tensor:
    """A function that is positive where all arguments are positive.

    >>> one, two = torch.tensor([3.0, 3.0, -3.0]), torch.tensor([4.0, -4.0, -4.0])
    >>> both(one, two).tolist()
    [2.0, -6.0, -12.0]
    """
    return reduce(lambda a, b: a + b - root(a * a + b * b), depths)


def either(*depths: Tensor) -> Tensor:
    """A function that is positive where at least one argument is positive."""
    return reduce(lambda a, b: a + b + root(a * a + b * b), depths)


def nearest(*distances: Tensor) -> Tensor:
    """A function that is 0 where one of the distances is 0, and approximately their minimum elsewhere.

    >>> nearest(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 1.0])).tolist()
    [0.0, 0.5]
    """
    return reduce(lambda a, b: a * b / (a + b).clamp(min=_tiny(a)), distances)


def trimmed(plane: Tensor, within: Tensor) -> Tensor:
    """A function that is 0 where `plane` is 0 and `within` >= 0, otherwise positive; nearby about |plane|."""
    beyond = (root(within * within + plane**4) - within) / 2
    return root(plane * plane + beyond * beyond)


def root(square: Tensor) -> Tensor:
    """The square root, with slope 0 instead of infinity at 0."""
    return torch.where(square > _tiny(square), square, _tiny(square)).sqrt() * (square > _tiny(square))


def _tiny(like: Tensor) -> float:
    return float(torch.finfo(like.dtype).tiny)
