"""Studies: comparisons of methods over many training runs."""

from guardband.lab.studies.base import Cell, Factory, Result, Study, Training
from guardband.lab.studies.grid import grid

__all__ = ["Cell", "Factory", "Result", "Study", "Training", "grid"]
