"""The Gauss-Newton stage of a run, with its choice of points.

A network with a thousand weights can satisfy an equation at a few hundred points and be wrong between them.
The loss is therefore evaluated on fresh points from time to time. If the loss is larger on these, the points
are resampled, half of them where the residual is large. Their number grows up to a first limit, and beyond
this limit once the loss no longer decreases. On domains with a time axis, later points have less weight while
earlier residuals are large, unless data and an equation with a small scale determine all times at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from guardband.pinn.geometry import Boundary
from guardband.pinn.misses.factors import Products, Widened
from guardband.pinn.misses.gauss_newton import GaussNewton, Step
from guardband.pinn.misses.likelihood import Scales
from guardband.pinn.misses.points import Points, terms_of
from guardband.pinn.misses.rows import Rows
from guardband.pinn.misses.unknowns import all_trained, current_numbers
from guardband.pinn.networks.traits import core_of, traits_of
from guardband.pinn.problems import Condition, Problem, Term
from guardband.pinn.training.checkpoint import State

FIRST = 96
"""The initial number of interior points."""

GROWTH = 1.5
"""The factor by which the number of points grows after a check that finds too few points."""

OVER = 5.0
"""The ratio of the loss on fresh points to the loss on training points above which the points are too few."""

POOL = 6
"""The number of candidates for each point that is chosen by its residual."""

STALLED = 12
"""The number of checks without an improvement of 5 % after which a run ends."""

CAUSAL = 0.02
"""The discount of a point per mean square of the earlier residuals."""

ANNEALED = 15
"""The number of steps until the equation has its full weight, if there are data. With full weight from the
start, the equation could lead the network to a different solution."""

LOOK = 5
"""The number of steps between checks on fresh points."""

MOST_NUMBERS = 2**25
"""The largest Jacobian that is formed as a matrix, 0.25 GB; above this size, products are also faster."""

MOST_DENSE = 1000
"""With fewer weights or misses, the matrix to be factored is small, and the Jacobian is formed."""


class Look(NamedTuple):
    """The result of a check on fresh points."""

    loss: float
    reach: float
    """The mean weight of the points in time; 1 if all points have full weight."""
    n: int
    """The number of interior points in the previous steps."""


class Newton:
    """Gauss-Newton steps on points that follow the residual; they modify the network in place."""

    problem: Problem
    most: int
    beyond: int
    n: int
    generator: torch.Generator
    terms: Sequence[Condition | Term]
    rows: _Moving
    steps: GaussNewton
    taken: int
    looks: list[Look]
    firm: bool
    anneal: float
    annealed: int

    def __init__(
        self,
        problem: Problem,
        net: nn.Module,
        data: tuple[Tensor, Tensor],
        scales: Scales,
        sizes: Tensor,
        *,
        most: int,
        beyond: int | None = None,
        firm: bool = False,
        anneal: float = 1.0,
        annealed: int = ANNEALED,
        seed: int,
    ) -> None:
        self.problem = problem
        self.most, self.beyond = most, max(most, beyond or most)
        self.firm, self.anneal, self.annealed = firm, anneal, annealed
        self.generator = torch.Generator().manual_seed(seed)
        self.terms = terms_of(problem, net)
        self.n = min(FIRST, most)
        points = self._uniform(self.n, data)
        last = _last_layer(net)
        if last is not None:
            _shrink(net, last, points.inside, sizes)
        self.rows = _Moving(problem, net, points, scales, _units(net, last, sizes))
        self.steps, self.taken = GaussNewton(), 0
        self.looks = []

    @property
    def points(self) -> Points:
        """The points of the last steps."""
        return self.rows.points

    def advance(self, steps: int, in_time: Callable[[], bool] = lambda: True) -> int:
        """Take some steps, check on fresh points, and return the number of steps taken, at least one."""
        done = Step(0.0, 0.0, False)
        for taken in range(1, steps + 1):
            self.rows.weights = self._counting()
            done = self.steps.step(self.rows)
            self.taken += 1
            if not done.moved:
                break
            if not in_time():
                steps = taken
                break
        self._look(done)
        return steps

    @property
    def done(self) -> bool:
        """Whether the loss on fresh points has stopped decreasing for a constant number of points."""
        recent, earlier = self.looks[-STALLED:], self.looks[:-STALLED]
        if not earlier or self.n > recent[0].n:
            return False
        least, before = (min(look.loss for look in looks) for looks in (recent, earlier))
        reach, reached = (max(look.reach for look in looks) for looks in (recent, earlier))
        return not least < 0.95 * before and reach < 1.02 * reached

    def _look(self, done: Step) -> None:
        points, rows = self.points, self.rows
        rows.points = self._uniform(2 * self.n, points[:2])
        rows.weights = self._counting()
        weighted = self._loss()
        reach = 1.0 if rows.weights is None else float(rows.weights.mean())
        rows.weights = None
        self.looks.append(Look(self._loss(), reach, self.n))
        rows.points = points
        if self.done and self.n == self.most < self.beyond:
            self.n = self.most = min(self.beyond, 2 * self.most)
        elif weighted > OVER * done.after:
            self.n = min(self.most, int(GROWTH * self.n))
        elif done.moved:
            return
        self.rows.points = self._renewed(self.n)
        self.steps.damping = max(self.steps.damping, 1e-8)

    def _counting(self) -> Tensor | None:
        """The weight of each interior point, (n,); None if all points have full weight.

        If data are fitted with a small scale of the equation, all points have the same weight, which
        increases during the first steps so that the data shape the field. Otherwise, on a domain with a time
        axis, the weight is exp(-c), with c equal to `CAUSAL` times the mean square of the scaled residual at
        earlier times.
        """
        inside = self.points.inside
        if self.firm:
            left = 1 - self.taken / max(1, self.annealed)
            return inside.new_full((len(inside),), self.anneal ** (-2 * left)) if left > 0 else None
        axes = [i for i in range(self.problem.domain.d) if i not in self.problem.names.space]
        if not axes:
            return None
        order = inside[:, axes[0]].argsort()
        squares = self.rows.residual(inside)[order].square() / len(inside)
        weights = torch.empty_like(squares)
        weights[order] = torch.exp(-CAUSAL * (squares.cumsum(0) - squares))
        return weights

    def _loss(self) -> float:
        misses = self.rows.misses()
        return 0.5 * float(misses @ misses)

    def _uniform(self, n: int, data: tuple[Tensor, Tensor]) -> Points:
        """All data, with random points inside and on the boundary."""
        x, y = data
        domain, generator = self.problem.domain, self.generator
        inside = domain.uniform(n, generator, dtype=torch.float64).to(x)
        edges = (c.points(domain, max(8, n // 4), generator).to(x) for c in self.terms)
        return Points(x, y, inside, tuple(edges))

    def _renewed(self, n: int) -> Points:
        """The points of `_uniform`, with half of the interior points drawn where the residual is large."""
        points = self._uniform(n, self.points[:2])
        pool = self.problem.domain.uniform(POOL * n, self.generator, dtype=torch.float64).to(points.inside)
        off = self.rows.residual(pool)
        off = off + 1e-12 * off.sum() + 1e-300
        chosen = torch.multinomial(off.cpu(), n // 2, generator=self.generator)
        return points._replace(inside=torch.cat([points.inside[n // 2 :], pool[chosen]]))

    def state(self) -> State:
        """The complete changing state, except the network."""
        edges = [[edge.points, edge.normals, edge.sizes, list(edge.parts)] for edge in self.points.edges]
        return {
            "n": self.n,
            "most": self.most,
            "taken": self.taken,
            "damping": [self.steps.damping, self.steps.growth],
            "fresh": [look.loss for look in self.looks],
            "reach": [look.reach for look in self.looks],
            "counts": [look.n for look in self.looks],
            "inside": self.points.inside,
            "edges": edges,
            "generator": self.generator.get_state(),
        }

    def load(self, state: State) -> None:
        """Resume from a state."""
        x, y = self.points[:2]
        n, most, inside = state["n"], state["most"], state["inside"]
        fresh, reach, counts = state["fresh"], state["reach"], state["counts"]
        if (
            not 0 < n <= most <= self.beyond
            or not len(fresh) == len(reach) == len(counts)
            or inside.shape != (len(inside), x.shape[1])
            or inside.dtype != x.dtype
        ):
            wrong = "its points do not belong to this run"
            raise ValueError(wrong)
        self.n, self.most = n, most
        self.looks = [Look(*look) for look in zip(fresh, reach, counts, strict=True)]
        self.steps.damping, self.steps.growth = state["damping"]
        self.taken = state["taken"]
        edges = (Boundary(at, out, size, tuple(parts)) for at, out, size, parts in state["edges"])
        self.rows.points = Points(x, y, inside, tuple(edges))
        self.generator.set_state(state["generator"])


class _Moving(Rows):
    """Rows with adjustable weights; `units` (P,) is the size of a unit step of each weight."""

    def __init__(
        self, problem: Problem, net: nn.Module, points: Points, scales: Scales, units: Tensor
    ) -> None:
        super().__init__(problem, net, points, scales)
        free = [torch.full((p.numel(),), float(p.requires_grad)).to(p) for p in net.parameters()]
        self._weight_units, self._free = units, torch.cat(free)
        self._whole, unknowns = all_trained(problem, net), len(current_numbers(problem))
        self._units = torch.cat([units, units.new_ones(unknowns)])

    @property
    def theta(self) -> Tensor:
        """All weights in their units, followed by the parameters of unknowns, as one vector."""
        return parameters_to_vector(self._whole.parameters()).detach() / self._units

    @theta.setter
    def theta(self, theta: Tensor) -> None:
        with torch.no_grad():
            vector_to_parameters(theta * self._units, self._whole.parameters())

    def __call__(self) -> tuple[Tensor, Tensor | Products | Widened]:  # type: ignore[override]
        """All misses, and their Jacobian with respect to the weights in their units, 0 for frozen weights."""
        misses, slopes = self._of_weights()
        if self._whole is self.net:
            return misses, slopes
        if isinstance(slopes, Tensor):
            return misses, torch.cat([slopes, self.columns()], dim=1)
        return misses, Widened(slopes, self.columns())

    def _of_weights(self) -> tuple[Tensor, Tensor | Products]:
        units = self._weight_units * self._free
        found = self.products() if self._large() else None
        if found is not None:
            misses, products = found
            products.units = units
            return misses, products
        misses, slopes = super().__call__()
        return misses, slopes.mul_(units)

    def _large(self) -> bool:
        """Whether products cost less than a matrix, for this number of weights and misses."""
        n, weights = len(self), len(self._weight_units)
        return n * weights > MOST_NUMBERS and min(n, weights) > MOST_DENSE


def _last_layer(net: nn.Module) -> nn.Linear | None:
    """The layer whose weights have the units of the outputs, if known."""
    last = traits_of(core_of(net)).last_layer
    return last if last is not None and last.weight.requires_grad else None


def _units(net: nn.Module, last: nn.Linear | None, sizes: Tensor) -> Tensor:
    """The size of a unit step of each weight, (P,): the output's size in the last layer, otherwise 1."""
    found = []
    for parameter in net.parameters():
        unit = torch.ones_like(parameter).detach()
        if last is not None and (parameter is last.weight or parameter is last.bias):
            unit *= sizes.to(unit).view(-1, *[1] * (unit.ndim - 1))
        found.append(unit.flatten())
    return torch.cat(found)


@torch.no_grad()
def _shrink(net: nn.Module, last: nn.Linear, x: Tensor, sizes: Tensor) -> None:
    """Scale initial outputs that are more than ten times as large as the solution to a tenth of its size."""
    now = core_of(net)(x).square().mean(dim=0).sqrt()
    factor = torch.where(now > 10 * sizes.to(now), 0.1 * sizes.to(now) / now, 1.0)
    last.weight.mul_(factor[:, None])
    if last.bias is not None:
        last.bias.mul_(factor)
