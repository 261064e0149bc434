"""The graph: predictor, threshold and score of a calibration as one torch module that can be traced."""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from guardband.conformal.calibrate import Calibrated
from guardband.conformal.local import Flat, Local, LocalThreshold
from guardband.conformal.logscale import LogScaleShape
from guardband.conformal.pinball import PinballShape
from guardband.conformal.rank import INFINITE_SCORES, Level, exact, kth, points_needed
from guardband.conformal.scores import Absolute, Scaled, Score, Total
from guardband.conformal.split import Split, SplitThreshold, asked
from guardband.pinn.activations import ACTIVATIONS, function_of
from guardband.pinn.networks import MLP, Constrained
from guardband.pinn.train import Fitted
from guardband.predictors import Constant, Dropout, Ensemble, LastLayerLaplace

Belief: TypeAlias = tuple[Tensor, Tensor | None]
"""Mean (n, m) and scale (n, m), if there is one."""

UNITS = 4
"""By how many units in the last place a mean and a threshold are rounded outwards, as in `Symmetric.band`."""


class Graph(nn.Module):
    """x -> mean, lower, upper: predictor, threshold and score in one."""

    belief: nn.Module
    score: Score
    shape: nn.Module | None
    q: float

    def __init__(self, calibrated: Calibrated, level: Level) -> None:
        super().__init__()
        self.belief = _belief(calibrated.predictor)
        self.score = calibrated.score
        if not isinstance(self.score, Absolute | Scaled | Total):
            raise TypeError(_unknown("score", "Absolute(), Scaled() or Total(noise)", self.score))
        if calibrated.prediction.mean.ndim != 2:
            shape = tuple(calibrated.prediction.mean.shape)
            raise TypeError(f"A graph gives outputs (n, m), one row per point; this one has fields {shape}.")
        self.shape, self.q = _threshold(calibrated, level)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The band's mean, lower and upper end at x."""
        mean, scale = self.belief(x)
        limits = torch.finfo(x.dtype)
        q: float | Tensor = self.q * (1 + UNITS * limits.eps)
        if self.shape is not None:
            q = (self.q * self.shape(x.double()) * (1 + UNITS * limits.eps)).to(x.dtype)[:, None]
        half = self._unit(mean, scale) * q
        slack = mean.abs() * (UNITS * limits.eps) + limits.tiny
        return mean, (mean - slack) - half, (mean + slack) + half

    def _unit(self, mean: Tensor, scale: Tensor | None) -> Tensor:
        """The miss that scores 1, (n, m)."""
        if isinstance(self.score, Total):
            noise = torch.tensor(self.score.noise, dtype=torch.float64)
            model = torch.zeros_like(mean) if scale is None else scale
            return (model.double().square() + noise.square()).sqrt().to(mean.dtype)
        return torch.ones_like(mean) if scale is None or isinstance(self.score, Absolute) else scale


def _belief(predictor: Any) -> nn.Module:
    match predictor:
        case None:
            raise TypeError("This was calibrated from arrays and has no network. Use `gb.calibrate`.")
        case Constant():
            return _Alone(_network(predictor.model))
        case Ensemble():
            return _Spread(_Members([_network(member) for member in predictor.members]))
        case Dropout():
            return _Spread(_Draws(_stacked(predictor)))
        case LastLayerLaplace():
            return _Laplace(predictor)
    supported = "Constant, Ensemble, Dropout or LastLayerLaplace"
    raise TypeError(_unknown("predictor", supported, predictor))


def _network(model: Any) -> nn.Module:
    """A copy of the torch module that a model is, or holds."""
    net = model.net if isinstance(model, Fitted) else model
    if not isinstance(net, nn.Module):
        raise TypeError(_unknown("model", "a torch module or the result of `gb.fit`", model))
    return copy.deepcopy(net).cpu().eval()


def _ask(net: nn.Module, x: Tensor) -> Tensor:
    """net(x) in the network's own dtype, (n, m)."""
    parameter = next((p for p in net.parameters() if p.is_floating_point()), x)
    u = net(x.to(parameter.dtype))
    return u[:, None] if u.ndim == 1 else u


class _Alone(nn.Module):
    """The network's output, and no scale."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Belief:
        return _ask(self.net, x).to(x.dtype), None


class _Members(nn.Module):
    """What each network says, (members, n, m)."""

    def __init__(self, members: list[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([_ask(member, x).to(x.dtype).double() for member in self.members])


class _Draws(nn.Module):
    """What a network with stacked weights says, (draws, n, m)."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return _ask(self.net, x).double()


