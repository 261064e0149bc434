"""Extras: packages that only some features need, imported where they are used."""

from __future__ import annotations

import importlib
import random
import sys
from typing import Any


def load(module: str, extra: str | None = None, *, package: str | None = None) -> Any:
    """An optional module, or one line that says what to install: an extra of ours, or a package by its name.

    >>> load("math", "none").pi > 3
    True
    """
    before = None if module in sys.modules else random.getstate()
    try:
        return importlib.import_module(module)
    except ImportError as error:
        install = package or f'"guardband[{extra}]"'
        missing = (error.name or module).partition(".")[0]
        raise ImportError(f"This needs {missing}: pip install {install}", name=missing) from error
    finally:
        if before is not None:  # some packages draw from Python's generator when they are imported
            random.setstate(before)
