"""Time windows: an evolution equation is solved piecewise, and each window starts from the previous end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from guardband.base.arrays import to_torch
from guardband.base.computed import computed
from guardband.base.kept import kept
from guardband.pinn.geometry import Boundary, Domain, Time
from guardband.pinn.networks.traits import Network, traits_of
from guardband.pinn.problems import AutogradField, Condition, Field, Initial, Problem, Term
from guardband.pinn.problems.base import conditions_in
from guardband.pinn.problems.conditions import Function
from guardband.values import Names, Observations


class Windowed(Network):
    """A network for each time window; the time of a point selects the network.

    Parameters
    ----------
    nets
        The networks, ordered by time.
    borders
        The times between the windows, in increasing order.

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> early, late = pinn.mlp(2, [4], seed=0), pinn.mlp(2, [4], seed=1)
    >>> net = pinn.Windowed([early, late], [0.5])
    >>> x = torch.tensor([[0.1, 0.2], [0.1, 0.7]])
    >>> torch.allclose(net(x), torch.cat([early(x[:1]), late(x[1:])]))
    True
    """

    nets: nn.ModuleList
    borders: Tensor

    def __init__(self, nets: Sequence[nn.Module], borders: Sequence[float]) -> None:
        super().__init__()
        if len(borders) != len(nets) - 1 or list(borders) != sorted(borders):
            raise ValueError(
                f"`borders` of {len(nets)} windows should be {len(nets) - 1} increasing times, got "
                f"{borders!r}."
            )
        self.nets = nn.ModuleList(nets)
        self.register_buffer("borders", torch.tensor(list(borders), dtype=torch.float64))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """Move and cast the networks; the borders stay in float64, which some devices do not support."""
        borders = self._buffers.pop("borders")
        try:
            return super()._apply(fn, recurse)
        finally:
            self._buffers["borders"] = borders

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs.

        Parameters
        ----------
        x
            Points, shape (n, d), with time as the last coordinate.

        Returns
        -------
        Tensor
            The outputs, shape (n, m).
        """
        return self._by_time(x, [net(x) for net in self.nets])

    def known_derivative(self, x: Tensor, axes: tuple[int, ...]) -> Tensor | None:
        """Return a derivative of the networks, if all of them compute their own."""
        found = [traits_of(net).known_derivative(x, axes) for net in self.nets]
        known = [part for part in found if part is not None]
        return self._by_time(x, known) if len(known) == len(found) else None

    def _by_time(self, x: Tensor, found: Sequence[Tensor]) -> Tensor:
        """The rows (n, m) from the window of each point, given the outputs of all windows."""
        which = (x[:, -1:] >= self.borders.to(x)).sum(dim=1)
        return torch.stack([*found])[which, torch.arange(len(x), device=x.device)]

    @property
    def names(self) -> Names | None:
        """The names of axes and outputs, if known."""
        return getattr(self.nets[0], "names", None)

    @property
    def windowed(self) -> bool:
        """Whether the network consists of one network per time window, which is always True."""
        return True

    def at_time(self, time: float) -> nn.Module:
        """Return the network of the window that contains a time."""
        return self.nets[int((self.borders <= time).sum())]

    def posed(self, problem: Problem) -> Problem:
        """Return the problem with continuity between the windows as an additional condition."""
        borders = tuple(self.borders.tolist())
        return Joined(problem, borders) if borders else problem


def _parts(net: Windowed) -> dict[str, Any]:
    return {"nets": list(net.nets), "borders": net.borders.tolist()}


def _made(parts: dict[str, Any]) -> Windowed:
    return Windowed(parts["nets"], parts["borders"]).eval()


kept(parts=_parts, made=_made)(Windowed)


@dataclass(frozen=True, eq=False)
class Within(Problem):
    """A view of a problem with the same equation and the same outputs."""

    problem: Problem
    domain: ClassVar[Domain] = computed(lambda self: self.problem.domain)
    outputs: ClassVar[tuple[str, ...] | int] = computed(lambda self: self.problem.names.outputs)

    def residual(self, x: Tensor, u: Field) -> Tensor | Mapping[str, Tensor]:
        """The residual of the problem."""
        return self.problem.residual(x, u)

    @abstractmethod
    def conditions(self) -> list[Condition]:
        """The conditions in this view."""

    def terms(self) -> Sequence[Term]:
        """The terms of the problem."""
        return self.problem.terms()


