"""The verdict: whether a trained network has converged, and the evidence.

All of it is found at points that the network was not trained on. Misses of equations are held against the
equations' own terms, those of conditions against what they compare, and both are turned into an estimate of
the error: what would have to be added to the network to remove them. Only readings can tell a solution from
another one, and the right equation from a wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from guardband.base.arrays import to_torch
from guardband.pinn.convergence.correction import Correction, correction
from guardband.pinn.convergence.evidence import Looked, look
from guardband.pinn.convergence.judging import LOOSE, LOOSE_WINDOWS, ROUGH, HeldOut, Verdict, judged
from guardband.pinn.misses.titles import Titles, titles_of
from guardband.pinn.networks.traits import Network, traits_of
from guardband.pinn.networks.windows import Within
from guardband.pinn.problems import Condition, PointValue, Problem
from guardband.pinn.problems.base import as_problem, conditions_in
from guardband.pinn.problems.measured import measured
from guardband.pinn.problems.unknown import unknowns_in, with_values
from guardband.predictors.models import evaluating
from guardband.values import Observations

SEED = 2**40
"""Seeds of points begin here, far from those of trainings."""

EDGE, OTHER = 128, 512
"""Points for each condition, and inside to hold an estimate against."""

POOL = 8
"""Those that follow the misses are drawn of so many times as many."""


def verdict(
    problem: Problem,
    model: Callable[[Tensor], Tensor] | nn.Module | Any,
    held_out: Observations | None = None,
    *,
    noise: float | Mapping[str, float] | None = None,
    seed: int = 0,
) -> Verdict:
    """Whether a network has converged, at points that it was not trained on; a heuristic with its evidence.

    `model` is any torch module or function that can be differentiated, a `Fitted`, or what holds its network
    as `.net`. `held_out` are readings that were not used in training, `noise` their standard deviation: one,
    or one for each output by name, or None if it is not known.

    The word is *not converged* where equation and conditions are not met, or stand for a large error;
    *suspicious* where they are met and the readings are not, which is another solution or the wrong equation,
    and where equation, conditions and readings leave the field open. A problem with a `pinn.Unknown` is
    judged with the value that the `Fitted` found. It takes a second or two, and several with windows of time.

    >>> from guardband import pinn
    >>> problem = pinn.problems.Poisson1D()
    >>> print(pinn.verdict(problem, problem.solution).word)
    converged
    >>> print(pinn.verdict(problem, lambda x: 0.9 * problem.solution(x)))
    not converged:
    - As an estimate, u is off by about 10 %: what would have to be added to meet equation and conditions.
    - The equation `equation` is missed by 5.3 % of its own terms.
    - The condition `Dirichlet` is missed by less than 0.001 % of what it compares.
    """
    return verdict_with(problem, model, held_out, None, noise=noise, seed=seed)


def verdict_with(
    problem: Problem,
    model: Any,
    held_out: Observations | None,
    training_data: Observations | None,
    *,
    noise: float | Mapping[str, float] | None,
    seed: int = 0,
) -> Verdict:
    """The same, knowing also what the network was trained on: even that may be missed by more than its noise.

    Of readings whose noise is not known a training says nothing.
    """
    known = _known(as_problem(problem), model)
    net = _network(model)
    problem = _asked(known, net.model)
    readings, used = (_readings(problem, given) for given in (held_out, training_data))
    noises = _noises(problem, noise)
    with torch.inference_mode(False), torch.enable_grad(), evaluating(net):
        like = next(net.parameters(), torch.zeros(0, dtype=torch.float64))
        titles = titles_of(problem, net, _checked(problem, net, like))
        points = 1500 if problem.domain.d > 1 and len(problem.names.outputs) == 1 else 1024
        looked = look(problem, net, SEED + 2 * seed, points, EDGE)
        if not looked.finite():
            return _not_finite(problem, titles, looked)
        found = _estimated(problem, net, looked, SEED + 2 * seed)
        loosest = LOOSE if problem is known else LOOSE_WINDOWS
        pins = [part for part in (used, readings) if part is not None]
        pinned = None
        if pins and found.loose > loosest:
            pinned = _loose_with(Pinned(problem, tuple(map(_sites, pins))), net, points, SEED + 2 * seed)
        missed = {} if readings is None else _missed(problem, net, readings, noises, looked.sizes)
        fits = {} if used is None else _missed(problem, net, used, noises, looked.sizes)
        fits = {name: part for name, part in fits.items() if part.noise is not None}
    evidence = replace(_evidence(problem, titles, looked, found), pinned=pinned)
    return judged(evidence, missed, fits, loosest=loosest)


def shares_of(problem: Problem, model: Callable[[Tensor], Tensor] | nn.Module) -> dict[str, float]:
    """How far each equation and condition is missed, relatively, by its name: a glance at few points.

    >>> from guardband import pinn
    >>> problem = pinn.problems.Poisson1D()
    >>> found = shares_of(problem, lambda x: 0.9 * problem.solution(x))
    >>> {name: f"{share:.2f}" for name, share in found.items()}
    {'equation': '0.05', 'Dirichlet': '0.00'}
    """
    net = _network(model)
    with torch.inference_mode(False), torch.enable_grad(), evaluating(net):
        like = next(net.parameters(), torch.zeros(0, dtype=torch.float64))
        titles = titles_of(problem, net, _checked(problem, net, like))
        return _by_name(titles, look(problem, net, SEED, 128, 32))


def _estimated(problem: Problem, net: _Judged, looked: Looked, seed: int) -> Correction:
    """What the misses stand for; where that explains little of them, by points that follow them.

    Most may be missed at a front or in a corner, which few points see that are uniform.
    """
    found = correction(problem, net.model, looked, look(problem, net, seed + 1, OTHER, EDGE // 2))
    if found.left <= ROUGH:
        return found
    n = len(looked.x)
    near = look(problem, net, seed, n, EDGE, POOL * n)
    other = look(problem, net, seed + 1, OTHER, EDGE // 2, POOL * OTHER)
    return min(found, correction(problem, net.model, near, other), key=lambda each: each.left)


@dataclass(frozen=True, eq=False)
class Pinned(Within):
    """A problem with the field known at readings: x (n, d), and which outputs were read there (n, m)."""

    sites: tuple[tuple[Tensor, Tensor], ...]

    def conditions(self) -> list[Condition]:
        """Those of the problem, and one for each output that was read."""
        found = conditions_in(self.problem)
        for x, known in self.sites:
            for j, output in enumerate(self.names.outputs):
                if bool(known[:, j].any()):
                    found = [*found, PointValue(x[known[:, j]], 0.0, output=output)]
        return found


def _sites(readings: Observations) -> tuple[Tensor, Tensor]:
    """Where readings were made, at most `OTHER` of them, and of which outputs."""
    x, y = (to_torch(part).cpu().double() for part in readings)
    some = slice(None, None, -(-len(x) // OTHER))
    return x[some], ~y[some].isnan()


def _loose_with(problem: Pinned, net: _Judged, points: int, seed: int) -> float:
    """How far the field could still change with equation, conditions and readings met.

    The answer depends on how misses change with the field and not on their values, so readings of 0 will do.
    """
    here, there = look(problem, net, seed, points, EDGE), look(problem, net, seed + 1, OTHER, EDGE // 2)
    return correction(problem, net.model, here, there).loose


def _known(problem: Problem, model: Any) -> Problem:
    """A problem whose unknowns have the values that its training found."""
    unknowns = unknowns_in(problem)
    if not unknowns:
        return problem
    found = dict(getattr(model, "estimates", None) or {})
    if missing := [name for name in unknowns if name not in found]:
        raise TypeError(
            f"`{missing[0]}` of {type(problem).__name__} is a pinn.Unknown, which has no value before it is "
            "found. Judge what `pinn.fit` returned, pinn.verdict(problem, fitted), or give a number in its "
            "place."
        )
    return with_values(problem, found)


def _by_name(titles: Titles, looked: Looked) -> dict[str, float]:
    """The largest share of each equation and condition."""
    equations, *conditions = looked.shares()
    parts = [*equations.split(list(titles.equations.values())), *conditions]
    names = titles.names
    return {name: float(part.max()) for name, part in zip(names, parts, strict=True)}


class _Judged(Network):
    """Any model as a module that meets no condition by construction, so that all of them are looked at."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model: Any = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)

    def known_derivative(self, x: Tensor, axes: tuple[int, ...]) -> Tensor | None:
        own = getattr(self.model, "known_derivative", None)
        return None if own is None else own(x, axes)


