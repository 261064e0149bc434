"""The command line: a thin shell over the library.

Commands of `pinn` and `lab` are imported by `load`, which names the extra to install: the work of `identify`
when it runs, and the options of `study`, which import nothing heavy, at once.
"""

import signal
from typing import Annotated, Any

import typer

from guardband import __version__
from guardband.base.extras import load
from guardband.cli import bands, errors
from guardband.cli.identify import identify
from guardband.cli.watch import watch

app: typer.Typer = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(asked: bool) -> None:
    if asked:
        errors.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Prediction bands with a coverage guarantee for PINNs and other PDE surrogates."""


for _command in (bands.calibrate, bands.predict, bands.verify, bands.report, watch, identify, bands.doctor):
    app.command()(errors.in_one_line()(_command))
app.add_typer(load("guardband.lab.cli", "lab").app, name="study")


def run() -> None:
    """The command `guardband`, which tidies up when it is terminated."""
    signal.signal(signal.SIGTERM, _terminated)
    errors.run(app)


def _terminated(number: int, _: Any) -> None:
    raise errors.Terminated(128 + number)
