"""Joint: how sharply a training that found coefficients with the field holds them. A heuristic.

No coverage is stated. In `pinn.fit` an equation may be missed by the scale of the physics, which is chosen
and not measured, and the length of these intervals goes with it. `pinn.coefficients` gives regions that state
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from guardband.conformal.rank import Level
from guardband.pinn.inverse.curvature import Curvature
from guardband.pinn.training.fitted import Fitted


@dataclass(frozen=True, repr=False)
class JointIntervals(Mapping[str, tuple[float, float]]):
    """The ends of each interval, by the name of its coefficient; no coverage is stated.

    >>> from guardband import pinn
    >>> print(str(pinn.inverse.JointIntervals({"rate": (1.1, 1.4)}, 0.95)).splitlines()[0])
    rate: 1.1 to 1.4
    """

    intervals: Mapping[str, tuple[float, float]]
    level: float

    def __getitem__(self, name: str) -> tuple[float, float]:
        return self.intervals[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.intervals)

    def __len__(self) -> int:
        return len(self.intervals)

    def __repr__(self) -> str:
        lines = [f"{name}: {low:.4g} to {high:.4g}" for name, (low, high) in self.items()]
        said = (
            f"Laplace intervals of a joint fit, asked at {100 * self.level:.6g} %. No coverage is stated: "
            "their length is set by the scale of the physics, Likelihood(physics=...), which nobody measured."
        )
        return "\n".join([*lines, said, "For regions that state a coverage see pinn.coefficients."])


def laplace_intervals(fitted: Fitted, level: Level = 0.95, *, seed: int = 0) -> JointIntervals:
    """A heuristic: Laplace intervals of the unknowns that `pinn.fit` found with the field; no coverage.

    The curvature of readings, equation and conditions in all weights and unknowns together is inverted.

    >>> from guardband import pinn
    >>> data = pinn.problems.Heat1D(diffusivity=0.12).observe(40, noise=0.01)
    >>> problem = pinn.problems.Heat1D(diffusivity=pinn.Unknown(0.02, 0.2))
    >>> fitted = pinn.fit(problem, pinn.mlp(problem, [8]), data, progress=False)
    >>> low, high = pinn.inverse.laplace_intervals(fitted)["diffusivity"]
    >>> 0.02 < low < fitted.estimates["diffusivity"] < high < 0.2
    True
    """
    if not getattr(fitted, "estimates", None):
        raise ValueError(
            "This needs a training that found coefficients: put pinn.Unknown(low, high) in place of a number "
            "of the problem, and pass what pinn.fit returns."
        )
    if not 0 < float(level) < 1:
        raise ValueError(f"`level` should lie between 0 and 1, got {level}.")
    curvature = Curvature(fitted, seed)
    own = curvature.of_unknowns()
    sd = curvature.covariance(own, own).diagonal().sqrt().numpy()
    away = norm.ppf((1 + float(level)) / 2) * sd[:, None] * [-1, 1]
    intervals = {}
    for (name, one), raw, ends in zip(
        fitted.estimates.sought.items(), curvature.unknowns.parameters(), away, strict=True
    ):
        low, high = one.low + (one.high - one.low) * expit(raw.item() + ends)
        intervals[name] = float(low), float(high)
    return JointIntervals(intervals, float(np.float64(level)))
