"""Boundary, initial and point conditions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from torch import Tensor

from guardband.base.arrays import ArrayLike, floats, to_numpy, to_torch
from guardband.pinn.geometry import Boundary, Domain
from guardband.pinn.geometry.arguments import named_parts
from guardband.pinn.problems.field import Field
from guardband.pinn.problems.unknown import Unknown
from guardband.values import position

Function: TypeAlias = Callable[[Tensor], Tensor]
"""A function from points (n, d) to values (n, m)."""

Value: TypeAlias = Function | float | Unknown | Sequence[float | Unknown]
"""A function of x, a number, or a number for each output."""

Where: TypeAlias = str | Sequence[str] | Callable[[Tensor], Tensor] | None
"""Parts of the boundary by name, a function from points (n, d) to booleans (n,), or None for the whole
boundary."""

Output: TypeAlias = str | int | Sequence[str | int] | None
"""One or several outputs, by name or number; None means all outputs."""

TRIES = 13
"""How often the number of points is doubled before a function counts as selecting none."""

CHOOSES = "It should map points of shape (n, d) to booleans of shape (n,)."


class Condition(ABC):
    """Base class of conditions: a residual that vanishes on a part of the boundary.

    Attributes
    ----------
    on
        The parts of the boundary: names, a function from points (n, d) to booleans (n,), or None for all
        spatial parts.
    output
        The outputs to which the condition applies, by name or number; None means all outputs.
    together
        The number of consecutive points whose residuals depend on each other.

    Examples
    --------
    >>> from guardband import pinn
    >>> class Radiation(pinn.problems.Condition):  # du/dn = -u^4
    ...     def residual(self, x, u):
    ...         return u.outward + u.value**4
    >>> Radiation().points(pinn.Segment(0, 2), n=10).points
    tensor([[0.],
            [2.]], dtype=torch.float64)
    """

    on: Where = None
    output: Output = None
    together: ClassVar[int] = 1

    @abstractmethod
    def residual(self, x: Tensor, u: Field, /) -> Tensor:
        """Return the quantity that should vanish.

        Parameters
        ----------
        x
            Points of the boundary, shape (n, d).
        u
            The field at these points, with outward normals.

        Returns
        -------
        Tensor
            The residual, shape (n, q) with any number of columns.
        """

    def points(self, domain: Domain, n: int, generator: torch.Generator | None = None) -> Boundary:
        """Return points at which the condition holds.

        Parameters
        ----------
        domain
            The domain of the problem.
        n
            The approximate number of points.
        generator
            The generator of random points; if None, the points are evenly spaced.

        Returns
        -------
        Boundary
            The points with their normals, sizes and parts.
        """
        how = "even" if generator is None else "random"
        seed = 0 if generator is None else int(torch.randint(2**31, (), generator=generator))
        if not callable(self.on):
            return domain.boundary(n, self.parts(domain), how, seed=seed)
        walls, enough, before = self.walls(domain), n if generator is not None else n / 2, 0
        for more in range(TRIES):
            found = domain.boundary(n << more, walls, how, seed=seed + more)
            chosen = _chosen(self.on, found.points)
            if int(chosen.sum()) >= (
                1 if len(found) == before else enough
            ):  # the boundary of an interval is two points
                rows = chosen.nonzero()[:, 0]
                if generator is not None:
                    rows = rows[torch.randperm(len(rows), generator=generator)[:n]]
                return found[rows]
            before = len(found)
        raise ValueError(
            f"The function given as `on` selects too small a part of the boundary, or no part. {CHOOSES}"
        )

    def parts(self, domain: Domain) -> tuple[str, ...]:
        """Return the names of the parts of the boundary on which the condition holds.

        Parameters
        ----------
        domain
            The domain of the problem.

        Returns
        -------
        tuple[str, ...]
            The named parts, or all spatial parts.
        """
        assert not callable(self.on)
        return self.walls(domain) if self.on is None else domain.part_names(self.on)

    def walls(self, domain: Domain) -> tuple[str, ...]:
        """Return the spatial parts of the boundary; refuse a domain with only a time axis.

        Parameters
        ----------
        domain
            The domain of the problem.

        Returns
        -------
        tuple[str, ...]
            The names of the parts.
        """
        if not domain.walls:
            raise ValueError(
                f"{type(self).__name__} without `on` applies to the spatial boundary, but the domain "
                'has only a time axis. Use pinn.Initial(...), or pass on="end".'
            )
        return domain.walls

    def of(self, u: Field) -> Field:
        """Return the outputs to which the condition applies.

        Parameters
        ----------
        u
            The field of all outputs.

        Returns
        -------
        Field
            The selected outputs.
        """
        if self.output is None:
            return u
        return u[self.output if isinstance(self.output, str | int) else tuple(self.output)]

    def exact(self, domain: Domain) -> tuple[Function, int] | None:
        """Return the prescribed values, if a hard constraint can satisfy the condition exactly.

        Parameters
        ----------
        domain
            The domain of the problem.

        Returns
        -------
        tuple[Function, int] | None
            The values of u as a function of x, and the order: 1 for a condition on u, 2 if its derivative is
            also prescribed. None if the condition cannot be satisfied exactly.
        """
        return None

    def around(self, domain: Domain) -> int | None:
        """Return the axis along which the condition makes the field periodic; None for most conditions.

        Parameters
        ----------
        domain
            The domain of the problem.

        Returns
        -------
        int | None
            The number of the axis.
        """
        return None


def as_function(value: Value) -> Function:
    """A value as a function of x; one or several numbers become a constant function."""
    if callable(value):
        return lambda x: _at(value(x), x)
    columns = _columns(value)
    if columns is not None:
        return lambda x: torch.cat([_column(part, x) for part in columns], dim=1)
    row = np.atleast_1d(to_numpy(value)).astype(float).tolist()
    return lambda x: x.new_tensor(row).expand(len(x), len(row))


def _columns(value: object) -> list[Any] | None:
    """The parts of a value with coefficients: columns (n, 1), trainable tensors, or unknowns."""
    parts = list(value) if isinstance(value, list | tuple) else [value]
    return parts if any(map(_coefficient, parts)) else None


def _column(part: Any, x: Tensor) -> Tensor:
    known = (
        float(part) if isinstance(part, Unknown) else part
    )  # float() of an unknown raises an error with advice
    return torch.as_tensor(known).to(x).expand(len(x), 1)


def _coefficient(part: object) -> bool:
    return isinstance(part, Unknown) or (isinstance(part, Tensor) and (part.ndim == 2 or part.requires_grad))


def _at(found: object, x: Tensor) -> Tensor:
    """The return value of a function of x as a tensor; a scalar is expanded to all points."""
    if not isinstance(found, Tensor):
        array = np.asarray(found)
        if array.dtype.kind not in "fiub":
            raise TypeError(
                f"A condition's function of x should return values of shape (n, 1), or a number, got "
                f"{found!r:.80}."
            )
        found = torch.as_tensor(array, dtype=x.dtype, device=x.device)
    found = found.to(x.device)  # the function may use a network on another device
    return found.expand(len(x), 1) if found.ndim == 0 else found


def _chosen(on: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The points that a function selects, (n,)."""
    found = on(x)
    chosen = found if isinstance(found, Tensor) else torch.as_tensor(np.asarray(found))
    if chosen.dtype != torch.bool or chosen.shape not in ((len(x),), (len(x), 1)):
        shape = f"{tuple(chosen.shape)} of {chosen.dtype} for {len(x)} points"
        raise ValueError(f"The function given as `on` returned {shape}. {CHOOSES}")
    return chosen.reshape(-1)


