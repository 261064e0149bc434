"""The PINN engine: problems on shapes, networks, training, verdicts on convergence, regions of coefficients.

It requires torch: `pip install "guardband[pinn]"`. Names are imported on first use and listed in
`__init__.pyi`.
"""

from guardband.base import extras
from guardband.base.lazy import attach

extras.load("torch", "pinn")

__getattr__, __dir__, __all__ = attach(__name__)

del attach, extras
