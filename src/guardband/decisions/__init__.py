"""Decisions based on a band with a guarantee.

`decide` accepts or rejects one query against a limit, `screen` selects among many designs, and `Hybrid`
decides when a surrogate may answer in place of its solver. Each has its own guarantee, and none of these
implies another.
"""

from guardband.decisions.certificate import Audit, Certificate, certify
from guardband.decisions.decide import Decisions, decide
from guardband.decisions.hybrid import Answers, Hybrid
from guardband.decisions.limits import ToleranceLimits
from guardband.decisions.screen import Selection, screen
from guardband.decisions.solvers import Command, SolverFailed
from guardband.decisions.validation import GridConvergence, Validation, validation

__all__ = [
    "Answers",
    "Audit",
    "Certificate",
    "Command",
    "Decisions",
    "GridConvergence",
    "Hybrid",
    "Selection",
    "SolverFailed",
    "ToleranceLimits",
    "Validation",
    "certify",
    "decide",
    "screen",
    "validation",
]
