"""Watch: how far held-out readings are missed while a run goes on, and when to end it."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from guardband.models import evaluating
from guardband.pinn.given import tensors_of
from guardband.problems import Problem
from guardband.values import Observations


class Watch:
    """Held-out readings, looked at with every row of the history; `patience` keeps the best network."""

    def __init__(
        self, problem: Problem, net: nn.Module, held_out: Observations, patience: int | None
    ) -> None:
        self._x, self._y = tensors_of(problem, held_out, net)
        self._patience = patience
        self._least, self._waited = float("inf"), 0
        self._weights: dict[str, Tensor] | None = None

    def look(self, net: nn.Module) -> float:
        """The mean square by which readings are missed now."""
        like = next(net.parameters())
        with torch.no_grad(), evaluating(net):
            off = net(self._x.to(like)) - self._y.to(like)
        missed = float(off[self._y.isfinite().to(off.device)].square().mean())
        if missed < self._least:
            self._least, self._waited = missed, 0
            self._weights = copy.deepcopy(net.state_dict()) if self._patience is not None else None
        else:
            self._waited += 1
        return missed

    @property
    def over(self) -> bool:
        """Whether patience is at its end."""
        return self._patience is not None and self._waited >= self._patience

    def restore(self, net: nn.Module) -> None:
        """Give a network the weights that missed the readings least."""
        if self._weights is not None:
            net.load_state_dict(self._weights)

    def state(self) -> dict[str, Any]:
        """All that changes."""
        return {"least": self._least, "waited": self._waited, "weights": self._weights}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self._least, self._waited, self._weights = state["least"], state["waited"], state["weights"]
