"""torch and the two wings that need it: `from wings import pinn, torch`.

If torch is not installed, they are stand-ins, and tests that use one are skipped. The other tests of the
file run.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest


class Absent:
    """A stand-in for torch: collection may use it in any way; a test that uses it is skipped."""

    collecting = True

    def __init__(self, name: str = "") -> None:
        if name:  # used in the id of a parametrized case
            self.__name__ = name

    def __getattr__(self, name: str) -> "Absent":
        if name.startswith(("_", "pytest_")):  # looked up by Python, NumPy or pytest
            raise AttributeError(name)
        self()
        return Absent(name)

    def __call__(self, *_: Any, **__: Any) -> "Absent":
        if not Absent.collecting:
            pytest.skip("needs torch")
        return Absent()

    def __repr__(self) -> str:  # equal in all processes, so that they collect the same ids
        return "absent"

    __add__ = __sub__ = __mul__ = __or__ = __call__

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type]:  # allows its use as a base class
        return (NeedsTorch,)


class NeedsTorch:
    """Replaces a base class from torch."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        Absent()()
        return super().__new__(cls)


def needed(value: object) -> None:
    """Skip a test if a value needs torch."""
    if isinstance(value, Absent):
        pytest.skip("needs torch")


def optional(module: str) -> Any:
    """Return a module that needs torch, or a stand-in."""
    return import_module(module) if find_spec("torch") else Absent(module)


if TYPE_CHECKING:
    import torch as torch
    from torch import nn as nn

    from guardband import lab as lab
    from guardband import pinn as pinn
else:
    torch, nn, pinn, lab = map(optional, ("torch", "torch.nn", "guardband.pinn", "guardband.lab"))
