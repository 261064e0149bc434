"""How commands end: one sentence, and an exit code.

0 done, 1 the band does not hold, 2 the input is wrong, 3 a fault of the model or machine, 130 interrupted,
141 the reader of standard output has gone.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import typer

from guardband.base.limits import printable

INPUT, FAULT, STOPPED, UNREAD = 2, 3, 130, 141
"""Exit codes; 141 is what a shell reports for other programs whose reader has gone (SIGPIPE)."""

MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EROFS}
MACHINE |= {errno.EFBIG}
"""Errors of the operating system that no other input would mend."""


class Terminated(SystemExit):
    """The signal SIGTERM has come."""


class Unwritten(Exception):
    """Standard output cannot be written to. Not an `OSError`, which typer would turn into status 1."""


def fail(message: str, code: int = INPUT) -> NoReturn:
    """Say what is wrong on standard error, and end."""
    _complain(f"guardband: {message}", "red")
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
    """Errors and warnings as one line each, without a traceback.

    Status 1 is a verdict, so no error ends with it: not even a model that calls `sys.exit(1)`.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = note
            yield
    except (Terminated, Unwritten, typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        fail("stopped.", STOPPED)
    except (ValueError, TypeError, ImportError, OSError, *more) as error:
        fail(str(error), code_of(error))
    except BaseException as error:  # most likely of the model, which may raise anything
        fail(f"{type(error).__name__}: {error}", FAULT)


def note(message: Warning | str, *_: Any) -> None:
    """Say something worth knowing on standard error."""
    _complain(f"guardband: note: {message}", "yellow")


def echo(text: object) -> None:
    """Print a result. All commands print through this function."""
    try:
        typer.echo(printable(str(text)))
    except OSError as error:
        raise Unwritten from error


def run(app: Callable[[], Any]) -> NoReturn:
    """Run the commands of `app`; an exit code that is a verdict means that its output was written."""
    code, error = FAULT, None
    try:
        app()
    except SystemExit as end:
        code = UNREAD if isinstance(end.__context__, BrokenPipeError) else end.code
    except Unwritten as unwritten:
        error = unwritten.__cause__
    except OSError as found:  # commands catch their own, so this is the help that cannot be written
        error = found
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as found:
        error = found
    if isinstance(error, OSError) and sys.stdout is not None:
        with suppress(OSError, ValueError):  # else Python reports again what is still in the buffer
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = UNREAD if error.errno == errno.EPIPE else FAULT
        if code == FAULT:
            _complain(f"guardband: Standard output cannot be written: {error.strerror}.", "red")
    sys.exit(code)


def _complain(text: str, color: str) -> None:
    with suppress(OSError):  # standard error may be full or closed
        typer.secho(printable(text), err=True, fg=color)
