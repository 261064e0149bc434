"""Error messages: each has a text that is a sentence, and the packages they name for installation exist."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from guardband.base import extras
from helpers import script

ROOT = Path(__file__).parent.parent


SCRIPT = script("tools/messages.py")
INSIDE = ("typer.Exit", "AssertionError")
"""Ends of the command line, and laws, which are named rather than explained."""


@pytest.mark.slow
def test_every_message_is_a_sentence() -> None:
    """Those of the codec are quoted inside another one."""
    found = [m for m in SCRIPT.messages() if m.kind not in INSIDE and "store/codec" not in m.place]
    assert len(found) > 200
    sentence = re.compile(r"([A-Z`{-]|stopped: ).*[.})]", re.DOTALL)
    assert [str(m) for m in found if not (m.text and sentence.fullmatch(m.text))] == []


def test_messages_are_found_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        'LAST = "Do this."\n'
        "def long(a):\n    return f'{a} is long. {LAST}'\n"
        "def wrong(a):\n    return TypeError(f'{a} is wrong.')\n"
        "def f(a):\n"
        "    raise ValueError('one ' + f'{a:g}. {LAST}')\n"
        "    raise KeyError\n"
        "    raise ValueError(long(a))\n"
        "    raise wrong(a)\n"
        "    warnings.warn('two.', DeprecationWarning)\n"
        "    warnings.warn('three.')\n"
        "    fail('four.')\n"
        "    assert a, 'five'\n"
    )
    assert [str(m).partition(" ")[2] for m in SCRIPT.messages(tmp_path)] == [
        "ValueError: one {a}. Do this.",
        "KeyError: (no text)",
        "ValueError: {a} is long. {LAST}",
        "TypeError: {a} is wrong.",
        "DeprecationWarning: two.",
        "UserWarning: three.",
        "fail: four.",
        "AssertionError: five",
    ]


@pytest.mark.slow
def test_the_script_prints_them(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["messages.py", "InfiniteBandWarning"])
    SCRIPT.main()
    said = capsys.readouterr().out
    assert "conformal/rank.py:" in said and said.endswith("1 messages\n")


@pytest.mark.slow
def test_extras_that_people_are_told_to_install_exist() -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = set[str]()
    for path in SCRIPT.SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Name(id="load") | ast.Attribute(attr="load", value=ast.Name(id="extras")),
                    args=[ast.Constant(value=str()), ast.Constant(value=str(extra))],
                ):
                    asked.add(extra)
    assert asked and asked <= set(known)


def test_a_package_that_is_no_extra_is_named() -> None:
    with pytest.raises(ImportError, match=r"^This needs no_such: pip install no-such$"):
        extras.load("no_such.part", package="no-such")
    with pytest.raises(ImportError, match=r'^This needs no_such: pip install "guardband\[geometry\]"$'):
        extras.load("no_such.part", "geometry")
