"""The paper's experiments (arXiv:2509.13717) in two presets, with additional methods.

`ours` trains with the library's defaults, `paper` with the paper's steps, weights and full batches. Errors
of the paper are corrected in both: exact ranks, noise applied once, root mean square distances, the
penultimate layer, a proper posterior, and the same predictor before and after calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from guardband.conformal import Absolute, Calibrator, Local, LogScale, RandomlyLocalized, Scaled, Score, Split
from guardband.lab.paper.settings import Settings, likelihood, recipe, settings
from guardband.lab.studies.base import Cell, Factory, Training
from guardband.pinn import PinballNetwork
from guardband.pinn.misses.likelihood import Likelihood
from guardband.pinn.predictors import LatentDistance
from guardband.pinn.predictors.dropout import Dropout
from guardband.pinn.predictors.hmc import HMC
from guardband.pinn.predictors.laplace import Laplace, LastLayerLaplace
from guardband.pinn.predictors.potential import Prior
from guardband.pinn.predictors.variational import MeanFieldVI
from guardband.pinn.problems import AllenCahn2D, DampedOscillator, Helmholtz3D, Poisson1D, Problem, noise
from guardband.pinn.training.fitted import Fitted
from guardband.pinn.training.recipe import Recipe
from guardband.predictors import Distance, Given, MeanOnly
from guardband.values import Observations

Preset = Literal["ours", "paper"]
PRESETS: tuple[Preset, ...] = ("ours", "paper")


@dataclass(frozen=True)
class Experiment:
    """A problem of the paper with its noise, its tables and figures, and its number of seeds.

    `noise_assumed` is the noise scale of our likelihood, if it differs from that of most points.
    """

    problem: Problem
    noise: float | noise.Noise
    test: int
    feeds: tuple[str, ...]
    paper_seeds: int
    grid: int = 0
    noise_assumed: float | None = None

    @property
    def settings(self) -> Settings:
        """The sizes of the paper."""
        return settings(self.problem)


EXPERIMENTS: dict[str, Experiment] = {
    "poisson": Experiment(Poisson1D(), 0.15, 75, ("figure2",), 5, grid=201),
    "allen-cahn": Experiment(AllenCahn2D(), 0.05, 100, ("table1", "figure3", "figure4"), 5, grid=32),
    "helmholtz": Experiment(Helmholtz3D(), 0.05, 200, ("table2", "figure5"), 2),
    "oscillator": Experiment(
        DampedOscillator(),
        noise.Islands(),
        1000,
        ("table3", "figure6", "figure7"),
        5,
        grid=401,
        noise_assumed=0.14,  # the root mean square: a quarter of the points lie in islands
    ),
    "A": Experiment(AllenCahn2D(), noise.NoisyDisk(), 2000, ("figure8", "figure9"), 3, grid=32),
    "B": Experiment(AllenCahn2D(), noise.Ring(), 2000, ("figure8", "figure9"), 3, grid=32),
    "C": Experiment(AllenCahn2D(), noise.DiscAndCorner(), 2000, ("figure8", "figure9"), 3, grid=32),
}

SLOW_SEEDS = {"VI": 3, "HMC": 3}
"""Seeds of slow methods: in the preset `paper`, VI and HMC on Allen-Cahn take many minutes each."""


def cells(name: str, experiment: Experiment, preset: Preset, seed: int, draws: int) -> Iterator[Cell]:
    """Yield the cells of one experiment, preset and training seed."""
    for method in METHODS[name]:
        slow = preset == "paper" and name == "allen-cahn" and seed >= SLOW_SEEDS.get(method.name, seed + 1)
        if slow or (preset == "paper" and method.added):
            continue
        use = method.paper if preset == "paper" and method.paper else method.use
        training = method.training(experiment, preset, seed)
        for how, (score, calibrator) in method.calibrated.items():
            cell = Cell(
                f"{name}, {preset}",
                f"{method.name}, {how}" if how else method.name,
                training,
                use,
                score,
                calibrator,
                cal=experiment.settings.cal,
                test=experiment.test,
                draws=draws,
                grid=experiment.grid if seed == 0 else 0,
            )
            yield (
                cell if calibrator is not LOCALIZED else replace(cell, levels=("0.95",), draws=min(50, draws))
            )


def localized(training_data: Observations) -> RandomlyLocalized:
    """Return randomly localized conformal prediction with a bandwidth from the training points."""
    return RandomlyLocalized(inputs=training_data.x)


def oracle(fitted: Fitted, field: noise.Noise) -> Given:
    """Return the network with the true standard deviation of the noise, which is unknown in practice."""
    return Given(fitted, lambda x: field(torch.as_tensor(x)).numpy())


def _plain(e: Experiment, preset: Preset, seed: int, steps: int | None = None) -> Training:
    """Return the `Training` shared by distances, Laplace and local bands."""
    if preset == "ours":
        return _training(
            e, seed, likelihood=None if e.noise_assumed is None else Likelihood(data=e.noise_assumed)
        )
    theirs = recipe(e.problem)
    return _training(
        e, seed, likelihood=likelihood(e.problem), recipe=replace(theirs, steps=steps or theirs.steps)
    )


def _shorter(e: Experiment, preset: Preset, seed: int) -> Training:
    """Return a `Training` of 4500 steps, as for the paper's geometric distances on Allen-Cahn."""
    return _plain(e, preset, seed, steps=4500)


