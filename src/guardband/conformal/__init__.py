"""The guarantee: exact ranks, coverage laws, scores and calibrators, for arrays from any model."""

from guardband.base.lazy import Getter, moved
from guardband.conformal.base import Calibrator, Learned, Size, Threshold, Traits
from guardband.conformal.calibrate import calibrate_arrays
from guardband.conformal.calibrated import Calibrated
from guardband.conformal.chosen import Chosen
from guardband.conformal.clustered import Clustered
from guardband.conformal.conditional import Conditional
from guardband.conformal.cross import CrossPrediction, CrossValidated
from guardband.conformal.grouped import Grouped
from guardband.conformal.laws import LEVELS, CoverageLaw
from guardband.conformal.local import Local, LogScale, OverfittedWarning
from guardband.conformal.noise import BoundedNoise, GaussianNoise, LaplaceNoise, NoiseLaw, UniformNoise
from guardband.conformal.quantiles import CQR, QuantilePrediction
from guardband.conformal.randomly_localized import RandomlyLocalized
from guardband.conformal.rank import (
    InfiniteBandWarning,
    confident_rank,
    points_needed,
    quantile,
    rank,
)
from guardband.conformal.risk import RiskControl, ShareOutside
from guardband.conformal.score_calibrated import ScoreCalibrated
from guardband.conformal.scores import Absolute, Scaled, Score, Symmetric, Total, raw_band
from guardband.conformal.shards import calibrate_shards, order_statistics
from guardband.conformal.sides import OneSided
from guardband.conformal.split import Split
from guardband.conformal.truth import Truth
from guardband.conformal.weighted import Weighted, density_ratio
from guardband.conformal.whole import Norm, Quantity, Share, ShareBand, Simultaneous

__all__ = [
    "CQR",
    "LEVELS",
    "Absolute",
    "BoundedNoise",
    "Calibrated",
    "Calibrator",
    "Chosen",
    "Clustered",
    "Conditional",
    "CoverageLaw",
    "CrossPrediction",
    "CrossValidated",
    "GaussianNoise",
    "Grouped",
    "InfiniteBandWarning",
    "LaplaceNoise",
    "Learned",
    "Local",
    "LogScale",
    "NoiseLaw",
    "Norm",
    "OneSided",
    "OverfittedWarning",
    "QuantilePrediction",
    "Quantity",
    "RandomlyLocalized",
    "RiskControl",
    "Scaled",
    "Score",
    "ScoreCalibrated",
    "Share",
    "ShareBand",
    "ShareOutside",
    "Simultaneous",
    "Size",
    "Split",
    "Symmetric",
    "Threshold",
    "Total",
    "Traits",
    "Truth",
    "UniformNoise",
    "Weighted",
    "calibrate_arrays",
    "calibrate_shards",
    "confident_rank",
    "density_ratio",
    "order_statistics",
    "points_needed",
    "quantile",
    "rank",
    "raw_band",
]

__getattr__: Getter = moved(__name__)

del Getter, moved
