"""Parts of a value: set while it is made, and alike in length and shape."""

from __future__ import annotations

from typing import Any

from guardband.base.arrays import Array


def set_parts(value: Any, **parts: Any) -> None:
    """Fill fields of a frozen value while it is being made."""
    for name, part in parts.items():
        object.__setattr__(value, name, part)


def same_length(a_name: str, a: Array, b_name: str, b: Array) -> None:
    """Refuse arrays of different length."""
    if len(a) != len(b):
        raise ValueError(
            f"`{a_name}` and `{b_name}` should have the same number of rows, got {len(a)} and {len(b)}."
        )


def same_shape(a_name: str, a: Array, b_name: str, b: Array) -> None:
    """Refuse arrays of different shape."""
    same_length(a_name, a, b_name, b)
    if a.shape != b.shape:
        raise ValueError(
            f"`{a_name}` should have as many outputs as `{b_name}`: "
            f"got shape {tuple(a.shape)} beside {tuple(b.shape)}."
        )
