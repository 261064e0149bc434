"""Recipes: how long, how fast and on which points to train."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Integral, Real

from guardband.kept import kept


@kept
@dataclass(frozen=True)
class Recipe:
    """How to train: Adam on random batches, then Gauss-Newton and L-BFGS until they no longer pay.

    The physics scale starts `anneal` times its final value and reaches it half-way through Adam: the data
    shape the field first, the equation sharpens it. `batch=None` uses all points at every step;
    `n_interior` is their number, by default 256 on a line and 768 elsewhere, or a number per axis where they
    are `even`. L-BFGS stops when fifty iterations gain less than `min_improvement`.

    `newton` is the number of damped Gauss-Newton steps between the two, in float64, on points that follow the
    residual, at most `n_interior` of them. `seconds` bounds the whole run, in CPU seconds of its thread.

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
    newton: int = field(default=0, metadata={"neutral": 0})
    seconds: float | None = field(default=None, metadata={"neutral": None})

    @classmethod
    def by_newton(
        cls, steps: int = 400, *, seconds: float | None = None, n_interior: int | None = None
    ) -> Recipe:
        """Gauss-Newton alone.

        >>> import guardband as gb
        >>> gb.Recipe.by_newton(seconds=10).newton
        400
        """
        return cls(steps=0, finish=0, newton=steps, seconds=seconds, n_interior=n_interior)

    def __post_init__(self) -> None:
        if self.seconds is not None and not (isinstance(self.seconds, Real) and self.seconds > 0):
            raise ValueError(
                f"`seconds` should be a positive number of CPU seconds, got {self.seconds!r:.80}."
            )
        if not isinstance(self.newton, Integral) or self.newton < 0:
            raise ValueError(f"`newton` should be a number of steps, got {self.newton!r:.80}.")

    def newton_points(self, d: int) -> int:
        """How many points inside Gauss-Newton steps may use, in d dimensions."""
        if self.n_interior is None:
            return 512 if d == 1 else 1024
        return self.n_interior if isinstance(self.n_interior, int) else math.prod(self.n_interior)

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
