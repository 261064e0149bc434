"""Plots of the PINN engine: regions of coefficients, training histories, chains of a sampler."""

from guardband.pinn.inverse.estimates import misfit, region, residuals
from guardband.pinn.plot.runs import history, trace

__all__ = ["history", "misfit", "region", "residuals", "trace"]
