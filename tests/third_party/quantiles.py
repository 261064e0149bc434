"""Conformalized quantile regression (Romano, Patterson and Candes 2019), written outside of the package.

Two models predict quantiles of y; the score is the distance of y from the interval between them,
negative inside. The promise is that of the calibrator. If the threshold is negative by more
than half the gap, lower - q lies above upper + q: the set and the band are empty.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

import guardband as gb
from guardband.base.arrays import kind_of
from guardband.export.modules import network_of
from guardband.predictors.models import call_model


@gb.kept
@dataclass(frozen=True, eq=False)
class EndsPrediction(gb.Prediction):
    """A lower and an upper quantile (n, m), with their midpoint as the mean."""

    lower: Any = None
    upper: Any = None


@gb.kept
@dataclass(frozen=True, eq=False)
class QuantilePair(gb.Predictor):
    """Two models of x: one for a lower, one for an upper quantile."""

    low: Any
    high: Any
    training_data: gb.Observations | None = field(default=None, kw_only=True)

    def __call__(self, x: Any) -> EndsPrediction:
        lower, upper = call_model(self.low, x), call_model(self.high, x)
        lower, upper = (end[:, None] if end.ndim == 1 else end for end in (lower, upper))
        return EndsPrediction(x, (lower + upper) / 2, lower=lower, upper=upper)

    def as_module(self) -> nn.Module:
        return QuantileModule(network_of(self.low), network_of(self.high))


@gb.kept
@dataclass(frozen=True, repr=False)
class Outside(gb.conformal.Score):
    """max(lower - y, y - upper), the largest over the outputs: the distance outside, negative inside."""

    def __call__(self, prediction: gb.Prediction, y: Any) -> Any:
        lower, upper = ends(prediction)
        below, above = lower - y, y - upper
        if isinstance(below, torch.Tensor):
            return torch.maximum(below, above).amax(-1)
        return np.maximum(below, above).max(axis=-1)

    def band(self, prediction: gb.Prediction, q: Any, level: float) -> gb.Band:
        """[lower - q, upper + q], rounded outwards; empty if the ends cross."""
        lower, upper = ends(prediction)
        q = kind_of(lower, np.asarray(q, dtype=float).reshape(-1, 1))
        few = 4 * float(np.finfo(str(lower.dtype).removeprefix("torch.")).eps)
        made = lower - q - few * (abs(lower) + abs(q)), upper + q + few * (abs(upper) + abs(q))
        return gb.Band(prediction.x, prediction.mean, *made, level)

    def as_module(self) -> nn.Module:
        return OutsideModule()


def ends(prediction: gb.Prediction) -> tuple[Any, Any]:
    """Return the two quantiles; refuse predictions without them."""
    if not isinstance(prediction, EndsPrediction):
        raise TypeError(f"Outside() wants a EndsPrediction, got {type(prediction).__name__}.")
    return prediction.lower, prediction.upper


class QuantileModule(nn.Module):
    """x -> mean, lower, upper."""

    def __init__(self, low: nn.Module, high: nn.Module) -> None:
        super().__init__()
        self.low, self.high = low, high

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        dtype = next(self.low.parameters()).dtype
        lower, upper = (net(x.to(dtype)).to(x.dtype) for net in (self.low, self.high))
        return (lower + upper) / 2, lower, upper


class OutsideModule(nn.Module):
    """(mean, lower, upper, q) -> lower - q, upper + q."""

    def forward(self, mean: Any, lower: Any, upper: Any, q: Any) -> tuple[Any, Any]:
        return lower - q, upper + q
