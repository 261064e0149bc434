"""Unknowns in training: their parameters, and the problem with their current values.

Each unknown is low + (high - low) / (1 + exp(-t)) with an unbounded parameter t, so it always stays within
its bounds. Whenever the problem evaluates its residual or a condition, the current values replace the
unknowns, as scalar tensors that propagate gradients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from guardband.pinn.geometry import Boundary, Domain
from guardband.pinn.misses.points import Points, terms_of
from guardband.pinn.networks.windows import Within
from guardband.pinn.problems import AutogradField, Condition, Field, Problem, Term, Unknown
from guardband.pinn.problems.base import TAKEN, conditions_in, terms_in
from guardband.pinn.problems.unknown import unknowns_in, with_values


class Unknowns(nn.Module):
    """The unknowns of a problem, with one parameter each.

    Examples
    --------
    >>> found = Unknowns({"rate": Unknown(1.0, 3.0)})
    >>> found.numbers(), [name for name, _ in found.named_parameters()]
    ({'rate': 2.0}, ['raw_rate'])
    """

    sought: Mapping[str, Unknown]

    def __init__(self, sought: Mapping[str, Unknown], starts: Mapping[str, float] | None = None) -> None:
        super().__init__()
        self.sought = dict(sought)
        for name, one in self.sought.items():
            share = ((starts or {}).get(name, one.first) - one.low) / (one.high - one.low)
            share = min(max(share, 1e-3), 1 - 1e-3)
            raw = torch.tensor(math.log(share / (1 - share)), dtype=torch.float64)
            self.register_parameter(f"raw_{name}", nn.Parameter(raw))

    def values(self) -> dict[str, Tensor]:
        """The current values, as tensors that propagate gradients."""
        shares = (torch.sigmoid(raw) for raw in self.parameters())
        return {
            name: one.low + (one.high - one.low) * share
            for (name, one), share in zip(self.sought.items(), shares, strict=True)
        }

    def numbers(self) -> dict[str, float]:
        """The current values, as numbers within the bounds."""
        found = dict[str, float]()
        for (name, one), raw in zip(self.sought.items(), self.parameters(), strict=True):
            value = one.low + (one.high - one.low) * float(raw.detach().double().sigmoid())
            found[name] = min(max(value, float(one.low)), float(one.high))
        return found


@dataclass(frozen=True, eq=False)
class CurrentProblem(Within):
    """A problem whose unknowns have their current values."""

    unknowns: Unknowns

    def misses(self, x: Tensor, u: Field) -> Tensor:
        """The misses of the problem."""
        return self.with_tensors().misses(x, u)

    def residual(self, x: Tensor, u: Field) -> Tensor | Mapping[str, Tensor]:
        """The residual of the problem."""
        return self.with_tensors().residual(x, u)

    def conditions(self) -> list[Condition]:
        """The conditions of the problem."""
        return [CurrentCondition(self, i, one) for i, one in enumerate(conditions_in(self.with_tensors()))]

    def terms(self) -> list[Term]:
        """The terms of the problem."""
        return [CurrentTerm(self, i, one) for i, one in enumerate(terms_in(self.with_tensors()))]

    def with_tensors(self) -> Problem:
        """The problem with values that propagate gradients."""
        return with_values(self.problem, self.unknowns.values())

    def with_numbers(self) -> Problem:
        """The problem with numbers as values."""
        return with_values(self.problem, self.unknowns.numbers())


class CurrentCondition(Condition):
    """A condition of a problem, evaluated with the current values of the unknowns."""

    current: CurrentProblem
    number: int
    condition: Condition

    def __init__(self, current: CurrentProblem, number: int, condition: Condition) -> None:
        self.current, self.number, self.condition = current, number, condition
        self.together: int = condition.together  # type: ignore[misc]

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """The residual of the condition."""
        return conditions_in(self.current.with_tensors())[self.number].residual(x, u)

    def points(self, domain: Domain, n: int, generator: torch.Generator | None = None) -> Boundary:
        """About n points on the part of the boundary where the condition holds."""
        return self.condition.points(domain, n, generator)

    def around(self, domain: Domain) -> int | None:
        """The axis along which the condition is periodic, if any."""
        return self.condition.around(domain)


class CurrentTerm(Term):
    """A term of a problem, evaluated with the current values of the unknowns."""

    name: str
    scale: float

    def __init__(self, current: CurrentProblem, number: int, term: Term) -> None:
        self._current, self._number, self._term = current, number, term
        self.name, self.scale = term.name, term.scale

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """The residual of the term."""
        return terms_in(self._current.with_tensors())[self._number].residual(x, u)

    def points(self, domain: Domain, n: int, generator: torch.Generator | None = None) -> Boundary:
        """The points of the term."""
        return self._term.points(domain, n, generator)


class NetworkAndUnknowns(nn.Module):
    """A network together with the unknowns of its problem; a call evaluates the network."""

    net: nn.Module
    unknowns: Unknowns

    def __init__(self, net: nn.Module, unknowns: Unknowns) -> None:
        super().__init__()
        self.net, self.unknowns = net, unknowns

    def forward(self, x: Tensor) -> Tensor:
        """The outputs of the network."""
        return self.net(x)


def current_problem(problem: Problem) -> CurrentProblem | None:
    """The problem with its unknowns in training; None if it has no unknowns in training."""
    return problem if isinstance(problem, CurrentProblem) else None


def all_trained(problem: Problem, net: nn.Module) -> nn.Module:
    """The network, together with the unknowns of the problem, if any."""
    current = current_problem(problem)
    return net if current is None else NetworkAndUnknowns(net, current.unknowns)


def unknowns_of(problem: Problem) -> Unknowns:
    """The unknowns of a problem in training; an empty set for any other problem."""
    current = current_problem(problem)
    return Unknowns({}) if current is None else current.unknowns


def with_current_numbers(problem: Problem) -> Problem:
    """The problem with the current values of its unknowns, if any, as numbers."""
    current = current_problem(problem)
    return problem if current is None else current.with_numbers()


def current_numbers(problem: Problem) -> dict[str, float]:
    """The current values of the unknowns of a problem, by name."""
    return unknowns_of(problem).numbers()


def unknown_slopes(problem: Problem, misses: Tensor) -> Tensor:
    """The derivatives of misses (n, q) with respect to the parameter of each unknown, (n, q, K).

    The gradient of sum(v misses) is linear in v, and its derivative with respect to v is the result. Each
    unknown therefore takes two backward passes, regardless of the number of misses.
    """
    raws = list(unknowns_of(problem).parameters())
    if not misses.requires_grad:
        return misses.new_zeros(*misses.shape, len(raws))
    v = torch.zeros_like(misses, requires_grad=True)
    gradients = torch.autograd.grad(
        misses, raws, v, create_graph=True, allow_unused=True, materialize_grads=True
    )
    columns = [
        torch.autograd.grad(part, v, retain_graph=True, allow_unused=True, materialize_grads=True)[0]
        if part.requires_grad
        else torch.zeros_like(misses)
        for part in gradients
    ]
    return torch.stack(columns, dim=2).detach()


def check_unknowns(problem: Problem, *, data: bool, windows: int) -> None:
    """Refuse unknowns without readings to determine them, and unknowns in time windows."""
    unknowns, name = list(unknowns_in(problem)), type(problem).__name__
    if not unknowns:
        return
    many = ", ".join(f"`{one}`" for one in unknowns)
    if not data:
        raise ValueError(
            f"{name} has unknowns ({many}), and only readings of the solution determine their values. Pass "
            "readings, pinn.fit(problem, net, data), or replace the unknowns with numbers."
        )
    if windows > 1:
        raise ValueError(
            f"{name} has unknowns ({many}), which are the same at all times, but time windows are trained "
            "one after the other. Omit `windows` from the recipe."
        )
    for one in unknowns:
        if one in TAKEN or one in problem.names.axes or one in problem.names.outputs:
            raise ValueError(
                f"An unknown cannot be called `{one}`, which already has a different meaning. Rename it."
            )


def check_unknowns_used(problem: Problem, net: nn.Module, points: Points) -> None:
    """Refuse an unknown that affects neither an equation nor a condition."""
    current = current_problem(problem)
    if current is None:
        return
    names, raws = problem.names, list(current.unknowns.parameters())
    x = points.inside[:16]
    total = problem.misses(x, AutogradField(net, x, names)).sum()
    for condition, edge in zip(terms_of(problem, net), points.edges, strict=True):
        field = AutogradField(net, edge.points, names, edge.normals)
        total = total + condition.residual(edge.points, field).sum()
    found = torch.autograd.grad(total, raws, allow_unused=True) if total.requires_grad else [None] * len(raws)
    for name, gradient in zip(current.unknowns.sought, found, strict=True):
        if gradient is None:
            raise ValueError(
                f"The unknown `{name}` changes neither the residual of {type(current.problem).__name__} nor "
                f"a condition, so nothing determines its value. Use self.{name} in one of them, without "
                "float(). A network with hard constraints satisfies its conditions for any values of the "
                "unknowns."
            )
