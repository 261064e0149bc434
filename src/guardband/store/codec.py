"""The codec: values as plain JSON and named arrays, and back. Nothing is run that a file names.

A file can only name kinds listed here. Whatever is not one of them, a user's own network or function, is left
out under the name of its place ("model", "ratio", ...) and handed in again at load.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from guardband import conformal, pinn, predictors, problems
from guardband.conformal import local, logscale, pinball, weighted
from guardband.pinn import activations, networks
from guardband.predictors import diagnostics, distance, draws, laplace
from guardband.problems import noise
from guardband.values import Observations, Prediction

KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(Observations, Prediction),
        *(conformal.Absolute, conformal.Scaled, conformal.Total, conformal.Simultaneous),
        *(conformal.Split, conformal.Grouped, conformal.Clustered, conformal.Localized),
        *(conformal.Weighted, weighted.LogisticRatio, weighted.KernelRatio),
        *(conformal.Local, conformal.LogScale, conformal.PinballNetwork, local.Flat),
        *(logscale.LogScaleShape, logscale.LogScaleDraw, logscale.Kernel, pinball.PinballShape),
        *(predictors.Constant, predictors.Given, predictors.Distance, predictors.LatentDistance),
        *(draws.Draws, predictors.Dropout, predictors.MeanFieldVI, predictors.HMC, predictors.Ensemble),
        *(predictors.Laplace, predictors.LastLayerLaplace, laplace.Posterior, diagnostics.Diagnostics),
        *(pinn.Fitted, pinn.Likelihood, pinn.Recipe),
        *(problems.Poisson1D, problems.AllenCahn2D, problems.Helmholtz3D, problems.DampedOscillator),
        *(noise.Even, noise.Islands, noise.Disc, noise.Ring, noise.DiscAndCorner, noise.Front),
    )
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in activations.ACTIVATIONS
}
UNNEEDED = ("problem", "refit")
"""What a prediction never asks for: if it is not handed in at load, it is simply missing."""


class Encoder:
    """Turns values into JSON; arrays are gathered under names made of their content."""

    def __init__(self) -> None:
        self.arrays: dict[str, Tensor] = {}
        self.yours: dict[str, Any] = {}

    def encode(self, value: Any, name: str) -> Any:
        """A value as plain JSON; `name` is its place, for what has to be handed in again."""
        match value:
            case None | bool() | int() | str():
                return value
            case float():
                return value if math.isfinite(value) else {"float": repr(value)}
            case Fraction():
                return {"fraction": str(value)}
            case np.generic():
                return self.encode(value.item(), name)
            case Tensor():
                return {"tensor": self._keep(value.detach().cpu())}
            case np.ndarray() if value.dtype.kind in "fiub":
                return {"array": self._keep(torch.from_numpy(np.ascontiguousarray(value)))}
            case np.ndarray() if value.dtype.kind == "U" and value.ndim == 1:
                return {"words": value.tolist()}
            case list() | tuple():
                items = [self.encode(item, f"{name}{i}") for i, item in enumerate(value)]
                return items if isinstance(value, list) else {"tuple": items}
            case dict():
                return {"dict": {key: self.encode(item, str(key)) for key, item in value.items()}}
        return self._object(value, name)

    def _object(self, value: Any, name: str) -> Any:
        kind = type(value)
        if kind is networks.MLP and value.activation in activations.ACTIVATIONS:
            settings = {
                "sizes": list(value.sizes),
                "activation": value.activation.__name__,
                "dropout": value.dropout,
                "where": value.where,
            }
            return {"kind": "MLP", "settings": settings, "weights": self._weights(value)}
        if kind is pinball._Quantiles:
            parts = {part: getattr(value, part) for part in QUANTILES}
            return {"kind": "Quantiles", "parts": self.encode(parts, name), "weights": self._weights(value)}
        if kind is distance._Features:
            return {"kind": "Features", "net": self.encode(value.net, "net")}
        if KINDS.get(kind.__name__) is kind:
            fields = {
                part: self.encode(item, part)
                for part, item in vars(value).items()
                if not _derived(kind, part)
            }
            return {"kind": kind.__name__, "fields": fields}
        return {"yours": self._yours(value, name)}

    def _weights(self, net: nn.Module) -> Any:
        return self.encode(dict(net.state_dict()), "weights")

    def _yours(self, value: Any, name: str) -> str:
        for known, other in self.yours.items():
            if other is value:
                return known
        name = name if name not in self.yours else f"{name}_{len(self.yours)}"
        self.yours[name] = value
        return name

    def _keep(self, array: Tensor) -> str:
        array = array.contiguous()
        content = array.reshape(-1).view(torch.uint8).numpy().tobytes() if array.numel() else b""
        about = f"{array.dtype} {tuple(array.shape)} ".encode()
        name = hashlib.sha256(about + content).hexdigest()[:20]
        self.arrays[name] = array
        return name


class Decoder:
    """Makes values of JSON and arrays; kinds that are not known are refused."""

    arrays: Mapping[str, Tensor]
    yours: Mapping[str, Any]

    def __init__(self, arrays: Mapping[str, Tensor], yours: Mapping[str, Any]) -> None:
        self.arrays, self.yours = arrays, yours

    def decode(self, node: Any) -> Any:
        """The value that `Encoder.encode` was given."""
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        match node:
            case {"float": str(text)} if text in ("inf", "-inf", "nan"):
                return float(text)
            case {"fraction": str(text)}:
                return Fraction(text)
            case {"tensor": str(name)}:
                return self.arrays[name].clone()
            case {"array": str(name)}:
                return self.arrays[name].clone().numpy()
            case {"words": list(words)} if all(isinstance(word, str) for word in words):
                return np.array(words, dtype=str)
            case {"tuple": list(items)}:
                return tuple(self.decode(item) for item in items)
            case {"dict": dict(items)}:
                return {key: self.decode(item) for key, item in items.items()}
            case {"kind": "MLP", "settings": dict(settings), "weights": weights}:
                return self._mlp(weights, **settings)
            case {"kind": "Quantiles", "parts": parts, "weights": weights}:
                return self._quantiles(self.decode(parts), self.decode(weights))
            case {"kind": "Features", "net": net}:
                return distance._Features(self.decode(net))
            case {"kind": str(kind), "fields": dict(fields)} if kind in KINDS:
                made = object.__new__(KINDS[kind])
                for part, item in fields.items():
                    if part.startswith("__"):
                        raise ValueError(f"an unknown attribute {part!r}")
                    object.__setattr__(made, part, self.decode(item))
                return made
            case {"yours": str(name)}:
                return self._yours(name)
        raise ValueError(f"an unknown entry {str(node)[:80]!r}")

    def _mlp(self, weights: Any, sizes: Any, activation: Any, dropout: Any, where: Any) -> nn.Module:
        if not all(isinstance(size, int) and 0 < size <= 100_000 for size in sizes):
            raise ValueError(f"layers of sizes {str(sizes)[:80]}")
        known = self.decode(weights)
        if sum(a * b for a, b in pairwise(sizes)) > sum(w.numel() for w in known.values()):
            raise ValueError("layers larger than their weights")
        net = networks.MLP(sizes, FUNCTIONS[activation], dropout, where)
        net.to(next(iter(known.values())).dtype).load_state_dict(known)
        return net.eval()

    def _quantiles(self, parts: dict[str, Any], weights: dict[str, Tensor]) -> nn.Module:
        net = pinball._Quantiles.__new__(pinball._Quantiles)
        nn.Module.__init__(net)
        for part in QUANTILES:
            setattr(net, part, parts[part])
        hidden = [weights[f"hidden.{i}.weight"].shape for i in range(_count(weights))]
        net.hidden = nn.ModuleList(nn.Linear(n_in, n_out) for n_out, n_in in hidden)
        n_out, n_in = weights["last.weight"].shape
        net.last = nn.Linear(n_in, n_out)
        net.increments = nn.Parameter(torch.zeros(len(weights["increments"])))
        net.load_state_dict(weights)
        return net

    def _yours(self, name: str) -> Any:
        if name in self.yours:
            return self.yours[name]
        if name in UNNEEDED:
            return None if name == "problem" else _unsaved
        raise LookupError(name)


QUANTILES = ("per_level", "taus", "center", "reach", "waves")


def _count(weights: Mapping[str, Tensor]) -> int:
    return sum(name.startswith("hidden.") and name.endswith(".weight") for name in weights)


def _derived(kind: type, part: str) -> bool:
    """Whether an attribute is a cached property, to be found again when it is asked for."""
    return any(isinstance(vars(base).get(part), cached_property) for base in kind.__mro__)


def _unsaved(*_: Any) -> Any:
    raise ValueError("This function was not saved; hand it in at `gb.load`.")
