"""The command line: a thin shell over the library."""

import typer

from guardband.cli import bands, study

app = typer.Typer(
    help="Prediction bands with a coverage guarantee for PINNs and other PDE surrogates.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (bands.calibrate, bands.predict, bands.verify, bands.report, bands.doctor):
    app.command()(command)
app.add_typer(study.app, name="study")
