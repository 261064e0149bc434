"""A validation page after ASME V&V 20: standard uncertainties, next to a calibrated band.

The two statements differ in kind and are never combined: standard uncertainties are added in quadrature
under the assumptions of the GUM, whereas a band has a coverage probability under exchangeability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from guardband.reports.page import Section, origin

FACTOR_OF_SAFETY = 1.25
"""The factor of safety for three grids (Celik et al. 2008)."""


@dataclass(frozen=True)
class GridConvergence:
    """The numerical uncertainty from three grids, by Roache's grid convergence index.

    Parameters
    ----------
    sizes
        Cell sizes of three grids, the finest first.
    values
        The quantity on each of them.
    factor_of_safety
        The factor of safety of the index.
    expansion
        The factor between the index, an expanded uncertainty, and a standard uncertainty.

    Notes
    -----
    The observed order p solves p ln(r21) = |ln|e32 / e21| + ln((r21^p - s) / (r32^p - s))| with e21, e32 the
    differences between successive grids and s their sign ratio. The index is an expanded uncertainty at
    about 95 % and no standard uncertainty: u_num is the index over `expansion`, 2 for errors scattered
    normally about the extrapolated value. (Celik et al. 2008; ASME V&V 20-2009, section 2)

    Examples
    --------
    >>> from guardband.decisions import GridConvergence
    >>> grids = GridConvergence(sizes=(1.0, 2.0, 4.0), values=(1.01, 1.04, 1.16))
    >>> round(grids.order, 6), round(grids.extrapolated, 6), round(grids.index, 6)
    (2.0, 1.0, 0.0125)
    """

    sizes: Sequence[float]
    values: Sequence[float]
    factor_of_safety: float = FACTOR_OF_SAFETY
    expansion: float = 2.0

    def __post_init__(self) -> None:
        if len(self.sizes) != 3 or len(self.values) != 3:
            raise ValueError("Grid convergence needs three grids, the finest first.")
        fine, medium, coarse = self.sizes
        if not 0 < fine < medium < coarse < math.inf or not all(map(math.isfinite, self.values)):
            raise ValueError(f"`sizes` should grow from the finest grid on, got {tuple(self.sizes)}.")
        if not self.factor_of_safety >= 1 or not self.expansion >= 1:
            raise ValueError("`factor_of_safety` and `expansion` should be at least 1.")

    @property
    def differences(self) -> tuple[float, float]:
        """The changes of the quantity from the fine to the medium grid, and from there to the coarse one."""
        return self.values[1] - self.values[0], self.values[2] - self.values[1]

    @property
    def monotone(self) -> bool:
        """Whether the quantity changes in one direction as grids are refined."""
        return self.differences[0] * self.differences[1] > 0

    @property
    def order(self) -> float:
        """The observed order of convergence; NaN where the quantity does not converge on these grids."""
        e21, e32 = self.differences
        if e21 == 0 or e32 == 0 or abs(e32) <= abs(e21) * 0:
            return math.nan
        r21, r32 = self.sizes[1] / self.sizes[0], self.sizes[2] / self.sizes[1]
        sign = 1 if e32 / e21 > 0 else -1
        p = abs(math.log(abs(e32 / e21))) / math.log(r21)
        for _ in range(200):
            top, bottom = r21**p - sign, r32**p - sign
            if top <= 0 or bottom <= 0:
                return math.nan
            following = abs(math.log(abs(e32 / e21)) + math.log(top / bottom)) / math.log(r21)
            if abs(following - p) <= 1e-12 * max(1.0, p):
                break
            p = following
        return p if 0 < p < 20 and abs(e32) > abs(e21) else math.nan

    @property
    def extrapolated(self) -> float:
        """The Richardson extrapolation to cells of size zero."""
        ratio = (self.sizes[1] / self.sizes[0]) ** self.order
        return (ratio * self.values[0] - self.values[1]) / (ratio - 1)

    @property
    def index(self) -> float:
        """The grid convergence index of the fine grid, an expanded uncertainty in units of the quantity."""
        ratio = (self.sizes[1] / self.sizes[0]) ** self.order
        return self.factor_of_safety * abs(self.differences[0]) / (ratio - 1)

    @property
    def standard(self) -> float:
        """The standard uncertainty u_num: the index over `expansion`."""
        return self.index / self.expansion


@dataclass(frozen=True)
class Validation:
    """The comparison of one simulated quantity with its measurement, after ASME V&V 20.

    Attributes
    ----------
    simulated, measured
        The simulated and the measured quantity.
    u_num, u_input, u_data
        Standard uncertainties of the numerical solution, of the inputs and of the data.
    coverage_factor
        The factor between u_val and the interval for the model error.
    quantity
        The name of the quantity, with its unit.
    grids
        The grids behind u_num, if they were given.
    band
        A sentence on a calibrated band at this point, if one was given.

    Examples
    --------
    >>> from guardband.decisions import validation
    >>> compared = validation(1.0, 1.1, u_num=0.02, u_input=0.01, u_data=0.02)
    >>> compared.u_val, [round(end, 3) for end in compared.model_error]
    (0.03, [-0.16, -0.04])
    """

    simulated: float
    measured: float
    u_num: float
    u_input: float
    u_data: float
    coverage_factor: float = 2.0
    quantity: str = "quantity"
    grids: GridConvergence | None = None
    band: str = ""

    @property
    def error(self) -> float:
        """The comparison error E = S - D."""
        return self.simulated - self.measured

    @property
    def u_val(self) -> float:
        """The validation standard uncertainty, sqrt(u_num^2 + u_input^2 + u_data^2)."""
        return math.hypot(self.u_num, self.u_input, self.u_data)

    @property
    def model_error(self) -> tuple[float, float]:
        """The interval E -+ k u_val in which the model error is expected."""
        half = self.coverage_factor * self.u_val
        return self.error - half, self.error + half

    @property
    def conclusion(self) -> str:
        """What the comparison shows about the model, in words."""
        low, high = self.model_error
        if low <= 0 <= high:
            return (
                f"The comparison error, {self.error:.3g}, lies within {self.coverage_factor:g} u_val = "
                f"{self.coverage_factor * self.u_val:.3g}: an error of the model cannot be distinguished "
                f"from the "
                "uncertainties of numerics, inputs and data. This does not show that the model is right; "
                "smaller "
                "uncertainties may reveal an error."
            )
        return (
            f"The comparison error, {self.error:.3g}, exceeds {self.coverage_factor:g} u_val = "
            f"{self.coverage_factor * self.u_val:.3g}: the model has an error, expected between {low:.3g} "
            f"and "
            f"{high:.3g}."
        )

    @property
    def report_title(self) -> str:
        """The title of the page."""
        return f"Validation of {self.quantity}"

    def report_sections(self, facts: dict[str, str] | None = None) -> list[Section]:
        """Return the sections of the page.

        Parameters
        ----------
        facts
            Further lines for the last section.

        Returns
        -------
        list of Section
            Comparison, uncertainties, grids, band and origin.
        """
        rows = [
            ["quantity", self.quantity],
            ["simulation S", f"{self.simulated:.6g}"],
            ["data D", f"{self.measured:.6g}"],
            ["comparison error E = S - D", f"{self.error:.4g}"],
            ["u_num (numerical, standard)", f"{self.u_num:.3g}"],
            ["u_input (inputs, standard)", f"{self.u_input:.3g}"],
            ["u_D (data, standard)", f"{self.u_data:.3g}"],
            ["u_val (validation, standard)", f"{self.u_val:.3g}"],
            [f"E -+ {self.coverage_factor:g} u_val", "{:.4g} to {:.4g}".format(*self.model_error)],
        ]
        stated = (
            "Standard uncertainties are combined in quadrature, which assumes that the three sources are "
            "independent "
            f"(GUM). The coverage factor {self.coverage_factor:g} corresponds to about 95 % if the combined "
            f"error is "
            "normal."
        )
        made = [
            Section("Comparison", [self.conclusion], mark="claim"),
            Section("Uncertainties", [stated], [["", "value"], *rows]),
        ]
        if self.grids is not None:
            made.append(Section("Three grids", [_on_grids(self.grids)]))
        if self.band:
            apart = (
                "This is a coverage probability, which is not combined with the standard uncertainties above."
            )
            made.append(Section("Calibrated band", [self.band, apart]))
        return [*made, origin("quantity", self.quantity, facts or {})]

    def __str__(self) -> str:
        return f"{self.quantity}: {self.conclusion}"


def validation(
    simulated: float,
    measured: float,
    *,
    grids: GridConvergence | None = None,
    u_num: float | None = None,
    u_input: float = 0.0,
    u_data: float = 0.0,
    coverage_factor: float = 2.0,
    quantity: str = "quantity",
    band: Any = None,
) -> Validation:
    """Compare a simulated quantity with its measurement, after ASME V&V 20.

    Parameters
    ----------
    simulated, measured
        The simulated and the measured quantity.
    grids
        Three grids, from which u_num follows.
    u_num
        The standard uncertainty of the numerical solution, in place of `grids`.
    u_input
        The standard uncertainty of the simulated quantity due to its inputs.
    u_data
        The standard uncertainty of the measurement.
    coverage_factor
        The factor between u_val and the interval for the model error.
    quantity
        The name of the quantity, with its unit.
    band
        A `Band` of one row at this point from a calibration, shown next to the comparison with a statement
        of its own.

    Returns
    -------
    Validation
        The comparison; `gb.report(validation, path=...)` writes its page.

    Examples
    --------
    >>> import guardband as gb
    >>> grids = gb.decisions.GridConvergence(sizes=(1, 2, 4), values=(1.01, 1.04, 1.16))
    >>> compared = gb.decisions.validation(1.01, 1.10, grids=grids, u_data=0.02)
    >>> round(compared.u_val, 4), compared.model_error[1] < 0
    (0.021, True)
    """
    if (grids is None) == (u_num is None):
        raise ValueError("The numerical uncertainty is given once: `grids` or `u_num`.")
    if grids is not None:
        u_num = grids.standard
        if math.isnan(u_num):
            raise ValueError(
                f"The quantity does not converge on these grids: "
                f"{', '.join(f'{v:.6g}' for v in grids.values)}. "
                "Use finer grids, or state u_num."
            )
    given = {"u_num": u_num, "u_input": u_input, "u_data": u_data}
    for name, value in given.items():
        if value is None or not 0 <= value < math.inf:
            raise ValueError(f"`{name}` should be a standard uncertainty >= 0, got {value}.")
    words = ""
    if band is not None:
        low, high = float(band.lower.reshape(-1)[0]), float(band.upper.reshape(-1)[0])
        words = (
            f"A new measurement at this point lies between {low:.4g} and {high:.4g} with probability at "
            f"least "
            f"{band.level:g}, on average over calibration sets, if it is exchangeable with the calibration "
            f"points. "
            f"The measurement {measured:.6g} lies {'inside' if low <= measured <= high else 'outside'}."
        )
    return Validation(
        simulated, measured, u_num or 0.0, u_input, u_data, coverage_factor, quantity, grids, words
    )


def _on_grids(grids: GridConvergence) -> str:
    """The convergence on three grids, in words."""
    kind = "monotonically" if grids.monotone else "with oscillations"
    return (
        f"The quantity converges {kind}: {', '.join(f'{v:.6g}' for v in grids.values)} on cells of size "
        f"{', '.join(f'{h:g}' for h in grids.sizes)}; observed order {grids.order:.2f}, extrapolated value "
        f"{grids.extrapolated:.6g}. The grid convergence index {grids.index:.3g} (factor of safety "
        f"{grids.factor_of_safety:g}) is an expanded uncertainty; u_num is the index over "
        f"{grids.expansion:g}."
    )
