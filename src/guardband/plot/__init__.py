"""Pictures: bands over one axis, fields over two, an overview of a band, and coverage over levels.

`curves.py` draws over one axis, `planes.py` over two, `shapes.py` clips colors to a shape. `front.py` puts a
band on one page, over two axes by `sheets.py`. Pictures of trainings and of regions are in `pinn.plot`.
"""

from guardband.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

del attach
