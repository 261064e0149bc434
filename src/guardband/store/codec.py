"""The codec: values as plain JSON and named arrays, and back. Nothing is run that a file names.

A file can only name kinds that are kept (see `guardband.base.kept`). Whatever is not one of them, a user's
own network or function, is left out under the name of its place ("model", "ratio", ...) and passed again at
load.

Arrays and tensors are written alike, and an entry says which it was. Without torch a tensor is loaded as a
numpy array with the same numbers: the band at numpy points is the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from safetensors import numpy as of_numpy

from guardband.base import extras
from guardband.base.arrays import Array, is_tensor, namespace, to_numpy, to_torch
from guardband.base.kept import kind_named, kind_of
from guardband.base.limits import WORDS, shown
from guardband.conformal.rank import parse_exact
from guardband.store.versions import ArtifactError

SAID = 2000
"""Letters of an object in words, at most."""


def packed(arrays: Mapping[str, Array]) -> bytes:
    """Arrays and tensors by their names as the bytes of one file, which are the same for both."""
    if not any(map(is_tensor, arrays.values())):
        return of_numpy.save(dict(arrays))
    of_torch = extras.load("safetensors.torch", "pinn")
    return of_torch.save({name: to_torch(array) for name, array in arrays.items()})


def unpacked(data: bytes) -> dict[str, Array]:
    """The arrays of a file, in numpy, or as tensors if one has a dtype that numpy lacks, as bfloat16 is."""
    try:
        return of_numpy.load(data)
    except KeyError:
        return extras.load("safetensors.torch", "pinn").load(data)


class Encoder:
    """Turns values into JSON; arrays are gathered under names made of their content."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
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

    def _keep(self, array: Array) -> str:
        flat = array.reshape(-1)
        content = to_numpy(flat.view(namespace(array).uint8)).tobytes() if len(flat) else b""
        dtype = str(array.dtype).removeprefix("torch.")
        name = hashlib.sha256(f"torch.{dtype} {tuple(array.shape)} ".encode() + content).hexdigest()[:20]
        self.arrays[name] = array
        return name


class Decoder:
    """Makes values of JSON and arrays; kinds that are not known are refused."""

    arrays: Mapping[str, Array]
    yours: Mapping[str, Any]
    optional: frozenset[str]
    without_torch: bool
    """Whether tensors were made numpy arrays, since torch is not installed."""

    def __init__(
        self, arrays: Mapping[str, Array], yours: Mapping[str, Any], optional: frozenset[str] = frozenset()
    ) -> None:
        self.arrays, self.yours, self.optional = arrays, yours, optional
        self.without_torch = False

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
                return parse_exact(text)
            case {"tensor": str(name)}:
                return self._tensor(self.arrays[name])  # named by its content: all who share it see the same
            case {"array": str(name)}:
                return to_numpy(self.arrays[name])
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

    def _tensor(self, array: Array) -> Array:
        try:
            return to_torch(array)
        except ImportError:
            self.without_torch = True
            return array


def _said(value: Any) -> str | None:
    """A dataclass in words, with the numbers it holds; None where words do not tell one from another."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return None
    said = repr(value)
    return None if " at 0x" in said or len(said) > SAID else said
