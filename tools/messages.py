"""Print every error and warning of the library for review: `python tools/messages.py`.

Each line has file and line, type, and text, with inserted values in braces. The messages are those of
`raise`, `warnings.warn`, `fail` of the command line, and `assert` with a text. Texts from a constant or a
short function of the same file are expanded.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

SOURCE = Path(__file__).parent.parent / "src" / "guardband"


class Message(NamedTuple):
    """The location, type and text of a message; the text is None for a bare `raise`."""

    place: str
    kind: str
    text: str | None

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}: {self.text or '(no text)'}"


def messages(source: Path = SOURCE) -> list[Message]:
    """All messages below a folder, by file and line."""
    return [message for path in sorted(source.rglob("*.py")) for message in in_file(path, source)]


def in_file(path: Path, source: Path) -> Iterator[Message]:
    """The messages of one file."""
    tree = ast.parse(path.read_text())
    known = _known(tree)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.Call)]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        found = _message(node, known)
        if found is not None:
            kind, text = found
            place = f"{path.relative_to(source)}:{node.lineno}"
            yield Message(place, kind, None if text is None else _text(text, known))


Known: TypeAlias = dict[str, ast.expr]
"""The values of a file's constants and of its functions with a single `return`."""


def _known(tree: ast.Module) -> Known:
    found: Known = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str()) as value):
                found[name] = value
            case ast.FunctionDef(name=name, body=[*_, ast.Return(value=ast.expr() as value)]):
                found[name] = value
    return found


def _message(node: ast.stmt | ast.Call, known: Known) -> tuple[str, ast.expr | None] | None:
    """The type and text of a message, or None for other statements."""
    match node:
        case ast.Raise(exc=ast.Call(func=ast.Name(id=name))) if name in known:
            return _message(ast.Raise(exc=known[name]), {})
        case ast.Raise(exc=ast.Call(func=kind, args=arguments)):
            return ast.unparse(kind), arguments[0] if arguments else None
        case ast.Raise(exc=ast.expr() as kind):
            return ast.unparse(kind), None
        case ast.Call(func=ast.Attribute(attr="warn"), args=[text, *rest]):
            return ast.unparse(rest[0]) if rest else "UserWarning", text
        case ast.Call(func=ast.Name(id="fail"), args=[text, *_]):
            return "fail", text
        case ast.Assert(msg=ast.expr() as text):
            return "AssertionError", text
    return None


def _text(node: ast.expr, known: Known) -> str:
    """The template of a text: strings literally, everything else in braces."""
    match node:
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) if name in known:
            return _text(known[name], {})
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, known) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left, known) + _text(right, known)
        case ast.FormattedValue(value=value):
            return _text(value, known)
    return f"{{{ast.unparse(node)}}}"


def main() -> None:
    """Print all messages, or those whose type or text contains a word."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("word", nargs="?", default="", help="print only messages that contain this word")
    word = parser.parse_args().word
    found = [message for message in messages() if word in str(message)]
    print(*found, sep="\n")
    print(f"{len(found)} messages")


if __name__ == "__main__":
    main()
