"""Runs: coverage over levels, the history of a training, the chains of a sampler."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from guardband.evaluation import Evaluation
from guardband.labels import word
from guardband.plot.style import COLORS, GRAY, KINDS, axes, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from guardband.pinn import Fitted
    from guardband.predictors.diagnostics import Diagnostics


def coverage_curve(evaluation: Evaluation, *, ax: Axes | None = None) -> Axes:
    """Coverage against level, for every band of an evaluation over all test points.

    The shaded region holds the coverage of a perfectly valid band, at each level in 99 % of cases,
    for this number of calibration and test points; a curve inside it cannot be told from perfect.

    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0).normal
    >>> calibrated = gb.calibrate(np.zeros_like, draw(size=100), draw(size=100))
    >>> ax = gb.plot.coverage_curve(gb.evaluate(calibrated, draw(size=500), draw(size=500)))
    >>> ax.get_legend_handles_labels()[1]
    ['valid (99 %)', 'this band']
    """
    ax = axes(ax)
    main = evaluation.rows[0]
    levels = np.array([float(level) for level in main.levels])
    if evaluation.ranges is not None:
        low, high = evaluation.ranges.T
        ax.fill_between(levels, low, high, color=GRAY, alpha=0.2, lw=0, label="valid (99 %)")
    ax.plot([0, 1], [0, 1], ":", color=GRAY, lw=1)
    drawn: Counter[str] = Counter()
    for row in evaluation.rows:
        if row.region:
            continue
        color = next((color for kind, color in KINDS.items() if row.name.startswith(kind)), GRAY)
        style = ("o-", "o--", "o-.", "o:")[drawn[color] % 4]  # outputs that are covered each by itself
        ax.plot(levels, row.coverages, style, ms=3, lw=1.4, color=color, label=row.name)
        drawn[color] += 1
    ax.set(xlabel="level asked", ylabel="coverage measured", xlim=(0, 1), ylim=(0, 1.01))
    ax.set_aspect("equal")
    legend(ax, loc="lower right")
    return ax


LINES = ("-", "--", "-.", ":")
"""The styles of lines, which with their colors make 28 that differ."""


def history(fitted: Fitted, *, ax: Axes | None = None) -> Axes:
    """How the misses of the data, of each equation and of each condition fell while a network was trained.

    Mean squares, in units of their own, over the steps; what is met exactly is left out. The thin line is
    where L-BFGS began. A network that was saved before each had its record shows their sums.

    >>> import guardband as gb
    >>> problem, recipe = gb.problems.Poisson1D(), gb.Recipe(steps=100, finish=0)
    >>> fitted = gb.fit(
    ...     problem, gb.mlp(1, [8]), problem.observe(60), recipe=recipe, progress=False
    ... )
    >>> gb.plot.history(fitted).get_legend_handles_labels()[1]
    ['data', 'equation', 'Dirichlet']
    """
    told = getattr(fitted, "terms", ()) or getattr(fitted, "history", None)
    if told is None:
        raise TypeError(f"`fitted` should be what gb.fit returned, got {type(fitted).__name__}.")
    if not told:
        raise ValueError(
            "This network has no history: gb.fit writes one, every 50 steps. Train it by gb.fit."
        )
    ax = axes(ax)
    steps = [row["step"] for row in told]
    names = [name for name in told[-1] if name not in ("step", "loss") and any(row[name] > 0 for row in told)]
    for number, name in enumerate(names):
        style = {"color": COLORS[number % len(COLORS)], "ls": LINES[number % len(LINES)], "lw": 1.8}
        mark = "o" if len(steps) < 3 else ""
        ax.plot(steps, [row.get(name, np.nan) for row in told], marker=mark, label=word(name), **style)
    if steps[0] < fitted.recipe.steps < steps[-1]:
        ax.axvline(fitted.recipe.steps, color=GRAY, lw=0.8)
    ax.set(xlabel="step", ylabel="mean square", yscale="log")
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 2} if len(names) > 5 else {}
    legend(ax, handlelength=2.6, **below)
    return ax


def trace(diagnostics: Diagnostics, of: str | int = "U", *, ax: Axes | None = None) -> Axes:
    """How U, |theta| or the prediction at one of the probe points (its number) moved along each chain.

    >>> import guardband as gb
    >>> problem, recipe = gb.problems.Poisson1D(), gb.Recipe(steps=20, finish=0)
    >>> fitted = gb.fit(
    ...     problem, gb.mlp(1, [8]), problem.observe(30), recipe=recipe, progress=False
    ... )
    >>> chains = gb.predictors.HMC(fitted, draws=5, warmup=3, progress=False)
    >>> gb.plot.trace(chains.diagnostics, "U").get_xlabel()
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
