"""Conditions: what should hold on the boundary, at the start, and at points."""

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
"""Parts of a boundary by name, a function from points (n, d) to booleans (n,), or None for all of it."""

Output: TypeAlias = str | int | Sequence[str | int] | None
"""One output or several, by name or number; None is all of them."""

TRIES = 13
"""How often twice as many points are drawn before a function is said to choose none."""

CHOOSES = "It takes points (n, d) and returns booleans (n,)."


class Condition(ABC):
    """Something that should vanish on a part of the boundary.

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
    """How many points in a row are compared with each other."""

    @abstractmethod
    def residual(self, x: Tensor, u: Field, /) -> Tensor:
        """What should vanish at points x (n, d) of the boundary, (n, anything)."""

    def points(self, domain: Domain, n: int, generator: torch.Generator | None = None) -> Boundary:
        """About n points where the condition holds: evenly placed, or random if a generator is given."""
        how = "even" if generator is None else "random"
        seed = 0 if generator is None else int(torch.randint(2**31, (), generator=generator))
        if not callable(self.on):
            return domain.boundary(n, self.parts(domain), how, seed=seed)
        walls, enough, before = self.walls(domain), n if generator is not None else n / 2, 0
        for more in range(TRIES):
            found = domain.boundary(n << more, walls, how, seed=seed + more)
            chosen = _chosen(self.on, found.points)
            if int(chosen.sum()) >= (1 if len(found) == before else enough):  # ends of a line stay two
                rows = chosen.nonzero()[:, 0]
                if generator is not None:
                    rows = rows[torch.randperm(len(rows), generator=generator)[:n]]
                return found[rows]
            before = len(found)
        raise ValueError(
            f"The function given as `on` chooses too little of the boundary, or nothing. {CHOOSES}"
        )

    def parts(self, domain: Domain) -> tuple[str, ...]:
        """The parts of the boundary named, or all of its boundary in space."""
        assert not callable(self.on)
        return self.walls(domain) if self.on is None else domain.part_names(self.on)

    def walls(self, domain: Domain) -> tuple[str, ...]:
        """The boundary in space."""
        if not domain.walls:
            raise ValueError(
                f"{type(self).__name__} without `on` is about the boundary in space, and there is only time "
                f'here. Use pinn.Initial(...), or on="end".'
            )
        return domain.walls

    def of(self, u: Field) -> Field:
        """The outputs that the condition is about."""
        if self.output is None:
            return u
        return u[self.output if isinstance(self.output, str | int) else tuple(self.output)]

    def exact(self, domain: Domain) -> tuple[Function, int] | None:
        """What u is there, as a function of x, and to which order; None if it cannot be met exactly.

        The order is 1 where it is about u, 2 where it is about its derivative too.
        """
        return None

    def around(self, domain: Domain) -> int | None:
        """The axis whose ends are the same, which a periodic network meets; None for most."""
        return None


def as_function(value: Value) -> Function:
    """A number as the function that is this number everywhere, several as a row of them."""
    if callable(value):
        return lambda x: _at(value(x), x)
    columns = _columns(value)
    if columns is not None:
        return lambda x: torch.cat([_column(part, x) for part in columns], dim=1)
    row = np.atleast_1d(to_numpy(value)).astype(float).tolist()
    return lambda x: x.new_tensor(row).expand(len(x), len(row))


def _columns(value: object) -> list[Any] | None:
    """The parts of a value, if some are coefficients: columns (n, 1), tensors to be learned, or unknowns."""
    parts = list(value) if isinstance(value, list | tuple) else [value]
    return parts if any(map(_coefficient, parts)) else None


def _column(part: Any, x: Tensor) -> Tensor:
    known = float(part) if isinstance(part, Unknown) else part  # which is refused, in a sentence
    return torch.as_tensor(known).to(x).expand(len(x), 1)


def _coefficient(part: object) -> bool:
    return isinstance(part, Unknown) or (isinstance(part, Tensor) and (part.ndim == 2 or part.requires_grad))


def _at(found: object, x: Tensor) -> Tensor:
    """What a function of x returned, as a tensor; a number is the same everywhere."""
    if not isinstance(found, Tensor):
        array = np.asarray(found)
        if array.dtype.kind not in "fiub":
            raise TypeError(
                f"A condition's function of x should return values (n, 1), or a number, got {found!r:.80}."
            )
        found = torch.as_tensor(array, dtype=x.dtype, device=x.device)
    found = found.to(x.device)  # a function may ask a network on another one
    return found.expand(len(x), 1) if found.ndim == 0 else found


def _chosen(on: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Which points a function chooses, (n,)."""
    found = on(x)
    chosen = found if isinstance(found, Tensor) else torch.as_tensor(np.asarray(found))
    if chosen.dtype != torch.bool or chosen.shape not in ((len(x),), (len(x), 1)):
        said = f"{tuple(chosen.shape)} of {chosen.dtype} for {len(x)} points"
        raise ValueError(f"The function given as `on` returned {said}. {CHOOSES}")
    return chosen.reshape(-1)


