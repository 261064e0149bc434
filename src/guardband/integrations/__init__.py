"""Integrations: bands inside scikit-learn, xarray and MLflow. Each module is imported on first use.

`adapters` bring models of other libraries in; these modules take bands out: `sklearn` an estimator,
`xarray` an accessor of datasets, `mlflow` a logged model.
"""

from guardband.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

del attach
