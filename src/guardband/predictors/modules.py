"""Predictors as torch modules, x -> (mean, scale or None), so that a band can be traced and exported."""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

from torch import Tensor, nn

from guardband.pinn.fitted import Fitted

MeanAndScale: TypeAlias = tuple[Tensor, Tensor | None]
"""Mean (n, m) and scale (n, m), if there is one."""


def network_of(model: Any) -> nn.Module:
    """A copy of the torch module that a model is, or holds."""
    net = model.net if isinstance(model, Fitted) else model
    if not isinstance(net, nn.Module):
        raise TypeError(not_exported("model", "a torch module or the result of `gb.fit`", model))
    return copy.deepcopy(net).cpu().eval()


def not_exported(what: str, supported: str, given: Any) -> str:
    """Why something cannot be exported."""
    return f"To be exported, {what} should be {supported}, got {given!r}."


def answer(net: nn.Module, x: Tensor) -> Tensor:
    """net(x) in the network's own dtype, (n, m)."""
    parameter = next((p for p in net.parameters() if p.is_floating_point()), x)
    u = net(x.to(parameter.dtype))
    return u[:, None] if u.ndim == 1 else u


class Alone(nn.Module):
    """The network's output, and no scale."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> MeanAndScale:
        """Mean and scale at x."""
        return answer(self.net, x).to(x.dtype), None


class Spread(nn.Module):
    """Mean and standard deviation over outputs (draws, n, m), in float64."""

    def __init__(self, outputs: nn.Module) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, x: Tensor) -> MeanAndScale:
        """Mean and scale at x."""
        outputs = self.outputs(x)
        mean = outputs.mean(0)
        variance = (outputs - mean).square().sum(0) / (len(outputs) - 1)
        return mean.to(x.dtype), variance.sqrt().to(x.dtype)
