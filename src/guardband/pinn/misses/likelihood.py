"""The likelihood: noise scales of data, equation and conditions, which define the loss and the posterior.

Every miss is modeled as Gaussian noise with its own scale. With n measurements the negative log-likelihood of
a network is

    U = n/2 ( mean |u - y|^2 / data^2  +  mean |residual|^2 / physics^2  +  mean |condition|^2 / boundary^2 )

where the means are over measurements, over the domain and over its boundary. The equation and the conditions
therefore count as much as all measurements together, regardless of the number of points in their means: the
points approximate a continuum and are not independent pieces of evidence. Training minimizes U; Bayesian
predictors sample exp(-U).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from guardband.base.kept import kept
from guardband.pinn.misses.titles import Titles
from guardband.pinn.networks.derivatives import Residual
from guardband.pinn.problems import AutogradField, Condition, Field, Names, Problem, Term

TERMS = ("data", "physics", "boundary")
"""The terms of the loss, in the order that is used everywhere."""


Scale: TypeAlias = float | Mapping[str, float] | None
"""A noise scale, or one for each name; None means the default."""

Parted: TypeAlias = float | Mapping[str, float | Sequence[float]] | None
"""Scales of conditions; a condition on several quantities, such as value and velocity, may have several."""


@kept
@dataclass(frozen=True)
class Likelihood:
    """Noise scales of data, equation and conditions.

    Each scale is a number, or a mapping with one number for each output, equation or condition, by the names
    in `fitted.terms`.

    Parameters
    ----------
    data
        The standard deviation of the measurement noise, in the units of the outputs. The default is 5 % of
        the size of each output.
    physics
        The standard deviation of the residual, in its units. The default is 2 % of the typical size of each
        equation's terms for fields as large as the solution, or 0.1 % if Gauss-Newton steps fit data and the
        equation has no unknowns.
    boundary
        The standard deviation of the conditions, in their units. The default is `data` if that is a number,
        otherwise 5 % of the size of each condition's terms, or 0.25 % if the share of the equation is 0.1 %.
        A condition on several quantities, such as value and velocity, may have a number for each of them.
    tolerance
        The share of the equation's terms to use instead of 2 % or 0.1 %; the share for conditions is 2.5
        times as large.

    Notes
    -----
    Sizes are those of the data or, without data, of a crude polynomial solution of low degree.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.Likelihood(data=0.1)
    Likelihood(data=0.1, physics=None, boundary=None, tolerance=None)
    >>> pinn.Likelihood.from_weights(data=4.0, physics=1.0, boundary=1.0)
    Likelihood(data=0.5, physics=1.0, boundary=1.0, tolerance=None)
    >>> flow = pinn.Likelihood(data={"u": 0.01, "v": 0.01, "p": 3.0})
    >>> rough = pinn.Likelihood(data=0.1, tolerance=0.05)  # a model that is right to 5 %
    """

    data: Scale = None
    physics: Scale = None
    boundary: Parted = None
    tolerance: float | None = field(default=None, metadata={"neutral": None})

    def __post_init__(self) -> None:
        for name in TERMS:
            scale = getattr(self, name)
            parts = scale if isinstance(scale, Mapping) else {} if scale is None else {"": scale}
            for part, number in parts.items():
                where = f"`{name}`" + (f" of {part!r}" if part else "")
                several = name == "boundary" and part and isinstance(number, list | tuple) and number
                for one in number if several else (number,):
                    if not isinstance(one, Real) or not 0 < float(one) < math.inf:
                        raise ValueError(f"{where} should be a positive noise scale, got {one!r:.80}.")
        share = self.tolerance
        if share is not None and (not isinstance(share, Real) or not 0 < float(share) < math.inf):
            raise ValueError(
                "`tolerance` should be the allowed error of the equation, as a share of its own terms, such "
                "as 0.02, got {share!r:.80}."
            )

    @classmethod
    def from_weights(cls, *, data: float, physics: float, boundary: float) -> Likelihood:
        """Return the scales for which training minimizes a weighted sum of mean squares.

        Parameters
        ----------
        data, physics, boundary
            The weights of the mean squares of data, equation and conditions.

        Returns
        -------
        Likelihood
            The scales, each one over the square root of its weight.
        """
        return cls(data**-0.5, physics**-0.5, boundary**-0.5)

    def completed(self, problem: Problem, titles: Titles, sizes: Tensor, *, firm: bool = False) -> Likelihood:
        """Return the likelihood with defaults filled in.

        Parameters
        ----------
        problem
            The problem.
        titles
            The names of its equations and conditions.
        sizes
            The size of each output, shape (m,).
        firm
            Whether the equation has the smaller default share, `FIRM_SHARE`.

        Returns
        -------
        Likelihood
            The same scales, with None replaced by numbers.
        """
        data, physics, boundary = self.data, self.physics, self.boundary
        share = self.tolerance or (FIRM_SHARE if firm else PHYSICS_SHARE)
        outputs = dict.fromkeys(problem.names.outputs, 1)
        for name, known in zip(TERMS, (outputs, titles.equations, titles.conditions), strict=True):
            _check_names(name, getattr(self, name), known)
        for name, scale in self.boundary.items() if isinstance(self.boundary, Mapping) else ():
            if isinstance(scale, Sequence):
                condition = titles.conditions[name]
                _check_parts(name, scale, typical_residual(problem, condition.residual, condition, sizes))
        if physics is None:
            typical = typical_residual(problem, problem.misses, None, sizes)
            physics = _by_name(titles.equations, share * typical)
        if boundary is None and isinstance(data, Real) and self.tolerance is None and not firm:
            boundary = data
        elif boundary is None:
            typical = {
                name: typical_residual(problem, condition.residual, condition, sizes)
                for name, condition in titles.conditions.items()
            }
            boundary = _by_condition(typical, BOUNDARY_SHARE * share)
        if data is None:
            data = _by_name(outputs, DATA_SHARE * sizes)
        return Likelihood(data, physics, boundary)

    def weights(self, physics_factor: float = 1.0) -> Tensor:
        """Return the weights of the mean squares, the inverse variances.

        Parameters
        ----------
        physics_factor
            A factor for the physics scale.

        Returns
        -------
        Tensor
            The weights in the order of `TERMS`, shape (3,). A weight is 1 if its names have separate scales,
            which divide the misses instead.
        """
        found = []
        for scale in (self.data, self.physics, self.boundary):
            if scale is None:
                raise ValueError("Some scales are still None. Call `completed` to fill them in.")
            found.append(1.0 if isinstance(scale, Mapping) else scale)
        found[1] *= physics_factor
        return torch.tensor([1 / scale**2 for scale in found], dtype=torch.float64)


def _by_name(columns: Mapping[str, int], scales: Tensor) -> float | dict[str, float]:
    """One scale if there is one name, otherwise the root mean square over the columns of each name."""
    scales = torch.where(scales > 0, scales, scales[scales > 0].mean() if bool((scales > 0).any()) else 1.0)
    parts = zip(columns, scales.split(list(columns.values())), strict=True)
    found = {name: _root_mean_square(part) for name, part in parts}
    return next(iter(found.values())) if len(found) == 1 else found


def _by_condition(typical: Mapping[str, Tensor], share: float) -> Parted:
    """One scale for each condition, or one for each of its quantities if a single scale would mask some.

    If a motion takes milliseconds, its velocity per second is a thousand times as large as its deflection.
    """
    own = torch.tensor([_root_mean_square(parts) for parts in typical.values()] or [1.0])
    found = _by_name(dict.fromkeys(typical or [""], 1), share * own)
    scales = dict[str, float | Sequence[float]]()
    for name, parts in typical.items():
        shared = found[name] if isinstance(found, Mapping) else found
        each = [min(shared, DROWNED * share * part) if part > 0 else shared for part in parts.tolist()]
        scales[name] = shared if min(each) == shared else tuple(each)
    return scales if any(isinstance(scale, tuple) for scale in scales.values()) else found


def _root_mean_square(parts: Tensor) -> float:
    return float(parts[0] if len(parts) == 1 else parts.square().mean().sqrt())


def _check_names(term: str, scale: Parted, known: Mapping[str, object]) -> None:
    """Refuse scales by name if a name is unknown or missing."""
    if isinstance(scale, Mapping) and {*scale} != {*known}:
        raise ValueError(
            f"`{term}` of the likelihood should be one number, or one for each of "
            f"{', '.join(map(repr, known)) or 'nothing'}, got numbers for {', '.join(map(repr, scale))}."
        )


def _check_parts(name: str, scales: Sequence[float], parts: Tensor) -> None:
    """Refuse scales of a condition unless there is one for each quantity."""
    if len(scales) != len(parts):
        raise ValueError(
            f"`boundary` of {name!r} should be one number, or {len(parts)}, one for each quantity that it "
            f"compares, got {len(scales)}."
        )


class Scales(NamedTuple):
    """Noise scales by column, for the outputs, the equations, and each entry of `terms_of`."""

    data: Tensor
    physics: Tensor
    boundary: tuple[Tensor, ...]


def scales_of(
    likelihood: Likelihood, problem: Problem, titles: Titles, *, only_names: bool = False
) -> Scales:
    """The scales of a completed likelihood by column, each of shape (q,) or (1,).

    With `only_names`, a scale that is the same number for all names is replaced by 1.
    """

    def by_name(scale: Parted, columns: Mapping[str, int]) -> Tensor:
        numbers = [number for name, count in columns.items() for number in one(scale, name) * count]
        return torch.tensor(numbers, dtype=torch.float64)

    def one(scale: Parted, name: str) -> list[float]:
        found = scale[name] if isinstance(scale, Mapping) else scale
        if found is None or (only_names and not isinstance(scale, Mapping)):
            return [1.0]
        return list(found) if isinstance(found, Sequence) else [found]

    data = by_name(likelihood.data, dict.fromkeys(problem.names.outputs, 1))
    boundary = [by_name(likelihood.boundary, {name: 1}) for name in titles.conditions]
    own = [1.0 if only_names else float(term.scale) for term in titles.terms.values()]
    boundary += [torch.tensor([scale], dtype=torch.float64) for scale in own]
    physics = by_name(likelihood.physics, titles.equations)
    return Scales(data, physics, tuple(boundary))


def weights_of(likelihood: Likelihood, terms: Sequence[Term], physics_factor: float = 1.0) -> Tensor:
    """The weights of the mean squares of data, equation and conditions, followed by the problem's terms."""
    found = likelihood.weights(physics_factor)
    return torch.cat([found, found.new_tensor([term.weight for term in terms])]) if terms else found


