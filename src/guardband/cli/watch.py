"""guardband watch: what may be said. The work is in `watching.py`, which is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from guardband.cli.bands import Folder, Import, Json, LevelOption, ModelOption, say
from guardband.cli.words import METHODS


def watch(
    folder: Folder,
    data: Annotated[
        str, typer.Option("--data", help="A .csv that grows, inputs and targets in each row; - reads a pipe.")
    ],
    out: Annotated[Path, typer.Option(help="Where bands and alarms go, one JSON object per line.")],
    snapshot: Annotated[
        Path | None, typer.Option(help="Where it keeps its state; by default OUT.snapshot.")
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

    After a kill, the same command resumes from its snapshot; no line of OUT is lost or doubled. The data have
    to begin again with the rows that were counted, which are skipped. A snapshot belongs to one calibration,
    data with one header, and one OUT; with others it is refused.

    A file that is rotated, shortened or replaced ends the command. Follow such a log through a pipe:

    tail -n +1 -F data.csv | guardband watch BAND --data - --out OUT

    A header that comes again, and rows below it that were counted, are skipped. Rows need something that
    distinguishes them, such as a time: a log that begins with the same rows is taken for the same log.
    """
    from guardband.cli import watching

    found, text = watching.watch(
        folder,
        data,
        out,
        snapshot=snapshot,
        level=level,
        method=method,
        every=every,
        once=once,
        model=model,
        imports=imports,
    )
    say(found, text, as_json)