def _network(model: Any) -> _Judged:
    """What is to be judged, as a module."""
    inner = None if isinstance(model, nn.Module) else getattr(model, "net", None)
    found: Any = inner if isinstance(inner, nn.Module) else model
    if isinstance(model, Problem):
        raise TypeError("The problem comes first, then the network: pinn.verdict(problem, net).")
    if not callable(found) or isinstance(found, type):
        raise TypeError(
            f"`model` should be a torch module, a Fitted or a function of points (n, d), got {model!r:.80}."
        )
    return _Judged(found)


def _asked(problem: Problem, model: Any) -> Problem:
    """The problem; of a network for each window of time also that the windows meet."""
    return traits_of(model).posed(problem) if isinstance(model, nn.Module) else problem


def _checked(problem: Problem, net: nn.Module, like: Tensor) -> Tensor:
    """A few points for the network, which should return a column for each output there."""
    x = problem.domain.uniform(4, seed=0, dtype=torch.float64).to(like)
    found, outputs = net(x), problem.names.outputs
    if not isinstance(found, Tensor) or found.shape != (4, len(outputs)):
        said = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(
            f"`model` should return (n, {len(outputs)}) at points (n, {problem.domain.d}), a column for each "
            f"of {', '.join(outputs)}, and returned {said} at 4 points."
        )
    return x