def _check(condition: Condition, *names: str) -> None:
    """Refuse values that are neither functions nor finite numbers, and an `on` without names."""
    words = [f"{name}=..." if name in ("on", "output") else name for name in vars(condition)]
    signature = f"pinn.{type(condition).__name__}({', '.join(words)})"
    for name in names:
        _check_value(getattr(condition, name), f"`{name}` of {signature}")
    if condition.on is not None and not callable(condition.on):
        named_parts(condition.on)


def _check_value(value: object, name: str) -> None:
    if (callable(value) and not isinstance(value, type)) or _columns(value) is not None:
        return
    found = to_numpy(value)
    if found.dtype.kind not in "fiub" or found.ndim > 1:
        raise TypeError(
            f"{name} should be a number, a number for each output, or a function of x, got {value!r:.80}."
        )
    if not np.isfinite(found).all():
        raise ValueError(f"{name} should be finite, got {value!r:.80}.")


def values(value: Value, x: Tensor, u: Field) -> Tensor:
    """A value at points, with one column per output of u, or a single column for all outputs."""
    found = as_function(value)(x)
    outputs = u.names.outputs
    if found.ndim == 2 and found.shape[1] not in (1, len(outputs)):
        raise ValueError(
            f"A condition on the outputs {', '.join(outputs)} should have one value, or {len(outputs)}, got "
            f"{found.shape[1]}. Select its outputs by output=(...)."
        )
    return found


