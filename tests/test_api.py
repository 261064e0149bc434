"""The public names: all in the reference, each with an example that stands alone; nothing else leaks out."""

import ast
import builtins
import doctest
import importlib
import importlib.util
import re
import sys
from types import ModuleType

import pytest

import guardband as gb
from helpers import script

WHOLE = (
    "adapters",
    "calibration",
    "conformal",
    "datasets",
    "integrations.mlflow",
    "integrations.sklearn",
    "integrations.xarray",
    "lab.paper",
    "lab.studies",
    "metrics",
    "pinn",
    "pinn.inverse",
    "pinn.plot",
    "pinn.predictors",
    "pinn.problems",
    "pinn.problems.noise",
    "plot",
    "predictors",
    "streams",
    "surrogates",
)
"""Modules of which every public name is in the reference."""


API = script("tools/docs/reference.py")
NAMES: list[str] = API.names()


def _public(module: ModuleType) -> list[str]:
    """What a module lists in `__all__`, or the functions and classes it defines without underscore."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if callable(getattr(module, name))]
    made = {name: value for name, value in vars(module).items() if callable(value) and name[0] != "_"}
    return [name for name, value in made.items() if getattr(value, "__module__", None) == module.__name__]


def test_the_index_leads_to_every_name_on_its_page() -> None:
    pages = API.pages()
    for name in NAMES:
        (page,) = re.findall(
            rf"\| \[`{re.escape(name)}`\]\(([\w-]+\.md)#{re.escape(API.home(name))}\)", pages["index.md"]
        )
        assert f"heading: {API.written(name)}\n" in pages[page]


def test_no_name_is_in_the_reference_twice() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_every_public_name_is_in_the_reference() -> None:
    assert set(_public(gb)) <= set(NAMES)


@pytest.mark.parametrize("module", WHOLE)
def test_every_public_name_of_a_module_is_in_the_reference(module: str) -> None:
    listed = {id(API.found(name)[1]) for name in NAMES}
    place = importlib.import_module(f"guardband.{module}")
    assert [name for name in _public(place) if id(getattr(place, name)) not in listed] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_an_example_that_stands_alone(name: str) -> None:
    examples = doctest.DocTestParser().get_examples(API.docstring(name))
    assert examples, f"{name} has no doctest"
    if any(example.options.get(doctest.SKIP) for example in examples):
        return
    tree = ast.parse("".join(example.source for example in examples))
    used = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    assert used - _bound(tree) - set(vars(builtins)) == set(), "an example should import what it uses"


def _bound(tree: ast.AST) -> set[str]:
    """All names that a piece of code makes."""
    names = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add((other or name).partition(".")[0])
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                names.add(name)
            case ast.arg(arg=name):
                names.add(name)
    return names


def test_examples_of_constants_are_right() -> None:
    """Pytest collects no doctests from the strings below constants."""
    constants = [name for name in NAMES if API.constant(name)]
    assert "conformal.LEVELS" in constants
    for name in constants:
        test = doctest.DocTestParser().get_doctest(API.docstring(name), {}, name, API.__file__, 0)
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_nothing_is_importable_by_accident() -> None:
    others = {name for name in vars(gb) if name[0] != "_"} - set(gb.__all__)
    assert {name for name in others if sys.modules.get(f"guardband.{name}") is not getattr(gb, name)} == set()


def test_all_lists_what_is_there_in_order() -> None:
    assert [name for name in gb.__all__ if not hasattr(gb, name)] == []
    assert len(set(gb.__all__)) == len(gb.__all__)
    in_order = sorted(gb.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert gb.__all__ == in_order, "constants, then classes, then functions and modules; each by the alphabet"
