"""Domains of problems: shapes with named axes, and boundaries of named parts with outward normals.

`domain.py` defines the interface, set operations and products with time, and `boundary.py` defines the pieces
of boundaries. `box.py` and `round.py` contain exact primitives, `polygon.py` and `mesh.py` build shapes from
corners and files, and `cloud.py` contains point clouds. `smooth.py` contains the smooth distance functions of
hard constraints.
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
