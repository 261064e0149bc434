"""The chain rule for third and fourth derivatives, forward and in reverse, for both kinds of passes."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from guardband.pinn.networks.activations import Activation
from guardband.pinn.networks.jets.channels import Channels


def bends(
    z: Sequence[Tensor], activation: Activation, slopes: tuple[Tensor, Tensor, Tensor], channels: Channels
) -> list[tuple[int, Tensor]]:
    """The contributions of lower derivatives to third and fourth derivatives at an activation, by channel."""
    value, first, second = slopes
    third = activation.third(z[0], value, first, second)
    fourth = activation.higher(z[0], value, first, second, third)[0] if channels.fourths else third
    found = []
    for c1, c2, c3, c4 in channels.lines():
        z1, z2, z3 = z[c1], z[c2], z[c3]
        found.append((c3, z1 * (3 * second * z2 + third * z1 * z1)))
        if c4 is not None:
            curved = second * (4 * z1 * z3 + 3 * z2 * z2)
            found.append((c4, curved + z1 * z1 * (6 * third * z2 + fourth * z1 * z1)))
    return found


def bends_back(
    back: Sequence[Tensor],
    z: Sequence[Tensor],
    activation: Activation,
    slopes: tuple[Tensor, Tensor, Tensor],
    channels: Channels,
) -> list[tuple[int, Tensor]]:
    """The reverse of `bends`: contributions to gradients of lower channels, given the gradients after it."""
    value, first, second = slopes
    third = activation.third(z[0], value, first, second)
    fourth, fifth = activation.higher(z[0], value, first, second, third)
    found = []
    for c1, c2, c3, c4 in channels.lines():
        z1, z2, z3, g = z[c1], z[c2], z[c3], back[c3]
        found.append((0, g * z1 * (3 * third * z2 + fourth * z1 * z1)))
        found.append((c1, g * 3 * (second * z2 + third * z1 * z1)))
        found.append((c2, g * 3 * second * z1))
        if c4 is not None:
            g = back[c4]
            curved = third * (4 * z1 * z3 + 3 * z2 * z2)
            found.append((0, g * (curved + z1 * z1 * (6 * fourth * z2 + fifth * z1 * z1))))
            found.append((c1, g * 4 * (second * z3 + z1 * (3 * third * z2 + fourth * z1 * z1))))
            found.append((c2, g * 6 * (second * z2 + third * z1 * z1)))
            found.append((c3, g * 4 * second * z1))
    return found
