"""The reference, generated when the site is built: every public name, by section."""

import ast
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any

HEAD = """\
# The public names

Import them with `import guardband as gb` and `from guardband import lab, pinn`. Each name has an example \
that runs on its own.
"""

SECTIONS = {
    "Calibration": """
        calibrate Calibrated calibrate_arrays conformal.InfiniteBandWarning
    """,
    "Cross-validation and selection": """
        partition calibration.Parts choose calibration.Choice conformal.Chosen
        calibration.calibrate_cross conformal.CrossValidated conformal.CrossPrediction pinn.Tangent
        pinn.TangentCalibrated pinn.TangentPrediction conformal.points_needed conformal.raw_band
    """,
    "Scores": """
        Scaled Absolute conformal.Total CQR Simultaneous Share Norm Quantity
    """,
    "Calibrators": """
        Split Local conformal.LogScale pinn.PinballNetwork conformal.OverfittedWarning Grouped
        Clustered Weighted conformal.density_ratio conformal.RandomlyLocalized Conditional
        RiskControl conformal.ShareOutside conformal.Truth conformal.GaussianNoise
        conformal.LaplaceNoise conformal.UniformNoise conformal.BoundedNoise
    """,
    "Streams": """
        Stream streams.Outcome streams.Followed streams.AdaptiveLevel streams.DecayingSteps
        streams.ConformalPID streams.RollingWindow streams.Alarm
    """,
    "Values": """
        Band Observations Prediction conformal.QuantilePrediction values.NormBand
        conformal.ShareBand conformal.LEVELS pinn.problems.Names
    """,
    "Predictors": """
        predictors.MeanOnly predictors.Given Quantiles predictors.Distance predictors.Ensemble
        predictors.Outputs pinn.predictors.Laplace pinn.predictors.LastLayerLaplace
        pinn.predictors.Dropout pinn.predictors.LatentDistance pinn.predictors.train_ensemble
        pinn.predictors.MeanFieldVI pinn.predictors.HMC pinn.predictors.Draws
    """,
    "Surrogates": """
        surrogates.adapted pinn.surrogates.adapted surrogates.Adapted surrogates.cross_fitted
        surrogates.ConstantScale surrogates.SizeScale surrogates.SmoothedScale
        pinn.surrogates.NetworkScale Rollout surrogates.horizon surrogates.Horizon datasets.burgers
        datasets.darcy datasets.navier_stokes datasets.kuramoto_sivashinsky datasets.Dataset
    """,
    "Fields": """
        Fields values.grids.FieldGrid band_over fields.FieldBand StoredFields fields.StoredBand
        fields.write_mesh conformal.calibrate_shards conformal.order_statistics
    """,
    "Decisions": """
        decide decisions.Decisions decisions.ToleranceLimits conformal.OneSided screen
        decisions.Selection Hybrid decisions.Answers decisions.Command decisions.SolverFailed
        decisions.certify decisions.Certificate decisions.Audit decisions.validation
        decisions.Validation decisions.GridConvergence
    """,
    "Evaluation and checks": """
        evaluate evaluation.Evaluation evaluation.Row evaluation.Ranges evaluation.Range
        evaluation.Trend check checks.Findings
    """,
    "Metrics": """
        metrics.coverage metrics.sharpness metrics.interval_score metrics.relative_l2 metrics.acd
        metrics.acd_floor metrics.Floor metrics.crps metrics.energy_score metrics.quantile_loss
        metrics.pit metrics.Average metrics.Histogram
    """,
    "Plots": """
        plot.overview plot.band plot.width plot.slices plot.heatmap plot.fields plot.coverage_curve
        pinn.plot.history pinn.plot.trace pinn.plot.region pinn.plot.misfit pinn.plot.residuals
    """,
    "Saving and reports": """
        save load kept store.manifest store.ArtifactError report export_onnx tables.read
        tables.write tables.Table tables.TableError
    """,
    "Integrations": """
        integrations.sklearn.ConformalRegressor integrations.xarray.DatasetBands
        integrations.mlflow.log_model integrations.mlflow.LoggedBand
    """,
    "Adapters": """
        adapters.from_deepxde adapters.from_jax adapters.from_neuralop adapters.nodes
        adapters.from_onnx adapters.from_pina
    """,
    "Problems": """
        pinn.Problem pinn.problems.Field pinn.Dirichlet pinn.Neumann pinn.Robin pinn.Periodic
        pinn.Initial pinn.PointValue pinn.Term
    """,
    "Shapes": """
        pinn.Segment pinn.Rectangle pinn.Box pinn.Disk pinn.Sphere pinn.Polygon pinn.Mesh
        pinn.PointCloud pinn.Time pinn.geometry.edge pinn.geometry.Combination
        pinn.geometry.TimeSpan
    """,
    "Networks": """
        pinn.mlp pinn.MLP pinn.Constrained pinn.Windowed pinn.Potential pinn.differentiate
    """,
    "Training": """
        pinn.fit pinn.Fitted pinn.Recipe pinn.Likelihood pinn.Moment pinn.TrainingDiverged
        pinn.TrainingInterrupted
    """,
    "Verdicts": """
        pinn.verdict pinn.Verdict
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
    "Noise models": """
        pinn.problems.noise.Even pinn.problems.noise.Islands pinn.problems.noise.NoisyDisk
        pinn.problems.noise.Ring pinn.problems.noise.DiscAndCorner pinn.problems.noise.Front
        pinn.problems.noise.Noise
    """,
    "Coefficients": """
        pinn.coefficients pinn.ConfidenceRegion pinn.Estimates pinn.Unknown pinn.next_points
        pinn.inverse.NextPoints
    """,
    "Tests of coefficients": """
        pinn.Family pinn.SolvedFamily pinn.PointEstimates pinn.inverse.sign_perturbed
        pinn.inverse.permuted pinn.inverse.wald pinn.inverse.profile pinn.inverse.laplace_intervals
        pinn.inverse.JointIntervals pinn.inverse.doubt pinn.inverse.Doubt pinn.inverse.Envelope
    """,
    "Studies": """
        lab.studies.Study lab.studies.Cell lab.studies.Training lab.studies.grid lab.studies.Factory
        lab.studies.Result lab.campaign.run lab.campaign.status lab.campaign.Status
        lab.campaign.results lab.campaign.pack
    """,
    "The paper": """
        lab.paper.study lab.paper.settings lab.paper.Settings lab.paper.recipe lab.paper.likelihood
    """,
    "Base classes of scores": """
        conformal.Score conformal.Symmetric conformal.quantile conformal.rank
        conformal.confident_rank conformal.CoverageLaw
    """,
    "Base classes of calibrators": """
        conformal.Calibrator conformal.Learned conformal.Threshold conformal.Traits conformal.Size
        conformal.ScoreCalibrated
    """,
    "Base classes of predictors and streams": """
        Predictor predictors.PredictionFunction conformal.NoiseLaw streams.StreamMethod
        streams.Tracker
    """,
    "Base classes of problems and networks": """
        pinn.problems.Condition pinn.problems.AutogradField pinn.Network pinn.Prior
    """,
    "Base classes of shapes": """
        pinn.geometry.Domain pinn.geometry.Boundary pinn.geometry.Piece
    """,
    "Tests of methods": """
        testing.check_predictor testing.check_score testing.check_threshold testing.check_calibrator
        pinn.testing.check_problem pinn.testing.check_domain testing.exchangeable testing.two_groups
        testing.new_sensors testing.World testing.Draw testing.untouched
    """,
}
"""The sections in order, each with its names, relative to `guardband`."""


TYPES = """\
# Types

Signatures use these names for values that may be of several types.

"""


def names() -> list[str]:
    """All names of the reference, in order."""
    return [name for section in SECTIONS.values() for name in section.split()]


def pages() -> dict[str, str]:
    """The pages by name: an index, one for each section, and one for the type aliases."""
    index = [HEAD]
    made = {}
    for title, section in SECTIONS.items():
        file = f"{title.lower().replace(' ', '-')}.md"
        rows = [f"| [`{name}`]({file}#{home(name)}) | {meaning(name)} |" for name in section.split()]
        index += [f"## [{title}]({file})\n", "| name | meaning |\n|---|---|", *rows, ""]
        entries = [entry(name) for name in section.split()]
        made[file] = "\n".join([f"# {title}\n", *entries])
    paths = aliases()
    rows = [f"| [`{path.rpartition('.')[2]}`](types.md#{path}) | {paths[path]} |" for path in paths]
    index += ["## [Types](types.md)\n", "| name | meaning |\n|---|---|", *rows, ""]
    made["types.md"] = TYPES + "\n".join(alias_entry(path) for path in paths)
    return {"index.md": "\n".join(index), **made}


def aliases() -> dict[str, str]:
    """The documented type aliases in signatures of public names: path and first sentence of each, sorted."""
    sentences, listed = {}, {name for name in names() if constant(name)}
    for name in [name for name in names() if name not in listed]:
        value = found(name)[1]
        for word in annotated(value):
            for place in _origins(importlib.import_module(value.__module__), word):
                for text in _below(place, word, alias=True):
                    sentences[f"{place.__name__}.{word}"] = first_sentence(text)
    for name in listed:
        for place in _origins(found(name)[0], name.rpartition(".")[2]):
            sentences.pop(f"{place.__name__}.{name.rpartition('.')[2]}", None)
    return dict(sorted(sentences.items(), key=lambda item: item[0].rpartition(".")[2].lower()))


def annotated(value: Any) -> set[str]:
    """The names in the annotations of a function, or of a class with its public methods and fields."""
    annotations = list(getattr(value, "__annotations__", {}).values())
    for name, member in vars(value).items() if inspect.isclass(value) else ():
        member = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if name[0] != "_" or name in ("__init__", "__call__"):
            annotations += getattr(member, "__annotations__", {}).values()
    return {word for one in annotations for word in re.findall(r"[A-Z]\w*", str(one))}


def alias_entry(path: str) -> str:
    """The entry of a type alias."""
    word = path.rpartition(".")[2]
    return f"::: {path}\n    options:\n      heading: '{word}'\n      toc_label: '{word}'\n"


def entry(name: str) -> str:
    """The directive for mkdocstrings, with the name that users write as heading."""
    return f"::: {home(name)}\n    options:\n      heading: {written(name)}\n      toc_label: {name}\n"


def written(name: str) -> str:
    """A name as written by users."""
    return name if name.startswith(("pinn.", "lab.")) else f"gb.{name}"


def home(name: str) -> str:
    """The full path of the definition of a name; some functions share the name of their module."""
    value = found(name)[1]
    if constant(name):
        return f"guardband.{name}"
    return f"{value.__module__}.{value.__qualname__}"


def meaning(name: str) -> str:
    """The first sentence of a docstring, for a table."""
    return first_sentence(docstring(name))


def first_sentence(text: str) -> str:
    """The first paragraph of a docstring, for a cell of a table."""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def docstring(name: str) -> str:
    """The docstring of a name; for a constant, the string below it."""
    module, value = found(name)
    if not constant(name):
        return inspect.cleandoc(value.__doc__ or "")
    word = name.rpartition(".")[2]
    return next(text for place in _origins(module, word) for text in _below(place, word))


def constant(name: str) -> bool:
    """Whether a name is a constant, whose type has no docstring in this package."""
    value = found(name)[1]
    return not getattr(value, "__module__", "").startswith("guardband")


def found(name: str) -> tuple[ModuleType, Any]:
    """The module and the value of a name."""
    place, _, word = f"guardband.{name}".rpartition(".")
    module = importlib.import_module(place)
    return module, getattr(module, word)


def _origins(module: ModuleType, word: str) -> Iterator[ModuleType]:
    """The module itself, and those of ours from which it imports a name."""
    yield module
    for place in _imports(module).get(word, ()):
        yield from _origins(importlib.import_module(place), word)


def _below(module: ModuleType, word: str, *, alias: bool = False) -> Iterator[str]:
    """The string below the line in which a module sets a name; with `alias`, only if it is a type alias."""
    for node, after in pairwise(_tree(module).body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(after, ast.Expr):
            continue
        typed = ast.unparse(node.annotation) == "TypeAlias"
        if ast.unparse(node.target) == word and (typed or not alias):
            yield inspect.cleandoc(ast.literal_eval(after.value))


@cache
def _imports(module: ModuleType) -> dict[str, list[str]]:
    """The names that a module imports from ours, each with the modules it comes from."""
    places = defaultdict[str, list[str]](list)
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("guardband"):
            for part in node.names:
                places[part.name].append(node.module)
    return places


@cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))
