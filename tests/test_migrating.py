"""Every public name and argument of earlier releases is still there, or docs/migrating.md has a row on it."""

import inspect
import json
import re
import warnings
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

import guardband as gb
from guardband.base.old_names import OLD_MODULES, OLD_NAMES, SAID

ROOT = Path(__file__).parent.parent
BEFORE: dict[str, list[str]] = json.loads((ROOT / "tests/data/names_of_0.1.0.json").read_text())
"""The public names of 0.1.0 and of their members, with their arguments."""

PAGE, EARLIER = (ROOT / "docs/migrating.md").read_text().split("## From 0.1.0 to 0.2.0\n")
ROWS = [
    re.findall(r"(?:^|\| )`?([\w.]+)", row) for row in re.findall(r"^\| (`gb\..*) \|$", EARLIER, re.MULTILINE)
]
NAMES = {row[0]: row[1] for row in ROWS if len(row) == 2}
ARGUMENTS = {(row[0], row[1]): row[2] for row in ROWS if len(row) == 3}


def found(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return reduce(getattr, name.split(".")[1:], gb)


def there(name: str) -> bool:
    try:
        found(name)
    except AttributeError:
        return False
    return True


def told(name: str) -> bool:
    """Whether a row is about a name, about the class it is a member of, or about that member of its base."""
    last = {row.rpartition(".")[2] for row in NAMES}
    return any(name == row or name.startswith(f"{row}.") for row in NAMES) or name.rpartition(".")[2] in last


def test_every_name_of_0_1_0_is_there_or_told() -> None:
    assert [name for name in BEFORE if not there(name) and not told(name)] == []


def test_every_argument_of_0_1_0_is_there_or_told() -> None:
    calls = {name: arguments for name, arguments in BEFORE.items() if arguments and there(name)}
    assert [
        (name, argument)
        for name, arguments in calls.items()
        if not inspect.isabstract(found(name))  # an interface is not called
        for argument in arguments
        if argument not in inspect.signature(found(name)).parameters and (name, argument) not in ARGUMENTS
    ] == []


@pytest.mark.parametrize(("old", "new"), NAMES.items())
def test_old_names_are_gone_and_new_ones_are_there(old: str, new: str) -> None:
    assert old in BEFORE and not there(old)
    assert there(new) or not new.startswith("gb.")


@pytest.mark.parametrize(("call", "new"), ARGUMENTS.items())
def test_old_arguments_are_gone_and_new_ones_are_there(call: tuple[str, str], new: str) -> None:
    name, old = call
    today = inspect.signature(found(name)).parameters
    assert old in BEFORE[name] and old not in today
    assert new in today or new == "none"


def test_every_old_name_has_a_row() -> None:
    def written(name: str) -> str:
        short = name.removeprefix("guardband.")
        return short if short.startswith(("pinn.", "lab.")) else f"gb.{short}"

    names = {f"{package}.{name}": now for package, table in OLD_NAMES.items() for name, now in table.items()}
    names = {old: now for old, now in names.items() if now not in SAID}
    rows = [f"| `{written(old)}` | `{written(now)}` |" for old, now in names.items()]
    rows = [row.replace("`gb.guardband.", "`gb.") for row in rows]
    rows += [f"| `{old}` | `{now}` |" for old, now in OLD_MODULES.items()]
    rows += [f"`gb.{now.removeprefix('guardband.').partition('(')[0]}(" for now in SAID.values()]
    assert [row for row in rows if row not in PAGE] == []
