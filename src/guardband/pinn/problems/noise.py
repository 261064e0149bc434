"""Noise: how large the measurement noise is at x, and where it is larger than elsewhere.

A noise model is a function from points x (n, d) to standard deviations (n, 1); give it to
`problem.observe(n, noise=model)`, as you may give any function of your own. The models here also know the
`region` in which they are noisy, and `authors_region`, the often wider one in which the paper's authors
measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from guardband.base.kept import kept


@dataclass(frozen=True)
class Noise(ABC):
    """Gaussian noise of standard deviation `base` everywhere, and independent extra noise on top.

    >>> import torch
    >>> from guardband import pinn
    >>> class RightHalf(pinn.problems.noise.Noise):
    ...     def region(self, x):
    ...         return x[:, 0] > 0.5
    ...
    ...     def extra(self, x):
    ...         return 0.4 * self.region(x)[:, None]
    >>> RightHalf(base=0.3)(torch.tensor([[0.0], [1.0]]))
    tensor([[0.3000],
            [0.5000]])
    """

    base: float = 0.05

    def __call__(self, x: Tensor) -> Tensor:
        """The standard deviation of the sum of both, (n, 1)."""
        return torch.hypot(self.extra(x), torch.full_like(x[:, :1], self.base))

    @abstractmethod
    def extra(self, x: Tensor) -> Tensor:
        """The standard deviation of the extra noise, (n, 1)."""

    @abstractmethod
    def region(self, x: Tensor) -> Tensor:
        """Whether x lies where the noise is larger, (n,) booleans."""

    def authors_region(self, x: Tensor) -> Tensor:
        """The region in which the paper's authors measured coverage, (n,) booleans."""
        return self.region(x)


@kept
@dataclass(frozen=True)
class Even(Noise):
    """The same noise everywhere.

    >>> import torch
    >>> from guardband import pinn
    >>> pinn.problems.noise.Even(0.1)(torch.tensor([[0.0], [1.0]]))
    tensor([[0.1000],
            [0.1000]])
    """

    def extra(self, x: Tensor) -> Tensor:
        """None."""
        return torch.zeros_like(x[:, :1])

    def region(self, x: Tensor) -> Tensor:
        """Everywhere."""
        return torch.ones(len(x), dtype=torch.bool, device=x.device)


@kept
@dataclass(frozen=True)
class Islands(Noise):
    """Three bumps of noise in time, cut off at their half-width: the paper's oscillator.

    >>> import torch
    >>> from guardband import pinn
    >>> noise = pinn.problems.noise.Islands()
    >>> noise.region(torch.tensor([[0.5], [1.0]]))
    tensor([False,  True])
    >>> pinn.problems.DampedOscillator().observe(300, noise=noise)
    Observations(300 points, x (300, 1), y (300, 1))
    """

    height: float = 0.3
    centers: tuple[float, ...] = (1.0, 2.0, 3.0)
    half_width: float = 0.2

    def extra(self, x: Tensor) -> Tensor:
        """A Gaussian bump on each island, (n, 1)."""
        away = self._away(x)
        bump = torch.exp(-0.5 * (away / self.half_width) ** 2)
        return self.height * torch.where(away <= self.half_width, bump, torch.zeros_like(bump))

    def region(self, x: Tensor) -> Tensor:
        """On an island."""
        return self._away(x)[:, 0] <= self.half_width

    def _away(self, x: Tensor) -> Tensor:
        centers = torch.tensor(self.centers, dtype=x.dtype, device=x.device)
        return (x[:, :1] - centers).abs().amin(dim=1, keepdim=True)


@kept
@dataclass(frozen=True)
class NoisyDisk(Noise):
    """A noisy disk around the origin: the paper's scenario A.

    >>> import torch
    >>> from guardband import pinn
    >>> pinn.problems.noise.NoisyDisk().region(torch.tensor([[0.0, 0.0], [0.5, 0.5]]))
    tensor([ True, False])
    """

    height: float = 0.4
    radius: float = 0.2

    def extra(self, x: Tensor) -> Tensor:
        """A smooth step at the rim, (n, 1)."""
        return self.height * torch.sigmoid((1 - _norm(x) / self.radius) / 0.2)

    def region(self, x: Tensor) -> Tensor:
        """Inside the disc."""
        return _norm(x)[:, 0] <= self.radius

    def authors_region(self, x: Tensor) -> Tensor:
        """A disc wider by the square root of 3."""
        return _norm(x)[:, 0] < self.radius * 3**0.5


