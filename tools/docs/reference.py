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

`import guardband as gb` and `from guardband import lab, pinn` give all of them. Each name has an example \
that runs as it stands.
"""

SECTIONS = {
    "Calibrate": """
        calibrate calibrate_arrays calibration.calibrate_cross conformal.CrossValidated
        conformal.CrossPrediction pinn.Tangent pinn.TangentCalibrated pinn.TangentPrediction partition
        choose calibration.Choice calibration.Parts conformal.Chosen Calibrated conformal.points_needed
        conformal.raw_band
        conformal.InfiniteBandWarning
    """,
    "Scores and calibrators": """
        Scaled Absolute conformal.Total CQR Simultaneous Share Norm Quantity Split Grouped Clustered
        Weighted conformal.density_ratio conformal.RandomlyLocalized Conditional RiskControl
        conformal.ShareOutside Local conformal.LogScale pinn.PinballNetwork conformal.OverfittedWarning
        conformal.Truth conformal.GaussianNoise conformal.LaplaceNoise conformal.UniformNoise
        conformal.BoundedNoise conformal.NoiseLaw
    """,
    "Streams": """
        Stream streams.Outcome streams.Followed streams.AdaptiveLevel streams.DecayingSteps
        streams.ConformalPID streams.RollingWindow streams.Alarm streams.StreamMethod streams.Tracker
    """,
    "Values": """
        Observations Fields Prediction conformal.QuantilePrediction Predictor Band values.NormBand
        conformal.ShareBand conformal.LEVELS values.grids.FieldGrid
    """,
    "Predictors": """
        predictors.MeanOnly predictors.Given Quantiles predictors.Distance pinn.predictors.LatentDistance
        pinn.predictors.Dropout predictors.Ensemble pinn.predictors.train_ensemble
        pinn.predictors.LastLayerLaplace
        pinn.predictors.Laplace pinn.predictors.MeanFieldVI pinn.predictors.HMC pinn.predictors.Draws
        predictors.Outputs predictors.PredictionFunction
    """,
    "Surrogates": """
        Rollout surrogates.horizon surrogates.Horizon surrogates.adapted pinn.surrogates.adapted
        surrogates.Adapted surrogates.cross_fitted surrogates.ConstantScale surrogates.SizeScale
        surrogates.SmoothedScale pinn.surrogates.NetworkScale datasets.burgers datasets.darcy
        datasets.navier_stokes datasets.kuramoto_sivashinsky datasets.Dataset
    """,
    "Shapes": """
        pinn.Segment pinn.Rectangle pinn.Box pinn.Disk pinn.Sphere pinn.Polygon pinn.Mesh pinn.PointCloud
        pinn.Time pinn.geometry.Domain pinn.geometry.Boundary pinn.geometry.Piece pinn.geometry.edge
        pinn.geometry.Combination pinn.geometry.TimeSpan
    """,
    "Problems and training": """
        pinn.Problem pinn.problems.Field pinn.problems.AutogradField pinn.problems.Names pinn.Dirichlet
        pinn.Neumann pinn.Robin pinn.Periodic pinn.Initial pinn.PointValue pinn.problems.Condition
        pinn.Term
        pinn.problems.noise.Noise pinn.problems.noise.Even pinn.problems.noise.Islands
        pinn.problems.noise.NoisyDisk pinn.problems.noise.Ring pinn.problems.noise.DiscAndCorner
        pinn.problems.noise.Front pinn.mlp pinn.Constrained pinn.fit pinn.Fitted pinn.Likelihood
        pinn.Recipe pinn.TrainingDiverged pinn.TrainingInterrupted pinn.verdict pinn.Verdict pinn.Moment
        pinn.Windowed
    """,
    "The catalogue": """
        pinn.problems.Heat1D pinn.problems.Wave1D pinn.problems.Burgers1D pinn.problems.AllenCahn1D
        pinn.problems.KortewegDeVries pinn.problems.Advection1D pinn.problems.KuramotoSivashinsky
        pinn.problems.ReactionDiffusion1D pinn.problems.LotkaVolterra pinn.problems.Beam
        pinn.problems.VibratingBeam pinn.problems.Kovasznay pinn.problems.TaylorGreen2D
        pinn.problems.Cavity pinn.problems.Cylinder pinn.problems.PoissonLShape
        pinn.problems.PlateWithHole pinn.problems.HeatDisk pinn.problems.Poisson1D
        pinn.problems.AllenCahn2D pinn.problems.Helmholtz3D pinn.problems.DampedOscillator
        pinn.problems.Reference
    """,
    "Coefficients": """
        pinn.Unknown pinn.PointEstimates pinn.Family pinn.SolvedFamily pinn.coefficients pinn.Estimates
        pinn.ConfidenceRegion pinn.next_points pinn.inverse.NextPoints pinn.inverse.laplace_intervals
        pinn.inverse.JointIntervals pinn.inverse.sign_perturbed pinn.inverse.permuted pinn.inverse.wald
        pinn.inverse.profile pinn.inverse.doubt pinn.inverse.Doubt pinn.inverse.Envelope
    """,
    "Look and check": """
        evaluate evaluation.Evaluation evaluation.Row evaluation.Ranges evaluation.Range evaluation.Trend
        check checks.Findings metrics.coverage metrics.sharpness metrics.interval_score
        metrics.relative_l2 metrics.acd metrics.acd_floor metrics.Floor metrics.crps metrics.energy_score
        metrics.quantile_loss metrics.pit metrics.Average metrics.Histogram plot.overview plot.band
        plot.width plot.slices plot.heatmap plot.fields plot.coverage_curve pinn.plot.history
        pinn.plot.trace pinn.plot.region pinn.plot.misfit pinn.plot.residuals
    """,
    "Keep and show": """
        save load kept store.ArtifactError store.manifest report export_onnx band_over fields.FieldBand
        fields.write_mesh StoredFields fields.StoredBand
        conformal.order_statistics conformal.calibrate_shards tables.Table tables.read tables.write
        tables.TableError
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
        lab.studies.Factory lab.studies.Training lab.studies.Cell lab.studies.Study lab.studies.grid
        lab.studies.Result lab.campaign.run lab.campaign.status lab.campaign.Status lab.campaign.results
        lab.campaign.pack
    """,
    "The paper": """
        lab.paper.study lab.paper.settings lab.paper.Settings lab.paper.recipe lab.paper.likelihood
    """,
    "For authors of methods": """
        testing.check_predictor testing.check_score testing.check_threshold testing.check_calibrator
        pinn.testing.check_problem pinn.testing.check_domain testing.exchangeable testing.two_groups
        testing.new_sensors testing.World testing.Draw testing.untouched conformal.Score
        conformal.Symmetric conformal.Calibrator conformal.Learned conformal.Threshold conformal.Traits
        conformal.Size conformal.ScoreCalibrated conformal.CoverageLaw conformal.quantile conformal.rank
        conformal.confident_rank pinn.Network pinn.MLP pinn.differentiate pinn.Potential pinn.Prior
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
    return f"::: {home(name)}\n    options:\n      heading: {written(name)}\n      toc_label: {name}\n"


def written(name: str) -> str:
    """A name as users write it."""
    return name if name.startswith(("pinn.", "lab.")) else f"gb.{name}"


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