@dataclass(frozen=True, eq=False)
class Dirichlet(Condition):
    """The Dirichlet condition u = value.

    Parameters
    ----------
    value
        A function of x, a number, or a number for each output.
    on
        The parts of the boundary: names, or a function from points (n, d) to booleans (n,). By default all
        spatial parts, at all times.
    output
        The outputs, by name or number; all by default.

    Examples
    --------
    >>> from guardband import pinn
    >>> walls = pinn.Dirichlet(0.0)
    >>> len(walls.points(pinn.Rectangle((0, 0), (1, 1)), n=40))
    40
    >>> inflow = pinn.Dirichlet((1.0, 0.0), on="left", output=("u", "v"))
    """

    value: Value
    on: Where = None
    output: Output = None

    def __post_init__(self) -> None:
        _check(self, "value")

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u - value."""
        u = self.of(u)
        return u.value - values(self.value, x, u)

    def exact(self, domain: Domain) -> tuple[Function, int] | None:
        """Return the value, if the parts are given by name."""
        return None if callable(self.on) else (as_function(self.value), 1)


@dataclass(frozen=True, eq=False)
class Neumann(Condition):
    """The Neumann condition du/dn = flux, with the outward normal n.

    Parameters
    ----------
    flux
        A function of x, a number, or a number for each output.
    on
        The parts of the boundary: names, or a function from points (n, d) to booleans (n,). By default all
        spatial parts.
    output
        The outputs, by name or number; all by default.

    Examples
    --------
    >>> from guardband import pinn
    >>> insulated = pinn.Neumann(0.0, on="right")
    >>> insulated.points(pinn.Segment(0, 2), n=1).points.item()
    2.0
    """

    flux: Value
    on: Where = None
    output: Output = None

    def __post_init__(self) -> None:
        _check(self, "flux")

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return du/dn - flux."""
        u = self.of(u)
        return u.outward - values(self.flux, x, u)


@dataclass(frozen=True, eq=False)
class Robin(Condition):
    """The Robin condition du/dn + factor u = value, with the outward normal n.

    For a wall of conductivity k that loses heat to air of temperature T at the rate h (u - T), the factor is
    h / k and the value h T / k.

    Parameters
    ----------
    factor
        A function of x, a number, or a number for each output.
    value
        A function of x, a number, or a number for each output.
    on
        The parts of the boundary: names, or a function from points (n, d) to booleans (n,). By default all
        spatial parts.
    output
        The outputs, by name or number; all by default.

    Examples
    --------
    >>> from guardband import pinn
    >>> cooled = pinn.Robin(factor=2.0, value=2.0 * 20, on="top")
    """

    factor: Value
    value: Value = 0.0
    on: Where = None
    output: Output = None

    def __post_init__(self) -> None:
        _check(self, "factor", "value")

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return du/dn + factor u - value."""
        u = self.of(u)
        return u.outward + values(self.factor, x, u) * u.value - values(self.value, x, u)


@dataclass(frozen=True, eq=False)
class Periodic(Condition):
    """The periodic condition: u and its derivative along an axis agree at both ends of the axis.

    A network from `pinn.mlp(problem, periodic="x")` satisfies this condition exactly, so it need not be
    learned.

    Parameters
    ----------
    axis
        The axis, by name or number.
    output
        The outputs, by name or number; all by default.

    Examples
    --------
    >>> from guardband import pinn
    >>> around = pinn.Periodic("x")
    >>> around.points(pinn.Segment(0, 2) * pinn.Time(0, 1), n=6).points[:2]  # pairs
    tensor([[0.0000, 0.2500],
            [2.0000, 0.2500]], dtype=torch.float64)
    """

    axis: str | int
    output: Output = None
    together: ClassVar[int] = 2

    def around(self, domain: Domain) -> int:
        """Return the number of the axis."""
        return position(self.axis, domain.names, "axis")

    def points(self, domain: Domain, n: int, generator: torch.Generator | None = None) -> Boundary:
        """Return about n points in pairs, at the lower and the upper end of the axis."""
        axis = self.around(domain)
        lower, upper = domain.lower[axis], domain.upper[axis]
        walls = domain.boundary(16, self.walls(domain), "quasi")
        flat = bool((walls.points[:, axis] == lower).any())
        low = Dirichlet(0.0, on=lambda x: x[:, axis] == lower)
        ends = low.points(domain, max(1, n // 2), generator) if flat else walls
        far = ends.points.clone()
        far[:, axis] = upper
        if not flat or not bool(domain.contains(far).all()):
            raise ValueError(
                f"Periodic({self.axis!r}) needs two opposite faces along this axis, but the boundary has "
                f"none at {lower:g} and {upper:g}."
            )
        points, normals = (
            torch.stack(both, dim=1).flatten(0, 1)
            for both in ((ends.points, far), (ends.normals, -ends.normals))
        )
        return Boundary(
            points, normals, ends.sizes.repeat_interleave(2), tuple(p for p in ends.parts for _ in "12")
        )

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return the differences of u and of its derivative between both ends."""
        u = self.of(u)
        other = (torch.arange(len(x), device=x.device) ^ 1).clamp(max=len(x) - 1)
        parts = [u.value, u.d(self.axis)]
        return torch.cat([part - part[other] for part in parts], dim=1)


