"""The command line, a thin shell over the library.

`load` imports the commands of `pinn` and `lab` and names the extra to install if one is missing. `identify`
is imported when it runs; the options of `study` import nothing heavy and are loaded at once.
"""

import signal
from types import FrameType
from typing import Annotated

import typer

from guardband import __version__
from guardband.base.extras import load
from guardband.cli import commands, errors

app: typer.Typer = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(requested: bool) -> None:
    if requested:
        errors.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Prediction bands with a coverage guarantee for PINNs and other PDE surrogates."""


for _command in (
    commands.calibrate,
    commands.predict,
    commands.verify,
    commands.report,
    commands.watch,
    commands.identify,
    commands.doctor,
):
    app.command()(errors.in_one_line()(_command))
app.add_typer(load("guardband.lab.cli", "lab").app, name="study")


def run() -> None:
    """Run the command `guardband`; SIGTERM raises an exception, so that files are closed properly."""
    signal.signal(signal.SIGTERM, _terminate)
    errors.run(app)


def _terminate(number: int, _: FrameType | None) -> None:
    raise errors.Terminated(128 + number)
