"""Record: how large the misses of the data, of each equation and of each condition are, by name."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from guardband.pinn.points import Points
from guardband.pinn.titles import titles_of
from guardband.problems import Problem


class Record:
    """The mean square of every miss of a network, by name.

    >>> import guardband as gb
    >>> from guardband.pinn.points import fixed_points
    >>> problem, net = gb.problems.Poisson1D(), gb.mlp(1, [4])
    >>> data = problem.observe(5)
    >>> Record(problem, net, fixed_points(problem, net, (data.x, data.y), 9, 4, None)).names
    ['data', 'equation', 'Dirichlet']
    """

    names: list[str]

    def __init__(self, problem: Problem, net: nn.Module, points: Points) -> None:
        titles = titles_of(problem, net, points.inside)
        self._columns = list(titles.equations.values())
        measured = ["data"] if len(points.x) else []
        self.names = [*measured, *titles.equations, *titles.conditions]

    def row(self, step: int, misses: Sequence[Tensor]) -> dict[str, float]:
        """What was missed at a step, of the misses (n, anything) that `MeanSquares` saw."""
        data, equations, *conditions = misses
        parts = [data] if len(data) else []
        parts += [*equations.split(self._columns, dim=1), *conditions]
        squares = (float(part.square().sum(dim=1).mean()) for part in parts)
        return {"step": float(step), **dict(zip(self.names, squares, strict=True))}