class _Spread(nn.Module):
    """Mean and standard deviation over outputs (draws, n, m), in float64."""

    def __init__(self, outputs: nn.Module) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, x: Tensor) -> Belief:
        outputs = self.outputs(x)
        mean = outputs.mean(0)
        variance = (outputs - mean).square().sum(0) / (len(outputs) - 1)
        return mean.to(x.dtype), variance.sqrt().to(x.dtype)


class _StackedLinear(nn.Module):
    """A linear layer with weights (draws, out, in): (n, in) or (draws, n, in) -> (draws, n, out)."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.mT.contiguous(), requires_grad=False)
        self.bias = bias

    def forward(self, h: Tensor) -> Tensor:
        h = h @ self.weight
        return h if self.bias is None else h + self.bias


def _stacked(predictor: Dropout) -> nn.Module:
    """The network with its silenced layers stacked: all draws in one batched product, without vmap."""
    net = _network(predictor.net)
    for name, weight in predictor.stacked.items():
        owner = name.removesuffix(".weight")
        bias: Any = net.get_submodule(owner).bias
        net.set_submodule(owner, _StackedLinear(weight.cpu(), bias))
    return net


class _Laplace(nn.Module):
    """The network's output, and the deviation of its linearisation in the last layers, in float64."""

    known: Tensor

    def __init__(self, predictor: LastLayerLaplace) -> None:
        super().__init__()
        self.net, self.twin = _network(predictor.fitted), _network(predictor._net)
        self.layers = predictor.layers
        self.activation = ACTIVATIONS[_smooth(self._mlp)].upto_second
        posterior = predictor.posterior
        rows = torch.eye(len(posterior.factor)) if posterior.rows is None else posterior.rows
        known = torch.linalg.solve_triangular(posterior.factor, rows.to(posterior.factor), upper=False)
        self.register_buffer("known", known.T.contiguous().cpu())
        self.sd = None if posterior.rows is None else posterior.sd

    def forward(self, x: Tensor) -> Belief:
        slopes = self._slopes(x.double())
        variance = (slopes @ self.known).square().sum(2)
        if self.sd is not None:
            prior = slopes.square().sum(2)
            variance = self.sd**2 * torch.maximum(prior - variance, 1e-14 * prior)
        return _ask(self.net, x).to(x.dtype), variance.sqrt().to(x.dtype)

    @property
    def _mlp(self) -> MLP:
        net = self.twin.net if isinstance(self.twin, Constrained) else self.twin
        if not isinstance(net, MLP):
            raise TypeError(_unknown("the network of LastLayerLaplace", "made by gb.mlp(...)", net))
        return net

    def _slopes(self, x: Tensor) -> Tensor:
        """How the outputs change with the weights of the last layers, (n, m, P)."""
        linears = self._mlp.linears
        inputs, rises = [(x - self._mlp.center) / self._mlp.reach], []
        for linear in linears[:-1]:
            value, rise, _ = self.activation(linear(inputs[-1]))
            inputs.append(value)
            rises.append(rise[:, None])
        mask = self.twin.mask(x) if isinstance(self.twin, Constrained) else torch.ones_like(x[:, :1])
        back = mask[:, :, None] * torch.eye(linears[-1].out_features, dtype=x.dtype)
        slopes: list[Tensor] = []
        for i in reversed(range(len(linears))[-self.layers :]):
            by_weight = (back[..., None] * inputs[i][:, None, None]).flatten(2)
            slopes = [by_weight, back, *slopes]
            back = back @ linears[i].weight * rises[i - 1] if i else back
        return torch.cat(slopes, dim=2)


def _smooth(net: MLP) -> Any:
    """The activation of a network, one whose slope is known."""
    activation = net.activation
    smooth = function_of(activation) if isinstance(activation, nn.Module) else activation
    if smooth not in ACTIVATIONS:
        names = ", ".join(known.__name__ for known in ACTIVATIONS)
        raise TypeError(_unknown("the activation under LastLayerLaplace", f"one of {names}", activation))
    return smooth


