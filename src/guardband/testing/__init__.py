"""Checks of the properties that every predictor, score and calibrator must have, for your own classes.

    gb.testing.check_predictor(MyPredictor(net), x)
    gb.testing.check_score(MyScore())
    gb.testing.check_threshold(MyCalibrator())
    gb.testing.check_calibrator(MyCalibrator())
    gb.testing.check_calibrated(my_calibrated, x, y)

Each check returns None if all properties hold, and otherwise raises an `AssertionError` that names a violated
one. Randomness is seeded, so results are reproducible. `check_calibrator` compares coverage with exact laws
at a stated false-alarm rate.
"""

from guardband.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

del attach
