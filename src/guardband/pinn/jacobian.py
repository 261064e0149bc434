"""Jacobians: how every miss at every point changes with every weight.

Each point is given its own copy of the weights, so one backward pass over all points at once gives one
gradient per point. It works for any residual and any module that `torch.func` can call, in any thread and
whatever mode of torch is on.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from guardband.models import own_modules
from guardband.pinn.derivatives import Residual
from guardband.problems import AutogradField, Field, Names

POINTS_AT_ONCE = 128
"""How many points are differentiated at a time; each holds some ten copies of the weights."""


def value(x: Tensor, u: Field) -> Tensor:
    """The residual that is the value itself: its Jacobian is that of the network's output."""
    return u.value


def jacobian(
    residual: Residual,
    net: nn.Module,
    x: Tensor,
    names: Sequence[str] | None = None,
    *,
    of: Names | None = None,
    normals: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The residual (n, q) at points x (n, d), and its derivatives in the named weights (n, q, P).

    The weights are in the order of `net.named_parameters()`; by default they are all of them. `of` are the
    names of axes and outputs; `normals` those of points on a boundary.

    >>> net = nn.Linear(2, 1)
    >>> misses, slopes = jacobian(value, net, torch.tensor([[3.0, 4.0]]))
    >>> slopes.tolist()  # of w1 x1 + w2 x2 + b
    [[[3.0, 4.0, 1.0]]]
    """
    with torch.inference_mode(False), torch.enable_grad():
        net, x = own_modules(net), _ordinary(x)
        outward = torch.zeros_like(x) if normals is None else _ordinary(normals)
        chunks = zip(x.split(POINTS_AT_ONCE), outward.split(POINTS_AT_ONCE), strict=True)
        parts = [_part(residual, net, chunk, names, of, along) for chunk, along in chunks]
    misses, slopes = zip(*parts, strict=True)
    return torch.cat(misses), torch.cat(slopes)


def _part(
    residual: Residual,
    net: nn.Module,
    x: Tensor,
    names: Sequence[str] | None,
    of: Names | None,
    normals: Tensor,
) -> tuple[Tensor, Tensor]:
    weights = {name: _ordinary(p.detach()) for name, p in net.named_parameters()}
    chosen = [name for name in weights if names is None or name in names]
    copies = {name: weights[name].expand(len(x), *weights[name].shape).clone() for name in chosen}
    leaves = [copy.requires_grad_() for copy in copies.values()]

    def one(own: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(net, {**weights, **own}, (x[None],))[0]

    field = AutogradField(lambda x: vmap(one)(copies, x), x, of, normals)
    misses = residual(x, field)
    slopes = []
    for j in range(misses.shape[1]):
        gradients = torch.autograd.grad(
            misses[:, j].sum(), leaves, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        slopes.append(torch.cat([gradient.flatten(1) for gradient in gradients], dim=1))
    return misses.detach(), torch.stack(slopes, dim=1)


def _ordinary(a: Tensor) -> Tensor:
    """The same numbers as a tensor that derivatives may be taken of: one of inference mode is copied."""
    return a.clone() if a.is_inference() else a
