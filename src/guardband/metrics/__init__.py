"""Metrics: how often a band covers and how wide it is; what ensembles and quantiles are worth."""

from guardband.metrics.bands import (
    Floor,
    acd,
    acd_floor,
    coverage,
    interval_score,
    relative_l2,
    sharpness,
)
from guardband.metrics.draws import Average, Histogram, crps, energy_score, pit, quantile_loss

__all__ = [
    "Average",
    "Floor",
    "Histogram",
    "acd",
    "acd_floor",
    "coverage",
    "crps",
    "energy_score",
    "interval_score",
    "pit",
    "quantile_loss",
    "relative_l2",
    "sharpness",
]
