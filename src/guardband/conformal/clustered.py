"""`Clustered`: coverage of new sensors, calibrated on several readings of each of a few sensors.

Readings of one sensor share its bias, so thirty of its readings are not thirty exchangeable points. The units
that are exchangeable are the sensors. Each of K sensors has the same weight, divided equally among its
readings. The new sensor has this weight too, at an infinite score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from guardband.base.arrays import Array
from guardband.base.kept import kept
from guardband.conformal.base import Calibrator, Size, Threshold, Traits, no_confidence, no_groups
from guardband.conformal.rank import (
    INFINITE_SCORES,
    Level,
    checked_scores,
    exact,
    points_needed,
    warn_infinite,
)
from guardband.values import Prediction


@kept
@dataclass(frozen=True)
class Clustered(Calibrator):
    """Hierarchical conformal prediction: coverage of a reading of a new sensor.

    A reading of a new sensor is covered with probability at least `level`. The sensors are passed as `groups`
    at calibration. A 95 % band needs 19 sensors, regardless of the number of readings per sensor.

    Notes
    -----
    The threshold is the smallest t for which readings with score <= t have a total weight of at least
    `level`. Each of the N_k readings of sensor k has weight 1 / ((K+1) N_k), and weight 1 / (K+1) lies at
    infinity. With one reading per sensor this is `Split()`. Reference: Lee, Barber and Willett (2023).

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> sensor = np.repeat(np.arange(9), 10)  # 9 sensors, 10 readings of each
    >>> bias = 1.0 + sensor
    >>> calibrated = gb.calibrate_arrays(
    ...     0 * bias, bias, calibrator=gb.Clustered(), groups=sensor
    ... )
    >>> calibrated.band(gb.Prediction(None, [0.0]), level=0.9).upper.round(6)
    array([[9.]])
    """

    @property
    def promise(self) -> str:
        """The guarantee for new sensors."""
        return (
            "If the sensors (groups) of the calibration data and a new sensor are exchangeable, and so are "
            "the readings of each (none is special, as the latest of a drifting sensor would be), a reading "
            "of the new sensor lies in the band with probability at least the level."
        )

    def threshold(
        self,
        scores: Array,
        prediction: Prediction,
        *,
        groups: np.ndarray | None = None,
        confidence: Level | None = None,
    ) -> ClusteredThreshold:
        """Sort the scores of the readings, each with the number of readings of its sensor."""
        no_confidence(confidence, "Clustered()")
        if groups is None:
            raise ValueError("Clustered() needs `groups=`, the sensor of each calibration point.")
        scores = checked_scores(scores)
        _, sensor, readings = np.unique(groups, return_inverse=True, return_counts=True)
        order = np.argsort(scores, kind="stable")
        return ClusteredThreshold(scores[order], readings[sensor][order], len(readings))


@dataclass(frozen=True, eq=False)
class ClusteredThreshold(Threshold):
    """The sorted scores, the number of readings of the sensor of each score, and the number of sensors."""

    scores: np.ndarray
    readings: np.ndarray
    clusters: int
    traits: ClassVar[Traits] = Traits(covers_new_groups=True)

    def __call__(self, prediction: Prediction, level: Level, groups: np.ndarray | None = None) -> float:
        """Return the smallest score whose cumulative weight reaches the level, or infinity."""
        no_groups(groups, "a band of Clustered()", "it covers readings of new sensors.")
        needed = exact(level) * (self.clusters + 1)
        if needed > self.clusters:
            warn_infinite(
                f"level {float(exact(level)):g} for a new group needs {points_needed(level)} groups "
                f"(sensors), regardless of the number of readings in each, but there are {self.clusters}."
            )
            return math.inf
        sensor, weights = self._weights
        q = float(self.scores[np.searchsorted(weights, math.ceil(needed * sensor))])
        if math.isinf(q):
            warn_infinite(INFINITE_SCORES)
        return q

    @cached_property
    def _weights(self) -> tuple[int, np.ndarray]:
        """The weight of a sensor and the cumulative weights of the sorted scores, in exact integers."""
        sensor = math.lcm(*map(int, np.unique(self.readings)))
        fits = sensor * (self.clusters + 1) < 2**62
        readings = self.readings if fits else self.readings.astype(object)
        return sensor, np.cumsum(sensor // readings)

    def size(self, level: Level) -> Size:
        """Return the number of sensors, which are the exchangeable units."""
        return Size(self.clusters, points_needed(level), "sensors (groups)")