def _dropped(e: Experiment, preset: Preset, seed: int) -> Training:
    """Return a `Training` with dropout: before the last layer (ours), or before every layer (the paper's)."""
    if preset == "ours":
        return _training(e, seed, dropout=0.05)
    weighted = Likelihood.from_weights(data=1, physics=1, boundary=10)
    return _training(e, seed, likelihood=weighted, recipe=recipe(e.problem), dropout=0.1, where="all")


def _bayesian(e: Experiment, preset: Preset, seed: int) -> Training:
    """Return the `Training` from which chains and VI start; the paper's weights 3/10/1 are noise scales."""
    if preset == "ours":
        return _training(e, seed)
    sd = float(e.noise)  # type: ignore[arg-type]
    scales = Likelihood(data=sd, physics=sd / 3**0.5, boundary=sd / 10**0.5)
    return _training(e, seed, likelihood=scales, recipe=recipe(e.problem))


def _training(e: Experiment, seed: int, **options: Any) -> Training:
    return Training(e.problem, e.settings.widths, e.settings.train, e.noise, seed, **options)


@dataclass(frozen=True)
class Method:
    """A row of a table: the training of the network, the predictor, and its calibrations.

    `use` is the predictor of our preset, `paper` that of the paper's preset if it differs. An `added` row is
    not in the paper.
    """

    name: str
    use: Factory
    calibrated: dict[str, tuple[Score, Factory | Calibrator]]
    training: Callable[[Experiment, Preset, int], Training] = _plain
    paper: Factory | None = None
    added: bool = False


LOCALIZED = Factory(localized)
VANILLA, SCALED = (Absolute(), Split()), (Scaled(), Split())
BOTH: dict[str, tuple[Score, Factory | Calibrator]] = {"vanilla": VANILLA, "scaled": SCALED}

QUIET = {"progress": False}
CHAIN: dict[str, Any] = {
    "draws": 5500,
    "warmup": 500,
    "leapfrog": 10,
    "prior": Prior(0.55),
    "n_interior": 1024,
    "n_boundary": 800,
}
"""The paper's chain. Its step size is adapted here, since the potential differs from the paper's."""


def _variational(steps: int, n_interior: int, n_boundary: int) -> Method:
    """Return mean-field VI; the paper's version is untempered and long."""
    long = {
        "kl": 1.0,
        "steps": steps,
        "learning_rate": 1e-3,
        "n_interior": n_interior,
        "n_boundary": n_boundary,
    }
    return Method("VI", Factory(MeanFieldVI, **QUIET), BOTH, _bayesian, Factory(MeanFieldVI, **long, **QUIET))


