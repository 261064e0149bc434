"""A predictor whose scale is the local variation of the model, written outside of the package.

The scale is |f(x + step) - f(x - step)|. It need not be accurate: the promise is that of the calibrator.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import guardband as gb
from guardband.export.modules import network_of


@gb.kept
@dataclass(frozen=True, eq=False)
class Steep(gb.Predictor):
    """A model, with its change within a `step` of x along all coordinates at once as the scale."""

    model: Any
    step: float = 0.01
    training_data: gb.Observations | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.training_data is None:  # the result of `pinn.fit` has them
            object.__setattr__(self, "training_data", getattr(self.model, "training_data", None))

    def __call__(self, x: Any) -> gb.Prediction:
        mean = gb.predictors.MeanOnly(self.model)
        ahead, behind = mean(x + self.step).mean, mean(x - self.step).mean
        return gb.Prediction(x, mean(x).mean, abs(ahead - behind))

    def as_module(self) -> nn.Module:
        return SteepModule(network_of(self.model), self.step)


class SteepModule(nn.Module):
    """x -> mean, scale."""

    def __init__(self, net: nn.Module, step: float) -> None:
        super().__init__()
        self.net, self.step = net, step

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        dtype = next(self.net.parameters()).dtype
        mean, ahead, behind = (
            self.net((x + step).to(dtype)).to(x.dtype) for step in (0.0, self.step, -self.step)
        )
        return mean, (ahead - behind).abs()
