"""Inverse problems: confidence regions for coefficients, tests of the equation, and experimental design."""

from guardband.pinn.inverse.doubt import Doubt, doubt
from guardband.pinn.inverse.estimates import Estimates, coefficients
from guardband.pinn.inverse.family import Family, SolvedFamily
from guardband.pinn.inverse.laplace import JointIntervals, laplace_intervals
from guardband.pinn.inverse.methods import permuted, profile, sign_perturbed, wald
from guardband.pinn.inverse.next_points import NextPoints, next_points
from guardband.pinn.inverse.region import ConfidenceRegion, Envelope

__all__ = [
    "ConfidenceRegion",
    "Doubt",
    "Envelope",
    "Estimates",
    "Family",
    "JointIntervals",
    "NextPoints",
    "SolvedFamily",
    "coefficients",
    "doubt",
    "laplace_intervals",
    "next_points",
    "permuted",
    "profile",
    "sign_perturbed",
    "wald",
]
