from guardband.integrations import mlflow as mlflow
from guardband.integrations import sklearn as sklearn
from guardband.integrations import xarray as xarray
