"""Packages whose names are imported on first use, so that the package itself imports fast.

The stub of the package, `__init__.pyi`, lists the names and their modules. Type checkers, editors and
`attach` read the same file.
"""

from __future__ import annotations

import ast
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from guardband.base.old_names import OLD_MODULES, OLD_NAMES, SAID

Getter: TypeAlias = Callable[[str], Any]
"""The `__getattr__` of a package."""

_LOCK = threading.RLock()


@contextmanager
def _in_turn() -> Iterator[None]:
    """Let one thread import at a time: two threads that import a package in opposite order can deadlock.

    Python resolves such a deadlock by continuing with a partially initialized module. The lock times out,
    since the thread that holds it may itself wait for another lock.
    """
    acquired = _LOCK.acquire(timeout=60)
    try:
        yield
    finally:
        if acquired:
            _LOCK.release()


def attach(package: str) -> tuple[Getter, Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` (PEP 562) of a package with a stub.

    `__all__` lists no modules, so a star import does not load other parts of the library. Names that moved
    since version 0.2 are resolved as in `moved`.

    >>> get, listed, public = attach("guardband")
    >>> get("calibrate").__module__, "evaluate" in public
    ('guardband.calibration.calibrate', True)
    """
    this = sys.modules[package]
    homes = _homes(Path(str(this.__file__)).with_suffix(".pyi"))
    otherwise = moved(package)

    def get(name: str) -> Any:
        if name not in homes:
            return otherwise(name)
        if homes[name] == package:
            return _imported(f"{package}.{name}")
        found = getattr(_imported(homes[name]), name)
        setattr(this, name, found)
        return found

    public = sorted((name for name, home in homes.items() if home != package), key=_order)
    return get, lambda: sorted({*vars(this), *homes}), public


def is_made_by(value: object, module: str, name: str) -> bool:
    """Whether the class of a value is defined in a module; a module that is not loaded has no instances.

    >>> is_made_by([], "guardband.fields.stored", "StoredFields")
    False
    """
    home = sys.modules.get(module)
    return home is not None and isinstance(value, getattr(home, name))


def moved(package: str) -> Getter:
    """Return a `__getattr__` that resolves the names of `OLD_NAMES`, with a `DeprecationWarning`."""

    def get(name: str) -> Any:
        now = OLD_NAMES.get(package, {}).get(name)
        if now is None:
            this = sys.modules[package]
            raise AttributeError(f"Module {package!r} has no attribute {name!r}.", name=name, obj=this)
        warnings.warn(f"{package}.{name} is now {SAID.get(now, now)}.", DeprecationWarning, stacklevel=2)
        module, _, last = now.rpartition(".")
        return getattr(_imported(module), last)

    return get


class _OldModules(MetaPathFinder, Loader):
    """Imports a module of `OLD_MODULES` under its old name, with a `DeprecationWarning`."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in OLD_MODULES else None

    def exec_module(self, module: ModuleType) -> None:
        old, now = module.__name__, OLD_MODULES[module.__name__]
        warnings.warn(f"The module {old} is now {now}.", DeprecationWarning, stacklevel=2)
        sys.modules[old] = import_module(now)


sys.meta_path.append(_OldModules())


def _homes(stub: Path) -> dict[str, str]:
    """The module of each name that a stub imports."""
    imports = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def _imported(module: str) -> Any:
    with _in_turn():
        return import_module(module)


def _order(name: str) -> tuple[bool, bool, str]:
    return not name.isupper(), not name[0].isupper(), name
