"""Print the size and complexity of the source: `python tools/house.py [SOURCE_FOLDER]`.

python tools/house.py                          # this checkout
git worktree add ../before v0.2.0 && python tools/house.py ../before/src/guardband
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).parents[1]


def main(folder: Path) -> None:
    """Print one row for each measure."""
    texts = {path: path.read_text() for path in sorted(folder.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = [_lines(node) for node in functions]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    private = {cls.name: {name for name in _assigned(cls) if name.startswith("_")} for cls in classes}
    largest = max(private, key=lambda name: len(private[name]))
    methods = [path for path in trees if {"pinn", "predictors"} & set(path.relative_to(folder).parts)]
    checks = sum(1 for path in methods for name in _checked_classes(trees[path]) if name in private)
    rows = {
        "files": len(texts),
        "lines": sum(len(text.splitlines()) for text in texts.values()),
        "entries at the top level": len([entry for entry in folder.iterdir() if entry.name[:2] != "__"]),
        "median lines of a function, without its docstring": statistics.median(lengths),
        "lines of the longest function, without its docstring": max(lengths),
        "type: ignore": sum(text.count("type: ignore") for text in texts.values()),
        "Any": sum(len(re.findall(r"\bAny\b", text)) for text in texts.values()),
        "isinstance on own classes in pinn and predictors": checks,
        f"private attributes of the largest class ({largest})": len(private[largest]),
        "circles of imports": _circles(folder, trees),
        "public names of gb": _public(folder),
    }
    for name, value in rows.items():
        print(f"{value:>8}  {name}")


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its docstring."""
    first = function.body[0]
    documented = ast.get_docstring(function, clean=False) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def _assigned(cls: ast.ClassDef) -> Iterator[str]:
    """The attributes that the methods of a class assign to `self`."""
    for node in ast.walk(cls):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                yield node.attr


def _checked_classes(tree: ast.Module) -> Iterator[str]:
    """The classes in calls of `isinstance`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            yield from (part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name))


def _circles(folder: Path, trees: dict[Path, ast.Module]) -> int:
    """The number of groups of files with circular imports."""
    name_of = {path: ".".join(path.relative_to(folder.parent).with_suffix("").parts) for path in trees}
    number = {name.removesuffix(".__init__"): i for i, name in enumerate(name_of.values())}
    arrows = np.zeros((len(number), len(number)), dtype=bool)
    for i, (path, tree) in enumerate(trees.items()):
        if path.name == "__init__.py":
            continue  # a package imports its files, and they import the package
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    target = number.get(f"{node.module}.{alias.name}", number.get(node.module))
                    if target is not None:
                        arrows[i, target] = True
    count, group = connected_components(csr_array(arrows), connection="strong")
    return int((np.bincount(group, minlength=count) > 1).sum())


def _public(folder: Path) -> int:
    """The length of `guardband.__all__`, rooms included."""
    stub = folder / "__init__.pyi"
    if stub.exists():
        return len(re.findall(r"^from guardband\S* import (\w+) as \1$", stub.read_text(), re.MULTILINE))
    tree = ast.parse((folder / "__init__.py").read_text())
    lists = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    return max(len(value.elts) for value in lists if isinstance(value, ast.List))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src" / "guardband")
