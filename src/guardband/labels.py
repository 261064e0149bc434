"""Labels: the names of axes and outputs as they are drawn."""

from __future__ import annotations

from collections.abc import Sequence

from guardband.limits import shown
from guardband.values import Names


def axis_words(names: Names | None, otherwise: Sequence[str]) -> list[str]:
    """The names of the first axes as they are drawn, where they are known."""
    return list(otherwise) if names is None else [word(axis) for axis in names.axes[: len(otherwise)]]


def word(name: str) -> str:
    r"""A name as matplotlib draws it as it stands: a dollar sign begins no formula.

    >>> print(word("cost in $"))
    cost in \$
    """
    return shown(name).replace("$", "\\$")
