"""The verdict on a trained network: whether it has converged.

All residuals are evaluated at points that were not used for training. The residuals of an equation are
compared with its own terms, and those of a condition with the quantities in the condition; both are converted
to an estimate of the error. Only observations can distinguish between several solutions, or between a correct
and a wrong equation.

The thresholds are heuristics: they were tuned on one half of the problems in `results/verdicts.md` and
evaluated on the other half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from guardband.base.arrays import to_torch
from guardband.pinn.convergence.error import LOOSE, Correction, correction
from guardband.pinn.convergence.residuals import Sample, sample_misses
from guardband.pinn.misses.titles import Titles, titles_of
from guardband.pinn.networks.traits import Network, traits_of
from guardband.pinn.networks.windows import Within
from guardband.pinn.problems import Condition, PointValue, Problem
from guardband.pinn.problems.base import as_problem, conditions_in
from guardband.pinn.problems.measured import measured
from guardband.pinn.problems.unknown import unknowns_in, with_values
from guardband.predictors.models import evaluating
from guardband.values import Observations

if TYPE_CHECKING:
    from guardband.reports.page import Section

Word: TypeAlias = Literal["converged", "not converged", "suspicious"]

ERROR = 0.03
"""The estimated relative error above which a network has not converged."""

EQUATION = 0.1
"""The largest acceptable residuals of an equation, as a share of its terms, if the error estimate is
rough."""

CONDITION = 0.1
"""The largest acceptable residuals of a condition, as a share of the quantities that it compares."""

HELD_OUT = 0.03
"""The largest acceptable residuals of held-out observations beyond their noise, as a share of the field."""

UNKNOWN = 0.1
"""The same threshold if the noise is unknown and therefore included."""

LOOSE_WINDOWS = 1e5
"""The looseness threshold for one network per time window, since each network can change separately."""

ROUGH = 0.5
"""The share of unexplained residuals above which an error estimate is rough."""

NOTHING, SMALL = 0.9, 0.01
"""Above the first share of unexplained residuals no error is estimated, and residuals must be below the
second."""

AS_LARGE = 1.0
"""The relative error that unexplained residuals may hide."""

DEVIATIONS = 3.0
"""The number of standard deviations by which held-out residuals may exceed the noise."""

FALLING = 0.5
"""A loss that fell to less than this share over the last third of a run was still decreasing."""

SPREAD = 0.03
"""The largest relative difference between restarts without a warning."""

OTHERWISE = "another activation may (`activation=torch.sin`), another start (`restarts=3`) or a wider network"
"""Advice for runs that will not improve with more steps."""

SEED = 2**40
"""The first seed of the evaluation points, far from the training seeds."""

EDGE, OTHER = 128, 512
"""The number of points per condition, and the number of interior points that validate the estimate."""

POOL = 8
"""The size of the pool from which points are drawn by their residuals, as a multiple of the points drawn."""


class HasNetwork(Protocol):
    """An object that holds its network as `net`, such as the result of `pinn.fit`."""

    @property
    def net(self) -> nn.Module:
        """The network."""
        ...


Model: TypeAlias = Callable[[Tensor], Tensor] | nn.Module | HasNetwork


class HeldOut(NamedTuple):
    """The residuals of a network for observations of one output."""

    miss: float
    """The root mean square of the residuals."""
    noise: float | None
    """The standard deviation of the noise, if it is known."""
    size: float
    """The size of the output over the domain."""
    n: int

    @property
    def excess(self) -> float:
        """The residuals beyond the noise, as a share of the size; 0 if the noise may explain them."""
        noise = self.noise or 0.0
        if self.miss <= noise * (1 + DEVIATIONS / math.sqrt(2 * self.n)):
            return 0.0
        return math.sqrt(self.miss**2 - noise**2) / self.size if self.size else math.inf

    @property
    def missed(self) -> bool:
        """Whether the excess is larger than that of a converged network."""
        return not self.excess <= (UNKNOWN if self.noise is None else HELD_OUT)


@dataclass(frozen=True)
class Verdict:
    """Whether a network has converged, with the evidence; returned by `pinn.verdict`.

    Attributes
    ----------
    word
        "converged", "not converged" or "suspicious".
    reasons
        The evidence, as sentences.
    equations
        The root-mean-square residual of each equation, as a share of its terms.
    conditions
        The root-mean-square residual of each condition, as a share of the size of the compared quantities
        over the domain.
    error
        The estimated error of each output relative to its size; NaN if it could not be estimated.
    unexplained
        The share of the residuals that the estimate cannot explain; the estimate is increased accordingly.
    loose
        The largest relative change of the field for residuals that change by 1.
    size
        The size of each output, which is its root mean square over the domain. A constant offset counts for
        at most three times the spread, and the size of an output that is zero is a hundredth of the size that
        would matter in its equations.
    held_out
        The residuals of held-out observations of each output.
    trained_on
        The residuals of training observations whose noise is known.
    trend
        The factor by which the loss changed over the last third of training, if known.
    spread
        The relative difference between restarts in each output, if there were any.
    pinned
        `loose` with the field fixed at the observations; None without observations, or if the equation and
        the conditions determine the field.

    Examples
    --------
    >>> from guardband import pinn
    >>> problem = pinn.problems.Poisson1D()
    >>> found = pinn.verdict(problem, pinn.mlp(problem, [8]))
    >>> found.word, found.error["u"] > 0.5
    ('not converged', True)
    """

    word: Word
    reasons: tuple[str, ...]
    equations: Mapping[str, float]
    conditions: Mapping[str, float]
    error: Mapping[str, float]
    unexplained: float = 0.0
    loose: float = 0.0
    size: Mapping[str, float] = field(default_factory=dict[str, float])
    held_out: Mapping[str, HeldOut] = field(default_factory=dict[str, HeldOut])
    trained_on: Mapping[str, HeldOut] = field(default_factory=dict[str, HeldOut])
    trend: float | None = None
    spread: Mapping[str, float] | None = None
    pinned: float | None = None

    @property
    def because(self) -> str:
        """The decisive evidence: the estimated error, or the doubts if equation and conditions hold."""
        doubts = self.reasons[len(_about_misses(self)) :]
        return " ".join(doubts) if doubts and self.word == "suspicious" else self.reasons[0]

    @property
    def behind(self) -> float:
        """The relative error that the residuals could hide if they all pointed in the loosest direction."""
        return self._left * math.hypot(*self.equations.values(), *self.conditions.values())

    def open(self, loosest: float) -> bool:
        """Return whether the equation, conditions and observations leave the solution undetermined.

        Parameters
        ----------
        loosest
            The looseness threshold.

        Returns
        -------
        bool
            Whether the looseness exceeds the threshold.
        """
        return self._left > loosest

    @property
    def _left(self) -> float:
        return self.loose if self.pinned is None else min(self.loose, self.pinned)

    @property
    def unsure(self) -> bool:
        """Whether unexplained residuals may hide an error as large as the field."""
        return self.unexplained > ROUGH and not self.behind <= AS_LARGE

    def report_sections(self) -> list[Section]:
        """Return the section of a report on a band around the network.

        Returns
        -------
        list[Section]
            One section.
        """
        from guardband.reports.page import Section

        about = "The coverage holds for any verdict, but the band is wide if the network has not converged."
        return [Section(f"The network: {self.word}", [*self.reasons, about])]

    def __str__(self) -> str:
        return "\n".join([f"{self.word}:", *(f"- {reason}" for reason in self.reasons)])


def verdict(
    problem: Problem,
    model: Model,
    held_out: Observations | None = None,
    *,
    noise: float | Mapping[str, float] | None = None,
    seed: int = 0,
) -> Verdict:
    """Decide whether a network has converged, based on its residuals at points not used for training.

    This is a heuristic, and the verdict lists its evidence.

    Parameters
    ----------
    problem
        The problem. The value of a `pinn.Unknown` is taken from the `Fitted`.
    model
        A torch module, a differentiable function of points (n, d), a `Fitted`, or an object with a network in
        its attribute `net`.
    held_out
        Observations that were not used in training.
    noise
        The standard deviation of the noise of `held_out`: a number, or a mapping with one number per output.
        None if it is unknown.
    seed
        The seed of the evaluation points.

    Returns
    -------
    Verdict
        The word is "not converged" if the equation or the conditions are not satisfied, or if their residuals
        correspond to a large error. It is "suspicious" if they are satisfied but the observations are not,
        which indicates a different solution or a wrong equation. It is also "suspicious" if equation,
        conditions and observations together do not determine the field. Otherwise it is "converged".

    Notes
    -----
    The computation takes a second or two, and several seconds with time windows.

    Examples
    --------
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
    model: Model,
    held_out: Observations | None,
    training_data: Observations | None,
    *,
    noise: float | Mapping[str, float] | None,
    seed: int = 0,
) -> Verdict:
    """The verdict with training observations, whose residuals may exceed their noise as well.

    Training observations with unknown noise are not used as evidence.
    """
    known = _with_estimates(as_problem(problem), model)
    net = _network(model)
    problem = _posed(known, net.model)
    readings, used = (_readings(problem, given) for given in (held_out, training_data))
    noises = _noises(problem, noise)
    with torch.inference_mode(False), torch.enable_grad(), evaluating(net):
        like = next(net.parameters(), torch.zeros(0, dtype=torch.float64))
        titles = titles_of(problem, net, _checked(problem, net, like))
        points = 1500 if problem.domain.d > 1 and len(problem.names.outputs) == 1 else 1024
        sample = sample_misses(problem, net, SEED + 2 * seed, points, EDGE)
        if not sample.finite():
            return _not_finite(problem, titles, sample)
        found = _estimated(problem, net, sample, SEED + 2 * seed)
        loosest = LOOSE if problem is known else LOOSE_WINDOWS
        pins = [part for part in (used, readings) if part is not None]
        pinned = None
        if pins and found.loose > loosest:
            pinned = _loose_with(Pinned(problem, tuple(map(_sites, pins))), net, points, SEED + 2 * seed)
        missed = {} if readings is None else _missed(problem, net, readings, noises, sample.sizes)
        fits = {} if used is None else _missed(problem, net, used, noises, sample.sizes)
        fits = {name: part for name, part in fits.items() if part.noise is not None}
    evidence = replace(_evidence(problem, titles, sample, found), pinned=pinned)
    return judge(evidence, missed, fits, loosest=loosest)


