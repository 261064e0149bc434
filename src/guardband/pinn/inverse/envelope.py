"""Envelopes: between which curves the solution runs, for all coefficients that readings agree with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guardband.base.arrays import Array, ArrayLike, kind_of
from guardband.pinn.inverse.region import ConfidenceRegion
from guardband.values import Band


@dataclass(frozen=True, eq=False, repr=False)
class Envelope:
    """The smallest and the largest solution at each point over a region of coefficients; see `promise`.

    It is about the solution, everywhere at once; a conformal band is about new measurements, one at a time.

    >>> from guardband import pinn
    >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    >>> data = pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.05)
    >>> envelope = pinn.coefficients(solved, data).envelope([[0.5, 0.2], [0.5, 1.0]])
    >>> truth = pinn.problems.Heat1D(diffusivity=0.1).solution(
    ...     data.x.new_tensor([[0.5, 0.2], [0.5, 1.0]])
    ... )
    >>> bool(
    ...     (envelope.lower < truth.numpy()).all()
    ...     and (truth.numpy() < envelope.upper).all()
    ... )
    True
    """

    band: Band
    """The same as a band, to be drawn: `gb.plot.band(envelope.band)`."""
    promise: str

    @property
    def lower(self) -> Array:
        """The smallest solution at each point, (n, m)."""
        return self.band.lower

    @property
    def upper(self) -> Array:
        """The largest solution at each point, (n, m)."""
        return self.band.upper

    def __repr__(self) -> str:
        return f"Envelope({len(self.band)} points). {self.promise}"


def envelope_of(region: ConfidenceRegion, x: ArrayLike) -> Envelope:
    """The envelope of all solutions for coefficients in a region, at points x (n, d)."""
    solved = region.design.solved
    x, inside = solved.points(x), region.values
    if not len(inside):
        raise ValueError("No value in the range agrees with the readings: there is no envelope of nothing.")
    found = solved.solver(solved.family, x, np.concatenate([region.estimate[None], inside]))
    ends = kind_of(x, found[0]), kind_of(x, found.min(axis=0)), kind_of(x, found.max(axis=0))
    return Envelope(Band(x, *ends, region.level, solved.family.names), _promise(region))


def _promise(region: ConfidenceRegion) -> str:
    level = f"{100 * region.level:.6g} %"
    if not region.drawn:
        return (
            "No level is promised: it is over values that a search found in the region, which may have "
            "missed some."
        )
    kind = ", as readings become many (asymptotic)," if region.test.asymptotic else ""
    return (
        f"With a confidence of {level}{kind} the solution for the true coefficients lies inside at all "
        "points together, if the equation is right and all else that the region assumes is so, up to the "
        "error of the solver. It is not about new measurements, which have noise."
    )
