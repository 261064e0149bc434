"""Fitted: a trained network with its training, the unknowns found with it, and the errors that carry one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from torch import Tensor, nn

from guardband.base.arrays import Array, rows
from guardband.base.kept import kept
from guardband.pinn.convergence.verdict import Verdict, verdict_with, with_training
from guardband.pinn.misses.likelihood import Likelihood
from guardband.pinn.problems import Problem, Unknown
from guardband.pinn.problems.measured import outside_of
from guardband.pinn.training.recipe import Recipe
from guardband.predictors.models import call_model, evaluating
from guardband.values import Names, Observations
from guardband.values.labeled import placed

NEAR = 0.01
"""How near to an end of its range, as a share of it, an estimate says that the truth may lie outside."""


NO_COVERAGE = (
    "Found together with the field; no coverage is stated. pinn.coefficients gives regions that state one."
)


@kept
@dataclass(frozen=True, eq=False, repr=False)
class PointEstimates(Mapping[str, float]):
    """Coefficients that were found together with the field, by name; no coverage is stated.

    For regions with a stated coverage see `pinn.coefficients`. Print it to read it.

    >>> from guardband import pinn
    >>> pinn.PointEstimates({"rate": 1.2345678}, {"rate": pinn.Unknown(1.0, 3.0)})
    rate = 1.235, sought between 1 and 3.
    Found together with the field; no coverage is stated. pinn.coefficients gives regions that state one.
    """

    found: Mapping[str, float] = field(default_factory=dict)
    sought: Mapping[str, Unknown] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return self.found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __hash__(self) -> int:
        return hash(frozenset(self.found.items()))

    def __repr__(self) -> str:
        if not self.found:
            return "No unknown was sought: the problem had no pinn.Unknown."
        lines = [
            f"{name} = {value:.4g}, sought between {self.sought[name].low:g} and {self.sought[name].high:g}."
            for name, value in self.found.items()
        ]
        lines += [
            f"The estimate of {name} is at an end of its range: the truth may lie outside."
            for name in self.found
            if self._at_an_end(name)
        ]
        return "\n".join([*lines, NO_COVERAGE])

    def _at_an_end(self, name: str) -> bool:
        low, high = self.sought[name].low, self.sought[name].high
        return min(self.found[name] - low, high - self.found[name]) < NEAR * (high - low)


NOTHING = PointEstimates()
"""The estimates of a problem without unknowns."""


@kept(optional=("problem",), told=("problem",))
@dataclass(frozen=True, eq=False, repr=False)
class Fitted:
    """A trained network with all that made it; called like its network, with numpy or torch.

    >>> from guardband import pinn
    >>> problem, recipe = pinn.problems.Poisson1D(), pinn.Recipe(steps=100, finish=0)
    >>> fitted = pinn.fit(
    ...     problem, pinn.mlp(1, [8]), problem.observe(60), recipe=recipe, progress=False
    ... )
    >>> fitted
    Fitted(MLP of 25 weights, Poisson1D(), Observations(60 points, x (60, 1), y (60, 1)))
    >>> [row["step"] for row in fitted.history]
    [50.0, 100.0]
    >>> list(fitted.terms[-1])
    ['step', 'data', 'equation', 'Dirichlet']
    """

    net: nn.Module
    problem: Problem
    training_data: Observations | None
    likelihood: Likelihood
    recipe: Recipe
    """The recipe; its `counts` are the steps that were made, so that it repeats the run."""
    history: list[dict[str, float]]
    """The mean squares of data, equation and conditions; over their scales where each name has its own."""
    terms: tuple[dict[str, float], ...] = ()
    """At the steps of the history, the mean square of each equation and condition by its name."""
    held_out: Observations | None = None
    """Readings that the training was watched by; calibration refuses them like training rows."""
    noise: float | Mapping[str, float] | None = None
    """The standard deviation of their noise, where it was said."""
    spread: Mapping[str, float] | None = None
    """How far restarts are from each other in each output, relatively, if there were any."""
    estimates: PointEstimates = NOTHING
    """The unknowns of the problem as they were found, by name; `problem` has these numbers in their place."""
    saw_data: bool = False
    """Whether its weights have learned from readings, in this training or in one that it went on from."""
    trend: float | None = None
    """The loss at the end over that at two thirds of the run, of the last window; None of a short one."""
    stalled: bool = False
    """Whether it ended because its steps no longer helped."""

    @cached_property
    def verdict(self) -> Verdict:
        """Whether it has converged, with the evidence; found when it is first asked, in about a second.

        >>> from guardband import pinn
        >>> problem = pinn.problems.Poisson1D()
        >>> pinn.fit(problem, pinn.mlp(problem, [8]), progress=False).verdict.word
        'converged'
        """
        given = self.problem, self.net, self.held_out, self.training_data
        found = verdict_with(*given, noise=self.noise)
        return with_training(replace(found, trend=self.trend, spread=self.spread), stalled=self.stalled)

    def __repr__(self) -> str:
        weights = sum(parameter.numel() for parameter in self.net.parameters())
        net = f"{type(self.net).__name__} of {weights} weights"
        return f"Fitted({net}, {self.problem!r}, {self.training_data!r})"

    def __call__(self, x: Array) -> Array:
        """The outputs (n, m) at points x (n, d), as the kind of array x is.

        Of a tensor that asks for gradients the outputs can be differentiated.
        """
        if isinstance(x, Tensor) and x.requires_grad:
            with evaluating(self.net):
                return self.net(x.to(next(self.net.parameters()))).to(x)
        axes = None if self.names is None else self.names.axes
        return call_model(self.net, rows(placed(x, axes), "x"))

    def caution(self, x: Array) -> str | None:
        """How many of the points x (n, d) lie outside of the domain; None if none does."""
        return None if self.problem is None else outside_of(self.problem, x, "calibration points")

    @property
    def names(self) -> Names | None:
        """What axes and outputs are called."""
        return getattr(self.net, "names", None) if self.problem is None else self.problem.names


class TrainingDiverged(RuntimeError):
    """Training ran away; `fitted` holds the last good state.

    >>> from guardband import pinn
    >>> problem = pinn.problems.Poisson1D()
    >>> recipe = pinn.Recipe(steps=50, learning_rate=1e6, warmup=0)
    >>> try:
    ...     fitted = pinn.fit(
    ...         problem,
    ...         pinn.mlp(1, [8]),
    ...         problem.observe(30),
    ...         recipe=recipe,
    ...         progress=False,
    ...     )
    ... except pinn.TrainingDiverged as error:
    ...     fitted = error.fitted
    ...     print(str(error).partition(":")[0])
    Training diverged at step 50
    """

    def __init__(self, message: str, fitted: Fitted) -> None:
        super().__init__(message)
        self.fitted = fitted


class TrainingInterrupted(KeyboardInterrupt):
    """Training was interrupted, as by Ctrl-C; `fitted` holds the last good state.

    >>> from guardband import pinn
    >>> def impatient(now):
    ...     raise KeyboardInterrupt
    >>> problem, recipe = pinn.problems.Poisson1D(), pinn.Recipe(steps=500)
    >>> try:
    ...     fitted = pinn.fit(
    ...         problem, pinn.mlp(1, [8]), recipe=recipe, callback=impatient, progress=False
    ...     )
    ... except pinn.TrainingInterrupted as error:
    ...     print(error)
    Training was interrupted at step 50; the network so far is in `error.fitted`.
    """

    def __init__(self, message: str, fitted: Fitted) -> None:
        super().__init__(message)
        self.fitted = fitted
