"""Torch modules: a calibration at a level as one module that can be traced, composed of its parts.

`module_of` converts each part by its type, unless its class defines `as_module`:

    calibrated.as_module(level)   x -> (mean, lower, upper)
    predictor.as_module()         x -> (mean, scale or None), or the mean and other arguments of the score
    threshold.as_module(level)    a number, or x -> q (n,) in float64
    shape.as_module(level)        x -> shape (n,) in float64, or None for a flat one
    score.as_module()             (mean, scale, q) -> (lower, upper), of the outputs of the predictor's module
"""

from __future__ import annotations

import copy
import math
from functools import singledispatch
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from guardband.base.arrays import ArrayLike
from guardband.base.extras import load
from guardband.conformal import Calibrated, ScoreCalibrated
from guardband.conformal.base import Threshold
from guardband.conformal.chosen import Chosen
from guardband.conformal.local.logscale import LogScaleShape
from guardband.conformal.local.shape import Flat, LocalThreshold, per_level
from guardband.conformal.quantiles import CQR
from guardband.conformal.rank import INFINITE_SCORES, Level, allow_infinite, exact, kth, points_needed
from guardband.conformal.scores import ULPS, Absolute, Scaled, Score, Total
from guardband.conformal.split import SplitThreshold, level_text
from guardband.conformal.truth import BoundedThreshold, TruthThreshold
from guardband.predictors import Ensemble, MeanOnly, Outputs, Quantiles
from guardband.values import Prediction, Predictor

if TYPE_CHECKING:
    import torch
    from torch import nn
else:
    torch = load("torch", "pinn")
    nn = torch.nn

Tensor: TypeAlias = torch.Tensor
Module: TypeAlias = nn.Module
Dtype: TypeAlias = torch.dtype

MeanAndScale: TypeAlias = tuple[Tensor, Tensor | None]
"""Mean (n, m), and scale (n, m) or None."""


def module_of(part: Any, *level: Level) -> Any:
    """A calibration, threshold or shape at a level, a predictor or a score, as a torch module.

    >>> import guardband as gb
    >>> module_of(gb.predictors.MeanOnly(torch.nn.Identity()))(torch.ones(1, 1))
    (tensor([[1.]]), None)
    """
    own = getattr(type(part), "as_module", Calibrated.as_module)
    return _converted(part, *level) if own is Calibrated.as_module else part.as_module(*level)


@singledispatch
def _converted(shape: object, level: Level) -> Module | float | None:
    raise TypeError(
        f"The shape {type(shape).__name__} cannot be exported: it has no `as_module`. Shapes learned by "
        "LogScale() and PinballNetwork() have one."
    )


@_converted.register
def _(calibrated: Calibrated, level: Level) -> Module:
    raise TypeError(
        f"{calibrated.name} cannot be exported: it has no `as_module`, x -> (mean, lower, upper)."
    )


@_converted.register
def _(calibrated: ScoreCalibrated, level: Level) -> Module:
    if calibrated.predictor is None:
        raise TypeError("This calibration was made from arrays and has no network. Use `gb.calibrate`.")
    if calibrated.prediction.mean.ndim != 2:
        shape = tuple(calibrated.prediction.mean.shape)
        raise TypeError(f"A graph returns outputs (n, m), one row per point, but these are fields {shape}.")
    has_estimator = calibrated.predictor.estimator is not None  # skl2onnx computes its mean
    predictor = nn.Identity() if has_estimator else module_of(calibrated.predictor)
    return BandModule(predictor, module_of(calibrated.threshold, level), module_of(calibrated.score))


@_converted.register
def _(calibrated: Chosen, level: Level) -> Module:
    return module_of(calibrated.one, calibrated.asked(level))


@_converted.register
def _(threshold: Threshold, level: Level) -> Module:
    raise TypeError(
        f"{type(threshold).__name__} cannot be exported: it has no `as_module`. The thresholds of Split() "
        "and Local() have one."
    )


@_converted.register
def _(threshold: SplitThreshold, level: Level) -> float:
    k, n = threshold.rank(level), len(threshold.scores)
    if threshold.scores.ndim == 2:
        raise TypeError("A graph has one threshold for all outputs, but this has one for each (joint=False).")
    if k > n:
        raise ValueError(
            f"A graph of an infinite band is useless: {level_text(level, threshold.confidence)} needs "
            f"{points_needed(level, threshold.confidence)} calibration points, but there are {n}."
        )
    q = kth(threshold.scores, k)
    if np.isinf(q):
        raise ValueError(f"A graph of an infinite band is useless: {INFINITE_SCORES}")
    return q


@_converted.register
def _(threshold: LocalThreshold, level: Level) -> Module | float:
    q = module_of(threshold.normalized(level), level)
    shape = module_of(threshold.shape, float(exact(level)) if per_level(threshold.shape) else 0.95)
    return q if shape is None else _Times(q, shape)


