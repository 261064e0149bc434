"""Calibrate a model on held-out data: once, by cross-validation, or as a choice among several bands.

`partition.py` splits one set of observations into parts for training, choosing, calibrating and testing.
"""

from guardband.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

del attach
