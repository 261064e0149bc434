"""The plate with a hole in displacements and stresses, as in DeepXDE's example of elasticity."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from guardband.pinn.geometry import Domain
from guardband.pinn.problems import Condition, Dirichlet, Field, Problem
from guardband.pinn.problems.catalogue import PlateWithHole
from guardband.pinn.problems.conditions import Where

PLATE = PlateWithHole()


@dataclass(frozen=True)
class MixedPlate(Problem):
    """Five outputs: displacements u and v, and stresses, which need only first derivatives."""

    domain: ClassVar[Domain] = PLATE.domain
    outputs: ClassVar[tuple[str, ...] | int] = ("u", "v", "xx", "yy", "xy")

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        """The balance of forces, and the stresses as functions of displacements."""
        strained = PLATE.stress(w)
        forces = {
            "force x": w["xx"].d("x") + w["xy"].d("y"),
            "force y": w["xy"].d("x") + w["yy"].d("y"),
        }
        return forces | {name: stress - w[name].value for name, stress in strained.items()}

    def conditions(self) -> list[Condition]:
        """As for the plate; on straight edges a stress is prescribed."""
        return [
            Dirichlet(0.0, on="left", output=("u", "xy")),
            Dirichlet(0.0, on="bottom", output=("v", "xy")),
            Dirichlet(lambda x: self.solution(x)[:, [2, 4]], on="right", output=("xx", "xy")),
            Dirichlet(lambda x: self.solution(x)[:, [3, 4]], on="top", output=("yy", "xy")),
            Free(on="hole"),
        ]

    def solution(self, x: Tensor) -> Tensor:
        """Kirsch's displacements and stresses."""
        stresses = next(c for c in PLATE.conditions() if getattr(c, "on", None) == ("right", "top"))
        return torch.cat([PLATE.solution(x), stresses.given(x)], dim=1)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Free(Condition):
    """No traction on an edge: stress times normal is 0."""

    on: Where

    def residual(self, x: Tensor, w: Field) -> Tensor:
        """The body forces along x and y."""
        assert w.normals is not None
        nx, ny = w.normals[:, :1], w.normals[:, 1:]
        xx, yy, xy = (w[name].value for name in ("xx", "yy", "xy"))
        return torch.cat([xx * nx + xy * ny, xy * nx + yy * ny], dim=1)
