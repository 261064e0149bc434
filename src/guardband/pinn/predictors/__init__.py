"""Predictors based on a network's weights: weight draws, Laplace approximations, and the tangent space."""

from guardband.pinn.predictors.draws import Draws
from guardband.pinn.predictors.dropout import Dropout
from guardband.pinn.predictors.ensemble import train_ensemble
from guardband.pinn.predictors.hmc import HMC
from guardband.pinn.predictors.laplace import Laplace, LastLayerLaplace
from guardband.pinn.predictors.latent_distance import LatentDistance
from guardband.pinn.predictors.tangent import Tangent, TangentCalibrated, TangentPrediction
from guardband.pinn.predictors.variational import MeanFieldVI

__all__ = [
    "HMC",
    "Draws",
    "Dropout",
    "Laplace",
    "LastLayerLaplace",
    "LatentDistance",
    "MeanFieldVI",
    "Tangent",
    "TangentCalibrated",
    "TangentPrediction",
    "train_ensemble",
]
