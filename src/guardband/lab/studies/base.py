"""Studies: the coverage of methods over many training runs and many calibrations of each.

A `Training` defines a trained network, and a `Cell` an experiment with it; both are frozen and have a
stable key. A `Study` is a list of cells with a function that writes pages. `campaign.run` runs the cells.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from guardband.conformal import LEVELS, Calibrator, Scaled, Score, Split
from guardband.pinn.misses.likelihood import Likelihood
from guardband.pinn.networks.networks import MLP, mlp
from guardband.pinn.problems import Problem
from guardband.pinn.problems.noise import Noise
from guardband.pinn.training.fitted import Fitted
from guardband.pinn.training.recipe import Recipe
from guardband.pinn.training.train import fit
from guardband.values import Observations

Result: TypeAlias = dict[str, Any]
"""The record of a cell: inputs, measurements, versions, threads, times and the lease.

>>> import tempfile
>>> import guardband as gb
>>> from guardband import lab
>>> from guardband import pinn
>>> from guardband.lab.studies import Training, Factory, grid
>>> recipe = pinn.Recipe(steps=5, finish=0)
>>> training = Training(pinn.problems.Poisson1D(), (8,), n=30, recipe=recipe)
>>> constant = {"constant": Factory(gb.predictors.MeanOnly)}
>>> study = grid("mine", [training], constant, cal=30, draws=10)
>>> folder = tempfile.mkdtemp()
>>> status = lab.campaign.run(study, folder, progress=False)
>>> [sorted(result) for result in lab.campaign.results(folder)]
[['cell', 'found', 'key', 'lease', 'seconds', 'threads', 'versions']]
"""


class Factory:
    """A class or function with options, to be called once a network is trained.

    Parameters
    ----------
    make
        The class or function. Its name enters the key of a cell, so it must be importable: not a lambda.
    **options
        Its keyword arguments.

    Examples
    --------
    >>> import guardband as gb
    >>> from guardband import lab
    >>> lab.studies.Factory(gb.predictors.Distance, n_neighbors=10)
    Factory(Distance, n_neighbors=10)
    """

    make: Callable[..., Any]
    options: dict[str, Any]

    def __init__(self, make: Callable[..., Any], **options: Any) -> None:
        self.make, self.options = make, options

    def __call__(self, source: Any) -> Any:
        """Create the object from a `Fitted` (predictors) or from `Observations` (calibrators)."""
        return self.make(source, **self.options)

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Factory({self.make.__name__}{options})"


@dataclass(frozen=True)
class Training:
    """A network trained on noisy observations of a problem with a known solution.

    Parameters
    ----------
    problem
        The problem.
    widths
        The widths of the hidden layers.
    n
        The number of observations.
    noise
        The standard deviation of the noise, or a noise model.
    seed
        The seed of observations, weights and training.
    likelihood
        The noise scales of the loss; by default those of the data noise.
    recipe
        The training schedule.
    dropout, where
        The dropout rate, and whether dropout precedes the last layer or all layers.

    Examples
    --------
    >>> from guardband import lab
    >>> from guardband import pinn
    >>> training = lab.studies.Training(
    ...     pinn.problems.Poisson1D(), widths=(16, 16), n=60, noise=0.1, seed=3
    ... )
    >>> training.observe()
    Observations(60 points, x (60, 1), y (60, 1))
    """

    problem: Problem
    widths: tuple[int, ...]
    n: int
    noise: float | Noise = 0.05
    seed: int = 0
    likelihood: Likelihood | None = None
    recipe: Recipe = field(default_factory=Recipe)
    dropout: float = 0.0
    where: Literal["last", "all"] = "last"

    @cached_property
    def key(self) -> str:
        """The hash of all inputs, the same on any machine."""
        return key_of(describe(self))

    def observe(self) -> Observations:
        """Return the training data.

        Returns
        -------
        Observations
            The n noisy observations.
        """
        return self.problem.observe(self.n, noise=self.noise, seed=1000 + self.seed)

    def net(self) -> MLP:
        """Return the network before training.

        Returns
        -------
        MLP
            The network.
        """
        d, outputs = self.problem.domain.d, len(self.problem.names.outputs)
        options: dict[str, Any] = {"dropout": self.dropout, "where": self.where, "seed": self.seed}
        return mlp(d, self.widths, outputs=outputs, **options)

    def fit(self, checkpoint: Path | None = None, *, progress: bool = False) -> Fitted:
        """Train the network.

        Parameters
        ----------
        checkpoint
            A file in which the state of the training is kept, so that a killed training run resumes.
        progress
            Whether to show a progress bar.

        Returns
        -------
        Fitted
            The trained network.
        """
        base = self.noise if isinstance(self.noise, float | int) else self.noise.base
        return fit(
            self.problem,
            self.net(),
            self.observe(),
            likelihood=self.likelihood or Likelihood(data=float(base)),
            recipe=self.recipe,
            seed=self.seed,
            checkpoint=checkpoint,
            progress=progress,
        )


@dataclass(frozen=True)
class Cell:
    """One method on one trained network, calibrated many times.

    Parameters
    ----------
    experiment, method
        Labels in tables; all other fields determine the computation.
    training
        The trained network.
    predictor
        The predictor, created from the `Fitted` network.
    score
        The score.
    calibrator
        The calibrator, or a `Factory` that creates it from the training data.
    cal, test
        The numbers of calibration and test points in each draw.
    draws
        The number of independent calibrations.
    levels
        The levels at which coverage is counted.
    grid
        If positive, the result includes the band of one calibration on a grid with this number of points
        per axis, for figures.

    Examples
    --------
    >>> import guardband as gb
    >>> from guardband import pinn
    >>> from guardband.lab.studies import Cell, Training, Factory
    >>> training = Training(pinn.problems.Poisson1D(), widths=(16, 16), n=60)
    >>> cell = Cell(
    ...     "poisson", "constant", training, Factory(gb.predictors.MeanOnly), cal=30
    ... )
    >>> cell.cal, cell.test, cell.draws, cell.calibrator
    (30, 100, 1000, Split())
    """

    experiment: str
    method: str
    training: Training
    predictor: Factory
    score: Score = field(default_factory=Scaled)
    calibrator: Factory | Calibrator = field(default_factory=Split)
    cal: int = 100
    test: int = 100
    draws: int = 1000
    levels: tuple[str, ...] = LEVELS
    grid: int = 0

    def __post_init__(self) -> None:
        for name, value, kinds, what in (
            ("predictor", self.predictor, Factory, "a Factory, called with the trained network"),
            ("score", self.score, Score, "a score such as Scaled()"),
        ):
            if not isinstance(value, kinds):
                raise TypeError(f"`{name}` of a cell should be {what}, got {value!r}.")
        if not isinstance(self.calibrator, Factory):
            refuse_whole(self.calibrator)

    @cached_property
    def key(self) -> str:
        """The hash of all inputs, the same on any machine."""
        return key_of(describe(self))


@dataclass(frozen=True)
class Study:
    """A list of cells, with a function that writes pages from their results.

    Parameters
    ----------
    name
        The name of the study.
    cells
        The cells, each with a different key.
    write
        A function `write(results, folder)` that writes pages and figures.

    Examples
    --------
    >>> import guardband as gb
    >>> from guardband import pinn
    >>> from guardband.lab.studies import Cell, Study, Training, Factory
    >>> training = Training(pinn.problems.Poisson1D(), widths=(16, 16), n=60)
    >>> cell = Cell("poisson", "constant", training, Factory(gb.predictors.MeanOnly))
    >>> def write(results, folder):
    ...     (folder / "page.md").write_text(f"{len(results)} results")
    >>> len(Study("mine", [cell], write).cells)
    1
    """

    name: str
    cells: Sequence[Cell]
    write: Callable[[Sequence[Result], Path], None]

    def __post_init__(self) -> None:
        if not self.cells:
            raise ValueError(
                f"The study {self.name!r} has no cells. At least one of the lists that define it is empty."
            )
        keys = [cell.key for cell in self.cells]
        if len(set(keys)) < len(keys):
            raise ValueError(
                f"{len(keys) - len(set(keys))} cells of the study {self.name!r} are duplicates. Remove them, "
                "or use different training seeds."
            )


def refuse_whole(calibrator: object) -> Calibrator:
    """Return the calibrator; refuse methods that train or calibrate on their own."""
    if isinstance(calibrator, Calibrator):
        return calibrator
    raise TypeError(
        "A study calibrates one trained network many times, with a Calibrator such as Split() or a "
        f"Factory of one; got {type(calibrator).__name__}. A method that trains models or calibrates on its "
        "own cannot be a cell; compare it with gb.evaluate on fresh points."
    )


def describe(value: object) -> Any:
    """Return a value as plain JSON: dataclasses by kind and fields, functions and classes by name.

    A field with `metadata={"neutral": value}` is omitted if it has that value, so that adding such a field
    to a class changes no key.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): describe(item) for name, item in value.items()}
    if isinstance(value, Factory):
        return {"use": describe(value.make), **describe(value.options)}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {part: describe(getattr(value, part.name)) for part in fields(value) if part.init}
        named = {part.name: its for part, its in parts.items() if not _neutral(part, its)}
        return {"kind": describe(type(value)), **named}
    name = getattr(value, "__qualname__", None)
    if name is None or "<" in name:
        raise TypeError(
            f"A cell should consist of numbers, words, dataclasses and named functions, got {value!r}. "
            "Write it as a `def` or a frozen dataclass at the top level of a file."
        )
    return f"{value.__module__.partition('.')[0]}.{name}"  # files inside a package may move


def key_of(described: object) -> str:
    """Return the key of a description: the beginning of the SHA-256 of its JSON with sorted names."""
    return hashlib.sha256(_text(described).encode()).hexdigest()[:16]


def _neutral(part: Field[object], described: object) -> bool:
    """Whether a field has its neutral value."""
    return "neutral" in part.metadata and _text(described) == _text(describe(part.metadata["neutral"]))


def _text(described: object) -> str:
    return json.dumps(described, sort_keys=True, allow_nan=False)
