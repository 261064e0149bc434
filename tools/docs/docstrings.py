"""Docstrings as the site shows them: sections in NumPy's format, doctests as blocks of code.

The `Examples` section of a docstring is rendered by griffe. Doctests anywhere else are fenced here, so that
they are rendered as code as well.
"""

import re
from collections.abc import Iterator
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)
"""From the first line of a doctest to the next empty line."""
HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
"""The heading of a section in NumPy's format."""
NAMED = ("Parameters", "Attributes")
"""Sections that describe names."""
SHARED = re.compile(r"^(\w+(?:, \w+)+)(\n(?:[ ]+.*(?:\n|\Z)|\n(?=[ ]))+)", re.MULTILINE)
"""Several names on one line, with their common description."""


def prepared(text: str) -> str:
    """A docstring for griffe: doctests outside `Examples` fenced, and each name on a separate line.

    Griffe gives all names that share a line the type of the first.
    """
    text, *rest = HEADING.split(text)
    parts = [_fence(text)]
    for heading, section in zip(rest[::2], rest[1::2], strict=True):
        body = section if heading == "Examples" else _fence(section)
        if heading in NAMED:
            body = SHARED.sub(lambda item: _apart(item[1], item[2]), body)
        parts.append(f"{heading}\n{'-' * len(heading)}{body}")
    return "".join(parts)


def _apart(names: str, description: str) -> str:
    """Names that shared a line, each with the description."""
    return "".join(f"{name}\n{description.strip(chr(10))}\n" for name in names.split(", "))


def _fence(text: str) -> str:
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)


def listed(text: str) -> set[str]:
    """The names that the sections `Parameters` and `Attributes` of a docstring describe."""
    _, *rest = HEADING.split(text)
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    found = "".join(sections.get(heading, "") for heading in NAMED)
    lines = [line.partition(" : ")[0] for line in found.splitlines() if line[:1].strip()]
    return {name.strip("* ") for line in lines for name in line.split(",")}


class Docstrings(griffe.Extension):
    """Fence doctests, and show every member of a class once.

    A field that the docstring of its class describes has no entry below it, and a method or property that
    overrides a documented one has its entry in the base class, which the entry of the class links to.
    """

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = prepared(obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Called when the members of a class have been read."""
        described = listed(cls.docstring.value) if cls.docstring else set[str]()
        for name in described & cls.members.keys():
            if cls.members[name].is_attribute:
                cls.members[name].docstring = None

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called when the whole package has been read, so that base classes can be looked up."""
        overriding = [
            member
            for cls in _classes(pkg)
            for name, member in cls.members.items()
            if name != "__call__" and any(_documents(base, name) for base in cls.mro())
        ]
        for member in overriding:
            member.docstring = None


def _classes(module: griffe.Module) -> Iterator[griffe.Class]:
    """All classes of a package."""
    for member in module.members.values():
        if isinstance(member, griffe.Class):
            yield member
        elif isinstance(member, griffe.Module):
            yield from _classes(member)


def _documents(cls: griffe.Class, name: str) -> bool:
    """Whether a class has a documented member of this name."""
    member = cls.members.get(name)
    return member is not None and not member.is_alias and member.docstring is not None
