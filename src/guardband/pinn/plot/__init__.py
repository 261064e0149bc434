"""Pictures of the PINN engine: regions of coefficients, the history of a training, chains of a sampler."""

from guardband.pinn.inverse.estimates import misfit, region, residuals
from guardband.pinn.plot.runs import history, trace

__all__ = ["history", "misfit", "region", "residuals", "trace"]
