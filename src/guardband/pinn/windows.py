"""Windows of time: an evolution equation solved piece after piece, each from where the last one ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from guardband.arrays import to_torch
from guardband.geometry import Domain, Time
from guardband.geometry.time import TimeSpan
from guardband.kept import kept
from guardband.pinn.networks import Constrained
from guardband.problems import AutogradField, Condition, Field, Initial, Problem
from guardband.problems.base import conditions_in
from guardband.values import Names, Observations


class Windowed(nn.Module):
    """A network for each window of time; a point is answered by the one of its time.

    >>> import torch
    >>> import guardband as gb
    >>> early, late = gb.mlp(2, [4], seed=0), gb.mlp(2, [4], seed=1)
    >>> net = gb.pinn.Windowed([early, late], [0.5])
    >>> x = torch.tensor([[0.1, 0.2], [0.1, 0.7]])
    >>> bool((net(x) == torch.cat([early(x[:1]), late(x[1:])])).all())
    True
    """

    nets: nn.ModuleList
    borders: Tensor

    def __init__(self, nets: Sequence[nn.Module], borders: Sequence[float]) -> None:
        super().__init__()
        if len(borders) != len(nets) - 1 or list(borders) != sorted(borders):
            raise ValueError(
                f"{len(nets)} windows have {len(nets) - 1} borders between them, in order, got {borders!r}."
            )
        self.nets = nn.ModuleList(nets)
        self.register_buffer("borders", torch.tensor(list(borders), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """The outputs (n, m) at points x (n, d), of which time is the last."""
        which = (x[:, -1:] >= self.borders.to(x)).sum(dim=1)
        every = torch.stack([net(x) for net in self.nets])
        return every[which, torch.arange(len(x), device=x.device)]

    @property
    def names(self) -> Names | None:
        """What axes and outputs are called."""
        return getattr(self.nets[0], "names", None)


def _parts(net: Windowed) -> dict[str, Any]:
    return {"nets": list(net.nets), "borders": net.borders.tolist()}


def _made(parts: dict[str, Any]) -> Windowed:
    return Windowed(parts["nets"], parts["borders"]).eval()


kept(parts=_parts, made=_made)(Windowed)


@dataclass(frozen=True, eq=False)
class Window(Problem):
    """A problem in a window of time, from where the network before it ended, if there is one."""

    problem: Problem
    start: float
    end: float
    before: nn.Module | None = None

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """The same shape, for a part of the time."""
        whole = self.problem.domain
        if isinstance(whole, TimeSpan):
            return whole.shape * Time(self.start, self.end, name=whole.time.name)
        return Time(self.start, self.end, name=whole.names[-1])

    @property
    def outputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the problem."""
        return self.problem.names.outputs

    def residual(self, x: Tensor, u: Field) -> Any:
        """That of the problem."""
        return self.problem.residual(x, u)

    def conditions(self) -> list[Condition]:
        """Those of the problem, where the start is the end of the window before."""
        return [self._here(condition) for condition in conditions_in(self.problem)]

    def _here(self, condition: Condition) -> Condition:
        if self.before is None or not isinstance(condition, Initial):
            return condition
        velocity = None if condition.velocity is None else self._velocity(condition)
        return replace(condition, value=self._value(condition), velocity=velocity)

    def _value(self, condition: Initial) -> Any:
        def value(x: Tensor) -> Tensor:
            return condition.of(self._ended(x)).value.detach()

        return value

    def _velocity(self, condition: Initial) -> Any:
        def velocity(x: Tensor) -> Tensor:
            return condition.of(self._ended(x)).d(x.shape[1] - 1).detach()

        return velocity

    def _ended(self, x: Tensor) -> Field:
        assert self.before is not None
        like = next(self.before.parameters())
        return AutogradField(self.before, x.to(like), self.problem.names)


def borders_of(problem: Problem, net: nn.Module, windows: int) -> list[float]:
    """The ends of equal windows of the time of a problem, its start and end included."""
    whole, name = problem.domain, type(problem).__name__
    if windows > 1 and not (isinstance(whole, Time | TimeSpan) and starts(problem)):
        raise ValueError(
            f"{name} cannot be solved in {windows} windows of time: it has no time axis with a start, as "
            "domain = gb.Segment(0, 1) * gb.Time(0, 5) with gb.Initial(...) has. Leave `windows` out."
        )
    if windows > 1 and isinstance(net, Constrained):
        raise ValueError(
            f"A network that meets conditions exactly cannot be trained in {windows} windows of time: it "
            "meets the start of the first. Give the network inside of it, or leave `windows` out."
        )
    start, end = whole.lower[-1], whole.upper[-1]
    return [start + (end - start) * k / windows for k in range(windows)] + [end]


def starts(problem: Problem) -> bool:
    """Whether a problem is about time and says how it starts."""
    timely = len(problem.names.space) < problem.domain.d
    return timely and any(isinstance(condition, Initial) for condition in conditions_in(problem))


def data_in(data: Observations | None, domain: Domain) -> Observations | None:
    """The observations of a window of time; none are None."""
    if data is None:
        return None
    x, y = (to_torch(part) for part in data)
    inside = (x[:, -1] >= domain.lower[-1]) & (x[:, -1] <= domain.upper[-1])
    return Observations(x[inside], y[inside]) if bool(inside.any()) else None
