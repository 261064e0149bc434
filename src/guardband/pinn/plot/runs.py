"""Plots of training histories and of the chains of a sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from guardband.plot.style import COLORS, GRAY, axes, legend
from guardband.values.names import word

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from guardband.pinn.predictors.diagnostics import Diagnostics
    from guardband.pinn.training.fitted import Fitted


LINES = ("-", "--", "-.", ":")
"""Line styles, which combine with the colors to 28 different lines."""


def history(fitted: Fitted, *, ax: Axes | None = None) -> Axes:
    """Plot the mean squares of data, equations and conditions over the training steps.

    Each mean square is in its own units, and conditions that hold exactly are omitted. A thin line marks the
    end of Adam. For networks saved without a record by name, the plot shows the sums.

    Parameters
    ----------
    fitted
        The result of `pinn.fit`.
    ax
        The axes to draw on; new axes by default.

    Returns
    -------
    Axes
        The axes with the plot.

    Examples
    --------
    >>> from guardband import pinn
    >>> problem, recipe = pinn.problems.Poisson1D(), pinn.Recipe(steps=100, finish=0)
    >>> fitted = pinn.fit(
    ...     problem, pinn.mlp(1, [8]), problem.observe(60), recipe=recipe, progress=False
    ... )
    >>> pinn.plot.history(fitted).get_legend_handles_labels()[1]
    ['data', 'equation', 'Dirichlet']
    """
    rows = getattr(fitted, "terms", ()) or getattr(fitted, "history", None)
    if rows is None:
        raise TypeError(f"`fitted` should be the result of pinn.fit, got {type(fitted).__name__}.")
    if not rows:
        raise ValueError(
            "This network has no history. Train it by pinn.fit, which records a history every 50 steps."
        )
    ax = axes(ax)
    steps = [row["step"] for row in rows]
    names = [name for name in rows[-1] if name not in ("step", "loss") and any(row[name] > 0 for row in rows)]
    for number, name in enumerate(names):
        style = {"color": COLORS[number % len(COLORS)], "ls": LINES[number % len(LINES)], "lw": 1.8}
        mark = "o" if len(steps) < 3 else ""
        ax.plot(steps, [row.get(name, np.nan) for row in rows], marker=mark, label=word(name), **style)
    if steps[0] < fitted.recipe.steps < steps[-1]:
        ax.axvline(fitted.recipe.steps, color=GRAY, lw=0.8)
    ax.set(xlabel="step", ylabel="mean square", yscale="log")
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 2} if len(names) > 5 else {}
    legend(ax, handlelength=2.6, **below)
    return ax


def trace(diagnostics: Diagnostics, of: str | int = "U", *, ax: Axes | None = None) -> Axes:
    """Plot U, |theta| or a prediction along each chain.

    Parameters
    ----------
    diagnostics
        The `diagnostics` of a `pinn.predictors.HMC`.
    of
        "U", "|theta|", or the number of a probe point.
    ax
        The axes to draw on; new axes by default.

    Returns
    -------
    Axes
        The axes with the plot.

    Examples
    --------
    >>> from guardband import pinn
    >>> problem, recipe = pinn.problems.Poisson1D(), pinn.Recipe(steps=20, finish=0)
    >>> fitted = pinn.fit(
    ...     problem, pinn.mlp(1, [8]), problem.observe(30), recipe=recipe, progress=False
    ... )
    >>> chains = pinn.predictors.HMC(fitted, draws=5, warmup=3, progress=False)
    >>> pinn.plot.trace(chains.diagnostics, "U").get_xlabel()
    'draw'
    """
    ax = axes(ax)
    known = {"U": diagnostics.potential, "|theta|": diagnostics.norm}
    if isinstance(of, str) and of not in known:
        raise ValueError(f"`of` should be one of {', '.join(known)} or the number of a probe, got {of!r}.")
    series = known[of] if isinstance(of, str) else diagnostics.predictions[..., of]
    for number, chain in enumerate(series):
        ax.plot(chain, lw=0.8, alpha=0.8, label=f"chain {number}")
    ax.set(xlabel="draw", ylabel=of if isinstance(of, str) else f"prediction at probe {of}")
    legend(ax)
    return ax