@kept
@dataclass(frozen=True)
class Ring(Noise):
    """A thin noisy ring around an ellipse: the paper's scenario B.

    >>> import torch
    >>> from guardband import pinn
    >>> pinn.problems.noise.Ring().region(torch.tensor([[0.8, 0.2], [0.2, 0.2]]))
    tensor([ True, False])
    """

    height: float = 0.5
    center: tuple[float, float] = (0.2, 0.2)
    axes: tuple[float, float] = (0.6, 0.5)
    half_thickness: float = 0.05

    def extra(self, x: Tensor) -> Tensor:
        """A smooth step at both rims, (n, 1)."""
        return self.height * torch.sigmoid(-self._outside(x) / 0.07)

    def region(self, x: Tensor) -> Tensor:
        """On the ring."""
        return self._outside(x)[:, 0] <= 0

    def _outside(self, x: Tensor) -> Tensor:
        """The distance to the ring, negative on it, to first order in the distance to the ellipse."""
        center, axes = x.new_tensor(self.center), x.new_tensor(self.axes)
        scaled = (x - center) / axes
        radius = _norm(scaled).clamp(min=1e-6)
        slope = _norm(scaled / axes) / radius
        return (radius - 1).abs() / slope.clamp(min=1e-6) - self.half_thickness


@kept
@dataclass(frozen=True)
class DiscAndCorner(Noise):
    """A noisy disc and a noisy L-shaped corner: the paper's scenario C.

    >>> import torch
    >>> from guardband import pinn
    >>> pinn.problems.noise.DiscAndCorner().region(
    ...     torch.tensor([[-0.5, -0.5], [0.35, 0.8], [0.8, 0.8]])
    ... )
    tensor([ True,  True, False])
    """

    height: float = 0.55
    center: tuple[float, float] = (-0.5, -0.5)
    radius: float = 0.3
    bars: tuple[tuple[float, float, float, float], ...] = ((0.3, 0.9, 0.3, 0.4), (0.3, 0.4, 0.3, 0.9))

    def extra(self, x: Tensor) -> Tensor:
        """Smooth steps at both rims, (n, 1)."""
        disc = torch.sigmoid((1 - self._distance(x) / self.radius) / 0.1)
        corner = torch.sigmoid(-self._outside(x) / 0.1)
        return self.height * torch.hypot(disc, corner)

    def region(self, x: Tensor) -> Tensor:
        """Inside the disc or the corner."""
        return ((self._distance(x) < self.radius) | (self._outside(x) <= 0))[:, 0]

    def authors_region(self, x: Tensor) -> Tensor:
        """A slightly wider disc and a corner wider by 0.1."""
        return ((self._distance(x) < 1.05 * self.radius) | (self._outside(x) < 0.1))[:, 0]

    def _distance(self, x: Tensor) -> Tensor:
        return _norm(x - x.new_tensor(self.center))

    def _outside(self, x: Tensor) -> Tensor:
        """The signed distance to the union of the bars, (n, 1)."""
        return torch.stack([_to_box(x, *bar) for bar in self.bars]).amin(0)


@kept
@dataclass(frozen=True)
class Front(Noise):
    """A noisy band along the curve x1 = 0.5 sin(pi x0): a field that no setting was chosen on.

    >>> import torch
    >>> from guardband import pinn
    >>> pinn.problems.noise.Front().region(torch.tensor([[0.5, 0.5], [0.5, -0.5]]))
    tensor([ True, False])
    """

    height: float = 0.45
    half_width: float = 0.12

    def extra(self, x: Tensor) -> Tensor:
        """A smooth step at both sides, (n, 1)."""
        return self.height * torch.sigmoid((self.half_width - self._away(x)) / 0.04)

    def region(self, x: Tensor) -> Tensor:
        """Within the band."""
        return self._away(x)[:, 0] <= self.half_width

    def _away(self, x: Tensor) -> Tensor:
        return (x[:, 1:2] - 0.5 * torch.sin(torch.pi * x[:, :1])).abs()


def _norm(x: Tensor) -> Tensor:
    return x.norm(dim=1, keepdim=True)


def _to_box(x: Tensor, left: float, right: float, low: float, high: float) -> Tensor:
    """The signed distance to a rectangle, (n, 1), negative inside."""
    center = x.new_tensor([(left + right) / 2, (low + high) / 2])
    half = x.new_tensor([(right - left) / 2, (high - low) / 2])
    over = (x - center).abs() - half
    return _norm(over.clamp(min=0)) + over.amax(dim=1, keepdim=True).clamp(max=0)
