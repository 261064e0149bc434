"""How it is learnt: networks, their derivatives, the likelihood that is the loss, and the training loop."""

from guardband.pinn.derivatives import differentiate
from guardband.pinn.judging import Verdict
from guardband.pinn.likelihood import Likelihood
from guardband.pinn.networks import MLP, Constrained, mlp
from guardband.pinn.potential import Potential, Prior
from guardband.pinn.recipe import Recipe
from guardband.pinn.train import Fitted, TrainingDiverged, fit
from guardband.pinn.verdict import verdict

__all__ = [
    "MLP",
    "Constrained",
    "Fitted",
    "Likelihood",
    "Potential",
    "Prior",
    "Recipe",
    "TrainingDiverged",
    "Verdict",
    "differentiate",
    "fit",
    "mlp",
    "verdict",
]
