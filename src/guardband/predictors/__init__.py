"""How sure: predictors say what they believe and where they are unsure. All are fixed functions of x."""

from guardband.predictors.distance import Distance, LatentDistance
from guardband.predictors.draws import Draws
from guardband.predictors.dropout import Dropout
from guardband.predictors.ensemble import Ensemble
from guardband.predictors.function import PredictionFunction
from guardband.predictors.given import Given
from guardband.predictors.hmc import HMC
from guardband.predictors.laplace import Laplace, LastLayerLaplace
from guardband.predictors.mean_only import MeanOnly
from guardband.predictors.outputs import Outputs
from guardband.predictors.quantiles import Quantiles
from guardband.predictors.variational import MeanFieldVI

__all__ = [
    "HMC",
    "Distance",
    "Draws",
    "Dropout",
    "Ensemble",
    "Given",
    "Laplace",
    "LastLayerLaplace",
    "LatentDistance",
    "MeanFieldVI",
    "MeanOnly",
    "Outputs",
    "PredictionFunction",
    "Quantiles",
]
