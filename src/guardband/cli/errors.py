"""How commands end: one sentence, and an exit code."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer


def fail(message: str, code: int = 2) -> NoReturn:
    """Say what is wrong on standard error, and end."""
    typer.secho(f"guardband: {message}", err=True, fg="red")
    raise typer.Exit(code)


@contextmanager
def in_one_line(*more: type[Exception]) -> Iterator[None]:
    """Errors and warnings that teach are enough for a person; where they were raised is not of interest."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = note
            yield
    except (ValueError, TypeError, ImportError, OSError, *more) as error:
        fail(str(error))


def note(message: Warning | str, *_: Any) -> None:
    """Say something worth knowing on standard error."""
    typer.secho(f"guardband: note: {message}", err=True, fg="yellow")
