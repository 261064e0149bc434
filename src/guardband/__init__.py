"""Prediction bands with a finite-sample coverage guarantee for PINNs and other PDE surrogates.

A name is imported when it is first used; `import guardband` alone does not import torch.
"""

from typing import TYPE_CHECKING

from guardband.lazy import names as _names

__version__ = "0.2.0"

__all__ = [
    "CQR",
    "LEVELS",
    "Absolute",
    "ArtifactError",
    "Band",
    "BoundedNoise",
    "Box",
    "Calibrated",
    "Clustered",
    "Conditional",
    "ConfidenceRegion",
    "Constrained",
    "Dirichlet",
    "Disk",
    "Estimates",
    "Evaluation",
    "Family",
    "FieldBand",
    "Fields",
    "Findings",
    "Fitted",
    "GaussianNoise",
    "Grouped",
    "InfiniteBandWarning",
    "Initial",
    "LaplaceNoise",
    "Likelihood",
    "Local",
    "LogScale",
    "Mesh",
    "Neumann",
    "Norm",
    "NormBand",
    "Observations",
    "OverfittedWarning",
    "Periodic",
    "PinballNetwork",
    "PointCloud",
    "PointValue",
    "Polygon",
    "Prediction",
    "Predictor",
    "Problem",
    "QuantilePrediction",
    "Quantiles",
    "Quantity",
    "RandomlyLocalized",
    "Recipe",
    "Rectangle",
    "RiskControl",
    "Robin",
    "Rollout",
    "Scaled",
    "Segment",
    "Share",
    "ShareBand",
    "Simultaneous",
    "SolvedFamily",
    "Sphere",
    "Split",
    "StoredBand",
    "StoredFields",
    "Stream",
    "Tangent",
    "Time",
    "Total",
    "TrainingDiverged",
    "TrainingInterrupted",
    "UniformNoise",
    "Unknown",
    "Verdict",
    "Weighted",
    "adapters",
    "band_over",
    "calibrate",
    "calibrate_arrays",
    "calibrate_cross",
    "calibrate_stored",
    "campaign",
    "check",
    "choose",
    "coefficients",
    "conformal",
    "datasets",
    "density_ratio",
    "evaluate",
    "evaluate_stored",
    "export_onnx",
    "fit",
    "geometry",
    "integrations",
    "inverse",
    "kept",
    "load",
    "metrics",
    "mlp",
    "next_points",
    "paper",
    "partition",
    "pinn",
    "plot",
    "points_needed",
    "predictors",
    "problems",
    "raw_band",
    "report",
    "save",
    "streams",
    "studies",
    "surrogates",
    "testing",
    "verdict",
    "write_mesh",
]

_HOME = {
    "guardband": """
        adapters campaign conformal datasets evaluation geometry integrations inverse metrics paper pinn plot
        predictors problems store streams studies surrogates tables testing
    """,
    "guardband.calibration": "calibrate",
    "guardband.checks": "Findings check",
    "guardband.choosing": "choose",
    "guardband.conformal": """
        CQR LEVELS Absolute BoundedNoise Calibrated Clustered Conditional GaussianNoise Grouped
        InfiniteBandWarning LaplaceNoise Local LogScale Norm OverfittedWarning PinballNetwork
        QuantilePrediction Quantity RandomlyLocalized RiskControl Scaled Share ShareBand Simultaneous Split
        Total UniformNoise Weighted calibrate_arrays density_ratio points_needed raw_band
    """,
    "guardband.crossing": "calibrate_cross",
    "guardband.evaluation": "Evaluation evaluate",
    "guardband.export": "export_onnx",
    "guardband.fields": "FieldBand StoredBand StoredFields band_over write_mesh",
    "guardband.out_of_core": "calibrate_stored evaluate_stored",
    "guardband.geometry": "Box Disk Mesh PointCloud Polygon Rectangle Segment Sphere Time",
    "guardband.grids": "Fields",
    "guardband.inverse": "ConfidenceRegion Estimates Family SolvedFamily coefficients next_points",
    "guardband.kept": "kept",
    "guardband.partition": "partition",
    "guardband.pinn": (
        "Constrained Fitted Likelihood Recipe Tangent TrainingDiverged TrainingInterrupted Verdict fit mlp "
        "verdict"
    ),
    "guardband.predictors": """
        Quantiles
    """,
    "guardband.problems": "Dirichlet Initial Neumann Periodic PointValue Problem Robin Unknown",
    "guardband.report": "report",
    "guardband.store": "ArtifactError load save",
    "guardband.streams": "Stream",
    "guardband.surrogates": "Rollout",
    "guardband.values": "Band NormBand Observations Prediction Predictor",
}
"""The modules, and what is imported from each when it is first used."""

if TYPE_CHECKING:  # the same for type checkers and editors, which should not see a `__getattr__`
    from guardband import (
        adapters,
        campaign,
        conformal,
        datasets,
        geometry,
        integrations,
        inverse,
        metrics,
        paper,
        pinn,
        plot,
        predictors,
        problems,
        streams,
        studies,
        surrogates,
        testing,
    )
    from guardband import evaluation as evaluation
    from guardband import store as store
    from guardband import tables as tables
    from guardband.calibration import calibrate
    from guardband.checks import Findings, check
    from guardband.choosing import choose
    from guardband.conformal import (
        CQR,
        LEVELS,
        Absolute,
        BoundedNoise,
        Calibrated,
        Clustered,
        Conditional,
        GaussianNoise,
        Grouped,
        InfiniteBandWarning,
        LaplaceNoise,
        Local,
        LogScale,
        Norm,
        OverfittedWarning,
        PinballNetwork,
        QuantilePrediction,
        Quantity,
        RandomlyLocalized,
        RiskControl,
        Scaled,
        Share,
        ShareBand,
        Simultaneous,
        Split,
        Total,
        UniformNoise,
        Weighted,
        calibrate_arrays,
        density_ratio,
        points_needed,
        raw_band,
    )
    from guardband.crossing import calibrate_cross
    from guardband.evaluation import Evaluation, evaluate
    from guardband.export import export_onnx
    from guardband.fields import FieldBand, StoredBand, StoredFields, band_over, write_mesh
    from guardband.geometry import (
        Box,
        Disk,
        Mesh,
        PointCloud,
        Polygon,
        Rectangle,
        Segment,
        Sphere,
        Time,
    )
    from guardband.grids import Fields
    from guardband.inverse import (
        ConfidenceRegion,
        Estimates,
        Family,
        SolvedFamily,
        coefficients,
        next_points,
    )
    from guardband.kept import kept
    from guardband.out_of_core import calibrate_stored, evaluate_stored
    from guardband.partition import partition
    from guardband.pinn import (
        Constrained,
        Fitted,
        Likelihood,
        Recipe,
        Tangent,
        TrainingDiverged,
        TrainingInterrupted,
        Verdict,
        fit,
        mlp,
        verdict,
    )
    from guardband.predictors import Quantiles
    from guardband.problems import (
        Dirichlet,
        Initial,
        Neumann,
        Periodic,
        PointValue,
        Problem,
        Robin,
        Unknown,
    )
    from guardband.report import report
    from guardband.store import ArtifactError, load, save
    from guardband.streams import Stream
    from guardband.surrogates import Rollout
    from guardband.values import Band, NormBand, Observations, Prediction, Predictor
else:
    __getattr__, __dir__ = _names(__name__, _HOME)

del TYPE_CHECKING
