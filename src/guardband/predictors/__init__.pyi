__all__: list[str]

from guardband.predictors.distance import Distance as Distance
from guardband.predictors.ensemble import Ensemble as Ensemble
from guardband.predictors.function import PredictionFunction as PredictionFunction
from guardband.predictors.given import Given as Given
from guardband.predictors.mean_only import MeanOnly as MeanOnly
from guardband.predictors.outputs import Outputs as Outputs
from guardband.predictors.quantiles import Quantiles as Quantiles
