"""The interface of problems: an equation on a domain, its conditions, and simulated observations."""

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
    """Base class of additional loss terms, such as an integral constraint.

    A problem lists its terms in `terms`. The points fill the domain evenly by default, so a mean over them is
    an integral divided by the measure of the domain.

    Attributes
    ----------
    name
        The name of the term in `fitted.history`, `fitted.terms` and the verdict.
    scale
        The standard deviation of the residual, in its own units.
    n
        The approximate number of points.
    together
        The number of consecutive points whose residuals depend on each other; 0 means all points.

    Examples
    --------
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
    together: ClassVar[int] = 0

    @abstractmethod
    def residual(self, x: Tensor, u: Field, /) -> Tensor:
        """Return the quantity that should vanish.

        Parameters
        ----------
        x
            The points of the term, shape (n, d).
        u
            The field at these points.

        Returns
        -------
        Tensor
            The residual, shape (n, q), or (1, q) for a residual that is computed from all points jointly.
        """

    def points(self, domain: Domain, n: int, generator: torch.Generator | None = None) -> Boundary:
        """Return the points at which the residual is evaluated.

        By default about `self.n` points fill the domain evenly, with equal weights. They are the same at
        every call, since a mean over a few random points would have a sampling error.

        Parameters
        ----------
        domain
            The domain of the problem.
        n
            The number of points that training requests; ignored by default.
        generator
            The random generator; ignored by default.

        Returns
        -------
        Boundary
            The points, with normals of 0 and sizes that add up to 1.
        """
        x = domain.interior(self.n, "even" if domain.d < 4 else "quasi")
        return Boundary(x, torch.zeros_like(x), x.new_full((len(x),), 1 / len(x)), ("inside",) * len(x))

    @property
    def weight(self) -> float:
        """The weight of the mean-square residual in the loss, 1 / scale^2."""
        return self.scale**-2


class Problem(ABC):
    """Base class of problems: an equation on a domain with its conditions.

    Subclass it as a frozen dataclass whose fields are the coefficients, and write `residual` in plain torch.
    All other methods are optional: `conditions`, `terms`, an exact `solution`, and `lift` and `bubble` for
    hard constraints.

    Attributes
    ----------
    domain
        The domain on which the equation holds.
    outputs
        The names of the outputs, or their number.

    Examples
    --------
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
        """Return the residual of the equation, which vanishes for a solution.

        Parameters
        ----------
        x
            Points inside the domain, shape (n, d).
        u
            The field at these points, with its derivatives.

        Returns
        -------
        Tensor | Mapping[str, Tensor]
            The residuals, shape (n, equations), or a dictionary with one tensor of shape (n, 1) per equation.
        """

    def conditions(self) -> Sequence[Condition]:
        """Return the boundary and initial conditions; an empty list by default.

        Returns
        -------
        Sequence[Condition]
            The conditions.
        """
        return []

    def terms(self) -> Sequence[Term]:
        """Return additional loss terms, such as an integral constraint; an empty list by default.

        Returns
        -------
        Sequence[Term]
            The terms.
        """
        return []

    @property
    def names(self) -> Names:
        """The names of axes and outputs, and the spatial axes."""
        outputs = output_names(self.outputs) if isinstance(self.outputs, int) else tuple(self.outputs)
        if isinstance(self.outputs, str) or len({*outputs}) != len(outputs) or not outputs:
            raise ValueError(
                f"`outputs` should be distinct names such as ('u', 'p'), or a number, got {self.outputs!r}."
            )
        domain = domain_of(self)
        return Names(domain.names, outputs, domain.space)

    def field(self, function: Function, x: ArrayLike, normals: ArrayLike | None = None) -> Field:
        """Return a function of x as a field whose derivatives are computed by autograd.

        A network receives the points in its own dtype and on its own device.

        Parameters
        ----------
        function
            A function from points (n, d) to outputs (n, m), or a network.
        x
            Points, shape (n, d).
        normals
            Outward normals at boundary points, shape (n, d).

        Returns
        -------
        Field
            The field, in the form that `residual` and conditions take.

        Examples
        --------
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
        """Return the residuals of all equations as one tensor.

        Parameters
        ----------
        x
            Points, shape (n, d).
        u
            The field at these points.

        Returns
        -------
        Tensor
            The residuals, shape (n, equations).
        """
        return side_by_side(self.residual(x, u), f"{type(self).__name__}.residual")

    def solution(self, x: Tensor) -> Tensor:
        """Return the exact or reference solution; not implemented by default.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor
            The outputs, shape (n, m).
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no known solution. Define the method `solution(self, x)`."
        )

    def lift(self, x: Tensor) -> Tensor:
        """Return a function that satisfies the conditions, for hard constraints.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor
            The values, shape (n, m). The constrained field is u = lift + bubble * net.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no hard constraint. Define the methods `lift` and `bubble`."
        )

    def bubble(self, x: Tensor) -> Tensor:
        """Return a function that vanishes where the conditions hold, for hard constraints.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        Tensor
            The values, shape (n, 1).
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no hard constraint. Define the methods `lift` and `bubble`."
        )

    def observe(
        self,
        n: int,
        *,
        noise: float | Callable[[Tensor], Tensor] = 0.0,
        seed: int = 0,
        dtype: torch.dtype | None = None,
    ) -> Observations:
        """Simulate noisy observations of the solution at random points of the domain.

        Parameters
        ----------
        n
            The number of observations.
        noise
            The standard deviation of the Gaussian noise: a number, or a function from points (n, d) to (n,
            1).
        seed
            The seed of points and noise.
        dtype
            The dtype of the observations; torch's default dtype if None.

        Returns
        -------
        Observations
            The points, uniform in the domain, and the noisy outputs.
        """
        unknown = unknowns_in(self)
        if unknown:
            some = next(iter(unknown))
            raise ValueError(
                f"{type(self).__name__} has unknowns ({', '.join(unknown)}), so it has no solution to "
                f"observe. Pass numbers instead, {some}=..., or use `fitted.problem`."
            )
        generator = torch.Generator().manual_seed(seed)
        x = domain_of(self).uniform(n, generator, dtype=torch.float64)
        u = self.solution(x)
        u = u[:, None] if u.ndim == 1 else u
        sd = torch.as_tensor(noise(x) if callable(noise) else noise, dtype=u.dtype)
        if sd.ndim and sd.shape not in (u.shape, (n, 1)):
            raise ValueError(
                f"`noise` should return shape ({n}, 1), got {tuple(sd.shape)}. Keep the column dimension."
            )
        y = u + sd * torch.randn(u.shape, generator=generator, dtype=u.dtype)
        dtype = dtype or torch.get_default_dtype()
        return Observations(x.to(dtype), y.to(dtype))


