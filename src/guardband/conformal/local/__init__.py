"""Local conformal prediction: settings, what is learned of them, and two ways to learn it."""

from guardband.conformal.local.guard import OverfittedWarning
from guardband.conformal.local.local import Local
from guardband.conformal.local.logscale import LogScale

__all__ = ["Local", "LogScale", "OverfittedWarning"]
