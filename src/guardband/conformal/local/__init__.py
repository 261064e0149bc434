"""Local conformal prediction: bands that follow the size of the residuals over the domain."""

from guardband.conformal.local.guard import OverfittedWarning
from guardband.conformal.local.local import Local
from guardband.conformal.local.logscale import LogScale

__all__ = ["Local", "LogScale", "OverfittedWarning"]
