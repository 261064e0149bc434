"""The names of equations, conditions and terms, and the history of their mean squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor, nn

from guardband.pinn.misses.points import Points, conditions_of
from guardband.pinn.problems import AutogradField, Condition, Problem, Term
from guardband.pinn.problems.base import terms_in
from guardband.predictors.models import evaluating


class Titles(NamedTuple):
    """The equations of a problem with their columns, the conditions to be learned, and the terms, by name."""

    equations: dict[str, int]
    conditions: dict[str, Condition]
    terms: dict[str, Term]

    @property
    def names(self) -> list[str]:
        """All names: equations, conditions, terms."""
        return [*self.equations, *self.conditions, *self.terms]


def titles_of(problem: Problem, net: nn.Module, x: Tensor) -> Titles:
    """The names of all parts of the loss, determined by evaluating the residual at a point.

    Equations have the names that the residual returns, or `equation`, `equation 2`, ...; conditions are named
    by their kind and by the part of the boundary on which they hold.

    Examples
    --------
    >>> from guardband import pinn
    >>> problem, net = pinn.problems.Cavity(), pinn.mlp(pinn.problems.Cavity(), [4])
    >>> titles_of(problem, net, problem.domain.quasi(1)).equations
    {'momentum x': 1, 'momentum y': 1, 'mass': 1}
    """
    equations = _equations(problem, net, x)
    conditions = conditions_of(problem, net)
    words = [f"equation {word}" if word in RESERVED else word for word in equations]
    names = _different([*words, *(_word(condition) for condition in conditions)])
    columns = zip(names, equations.values(), strict=False)
    terms = {term.name: term for term in terms_in(problem)}
    if double := {*names} & {*terms}:
        raise ValueError(
            f"The term {min(double)!r} should have a name that differs from those of equations and "
            "conditions."
        )
    return Titles(dict(columns), dict(zip(names[len(words) :], conditions, strict=True)), terms)


RESERVED = ("step", "data")


def _equations(problem: Problem, net: nn.Module, x: Tensor) -> dict[str, int]:
    """The names of the equations, with the number of columns of each."""
    some = x[:1].repeat(3, 1)
    with evaluating(net):
        found = problem.residual(some, AutogradField(net, some, problem.names))
    if isinstance(found, Mapping):
        return {str(name): part.shape[1] for name, part in found.items()}
    return {"equation" if j == 0 else f"equation {j + 1}": 1 for j in range(found.shape[1])}


def _word(condition: Condition) -> str:
    """The name of a condition: its kind, its outputs, and the parts of the boundary on which it holds."""
    kind, output, on = getattr(condition, "called", type(condition).__name__), condition.output, condition.on
    outputs = () if output is None else (output,) if isinstance(output, str | int) else output
    of = f" of {', '.join(map(str, outputs))}" if outputs else ""
    parts = () if on is None else ("a part",) if callable(on) else (on,) if isinstance(on, str) else on
    where = f" on {', '.join(parts)}" if parts else ""
    axis = getattr(condition, "axis", None)
    return f"{kind}{of}{where}{'' if axis is None else f' along {axis}'}"


def _different(words: Sequence[str]) -> list[str]:
    """Unique names: a second occurrence has the suffix 2."""
    found: list[str] = []
    for word in words:
        number = 2
        name = word
        while name in found:
            name, number = f"{word} {number}", number + 1
        found.append(name)
    return found


class Record:
    """The mean square of each equation, condition and term, by name.

    Examples
    --------
    >>> from guardband import pinn
    >>> from guardband.pinn.misses.points import fixed_points
    >>> problem, net = pinn.problems.Poisson1D(), pinn.mlp(1, [4])
    >>> data = problem.observe(5)
    >>> Record(problem, net, fixed_points(problem, net, (data.x, data.y), 9, 4, None)).names
    ['data', 'equation', 'Dirichlet']
    """

    names: list[str]

    def __init__(self, problem: Problem, net: nn.Module, points: Points) -> None:
        titles = titles_of(problem, net, points.inside)
        self._columns = list(titles.equations.values())
        measured = ["data"] if len(points.x) else []
        self.names = [*measured, *titles.names]

    def row(self, step: int, misses: Sequence[Tensor]) -> dict[str, float]:
        """The mean squares at a step, from the misses (n, q) that `MeanSquares` collects."""
        data, equations, *others = misses
        parts = [data] if len(data) else []
        parts += [*equations.split(self._columns, dim=1), *others]
        squares = (float(part.square().sum(dim=1).mean()) for part in parts)
        return {"step": float(step), **dict(zip(self.names, squares, strict=True))}
