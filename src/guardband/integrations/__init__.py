"""Bands inside scikit-learn (an estimator), xarray (an accessor) and MLflow (a logged model).

Each module is imported on first use. `adapters` works in the other direction: it turns models of other
libraries into predictors.
"""

from guardband.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

del attach
