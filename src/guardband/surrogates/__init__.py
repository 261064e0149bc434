"""Surrogates of solvers: rollouts of one-step models, and scales that follow the errors of operators."""

from guardband.base.lazy import Getter, moved
from guardband.surrogates.adapted import Adapted, adapted, cross_fitted
from guardband.surrogates.horizon import Horizon, horizon
from guardband.surrogates.rollout import Rollout
from guardband.surrogates.scales import ConstantScale, SizeScale, SmoothedScale

__all__ = [
    "Adapted",
    "ConstantScale",
    "Horizon",
    "Rollout",
    "SizeScale",
    "SmoothedScale",
    "adapted",
    "cross_fitted",
    "horizon",
]

__getattr__: Getter = moved(__name__)

del Getter, moved
