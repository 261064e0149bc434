"""Testing: the laws every predictor, score and calibrator obeys, to be run on your own.

    gb.testing.check_predictor(MyPredictor(net), x)
    gb.testing.check_score(MyScore())
    gb.testing.check_threshold(MyCalibrator())
    gb.testing.check_calibrator(MyCalibrator())
    gb.testing.check_calibrated(my_calibrated, x, y)

Each returns nothing when the laws hold and raises an `AssertionError` that names the broken one.
Randomness is seeded, so a result is the same at every run; `check_calibrator` compares with exact laws
and states its false-alarm rate.
"""

from guardband.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

del attach
