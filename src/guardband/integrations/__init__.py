"""Integrations: bands where people already work. One file for each place, imported when it is asked for.

`adapters` bring models of other libraries in; what is here takes bands out: `sklearn.py` an estimator like
any other, `xarray.py` an accessor of datasets, `mlflow.py` a logged model.
"""

from typing import TYPE_CHECKING

from guardband.lazy import names as _names

if TYPE_CHECKING:
    from guardband.integrations import mlflow as mlflow
    from guardband.integrations import sklearn as sklearn
    from guardband.integrations import xarray as xarray
else:
    __getattr__, __dir__ = _names(__name__, {"guardband.integrations": "mlflow sklearn xarray"})

del TYPE_CHECKING
