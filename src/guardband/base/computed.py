"""Properties that implement attributes of an interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

V = TypeVar("V")

if TYPE_CHECKING:

    def computed(method: Callable[[Any], V]) -> V:
        """A property that implements an attribute of an interface, which other classes implement as a field.

        At run time it is `property`. Type checkers treat it as an attribute, since they accept neither a
        property in place of an attribute nor a dataclass field in place of a property.
        """
        ...
else:
    computed = property
