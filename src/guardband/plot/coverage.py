"""Coverage over levels."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from guardband.evaluation import Evaluation
from guardband.plot.style import GRAY, KINDS, axes, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
