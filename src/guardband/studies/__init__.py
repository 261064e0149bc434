"""Studies: comparisons of methods over many trainings, and the paper's own."""

from guardband.studies.base import Cell, Result, Study, Training, Use
from guardband.studies.grid import grid
from guardband.studies.paper import paper

__all__ = ["Cell", "Result", "Study", "Training", "Use", "grid", "paper"]
