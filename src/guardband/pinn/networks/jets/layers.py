"""A network as arithmetic: features of the points, weights, activations and masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from guardband.pinn.networks.activations import Activation
from guardband.pinn.networks.jets.channels import Channels


class Waves(NamedTuple):
    """Fourier features, matrix x + phase (n, k), where the sine is applied to the entries marked in `waves`.

    Angles are measured in half turns, so that periods are exact in any precision.
    """

    matrix: Tensor
    phase: Tensor
    waves: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """The features (n, k) of points (n, d)."""
        turns = x @ self.matrix.T + self.phase
        return torch.where(self.waves, (torch.pi * turns).sin(), turns)

    def jet(self, x: Tensor, reach: Tensor, channels: Channels) -> Tensor:
        """The features and their derivatives, (channels, n, k)."""
        turns = x @ self.matrix.T + self.phase
        angle, zero = torch.pi * turns, torch.zeros_like(turns)
        sine, cosine = angle.sin(), angle.cos()
        first = torch.where(self.waves, cosine, 1.0)
        second, third = torch.where(self.waves, -sine, zero), torch.where(self.waves, -cosine, zero)
        scale = 1 + (torch.pi - 1) * self.waves.to(x)
        slopes = [scale * self.matrix[:, axis] / reach[axis] for axis in channels.axes]
        jet = [torch.where(self.waves, sine, turns), *(first * slope for slope in slopes)]
        jet += [second * sum(slopes[i] * slopes[j] for i, j in pairs) for pairs in channels.sums]
        jet += [third * slopes[p] ** 3 for p in channels.thirds]
        jet += [-second * slopes[p] ** 4 for p in channels.fourths]
        return torch.stack(jet)


def identity_jet(x: Tensor, reach: Tensor, channels: Channels) -> Tensor:
    """The jet (channels, n, d) of scaled points (n, d) as functions of the coordinates."""
    jet = x.new_zeros(len(channels), *x.shape)
    jet[0] = x
    for i, axis in enumerate(channels.axes):
        jet[1 + i, :, axis] = 1 / reach[axis]
    return jet


class Layers(NamedTuple):
    """The arithmetic of a network: features, then linear layers separated by an activation and a mask.

    `reach` is the divisor of each coordinate, which the first derivatives of the inputs take into account.
    """

    weights: Sequence[Tensor]
    biases: Sequence[Tensor]
    activations: Sequence[Activation]
    masks: Sequence[Tensor | None]
    reach: Tensor
    features: Waves | None = None
