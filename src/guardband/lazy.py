"""Names of a package that are imported when they are first used, so that the package itself imports fast."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

_LOCK = threading.RLock()


@contextmanager
def _in_turn() -> Iterator[None]:
    """One thread after the other: two that import a package from two ends can stop each other.

    Python then goes on with half a module. Nobody waits here for ever, since others may hold what we need.
    """
    mine = _LOCK.acquire(timeout=60)
    try:
        yield
    finally:
        if mine:
            _LOCK.release()


def names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package (PEP 562).

    `modules` says what is imported from where: names, separated by blanks, behind their module;
    behind the package itself stand modules of it.

    >>> get, _ = names("json", {"json": "tool", "json.decoder": "JSONDecoder"})
    >>> get("JSONDecoder").__module__, get("tool").__name__
    ('json.decoder', 'json.tool')
    """
    home = {name: module for module, listed in modules.items() for name in listed.split()}
    this = sys.modules[package]

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"Module {package!r} has no attribute {name!r}.", name=name, obj=this)
        module = f"{package}.{name}" if home[name] == package else home[name]
        with _in_turn():
            imported = import_module(module)
        if home[name] == package:
            return imported
        found = getattr(imported, name)
        setattr(this, name, found)
        return found

    class Package(ModuleType):
        """Python puts an imported module into its package; a name in it that is called alike comes first."""

        def __reduce__(self) -> tuple[Any, ...]:
            return import_module, (package,)  # sent to another process by its name, as every module is

        def __setattr__(self, name: str, value: Any) -> None:
            if name in alike and isinstance(value, ModuleType):
                value = getattr(value, name)
            super().__setattr__(name, value)

    if alike := {name for name, module in home.items() if module == f"{package}.{name}"}:
        this.__class__ = Package
    return get, lambda: sorted({*vars(this), *home})
