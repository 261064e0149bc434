"""How it is learned: networks, their derivatives, the likelihood that is the loss, and the training loop."""

from guardband.pinn.derivatives import differentiate
from guardband.pinn.fitted import Fitted, TrainingDiverged, TrainingInterrupted
from guardband.pinn.judging import Verdict
from guardband.pinn.likelihood import Likelihood
from guardband.pinn.networks import MLP, Constrained, mlp
from guardband.pinn.point_estimates import PointEstimates
from guardband.pinn.potential import Potential, Prior
from guardband.pinn.recipe import Recipe
from guardband.pinn.tangent import Tangent, TangentCalibrated, TangentPrediction
from guardband.pinn.train import fit
from guardband.pinn.training import Moment
from guardband.pinn.verdict import verdict
from guardband.pinn.windows import Windowed

__all__ = [
    "MLP",
    "Constrained",
    "Fitted",
    "Likelihood",
    "Moment",
    "PointEstimates",
    "Potential",
    "Prior",
    "Recipe",
    "Tangent",
    "TangentCalibrated",
    "TangentPrediction",
    "TrainingDiverged",
    "TrainingInterrupted",
    "Verdict",
    "Windowed",
    "differentiate",
    "fit",
    "mlp",
    "verdict",
]
