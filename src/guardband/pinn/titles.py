"""Titles: what the equations of a problem and the conditions that a network has to learn are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor, nn

from guardband.models import evaluating
from guardband.pinn.points import conditions_of
from guardband.problems import AutogradField, Condition, Problem


class Titles(NamedTuple):
    """The equations of a problem with their columns, and the conditions to be learned, each by its name."""

    equations: dict[str, int]
    conditions: dict[str, Condition]


def titles_of(problem: Problem, net: nn.Module, x: Tensor) -> Titles:
    """What to call everything, found by evaluating the residual at a point.

    Equations are called as the residual calls them, else `equation`, `equation 2`, ...; conditions by their
    kind and where they hold.

    >>> import guardband as gb
    >>> problem, net = gb.problems.Cavity(), gb.mlp(gb.problems.Cavity(), [4])
    >>> titles_of(problem, net, problem.domain.quasi(1)).equations
    {'momentum x': 1, 'momentum y': 1, 'mass': 1}
    """
    equations = _equations(problem, net, x)
    conditions = conditions_of(problem, net)
    words = [f"equation {word}" if word in RESERVED else word for word in equations]
    names = _different([*words, *(_word(condition) for condition in conditions)])
    columns = zip(names, equations.values(), strict=False)
    return Titles(dict(columns), dict(zip(names[len(words) :], conditions, strict=True)))


RESERVED = ("step", "data")


def _equations(problem: Problem, net: nn.Module, x: Tensor) -> dict[str, int]:
    """The names of the equations, and how many columns each has."""
    some = x[:1].repeat(3, 1)
    with evaluating(net):
        found = problem.residual(some, AutogradField(net, some, problem.names))
    if isinstance(found, Mapping):
        return {str(name): part.shape[1] for name, part in found.items()}
    return {"equation" if j == 0 else f"equation {j + 1}": 1 for j in range(found.shape[1])}


def _word(condition: Condition) -> str:
    """What a condition is called: its kind, of which outputs, and where."""
    kind, output, on = getattr(condition, "called", type(condition).__name__), condition.output, condition.on
    outputs = () if output is None else (output,) if isinstance(output, str | int) else output
    of = f" of {', '.join(map(str, outputs))}" if outputs else ""
    parts = () if on is None else ("a part",) if callable(on) else (on,) if isinstance(on, str) else on
    where = f" on {', '.join(parts)}" if parts else ""
    axis = getattr(condition, "axis", None)
    return f"{kind}{of}{where}{'' if axis is None else f' along {axis}'}"


def _different(words: Sequence[str]) -> list[str]:
    """Each name once: the second of two alike is followed by a 2."""
    found: list[str] = []
    for word in words:
        number = 2
        name = word
        while name in found:
            name, number = f"{word} {number}", number + 1
        found.append(name)
    return found
