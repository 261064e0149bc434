"""Optional packages, imported on first use."""

from __future__ import annotations

import importlib
import random
import sys
from typing import Any


def load(module: str, extra: str | None = None, *, package: str | None = None) -> Any:
    """Import an optional module, or raise an error with the extra or the package to install.

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
        if before is not None:  # some packages use Python's random generator during import
            random.setstate(before)
