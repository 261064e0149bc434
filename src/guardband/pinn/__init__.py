"""The PINN engine: problems on shapes, networks, training, verdicts on convergence, regions of coefficients.

Needs torch: `pip install "guardband[pinn]"`. Names are imported on first use; `__init__.pyi` lists them.
"""

from guardband.base import extras
from guardband.base.lazy import attach

extras.load("torch", "pinn")

__getattr__, __dir__, __all__ = attach(__name__)

del attach, extras
