"""Names are imported when they are first used: the package, the version and every help page without torch."""

import ast
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import guardband as gb
from guardband.lazy import names

HEAVY = {"torch", "numpy", "scipy", "matplotlib"}
SOURCE = Path(gb.__file__ or "").read_text()

HELP = """
import typer.main
from guardband.cli import app

def pages(command, words):
    yield [*words, "--help"]
    for name, inner in getattr(command, "commands", {}).items():
        yield from pages(inner, [*words, name])

for words in [["--version"], *pages(typer.main.get_command(app), [])]:
    try:
        app(words)
    except SystemExit as end:
        assert end.code == 0, (words, end)
"""


def fresh(code: str) -> str:
    """What code prints in a Python of its own."""
    place = {"PYTHONPATH": str(Path(gb.__file__ or "").parents[1])}
    words = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(words, env=os.environ | place, check=True, capture_output=True, text=True).stdout


def test_the_package_alone_imports_nothing_heavy() -> None:
    said = fresh(f"import sys, guardband\nprint({HEAVY} & {{*sys.modules}})")
    assert said.strip() == "set()"


def test_the_version_and_every_help_page_come_without_torch() -> None:
    said = fresh(f"{HELP}\nimport sys\nprint({HEAVY} & {{*sys.modules}})")
    assert said.startswith(f"{gb.__version__}\n") and said.strip().endswith("set()")
    assert said.count("Usage: ") >= 11  # guardband, its five commands, study and its four
    assert "--targets" in said and "--smoke" in said


def test_the_table_is_what_type_checkers_see() -> None:
    block = next(node for node in ast.parse(SOURCE).body if isinstance(node, ast.If))
    seen = {
        (node.module, alias.name, alias.asname or alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    listed = [(home, name) for home, words in gb._HOME.items() for name in words.split()]
    assert seen == {(home, name, name) for home, name in listed} and len(seen) == len(listed)


def test_the_table_holds_all_public_names() -> None:
    listed = {name for words in gb._HOME.values() for name in words.split()}
    assert set(gb.__all__) <= listed <= set(dir(gb))
    assert listed - set(gb.__all__) == {"evaluation", "store", "tables"}, "modules of the reference"


@pytest.mark.slow
@pytest.mark.parametrize("first", ["import guardband.report", "from guardband.report import Path"])
def test_a_name_called_like_its_module_is_the_name(first: str) -> None:
    """Python puts a module that is imported into its package, over a function that is called alike."""
    said = fresh(f"{first}\nimport guardband as gb\nprint(type(gb.report).__name__)")
    assert said.strip() == "function"


@pytest.mark.slow
def test_names_work_in_any_order_and_in_threads() -> None:
    code = """
import pickle, random, threading
import guardband as gb

def look(seed):
    order = random.Random(seed).sample(gb.__all__, len(gb.__all__))
    found[seed] = {name: getattr(gb, name) for name in order}

found = {}
threads = [threading.Thread(target=look, args=(seed,)) for seed in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8 and all(other == found[0] for other in found.values())
assert pickle.loads(pickle.dumps(gb.fit)) is gb.fit and pickle.loads(pickle.dumps(gb.Split())) == gb.Split()
from guardband import *
assert all(globals()[name] is getattr(gb, name) for name in gb.__all__)
print(gb.predictors.MeanOnly.__name__, gb.conformal.__name__, gb.tables.read.__name__)
"""
    assert fresh(code).strip() == "MeanOnly guardband.conformal read"


@pytest.mark.slow
def test_what_was_pickled_is_found_by_a_python_that_has_imported_nothing() -> None:
    data = pickle.dumps(gb.Split())
    assert fresh(f"import pickle\nprint(pickle.loads({data!r}))").strip() == repr(gb.Split())


@pytest.mark.slow
def test_a_python_that_only_loads_knows_all_that_can_be_saved() -> None:
    code = """
import pkgutil
import guardband as gb
gb.load
from guardband.kept import _KINDS
known = {*_KINDS}
for module in pkgutil.walk_packages(gb.__path__, "guardband."):
    __import__(module.name)
assert len(known) > 40
print({*_KINDS} - known)
"""
    assert fresh(code).strip() == "set()"


def test_a_name_that_is_none_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Module 'guardband' has no attribute 'lavels'"):
        _ = gb.lavels  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'lavels'"):
        exec("from guardband import lavels")


def test_dir_lists_what_is_not_imported_yet() -> None:
    get, listed = names("json", {"json.nowhere": "Nothing"})
    assert {"Nothing", "loads"} <= {*listed()}
    with pytest.raises(ModuleNotFoundError):
        get("Nothing")
