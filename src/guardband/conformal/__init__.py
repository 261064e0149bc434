"""The guarantee: exact ranks, the laws they obey, scores, calibrators. Knows arrays, never a network."""

from guardband.conformal.base import Calibrator, Threshold
from guardband.conformal.calibrate import Calibrated, calibrate, calibrate_arrays
from guardband.conformal.clustered import Clustered
from guardband.conformal.grouped import Grouped
from guardband.conformal.laws import LEVELS, CoverageLaw
from guardband.conformal.local import Local, OverfittedWarning
from guardband.conformal.localized import Localized
from guardband.conformal.logscale import LogScale
from guardband.conformal.pinball import PinballNetwork
from guardband.conformal.rank import (
    InfiniteBandWarning,
    confident_rank,
    points_needed,
    quantile,
    rank,
)
from guardband.conformal.scores import Absolute, Scaled, Score, Symmetric, Total, raw_band
from guardband.conformal.shards import calibrate_shards, order_statistics
from guardband.conformal.simultaneous import Simultaneous
from guardband.conformal.split import Split
from guardband.conformal.weighted import Weighted, density_ratio

__all__ = [
    "LEVELS",
    "Absolute",
    "Calibrated",
    "Calibrator",
    "Clustered",
    "CoverageLaw",
    "Grouped",
    "InfiniteBandWarning",
    "Local",
    "Localized",
    "LogScale",
    "OverfittedWarning",
    "PinballNetwork",
    "Scaled",
    "Score",
    "Simultaneous",
    "Split",
    "Symmetric",
    "Threshold",
    "Total",
    "Weighted",
    "calibrate",
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
