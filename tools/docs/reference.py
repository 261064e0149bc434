"""The reference of the site, made when it is built: every public name, by section."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any

HEAD = """\
# The public names

`import guardband as gb` gives everything up to one dot. Each name is shown with an example that runs as it \
stands: the tests run them all.
"""

SECTIONS = {
    "Calibrate": """
        calibrate calibrate_arrays calibrate_cross conformal.CrossValidated conformal.CrossPrediction
        Tangent pinn.TangentCalibrated pinn.TangentPrediction
        partition choose choosing.Choice conformal.Chosen
        Calibrated points_needed raw_band InfiniteBandWarning
    """,
    "Scores and calibrators": """
        Scaled Absolute Total CQR
        Simultaneous Share Norm Quantity
        Split Grouped Clustered Weighted density_ratio RandomlyLocalized Conditional
        RiskControl conformal.ShareOutside
        Local LogScale PinballNetwork OverfittedWarning
        conformal.Truth GaussianNoise LaplaceNoise UniformNoise BoundedNoise conformal.NoiseLaw
    """,
    "Streams": """
        Stream streams.Outcome streams.Followed
        streams.AdaptiveLevel streams.DecayingSteps streams.ConformalPID streams.RollingWindow streams.Alarm
        streams.StreamMethod streams.Tracker
    """,
    "Values": """
        Observations Fields Prediction QuantilePrediction Predictor Band NormBand ShareBand LEVELS
        grids.FieldGrid
    """,
    "Predictors": """
        predictors.MeanOnly predictors.Given Quantiles predictors.Distance predictors.LatentDistance
        predictors.Dropout predictors.Ensemble predictors.LastLayerLaplace predictors.Laplace
        predictors.MeanFieldVI predictors.HMC predictors.Draws predictors.Outputs
        predictors.PredictionFunction
    """,
    "Surrogates": """
        Rollout surrogates.horizon surrogates.Horizon
        surrogates.adapted surrogates.Adapted surrogates.cross_fitted
        surrogates.ConstantScale surrogates.SizeScale surrogates.SmoothedScale surrogates.NetworkScale
        datasets.burgers datasets.darcy datasets.navier_stokes datasets.kuramoto_sivashinsky datasets.Dataset
    """,
    "Shapes": """
        Segment Rectangle Box Disk Sphere Polygon Mesh PointCloud Time
        geometry.Domain geometry.Boundary geometry.Piece geometry.edge geometry.Combination geometry.TimeSpan
    """,
    "Problems and training": """
        Problem problems.Field problems.AutogradField problems.Names
        Dirichlet Neumann Robin Periodic Initial PointValue problems.Condition
        problems.noise.Noise problems.noise.Even problems.noise.Islands problems.noise.NoisyDisk
        problems.noise.Ring problems.noise.DiscAndCorner problems.noise.Front
        mlp Constrained fit Fitted Likelihood Recipe TrainingDiverged TrainingInterrupted
        verdict Verdict
        pinn.Moment pinn.Windowed
    """,
    "The catalogue": """
        problems.Heat1D problems.Wave1D problems.Burgers1D problems.AllenCahn1D problems.KortewegDeVries
        problems.Advection1D problems.KuramotoSivashinsky problems.ReactionDiffusion1D problems.LotkaVolterra
        problems.Beam problems.VibratingBeam problems.Kovasznay problems.TaylorGreen2D problems.Cavity
        problems.Cylinder problems.PoissonLShape problems.PlateWithHole problems.HeatDisk
        problems.Poisson1D problems.AllenCahn2D problems.Helmholtz3D problems.DampedOscillator
        problems.Reference
    """,
    "Coefficients": """
        Unknown pinn.PointEstimates Family SolvedFamily coefficients Estimates ConfidenceRegion
        next_points inverse.NextPoints inverse.laplace_intervals inverse.JointIntervals
        inverse.sign_perturbed inverse.permuted inverse.wald inverse.profile inverse.doubt inverse.Doubt
        inverse.Envelope
    """,
    "Look and check": """
        evaluate Evaluation evaluation.Row evaluation.Ranges evaluation.Range check Findings
        metrics.coverage metrics.sharpness metrics.interval_score metrics.relative_l2 metrics.acd
        metrics.acd_floor metrics.Floor
        metrics.crps metrics.energy_score metrics.quantile_loss metrics.pit metrics.Average metrics.Histogram
        plot.overview plot.band plot.width plot.slices plot.heatmap plot.fields plot.coverage_curve
        plot.history plot.trace plot.region plot.misfit plot.residuals
    """,
    "Keep and show": """
        save load kept ArtifactError store.manifest report export_onnx
        band_over FieldBand write_mesh StoredFields StoredBand calibrate_stored evaluate_stored
        conformal.order_statistics conformal.calibrate_shards
        tables.Table tables.read tables.write tables.TableError
    """,
    "Where you work": """
        integrations.sklearn.ConformalRegressor integrations.xarray.DatasetBands
        integrations.mlflow.log_model integrations.mlflow.LoggedBand
    """,
    "Adapters": """
        adapters.from_deepxde adapters.from_jax adapters.from_neuralop adapters.nodes adapters.from_onnx
        adapters.from_pina
    """,
    "Studies": """
        studies.Factory studies.Training studies.Cell studies.Study studies.grid studies.Result
        campaign.run campaign.status campaign.Status campaign.results campaign.pack
    """,
    "The paper": "paper.study paper.settings paper.Settings paper.recipe paper.likelihood",
    "For authors of methods": """
        testing.check_predictor testing.check_score testing.check_threshold testing.check_calibrator
        testing.check_problem testing.check_domain testing.exchangeable
        testing.two_groups testing.new_sensors testing.World testing.Draw testing.untouched
        conformal.Score conformal.Symmetric conformal.Calibrator conformal.Learned conformal.Threshold
        conformal.Size conformal.ScoreCalibrated conformal.CoverageLaw
        conformal.quantile conformal.rank conformal.confident_rank
        pinn.MLP pinn.differentiate pinn.Potential pinn.Prior
    """,
}
"""The sections in order, each with its names, to be read behind `guardband.`."""


def names() -> list[str]:
    """All names of the reference, in order."""
    return [name for section in SECTIONS.values() for name in section.split()]


def pages() -> dict[str, str]:
    """The pages by name: an index, and one for each section."""
    index = [HEAD]
    made = {}
    for title, section in SECTIONS.items():
        file = f"{title.lower().replace(' ', '-')}.md"
        rows = [f"| [`{name}`]({file}#{home(name)}) | {meaning(name)} |" for name in section.split()]
        index += [f"## [{title}]({file})\n", "| name | what it is |\n|---|---|", *rows, ""]
        entries = [entry(name) for name in section.split()]
        made[file] = "\n".join([f"# {title}\n", *entries])
    return {"index.md": "\n".join(index), **made}


def entry(name: str) -> str:
    """What mkdocstrings makes an entry of, under the name that users write."""
    return f"::: {home(name)}\n    options:\n      heading: gb.{name}\n      toc_label: {name}\n"


def home(name: str) -> str:
    """The full path of a name to where it is defined: some functions are called like their module."""
    value = found(name)[1]
    if constant(name):
        return f"guardband.{name}"
    return f"{value.__module__}.{value.__qualname__}"


def meaning(name: str) -> str:
    """The first sentence of a docstring, for a table."""
    return " ".join(docstring(name).split("\n\n")[0].split()).replace("|", "\\|")


def docstring(name: str) -> str:
    """The docstring of a name; that of a constant is the string below it."""
    module, value = found(name)
    if not constant(name):
        return inspect.cleandoc(value.__doc__ or "")
    word = name.rpartition(".")[2]
    return next(text for place in _origins(module, word) for text in _below(place, word))


def constant(name: str) -> bool:
    """Whether a name has no docstring of its own, being neither a class nor a function of ours."""
    value = found(name)[1]
    return not getattr(value, "__module__", "").startswith("guardband")


def found(name: str) -> tuple[ModuleType, Any]:
    """The module a name is read from, and what it is."""
    place, _, word = f"guardband.{name}".rpartition(".")
    module = importlib.import_module(place)
    return module, getattr(module, word)


def _origins(module: ModuleType, word: str) -> Iterator[ModuleType]:
    """The module itself, and those in it or below it from which it has a name."""
    yield module
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.module and word in [part.name for part in node.names]:
            yield from _origins(importlib.import_module(node.module), word)


def _below(module: ModuleType, word: str) -> Iterator[str]:
    """The string below the line in which a module sets a name."""
    body = ast.parse(inspect.getsource(module)).body
    for node, after in pairwise(body):
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == word and isinstance(after, ast.Expr):
            yield inspect.cleandoc(ast.literal_eval(after.value))
