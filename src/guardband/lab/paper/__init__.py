"""A reproduction of the paper (arXiv:2509.13717): its settings, its experiments and its claims."""

from guardband.lab.paper.settings import Settings, likelihood, recipe, settings
from guardband.lab.paper.study import study

__all__ = ["Settings", "likelihood", "recipe", "settings", "study"]
