"""Checkpoints: a run on disk, whole or not at all, from which it goes on bit for bit. No pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from guardband import files


def write(path: Path, state: Any) -> None:
    """Write a nest of dicts, lists, tensors, numbers, strings and None, atomically."""
    tensors: dict[str, Tensor] = {}
    skeleton = _pack(state, tensors)
    tensors["skeleton"] = torch.frombuffer(bytearray(json.dumps(skeleton).encode()), dtype=torch.uint8)
    files.write_bytes(path, save(tensors))


def read(path: Path) -> Any:
    """What was written, or an error that says the file is not a checkpoint."""
    try:
        tensors = load(path.read_bytes())
        return _unpack(json.loads(tensors.pop("skeleton").numpy().tobytes()), tensors)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ValueError(
            f"{path} is not a checkpoint of guardband: {error}. Delete it to start anew."
        ) from error


def _pack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The value with each tensor replaced by its number; dicts become lists, since keys may be numbers."""
    match value:
        case Tensor():
            name = str(len(tensors))
            tensors[name] = value.detach().cpu().contiguous().clone()
            return {"tensor": name}
        case dict():
            return {"dict": [[key, _pack(item, tensors)] for key, item in value.items()]}
        case list() | tuple():
            return {"list": [_pack(item, tensors) for item in value]}
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