PHYSICS_SHARE = 0.02
"""The default physics scale, relative to the typical size of the residual's terms."""

FIRM_SHARE = 0.001
"""The default if Gauss-Newton steps fit data; unlike Adam, they can follow a stiff equation."""

BOUNDARY_SHARE = 2.5
"""The ratio of the default relative scale of conditions to that of the equation."""

DROWNED = 10.0
"""The largest ratio of the scale of a quantity in a condition to the default of that quantity."""

DATA_SHARE = 0.05
"""The default scale of the data, relative to their size."""


def typical_residual(problem: Problem, residual: Residual, where: Condition | None, sizes: Tensor) -> Tensor:
    """The typical size of the terms of a residual, (q,), for smooth fields of the given sizes.

    It is the root mean square of residual(u) - residual(0) over cosines with about one wave per axis, so it
    has the units of the equation and does not require a solution. `where` is the condition to which the
    residual belongs.
    """
    generator = torch.Generator().manual_seed(0)
    domain, names = problem.domain, problem.names
    m = len(names.outputs)
    x, normals = domain.uniform(256, generator), None
    if where is not None:
        edge = where.points(domain, 256)
        x, normals = edge.points.to(x), edge.normals.to(x)
    reach, center = torch.tensor(domain.reach), torch.tensor(domain.center)
    nothing = AutogradField(lambda x: torch.zeros(len(x), m, dtype=x.dtype), x, names, normals)
    name = type(problem if where is None else where).__name__
    at = "points inside" if where is None else "points where it holds"
    zero = _finite_misses(residual, name, x, nothing, f"{at}, with u = 0 as the field")
    squares = []
    for _ in range(8):
        waves = 0.5 + torch.rand(domain.d, m, generator=generator)
        phase = 2 * torch.pi * torch.rand(m, generator=generator)

        def wave(x: Tensor, waves: Tensor = waves, phase: Tensor = phase) -> Tensor:
            turns = ((x - center) / reach) @ waves
            return (math.sqrt(2) * sizes).to(x) * torch.cos(torch.pi * turns + phase)

        trial = f"{at}, with waves of size {float(sizes.max()):.3g} as the field"
        found = _finite_misses(residual, name, x, AutogradField(wave, x, names, normals), trial)
        squares.append((found - zero).square().mean(dim=0))
    return torch.stack(squares).mean(dim=0).sqrt().double()


def _finite_misses(residual: Residual, name: str, x: Tensor, u: Field, where: str) -> Tensor:
    """The residual of a trial field; an error if it is not finite."""
    found = residual(x, u).detach()
    cure = " If it is finite for the fields of interest, pass its scale, pinn.Likelihood(physics=...)."
    check_finite(found, x, u.names, f"{name}.residual", where, cure)
    return found


def check_finite(miss: Tensor, x: Tensor, names: Names, name: str, where: str, cure: str = "") -> None:
    """Refuse NaN and infinite values, with one of the points as an example."""
    bad = (~miss.detach().isfinite()).any(dim=1)
    if not bool(bad.any()):
        return
    first = int(bad.nonzero()[0, 0])
    value = "NaN" if bool(miss[first].isnan().any()) else "infinite"
    at = ", ".join(f"{axis} = {c:.4g}" for axis, c in zip(names.axes, x[first].tolist(), strict=True))
    raise ValueError(
        f"{name} should be finite, but it is {value} at {int(bad.sum())} of {len(x)} {where}, such as {at}. "
        f"Look for a division by zero, or a logarithm or a root of a negative number.{cure}"
    )
