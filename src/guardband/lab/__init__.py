"""The laboratory: studies of methods over many seeds, campaigns that run them, and the paper's study.

Names are imported on first use; `__init__.pyi` lists them.
"""

from guardband.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

del attach
