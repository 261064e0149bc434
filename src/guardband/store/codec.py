"""The codec: values as plain JSON and named arrays, and back, without executing code from a file.

A file can only name registered kinds (see `guardband.base.kept`). Other objects, such as a user's network or
function, are replaced by a name ("model", "ratio", ...), under which they are passed again at load.

Arrays and tensors are stored in the same way, and each entry records the original kind. Without torch, a
tensor is loaded as a numpy array with the same numbers, so bands at numpy points are the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from safetensors import numpy as of_numpy

from guardband.base import extras
from guardband.base.arrays import Array, is_tensor, namespace, to_numpy, to_torch
from guardband.base.kept import kind_named, kind_of
from guardband.base.limits import WORDS, shown
from guardband.conformal.rank import parse_exact
from guardband.store.versions import ArtifactError

LONGEST_REPR = 2000
"""Largest number of characters of a stored representation."""

Json: TypeAlias = Any
"""A plain JSON value: None, a boolean, number or string, or a list or dict of such values."""


def packed(arrays: Mapping[str, Array]) -> bytes:
    """Named arrays and tensors as the bytes of one file, which are the same for both."""
    if not any(map(is_tensor, arrays.values())):
        return of_numpy.save(dict(arrays))
    of_torch = extras.load("safetensors.torch", "pinn")
    return of_torch.save({name: to_torch(array) for name, array in arrays.items()})


def unpacked(data: bytes) -> dict[str, Array]:
    """The arrays of a file in numpy, or as tensors if one has a dtype that numpy lacks, such as bfloat16."""
    try:
        return of_numpy.load(data)
    except KeyError:
        return extras.load("safetensors.torch", "pinn").load(data)


class Encoder:
    """Converts values to JSON; arrays are collected under names derived from their content."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self.passed: dict[str, object] = {}
        self._optional: set[str] = set()
        self._required: set[str] = set()

    @property
    def optional(self) -> set[str]:
        """The names of objects that may be omitted at load, since only optional parts refer to them."""
        return self._optional - self._required

    def encode(self, value: Any, name: str) -> Json:
        """A value as plain JSON; `name` is the name under which an object is passed again at load."""
        match value:
            case None | bool() | int() | str():
                return value
            case float():
                return value if math.isfinite(value) else {"float": repr(value)}
            case Fraction():
                return {"fraction": str(value)}
            case np.generic():
                return self.encode(value.item(), name)
            case np.ndarray() if value.dtype.kind in "fiub":
                return {"array": self._keep(np.ascontiguousarray(value))}
            case np.ndarray() if value.dtype.kind == "U" and value.ndim == 1:
                return {"words": value.tolist()}
            case list() | tuple():
                items = [self.encode(item, f"{name}{i}") for i, item in enumerate(value)]
                return items if isinstance(value, list) else {"tuple": items}
            case dict():
                return {"dict": {key: self.encode(item, str(key)) for key, item in value.items()}}
        if is_tensor(value):
            return {"tensor": self._keep(value.detach().cpu().contiguous())}
        return self._object(value, name)

    def _object(self, value: object, name: str) -> Json:
        kind = kind_of(value)
        parts = None if kind is None else kind.parts(value)
        if kind is None or parts is None:
            return {"yours": self._pass(value, name)}
        fields = {part: self.encode(item, part) for part, item in parts.items()}
        for part, node in fields.items():
            if isinstance(node, dict) and "yours" in node:
                (self._optional if part in kind.optional else self._required).add(node["yours"])
                if part in kind.told and (text := _described(parts[part])):
                    node["said"] = text
        return {"kind": kind.name, "fields": fields}

    def _pass(self, value: object, name: str) -> str:
        """The name under which an object is passed again at load, unique and the same for one object."""
        for known, other in self.passed.items():
            if other is value:
                return known
        name = name if name not in self.passed else f"{name}_{len(self.passed)}"
        self.passed[name] = value
        return name

    def _keep(self, array: Array) -> str:
        flat = array.reshape(-1)
        content = to_numpy(flat.view(namespace(array).uint8)).tobytes() if len(flat) else b""
        dtype = str(array.dtype).removeprefix("torch.")
        name = hashlib.sha256(f"torch.{dtype} {tuple(array.shape)} ".encode() + content).hexdigest()[:20]
        self.arrays[name] = array
        return name


class Decoder:
    """Restores values from JSON and arrays; unknown kinds are refused."""

    arrays: Mapping[str, Array]
    passed: Mapping[str, object]
    optional: frozenset[str]
    without_torch: bool
    """Whether tensors became numpy arrays because torch is not installed."""

    def __init__(
        self,
        arrays: Mapping[str, Array],
        passed: Mapping[str, object],
        optional: frozenset[str] = frozenset(),
    ) -> None:
        self.arrays, self.passed, self.optional = arrays, passed, optional
        self.without_torch = False

    def decode(self, node: Json) -> Any:
        """The value that was encoded."""
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        match node:
            case {"float": str(text)} if text in ("inf", "-inf", "nan"):
                return float(text)
            case {"fraction": str(text)}:
                return parse_exact(text)
            case {"tensor": str(name)}:
                return self._tensor(self.arrays[name])
            case {"array": str(name)}:
                return to_numpy(self.arrays[name])
            case {"words": list(words)} if all(isinstance(word, str) for word in words):
                if max(map(len, words), default=0) * len(words) > WORDS:
                    raise ValueError(f"words of {max(map(len, words))} characters")
                return np.array(words, dtype=str)
            case {"tuple": list(items)}:
                return tuple(self.decode(item) for item in items)
            case {"dict": dict(items)}:
                return {key: self.decode(item) for key, item in items.items()}
            case {"kind": str(name), "fields": dict(fields)}:
                kind = kind_named(name)
                return kind.made({part: self.decode(item) for part, item in fields.items()})
            case {"yours": str(name)}:
                if name not in self.passed and name in self.optional:
                    return None
                value, stored = self.passed[name], node.get("said")
                if stored is not None and _described(value) not in (None, stored):
                    raise ArtifactError(
                        f"The `{name}` passed is not the one that was saved: expected {shown(stored)}, got "
                        f"{_described(value)}."
                    )
                return value
        raise ValueError(f"an unknown entry {shown(node)}")

    def _tensor(self, array: Array) -> Array:
        try:
            return to_torch(array)
        except ImportError:
            self.without_torch = True
            return array


def _described(value: object) -> str | None:
    """The representation of a dataclass, or None if it does not identify the value."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return None
    text = repr(value)
    return None if " at 0x" in text or len(text) > LONGEST_REPR else text
