"""A second network, which predicts the size of the error from input and prediction on the same grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from guardband import surrogates
from guardband.base.arrays import Array, ArrayLike, like, to_numpy
from guardband.base.kept import kept
from guardband.surrogates.adapted import Adapted, Shape
from guardband.surrogates.growth import sizes
from guardband.surrogates.scales import FieldScale, residual_data
from guardband.values import Prediction, Predictor

KERNEL, LAYERS = 5, 3
BATCH, EVERY, RATE = 32, 50, 5e-3
HELD = 5
"""Every fifth field is held out for early stopping."""

LEAST = 1e-2
"""Features with a smaller spread are not scaled up, as that would amplify rounding errors."""

RANGE = 8.0
"""Scales lie within this number of powers of e of the typical error."""


@kept
@dataclass(frozen=True, eq=False)
class NetworkScale(FieldScale):
    """The size of the error at each node, from a small convolutional network of input and prediction.

    `NetworkScale.fitted(predictor, x, y)` trains the network.

    Attributes
    ----------
    predictor
        The predictor of the mean.
    weights
        The kernels and biases of the layers.
    center, spread
        The mean and the standard deviation of the input channels.
    unit
        The mean absolute residual, the unit of the scale.

    Notes
    -----
    Cost: a short training run, and one evaluation of a small network per field.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> from guardband import pinn
    >>> draw = np.random.default_rng(0)
    >>> x = np.exp(draw.normal(size=(40, 1, 1))) * np.sin(np.linspace(0, 6, 16))[:, None]
    >>> inner = gb.predictors.MeanOnly(lambda x: 0.9 * x)
    >>> shape = pinn.surrogates.NetworkScale.fitted(inner, x, x, steps=60)
    >>> shape(x).scale.shape
    (40, 16, 1)
    """

    predictor: Predictor
    weights: tuple[np.ndarray, ...]
    center: np.ndarray
    spread: np.ndarray
    unit: float

    @classmethod
    def fitted(
        cls,
        predictor: Predictor,
        x: ArrayLike,
        y: ArrayLike,
        *,
        prediction: Prediction | None = None,
        width: int = 24,
        steps: int = 1000,
        seed: int = 0,
    ) -> NetworkScale:
        """Train the network on residual fields.

        Training minimizes log s + |residual| / s for the scale s, and keeps the weights that are best on
        held-out fields.

        Parameters
        ----------
        predictor
            The predictor of the mean.
        x
            Inputs, shape (n, ...).
        y
            Fields that the predictor was not trained on, shape (n, *grid, m).
        prediction
            Cross-fitted predictions of these fields, which replace the predictor's own predictions.
        width
            The number of channels of the hidden layers.
        steps
            The number of steps of Adam.
        seed
            The seed of the weights and batches.

        Returns
        -------
        NetworkScale
            The predictor with its scale.
        """
        x, y, mean = residual_data(predictor, x, y, prediction)
        seen, shape = _features(x, mean), mean.shape
        axes = tuple(range(2, seen.ndim))
        center = seen.mean(axis=(0, *axes))
        spread = np.maximum(seen.std(axis=(0, *axes)), LEAST)
        misses = abs(y - mean)
        unit = float(np.mean(misses)) or 1.0
        placed = np.moveaxis(misses.reshape(_on_grid(x, shape)), -1, 1) / unit
        with torch.inference_mode(False), torch.enable_grad():  # independent of the caller's mode
            parts = _standard(seen, center, spread), placed
            inputs, targets = (torch.tensor(part, dtype=torch.float32) for part in parts)
            weights = _trained(inputs, targets, width, steps, seed)
        return cls(predictor, tuple(part.double().numpy() for part in weights), center, spread, unit)

    def __call__(self, x: Array) -> Prediction:
        """Return the mean of the predictor with the scale of the network."""
        found = self.predictor(x)
        mean = np.asarray(to_numpy(found.mean), dtype=float)
        seen = _standard(_features(x, mean), self.center, self.spread)
        with torch.no_grad():
            logs = _forward([torch.from_numpy(part) for part in self.weights], torch.from_numpy(seen))
        scale = self.unit * np.exp(np.moveaxis(logs.numpy(), 1, -1)).reshape(mean.shape)
        return Prediction(found.x, found.mean, like(found.mean, scale))


def _on_grid(x: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape (n, *grid, m) of fields (n, points, m), if inputs (n, channels, *grid) determine the grid."""
    grid = tuple(x.shape[2:])
    flat = len(shape) == 3 and len(grid) in (2, 3) and int(np.prod(grid)) == shape[1]
    return (shape[0], *grid, shape[2]) if flat else shape


