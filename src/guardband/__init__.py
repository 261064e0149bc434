"""Prediction bands with a finite-sample coverage guarantee for PINNs and other PDE surrogates.

The guarantee requires neither torch nor a PINN. `from guardband import pinn` imports the PINN engine. Names
are imported on first use; `__init__.pyi` lists them.
"""

from guardband.base.lazy import attach

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = attach(__name__)

del attach
