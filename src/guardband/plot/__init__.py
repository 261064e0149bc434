"""Pictures: bands over one axis, fields over two, an overview of a band, regions, and how a training went.

`curves.py` draws over one axis, `planes.py` over two, `shapes.py` keeps colors within a shape. `front.py`
puts a band on one page, over two axes by `sheets.py`, out of what `parts.py` knows of an output and
`readings.py` of its readings. `runs.py` draws coverage, histories and chains, `regions.py` coefficients;
`style.py` has the colors.
"""

from guardband.plot.curves import band, slices, width
from guardband.plot.front import overview
from guardband.plot.planes import fields, heatmap
from guardband.plot.regions import misfit, region, residuals
from guardband.plot.runs import coverage_curve, history, trace
from guardband.plot.style import BLUE as BLUE
from guardband.plot.style import GRAY as GRAY
from guardband.plot.style import KINDS as KINDS
from guardband.plot.style import ORANGE as ORANGE
from guardband.plot.style import SIGNED as SIGNED

__all__ = [
    "band",
    "coverage_curve",
    "fields",
    "heatmap",
    "history",
    "misfit",
    "overview",
    "region",
    "residuals",
    "slices",
    "trace",
    "width",
]