def _points_for(function: Function, given: ArrayLike, name: str) -> Tensor:
    """Points (n, d) as a tensor in the dtype of a network."""
    points = to_torch(rows(given, name))
    weights = function.parameters() if isinstance(function, nn.Module) else ()
    like = next((weight for weight in weights if weight.is_floating_point()), points)
    return points.to(like)


def as_problem(given: object) -> Problem:
    """The problem itself; refuse other types and problems without a domain."""
    if isinstance(given, type) and issubclass(given, Problem):
        raise TypeError(f"`problem` should be an instance, {given.__name__}(), got the class itself.")
    if not isinstance(given, Problem):
        raise TypeError(f"`problem` should be a pinn.Problem, got {type(given).__name__}.")
    domain_of(given)
    return given


def domain_of(problem: Problem) -> Domain:
    """The domain of a problem; refuse a problem without one."""
    found, name = getattr(problem, "domain", None), type(problem).__name__
    if found is None:
        raise TypeError(f"{name} should define its domain, such as domain = pinn.Rectangle((0, 0), (1, 1)).")
    if not isinstance(found, Domain):
        raise TypeError(f"{name}.domain should be a shape, such as pinn.Segment(0, 1), got {found!r:.80}.")
    return found


def conditions_in(problem: Problem) -> list[Condition]:
    """The conditions of a problem, with their types checked."""
    name = f"{type(problem).__name__}.conditions"
    method = problem.conditions
    if not callable(method):
        raise TypeError(
            f"{name} should be a method, `def conditions(self): return [...]`, got {method!r:.80}."
        )
    found = method()
    if found is None:
        raise TypeError(f"{name} should return a list of conditions, got None: a `return` may be missing.")
    if not isinstance(found, Iterable):
        raise TypeError(
            f"{name} should return a list of conditions, got {found!r:.80}. Return it in a list, [...]."
        )
    conditions = list(found)
    for one in conditions:
        if isinstance(one, type):
            raise TypeError(f"{name} should list conditions, {one.__name__}(...), got the class itself.")
        if not isinstance(one, Condition):
            raise TypeError(f"{name} should list conditions, such as pinn.Dirichlet(0.0), got {one!r:.80}.")
    return conditions


TAKEN = ("step", "data", "physics", "boundary", "loss", "held_out")
"""Column names of every history, which are unavailable as names of terms."""


def terms_in(problem: Problem) -> list[Term]:
    """The terms of a problem; refuse terms without a unique name or a positive scale."""
    found, name = list(problem.terms()), f"{type(problem).__name__}.terms"
    for one in found:
        if not isinstance(one, Term):
            raise TypeError(f"{name} should list terms, instances of pinn.Term, got {one!r:.80}.")
        called, scale = getattr(one, "name", None), getattr(one, "scale", None)
        if not isinstance(called, str) or called in TAKEN or [each.name for each in found].count(called) > 1:
            raise ValueError(
                f"Each of {name} should have a unique `name` that differs from {', '.join(TAKEN)}, got "
                f"{called!r:.80}."
            )
        if not isinstance(scale, Real) or not 0 < float(scale) < math.inf:
            raise ValueError(
                f"The term {called!r} should have a positive `scale`, the standard deviation of its "
                f"residual, got {scale!r:.80}."
            )
    return found


def side_by_side(found: object, name: str) -> Tensor:
    """The residuals as one tensor of shape (n, equations), with types checked."""
    if isinstance(found, Tensor):
        return found
    if not isinstance(found, Mapping) or not found:
        raise TypeError(
            f"{name} should return a tensor of shape (n, equations), or tensors of shape (n, 1) by name, "
            f"got {_instead(found)}"
        )
    parts = list[Tensor]()
    for equation, part in found.items():
        if not isinstance(part, Tensor):
            raise TypeError(
                f"{name} should return a tensor of shape (n, 1) as {equation!r}, got {_instead(part)}"
            )
        if part.ndim != 2:
            raise ValueError(
                f"{name} should return shape (n, 1) as {equation!r}, got {tuple(part.shape)}. Keep the "
                "column dimension: write x[:, :1] instead of x[:, 0], or f[:, None]."
            )
        parts.append(part)
    return torch.cat(parts, dim=1)


def _instead(found: object) -> str:
    """A description of a wrong return value, with advice."""
    if found is None:
        return "None. Is a `return` missing?"
    if isinstance(found, Field):
        return 'a field. Return the quantity that should vanish, such as u.value, u.d("x") or u.laplacian.'
    if isinstance(found, Mapping):
        return "an empty dictionary."
    if isinstance(found, list | tuple):
        return f"a {type(found).__name__}. Concatenate the equations, torch.cat([...], dim=1), or name them."
    return f"{found!r:.80}."
