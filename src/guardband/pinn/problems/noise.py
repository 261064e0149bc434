"""Noise models: standard deviations of measurement noise that vary over the domain.

A noise model is a function from points x (n, d) to standard deviations (n, 1), for `problem.observe(n,
noise=model)`; any function of this form is accepted. The models in this module also define the `region` of
larger noise, and `authors_region`, the often wider region in which the authors of the paper
(arXiv:2509.13717) measured coverage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from guardband.base.kept import kept


@dataclass(frozen=True)
class Noise(ABC):
    """Base class of noise models: a constant standard deviation and independent extra noise.

    Parameters
    ----------
    base
        The standard deviation of the noise everywhere.

    Examples
    --------
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
        """Return the standard deviation of the total noise, shape (n, 1)."""
        return torch.hypot(self.extra(x), torch.full_like(x[:, :1], self.base))

    @abstractmethod
    def extra(self, x: Tensor) -> Tensor:
        """Return the standard deviation of the extra noise.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor
            The standard deviations, shape (n, 1).
        """

    @abstractmethod
    def region(self, x: Tensor) -> Tensor:
        """Return which points lie in the region of larger noise.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor
            Booleans, shape (n,).
        """

    def authors_region(self, x: Tensor) -> Tensor:
        """Return which points lie in the region in which the authors of the paper measured coverage.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor
            Booleans, shape (n,).
        """
        return self.region(x)


@kept
@dataclass(frozen=True)
class Even(Noise):
    """The same noise everywhere.

    Parameters
    ----------
    base
        The standard deviation of the noise.

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> pinn.problems.noise.Even(0.1)(torch.tensor([[0.0], [1.0]]))
    tensor([[0.1000],
            [0.1000]])
    """

    def extra(self, x: Tensor) -> Tensor:
        """Return 0."""
        return torch.zeros_like(x[:, :1])

    def region(self, x: Tensor) -> Tensor:
        """Return True everywhere."""
        return torch.ones(len(x), dtype=torch.bool, device=x.device)


@kept
@dataclass(frozen=True)
class Islands(Noise):
    """Three noise bumps in time, truncated at their half-width, as in the oscillator example of the paper.

    Parameters
    ----------
    base
        The standard deviation of the noise everywhere.
    height
        The largest standard deviation of the extra noise.
    centers
        The times of the bumps.
    half_width
        The half-width of a bump.

    Examples
    --------
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
        """Return a truncated Gaussian bump on each island."""
        away = self._away(x)
        bump = torch.exp(-0.5 * (away / self.half_width) ** 2)
        return self.height * torch.where(away <= self.half_width, bump, torch.zeros_like(bump))

    def region(self, x: Tensor) -> Tensor:
        """Return which points lie on an island."""
        return self._away(x)[:, 0] <= self.half_width

    def _away(self, x: Tensor) -> Tensor:
        centers = torch.tensor(self.centers, dtype=x.dtype, device=x.device)
        return (x[:, :1] - centers).abs().amin(dim=1, keepdim=True)


@kept
@dataclass(frozen=True)
class NoisyDisk(Noise):
    """A noisy disk around the origin, scenario A of the paper.

    Parameters
    ----------
    base
        The standard deviation of the noise everywhere.
    height
        The standard deviation of the extra noise.
    radius
        The radius of the disk.

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> pinn.problems.noise.NoisyDisk().region(torch.tensor([[0.0, 0.0], [0.5, 0.5]]))
    tensor([ True, False])
    """

    height: float = 0.4
    radius: float = 0.2

    def extra(self, x: Tensor) -> Tensor:
        """Return a smooth step at the rim."""
        return self.height * torch.sigmoid((1 - _norm(x) / self.radius) / 0.2)

    def region(self, x: Tensor) -> Tensor:
        """Return which points lie in the disk."""
        return _norm(x)[:, 0] <= self.radius

    def authors_region(self, x: Tensor) -> Tensor:
        """Return which points lie in a disk whose radius is larger by a factor of sqrt(3)."""
        return _norm(x)[:, 0] < self.radius * 3**0.5


@kept
@dataclass(frozen=True)
class Ring(Noise):
    """A thin noisy ring along an ellipse, scenario B of the paper.

    Parameters
    ----------
    base
        The standard deviation of the noise everywhere.
    height
        The standard deviation of the extra noise.
    center
        The center of the ellipse.
    axes
        The semi-axes of the ellipse.
    half_thickness
        Half the thickness of the ring.

    Examples
    --------
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
        """Return a smooth step at both rims."""
        return self.height * torch.sigmoid(-self._outside(x) / 0.07)

    def region(self, x: Tensor) -> Tensor:
        """Return which points lie on the ring."""
        return self._outside(x)[:, 0] <= 0

    def _outside(self, x: Tensor) -> Tensor:
        """The signed distance to the ring, negative on it, to first order in the distance to the ellipse."""
        center, axes = x.new_tensor(self.center), x.new_tensor(self.axes)
        scaled = (x - center) / axes
        radius = _norm(scaled).clamp(min=1e-6)
        slope = _norm(scaled / axes) / radius
        return (radius - 1).abs() / slope.clamp(min=1e-6) - self.half_thickness


@kept
@dataclass(frozen=True)
class DiscAndCorner(Noise):
    """A noisy disk and a noisy L-shaped corner, scenario C of the paper.

    Parameters
    ----------
    base
        The standard deviation of the noise everywhere.
    height
        The standard deviation of the extra noise.
    center
        The center of the disk.
    radius
        The radius of the disk.
    bars
        The rectangles of the corner, each as (left, right, bottom, top).

    Examples
    --------
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
        """Return smooth steps at both rims."""
        disc = torch.sigmoid((1 - self._distance(x) / self.radius) / 0.1)
        corner = torch.sigmoid(-self._outside(x) / 0.1)
        return self.height * torch.hypot(disc, corner)

    def region(self, x: Tensor) -> Tensor:
        """Return which points lie in the disk or in the corner."""
        return ((self._distance(x) < self.radius) | (self._outside(x) <= 0))[:, 0]

    def authors_region(self, x: Tensor) -> Tensor:
        """Return which points lie in a slightly larger disk, or in a corner that is wider by 0.1."""
        return ((self._distance(x) < 1.05 * self.radius) | (self._outside(x) < 0.1))[:, 0]

    def _distance(self, x: Tensor) -> Tensor:
        return _norm(x - x.new_tensor(self.center))

    def _outside(self, x: Tensor) -> Tensor:
        """The signed distance to the union of the bars, (n, 1)."""
        return torch.stack([_to_box(x, *bar) for bar in self.bars]).amin(0)


@kept
@dataclass(frozen=True)
class Front(Noise):
    """A noisy strip along the curve x1 = 0.5 sin(pi x0), which was not used to tune any setting.

    Parameters
    ----------
    base
        The standard deviation of the noise everywhere.
    height
        The standard deviation of the extra noise.
    half_width
        The half-width of the strip.

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> pinn.problems.noise.Front().region(torch.tensor([[0.5, 0.5], [0.5, -0.5]]))
    tensor([ True, False])
    """

    height: float = 0.45
    half_width: float = 0.12

    def extra(self, x: Tensor) -> Tensor:
        """Return a smooth step at both sides."""
        return self.height * torch.sigmoid((self.half_width - self._away(x)) / 0.04)

    def region(self, x: Tensor) -> Tensor:
        """Return which points lie in the strip."""
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
