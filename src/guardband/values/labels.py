"""Labels: the names of axes and outputs as they are drawn and printed."""

from __future__ import annotations

from collections.abc import Sequence

from guardband.base.limits import NAME, printable
from guardband.values import Names


def axis_words(names: Names | None, otherwise: Sequence[str]) -> list[str]:
    """The names of the first axes as they are drawn, where they are known."""
    return list(otherwise) if names is None else [word(axis) for axis in names.axes[: len(otherwise)]]


def word(name: str) -> str:
    r"""A name as matplotlib draws it as it stands: a dollar sign begins no formula.

    >>> print(word("cost in $"))
    cost in \$
    """
    return printed(name).replace("$", "\\$")


def output_words(names: Names | None) -> tuple[str, ...]:
    """The names of the outputs as they are printed, where they are known."""
    return () if names is None else tuple(printed(output) for output in names.outputs)


def printed(name: str) -> str:
    """A name without characters that would move the cursor, and cut."""
    return printable(name[:NAME])
