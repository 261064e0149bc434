"""Helpers that several test files share."""

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from guardband import Predictor
from guardband.base.arrays import Array
from guardband.base.kept import _KINDS, Kind
from guardband.conformal import Calibrator, Score
from guardband.conformal.local.shape import LocalShape

ROOT = Path(__file__).parent.parent


def script(path: str) -> Any:
    """Import a script of the repository, such as "tools/docs/blocks.py", as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem + "_script", ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Later:
    """A package that is imported at its first use in a test, to keep collection fast.

    A test is skipped if it uses a package that is not installed.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith(("_", "pytest_")):  # looked up during collection
            raise AttributeError(attribute)
        return getattr(pytest.importorskip(self._name, exc_type=ImportError), attribute)


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skip tests unless these packages are installed, without importing them."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


def forget_foreign_kinds() -> dict[str, Kind]:
    """Unregister and return the kept classes that are not defined in guardband."""
    foreign = [name for name, kind in _KINDS.items() if not kind.cls.__module__.startswith("guardband.")]
    return {name: _KINDS.pop(name) for name in foreign}


@dataclass(frozen=True, eq=False)
class Shaped(Calibrator):
    """Local conformal prediction with a given shape."""

    shape: Any
    make: type[LocalShape] = LocalShape

    def learn(self, predictor: Predictor | None, score: Score) -> LocalShape:
        return self.make(self.shape, None)

    def threshold(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def scale(predictor: Predictor, x: Array) -> Array:
    """Return the scale of a predictor at x."""
    found = predictor(x).scale
    assert found is not None
    return found
