"""guardband watch: what may be said. The work is in `watching.py`, which is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from guardband.cli.bands import Folder, Import, Json, LevelOption, ModelOption, say
from guardband.cli.errors import in_one_line
from guardband.cli.words import METHODS


def watch(
    folder: Folder,
    data: Annotated[
        str, typer.Option("--data", help="A .csv that grows, inputs and targets in each row; - for a pipe.")
    ],
    out: Annotated[Path, typer.Option(help="Where bands and alarms go, one JSON object per line.")],
    snapshot: Annotated[
        Path | None, typer.Option(help="Where it keeps what it knows; by default OUT.snapshot.")
    ] = None,
    level: LevelOption = "0.95",
    method: Annotated[
        str, typer.Option(help=f"How bands follow the readings: {', '.join(METHODS)}.")
    ] = METHODS[0],
    every: Annotated[int, typer.Option(min=1, help="Rows between two snapshots.")] = 1000,
    once: Annotated[
        bool, typer.Option("--once", help="End at the end of the file instead of waiting for more rows.")
    ] = False,
    model: ModelOption = None,
    imports: Import = None,
    as_json: Json = False,
) -> None:
    """Follow a sensor: a band for every row, then its reading, and an alarm when misses have changed.

    Started again after it was killed, it goes on at its snapshot: rows that a .csv got meanwhile are read,
    and no line of OUT is lost or doubled. Of a pipe at most --every readings are lost.
    """
    from guardband.cli import watching

    with in_one_line():
        found, text = watching.watch(
            folder,
            data,
            out,
            snapshot=out.with_name(f"{out.name}.snapshot") if snapshot is None else snapshot,
            level=level,
            method=method,
            every=every,
            once=once,
            model=model,
            imports=imports,
        )
    say(found, text, as_json)
