"""Check the assumptions of a guarantee: sample size, leaks, dependence, shift and extrapolation."""

from guardband.checks.checks import Findings, check
from guardband.metrics.ranges import Range, Ranges, Trend

__all__ = ["Findings", "Range", "Ranges", "Trend", "check"]
