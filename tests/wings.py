"""torch and the two wings that need it: `from wings import pinn, torch`.

Where torch is not installed, each is a stand-in, and a test that uses it is skipped. The other tests of the
file run.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest


class Absent:
    """What torch would provide: anything may be done with it while tests are collected, nothing in a test."""

    collecting = True

    def __init__(self, name: str = "") -> None:
        if name:  # the id of a case that has this as its value
            self.__name__ = name

    def __getattr__(self, name: str) -> "Absent":
        if name.startswith(("_", "pytest_")):  # asked for by Python, numpy or pytest
            raise AttributeError(name)
        self()
        return Absent(name)

    def __call__(self, *_: Any, **__: Any) -> "Absent":
        if not Absent.collecting:
            pytest.skip("needs torch")
        return Absent()

    def __repr__(self) -> str:  # the same in all processes, which collect the same ids
        return "absent"

    __add__ = __sub__ = __mul__ = __or__ = __call__

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type]:  # a class may have it as its base
        return (NeedsTorch,)


class NeedsTorch:
    """The base of classes that would have one of torch's."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        Absent()()
        return super().__new__(cls)


def needed(value: object) -> None:
    """Skip a test whose value would be made by torch."""
    if isinstance(value, Absent):
        pytest.skip("needs torch")


def optional(module: str) -> Any:
    """A module that needs torch, or its stand-in."""
    return import_module(module) if find_spec("torch") else Absent(module)


if TYPE_CHECKING:
    import torch as torch
    from torch import nn as nn

    from guardband import lab as lab
    from guardband import pinn as pinn
else:
    torch, nn, pinn, lab = map(optional, ("torch", "torch.nn", "guardband.pinn", "guardband.lab"))
