"""Prediction bands with a finite-sample coverage guarantee for PINNs and other PDE surrogates."""

from guardband import conformal, metrics, plot, predictors, testing
from guardband.conformal import (
    LEVELS,
    Absolute,
    Calibrated,
    Clustered,
    Grouped,
    InfiniteBandWarning,
    Scaled,
    Split,
    Total,
    calibrate,
    calibrate_arrays,
    points_needed,
    raw_band,
)
from guardband.metrics import Evaluation, evaluate
from guardband.values import Band, Observations, Prediction, Predictor

__version__ = "0.1.0.dev0"

__all__ = [
    "LEVELS",
    "Absolute",
    "Band",
    "Calibrated",
    "Clustered",
    "Evaluation",
    "Grouped",
    "InfiniteBandWarning",
    "Observations",
    "Prediction",
    "Predictor",
    "Scaled",
    "Split",
    "Total",
    "calibrate",
    "calibrate_arrays",
    "conformal",
    "evaluate",
    "metrics",
    "plot",
    "points_needed",
    "predictors",
    "raw_band",
    "testing",
]
