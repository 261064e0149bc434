"""Docstrings of public names: NumPy's sections, with the parameter names of the signature."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from helpers import script

API = script("tools/docs/reference.py")
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)


def sections(docstring: str) -> dict[str, str]:
    """The sections of a docstring in NumPy's format, by heading."""
    parts = SECTION.split(inspect.cleandoc(docstring))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def documented(section: str) -> list[str]:
    """The names listed in a section, without types and asterisks."""
    lines = [line.partition(" : ")[0] for line in section.splitlines() if line[:1].strip()]
    return [name.strip("* ") for line in lines for name in line.split(",")]


def parameters(function: Callable[..., Any], *, method: bool) -> list[str]:
    """The public parameters of a function, in order; a method is called without its first one."""
    static = not method or isinstance(function, staticmethod)
    names = list(inspect.signature(getattr(function, "__func__", function)).parameters)
    return [name for name in names[not static :] if not name.startswith("_")]


def faults(name: str, value: Any) -> Iterator[str]:
    """What the docstring of a public function or class lacks, its methods included."""
    text = sections(value.__doc__ or "")
    if not inspect.isclass(value):
        yield from function_faults(name, value, text, method=False)
        return
    listed = documented(text.get("Parameters", ""))
    made = dataclasses.is_dataclass(value) or "__init__" in vars(value)
    taken = parameters(value, method=False) if made else []
    if missing := [one for one in taken if one not in listed + documented(text.get("Attributes", ""))]:
        yield f"{name}: the docstring of the class does not list {', '.join(missing)}"
    if other := [
        one for one in listed if one not in {*taken, *dir(value), *getattr(value, "__annotations__", ())}
    ]:
        yield f"{name}: the docstring of the class lists {', '.join(other)}, which it does not take"
    for word, method in vars(value).items():
        inherited = any(hasattr(base, word) for base in value.__mro__[1:])
        function = getattr(method, "__func__", method)
        if word[0] == "_" or inherited or not inspect.isfunction(function) or not function.__doc__:
            continue
        yield from function_faults(f"{name}.{word}", method, sections(function.__doc__), method=True)


def function_faults(
    name: str, function: Callable[..., Any], text: dict[str, str], *, method: bool
) -> Iterator[str]:
    """What the docstring of a function lacks."""
    taken, listed = parameters(function, method=method), documented(text.get("Parameters", ""))
    if taken != listed:
        yield f"{name}: takes {taken}; the docstring lists {listed}"
    returned = inspect.signature(getattr(function, "__func__", function)).return_annotation
    if returned not in (None, "None", inspect.Signature.empty) and not {"Returns", "Yields"} & set(text):
        yield f"{name}: has no section Returns"


@pytest.mark.parametrize("name", API.names())
def test_the_docstring_lists_what_the_signature_takes(name: str) -> None:
    if not API.constant(name):
        assert list(faults(name, API.found(name)[1])) == []
