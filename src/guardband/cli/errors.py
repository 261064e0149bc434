"""Exit codes of the commands, and errors and notes printed as one line each.

0: success; 1: the band does not hold; 2: wrong input; 3: a failure of the model or the machine;
130: interrupted; 141: the reader of standard output has closed it.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import typer

from guardband.base.limits import printable

INPUT, FAULT, STOPPED, UNREAD = 2, 3, 130, 141
"""Exit codes; 141 is the code that a shell reports for programs killed by SIGPIPE."""

MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EROFS}
MACHINE |= {errno.EFBIG}
"""Errors of the operating system that do not depend on the input."""


class Terminated(SystemExit):
    """Raised on SIGTERM."""


class Unwritten(Exception):
    """Standard output cannot be written. Not an `OSError`, which typer would turn into status 1."""


def fail(message: str, code: int = INPUT) -> NoReturn:
    """Print an error message on standard error and exit."""
    _print_error(f"guardband: {message}", "red")
    raise typer.Exit(code)


def code_of(error: BaseException | None) -> int:
    """Return 3 if an error of the machine, such as a full disk, is among the causes, otherwise 2."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in MACHINE:
            return FAULT
        error = error.__cause__
    return INPUT


@contextmanager
def in_one_line(*more: type[Exception]) -> Iterator[None]:
    """Print errors and warnings as one line each, without a traceback.

    Status 1 is reserved for the verdict, so no error exits with it, not even a model that calls
    `sys.exit(1)`.
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
    except BaseException as error:  # the model may raise anything
        fail(f"{type(error).__name__}: {error}", FAULT)


def note(message: Warning | str, *_: object) -> None:
    """Print a note on standard error."""
    _print_error(f"guardband: note: {message}", "yellow")


def echo(text: object) -> None:
    """Print a result on standard output; all commands print through this function."""
    try:
        typer.echo(printable(str(text)))
    except OSError as error:
        raise Unwritten from error


def run(app: Callable[[], object]) -> NoReturn:
    """Run `app`; it exits with the code of a verdict only if all output was written."""
    code, error = FAULT, None
    try:
        app()
    except SystemExit as end:
        code = UNREAD if isinstance(end.__context__, BrokenPipeError) else end.code
    except Unwritten as unwritten:
        error = unwritten.__cause__
    except OSError as failure:  # commands catch their own, so the help could not be written
        error = failure
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as failure:
        error = failure
    if isinstance(error, OSError) and sys.stdout is not None:
        with suppress(OSError, ValueError):  # otherwise Python tries to flush the buffer again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = UNREAD if error.errno == errno.EPIPE else FAULT
        if code == FAULT:
            _print_error(f"guardband: Standard output cannot be written: {error.strerror}.", "red")
    sys.exit(code)


def _print_error(text: str, color: str) -> None:
    with suppress(OSError):  # standard error may be full or closed
        typer.secho(printable(text), err=True, fg=color)