@dataclass(frozen=True, eq=False)
class Initial(Condition):
    """The initial condition u = value, and du/dt = velocity if a velocity is given.

    Parameters
    ----------
    value
        A function of x, a number, or a number for each output.
    velocity
        The initial time derivative, in the same form; None for an equation that is first order in time.
    output
        The outputs, by name or number; all by default.

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> start = pinn.Initial(lambda x: torch.sin(torch.pi * x[:, :1]))
    >>> start.points(pinn.Segment(0, 1) * pinn.Time(0, 5), n=2).points
    tensor([[0.2500, 0.0000],
            [0.7500, 0.0000]], dtype=torch.float64)
    """

    value: Value
    velocity: Value | None = None
    output: Output = None

    def __post_init__(self) -> None:
        _check(self, "value", *(() if self.velocity is None else ("velocity",)))

    def parts(self, domain: Domain) -> tuple[str, ...]:
        """Return the start of time."""
        if "start" not in domain.parts:
            raise ValueError(
                "Initial() needs a time axis, such as domain = pinn.Segment(0, 1) * pinn.Time(0, 5), or "
                "pinn.Time(0, 5)."
            )
        return ("start",)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u - value, and du/dt - velocity; time is the last axis."""
        u = self.of(u)
        off = u.value - values(self.value, x, u)
        if self.velocity is None:
            return off
        return torch.cat([off, u.d(x.shape[1] - 1) - values(self.velocity, x, u)], dim=1)

    def exact(self, domain: Domain) -> tuple[Function, int]:
        """Return value + velocity (t - start)."""
        start = as_function(self.value)
        if self.velocity is None:
            return start, 1
        speed, since = as_function(self.velocity), domain.lower[-1]
        return lambda x: start(x) + (x[:, -1:] - since) * speed(x), 2


@dataclass(frozen=True, eq=False)
class PointValue(Condition):
    """The condition u = value at given points, such as a pressure prescribed at one point.

    Parameters
    ----------
    at
        One point, shape (d,), or several, shape (n, d).
    value
        A function of x, a number, or a number for each output.
    output
        The outputs, by name or number; all by default.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinned = pinn.PointValue((0.0, 0.0), 0.0, output="p")
    >>> pinned.points(pinn.Rectangle((0, 0), (1, 1)), n=10).points.tolist()
    [[0.0, 0.0]]
    """

    at: ArrayLike
    value: Value
    output: Output = None

    def __post_init__(self) -> None:
        _check(self, "value")

    def points(self, domain: Domain, n: int, generator: torch.Generator | None = None) -> Boundary:
        """Return the points, regardless of n."""
        x = to_torch(floats(self.at, "at")).double()
        if x.ndim > 2 or x.numel() % domain.d or (x.ndim == 2 and x.shape[1] != domain.d):
            raise ValueError(
                f"PointValue(at=...) should be points of shape (n, {domain.d}), got {tuple(x.shape)}."
            )
        x = x.reshape(-1, domain.d)
        return Boundary(x, torch.zeros_like(x), x.new_ones(len(x)), ("point",) * len(x))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """Return u - value."""
        u = self.of(u)
        return u.value - values(self.value, x, u)
