"""Datasets: families of equations that are solved here, reproducibly, to train and test surrogates on.

Nothing is downloaded. Solutions are kept in a folder, `GUARDBAND_DATA` or the user's cache, batch by batch,
so a run that was interrupted goes on; with `folder=None` nothing is kept.
"""

from guardband.datasets.base import Dataset
from guardband.datasets.burgers import burgers
from guardband.datasets.darcy import darcy
from guardband.datasets.kuramoto_sivashinsky import kuramoto_sivashinsky
from guardband.datasets.navier_stokes import navier_stokes

__all__ = ["Dataset", "burgers", "darcy", "kuramoto_sivashinsky", "navier_stokes"]
