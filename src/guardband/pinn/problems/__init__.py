"""Problems: equations on domains, with boundary and initial conditions."""

from guardband.pinn.geometry import Box
from guardband.pinn.problems import noise
from guardband.pinn.problems.base import Problem, Term
from guardband.pinn.problems.catalogue import (
    Advection1D,
    AllenCahn1D,
    AllenCahn2D,
    Beam,
    Burgers1D,
    Cavity,
    Cylinder,
    DampedOscillator,
    Heat1D,
    HeatDisk,
    Helmholtz3D,
    KortewegDeVries,
    Kovasznay,
    KuramotoSivashinsky,
    LotkaVolterra,
    PlateWithHole,
    Poisson1D,
    PoissonLShape,
    ReactionDiffusion1D,
    TaylorGreen2D,
    VibratingBeam,
    Wave1D,
)
from guardband.pinn.problems.conditions import (
    Condition,
    Dirichlet,
    Initial,
    Neumann,
    Periodic,
    PointValue,
    Robin,
)
from guardband.pinn.problems.field import AutogradField, Field
from guardband.pinn.problems.reference import Reference
from guardband.pinn.problems.unknown import Unknown
from guardband.values import Names

__all__ = [
    "Advection1D",
    "AllenCahn1D",
    "AllenCahn2D",
    "AutogradField",
    "Beam",
    "Box",
    "Burgers1D",
    "Cavity",
    "Condition",
    "Cylinder",
    "DampedOscillator",
    "Dirichlet",
    "Field",
    "Heat1D",
    "HeatDisk",
    "Helmholtz3D",
    "Initial",
    "KortewegDeVries",
    "Kovasznay",
    "KuramotoSivashinsky",
    "LotkaVolterra",
    "Names",
    "Neumann",
    "Periodic",
    "PlateWithHole",
    "PointValue",
    "Poisson1D",
    "PoissonLShape",
    "Problem",
    "ReactionDiffusion1D",
    "Reference",
    "Robin",
    "TaylorGreen2D",
    "Term",
    "Unknown",
    "VibratingBeam",
    "Wave1D",
    "noise",
]
