"""Predictors: fixed functions of x that return a mean and, if they can, a scale."""

from guardband.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

del attach
