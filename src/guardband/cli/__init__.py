"""The command line: a thin shell over the library."""

from typing import Annotated

import typer

from guardband import __version__
from guardband.cli import bands, study

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


for _command in (bands.calibrate, bands.predict, bands.verify, bands.report, bands.doctor):
    app.command()(_command)
app.add_typer(study.app, name="study")
