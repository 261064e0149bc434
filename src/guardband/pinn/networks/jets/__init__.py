"""Jets: a forward pass that carries derivatives with the value, and a reverse pass written by hand.

A jet is a tensor (channels, n, width): the value, first derivatives along some axes, sums of second
derivatives, and third and fourth derivatives along an axis. A linear layer acts on all channels by one matrix
product, and an activation s acts by the chain rule:

    value    s(z)
    first    s'(z) z_i
    second   s'(z) z_S + s''(z) sum z_i z_j      z_S: the sum of the derivatives z_ij, (i, j) in S
    third    s'(z) z_3 + 3 s''(z) z_1 z_2 + s'''(z) z_1^3                along one axis
    fourth   s'(z) z_4 + s''(z) (4 z_1 z_3 + 3 z_2^2) + 6 s'''(z) z_1^2 z_2 + s''''(z) z_1^4

This needs a fraction of the memory traffic of repeated autograd. The formulas are implemented twice: once in
place in reused memory, which is fastest in eager torch, and once without side effects, which `torch.compile`
fuses best.
"""

from guardband.pinn.networks.jets.channels import Channels
from guardband.pinn.networks.jets.function import Jet, tiles
from guardband.pinn.networks.jets.fused import FUSED, Passes, compiled_passes
from guardband.pinn.networks.jets.in_place import APART, EACH, Memory, Tape, forward_pass, reverse_pass
from guardband.pinn.networks.jets.layers import Layers, Waves, identity_jet

__all__ = [
    "APART",
    "EACH",
    "FUSED",
    "Channels",
    "Jet",
    "Layers",
    "Memory",
    "Passes",
    "Tape",
    "Waves",
    "compiled_passes",
    "forward_pass",
    "identity_jet",
    "reverse_pass",
    "tiles",
]
