"""The codec: values as plain JSON and named arrays, and back. Nothing is run that a file names.

A file can only name kinds that are kept (see `guardband.kept`). Whatever is not one of them, a user's own
network or function, is left out under the name of its place ("model", "ratio", ...) and passed again at load.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from guardband.arrays import to_torch
from guardband.conformal.rank import written
from guardband.kept import kind_named, kind_of
from guardband.limits import WORDS, shown
from guardband.store.versions import ArtifactError

SAID = 2000
"""Letters of an object in words, at most."""


class Encoder:
    """Turns values into JSON; arrays are gathered under names made of their content."""

    def __init__(self) -> None:
        self.arrays: dict[str, Tensor] = {}
        self.yours: dict[str, Any] = {}
        self._optional: set[str] = set()
        self._needed: set[str] = set()

    @property
    def optional(self) -> set[str]:
        """What need not be passed again: nothing but optional parts held it."""
        return self._optional - self._needed

    def encode(self, value: Any, name: str) -> Any:
        """A value as plain JSON; `name` is its place, for what has to be passed again."""
        match value:
            case None | bool() | int() | str():
                return value
            case float():
                return value if math.isfinite(value) else {"float": repr(value)}
            case Fraction():
                return {"fraction": str(value)}
            case np.generic():
                return self.encode(value.item(), name)
            case Tensor():
                return {"tensor": self._keep(value.detach().cpu())}
            case np.ndarray() if value.dtype.kind in "fiub":
                return {"array": self._keep(to_torch(np.ascontiguousarray(value)))}
            case np.ndarray() if value.dtype.kind == "U" and value.ndim == 1:
                return {"words": value.tolist()}
            case list() | tuple():
                items = [self.encode(item, f"{name}{i}") for i, item in enumerate(value)]
                return items if isinstance(value, list) else {"tuple": items}
            case dict():
                return {"dict": {key: self.encode(item, str(key)) for key, item in value.items()}}
        return self._object(value, name)

    def _object(self, value: Any, name: str) -> Any:
        kind = kind_of(value)
        parts = None if kind is None else kind.parts(value)
        if kind is None or parts is None:
            return {"yours": self._yours(value, name)}
        fields = {part: self.encode(item, part) for part, item in parts.items()}
        for part, made in fields.items():
            if isinstance(made, dict) and "yours" in made:
                (self._optional if part in kind.optional else self._needed).add(made["yours"])
                if part in kind.told and (said := _said(parts[part])):
                    made["said"] = said
        return {"kind": kind.name, "fields": fields}

    def _yours(self, value: Any, name: str) -> str:
        for known, other in self.yours.items():
            if other is value:
                return known
        name = name if name not in self.yours else f"{name}_{len(self.yours)}"
        self.yours[name] = value
        return name

    def _keep(self, array: Tensor) -> str:
        array = array.contiguous()
        content = array.reshape(-1).view(torch.uint8).numpy().tobytes() if array.numel() else b""
        about = f"{array.dtype} {tuple(array.shape)} ".encode()
        name = hashlib.sha256(about + content).hexdigest()[:20]
        self.arrays[name] = array
        return name


class Decoder:
    """Makes values of JSON and arrays; kinds that are not known are refused."""

    arrays: Mapping[str, Tensor]
    yours: Mapping[str, Any]
    optional: frozenset[str]

    def __init__(
        self, arrays: Mapping[str, Tensor], yours: Mapping[str, Any], optional: frozenset[str] = frozenset()
    ) -> None:
        self.arrays, self.yours, self.optional = arrays, yours, optional

    def decode(self, node: Any) -> Any:
        """The value that `Encoder.encode` was given."""
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        match node:
            case {"float": str(text)} if text in ("inf", "-inf", "nan"):
                return float(text)
            case {"fraction": str(text)}:
                return written(text)
            case {"tensor": str(name)}:
                return self.arrays[name]  # named by its content: whoever shares it sees the same
            case {"array": str(name)}:
                return self.arrays[name].numpy()
            case {"words": list(words)} if all(isinstance(word, str) for word in words):
                if max(map(len, words), default=0) * len(words) > WORDS:
                    raise ValueError(f"words of {max(map(len, words))} letters")
                return np.array(words, dtype=str)
            case {"tuple": list(items)}:
                return tuple(self.decode(item) for item in items)
            case {"dict": dict(items)}:
                return {key: self.decode(item) for key, item in items.items()}
            case {"kind": str(name), "fields": dict(fields)}:
                kind = kind_named(name)
                return kind.made({part: self.decode(item) for part, item in fields.items()})
            case {"yours": str(name)}:
                if name not in self.yours and name in self.optional:
                    return None
                given, said = self.yours[name], node.get("said")
                if said is not None and _said(given) not in (None, said):
                    raise ArtifactError(
                        f"The `{name}` passed is not the one that was saved, which was {shown(said)}, and "
                        f"this is {_said(given)}."
                    )
                return given
        raise ValueError(f"an unknown entry {shown(node)}")


def _said(value: Any) -> str | None:
    """A dataclass in words, with the numbers it holds; None where words do not tell one from another."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return None
    said = repr(value)
    return None if " at 0x" in said or len(said) > SAID else said