def _check(condition: Condition, *names: str) -> None:
    """Refuse values that are neither functions nor finite numbers, and an `on` that names no part."""
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
    """A value at points, one column for each output of u or one for all."""
    found = as_function(value)(x)
    outputs = u.names.outputs
    if found.ndim == 2 and found.shape[1] not in (1, len(outputs)):
        raise ValueError(
            f"A condition on the outputs {', '.join(outputs)} should have one value, or {len(outputs)}, got "
            f"{found.shape[1]}. Say which outputs it is about: output=(...)."
        )
    return found


@dataclass(frozen=True, eq=False)
class Dirichlet(Condition):
    """u = value on the parts named, or on all of the boundary in space, at all times.

    `value` is a function of x, a number, or a number for each output; `on` a part, several, or a function
    from points (n, d) to booleans; `output` one output, several, or all.

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
        """u - value."""
        u = self.of(u)
        return u.value - values(self.value, x, u)

    def exact(self, domain: Domain) -> tuple[Function, int] | None:
        """The value, on parts that have names."""
        return None if callable(self.on) else (as_function(self.value), 1)


@dataclass(frozen=True, eq=False)
class Neumann(Condition):
    """du/dn = flux on the parts named, or on all of the boundary in space; n is the outward normal.

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
        """du/dn - flux."""
        u = self.of(u)
        return u.outward - values(self.flux, x, u)


@dataclass(frozen=True, eq=False)
class Robin(Condition):
    """du/dn + factor u = value: a wall that lets through in proportion to what lies behind it.

    A wall of conductivity k that loses heat to air of temperature T at the rate h (u - T) has the factor
    h / k and the value h T / k.

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
        """du/dn + factor u - value."""
        u = self.of(u)
        return u.outward + values(self.factor, x, u) * u.value - values(self.value, x, u)


@dataclass(frozen=True, eq=False)
class Periodic(Condition):
    """u and its derivative along an axis are the same at both ends of the axis.

    `pinn.mlp(problem, periodic="x")` makes it hold exactly; then nothing is left to learn of it.

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
        """The axis, by number."""
        return position(self.axis, domain.names, "axis")

    def points(self, domain: Domain, n: int, generator: torch.Generator | None = None) -> Boundary:
        """About n points in pairs: at the lower end of the axis, and at its upper end."""
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
                f"Periodic({self.axis!r}) needs two ends of this axis that face each other, and the boundary "
                f"has none at {lower:g} and {upper:g}."
            )
        points, normals = (
            torch.stack(both, dim=1).flatten(0, 1)
            for both in ((ends.points, far), (ends.normals, -ends.normals))
        )
        return Boundary(
            points, normals, ends.sizes.repeat_interleave(2), tuple(p for p in ends.parts for _ in "12")
        )

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u at one end less u at the other, beside the same of its derivative."""
        u = self.of(u)
        other = (torch.arange(len(x), device=x.device) ^ 1).clamp(max=len(x) - 1)
        parts = [u.value, u.d(self.axis)]
        return torch.cat([part - part[other] for part in parts], dim=1)


@dataclass(frozen=True, eq=False)
class Initial(Condition):
    """u = value, and du/dt = velocity if given, at the start of time.

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
        """The start."""
        if "start" not in domain.parts:
            raise ValueError(
                "Initial() needs a time axis: domain = pinn.Segment(0, 1) * pinn.Time(0, 5), or pinn.Time(0, "
                "5)."
            )
        return ("start",)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u - value beside du/dt - velocity; time is the last axis."""
        u = self.of(u)
        off = u.value - values(self.value, x, u)
        if self.velocity is None:
            return off
        return torch.cat([off, u.d(x.shape[1] - 1) - values(self.velocity, x, u)], dim=1)

    def exact(self, domain: Domain) -> tuple[Function, int]:
        """The value, and what the velocity adds to it."""
        start = as_function(self.value)
        if self.velocity is None:
            return start, 1
        speed, since = as_function(self.velocity), domain.lower[-1]
        return lambda x: start(x) + (x[:, -1:] - since) * speed(x), 2


@dataclass(frozen=True, eq=False)
class PointValue(Condition):
    """u = value at one point or several, as where a pressure is pinned.

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
        """The points, whatever n."""
        x = to_torch(floats(self.at, "at")).double()
        if x.ndim > 2 or x.numel() % domain.d or (x.ndim == 2 and x.shape[1] != domain.d):
            raise ValueError(f"PointValue(at=...) should be points (n, {domain.d}), got {tuple(x.shape)}.")
        x = x.reshape(-1, domain.d)
        return Boundary(x, torch.zeros_like(x), x.new_ones(len(x)), ("point",) * len(x))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """u - value."""
        u = self.of(u)
        return u.value - values(self.value, x, u)
