"""Names are imported on first use: the package, the version and every help page do not load torch."""

import importlib
import os
import pickle
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import guardband as gb
from guardband.base.kept import _HOMES, _KINDS
from guardband.base.old_names import OLD_MODULES, OLD_NAMES, SAID
from helpers import needs

HEAVY = {"torch", "numpy", "scipy", "matplotlib"}
ATTACHED = ("calibration", "integrations", "lab", "pinn", "plot", "predictors", "testing")

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
    """The output of code in a fresh interpreter."""
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


@pytest.mark.parametrize(
    ("words", "extra"),
    [("identify rod.py --data readings.csv", "pinn"), ("study paper", "lab"), ("study status .", "lab")],
)
def test_a_command_that_needs_torch_names_its_extra(words: str, extra: str) -> None:
    code = f"import sys\nsys.modules['torch'] = None\nfrom guardband.cli import app\napp({words.split()})"
    with pytest.raises(subprocess.CalledProcessError) as ended:
        fresh(code)
    assert ended.value.returncode == 2
    assert ended.value.stderr == f'guardband: This needs torch: pip install "guardband[{extra}]"\n'


@pytest.mark.parametrize("package", ["guardband", *(f"guardband.{name}" for name in ATTACHED)])
def test_every_name_of_a_stub_is_there(package: str) -> None:
    module = importlib.import_module(package)
    names = re.findall(r" as (\w+)", Path(str(module.__file__)).with_suffix(".pyi").read_text())
    assert names and {*module.__all__} <= {*names} <= {*dir(module)}
    assert [name for name in names if not hasattr(module, name)] == []


@pytest.mark.parametrize(
    ("package", "name"), [(package, name) for package, names in OLD_NAMES.items() for name in names]
)
def test_an_old_name_warns_and_is_the_new_one(package: str, name: str) -> None:
    now = OLD_NAMES[package][name]
    home, _, last = now.rpartition(".")
    with pytest.warns(DeprecationWarning, match=re.escape(f"{package}.{name} is now {SAID.get(now, now)}.")):
        found = getattr(importlib.import_module(package), name)
    assert found is getattr(importlib.import_module(home), last)


@pytest.mark.slow
def test_names_work_in_any_order_and_in_threads() -> None:
    code = """
import pickle, random, threading
import guardband as gb
from guardband import pinn

def look(seed):
    order = random.Random(seed).sample(gb.__all__, len(gb.__all__))
    found[seed] = {name: getattr(gb, name) for name in order}

found = {}
threads = [threading.Thread(target=look, args=(seed,)) for seed in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8 and all(other == found[0] for other in found.values())
assert pickle.loads(pickle.dumps(pinn.fit)) is pinn.fit
assert pickle.loads(pickle.dumps(gb.Split())) == gb.Split()
from guardband import *
assert all(globals()[name] is getattr(gb, name) for name in gb.__all__)
print(gb.predictors.MeanOnly.__name__, gb.conformal.__name__, gb.tables.read.__name__)
"""
    assert fresh(code).strip() == "MeanOnly guardband.conformal read"


@pytest.mark.slow
def test_what_was_pickled_is_found_by_a_python_that_has_imported_nothing() -> None:
    data = pickle.dumps(gb.Split())
    assert fresh(f"import pickle\nprint(pickle.loads({data!r}))").strip() == repr(gb.Split())


@needs("torch")
def test_an_old_module_can_still_be_imported() -> None:
    code = """
import importlib, sys, warnings
for old, now in {}.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert importlib.import_module(old) is importlib.import_module(now)
    assert [str(one.message) for one in caught] == [f"The module {{old}} is now {{now}}."]
    assert sys.modules[now].__spec__.name == now
from guardband.problems import Poisson1D
"""
    assert fresh(code.format(OLD_MODULES)) == ""


def test_every_kind_of_ours_has_a_home() -> None:
    homes = {kind: home for home, kinds in _HOMES.items() for kind in kinds.split()}
    for module in pkgutil.walk_packages(gb.__path__, "guardband."):
        importlib.import_module(module.name)
    kinds = {name: kind.cls for name, kind in _KINDS.items() if kind.cls.__module__.startswith("guardband.")}
    ours = {name for name, cls in kinds.items() if hasattr(sys.modules[cls.__module__], cls.__name__)}
    assert ours == {*homes}, "but for classes of doctests"
    code = "from guardband.base.kept import kind_named\nfor name in {}: kind_named(name)"
    assert fresh(code.format([*homes])) == ""


def test_a_name_that_is_none_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Module 'guardband' has no attribute 'lavels'"):
        _ = gb.lavels  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'lavels'"):
        exec("from guardband import lavels")
