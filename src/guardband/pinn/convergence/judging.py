"""Judging: the evidence on a trained network, the word for it, and the reasons in sentences.

The thresholds are heuristics: they were chosen on one half of the problems in `results/verdicts.md` and
measured on the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from guardband.reports.page import Section

Word: TypeAlias = Literal["converged", "not converged", "suspicious"]

ERROR = 0.03
"""The estimated relative error above which a network has not converged."""

EQUATION = 0.1
"""The share of its own terms above which an equation is not met, where the estimate of the error is rough."""

CONDITION = 0.1
"""The same of a condition, as a share of what it compares."""

LOOSE = 1e3
"""How far a field may change, relatively, for misses that change by 1, before something is left open."""

HELD_OUT = 0.03
"""The share of a field by which held-out readings may be missed, beyond what their noise explains."""

UNKNOWN = 0.1
"""The same where their noise is not known, and is a part of it."""

LOOSE_WINDOWS = 1e5
"""The same of a network for each window of time, each of which can change by itself."""

ROUGH = 0.5
"""The share of misses left unexplained above which an estimate is called rough."""

NOTHING, SMALL = 0.9, 0.01
"""Above the first share unexplained there is no estimate, and misses should be below the second share."""

AS_LARGE = 1.0
"""How large a change of the field, relatively, may stand behind misses that are not explained."""

DEVIATIONS = 3.0
"""Standard deviations that the root mean square of held-out misses may be above the noise."""

FALLING = 0.5
"""A loss that fell to less than this over the last third of a run was still falling."""

SPREAD = 0.03
"""How far restarts may differ, relatively, before there is doubt."""

OTHERWISE = "another activation may (`activation=torch.sin`), another start (`restarts=3`) or a wider network"
"""What may help where more steps will not."""


class HeldOut(NamedTuple):
    """Readings of one output: how far off the network is there, and what of that is noise."""

    miss: float
    """The root mean square."""
    noise: float | None
    """Its standard deviation, if it is known."""
    size: float
    """What it is held against: how large the output is over the domain."""
    n: int

    @property
    def excess(self) -> float:
        """What the noise does not explain, as a share of the size; 0 where it may be chance."""
        noise = self.noise or 0.0
        if self.miss <= noise * (1 + DEVIATIONS / math.sqrt(2 * self.n)):
            return 0.0
        return math.sqrt(self.miss**2 - noise**2) / self.size if self.size else math.inf

    @property
    def missed(self) -> bool:
        """Whether that is more than a network that has converged is off."""
        return not self.excess <= (UNKNOWN if self.noise is None else HELD_OUT)


@dataclass(frozen=True)
class Verdict:
    """Whether a network has converged, in a word, with the evidence; made by `pinn.verdict`.

    >>> from guardband import pinn
    >>> problem = pinn.problems.Poisson1D()
    >>> found = pinn.verdict(problem, pinn.mlp(problem, [8]))
    >>> found.word, found.error["u"] > 0.5
    ('not converged', True)
    """

    word: Word
    reasons: tuple[str, ...]
    """The evidence in sentences."""
    equations: Mapping[str, float]
    """How far each equation is missed, root mean squares, as a share of its own terms."""
    conditions: Mapping[str, float]
    """How far each condition is missed, as a share of the size of what it compares over the domain."""
    error: Mapping[str, float]
    """The estimated error of each output, relative to its size; NaN where it could not be estimated."""
    unexplained: float = 0.0
    """The share of the misses that the estimate cannot explain; it is raised accordingly."""
    loose: float = 0.0
    """How far the field could change, relatively, for misses that change by 1."""
    size: Mapping[str, float] = field(default_factory=dict[str, float])
    """How large each output is: its root mean square over the domain; not all of an offset counts, and an
    output that is nothing is taken for a hundredth of what would matter in its equations."""
    held_out: Mapping[str, HeldOut] = field(default_factory=dict[str, HeldOut])
    """How far held-out readings of each output are missed."""
    trained_on: Mapping[str, HeldOut] = field(default_factory=dict[str, HeldOut])
    """How far readings are missed that a training used, where their noise is known."""
    trend: float | None = None
    """By which factor the loss fell over the last third of a training, if it is known."""
    spread: Mapping[str, float] | None = None
    """How far restarts are from each other in each output, relatively, if there were any."""
    pinned: float | None = None
    """`loose` with the field held at the readings; None if there are none, or equation and conditions do."""

    @property
    def because(self) -> str:
        """What decided: the estimated error, or what speaks against a network that meets its equation."""
        doubts = self.reasons[len(_about_misses(self)) :]
        return " ".join(doubts) if doubts and self.word == "suspicious" else self.reasons[0]

    @property
    def behind(self) -> float:
        """How far off the field would be, relatively, if all misses were where it is loosest."""
        return self._left * math.hypot(*self.equations.values(), *self.conditions.values())

    def open(self, loosest: float) -> bool:
        """Whether something is left open by equation, conditions and readings."""
        return self._left > loosest

    @property
    def _left(self) -> float:
        return self.loose if self.pinned is None else min(self.loose, self.pinned)

    @property
    def unsure(self) -> bool:
        """Whether an error as large as the field may stand behind misses that the estimate leaves."""
        return self.unexplained > ROUGH and not self.behind <= AS_LARGE

    def report_sections(self) -> list[Section]:
        """The section of a report on a band around the network."""
        from guardband.reports.page import Section

        about = "The band holds whatever the word; around a network that has not converged it is wide."
        return [Section(f"The network: {self.word}", [*self.reasons, about])]

    def __str__(self) -> str:
        return "\n".join([f"{self.word}:", *(f"- {reason}" for reason in self.reasons)])


def judged(
    evidence: Verdict,
    held_out: Mapping[str, HeldOut] | None = None,
    trained_on: Mapping[str, HeldOut] | None = None,
    *,
    loosest: float = LOOSE,
) -> Verdict:
    """The same evidence with readings, the word for all of it, and the reasons."""
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


def told(found: Verdict, *, stalled: bool = False) -> Verdict:
    """A verdict with what its training adds to it, its end and the spread of restarts, in words."""
    said = list(found.reasons)
    if stalled and found.word == "not converged":
        said.append(f"The run ended when its steps no longer helped: more will not, but {OTHERWISE}.")
    elif found.trend is not None and found.word != "converged":
        by = 1 / max(found.trend, 1e-300)
        fell = f"fell by a factor of {by:.2g}" if found.trend < 1 else "did not fall"
        cure = "more steps may help" if found.trend < FALLING else "more steps will not help"
        if found.trend >= FALLING and found.word == "not converged":
            cure += f", but {OTHERWISE}"
        said.append(f"The loss {fell} over the last third of the run: {cure}.")
    word = found.word
    for name, share in (found.spread or {}).items():
        said.append(f"Restarts differ by {_percent(share)} in {name}.")
        if word == "converged" and not share <= SPREAD:
            word = "suspicious"
            said.append(
                "Restarts met equation and conditions in different ways: there may be several solutions."
            )
    return replace(found, word=word, reasons=tuple(said))


def trend_of(history: Sequence[Mapping[str, float]]) -> float | None:
    """The loss at the end over that at two thirds of a run; None of a run that is too short."""
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
                f"The error could not be estimated: {much} of what is missed is explained by what was tried, "
                f"and a field that is off by {_percent(found.behind)} could miss as little, as where small "
                "changes grow."
            ]
        return [
            "The error could not be estimated: nothing that was tried explains what is missed, "
            f"which should therefore be below {_percent(SMALL)}."
        ]
    off = [f"{name} is off by {_about_percent(error)}" for name, error in found.error.items()]
    said = f"As an estimate, {', '.join(off)}: what would have to be added to meet equation and conditions."
    if found.unexplained <= ROUGH:
        return [said]
    return [said, f"This explains {_percent(1 - found.unexplained)} of the misses, so it is rough."]


def _small(found: Verdict) -> bool:
    """Whether the estimate of the error is small, or there is none; NaN of a complete estimate is not."""
    if found.unexplained > ROUGH and _unknown(found):
        return True
    return all(error <= ERROR for error in found.error.values())


def _unknown(found: Verdict) -> bool:
    return all(math.isnan(error) for error in found.error.values())


def _about_doubts(found: Verdict, suspicious: bool, loosest: float) -> list[str]:
    said = list[str]()
    if found.loose > loosest:
        said.append(_about_loose(found, loosest))
    said += [f"Held-out readings of {name} {_about(part)}" for name, part in found.held_out.items()]
    for name, part in found.trained_on.items():
        if part.missed:
            said.append(f"Even the readings of {name} that it was trained on {_about(part)}")
    if suspicious:
        said.append(
            "Equation and conditions are met and the readings are not: this is another solution, or the "
            "equation, a condition, the readings or what is said of their noise is wrong."
        )
    return said


def _about_loose(found: Verdict, loosest: float) -> str:
    if found.pinned is not None and not found.open(loosest):
        return "Equation and conditions alone leave the field open; readings say which solution it is."
    by, lacks = ("Equation and conditions", "A condition may be missing.")
    if found.pinned is not None:
        by, lacks = "Equation, conditions and readings", "A condition, or readings elsewhere, may be missing."
    return (
        f"{by} leave the field open: it could change by as much as it is, and they would change by "
        f"{1 / found.loose:.0e} of their terms. {lacks}"
    )


def _about(part: HeldOut) -> str:
    share = part.miss / part.size if part.size else math.inf
    if part.noise is None:
        return f"are missed by {_percent(share)}, whose noise is not known."
    return f"are missed by {_percent(share)}, {part.miss / part.noise:.2g} times their noise."


def _about_percent(share: float) -> str:
    said = _percent(share)
    return said if said.startswith("less") else f"about {said}"


def _percent(share: float) -> str:
    """A share in words that a person reads: 12 %, less than 0.001 %, 30 times."""
    if not share < 10:
        return "something infinite" if not math.isfinite(share) else f"{share:.0f} times its size"
    if share < 1e-5:
        return "less than 0.001 %"
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"
