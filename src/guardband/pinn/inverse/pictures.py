"""Pictures of estimates: the region of coefficients, the misfit along each of them, and the residuals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from guardband.base.arrays import to_numpy
from guardband.plot.curves import DOT
from guardband.plot.style import BLUE, COLORS, GRAY, ORANGE, axes, legend, percent
from guardband.values.names import axis_words, word

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from guardband.pinn.inverse.estimates import Estimates

INSIDE: dict[str, Any] = {"color": BLUE, "alpha": 0.25, "lw": 0}
"""How values inside of a region are drawn."""


def region(estimates: Estimates, *, truth: Mapping[str, float] | None = None, ax: Axes | None = None) -> Axes:
    """The region of one or two coefficients, with the least-squares estimate, and the truth if it is given.

    Of one coefficient it is drawn below the misfit; of two in their plane, as wide as the region is.

    >>> from guardband import pinn
    >>> ranges = {"damping": (0.02, 0.12), "frequency": (5.5, 7.0)}
    >>> solved = pinn.Family(pinn.problems.DampedOscillator, **ranges).exact()
    >>> truth = {"damping": 0.05, "frequency": 6.2}
    >>> data = pinn.problems.DampedOscillator(**truth).observe(40, noise=0.15)
    >>> ax = pinn.plot.region(pinn.coefficients(solved, data), truth=truth)
    >>> ax.get_xlabel(), ax.get_legend_handles_labels()[1]
    ('damping', ['95 % region', 'least squares', 'truth'])
    """
    found = _checked(estimates).region
    if not found.drawn:
        raise ValueError(
            f"A region of {len(found.names)} coefficients cannot be drawn. Draw one at a time, "
            f"pinn.plot.misfit(estimates, {found.names[0]!r}), or ask for single values: "
            "region.contains(...)."
        )
    if len(found.names) == 1:
        return misfit(estimates, found.names[0], truth=truth, ax=ax)
    ax = axes(ax)
    label = f"{percent(found.level)} region"
    if found.empty:
        ax.plot([], [], " ", label=f"{label}: empty")
    else:
        inside = found.grid.inside.T.astype(float)
        a, b = found.grid.axes
        ax.contourf(a, b, inside, levels=[0.5, 1.5], colors=[BLUE], alpha=0.25)
        ax.contour(a, b, inside, levels=[0.5], colors=[BLUE], linewidths=1.2)
        ax.fill_between([], [], **INSIDE, label=label)
    ax.plot(*found.estimate, "o", color=BLUE, ms=6, label="least squares")
    if truth is not None:
        ax.plot(*(truth[name] for name in found.names), "x", color=ORANGE, ms=9, mew=2, label="truth")
    ax.set(xlabel=word(found.names[0]), ylabel=word(found.names[1]))
    legend(ax, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)
    return ax


def misfit(
    estimates: Estimates, name: str, *, truth: Mapping[str, float] | None = None, ax: Axes | None = None
) -> Axes:
    """How far readings are off along one coefficient, the others refitted; shaded is its interval.

    A deep valley is a coefficient that readings tell; a flat line is one that they do not.

    >>> from guardband import pinn
    >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    >>> data = pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.05)
    >>> pinn.plot.misfit(pinn.coefficients(solved, data), "diffusivity").get_ylabel()
    'root mean square of the residuals'
    """
    found = _checked(estimates).region
    values, off = estimates.misfit(name)
    j = found.position(name)
    ax = axes(ax)
    label = f"{percent(found.level)} region"
    if found.drawn and not found.empty:
        if len(found.names) > 1:
            ax.axvspan(*found.interval(name), **INSIDE, label=f"ends of the {label}")
        else:
            for number, (low, high) in enumerate(_pieces(found.grid.axes[0], found.grid.inside)):
                ax.axvspan(low, high, **INSIDE, label=label if number == 0 else None)
    ax.plot(values, off, color=BLUE, lw=1.8)
    ax.axvline(found.estimate[j], color=BLUE, ls="--", lw=1.2, label="least squares")
    if truth is not None:
        ax.axvline(truth[name], color=ORANGE, ls=":", lw=1.8, label="truth")
    low, high = float(values[0]), float(values[-1])
    ax.set(xlabel=word(name), ylabel="root mean square of the residuals", xlim=(low, high))
    if off.max() - off.min() < 1e-3 * off.max():
        ax.set_ylim(0, 1.2 * off.max() or 1.0)  # flat is drawn flat
    legend(ax)
    return ax


def residuals(estimates: Estimates, axis: str | None = None, *, ax: Axes | None = None) -> Axes:
    """What was read less the solution for the least-squares estimate, along one axis; by default the first.

    Where the equation is right, this is noise: as often above as below, in no order.

    >>> from guardband import pinn
    >>> solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    >>> data = pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.05)
    >>> pinn.plot.residuals(pinn.coefficients(solved, data), "t").get_xlabel()
    't'
    """
    design = _checked(estimates).region.design
    names = design.solved.family.names
    known = list(names.axes)
    if axis is not None and axis not in known:
        raise ValueError(f"There is no axis {axis!r}; there are {', '.join(known)}.")
    j = 0 if axis is None else known.index(axis)
    x = to_numpy(design.x)[:, j]
    ax = axes(ax)
    ax.axhline(0, color=GRAY, lw=1)
    for number, (column, off) in enumerate(zip(design.columns, estimates.residuals.T, strict=True)):
        style = DOT if design.m == 1 else {**DOT, "color": COLORS[number % len(COLORS)]}
        ax.plot(x, off, **{**style, "ms": 7}, label=word(names.outputs[column]))
    if design.m > 1:
        legend(ax)
    ax.set(xlabel=axis_words(names, known)[j], ylabel="read - solution")
    return ax


def _pieces(axis: np.ndarray, inside: np.ndarray) -> list[tuple[float, float]]:
    """From where to where values are inside: the first ones beyond, as for the interval."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(int)))
    last = len(axis) - 1
    return [
        (float(axis[max(0, start - 1)]), float(axis[min(last, end)]))
        for start, end in zip(edges[::2], edges[1::2], strict=True)
    ]


def _checked(estimates: Estimates) -> Estimates:
    if not hasattr(estimates, "region"):
        raise TypeError(
            f"`estimates` should be those of pinn.coefficients(solved, data), got {type(estimates).__name__}."
        )
    return estimates
