"""guardband identify: what may be said. The work is in `guardband.pinn.cli`, imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from guardband.base.extras import load
from guardband.cli.bands import Json, LevelOption, say
from guardband.cli.words import NOISES


def identify(
    problem: Annotated[Path, typer.Argument(help="Python with a problem and `family = pinn.Family(...)`.")],
    data: Annotated[
        Path, typer.Option("--data", help="Readings: columns called as axes and outputs, .csv and others.")
    ],
    out: Annotated[Path, typer.Option(help="The page to write, .html or .md.")] = Path("report.html"),
    noise: Annotated[str, typer.Option(help=f"What you know of the noise: {', '.join(NOISES)}.")] = NOISES[0],
    level: LevelOption = "0.95",
    family: Annotated[
        Path | None, typer.Option(help="A folder: a trained family is taken from it, or kept there.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="How far the solver may be off at the readings; else it is checked.")
    ] = None,
    next_readings: Annotated[
        int, typer.Option("--next", min=0, help="How many places for further readings to name.")
    ] = 0,
    candidates: Annotated[
        Path | None, typer.Option(help="For --next: a file of places to choose from; else the whole domain.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Choose it before you look at the readings.")] = 0,
    as_json: Json = False,
) -> None:
    """Find the coefficients of an equation from readings of its solution, with a region around them.

    PROBLEM says which equation, and between which values its coefficients lie: family = pinn.Family(Rod,
    diffusivity=(0.02, 0.2)). It may also make a `solver`, a function (x, diffusivity) -> u, or a
    `recipe`. A slow solver only checks the network if there is a --family.
    """
    found, text = load("guardband.pinn.cli", "pinn").identify(
        problem,
        data,
        out,
        noise=noise,
        level=level,
        folder=family,
        delta=delta,
        seed=seed,
        next_readings=next_readings,
        candidates=candidates,
    )
    say(found, text, as_json)
    if found["doubted"] or found["empty"]:
        raise typer.Exit(1)