def shares_of(problem: Problem, model: Callable[[Tensor], Tensor] | nn.Module) -> dict[str, float]:
    """The relative residuals of each equation and condition by name, from a small sample of points.

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
        return _by_name(titles, sample_misses(problem, net, SEED, 128, 32))


def _estimated(problem: Problem, net: _AsModule, sample: Sample, seed: int) -> Correction:
    """The estimated error, from points drawn by their residuals if uniform points explain too little.

    The largest residuals may be confined to a front or a corner, where uniform points are rare.
    """
    found = correction(problem, net.model, sample, sample_misses(problem, net, seed + 1, OTHER, EDGE // 2))
    if found.left <= ROUGH:
        return found
    n = len(sample.x)
    near = sample_misses(problem, net, seed, n, EDGE, POOL * n)
    other = sample_misses(problem, net, seed + 1, OTHER, EDGE // 2, POOL * OTHER)
    return min(found, correction(problem, net.model, near, other), key=lambda each: each.left)


@dataclass(frozen=True, eq=False)
class Pinned(Within):
    """A problem with a known field at `sites`: points x (n, d) and the outputs (n, m) observed at them."""

    sites: tuple[tuple[Tensor, Tensor], ...]

    def conditions(self) -> list[Condition]:
        """Return the conditions of the problem, and one for each observed output."""
        found = conditions_in(self.problem)
        for x, known in self.sites:
            for j, output in enumerate(self.names.outputs):
                if bool(known[:, j].any()):
                    found = [*found, PointValue(x[known[:, j]], 0.0, output=output)]
        return found


def _sites(readings: Observations) -> tuple[Tensor, Tensor]:
    """The points of at most `OTHER` observations, and the outputs observed at them."""
    x, y = (to_torch(part).cpu().double() for part in readings)
    some = slice(None, None, -(-len(x) // OTHER))
    return x[some], ~y[some].isnan()


def _loose_with(problem: Pinned, net: _AsModule, points: int, seed: int) -> float:
    """The looseness of the field given equation, conditions and observations.

    The looseness depends on the derivatives of the residuals but not on their values, so observations of 0
    suffice.
    """
    here, there = (
        sample_misses(problem, net, seed, points, EDGE),
        sample_misses(problem, net, seed + 1, OTHER, EDGE // 2),
    )
    return correction(problem, net.model, here, there).loose


def _with_estimates(problem: Problem, model: Model) -> Problem:
    """The problem with the estimated values of its unknowns."""
    unknowns = unknowns_in(problem)
    if not unknowns:
        return problem
    found = dict(getattr(model, "estimates", None) or {})
    if missing := [name for name in unknowns if name not in found]:
        raise TypeError(
            f"`{missing[0]}` of {type(problem).__name__} is a pinn.Unknown, which has no value before "
            "training. Pass the result of `pinn.fit`, pinn.verdict(problem, fitted), or use a number instead."
        )
    return with_values(problem, found)


def _by_name(titles: Titles, sample: Sample) -> dict[str, float]:
    """The largest share of each equation and condition."""
    equations, *conditions = sample.shares()
    parts = [*equations.split(list(titles.equations.values())), *conditions]
    names = titles.names
    return {name: float(part.max()) for name, part in zip(names, parts, strict=True)}


class _AsModule(Network):
    """Any model as a module without hard constraints, so that all conditions are evaluated."""

    def __init__(self, model: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)

    def known_derivative(self, x: Tensor, axes: tuple[int, ...]) -> Tensor | None:
        own = getattr(self.model, "known_derivative", None)
        return None if own is None else own(x, axes)


def _network(model: Model) -> _AsModule:
    """The model under test as a module."""
    inner = None if isinstance(model, nn.Module) else getattr(model, "net", None)
    found = inner if isinstance(inner, nn.Module) else model
    if isinstance(model, Problem):
        raise TypeError("The problem comes first, then the network, as in pinn.verdict(problem, net).")
    if not callable(found) or isinstance(found, type):
        raise TypeError(
            f"`model` should be a torch module, a Fitted or a function of points (n, d), got {model!r:.80}."
        )
    return _AsModule(found)


def _posed(problem: Problem, model: object) -> Problem:
    """The problem, with continuity between time windows as a condition if the network has windows."""
    return traits_of(model).posed(problem) if isinstance(model, nn.Module) else problem


def _checked(problem: Problem, net: nn.Module, like: Tensor) -> Tensor:
    """A few points, after checking that the model returns one column per output."""
    x = problem.domain.uniform(4, seed=0, dtype=torch.float64).to(like)
    found, outputs = net(x), problem.names.outputs
    if not isinstance(found, Tensor) or found.shape != (4, len(outputs)):
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(
            f"`model` should return shape (n, {len(outputs)}) for points (n, {problem.domain.d}), one "
            f"column per output ({', '.join(outputs)}), got {shape} for 4 points."
        )
    return x


def _readings(problem: Problem, held_out: object) -> Observations | None:
    if held_out is not None and not isinstance(held_out, Observations):
        raise TypeError(f"`held_out` should be gb.Observations(x, y), or None, got {held_out!r:.80}.")
    return measured(problem, held_out)


def _noises(problem: Problem, noise: float | Mapping[str, float] | None) -> Mapping[str, float | None]:
    """The noise of each output, None if it is unknown."""
    outputs = problem.names.outputs
    found: Mapping[str, float | None] = noise if isinstance(noise, Mapping) else dict.fromkeys(outputs, noise)
    for output, number in found.items():
        if output not in outputs:
            raise ValueError(
                f"`noise` should have the names of outputs ({', '.join(outputs)}) as keys, got "
                f"{output!r:.80}."
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
    """The residuals of the observations, for each measured output."""
    x, y = (to_torch(part).cpu().double() for part in readings)
    miss, found = problem.field(net, x).value.detach().to(y) - y, dict[str, HeldOut]()
    for j, output in enumerate(problem.names.outputs):
        known = ~y[:, j].isnan()
        if bool(known.any()):
            off = float(miss[known, j].square().mean().sqrt())
            found[output] = HeldOut(off, noises.get(output), float(sizes[j]), int(known.sum()))
    return found


def _not_finite(problem: Problem, titles: Titles, sample: Sample) -> Verdict:
    bad = (~sample.parts[0].linear.misses.isfinite()).any(dim=1)
    where = f"at {int(bad.sum())} of {len(bad)} points" if bool(bad.any()) else "where conditions hold"
    reason = f"The network, or the residual of the equation, is not finite {where}."
    equations, conditions, error = (
        dict.fromkeys(names, math.nan)
        for names in (titles.equations, titles.conditions, problem.names.outputs)
    )
    return Verdict("not converged", (reason,), equations, conditions, error)


def _evidence(problem: Problem, titles: Titles, sample: Sample, found: Correction) -> Verdict:
    """The evidence from equation and conditions, before a decision."""
    shares = _by_name(titles, sample)
    return Verdict(
        "converged",
        (),
        {name: shares[name] for name in titles.equations},
        {name: share for name, share in shares.items() if name not in titles.equations},
        dict(zip(problem.names.outputs, found.error, strict=True)),
        found.left,
        found.loose,
        dict(zip(problem.names.outputs, sample.sizes.tolist(), strict=True)),
    )


def judge(
    evidence: Verdict,
    held_out: Mapping[str, HeldOut] | None = None,
    trained_on: Mapping[str, HeldOut] | None = None,
    *,
    loosest: float = LOOSE,
) -> Verdict:
    """Decide from the evidence and the observations, with the reasons for the decision."""
    found = replace(
        evidence,
        held_out=evidence.held_out if held_out is None else held_out,
        trained_on=evidence.trained_on if trained_on is None else trained_on,
    )
    known = found.unexplained <= NOTHING
    equation, condition = (EQUATION, CONDITION) if known else (SMALL, SMALL)
    equations, conditions = (
        all(number <= bound for number in numbers.values())
        for numbers, bound in ((found.equations, equation), (found.conditions, condition))
    )
    met = _small(found) and (found.unexplained <= ROUGH or (equations and conditions))
    missed = any(part.missed for part in (*found.held_out.values(), *found.trained_on.values()))
    word: Word = "not converged"
    if met and (missed or found.open(loosest)):
        word = "suspicious"
    elif met and not found.unsure:
        word = "converged"
    found = replace(found, word=word)
    if _small(found) and (not known or (found.unsure and word == "not converged")):
        found = replace(found, error=dict.fromkeys(found.error, math.nan))
    doubts = _about_doubts(found, met and missed, loosest)
    return replace(found, reasons=(*_about_misses(found), *doubts))


def with_training(found: Verdict, *, stalled: bool = False) -> Verdict:
    """A verdict with evidence from training: how the run ended and how much restarts differ."""
    reasons = list(found.reasons)
    if stalled and found.word == "not converged":
        reasons.append(
            f"The run ended when its steps no longer helped. More steps will not help, but {OTHERWISE}."
        )
    elif found.trend is not None and found.word != "converged":
        by = 1 / max(found.trend, 1e-300)
        fell = f"fell by a factor of {by:.2g}" if found.trend < 1 else "did not fall"
        cure = "more steps may help" if found.trend < FALLING else "more steps will not help"
        if found.trend >= FALLING and found.word == "not converged":
            cure += f", but {OTHERWISE}"
        reasons.append(f"The loss {fell} over the last third of the run: {cure}.")
    word = found.word
    for name, share in (found.spread or {}).items():
        reasons.append(f"Restarts differ by {_percent(share)} in {name}.")
        if word == "converged" and not share <= SPREAD:
            word = "suspicious"
            reasons.append(
                "Restarts satisfied the equation and conditions in different ways, so there may be several "
                "solutions."
            )
    return replace(found, word=word, reasons=tuple(reasons))


def trend_of(history: Sequence[Mapping[str, float]]) -> float | None:
    """The final loss divided by the loss at two thirds of a run; None for a short run."""
    if len(history) < 3:
        return None
    before, after = history[2 * len(history) // 3 - 1]["loss"], history[-1]["loss"]
    return after / before if before > 0 else None


def _about_misses(found: Verdict) -> list[str]:
    return [
        *_about_error(found),
        *(
            f"The equation `{name}` is missed by {_percent(miss)} of its own terms."
            for name, miss in found.equations.items()
        ),
        *(
            f"The condition `{name}` is missed by {_percent(miss)} of what it compares."
            for name, miss in found.conditions.items()
        ),
    ]


def _about_error(found: Verdict) -> list[str]:
    if found.unexplained > ROUGH and _unknown(found):
        much = "nothing" if found.unexplained > NOTHING else f"no more than {_percent(1 - found.unexplained)}"
        if found.unsure and found.word == "not converged":
            return [
                f"The error could not be estimated: the corrections that were tried explain {much} of the "
                f"residuals, and a field that is off by {_percent(found.behind)} could miss as little if "
                "the equation amplifies small changes."
            ]
        return [
            "The error could not be estimated: none of the corrections that were tried explains the "
            "residuals, which should therefore be below {_percent(SMALL)}."
        ]
    off = [f"{name} is off by {_about_percent(error)}" for name, error in found.error.items()]
    estimate = (
        f"As an estimate, {', '.join(off)}: what would have to be added to meet equation and conditions."
    )
    if found.unexplained <= ROUGH:
        return [estimate]
    return [estimate, f"This explains {_percent(1 - found.unexplained)} of the misses, so it is rough."]


def _small(found: Verdict) -> bool:
    """Whether the estimated error is small or missing; NaN from a complete estimate counts as large."""
    if found.unexplained > ROUGH and _unknown(found):
        return True
    return all(error <= ERROR for error in found.error.values())


def _unknown(found: Verdict) -> bool:
    return all(math.isnan(error) for error in found.error.values())


def _about_doubts(found: Verdict, suspicious: bool, loosest: float) -> list[str]:
    doubts = list[str]()
    if found.loose > loosest:
        doubts.append(_about_loose(found, loosest))
    doubts += [f"Held-out readings of {name} {_about(part)}" for name, part in found.held_out.items()]
    for name, part in found.trained_on.items():
        if part.missed:
            doubts.append(f"Even the training readings of {name} {_about(part)}")
    if suspicious:
        doubts.append(
            "The equation and conditions are met but the readings are not: this may be a different "
            "solution, or the equation, a condition, the readings or their stated noise may be wrong."
        )
    return doubts


def _about_loose(found: Verdict, loosest: float) -> str:
    if found.pinned is not None and not found.open(loosest):
        return "Equation and conditions alone leave the field open; readings say which solution it is."
    by, lacks = ("Equation and conditions", "A condition may be missing.")
    if found.pinned is not None:
        by, lacks = "Equation, conditions and readings", "A condition, or readings elsewhere, may be missing."
    return (
        f"{by} leave the field open: a change as large as the field itself would change the residuals by "
        f"only {1 / found.loose:.0e} of their terms. {lacks}"
    )


def _about(part: HeldOut) -> str:
    share = part.miss / part.size if part.size else math.inf
    if part.noise is None:
        return f"are missed by {_percent(share)}, and their noise is unknown."
    return f"are missed by {_percent(share)}, {part.miss / part.noise:.2g} times their noise."


def _about_percent(share: float) -> str:
    text = _percent(share)
    return text if text.startswith("less") else f"about {text}"


def _percent(share: float) -> str:
    """A share in words: 12 %, less than 0.001 %, 30 times."""
    if not share < 10:
        return "an infinite amount" if not math.isfinite(share) else f"{share:.0f} times its size"
    if share < 1e-5:
        return "less than 0.001 %"
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"
