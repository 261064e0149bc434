"""How commands end: one sentence, and an exit code.

0 done, 1 the band does not hold, 2 the input is wrong, 3 a fault of the model or machine, 130 interrupted.
"""

from __future__ import annotations

import errno
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from guardband.limits import printable

INPUT, FAULT = 2, 3
MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EROFS}
MACHINE |= {errno.EFBIG}
"""Errors of the operating system that no other input would mend."""


def fail(message: str, code: int = INPUT) -> NoReturn:
    """Say what is wrong on standard error, and end."""
    typer.secho(printable(f"guardband: {message}"), err=True, fg="red")
    raise typer.Exit(code)


def code_of(error: BaseException | None) -> int:
    """A full disk is no fault of the input, however deep in an error it lies."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in MACHINE:
            return FAULT
        error = error.__cause__
    return INPUT


@contextmanager
def in_one_line(*more: type[Exception]) -> Iterator[None]:
    """Errors and warnings that teach are enough for a person; where they were raised is not of interest."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = note
            yield
    except BrokenPipeError:
        raise
    except (ValueError, TypeError, ImportError, OSError, *more) as error:
        fail(str(error), code_of(error))
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # of the model, most likely: it may raise what it likes
        fail(f"{type(error).__name__}: {error}", FAULT)


def note(message: Warning | str, *_: Any) -> None:
    """Say something worth knowing on standard error."""
    typer.secho(printable(f"guardband: note: {message}"), err=True, fg="yellow")
