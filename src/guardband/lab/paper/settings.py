"""The paper's settings: sizes, networks, steps and weights of its experiments."""

from __future__ import annotations

from dataclasses import dataclass

from guardband.pinn.misses.likelihood import Likelihood
from guardband.pinn.problems import AllenCahn2D, DampedOscillator, Helmholtz3D, Poisson1D, Problem
from guardband.pinn.training.recipe import Recipe


@dataclass(frozen=True)
class Settings:
    """The settings of an experiment in the paper (arXiv:2509.13717).

    Parameters
    ----------
    widths
        The widths of the hidden layers.
    train, cal, test
        The numbers of training, calibration and test points.
    noise
        The standard deviation of the noise.
    collocation, boundary
        The numbers of collocation points (in total, or per axis of a grid) and of boundary points.
    steps
        The number of training steps.
    weights
        The weights of equation, conditions and data in the loss.
    decay_every, decay
        The learning rate is multiplied by `decay` after every `decay_every` steps.
    n_neighbors
        The number of neighbors of the distance.

    Examples
    --------
    >>> from guardband import lab
    >>> lab.paper.Settings(
    ...     (16, 16), 60, 30, 75, 0.15, 200, 2, steps=5000, weights=(3, 10, 1)
    ... ).decay
    0.7
    """

    widths: tuple[int, ...]
    train: int
    cal: int
    test: int
    noise: float
    collocation: int | tuple[int, ...]
    boundary: int
    steps: int
    weights: tuple[float, float, float]
    decay_every: int = 5000
    decay: float = 0.7
    n_neighbors: int = 20


SETTINGS: dict[type[Problem], Settings] = {
    Poisson1D: Settings(
        widths=(25, 35, 35, 25),
        train=60,
        cal=30,
        test=75,
        noise=0.15,
        collocation=200,
        boundary=2,
        steps=5000,
        weights=(3, 10, 1),
        decay_every=3000,
        decay=0.5,
    ),
    AllenCahn2D: Settings(
        widths=(16, 32, 64, 64, 64, 32, 16),
        train=300,
        cal=100,
        test=100,
        noise=0.05,
        collocation=32,
        boundary=800,
        steps=5000,
        weights=(1, 5, 1),
    ),
    Helmholtz3D: Settings(
        widths=(32, 64, 128, 128, 128, 64, 32),
        train=600,
        cal=200,
        test=200,
        noise=0.05,
        collocation=20,
        boundary=6144,
        steps=5000,
        weights=(1, 5, 1),
        n_neighbors=15,
    ),
    DampedOscillator: Settings(
        widths=(16, 32, 64, 128, 128, 64, 32, 16),
        train=300,
        cal=150,
        test=1000,
        noise=0.05,
        collocation=200,
        boundary=1,
        steps=20_000,
        weights=(1, 10, 3),
    ),
}
"""The settings by problem."""


def settings(problem: Problem) -> Settings:
    """Return the paper's settings for one of its problems.

    Parameters
    ----------
    problem
        A problem of the paper.

    Returns
    -------
    Settings
        The settings.

    Examples
    --------
    >>> from guardband import lab
    >>> from guardband import pinn
    >>> settings = lab.paper.settings(pinn.problems.Poisson1D())
    >>> settings.widths, settings.train, settings.cal, settings.noise
    ((25, 35, 35, 25), 60, 30, 0.15)
    """
    for kind in type(problem).__mro__:
        if kind in SETTINGS:
            return SETTINGS[kind]
    raise ValueError(
        f"{type(problem).__name__} is not a problem of the paper. Its problems are: "
        f"{', '.join(kind.__name__ for kind in SETTINGS)}."
    )


def recipe(problem: Problem) -> Recipe:
    """Return the paper's training schedule: full batches, even points, Adam at 1e-3 with stepwise decay.

    Parameters
    ----------
    problem
        A problem of the paper.

    Returns
    -------
    Recipe
        The training schedule.

    Examples
    --------
    >>> from guardband import lab
    >>> from guardband import pinn
    >>> lab.paper.recipe(pinn.problems.Poisson1D()).steps
    5000
    """
    its = settings(problem)
    return Recipe(
        steps=its.steps,
        learning_rate=1e-3,
        warmup=0,
        decay=(its.decay_every, its.decay),
        batch=None,
        n_interior=its.collocation,
        n_boundary=its.boundary,
        even=True,
        anneal=1.0,
        finish=0,
    )


def likelihood(problem: Problem) -> Likelihood:
    """Return the weights of the paper's loss as noise scales.

    Parameters
    ----------
    problem
        A problem of the paper.

    Returns
    -------
    Likelihood
        The noise scales.

    Examples
    --------
    >>> from guardband import lab
    >>> from guardband import pinn
    >>> lab.paper.likelihood(pinn.problems.AllenCahn2D()).data
    1.0
    """
    physics, boundary, data = settings(problem).weights
    return Likelihood.from_weights(data=data, physics=physics, boundary=boundary)
