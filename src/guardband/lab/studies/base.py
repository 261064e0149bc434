"""Studies: which method keeps its promise, over many trainings and many calibrations of each.

A `Training` says how a network is made, a `Cell` what is done with it; both are frozen inputs with a stable
key. A `Study` is a list of cells and a way to make pages of their results. `campaign.run` runs the cells.
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
from guardband.pinn.networks.networks import mlp
from guardband.pinn.problems import Problem
from guardband.pinn.problems.noise import Noise
from guardband.pinn.training.fitted import Fitted
from guardband.pinn.training.recipe import Recipe
from guardband.pinn.training.train import fit
from guardband.values import Observations

Result: TypeAlias = dict[str, Any]
"""What a campaign writes of a cell: its inputs, what was measured, versions, threads, times and the lease.

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
    """A class or function and its options, to be called when a network is there.

    It is known by its name, so it must be one that can be imported: not a lambda.

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
        """Call it on what a cell has: a `Fitted` for predictors, `Observations` for calibrators."""
        return self.make(source, **self.options)

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Factory({self.make.__name__}{options})"


@dataclass(frozen=True)
class Training:
    """A network and how it is trained: `n` noisy observations of a problem whose solution is known.

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
        """A stable name: the same for the same inputs, on any machine."""
        return key_of(describe(self))

    def observe(self) -> Observations:
        """The training data."""
        return self.problem.observe(self.n, noise=self.noise, seed=1000 + self.seed)

    def net(self) -> Any:
        """The network before training."""
        d, outputs = self.problem.domain.d, len(self.problem.names.outputs)
        options: dict[str, Any] = {"dropout": self.dropout, "where": self.where, "seed": self.seed}
        return mlp(d, self.widths, outputs=outputs, **options)

    def fit(self, checkpoint: Path | None = None, *, progress: bool = False) -> Fitted:
        """Train; with a `checkpoint` a killed training goes on where it was."""
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
    """One method on one training: what is predicted, how it is calibrated, how often, on how many points.

    `experiment` and `method` are its labels in tables; everything else decides what is computed. With `grid`
    the result also holds the band of one calibration on so many points per axis, for figures.

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
            ("predictor", self.predictor, Factory, "a Factory, called when a network is there"),
            ("score", self.score, Score, "a score such as Scaled()"),
        ):
            if not isinstance(value, kinds):
                raise TypeError(f"`{name}` of a cell should be {what}, got {value!r}.")
        if not isinstance(self.calibrator, Factory):
            refuse_whole(self.calibrator)

    @cached_property
    def key(self) -> str:
        """A stable name: the same for the same inputs, on any machine."""
        return key_of(describe(self))


@dataclass(frozen=True)
class Study:
    """Cells, and what becomes of their results: `write(results, folder)` makes pages and figures.

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
                f"The study {self.name!r} has no cells. Look at the lists it was made of: one is empty."
            )
        keys = [cell.key for cell in self.cells]
        if len(set(keys)) < len(keys):
            raise ValueError(
                f"{len(keys) - len(set(keys))} cells of the study {self.name!r} are there twice. Leave them "
                "out, or tell them apart by the seed of their training."
            )


def refuse_whole(calibrator: Any) -> Calibrator:
    """The calibrator, or an error: what trains or calibrates by itself cannot be calibrated again."""
    if isinstance(calibrator, Calibrator):
        return calibrator
    raise TypeError(
        "A study calibrates one trained network again and again, by a Calibrator such as Split() or a "
        f"Factory of one; got {type(calibrator).__name__}. A method that trains models or calibrates by "
        "itself cannot be a cell; compare it by gb.evaluate on fresh points."
    )


def describe(value: Any) -> Any:
    """A value as plain JSON: dataclasses by their kind and fields, functions and classes by their names.

    A field with `metadata={"neutral": value}` is left out where it has that value: what was described before
    the field was there is described alike, and has the same key.
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
        said = {part.name: its for part, its in parts.items() if not _neutral(part, its)}
        return {"kind": describe(type(value)), **said}
    name = getattr(value, "__qualname__", None)
    if name is None or "<" in name:
        raise TypeError(
            f"A cell should be made of numbers, words, dataclasses and named functions, got {value!r}. "
            "Write it as a `def` or a frozen dataclass at the top of a file."
        )
    return f"{value.__module__.partition('.')[0]}.{name}"  # files inside a package may move


def key_of(described: Any) -> str:
    """The key of what `describe` gave: the start of the SHA-256 of its JSON with sorted names."""
    return hashlib.sha256(_text(described).encode()).hexdigest()[:16]


def _neutral(part: Field[Any], described: Any) -> bool:
    """Whether a field is as if it were not there."""
    return "neutral" in part.metadata and _text(described) == _text(describe(part.metadata["neutral"]))


def _text(described: Any) -> str:
    return json.dumps(described, sort_keys=True, allow_nan=False)
