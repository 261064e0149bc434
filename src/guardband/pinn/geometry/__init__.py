"""Where a problem lives: shapes with named axes, and boundaries of named parts with outward normals.

`domain.py` says what a shape is, `laws.py` what all obey; `box.py` and `round.py` are exact primitives,
`polygon.py` and `mesh.py` come from corners and files, `cloud.py` from points; `sets.py` combines
shapes, `time.py` adds a time axis; `smooth.py` makes the distances of hard constraints.
"""

from guardband.pinn.geometry.box import Box, Rectangle, Segment
from guardband.pinn.geometry.cloud import PointCloud
from guardband.pinn.geometry.domain import Boundary, Domain, Piece, axis_names, edge
from guardband.pinn.geometry.mesh import Mesh
from guardband.pinn.geometry.polygon import Polygon
from guardband.pinn.geometry.round import Disk, Sphere
from guardband.pinn.geometry.sets import Combination
from guardband.pinn.geometry.time import Time, TimeSpan

__all__ = [
    "Boundary",
    "Box",
    "Combination",
    "Disk",
    "Domain",
    "Mesh",
    "Piece",
    "PointCloud",
    "Polygon",
    "Rectangle",
    "Segment",
    "Sphere",
    "Time",
    "TimeSpan",
    "axis_names",
    "edge",
]