def _threshold(calibrated: Calibrated, level: Level) -> tuple[nn.Module | None, float]:
    """The shape of the threshold over x, None where it is flat, and its size."""
    match calibrated.calibrator, calibrated.threshold:
        case Split(), SplitThreshold() as threshold:
            return None, _finite(threshold, level)
        case Local(), LocalThreshold() as threshold:
            return _shape(threshold.shape, level), _finite(threshold._normalised(level), level)
    raise TypeError(_unknown("calibrator", "Split() or Local(train)", calibrated.calibrator))


def _finite(threshold: SplitThreshold, level: Level) -> float:
    """The k-th smallest score, or an error that says what would make it finite."""
    k, n = threshold.rank(level), len(threshold.scores)
    if k > n:
        raise ValueError(
            f"A graph of an infinite band is of no use: {asked(level, threshold.confidence)} needs "
            f"{points_needed(level, threshold.confidence)} calibration points, there are {n}."
        )
    q = kth(threshold.scores, k)
    if np.isinf(q):
        raise ValueError(f"A graph of an infinite band is of no use: {INFINITE_SCORES}")
    return q


def _shape(shape: Any, level: Level) -> nn.Module | None:
    match shape:
        case Flat():
            return None
        case LogScaleShape():
            return _LogScale(shape)
        case PinballShape():
            return _Pinball(shape, float(exact(level)) if shape.per_level else 0.95)
    raise TypeError(_unknown("the shape of Local()", "learnt by LogScale() or PinballNetwork()", shape))


class _LogScale(nn.Module):
    """`LogScaleShape` with features and weights multiplied out: one matrix per length of the kernel."""

    def __init__(self, shape: LogScaleShape) -> None:
        from scipy.linalg import solve_triangular

        super().__init__()
        draws = sorted(shape.draws, key=lambda draw: draw.kernel)
        self.center, self.reach = _constant(shape.center), _constant(shape.reach)
        self.mean, self.size, self.floor = _constant([(d.mean, d.size, d.floor) for d in draws]).T
        self.points = _constant(shape.kernels[0].points)  # the kernels differ in length alone
        self.rates, self.weights = [], nn.ParameterList()
        for number in sorted({draw.kernel for draw in draws}):
            kernel = shape.kernels[number]
            weights = np.stack([draw.weights for draw in draws if draw.kernel == number], axis=1)
            self.rates.append(3**0.5 / kernel.length)
            self.weights.append(_constant(solve_triangular(kernel._factor.T, weights)))
        place = shape.quantile * (len(draws) - 1)
        self.top, self.share = len(draws) - int(place), place - int(place)

    def forward(self, x: Tensor) -> Tensor:
        apart = ((x - self.center) / self.reach)[:, None] - self.points
        distance = apart.square().sum(2).sqrt()
        reaches = [rate * distance for rate in self.rates]
        pairs = zip(reaches, self.weights, strict=True)
        smooth = torch.cat([((1 + r) * torch.exp(-r)) @ weights for r, weights in pairs], dim=1)
        h = self.mean + self.size * smooth
        logs = self.floor + h.clamp(min=0) + torch.log1p(torch.exp(-h.abs()))
        highest = torch.topk(logs, self.top, dim=1).values
        low, high = highest[:, self.top - 1], highest[:, max(self.top - 2, 0)]
        return torch.exp(low + self.share * (high - low))


class _Pinball(nn.Module):
    """`PinballShape` at one level: two quantiles of its network, interpolated."""

    def __init__(self, shape: PinballShape, level: float) -> None:
        super().__init__()
        self.net, self.size = copy.deepcopy(shape.net), shape.size
        taus = shape.net.taus.double().numpy()
        self.right = int(np.clip(np.searchsorted(taus, level), min(1, len(taus) - 1), len(taus) - 1))
        self.left = max(self.right - 1, 0)
        gap = max(taus[self.right] - taus[self.left], 1e-12)
        self.share = float(np.clip((level - taus[self.left]) / gap, 0, 1))

    def forward(self, x: Tensor) -> Tensor:
        quantiles = self.net(x.float()).double()
        left, right = quantiles[:, self.left], quantiles[:, self.right]
        return self.size * ((1 - self.share) * left + self.share * right)


def _constant(a: Any) -> Tensor:
    return torch.tensor(a, dtype=torch.float64)


def _unknown(what: str, supported: str, given: Any) -> str:
    return f"To be exported, {what} should be {supported}, got {given!r}."
