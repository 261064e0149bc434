"""Observations, predictions and bands: frozen values that are validated on construction."""

from guardband.values.bands import Band as Band
from guardband.values.bands import NormBand as NormBand
from guardband.values.names import Names as Names
from guardband.values.names import output_names as output_names
from guardband.values.names import position as position
from guardband.values.observations import Observations as Observations
from guardband.values.prediction import MODEL as MODEL
from guardband.values.prediction import Prediction as Prediction
from guardband.values.prediction import Predictor as Predictor
