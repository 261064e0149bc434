"""Other packages use the traits of a method and never its class, so a new method changes no other file."""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import guardband
from guardband.conformal import Calibrated, Calibrator, Learned, Score, Threshold
from guardband.values import Predictor

ROOT = Path(guardband.__file__).parent
FILES = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}
APART = ("lab/paper/",)
"""The paper's studies name the methods that they compare."""
OF_THE_PAST = {"base/kept.py", "base/old_names.py", "store/format1.py", "lab/studies/format1.py"}
"""Tables of the names in files and programs of earlier releases, and of the modules that define them."""


def concrete() -> dict[str, set[str]]:
    """The final classes of the interfaces, by name, with the files that define them."""
    for module in pkgutil.walk_packages(guardband.__path__, "guardband."):
        importlib.import_module(module.name)
    found: dict[str, set[str]] = {}
    new: list[type] = [Calibrator, Learned, Threshold, Score, Predictor, Calibrated]
    while new:
        cls = new.pop()
        new += cls.__subclasses__()
        if cls.__module__.startswith("guardband.") and not inspect.isabstract(cls):
            path = Path(inspect.getfile(cls)).relative_to(ROOT).as_posix()
            found.setdefault(cls.__name__, set()).add(path)
    return found


CONCRETE = concrete()


def offenders(text: str, names: set[str]) -> Iterator[tuple[int, str]]:
    """Lines in which code checks for one of these classes, or contains its name as a string."""
    tree = ast.parse(text)
    known, foreign = {name: name for name in names}, set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith("guardband"):
                # whatever its local alias
                known |= {item.asname: item.name for item in node.names if item.asname and item.name in names}
            case ast.ImportFrom() | ast.Import():
                foreign |= {(item.asname or item.name).partition(".")[0] for item in node.names}
    foreign -= {"gb", "guardband"}
    listed = {id(word) for words in _all(tree) for word in ast.walk(words)}
    for node in ast.walk(tree):
        asked: list[ast.AST] = []
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
                asked = list(ast.walk(kinds))
            case ast.Compare(left=left, comparators=others):
                asked = [part for side in (left, *others) for part in _members(side)]
            case ast.MatchClass(cls=kind):
                asked = [kind]
            case ast.Constant(value=str(word)) if word in names and id(node) not in listed:
                yield node.lineno, word
        for part in asked:
            name = part.id if isinstance(part, ast.Name) else getattr(part, "attr", None)
            if isinstance(part, ast.Name | ast.Attribute) and name in known and _root(part) not in foreign:
                yield part.lineno, known[name]


def _root(node: ast.expr) -> str:
    """The first name of a dotted one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _all(tree: ast.Module) -> list[ast.expr]:
    """The names in `__all__`, and the modules that define them."""
    return [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id in ("__all__", "_HOME") for target in node.targets)
    ]


def _members(node: ast.expr) -> list[ast.AST]:
    """A compared value, or the members of a literal in which it is searched."""
    return [*node.elts] if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]


def test_the_classes_are_found() -> None:
    known = {"Split", "Local", "LocalShape", "SplitThreshold", "Absolute", "MeanOnly", "ScoreCalibrated"}
    assert known <= set(CONCRETE) and not {"Calibrator", "Score", "Symmetric", "Predictor"} & set(CONCRETE)
    assert CONCRETE["Split"] == {"conformal/split.py"}


@pytest.mark.parametrize("file", FILES)
def test_no_room_asks_who_a_method_is(file: str) -> None:
    if file.startswith(APART) or file in OF_THE_PAST:
        return
    others = {name for name, homes in CONCRETE.items() if file not in homes}
    found = {(line, name) for line, name in offenders(FILES[file].read_text(), others)}
    assert not found, sorted(found)


@pytest.mark.parametrize(
    "planted",
    [
        "isinstance(calibrator, Split)",
        "isinstance(calibrator, Local | gb.Split)",
        "issubclass(kind, (Local, conformal.Split))",
        "type(calibrator) is Split",
        "calibrator.__class__ == gb.Split",
        "make in (Local, Split)",
        "name == 'Split'",
        "name in ('Local', 'Split')",
        "described['kind'] != 'Split'",
        "laws['Split']",
        "laws.get('Split')",
        "{'Split': 1}[name]",
        "getattr(conformal, 'Split')",
        "from guardband import Split as Plain\nisinstance(calibrator, Plain)",
        "match calibrator:\n    case Split():\n        pass",
        "match calibrator:\n    case gb.Split(x=1):\n        pass",
        "match name:\n    case 'Split':\n        pass",
        "match cell:\n    case {'kind': 'Split'}:\n        pass",
    ],
)
def test_a_planted_question_is_found(planted: str) -> None:
    assert "Split" in {name for _, name in offenders(planted, {"Split"})}


@pytest.mark.parametrize(
    "harmless",
    [
        "Split()",
        "calibrator or Split()",
        "__all__ = ['Split']",
        "def f():\n    '''Split is what is used.'''",
        "raise ValueError('Use Split().')",
        "isinstance(calibrator, Calibrator)",
        "Splitter == 'Splitter'",
        "from torch import nn\nisinstance(layer, nn.Split)",
        "from torch.nn import Split\nisinstance(layer, Split)",
    ],
)
def test_what_is_no_question_passes(harmless: str) -> None:
    assert not list(offenders(harmless, {"Split"}))
