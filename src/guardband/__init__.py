"""Prediction bands with a finite-sample coverage guarantee for PINNs and other PDE surrogates.

A name is imported when it is first used; `import guardband` alone does not import torch.
"""

from typing import TYPE_CHECKING

from guardband.lazy import names as _names

__version__ = "0.2.0.dev0"

__all__ = [
    "LEVELS",
    "Absolute",
    "ArtifactError",
    "Band",
    "Calibrated",
    "Clustered",
    "Constrained",
    "Evaluation",
    "FieldBand",
    "Findings",
    "Fitted",
    "Grouped",
    "InfiniteBandWarning",
    "Likelihood",
    "Local",
    "LogScale",
    "NormBand",
    "Observations",
    "OverfittedWarning",
    "PinballNetwork",
    "Prediction",
    "Predictor",
    "RandomlyLocalized",
    "Recipe",
    "Scaled",
    "Simultaneous",
    "Split",
    "Total",
    "TrainingDiverged",
    "Weighted",
    "adapters",
    "band_over",
    "calibrate",
    "calibrate_arrays",
    "campaign",
    "check",
    "conformal",
    "density_ratio",
    "evaluate",
    "export_onnx",
    "fit",
    "kept",
    "load",
    "metrics",
    "mlp",
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
    "studies",
    "testing",
    "write_mesh",
]

_HOME = {
    "guardband": """
        adapters campaign conformal evaluation geometry metrics paper pinn plot predictors problems store
        studies tables testing
    """,
    "guardband.calibration": "calibrate",
    "guardband.checks": "Findings check",
    "guardband.conformal": """
        LEVELS Absolute Calibrated Clustered Grouped InfiniteBandWarning Local LogScale OverfittedWarning
        PinballNetwork RandomlyLocalized Scaled Simultaneous Split Total Weighted calibrate_arrays
        density_ratio points_needed raw_band
    """,
    "guardband.evaluation": "Evaluation evaluate",
    "guardband.export": "export_onnx",
    "guardband.fields": "FieldBand band_over write_mesh",
    "guardband.kept": "kept",
    "guardband.partition": "partition",
    "guardband.pinn": "Constrained Fitted Likelihood Recipe TrainingDiverged fit mlp",
    "guardband.report": "report",
    "guardband.store": "ArtifactError load save",
    "guardband.values": "Band NormBand Observations Prediction Predictor",
}
"""The modules, and what is imported from each when it is first used."""

if TYPE_CHECKING:  # the same for type checkers and editors, which should not see a `__getattr__`
    from guardband import (
        adapters,
        campaign,
        conformal,
        metrics,
        paper,
        pinn,
        plot,
        predictors,
        problems,
        studies,
        testing,
    )
    from guardband import evaluation as evaluation
    from guardband import geometry as geometry
    from guardband import store as store
    from guardband import tables as tables
    from guardband.calibration import calibrate
    from guardband.checks import Findings, check
    from guardband.conformal import (
        LEVELS,
        Absolute,
        Calibrated,
        Clustered,
        Grouped,
        InfiniteBandWarning,
        Local,
        LogScale,
        OverfittedWarning,
        PinballNetwork,
        RandomlyLocalized,
        Scaled,
        Simultaneous,
        Split,
        Total,
        Weighted,
        calibrate_arrays,
        density_ratio,
        points_needed,
        raw_band,
    )
    from guardband.evaluation import Evaluation, evaluate
    from guardband.export import export_onnx
    from guardband.fields import FieldBand, band_over, write_mesh
    from guardband.kept import kept
    from guardband.partition import partition
    from guardband.pinn import Constrained, Fitted, Likelihood, Recipe, TrainingDiverged, fit, mlp
    from guardband.report import report
    from guardband.store import ArtifactError, load, save
    from guardband.values import Band, NormBand, Observations, Prediction, Predictor
else:
    __getattr__, __dir__ = _names(__name__, _HOME)

del TYPE_CHECKING
