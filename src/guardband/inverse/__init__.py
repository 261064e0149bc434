"""Which coefficients: families of equations, regions that hold the truth, and where to measure next."""

from guardband.inverse.doubt import Doubt, doubt
from guardband.inverse.envelope import Envelope
from guardband.inverse.estimates import Estimates, coefficients
from guardband.inverse.family import Family
from guardband.inverse.joint import JointIntervals, laplace_intervals
from guardband.inverse.methods import permuted, profile, sign_perturbed, wald
from guardband.inverse.next_points import NextPoints, next_points
from guardband.inverse.region import ConfidenceRegion
from guardband.inverse.solved import SolvedFamily

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
