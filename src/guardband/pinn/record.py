"""Record: how large the misses of the data, of each equation and of each condition are, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from guardband.models import evaluating
from guardband.pinn.likelihood import Points, conditions_of
from guardband.problems import AutogradField, Condition, Problem


class Record:
    """The mean square of every miss of a network, by name.

    Equations are called as the residual calls them, else `equation`, `equation 2`, ...; conditions by their
    kind and where they hold.

    >>> import guardband as gb
    >>> from guardband.pinn.likelihood import fixed_points
    >>> problem, net = gb.problems.Poisson1D(), gb.mlp(1, [4])
    >>> data = problem.observe(5)
    >>> Record(problem, net, fixed_points(problem, net, (data.x, data.y), 9, 4, None)).names
    ['data', 'equation', 'Dirichlet']
    """

    names: list[str]

    def __init__(self, problem: Problem, net: nn.Module, points: Points) -> None:
        equations = _equations(problem, net, points)
        self._columns = list(equations.values())
        measured = ["data"] if len(points.x) else []
        words = [f"equation {word}" if word in RESERVED else word for word in equations]
        words += [_word(condition) for condition in conditions_of(problem, net)]
        self.names = _different([*measured, *words])

    def row(self, step: int, misses: Sequence[Tensor]) -> dict[str, float]:
        """What was missed at a step, of the misses (n, anything) that `MeanSquares` saw."""
        data, equations, *conditions = misses
        parts = [data] if len(data) else []
        parts += [*equations.split(self._columns, dim=1), *conditions]
        squares = (float(part.square().sum(dim=1).mean()) for part in parts)
        return {"step": float(step), **dict(zip(self.names, squares, strict=True))}


RESERVED = ("step", "data")


def _equations(problem: Problem, net: nn.Module, points: Points) -> dict[str, int]:
    """The names of the equations, and how many columns each has."""
    some = points.inside[:1].repeat(3, 1)
    with evaluating(net):
        found = problem.residual(some, AutogradField(net, some, problem.names))
    if isinstance(found, Mapping):
        return {str(name): part.shape[1] for name, part in found.items()}
    return {"equation" if j == 0 else f"equation {j + 1}": 1 for j in range(found.shape[1])}


def _word(condition: Condition) -> str:
    """What a condition is called: its kind, of which outputs, and where."""
    kind, output, on = type(condition).__name__, condition.output, condition.on
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
