"""What is solved: equations that read like mathematics, on shapes, with conditions on their boundaries."""

from guardband.geometry import Box
from guardband.problems import noise
from guardband.problems.allen_cahn import AllenCahn2D
from guardband.problems.base import Problem
from guardband.problems.conditions import (
    Condition,
    Dirichlet,
    Initial,
    Neumann,
    Periodic,
    PointValue,
    Robin,
)
from guardband.problems.field import AutogradField, Field
from guardband.problems.helmholtz import Helmholtz3D
from guardband.problems.oscillator import DampedOscillator
from guardband.problems.poisson import Poisson1D
from guardband.values import Names

__all__ = [
    "AllenCahn2D",
    "AutogradField",
    "Box",
    "Condition",
    "DampedOscillator",
    "Dirichlet",
    "Field",
    "Helmholtz3D",
    "Initial",
    "Names",
    "Neumann",
    "Periodic",
    "PointValue",
    "Poisson1D",
    "Problem",
    "Robin",
    "noise",
]
