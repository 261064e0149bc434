"""Prediction bands with a finite-sample coverage guarantee for PINNs and other PDE surrogates."""

from guardband import conformal, metrics, pinn, plot, predictors, problems, testing
from guardband.conformal import (
    LEVELS,
    Absolute,
    Calibrated,
    Clustered,
    Grouped,
    InfiniteBandWarning,
    Local,
    LogScale,
    OverfittedWarning,
    PinballNetwork,
    Scaled,
    Split,
    Total,
    calibrate,
    calibrate_arrays,
    points_needed,
    raw_band,
)
from guardband.metrics import Evaluation, evaluate
from guardband.pinn import Constrained, Fitted, Likelihood, Recipe, TrainingDiverged, fit, mlp
from guardband.values import Band, Observations, Prediction, Predictor

__version__ = "0.1.0.dev0"

__all__ = [
    "LEVELS",
    "Absolute",
    "Band",
    "Calibrated",
    "Clustered",
    "Constrained",
    "Evaluation",
    "Fitted",
    "Grouped",
    "InfiniteBandWarning",
    "Likelihood",
    "Local",
    "LogScale",
    "Observations",
    "OverfittedWarning",
    "PinballNetwork",
    "Prediction",
    "Predictor",
    "Recipe",
    "Scaled",
    "Split",
    "Total",
    "TrainingDiverged",
    "calibrate",
    "calibrate_arrays",
    "conformal",
    "evaluate",
    "fit",
    "metrics",
    "mlp",
    "pinn",
    "plot",
    "points_needed",
    "predictors",
    "problems",
    "raw_band",
    "testing",
]
