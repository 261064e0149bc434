"""Testing: the laws every predictor, score and calibrator obeys, to be run on your own.

    gb.testing.check_predictor(MyPredictor(net), x)
    gb.testing.check_score(MyScore())
    gb.testing.check_threshold(MyCalibrator())
    gb.testing.check_calibrator(MyCalibrator())
    gb.testing.check_calibrated(my_calibrated, x, y)
    gb.testing.check_problem(MyProblem())
    gb.testing.check_domain(MyShape())

Each returns nothing when the laws hold and raises an `AssertionError` that names the broken one.
Randomness is seeded, so a result is the same at every run; `check_calibrator` compares with exact laws
and states its false-alarm rate.
"""

from guardband.geometry.laws import check_domain as check_domain
from guardband.testing.calibrators import TEST_POINTS as TEST_POINTS
from guardband.testing.calibrators import check_calibrator as check_calibrator
from guardband.testing.equations import check_problem as check_problem
from guardband.testing.predictors import check_predictor as check_predictor
from guardband.testing.sets import check_calibrated as check_calibrated
from guardband.testing.sets import check_score as check_score
from guardband.testing.sets import check_threshold as check_threshold
from guardband.testing.traces import untouched as untouched
from guardband.testing.worlds import HEAVY_TAILS as HEAVY_TAILS
from guardband.testing.worlds import HETEROSKEDASTIC as HETEROSKEDASTIC
from guardband.testing.worlds import HOMOSKEDASTIC as HOMOSKEDASTIC
from guardband.testing.worlds import WORLDS as WORLDS
from guardband.testing.worlds import Draw as Draw
from guardband.testing.worlds import Sampler as Sampler
from guardband.testing.worlds import World as World
from guardband.testing.worlds import exchangeable as exchangeable
from guardband.testing.worlds import new_sensors as new_sensors
from guardband.testing.worlds import two_groups as two_groups
