"""Plots of bands over one axis, fields over two axes, overviews of a band, and coverage over levels.

`curves.py` plots over one axis and `planes.py` over two, `shapes.py` clips colors to a shape, and
`summary.py` draws the overview of a band. Plots of training histories and of regions are in `pinn.plot`.
"""

from guardband.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

del attach
