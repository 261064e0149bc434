"""Fitted: a trained network with all that made it, and the errors that carry one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor, nn

from guardband.arrays import Array, rows
from guardband.frames import placed
from guardband.kept import kept
from guardband.models import call_model, evaluating
from guardband.pinn.judging import Verdict, told
from guardband.pinn.likelihood import Likelihood
from guardband.pinn.point_estimates import NOTHING, PointEstimates
from guardband.pinn.recipe import Recipe
from guardband.problems import Problem
from guardband.values import Names, Observations


@kept(optional=("problem",), told=("problem",))
@dataclass(frozen=True, eq=False, repr=False)
class Fitted:
    """A trained network with all that made it; called like its network, with numpy or torch.

    >>> import guardband as gb
    >>> problem, recipe = gb.problems.Poisson1D(), gb.Recipe(steps=100, finish=0)
    >>> fitted = gb.fit(
    ...     problem, gb.mlp(1, [8]), problem.observe(60), recipe=recipe, progress=False
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

        >>> import guardband as gb
        >>> problem = gb.problems.Poisson1D()
        >>> gb.fit(problem, gb.mlp(problem, [8]), progress=False).verdict.word
        'converged'
        """
        from guardband.pinn.verdict import verdict_with

        given = self.problem, self.net, self.held_out, self.training_data
        found = verdict_with(*given, noise=self.noise)
        return told(replace(found, trend=self.trend, spread=self.spread), stalled=self.stalled)

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

    @property
    def names(self) -> Names | None:
        """What axes and outputs are called."""
        return getattr(self.net, "names", None) if self.problem is None else self.problem.names


class TrainingDiverged(RuntimeError):
    """Training ran away; `fitted` holds the last good state.

    >>> import guardband as gb
    >>> problem = gb.problems.Poisson1D()
    >>> recipe = gb.Recipe(steps=50, learning_rate=1e6, warmup=0)
    >>> try:
    ...     fitted = gb.fit(
    ...         problem, gb.mlp(1, [8]), problem.observe(30), recipe=recipe, progress=False
    ...     )
    ... except gb.TrainingDiverged as error:
    ...     fitted = error.fitted
    ...     print(str(error).partition(":")[0])
    Training diverged at step 50
    """

    def __init__(self, message: str, fitted: Fitted) -> None:
        super().__init__(message)
        self.fitted = fitted


class TrainingInterrupted(KeyboardInterrupt):
    """Training was interrupted, as by Ctrl-C; `fitted` holds the last good state.

    >>> import guardband as gb
    >>> def impatient(now):
    ...     raise KeyboardInterrupt
    >>> problem, recipe = gb.problems.Poisson1D(), gb.Recipe(steps=500)
    >>> try:
    ...     fitted = gb.fit(
    ...         problem, gb.mlp(1, [8]), recipe=recipe, callback=impatient, progress=False
    ...     )
    ... except gb.TrainingInterrupted as error:
    ...     print(error)
    Training was interrupted at step 50; the network so far is in `error.fitted`.
    """

    def __init__(self, message: str, fitted: Fitted) -> None:
        super().__init__(message)
        self.fitted = fitted