@dataclass(frozen=True, eq=False)
class Window(Within):
    """A problem on a time window, whose initial state is the final state of `before`, if given."""

    start: float
    end: float
    before: nn.Module | None = None

    def _inside(self) -> Domain:
        """The same shape over this part of the time interval."""
        whole = self.problem.domain
        part, shape = Time(self.start, self.end, name=whole.names[-1]), whole.factors[0]
        return part if shape is None else shape * part

    domain: ClassVar[Domain] = computed(_inside)

    def conditions(self) -> list[Condition]:
        """The conditions, with the final state of the previous window as the initial state."""
        return [self._here(condition) for condition in conditions_in(self.problem)]

    def _here(self, condition: Condition) -> Condition:
        if self.before is None or not isinstance(condition, Initial):
            return condition
        velocity = None if condition.velocity is None else self._velocity(condition)
        return replace(condition, value=self._value(condition), velocity=velocity)

    def _value(self, condition: Initial) -> Function:
        def value(x: Tensor) -> Tensor:
            return condition.of(self._ended(x)).value.detach()

        return value

    def _velocity(self, condition: Initial) -> Function:
        def velocity(x: Tensor) -> Tensor:
            return condition.of(self._ended(x)).d(x.shape[1] - 1).detach()

        return velocity

    def _ended(self, x: Tensor) -> Field:
        assert self.before is not None
        like = next(self.before.parameters())
        return AutogradField(self.before, x.to(like), self.problem.names)


@dataclass(frozen=True, eq=False)
class Continuity(Condition):
    """Continuity of u at each border, and of du/dt if the problem has an initial velocity."""

    borders: tuple[float, ...]
    velocity: bool = False
    together: ClassVar[int] = 2

    def points(self, domain: Domain, n: int, generator: torch.Generator | None = None) -> Boundary:
        """Pairs of points, about n in total, with one point just before a border and one at the border."""
        how = "even" if generator is None else "random"
        seed = 0 if generator is None else int(torch.randint(2**31, (), generator=generator))
        each = max(1, n // (2 * len(self.borders)))
        start = domain.boundary(each, ("start",), how, seed=seed)
        moment = 1e-6 * (domain.upper[-1] - domain.lower[-1])
        points = start.points.repeat(len(self.borders), 1).repeat_interleave(2, dim=0)
        at = torch.tensor(self.borders, dtype=points.dtype).repeat_interleave(2 * len(start))
        points[:, -1] = at
        points[::2, -1] -= moment
        normals = start.normals.repeat(len(self.borders), 1).repeat_interleave(2, dim=0)
        sizes = start.sizes.repeat(len(self.borders)).repeat_interleave(2)
        return Boundary(points, normals, sizes, tuple("border" for _ in range(len(points))))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        """The jumps of u and, with `velocity`, of du/dt."""
        other = torch.arange(len(x), device=x.device) ^ 1
        parts = [u.value, *([u.d(x.shape[1] - 1)] if self.velocity else [])]
        return torch.cat([part - part[other.clamp(max=len(x) - 1)] for part in parts], dim=1)


@dataclass(frozen=True, eq=False)
class Joined(Within):
    """The problem of a `Windowed` network, with continuity between the windows."""

    borders: tuple[float, ...]

    def conditions(self) -> list[Condition]:
        """The conditions of the problem, and continuity."""
        velocity = any(initial.velocity is not None for initial in _initials(self.problem))
        return [*conditions_in(self.problem), Continuity(self.borders, velocity)]


def borders_of(problem: Problem, net: nn.Module, windows: int) -> list[float]:
    """The ends of time windows of equal length, including the start and end of the problem."""
    whole, name = problem.domain, type(problem).__name__
    if windows > 1 and not (whole.factors[1] is not None and (starts(problem) or problem.terms())):
        raise ValueError(
            f"{name} cannot be solved in {windows} time windows, since it needs a time axis with an initial "
            "condition, such as domain = pinn.Segment(0, 1) * pinn.Time(0, 5) with pinn.Initial(...). Omit "
            "`windows`."
        )
    if windows > 1 and problem.terms():
        raise ValueError(
            f"{name} cannot be solved in {windows} time windows, since its terms involve all times. Omit "
            "`windows`."
        )
    if windows > 1 and traits_of(net).meets_start:
        raise ValueError(
            f"A network that satisfies conditions exactly cannot be trained in {windows} time windows, "
            "since it is bound to the initial state of the first. Pass its inner network, or omit `windows`."
        )
    start, end = whole.lower[-1], whole.upper[-1]
    return [start + (end - start) * k / windows for k in range(windows)] + [end]


def starts(problem: Problem) -> bool:
    """Whether a problem depends on time and has an initial condition."""
    timely = len(problem.names.space) < problem.domain.d and not problem.terms()
    return timely and bool(_initials(problem))


def _initials(problem: Problem) -> list[Initial]:
    """The initial conditions of a problem."""
    return [condition for condition in conditions_in(problem) if isinstance(condition, Initial)]


def data_in(data: Observations | None, domain: Domain) -> Observations | None:
    """The observations in a time window; None if there are none."""
    if data is None:
        return None
    x, y = (to_torch(part) for part in data)
    inside = (x[:, -1] >= domain.lower[-1]) & (x[:, -1] <= domain.upper[-1])
    return Observations(x[inside], y[inside]) if bool(inside.any()) else None
