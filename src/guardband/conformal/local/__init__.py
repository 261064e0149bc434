"""Local conformal prediction: bands that follow the size of the residuals over the domain."""

from guardband.conformal.local.local import Local, OverfittedWarning
from guardband.conformal.local.logscale import LogScale

__all__ = ["Local", "LogScale", "OverfittedWarning"]
