"""PinballNetwork: residual quantiles from a small network for all levels, as in arXiv:2509.13717.

The network is positive and monotone in the level by construction. With one shape for all levels, its output
is exp(f(x)) times a factor per level. With a shape per level, its output is a sum of softplus increments.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from guardband.base.kept import kept
from guardband.conformal.laws import LEVELS
from guardband.conformal.rank import Level, exact


@kept
@dataclass(frozen=True)
class PinballNetwork:
    """A network that learns the size of residuals at x by the pinball loss over several levels.

    Quantiles are interpolated between the levels. Training stops at the smallest loss on a held-out fifth of
    the rows.

    Parameters
    ----------
    per_level
        Whether every level has a separate shape, as in the paper (arXiv:2509.13717); the bands are then not
        necessarily nested.
    levels
        The levels of the quantiles.
    widths
        The widths of the hidden layers.
    frequencies
        The number of random Fourier features.
    bandwidth
        The standard deviation of the frequencies of these features, per half extent of the data.
    steps
        The number of steps of Adam.
    learning_rate
        The learning rate of Adam.
    seed
        The seed of the weights and features.

    Notes
    -----
    Cost: a few seconds for 300 rows, independent of the number of levels; each point takes one evaluation of
    the network.

    Examples
    --------
    >>> import numpy as np
    >>> from guardband import pinn
    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> shape = pinn.PinballNetwork(steps=100, widths=(16,)).fit(
    ...     x, np.where(x[:, 0] < 0.5, 0.1, 1.0)
    ... )
    >>> quiet, noisy = shape(np.array([[0.2], [0.8]]))
    >>> bool(noisy > 2 * quiet)
    True
    """

    per_level: bool = False
    levels: tuple[Level, ...] = LEVELS
    widths: tuple[int, ...] = (64, 64)
    frequencies: int = 32
    bandwidth: float = 3.0
    steps: int = 2000
    learning_rate: float = 2e-3
    seed: int = 0

    @torch.inference_mode(False)
    @torch.enable_grad()
    def fit(self, x: np.ndarray, scores: np.ndarray) -> PinballShape:
        """Fit the shape to residuals.

        Parameters
        ----------
        x
            Points, shape (n, d).
        scores
            Nonnegative residuals, shape (n,).

        Returns
        -------
        PinballShape
            The size of the residuals as a function of x.
        """
        generator = torch.Generator().manual_seed(self.seed)
        points = torch.tensor(x, dtype=torch.float32)
        low, high = points.amin(0), points.amax(0)
        size = float(np.median(scores[scores > 0])) if (scores > 0).any() else 1.0
        y = torch.tensor(scores / size, dtype=torch.float32)[:, None]
        net = QuantileCurves(self, (low + high) / 2, ((high - low) / 2).clamp(min=1e-12), generator)
        order = torch.randperm(len(y), generator=generator)
        held_out, rest = order[: len(y) // 5], order[len(y) // 5 :]
        adam = torch.optim.Adam(net.parameters(), lr=self.learning_rate)
        least, best = float("inf"), copy.deepcopy(net.state_dict())
        for step in range(self.steps):
            adam.zero_grad()
            pinball(y[rest], net(points[rest]), net.taus).backward()
            adam.step()
            if step % 20 == 19:
                with torch.no_grad():
                    loss = float(pinball(y[held_out], net(points[held_out]), net.taus))
                if loss < least:
                    least, best = loss, copy.deepcopy(net.state_dict())
        net.load_state_dict(best)
        return PinballShape(net, size, self.per_level)


@kept
@dataclass(frozen=True, eq=False)
class PinballShape:
    """The quantile of a `PinballNetwork` at a level, or its single shape for all levels."""

    net: QuantileCurves
    size: float
    per_level: bool

    def __call__(self, x: np.ndarray, level: float = 0.95) -> np.ndarray:
        """The shape (n,) > 0 at x (n, d)."""
        with torch.no_grad():
            quantiles = self.net(torch.tensor(x, dtype=torch.float32)).double().numpy()
        taus = self.net.taus.double().numpy()
        right = int(np.clip(np.searchsorted(taus, level), min(1, len(taus) - 1), len(taus) - 1))
        left = max(right - 1, 0)
        share = np.clip((level - taus[left]) / max(taus[right] - taus[left], 1e-12), 0, 1)
        return self.size * ((1 - share) * quantiles[:, left] + share * quantiles[:, right])

    def as_module(self, level: float) -> nn.Module:
        """The shape at one level as a torch module."""
        return _PinballModule(self, level)


class QuantileCurves(nn.Module):
    """A network from x to quantiles (n, levels), positive and increasing with the level."""

    per_level: bool
    taus: Tensor
    center: Tensor
    reach: Tensor
    waves: Tensor
    hidden: nn.ModuleList
    last: nn.Module
    increments: nn.Parameter

    def __init__(
        self, settings: PinballNetwork, center: Tensor, reach: Tensor, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.per_level = settings.per_level
        levels = sorted(float(exact(level)) for level in settings.levels)
        self.taus = torch.tensor(levels, dtype=torch.float32)
        self.center, self.reach = center, reach
        shape, single = (len(center), settings.frequencies), torch.float32
        self.waves = settings.bandwidth * torch.randn(shape, generator=generator, dtype=single)
        sizes = [len(center) + 2 * settings.frequencies, *settings.widths]
        self.hidden = nn.ModuleList(
            nn.utils.skip_init(nn.Linear, a, b, dtype=single) for a, b in pairwise(sizes)
        )
        self.last = nn.utils.skip_init(
            nn.Linear, sizes[-1], len(levels) if self.per_level else 1, dtype=single
        )
        self.increments = nn.Parameter(torch.full((len(levels),), -2.0, dtype=single))
        for layer in (*self.hidden, self.last):
            bound = layer.in_features**-0.5  # type: ignore[union-attr]
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """The quantiles (n, levels) at x (n, d)."""
        inside = (x - self.center) / self.reach
        waves = inside @ self.waves
        h = torch.cat([inside, waves.sin(), waves.cos()], dim=1)
        for layer in self.hidden:
            h = torch.tanh(layer(h))
        out = self.last(h)
        if self.per_level:
            return softplus(out + self.increments).cumsum(1) + 1e-6
        return out.exp() * (softplus(self.increments).cumsum(0) + 1e-6)


PARTS = ("per_level", "taus", "center", "reach", "waves")


def _parts(net: QuantileCurves) -> dict[str, Any]:
    return {part: getattr(net, part) for part in PARTS} | {"weights": dict(net.state_dict())}


def _made(parts: dict[str, Any]) -> QuantileCurves:
    net, weights = QuantileCurves.__new__(QuantileCurves), parts["weights"]
    nn.Module.__init__(net)
    for part in PARTS:
        setattr(net, part, parts[part])
    hidden = [w for name, w in weights.items() if name.startswith("hidden.") and name.endswith(".weight")]
    net.hidden = nn.ModuleList(nn.Linear(w.shape[1], w.shape[0]) for w in hidden)
    n_out, n_in = weights["last.weight"].shape
    net.last = nn.Linear(n_in, n_out)
    net.increments = nn.Parameter(torch.zeros(len(weights["increments"])))
    net.load_state_dict(weights)
    return net


kept(parts=_parts, made=_made)(QuantileCurves)


class _PinballModule(nn.Module):
    """`PinballShape` at one level, as an interpolation of two quantiles of its network."""

    def __init__(self, shape: PinballShape, level: float) -> None:
        super().__init__()
        self.net, self.size = copy.deepcopy(shape.net), shape.size
        taus = shape.net.taus.double().numpy()
        self.right = int(np.clip(np.searchsorted(taus, level), min(1, len(taus) - 1), len(taus) - 1))
        self.left = max(self.right - 1, 0)
        gap = max(taus[self.right] - taus[self.left], 1e-12)
        self.share = float(np.clip((level - taus[self.left]) / gap, 0, 1))

    def forward(self, x: Tensor) -> Tensor:
        """The shape (n,) at x (n, d)."""
        quantiles = self.net(x.float()).double()
        left, right = quantiles[:, self.left], quantiles[:, self.right]
        return self.size * ((1 - self.share) * left + self.share * right)


def pinball(y: Tensor, quantiles: Tensor, taus: Tensor) -> Tensor:
    """The mean pinball loss of quantiles (n, levels) at levels taus for y (n, 1)."""
    miss = y - quantiles
    return torch.maximum(taus * miss, (taus - 1) * miss).mean()
