"""Attributes that are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

V = TypeVar("V")

if TYPE_CHECKING:

    def computed(method: Callable[[Any], V]) -> V:
        """A property that implements an attribute of an interface, which other classes hold as a field.

        At run time it is `property`. A type checker takes it for an attribute: it accepts no property in the
        place of an attribute, nor a field of a dataclass in the place of a property.
        """
        ...
else:
    computed = property
