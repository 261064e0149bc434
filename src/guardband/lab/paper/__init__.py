"""The paper (arXiv:2509.13717): its settings and experiments, made again, and which of its claims hold."""

from guardband.lab.paper.settings import Settings, likelihood, recipe, settings
from guardband.lab.paper.study import study

__all__ = ["Settings", "likelihood", "recipe", "settings", "study"]