@_converted.register(BoundedThreshold)
@_converted.register(TruthThreshold)
def _(threshold: Threshold, level: Level) -> float:
    with allow_infinite():
        q = float(threshold(Prediction(None, np.zeros((1, 1))), level))
    if math.isinf(q):
        raise ValueError("A graph of an infinite band is useless: there are too few calibration points.")
    return q


@_converted.register
def _(shape: Flat, level: Level) -> None:
    return None


@_converted.register
def _(shape: LogScaleShape, level: Level) -> Module:
    return _LogScale(shape)


@_converted.register
def _(score: Score) -> Module:
    raise TypeError(
        f"{type(score).__name__}() cannot be exported: it has no `as_module`. Absolute(), Scaled() and "
        "Total(noise) have one."
    )


@_converted.register
def _(score: Absolute) -> Module:
    return _Symmetric(score.units)


@_converted.register
def _(score: Scaled) -> Module:
    return _Symmetric(score.units, scaled=True)


@_converted.register
def _(score: Total) -> Module:
    return _Symmetric(None, scaled=True, noise=score.noise)


@_converted.register
def _(score: CQR) -> Module:
    return _Ends()


@_converted.register
def _(predictor: Predictor) -> Module:
    raise TypeError(
        f"{type(predictor).__name__} cannot be exported: it has no `as_module`, which returns mean and scale "
        "as a torch module. MeanOnly, Ensemble, Dropout and LastLayerLaplace have one."
    )


@_converted.register
def _(predictor: MeanOnly) -> Module:
    return _Alone(network_of(predictor.model))


@_converted.register
def _(predictor: Ensemble) -> Module:
    return Spread(_Members([network_of(member) for member in predictor.members]))


@_converted.register
def _(predictor: Quantiles) -> Module:
    return _Pair(
        network_of(predictor.lower), None if predictor.upper is None else network_of(predictor.upper)
    )


@_converted.register
def _(predictor: Outputs) -> Module:
    return _SomeOutputs(module_of(predictor.predictor), predictor.columns)


def network_of(model: object) -> Module:
    """A copy of a torch module, or of the `net` of a model, in eval mode on the CPU."""
    net = model if isinstance(model, nn.Module) else getattr(model, "net", None)
    if not isinstance(net, nn.Module):
        raise TypeError(not_exported("model", "a torch module or the result of `pinn.fit`", model))
    return copy.deepcopy(net).cpu().eval()


def not_exported(what: str, supported: str, given: object) -> str:
    """The error message for a part that cannot be exported."""
    return f"To be exported, {what} should be {supported}, got {given!r}."


def answer(net: Module, x: Tensor) -> Tensor:
    """net(x) in the network's own dtype, shape (n, m)."""
    parameter = next((p for p in net.parameters() if p.is_floating_point()), x)
    u = net(x.to(parameter.dtype))
    return u[:, None] if u.ndim == 1 else u


class Spread(nn.Module):
    """Mean and standard deviation over outputs (draws, n, m), in float64."""

    def __init__(self, outputs: Module) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, x: Tensor) -> MeanAndScale:
        """Return mean and scale at x."""
        outputs = self.outputs(x)
        mean = outputs.mean(0)
        variance = (outputs - mean).square().sum(0) / (len(outputs) - 1)
        return mean.to(x.dtype), variance.sqrt().to(x.dtype)


class Around(nn.Module):
    """(x, mean) -> (mean, lower, upper), for a mean that is computed elsewhere."""

    def __init__(self, band: BandModule) -> None:
        super().__init__()
        self.band = band

    def forward(self, x: Tensor, given: Tensor) -> tuple[Tensor, ...]:
        """Return the band around a mean at x."""
        return self.band.around(x, 1 * given, None)