def _readings(problem: Problem, held_out: object) -> Observations | None:
    if held_out is not None and not isinstance(held_out, Observations):
        raise TypeError(f"`held_out` should be gb.Observations(x, y), or None, got {held_out!r:.80}.")
    return measured(problem, held_out)


def _noises(problem: Problem, noise: Any) -> dict[str, float | None]:
    """The noise of each output, None where it is not known."""
    outputs = problem.names.outputs
    found = dict(noise) if isinstance(noise, Mapping) else dict.fromkeys(outputs, noise)
    for output, number in found.items():
        if output not in outputs:
            raise ValueError(
                f"`noise` should be by output ({', '.join(outputs)}), got one of {output!r:.80}."
            )
        if number is not None and not (isinstance(number, Real) and 0 < float(number) < math.inf):
            raise ValueError(f"`noise` should be a positive standard deviation, or None, got {number!r:.80}.")
    return found


def _missed(
    problem: Problem,
    net: nn.Module,
    readings: Observations,
    noises: Mapping[str, float | None],
    sizes: Tensor,
) -> dict[str, HeldOut]:
    """How far readings are missed, of each output that was measured."""
    x, y = (to_torch(part).cpu().double() for part in readings)
    miss, found = problem.field(net, x).value.detach().to(y) - y, dict[str, HeldOut]()
    for j, output in enumerate(problem.names.outputs):
        known = ~y[:, j].isnan()
        if bool(known.any()):
            off = float(miss[known, j].square().mean().sqrt())
            found[output] = HeldOut(off, noises.get(output), float(sizes[j]), int(known.sum()))
    return found


def _not_finite(problem: Problem, titles: Titles, looked: Looked) -> Verdict:
    bad = (~looked.parts[0].linear.misses.isfinite()).any(dim=1)
    where = f"at {int(bad.sum())} of {len(bad)} points" if bool(bad.any()) else "where conditions hold"
    reason = f"The network, or what the equation makes of it, is not finite {where}."
    equations, conditions, error = (
        dict.fromkeys(names, math.nan)
        for names in (titles.equations, titles.conditions, problem.names.outputs)
    )
    return Verdict("not converged", (reason,), equations, conditions, error)


def _evidence(problem: Problem, titles: Titles, looked: Looked, found: Correction) -> Verdict:
    """All that equation and conditions say, before it is judged."""
    shares = _by_name(titles, looked)
    return Verdict(
        "converged",
        (),
        {name: shares[name] for name in titles.equations},
        {name: share for name, share in shares.items() if name not in titles.equations},
        dict(zip(problem.names.outputs, found.error, strict=True)),
        found.left,
        found.loose,
        dict(zip(problem.names.outputs, looked.sizes.tolist(), strict=True)),
    )
