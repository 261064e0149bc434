"""Studies of methods over many seeds, campaigns that run them, and the study of the paper.

Names are imported on first use; `__init__.pyi` lists them.
"""

from guardband.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

del attach
