"""Recipes: how long, how fast and on which points to train."""

from __future__ import annotations

import math
from dataclasses import dataclass

from guardband.kept import kept


@kept
@dataclass(frozen=True)
class Recipe:
    """How to train: Adam on random batches, then L-BFGS on fixed points until it no longer pays.

    The physics scale starts `anneal` times its final value and reaches it half-way through Adam: the data
    shape the field first, the equation sharpens it. `batch=None` uses all points at every step;
    `n_interior` is their number, by default 256 on a line and 768 elsewhere, or a number per axis where they
    are `even`. L-BFGS stops when fifty iterations gain less than `min_improvement`.

    >>> import guardband as gb
    >>> thorough = gb.Recipe(steps=3000, finish=5000)
    >>> thorough.n_boundary
    384
    """

    steps: int = 800
    learning_rate: float = 3e-3
    warmup: int = 100
    decay: tuple[int, float] | None = None
    batch: int | None = 256
    n_interior: int | tuple[int, ...] | None = None
    n_boundary: int = 384
    even: bool = False
    anneal: float = 50.0
    finish: int = 1500
    min_improvement: float = 0.01

    def rate(self, step: int) -> float:
        """The learning rate at a step: warm-up, then a cosine to a tenth, or steps if `decay` is given."""
        warm = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        if self.decay is not None:
            every, factor = self.decay
            return self.learning_rate * warm * factor ** (step // every)
        cosine = 0.5 * (1 + math.cos(math.pi * step / self.steps))
        return self.learning_rate * warm * (0.1 + 0.9 * cosine)

    def physics_factor(self, step: int) -> float:
        """How many times its final value the physics scale has at a step."""
        return self.anneal ** max(0.0, 1 - 2 * step / self.steps)
