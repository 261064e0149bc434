from guardband.calibration.choose import Choice as Choice
from guardband.calibration.cross import calibrate_cross as calibrate_cross
from guardband.calibration.partition import Parts as Parts
