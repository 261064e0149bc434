"""Checkpoints: the state of a run in one file without pickle, from which the run resumes bit for bit.

A file consists of one line, with `guardband checkpoint 2` and the SHA-256 of the rest, followed by
safetensors with the tensors and with everything else as JSON.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from guardband.base import files

State: TypeAlias = dict[str, Any]
"""Nested dicts and lists of tensors, numbers, strings and None."""

HEAD = b"guardband checkpoint 2 "
LARGEST = 2**32
"""The largest size of a checkpoint in bytes, unless the caller allows more."""


class DamagedCheckpoint(ValueError):
    """A file that is not a checkpoint, or that has changed since it was written."""


def write(path: Path, state: Any) -> None:
    """Write nested dicts and lists of tensors, numbers, strings and None, atomically."""
    tensors: dict[str, Tensor] = {}
    skeleton = _pack(state, tensors)
    tensors["skeleton"] = torch.frombuffer(bytearray(json.dumps(skeleton).encode()), dtype=torch.uint8)
    body = save(tensors)
    files.write_bytes(path, HEAD + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def read(path: Path, *, at_most: int = LARGEST) -> Any:
    """Read a checkpoint; raise an error if the file is not a checkpoint."""
    try:
        data = files.read_bytes(path, at_most=at_most)
    except files.UnsafeFile as error:
        raise DamagedCheckpoint(f"{error} It is not a checkpoint. Delete it to start over.") from error
    try:
        tensors = load(_body(path, data))
        return _unpack(json.loads(tensors.pop("skeleton").numpy().tobytes()), tensors)
    except DamagedCheckpoint:
        raise
    except (SafetensorError, LookupError, ValueError, TypeError, RecursionError) as error:
        raise damaged(path, str(error)) from error


def damaged(path: Path, why: str) -> DamagedCheckpoint:
    """The error for a file that is not a valid checkpoint."""
    return DamagedCheckpoint(f"{path} is not a checkpoint of guardband: {why}. Delete it to start over.")


def wrong_with(optimizer: torch.optim.Optimizer, memory: dict[int, dict[str, Any]]) -> str:
    """How a state does not fit an optimizer, or an empty string; torch itself accepts any state."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    adam = isinstance(optimizer, torch.optim.Adam)
    for number, known in memory.items():
        sizes = {1, parameters[number].numel() if adam else sum(part.numel() for part in parameters)}
        if number >= len(parameters) or (adam and {*known} != {"step", "exp_avg", "exp_avg_sq"}):
            return f"the optimizer has the state {sorted(known)} for parameter {number}"
        for name, value in known.items():
            for one in value if isinstance(value, list) else [value]:
                number_or_none = not adam and (one is None or isinstance(one, int | float))
                if not (one.numel() in sizes if isinstance(one, Tensor) else number_or_none):
                    return f"the optimizer's `{name}` does not fit this network"
    return ""


def _body(path: Path, data: bytes) -> bytes:
    """The content after the first line, if its checksum is correct."""
    length = len(HEAD) + 64
    head, body = data[: length + 1], data[length + 1 :]
    if not head.startswith(HEAD):
        raise damaged(path, "its first line is not that of this version")
    if head[len(HEAD) :] != hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise damaged(path, "its checksum does not match its content, so it was damaged on disk")
    return body


def _pack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The value with each tensor replaced by an index; dicts become lists, since keys may be numbers."""
    match value:
        case Tensor():
            name = str(len(tensors))
            tensors[name] = value.detach().cpu().contiguous().clone()
            return {"tensor": name}
        case dict():
            return {"dict": [[key, _pack(item, tensors)] for key, item in value.items()]}
        case list() | tuple():
            return {"list": [_pack(item, tensors) for item in value]}
        case np.generic():
            return value.item()
    return value


def _unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    match value:
        case {"tensor": name}:
            return tensors[name]
        case {"dict": items}:
            return {key: _unpack(item, tensors) for key, item in items}
        case {"list": items}:
            return [_unpack(item, tensors) for item in items]
    return value
