"""How sure: predictors give a mean and, if they can, a scale. All are fixed functions of x."""

from guardband.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

del attach
