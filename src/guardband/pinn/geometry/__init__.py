"""Where a problem lives: shapes with named axes, and boundaries of named parts with outward normals.

`domain.py` says what a shape is, combines shapes and adds time; `boundary.py` has the pieces of boundaries.
`box.py` and `round.py` are exact primitives, `polygon.py` and `mesh.py` come from corners and files,
`cloud.py` from points; `smooth.py` makes the distances of hard constraints.
"""

from guardband.pinn.geometry.boundary import Boundary, Piece, edge
from guardband.pinn.geometry.box import Box, Rectangle, Segment
from guardband.pinn.geometry.cloud import PointCloud
from guardband.pinn.geometry.domain import Combination, Domain, Time, TimeSpan, axis_names
from guardband.pinn.geometry.mesh import Mesh
from guardband.pinn.geometry.polygon import Polygon
from guardband.pinn.geometry.round import Disk, Sphere

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