def _following(n_neighbors: int, field: noise.Noise) -> list[Method]:
    """Return the methods for heteroscedastic noise, on one network."""
    distance = Factory(Distance, n_neighbors=n_neighbors)
    plain = _plain if isinstance(field, noise.Islands) else _shorter
    return [
        Method(
            "constant width", Factory(MeanOnly), {"": VANILLA, "local": (Scaled(), Factory(Local))}, plain
        ),
        Method("distance", distance, {"scaled": SCALED, "local": (Scaled(), Factory(Local))}, plain),
        Method(
            "distance, pinball network",
            distance,
            {"local": (Scaled(), Factory(Local, learner=PinballNetwork()))},
            plain,
        ),
        Method("localized", Factory(MeanOnly), {"": (Absolute(), LOCALIZED)}, plain, added=True),
        Method("oracle", Factory(oracle, field=field), {"scaled": SCALED}, plain, added=True),
    ]


METHODS: dict[str, list[Method]] = {
    "poisson": [
        Method("constant width", Factory(MeanOnly), {"": VANILLA}, _bayesian),
        Method("Laplace", Factory(Laplace), {"scaled": SCALED}, _bayesian, added=True),
        _variational(5000, 200, 2),
    ],
    "allen-cahn": [
        Method(
            "constant width", Factory(MeanOnly), {"": VANILLA, "local": (Scaled(), Factory(Local))}, _shorter
        ),
        Method("distance", Factory(Distance, n_neighbors=20), {"scaled": SCALED}, _shorter),
        Method("latent distance", Factory(LatentDistance, n_neighbors=20), {"scaled": SCALED}),
        Method("Laplace", Factory(Laplace), {"scaled": SCALED}, added=True),
        Method("last-layer Laplace", Factory(LastLayerLaplace), {"scaled": SCALED}, added=True),
        Method("dropout", Factory(Dropout), BOTH, _dropped),
        _variational(30_000, 1024, 800),
        Method("HMC", Factory(HMC, **QUIET), BOTH, _bayesian, Factory(HMC, **CHAIN, **QUIET)),
    ],
    "helmholtz": [
        Method("constant width", Factory(MeanOnly), {"": VANILLA}),
        Method("distance", Factory(Distance, n_neighbors=15), {"scaled": SCALED}),
        Method("latent distance", Factory(LatentDistance, n_neighbors=10), {"scaled": SCALED}),
        Method("last-layer Laplace", Factory(LastLayerLaplace), {"scaled": SCALED}, added=True),
        Method("dropout", Factory(Dropout), BOTH, _dropped),
    ],
    "oscillator": _following(20, noise.Islands()),
    "A": _following(30, noise.NoisyDisk()),
    "B": _following(30, noise.Ring()),
    "C": _following(30, noise.DiscAndCorner()),
}


def shortened(cell: Cell) -> Cell:
    """Return the same cell with a training run of a few seconds."""
    quick = Recipe(steps=40, finish=20, n_interior=64, n_boundary=32)
    training = replace(cell.training, widths=(16, 16), recipe=quick, likelihood=None)
    short = {MeanFieldVI: {"steps": 20}, HMC: {"draws": 6, "warmup": 4, "n_interior": 32, "n_boundary": 32}}
    use = cell.predictor
    if use.make in short:
        use = Factory(use.make, **{**use.options, **short[use.make]})
    calibrator = cell.calibrator
    if isinstance(calibrator, Factory) and calibrator.make is Local:
        network = "learner" in calibrator.options
        calibrator = Factory(Local, learner=PinballNetwork(steps=40) if network else LogScale(draws=5))
    return replace(cell, training=training, predictor=use, calibrator=calibrator)
