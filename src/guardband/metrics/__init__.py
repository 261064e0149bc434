"""Metrics of bands (coverage, sharpness, interval score, ACD) and of ensembles and quantiles."""

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
