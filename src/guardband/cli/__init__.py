"""The command line: a thin shell over the library."""

import signal
import sys
from typing import Annotated, Any

import typer

from guardband import __version__
from guardband.cli import bands, study
from guardband.cli.identify import identify
from guardband.cli.watch import watch

app: typer.Typer = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Prediction bands with a coverage guarantee for PINNs and other PDE surrogates."""


for _command in (bands.calibrate, bands.predict, bands.verify, bands.report, watch, identify, bands.doctor):
    app.command()(_command)
app.add_typer(study.app, name="study")


def run() -> None:
    """The command `guardband`: what has to be left tidy is, and nobody hears of a pipe that was closed."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        app()
    except SystemExit as ended:
        closed = type(sys.stdout).__name__ == "PacifyFlushWrapper"  # so typer marks a pipe nobody reads
        sys.exit(0 if closed else ended.code)


def _terminated(number: int, _: Any) -> None:
    sys.exit(128 + number)
