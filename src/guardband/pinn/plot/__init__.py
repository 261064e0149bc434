"""Plots of the PINN engine: coefficient regions, training histories, and sampler chains."""

from guardband.pinn.inverse.estimates import misfit, region, residuals
from guardband.pinn.plot.runs import history, trace

__all__ = ["history", "misfit", "region", "residuals", "trace"]
