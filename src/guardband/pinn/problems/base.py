"""Problems: an equation on a shape, its conditions, and what can be observed of its solution."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import ClassVar

import torch
from torch import Tensor, nn

from guardband.base.arrays import ArrayLike, rows, to_torch
from guardband.pinn.geometry import Boundary, Domain
from guardband.pinn.problems.conditions import Condition, Function
from guardband.pinn.problems.field import AutogradField, Field
from guardband.pinn.problems.unknown import unknowns_in
from guardband.values import Names, Observations, output_names


class Term(ABC):
    """Something that should vanish besides equation and conditions, such as an integral constraint.

    A problem lists its terms in `terms`. `residual` is (n, q) at n points, or (1, q) if it is about all of
    them together; `scale` is the standard deviation by which it may be off, in its own units. `name` is what
    `fitted.history`, `fitted.terms` and the verdict call it.

    >>> import torch
    >>> from guardband import pinn
    >>> class Mean(pinn.Term):
    ...     name, scale = "mean", 1e-3
    ...
    ...     def residual(self, x, u):
    ...         return u.value.mean(dim=0, keepdim=True)
    >>> class Insulated(
    ...     pinn.Problem
    ... ):  # its solution, cos(pi x), is unique up to a constant
    ...     domain = pinn.Segment(0, 1)
    ...
    ...     def residual(self, x, u):
    ...         return u.d("x", "x") + torch.pi**2 * torch.cos(torch.pi * x)
    ...
    ...     def conditions(self):
    ...         return [pinn.Neumann(0.0)]
    ...
    ...     def terms(self):
    ...         return [Mean()]
    >>> problem = Insulated()
    >>> fitted = pinn.fit(problem, pinn.mlp(problem, [8]), progress=False)
    >>> abs(fitted([[0.0]]).item() - 1) < 1e-2, fitted.terms[-1]["mean"] < 1e-8
    (True, True)
    """

    name: str
    scale: float
    n: ClassVar[int] = 512
    """About how many points there are."""
    together: ClassVar[int] = 0

    @abstractmethod
    def residual(self, x: Tensor, u: Field, /) -> Tensor:
        """What should vanish at points x (n, d), (n, q), or (1, q) for all of them together."""

    def points(self, domain: Domain, n: int, generator: torch.Generator | None = None) -> Boundary:
        """The points of the term: by default `n` that fill the domain evenly and count alike in a mean.

        They are the same at every call, whatever number is asked for: a mean over a few random points would
        be off by its sampling error.
        """
        x = domain.interior(self.n, "even" if domain.d < 4 else "quasi")
        return Boundary(x, torch.zeros_like(x), x.new_full((len(x),), 1 / len(x)), ("inside",) * len(x))

    @property
    def weight(self) -> float:
        """What its mean square is multiplied by in the loss, as 1 / scale^2 for data and conditions."""
        return self.scale**-2


class Problem(ABC):
    """An equation to be solved: subclass it as a frozen dataclass and write the residual.

    `residual` and everything it calls is plain torch on points x (n, d); u is a `Field`. `outputs` are the
    names of its outputs, or their number.

    >>> from dataclasses import dataclass
    >>> import torch
    >>> from guardband import pinn
    >>> @dataclass(frozen=True)
    ... class Heat(pinn.Problem):
    ...     diffusivity: float = 0.1
    ...     domain = pinn.Segment(0, 1) * pinn.Time(0, 2)
    ...
    ...     def residual(self, x, u):
    ...         return u.d("t") - self.diffusivity * u.laplacian
    ...
    ...     def conditions(self):
    ...         return [
    ...             pinn.Dirichlet(0.0),
    ...             pinn.Initial(lambda x: torch.sin(torch.pi * x[:, :1])),
    ...         ]
    >>> Heat(diffusivity=0.2)
    Heat(diffusivity=0.2)
    """

    domain: ClassVar[Domain]
    outputs: ClassVar[tuple[str, ...] | int] = ("u",)

    @abstractmethod
    def residual(self, x: Tensor, u: Field, /) -> Tensor | Mapping[str, Tensor]:
        """What should vanish at x (n, d) inside the domain: (n, equations), or (n, 1) for each by name."""

    def conditions(self) -> Sequence[Condition]:
        """What should hold on the boundary of the domain and at the start; none by default."""
        return []

    def terms(self) -> Sequence[Term]:
        """What else should hold, such as an integral constraint; nothing by default."""
        return []

    @property
    def names(self) -> Names:
        """What axes and outputs are called, and which axes are space."""
        outputs = output_names(self.outputs) if isinstance(self.outputs, int) else tuple(self.outputs)
        if isinstance(self.outputs, str) or len({*outputs}) != len(outputs) or not outputs:
            raise ValueError(
                f"`outputs` should be different names such as ('u', 'p'), or a number, got {self.outputs!r}."
            )
        domain = domain_of(self)
        return Names(domain.names, outputs, domain.space)

    def field(self, function: Function, x: ArrayLike, normals: ArrayLike | None = None) -> Field:
        """A function of x as the field that `residual` and conditions are given, by autograd.

        A network is given the points in its own dtype, on its device.

        >>> import torch
        >>> from guardband import pinn
        >>> problem = pinn.problems.DampedOscillator()
        >>> x = problem.domain.quasi(100, dtype=torch.float64)
        >>> residual = problem.residual(x, problem.field(problem.solution, x))
        >>> float(residual.detach().abs().max()) < 1e-12
        True
        """
        outward = None if normals is None else _points_for(function, normals, "normals")
        return AutogradField(function, _points_for(function, x, "x"), self.names, outward)

    def misses(self, x: Tensor, u: Field) -> Tensor:
        """The residual with all its equations side by side, (n, equations)."""
        return side_by_side(self.residual(x, u), f"{type(self).__name__}.residual")

    def solution(self, x: Tensor) -> Tensor:
        """The exact solution (n, m), where it is known."""
        raise NotImplementedError(f"{type(self).__name__} has no known solution; write `solution(self, x)`.")

    def lift(self, x: Tensor) -> Tensor:
        """A function (n, m) that meets the conditions; with `bubble` it makes them hard constraints."""
        raise NotImplementedError(f"{type(self).__name__} has no hard constraint; write `lift` and `bubble`.")

    def bubble(self, x: Tensor) -> Tensor:
        """A function (n, 1) that vanishes where the conditions hold: u = lift + bubble net meets them."""
        raise NotImplementedError(f"{type(self).__name__} has no hard constraint; write `lift` and `bubble`.")

    def observe(
        self,
        n: int,
        *,
        noise: float | Callable[[Tensor], Tensor] = 0.0,
        seed: int = 0,
        dtype: torch.dtype | None = None,
    ) -> Observations:
        """n noisy readings of the solution at places uniform in the domain.

        `noise` is the standard deviation of Gaussian noise: a number, or a function of
        x (n, d) that returns (n, 1).
        """
        unknown = unknowns_in(self)
        if unknown:
            some = next(iter(unknown))
            raise ValueError(
                f"{type(self).__name__} has unknowns ({', '.join(unknown)}) and so no solution to observe. "
                f"Give numbers in their place, {some}=..., or take `fitted.problem`."
            )
        generator = torch.Generator().manual_seed(seed)
        x = domain_of(self).uniform(n, generator, dtype=torch.float64)
        u = self.solution(x)
        u = u[:, None] if u.ndim == 1 else u
        sd = torch.as_tensor(noise(x) if callable(noise) else noise, dtype=u.dtype)
        if sd.ndim and sd.shape not in (u.shape, (n, 1)):
            raise ValueError(f"`noise` returned {tuple(sd.shape)}, should be ({n}, 1): keep the column.")
        y = u + sd * torch.randn(u.shape, generator=generator, dtype=u.dtype)
        dtype = dtype or torch.get_default_dtype()
        return Observations(x.to(dtype), y.to(dtype))


def _points_for(function: Function, given: ArrayLike, name: str) -> Tensor:
    """Points (n, d) as a tensor, for a network in its dtype."""
    points = to_torch(rows(given, name))
    weights = function.parameters() if isinstance(function, nn.Module) else ()
    like = next((weight for weight in weights if weight.is_floating_point()), points)
    return points.to(like)


def as_problem(given: object) -> Problem:
    """A problem as it is; anything else, and one without a domain, is refused."""
    if isinstance(given, type) and issubclass(given, Problem):
        raise TypeError(
            f"`problem` should be made before it is used, {given.__name__}(), got the class itself."
        )
    if not isinstance(given, Problem):
        raise TypeError(f"`problem` should be a pinn.Problem, got {type(given).__name__}.")
    domain_of(given)
    return given


def domain_of(problem: Problem) -> Domain:
    """Where a problem lives, if it says so."""
    found, name = getattr(problem, "domain", None), type(problem).__name__
    if found is None:
        raise TypeError(f"{name} should say where it lives: domain = pinn.Rectangle((0, 0), (1, 1)).")
    if not isinstance(found, Domain):
        raise TypeError(f"{name}.domain should be a shape, such as pinn.Segment(0, 1), got {found!r:.80}.")
    return found


def conditions_in(problem: Problem) -> list[Condition]:
    """The conditions of a problem; refused if they are no list of conditions."""
    name = f"{type(problem).__name__}.conditions"
    said = problem.conditions
    if not callable(said):
        raise TypeError(f"{name} should be a method, `def conditions(self): return [...]`, got {said!r:.80}.")
    found = said()
    if found is None:
        raise TypeError(f"{name} should return a list of conditions, got None: a `return` may be missing.")
    if not isinstance(found, Iterable):
        raise TypeError(
            f"{name} should return a list of conditions, got {found!r:.80}. Put it into brackets: [...]."
        )
    conditions = list(found)
    for one in conditions:
        if isinstance(one, type):
            raise TypeError(f"{name} should list conditions, {one.__name__}(...), got the class itself.")
        if not isinstance(one, Condition):
            raise TypeError(f"{name} should list conditions, such as pinn.Dirichlet(0.0), got {one!r:.80}.")
    return conditions


TAKEN = ("step", "data", "physics", "boundary", "loss", "held_out")
"""The columns that every history has."""


def terms_in(problem: Problem) -> list[Term]:
    """The terms that a problem adds; refused if they have no name, or no scale."""
    found, name = list(problem.terms()), f"{type(problem).__name__}.terms"
    for one in found:
        if not isinstance(one, Term):
            raise TypeError(f"{name} should list terms, instances of pinn.Term, got {one!r:.80}.")
        called, scale = getattr(one, "name", None), getattr(one, "scale", None)
        if not isinstance(called, str) or called in TAKEN or [each.name for each in found].count(called) > 1:
            raise ValueError(
                f"Each of {name} should have a `name` of its own, other than {', '.join(TAKEN)}, got "
                f"{called!r:.80}."
            )
        if not isinstance(scale, Real) or not 0 < float(scale) < math.inf:
            raise ValueError(
                f"The term {called!r} should have a positive `scale`: by how much it may be off, in its own "
                f"units; got {scale!r:.80}."
            )
    return found


def side_by_side(found: object, name: str) -> Tensor:
    """What a residual returned, with all its equations side by side; refused if it is no tensor."""
    if isinstance(found, Tensor):
        return found
    if not isinstance(found, Mapping) or not found:
        raise TypeError(
            f"{name} should return a tensor (n, equations), or tensors (n, 1) by name, got {_instead(found)}"
        )
    parts = list[Tensor]()
    for equation, part in found.items():
        if not isinstance(part, Tensor):
            raise TypeError(f"{name} should return a tensor (n, 1) as {equation!r}, got {_instead(part)}")
        if part.ndim != 2:
            raise ValueError(
                f"{name} should return (n, 1) as {equation!r}, got {tuple(part.shape)}. Keep the column: "
                "x[:, :1] for x[:, 0], or f[:, None]."
            )
        parts.append(part)
    return torch.cat(parts, dim=1)


def _instead(found: object) -> str:
    """What was returned in place of a tensor, and what to write."""
    if found is None:
        return "None. Is a `return` missing?"
    if isinstance(found, Field):
        return 'a field. Say what of it should vanish: u.value, u.d("x"), u.laplacian, ...'
    if isinstance(found, Mapping):
        return "an empty dictionary."
    if isinstance(found, list | tuple):
        return f"a {type(found).__name__}. Put equations side by side, torch.cat([...], dim=1), or name them."
    return f"{found!r:.80}."
