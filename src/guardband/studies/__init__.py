"""Studies: comparisons of methods over many trainings."""

from guardband.studies.base import Cell, Factory, Result, Study, Training
from guardband.studies.grid import grid

__all__ = ["Cell", "Factory", "Result", "Study", "Training", "grid"]
