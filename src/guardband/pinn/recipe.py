"""Recipes: how long, how fast and on which points to train; the library's and the paper's."""

from __future__ import annotations

import math
from dataclasses import dataclass

from guardband.pinn.likelihood import Likelihood
from guardband.problems import Problem


@dataclass(frozen=True)
class Recipe:
    """How to train: Adam on random batches, then L-BFGS on fixed points until it no longer pays.

    The physics scale starts `anneal` times its final value and reaches it half-way through Adam: the data
    shape the field first, the equation sharpens it. `batch=None` uses all points at every step; `inside` is
    their number, by default 256 on a line and 768 elsewhere, or a number per axis where they are `even`.

    >>> import guardband as gb
    >>> thorough = gb.Recipe(steps=3000, finish=5000)
    >>> gb.Recipe.paper(gb.problems.Poisson1D()).steps
    5000
    """

    steps: int = 800
    learning_rate: float = 3e-3
    warmup: int = 100
    decay: tuple[int, float] | None = None
    batch: int | None = 256
    inside: int | tuple[int, ...] | None = None
    faces: int = 384
    even: bool = False
    anneal: float = 50.0
    finish: int = 1500
    patience: float = 0.01

    @classmethod
    def paper(cls, problem: Problem) -> Recipe:
        """The paper's: full batches of evenly placed points, Adam at 1e-3 with stepwise decay."""
        settings = problem.paper
        if settings is None:
            raise ValueError(f"{type(problem).__name__} is not an experiment of the paper. Use gb.Recipe().")
        return cls(
            steps=settings.steps,
            learning_rate=1e-3,
            warmup=0,
            decay=(settings.decay_every, settings.decay),
            batch=None,
            inside=settings.collocation,
            faces=settings.boundary,
            even=True,
            anneal=1.0,
            finish=0,
        )

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


def paper_likelihood(problem: Problem) -> Likelihood:
    """The weights of the paper's loss, as noise scales.

    >>> import guardband as gb
    >>> gb.pinn.paper_likelihood(gb.problems.AllenCahn2D()).data
    1.0
    """
    settings = problem.paper
    if settings is None:
        raise ValueError(
            f"{type(problem).__name__} is not an experiment of the paper. Use gb.Likelihood(data=...)."
        )
    physics, boundary, data = settings.weights
    return Likelihood.from_weights(data=data, physics=physics, boundary=boundary)
