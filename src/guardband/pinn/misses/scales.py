"""Scales: the noise scales of a likelihood, column by column, and the sizes that they follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from guardband.pinn.misses.likelihood import Likelihood, Parted
from guardband.pinn.misses.sizes import crude_sizes
from guardband.pinn.misses.titles import Titles
from guardband.pinn.problems import Problem, Term


class Scales(NamedTuple):
    """The scale of each miss: of the data by output, of each equation, of each of `terms_of`; (q,)."""

    data: Tensor
    physics: Tensor
    boundary: tuple[Tensor, ...]


def scales_of(
    likelihood: Likelihood, problem: Problem, titles: Titles, *, only_names: bool = False
) -> Scales:
    """The scales of a completed likelihood by column; with `only_names` 1 where all have the same.

    A scale of one column counts for as many as there are.
    """

    def by_name(scale: Parted, columns: Mapping[str, int]) -> Tensor:
        numbers = [number for name, count in columns.items() for number in one(scale, name) * count]
        return torch.tensor(numbers, dtype=torch.float64)

    def one(scale: Parted, name: str) -> list[float]:
        found = scale[name] if isinstance(scale, Mapping) else scale
        if found is None or (only_names and not isinstance(scale, Mapping)):
            return [1.0]
        return list(found) if isinstance(found, Sequence) else [found]

    data = by_name(likelihood.data, dict.fromkeys(problem.names.outputs, 1))
    boundary = [by_name(likelihood.boundary, {name: 1}) for name in titles.conditions]
    own = [1.0 if only_names else float(term.scale) for term in titles.terms.values()]
    boundary += [torch.tensor([scale], dtype=torch.float64) for scale in own]
    physics = by_name(likelihood.physics, titles.equations)
    return Scales(data, physics, tuple(boundary))


def weights_of(likelihood: Likelihood, terms: Sequence[Term], physics_factor: float = 1.0) -> Tensor:
    """The weights of the mean squares: of data, equation and conditions, then of the problem's own terms."""
    found = likelihood.weights(physics_factor)
    return torch.cat([found, found.new_tensor([term.weight for term in terms])]) if terms else found


def sizes_of(problem: Problem, y: Tensor) -> Tensor:
    """How large each output is, (m,): as its measurements y (n, m) are, or as a crude solution is."""
    measured = y.square().nanmean(dim=0).sqrt().cpu().double() if len(y) else None
    if measured is not None and bool((measured > 0).all()):
        return measured
    found = crude_sizes(problem)
    return found if measured is None else torch.where(measured > 0, measured, found)
