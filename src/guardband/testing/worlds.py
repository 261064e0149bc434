"""Distributions of simulated data, on which coverage is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from guardband.values import Prediction


@dataclass(frozen=True)
class World:
    """A distribution of simulated data.

    Parameters
    ----------
    name
        The name in messages.
    noise
        A function of a generator and points (n, m) that draws the noise of y.
    scale
        A function of points (n, 1) that returns the predicted scale.
    ties
        Whether scores can tie.

    Examples
    --------
    >>> import guardband as gb
    >>> world = gb.testing.World(
    ...     "exponential", lambda g, x: g.exponential(size=x.shape), lambda x: 1 + x
    ... )
    >>> gb.testing.check_calibrator(gb.Split(), worlds=[world], draws=20, sizes=[9])
    """

    name: str
    noise: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    scale: Callable[[np.ndarray], np.ndarray]
    ties: bool = False

    def observe(self, generator: np.random.Generator, x: np.ndarray, outputs: int) -> np.ndarray:
        """Draw targets.

        Parameters
        ----------
        generator
            The random generator.
        x
            Points, shape (n, 1).
        outputs
            The number of outputs.

        Returns
        -------
        ndarray
            Targets, shape (n, outputs).
        """
        return np.sin(3 * x) + self.noise(generator, np.repeat(x, outputs, axis=1))

    def predict(self, x: np.ndarray, outputs: int) -> Prediction:
        """Return an imperfect mean and an approximate scale.

        Parameters
        ----------
        x
            Points, shape (n, 1).
        outputs
            The number of outputs.

        Returns
        -------
        Prediction
            Mean and scale, each of shape (n, outputs).
        """
        mean = np.sin(3 * x) + 0.02 * np.cos(9 * x) * (not self.ties)
        return Prediction(x, *(np.repeat(part, outputs, axis=1) for part in (mean, self.scale(x))))


HOMOSKEDASTIC = World("homoskedastic", lambda g, x: 0.1 * g.normal(size=x.shape), lambda x: 0.1 + 0.05 * x)
HETEROSKEDASTIC = World(
    "heteroskedastic",
    lambda g, x: (0.02 + 0.5 * x**2) * g.normal(size=x.shape),
    lambda x: 0.05 + 0.4 * x**2,
)
HEAVY_TAILS = World(
    "heavy tails with ties",
    lambda g, x: 0.5 * np.round(2 * g.standard_t(2, size=x.shape)),
    lambda x: np.where(x > 0.5, 1.0, 0.5),
    ties=True,
)
WORLDS = (HOMOSKEDASTIC, HETEROSKEDASTIC, HEAVY_TAILS)


@dataclass(frozen=True, eq=False)
class Draw:
    """The data of one experiment.

    Parameters
    ----------
    x_cal, y_cal
        Calibration points, shape (n, d), and targets, shape (n, m).
    x, y
        Test points and targets.
    groups_cal, groups
        Group labels of calibration and test points, if there are groups.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> generator = np.random.default_rng(0)
    >>> draw = gb.testing.exchangeable(
    ...     gb.testing.HOMOSKEDASTIC, generator, n=30, m=50, outputs=1
    ... )
    >>> draw.x_cal.shape, draw.y.shape
    ((30, 1), (50, 1))
    """

    x_cal: np.ndarray
    y_cal: np.ndarray
    x: np.ndarray
    y: np.ndarray
    groups_cal: np.ndarray | None = None
    groups: np.ndarray | None = None


Sampler: TypeAlias = Callable[[World, np.random.Generator, int, int, int], Draw]
"""(world, generator, n calibration points, m test points, outputs) -> Draw."""


def exchangeable(world: World, generator: np.random.Generator, n: int, m: int, outputs: int) -> Draw:
    """Draw all points independently from one distribution: the setting of `Split`.

    Parameters
    ----------
    world
        The distribution of the data.
    generator
        The random generator.
    n, m
        The numbers of calibration and test points.
    outputs
        The number of outputs.

    Returns
    -------
    Draw
        The data.

    Examples
    --------
    >>> import guardband as gb
    >>> gb.testing.check_calibrator(
    ...     gb.Split(), sampler=gb.testing.exchangeable, draws=20, sizes=[9]
    ... )
    """
    x = generator.uniform(size=(n + m, 1))
    y = world.observe(generator, x, outputs)
    return Draw(x[:n], y[:n], x[n:], y[n:])


def two_groups(world: World, generator: np.random.Generator, n: int, m: int, outputs: int) -> Draw:
    """Draw from two regimes, left and right: the setting of `Grouped`.

    Parameters
    ----------
    world
        The distribution of the data.
    generator
        The random generator.
    n, m
        The number of calibration points in each regime, and of test points in total.
    outputs
        The number of outputs.

    Returns
    -------
    Draw
        The data.

    Examples
    --------
    >>> import guardband as gb
    >>> gb.testing.check_calibrator(
    ...     gb.Grouped(), sampler=gb.testing.two_groups, draws=20, sizes=[9]
    ... )
    """
    m = max(2, m)
    sides = [exchangeable(world, generator, n, m // 2, outputs) for _ in range(2)]
    moved = [(0.5 * side.x_cal + 0.5 * i, 0.5 * side.x + 0.5 * i) for i, side in enumerate(sides)]
    x_cal, x = (np.concatenate([pair[j] for pair in moved]) for j in range(2))
    return Draw(
        x_cal,
        world.observe(generator, x_cal, outputs),
        x,
        world.observe(generator, x, outputs),
        np.repeat(["left", "right"], n),
        np.repeat(["left", "right"], m // 2),
    )


def new_sensors(world: World, generator: np.random.Generator, n: int, m: int, outputs: int) -> Draw:
    """Draw sensors with one to six readings and a bias each: the setting of `Clustered`.

    Parameters
    ----------
    world
        The distribution of the data.
    generator
        The random generator.
    n, m
        The number of calibration sensors, and of new sensors with one reading each.
    outputs
        The number of outputs.

    Returns
    -------
    Draw
        The data.

    Examples
    --------
    >>> import guardband as gb
    >>> gb.testing.check_calibrator(
    ...     gb.Clustered(), sampler=gb.testing.new_sensors, draws=50, sizes=[9]
    ... )
    """
    sensor = np.repeat(np.arange(n), generator.integers(1, 7, size=n))
    bias = 0.3 * generator.normal(size=(n + m, 1))
    x = generator.uniform(size=(len(sensor) + m, 1))
    y = world.observe(generator, x, outputs) + bias[np.concatenate([sensor, n + np.arange(m)])]
    return Draw(x[:-m], y[:-m], x[-m:], y[-m:], sensor)
