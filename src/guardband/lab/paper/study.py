"""The study of the paper: all its experiments, over many seeds, in two presets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from guardband.lab.paper.experiments import EXPERIMENTS, PRESETS, Preset, cells, shortened
from guardband.lab.paper.pages import write_pages
from guardband.lab.studies.base import Study


def study(
    *,
    only: Iterable[str] = (),
    presets: Sequence[Preset] = PRESETS,
    seeds: int | None = None,
    draws: int = 1000,
    smoke: bool = False,
) -> Study:
    """Return the study of the paper's tables and figures.

    Parameters
    ----------
    only
        Tables, figures or experiments to include, such as "table2" or "figure8"; by default all.
    presets
        "ours", "paper", or both.
    seeds
        Training runs of each method; by default 20 for `ours` and 2 to 5 for `paper`.
    draws
        Recalibrations of each trained network.
    smoke
        Whether to train for only a few seconds, to test the setup. The numbers are then meaningless.

    Returns
    -------
    Study
        The study.

    Examples
    --------
    >>> from guardband import lab
    >>> study = lab.paper.study(only=["table2"], presets=["ours"], seeds=1)
    >>> {cell.experiment for cell in study.cells}
    {'helmholtz, ours'}
    """
    wanted = set(only)
    known = {name for name in EXPERIMENTS} | {feed for e in EXPERIMENTS.values() for feed in e.feeds}
    if wanted - known:
        raise ValueError(
            f"`only` should name some of {', '.join(sorted(known))}, got {sorted(wanted - known)}."
        )
    if set(presets) - set(PRESETS):
        raise ValueError(f"`presets` should be some of {', '.join(PRESETS)}, got {list(presets)}.")
    if smoke:
        seeds, draws = seeds or 1, min(draws, 20)
    selected = [
        shortened(cell) if smoke else cell
        for preset in presets
        for name, experiment in EXPERIMENTS.items()
        if not wanted or wanted & {name, *experiment.feeds}
        for seed in range(seeds or (20 if preset == "ours" else experiment.paper_seeds))
        for cell in cells(name, experiment, preset, seed, draws)
    ]
    return Study("paper", selected, write_pages)
