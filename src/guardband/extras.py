"""Extras: packages that only some features need, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any


def load(module: str, extra: str) -> Any:
    """An optional module, or one line that says what to install.

    >>> load("math", "none").pi > 3
    True
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f'This needs {package}: pip install "guardband[{extra}]"') from error