class BandModule(nn.Module):
    """x -> (mean, lower, upper): predictor, threshold and score."""

    def __init__(self, predictor: Module, threshold: Module | float, score: Module) -> None:
        super().__init__()
        self.predictor: Module = predictor
        self.score: Module = score
        self.threshold: Module | None = threshold if isinstance(threshold, nn.Module) else None
        self.q: float = 0.0 if isinstance(threshold, nn.Module) else threshold

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return mean, lower and upper end at x."""
        mean, *others = self.predictor(x)
        return self.around(x, mean, *others)

    def around(self, x: Tensor, mean: Tensor, *others: Tensor | None) -> tuple[Tensor, ...]:
        """Return the band around a mean and other predicted values at x."""
        q = self.q
        if self.threshold is not None:
            q = self.threshold(x.to(torch.float64)).to(x.dtype)[:, None]
        return mean, *self.score(mean, *others, q)


class _Times(nn.Module):
    """A number times a shape at x: the threshold, shape (n,), in float64."""

    def __init__(self, q: float, shape: Module) -> None:
        super().__init__()
        self.q, self.shape = q, shape

    def forward(self, x: Tensor) -> Tensor:
        return self.q * self.shape(x.to(torch.float64))


class _LogScale(nn.Module):
    """`LogScaleShape` with features and weights multiplied: one matrix per length scale of the kernel."""

    def __init__(self, shape: LogScaleShape) -> None:
        from scipy.linalg import solve_triangular

        super().__init__()
        draws = sorted(shape.draws, key=lambda draw: draw.kernel)
        self.center, self.reach = _double(shape.center), _double(shape.reach)
        self.mean, self.size, self.floor = _double([(d.mean, d.size, d.floor) for d in draws]).T
        self.points = _double(shape.kernels[0].points)  # the kernels differ only in length scale
        self.rates, self.weights = [], nn.ParameterList()
        for number in sorted({draw.kernel for draw in draws}):
            kernel = shape.kernels[number]
            weights = np.stack([draw.weights for draw in draws if draw.kernel == number], axis=1)
            self.rates.append(3**0.5 / kernel.length)
            self.weights.append(_double(solve_triangular(kernel.factor.T, weights)))
        place = shape.quantile * (len(draws) - 1)
        self.top, self.share = len(draws) - int(place), place - int(place)

    def forward(self, x: Tensor) -> Tensor:
        difference = ((x - self.center) / self.reach)[:, None] - self.points
        distance = difference.square().sum(2).sqrt()
        reaches = [rate * distance for rate in self.rates]
        pairs = zip(reaches, self.weights, strict=True)
        smooth = torch.cat([((1 + r) * torch.exp(-r)) @ weights for r, weights in pairs], dim=1)
        h = self.mean + self.size * smooth
        logs = self.floor + h.clamp(min=0) + torch.log1p(torch.exp(-h.abs()))
        highest = torch.topk(logs, self.top, dim=1).values
        low, high = highest[:, self.top - 1], highest[:, max(self.top - 2, 0)]
        return torch.exp(low + self.share * (high - low))


class _Symmetric(nn.Module):
    """(mean, scale, q) -> mean -+ q unit, rounded outward as in `Symmetric.band`."""

    def __init__(self, units: ArrayLike, scaled: bool = False, noise: ArrayLike = None) -> None:
        super().__init__()
        self.scaled = scaled
        self.units = None if units is None else _double(units)
        self.noise = None if noise is None else _double(noise)

    def forward(self, mean: Tensor, scale: Tensor | None, q: Tensor | float) -> tuple[Tensor, Tensor]:
        limits = torch.finfo(mean.dtype)
        half = self._unit(mean, scale) * (q * (1 + ULPS * limits.eps))
        slack = mean.abs() * (ULPS * limits.eps) + limits.tiny
        return (mean - slack) - half, (mean + slack) + half

    def _unit(self, mean: Tensor, scale: Tensor | None) -> Tensor:
        if self.noise is not None:
            model = torch.zeros_like(mean) if scale is None else scale
            return (model.double().square() + self.noise.square()).sqrt().to(mean.dtype)
        if self.scaled and scale is not None:
            return scale
        unit = torch.ones_like(mean)
        return unit if self.units is None else unit * self.units.to(mean.dtype)


class _Ends(nn.Module):
    """(mean, lower, upper, q) -> (lower - q, upper + q), rounded outward as in `CQR.band`."""

    def forward(self, mean: Tensor, lower: Tensor, upper: Tensor, q: Tensor | float) -> tuple[Tensor, Tensor]:
        limits = torch.finfo(lower.dtype)
        few = ULPS * limits.eps
        grown = q + few * abs(q) + limits.tiny
        return lower - (lower.abs() * few + grown), upper + (upper.abs() * few + grown)


class _Alone(nn.Module):
    """The network's output, without a scale."""

    def __init__(self, net: Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> MeanAndScale:
        return answer(self.net, x).to(x.dtype), None


class _Members(nn.Module):
    """The outputs of several networks, shape (members, n, m)."""

    def __init__(self, members: list[Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([answer(member, x).to(x.dtype).double() for member in self.members])


class _Pair(nn.Module):
    """The midpoint and two quantiles, from two networks or from one that returns both."""

    def __init__(self, lower: Module, upper: Module | None) -> None:
        super().__init__()
        self.lower, self.upper = lower, upper

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        lower = answer(self.lower, x).to(x.dtype)
        lower, upper = torch.split(lower, 1, 1) if self.upper is None else (lower, answer(self.upper, x))
        return lower / 2 + upper.to(x.dtype) / 2, lower, upper.to(x.dtype)


class _SomeOutputs(nn.Module):
    """Some columns of all outputs of a module."""

    def __init__(self, whole: Module, columns: tuple[int, ...]) -> None:
        super().__init__()
        self.whole, self.columns = whole, list(columns)

    def forward(self, x: Tensor) -> tuple[Tensor | None, ...]:
        return tuple(None if part is None else part[:, self.columns] for part in self.whole(x))


def _double(a: ArrayLike) -> Tensor:
    return torch.tensor(a, dtype=torch.float64)