def _features(x: Array, mean: np.ndarray) -> np.ndarray:
    """Channels (n, channels, *grid): prediction and input divided by their sizes, and their logarithms."""
    values = np.asarray(to_numpy(x), dtype=float)
    shape = _on_grid(values, mean.shape)
    grid, n = shape[1:-1], len(values)
    parts = [np.moveaxis(mean.reshape(shape), -1, 1)]
    if values.ndim > 2 and values.shape[2:] == grid:
        parts.append(values)
    elif values.ndim > 2 and values.shape[1:-1] in (grid, grid[1:]):
        placed = np.moveaxis(values, -1, 1)
        placed = placed if values.shape[1:-1] == grid else placed[:, :, None]
        parts.append(np.broadcast_to(placed, (n, placed.shape[1], *grid)))
    elif values.ndim == 2:
        wide = values.reshape(n, -1, *[1] * len(grid))
        parts.append(np.broadcast_to(wide, (n, values.shape[1], *grid)))
    logs = [np.log(np.maximum(sizes(part), 1e-30)) for part in (values, mean)]
    shaped = [part / np.maximum(sizes(part), 1e-30).reshape(-1, *[1] * (part.ndim - 1)) for part in parts]
    wide = [np.broadcast_to(log.reshape(-1, 1, *[1] * len(grid)), (n, 1, *grid)) for log in logs]
    return np.concatenate([*shaped, *wide], axis=1)


def _standard(seen: np.ndarray, center: np.ndarray, spread: np.ndarray) -> np.ndarray:
    shape = (-1, *[1] * (seen.ndim - 2))
    return (seen - center.reshape(shape)) / spread.reshape(shape)


def _forward(weights: list[Tensor], inputs: Tensor) -> Tensor:
    """log s, (n, m, *grid), by convolutions with replicated ends."""
    d = inputs.ndim - 2
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[d - 1]
    kernels, biases = weights[::2], weights[1::2]
    values = inputs
    for i, (kernel, bias) in enumerate(zip(kernels, biases, strict=True)):
        half = kernel.shape[-1] // 2
        if half:
            values = functional.pad(values, [half] * (2 * d), mode="replicate")
        values = convolve(values, kernel, bias)
        if i < len(kernels) - 1:
            values = functional.gelu(values)
    return RANGE * torch.tanh(values / RANGE)


def _trained(inputs: Tensor, targets: Tensor, width: int, steps: int, seed: int) -> list[Tensor]:
    """The weights that are best on held-out fields, by Adam with a decaying rate."""
    generator = torch.Generator().manual_seed(seed)
    d, n = inputs.ndim - 2, len(inputs)
    held = torch.arange(n) % HELD == HELD - 1
    if not bool(held.any()):
        held = torch.ones(n, dtype=torch.bool)
    fit = ~held if bool((~held).any()) else held
    channels = [inputs.shape[1], *[width] * LAYERS, targets.shape[1]]
    weights: list[Tensor] = []
    for i, (a, b) in enumerate(pairwise(channels)):
        size = KERNEL if i < LAYERS else 1
        bound = (a * size**d) ** -0.5 * (1.0 if i < LAYERS else 0.1)
        drawn = torch.rand(b, a, *[size] * d, generator=generator, dtype=inputs.dtype)
        kernel = (2 * drawn - 1) * bound
        weights += [kernel.requires_grad_(), torch.zeros(b, dtype=inputs.dtype, requires_grad=True)]
    best, least = [part.detach().clone() for part in weights], np.inf
    rows = torch.nonzero(fit)[:, 0]
    adam = torch.optim.Adam(weights, lr=RATE)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    for step in range(steps + 1):
        if step % EVERY == 0 or step == steps:
            with torch.no_grad():
                loss = float(_loss(weights, inputs[held], targets[held]))
            if loss < least:
                best, least = [part.detach().clone() for part in weights], loss
        some = rows[torch.randint(len(rows), (min(BATCH, len(rows)),), generator=generator)]
        adam.zero_grad()
        _loss(weights, inputs[some], targets[some]).backward()
        adam.step()
        falling.step()
    return best


def _loss(weights: list[Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
    logs = _forward(weights, inputs)
    return (logs + targets * torch.exp(-logs)).mean()


def adapted(
    predictor: Predictor,
    x: ArrayLike,
    y: ArrayLike,
    *,
    prediction: Prediction | None = None,
    shapes: Mapping[str, Shape] | None = None,
    steps: int = 1000,
    seed: int = 0,
) -> Adapted:
    """Return the result of `gb.surrogates.adapted`, with a second network among the shapes.

    Parameters
    ----------
    predictor
        The predictor of the mean.
    x
        Inputs, shape (n, ...).
    y
        Fields that the predictor was not trained on, shape (n, *grid, m).
    prediction
        Cross-fitted predictions of these fields, which replace the predictor's own predictions.
    shapes
        Additional shapes by name.
    steps
        The number of training steps of the network.
    seed
        The seed of the network and of the choice among the shapes.

    Returns
    -------
    Adapted
        The predictor with the chosen scale.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> from guardband import pinn
    >>> draw = np.random.default_rng(0)
    >>> size = np.exp(draw.normal(size=(60, 1, 1)))
    >>> x = size * draw.normal(size=(60, 16, 1))
    >>> inner = gb.predictors.MeanOnly(lambda x: 0 * x)
    >>> shaped = pinn.surrogates.adapted(
    ...     inner, x, x + 0.1 * size * draw.normal(size=x.shape), steps=50
    ... )
    >>> shaped.chosen != "constant", list(shaped.widths)
    (True, ['constant', 'size', 'network'])
    """
    network = partial(NetworkScale.fitted, steps=steps, seed=seed)
    shapes = {"network": network} | dict(shapes or {})
    return surrogates.adapted(predictor, x, y, prediction=prediction, shapes=shapes, seed=seed)
