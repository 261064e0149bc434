"""Classical benchmark problems, one file per equation, each with an exact or a reference solution."""

from guardband.pinn.problems.catalogue.advection import Advection1D
from guardband.pinn.problems.catalogue.allen_cahn import AllenCahn1D, AllenCahn2D
from guardband.pinn.problems.catalogue.beam import Beam, VibratingBeam
from guardband.pinn.problems.catalogue.burgers import Burgers1D
from guardband.pinn.problems.catalogue.cavity import Cavity
from guardband.pinn.problems.catalogue.cylinder import Cylinder
from guardband.pinn.problems.catalogue.heat import Heat1D
from guardband.pinn.problems.catalogue.heat_disk import HeatDisk
from guardband.pinn.problems.catalogue.helmholtz import Helmholtz3D
from guardband.pinn.problems.catalogue.korteweg_de_vries import KortewegDeVries
from guardband.pinn.problems.catalogue.kovasznay import Kovasznay
from guardband.pinn.problems.catalogue.kuramoto_sivashinsky import KuramotoSivashinsky
from guardband.pinn.problems.catalogue.l_shape import PoissonLShape
from guardband.pinn.problems.catalogue.lotka_volterra import LotkaVolterra
from guardband.pinn.problems.catalogue.oscillator import DampedOscillator
from guardband.pinn.problems.catalogue.plate import PlateWithHole
from guardband.pinn.problems.catalogue.poisson import Poisson1D
from guardband.pinn.problems.catalogue.reaction_diffusion import ReactionDiffusion1D
from guardband.pinn.problems.catalogue.taylor_green import TaylorGreen2D
from guardband.pinn.problems.catalogue.wave import Wave1D

__all__ = [
    "Advection1D",
    "AllenCahn1D",
    "AllenCahn2D",
    "Beam",
    "Burgers1D",
    "Cavity",
    "Cylinder",
    "DampedOscillator",
    "Heat1D",
    "HeatDisk",
    "Helmholtz3D",
    "KortewegDeVries",
    "Kovasznay",
    "KuramotoSivashinsky",
    "LotkaVolterra",
    "PlateWithHole",
    "Poisson1D",
    "PoissonLShape",
    "ReactionDiffusion1D",
    "TaylorGreen2D",
    "VibratingBeam",
    "Wave1D",
]
