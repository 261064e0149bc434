"""The result of training: the network, its history and estimates, and exceptions that contain a result."""

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
"""An estimate within this share of the range from one of its ends may be truncated by the range."""


NO_COVERAGE = (
    "Found together with the field; no coverage is stated. pinn.coefficients gives regions that state one."
)


@kept
@dataclass(frozen=True, eq=False, repr=False)
class PointEstimates(Mapping[str, float]):
    """Coefficients that were estimated together with the field, by name, without stated coverage.

    It is a mapping from names to numbers. `pinn.coefficients` returns regions with stated coverage.

    Parameters
    ----------
    found
        The estimates by name.
    sought
        The unknowns by name, with their bounds.

    Examples
    --------
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
    """A trained network with its problem, data and history.

    It is called like its network, with numpy arrays or torch tensors.

    Attributes
    ----------
    net
        The trained network.
    problem
        The problem, with estimates in place of unknowns. None after loading without the problem.
    training_data
        The training observations, if any.
    likelihood
        The noise scales that were used in training, with defaults filled in.
    recipe
        The recipe. Its `counts` are the steps taken, so that the recipe repeats a run that was stopped early.
    history
        The mean squares of data, equation and conditions at some steps, divided by their scales if names have
        separate scales.
    terms
        The mean square of each equation and condition by name, at the steps of the history.
    held_out
        Readings that were monitored during training; calibration refuses them like training rows.
    noise
        The standard deviation of the readings' noise, if it was given.
    spread
        The relative distance between restarts in each output, if there were any.
    estimates
        The estimates of the unknowns, by name.
    saw_data
        Whether the weights have learned from readings, in this run or in an earlier run that it continued.
    trend
        The final loss relative to the loss after two thirds of the run, in the last window; None for short
        runs.
    stalled
        Whether training ended because its steps no longer improved the loss.

    Examples
    --------
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
    history: list[dict[str, float]]
    terms: tuple[dict[str, float], ...] = ()
    held_out: Observations | None = None
    noise: float | Mapping[str, float] | None = None
    spread: Mapping[str, float] | None = None
    estimates: PointEstimates = NOTHING
    saw_data: bool = False
    trend: float | None = None
    stalled: bool = False

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict on whether the network has converged; computed on first use, in about a second.

        Examples
        --------
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
        """Return the outputs of the network.

        Parameters
        ----------
        x
            Points, shape (n, d), as an array, a tensor or a frame. If x is a tensor that requires gradients,
            the outputs can be differentiated.

        Returns
        -------
        Array
            The outputs, shape (n, m), of the same kind as x.
        """
        if isinstance(x, Tensor) and x.requires_grad:
            with evaluating(self.net):
                return self.net(x.to(next(self.net.parameters()))).to(x)
        axes = None if self.names is None else self.names.axes
        return call_model(self.net, rows(placed(x, axes), "x"))

    def caution(self, x: Array) -> str | None:
        """Return a warning if points lie outside the domain.

        Parameters
        ----------
        x
            Points, shape (n, d).

        Returns
        -------
        str | None
            A sentence with the number of points outside; None if all points lie inside.
        """
        return None if self.problem is None else outside_of(self.problem, x, "calibration points")

    @property
    def names(self) -> Names | None:
        """The names of axes and outputs, if known."""
        return getattr(self.net, "names", None) if self.problem is None else self.problem.names


class TrainingDiverged(RuntimeError):
    """Raised if training diverges.

    Parameters
    ----------
    message
        The message of the error.
    fitted
        The result up to the last row of the history, with finite weights.

    Examples
    --------
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
    """Raised if training is interrupted, for example by Ctrl-C.

    Parameters
    ----------
    message
        The message of the error.
    fitted
        The result up to the last row of the history, with finite weights.

    Examples
    --------
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
