"""Is a guarantee void? Sample size, leaks, dependent readings, shift, and coverage by range."""

from guardband.checks.checks import Findings, check
from guardband.metrics.ranges import Range, Ranges, Trend

__all__ = ["Findings", "Range", "Ranges", "Trend", "check"]
