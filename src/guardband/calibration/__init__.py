"""Calibrate a model on held-out data, by cross-validation, or as a choice among several candidates.

`partition.py` splits observations into parts for training, choosing, calibration and testing.
"""

from guardband.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

del attach
