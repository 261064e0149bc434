"""Datasets: solutions of families of equations, computed reproducibly, to train and test surrogates.

Nothing is downloaded. Solutions are stored batch by batch in a folder, `GUARDBAND_DATA` or the user's cache,
so an interrupted run resumes; with `folder=None` nothing is stored.
"""

from guardband.datasets.base import Dataset
from guardband.datasets.burgers import burgers
from guardband.datasets.darcy import darcy
from guardband.datasets.kuramoto_sivashinsky import kuramoto_sivashinsky
from guardband.datasets.navier_stokes import navier_stokes

__all__ = ["Dataset", "burgers", "darcy", "kuramoto_sivashinsky", "navier_stokes"]
