"""What is solved: equations that read like mathematics, on boxes, with conditions on their faces."""

from guardband.geometry import Box
from guardband.problems import noise
from guardband.problems.allen_cahn import AllenCahn2D
from guardband.problems.base import Problem
from guardband.problems.conditions import Condition, Dirichlet, Initial, Neumann
from guardband.problems.faces import Face
from guardband.problems.field import AutogradField, Field
from guardband.problems.helmholtz import Helmholtz3D
from guardband.problems.oscillator import DampedOscillator
from guardband.problems.poisson import Poisson1D

__all__ = [
    "AllenCahn2D",
    "AutogradField",
    "Box",
    "Condition",
    "DampedOscillator",
    "Dirichlet",
    "Face",
    "Field",
    "Helmholtz3D",
    "Initial",
    "Neumann",
    "Poisson1D",
    "Problem",
    "noise",
]
