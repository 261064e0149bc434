"""Hard constraints: u = lift + bubble * net satisfies Dirichlet and initial conditions for every network.

Each condition i has a smooth distance f_i, which vanishes where the condition holds, and a value g_i. For the
conditions of one output

    bubble = product of f_i         lift = sum of g_i w_i / sum of w_i,  w_i = product of the other f_j

so the lift equals g_i where f_i is 0. For a condition with an initial velocity v, f_i is squared and the
value is g_i + v (t - start).
"""

from __future__ import annotations

import torch
from torch import Tensor

from guardband.pinn.problems.base import Problem, as_problem, conditions_in
from guardband.pinn.problems.conditions import Condition, Function

NEAR = 1e-12
"""Added to the normalized distances, so that the weights do not all vanish in corners."""


class Hard:
    """The lift and the bubble of a problem, and the indices of the conditions that they satisfy."""

    problem: Problem
    met: tuple[int, ...]

    def __init__(self, problem: Problem) -> None:
        self.problem = as_problem(problem)
        conditions = conditions_in(problem)
        exact = {i: one.exact(problem.domain) for i, one in enumerate(conditions)}
        self._exact = [found for found in exact.values() if found is not None]
        self.met = tuple(i for i, found in exact.items() if found is not None)
        if not self.met:
            raise ValueError(
                f"{type(problem).__name__} has no condition that can be satisfied exactly. This is possible "
                "for Dirichlet on named parts and for Initial."
            )
        self._conditions = [conditions[i] for i in self.met]
        for one, (value, _) in zip(self._conditions, self._exact, strict=True):
            _check_slopes(type(one).__name__, value, problem)
        self._parts = [one.parts(problem.domain) for one in self._conditions]
        self._columns = [self._outputs(one) for one in self._conditions]
        x = problem.domain.quasi(256, dtype=torch.float64)
        self._scales = [float(self._distance(i, x).max()) for i in range(len(self.met))]

    def __deepcopy__(self, memo: dict[int, object]) -> Hard:
        return self  # it is immutable, and copies of a network belong to the same problem

    def _outputs(self, condition: Condition) -> list[int]:
        names = self.problem.names
        return list(names.positions(names.outputs if condition.output is None else condition.output))

    def _distance(self, i: int, x: Tensor) -> Tensor:
        return self.problem.domain.smooth_distance(x, self._parts[i]) ** self._exact[i][1]

    def bubble(self, x: Tensor) -> Tensor:
        """The factor of the network, (n, outputs), which is 0 where a condition holds."""
        distances = self._distances(x)
        columns = []
        for j in range(len(self.problem.names.outputs)):
            mine = [distances[i] for i, columns_of in enumerate(self._columns) if j in columns_of]
            columns.append(torch.stack(mine).prod(0) if mine else torch.ones_like(x[:, :1]))
        return torch.cat(columns, dim=1)

    def lift(self, x: Tensor) -> Tensor:
        """A function that satisfies the conditions, (n, outputs)."""
        distances = self._distances(x)
        values = [
            value(x).expand(len(x), len(columns))
            for (value, _), columns in zip(self._exact, self._columns, strict=True)
        ]
        columns = []
        for j in range(len(self.problem.names.outputs)):
            mine = [i for i, columns_of in enumerate(self._columns) if j in columns_of]
            if not mine:
                columns.append(torch.zeros_like(x[:, :1]))
                continue
            weights = [
                torch.stack(
                    [distances[k] + NEAR for k in mine if k != i] or [torch.ones_like(x[:, :1])]
                ).prod(0)
                for i in mine
            ]
            goals = [values[i][:, [self._columns[i].index(j)]] for i in mine]
            total = torch.stack([w * g for w, g in zip(weights, goals, strict=True)]).sum(0)
            columns.append(total / torch.stack(weights).sum(0))
        return torch.cat(columns, dim=1)

    def _distances(self, x: Tensor) -> list[Tensor]:
        return [self._distance(i, x) / scale for i, scale in enumerate(self._scales)]


def _check_slopes(name: str, value: Function, problem: Problem) -> None:
    """Refuse a varying value that torch cannot differentiate, since the lift must be differentiable."""
    found = value(problem.domain.quasi(16, dtype=torch.float64).requires_grad_())
    if not found.requires_grad and bool((found != found[:1]).any()):
        raise ValueError(
            f"The value of {name} varies but torch cannot differentiate it, since it was computed by numpy "
            "or after .detach(). Write it in torch, or let the network learn the condition, without "
            "pinn.Constrained."
        )
