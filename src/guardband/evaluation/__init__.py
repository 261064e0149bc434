"""Evaluate a band on test points, compare it with baselines, and test the guarantee."""

from guardband.evaluation.evaluate import evaluate as evaluate
from guardband.evaluation.results import Evaluation as Evaluation
from guardband.evaluation.results import Row as Row
from guardband.metrics.ranges import Range as Range
from guardband.metrics.ranges import Ranges as Ranges
from guardband.metrics.ranges import Trend as Trend
