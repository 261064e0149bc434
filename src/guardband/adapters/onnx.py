"""ONNX: an exported graph, run by onnxruntime, as a predictor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from guardband.base.arrays import Array, to_numpy
from guardband.base.extras import load
from guardband.base.files import opened, read_bytes
from guardband.base.limits import FACTOR, MODEL, ROOM, shown
from guardband.predictors import MeanOnly
from guardband.values import Observations

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from onnx import TensorProto

DTYPES = {"tensor(float16)": "float16", "tensor(float)": "float32", "tensor(double)": "float64"}
SHOWN = 300
"""Largest number of characters shown from an error of onnxruntime."""

WRAP = "Export a graph with one input and one output, or wrap your session in a function for MeanOnly(...)."


def from_onnx(
    path_or_bytes: str | PathLike[str] | bytes, *, training_data: Observations | None = None
) -> MeanOnly:
    """Return an ONNX graph as a predictor without a scale, run on the CPU in the dtype of its input.

    Parameters
    ----------
    path_or_bytes
        The file or its content. The graph takes one array, shape (n, d), with any number of rows, and returns
        one array. Export it with a dynamic first dimension.
    training_data
        Observations that the model was trained on; calibration refuses them.

    Returns
    -------
    MeanOnly
        Predictor that runs the graph.

    Notes
    -----
    If a path is given, weights may be in other files, such as the `model.onnx.data` that `torch.onnx.export`
    writes. These must be regular files in the folder of the model, not links, and the model and its weights
    may have at most 2 GiB together.

    Examples
    --------
    >>> import numpy as np
    >>> import onnx.parser
    >>> from guardband.adapters import from_onnx
    >>> head = '<ir_version: 8, opset_import: ["": 18]>'
    >>> graph = "g (float[n, 1] x) => (float[n, 1] y) { y = Exp(x) }"
    >>> predictor = from_onnx(onnx.parser.parse_model(head + graph).SerializeToString())
    >>> predictor(np.zeros((2, 1))).mean
    array([[1.],
           [1.]])
    """
    runtime = load("onnxruntime", "onnx")
    graph = whole_graph(path_or_bytes)
    try:
        session = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"], enable_fallback=0)
    except Exception as error:
        name = "These bytes are" if isinstance(path_or_bytes, bytes) else f"{path_or_bytes} is"
        raise ValueError(
            f"{name} not an ONNX graph that onnxruntime can run: {shown(str(error), SHOWN)}"
        ) from error
    taken = _only(session.get_inputs(), "input")
    answer = _only(session.get_outputs(), "output")
    if taken.type not in DTYPES:
        raise TypeError(
            f"The graph should take floating-point numbers, but `{taken.name}` is a {taken.type}. {WRAP}"
        )
    if taken.shape and isinstance(taken.shape[0], int):
        raise ValueError(
            f"The graph should take any number of rows, but `{taken.name}` has fixed shape {taken.shape}. "
            "Export it with a dynamic first dimension (`dynamic_shapes` in torch.onnx.export)."
        )

    width = taken.shape[1] if len(taken.shape) == 2 else None

    def predict(x: Array) -> Array:
        if isinstance(width, int) and x.shape[1] != width:
            raise ValueError(
                f"The graph takes {width} inputs per row, got {x.shape[1]}. Pass the columns that it was "
                "trained on, in the same order."
            )
        return session.run([answer.name], {taken.name: to_numpy(x).astype(DTYPES[taken.type])})[0]

    return MeanOnly(predict, training_data=training_data)


def whole_graph(path_or_bytes: str | PathLike[str] | bytes) -> bytes:
    """An ONNX graph with all its weights, including those that the file at a path keeps in other files.

    A graph passed as bytes must contain its weights, since it has no folder.
    """
    by_path = not isinstance(path_or_bytes, bytes)
    name = f"{os.fspath(path_or_bytes)}" if by_path else "This graph"
    if by_path:
        try:
            data = read_bytes(path_or_bytes, at_most=MODEL, follow=True)
        except FileNotFoundError as error:
            raise ValueError(f"There is no file {name}.") from error
        except OSError as error:
            raise ValueError(f"{name} cannot be read: {error.strerror}") from error
    else:
        data = path_or_bytes
    try:
        graph = load("onnx", "onnx").load_model_from_string(data)
    except ImportError:
        raise
    except Exception as error:  # its parsers raise errors of many types
        reason = f"{type(error).__name__}: {shown(str(error))}"
        raise ValueError(f"{name if by_path else 'This'} cannot be read as ONNX: {reason}") from error
    external = [tensor for tensor in _tensors(graph) if tensor.data_location == tensor.EXTERNAL]
    if not external:
        return data
    if not by_path:
        raise ValueError(
            f"{name} keeps weights in another file, which cannot be found from bytes. Pass the path."
        )
    _load_external(external, Path(os.fspath(path_or_bytes)).resolve().parent, name, MODEL - len(data))
    return graph.SerializeToString(deterministic=True)


def _tensors(message: Message) -> Iterator[TensorProto]:
    """All tensors of a graph: weights, constants, and those in subgraphs and functions."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield cast("TensorProto", message)
        return
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                yield from _tensors(part)


def _load_external(tensors: list[TensorProto], folder: Path, name: str, left: int) -> None:
    """Copy weights from other files of the folder into the graph, at most `left` bytes.

    Sparse files and repeated references are bounded: memory is limited to `FACTOR` times the bytes on the
    disk, plus `ROOM`.
    """
    total, files = 0, {}
    for tensor in tensors:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location, start, size = entries.get("location", ""), entries.get("offset", "0"), entries.get("length")
        where = f"{name} keeps weights in {shown(location)}"
        if location in ("", ".", "..") or Path(location).name != location or "\\" in location:
            raise ValueError(f"{where}, which should be a file in the same folder. Export it again.")
        if not (_digits(start) and _digits(size or "0")):
            raise ValueError(f"{where}, at an offset that is not a number.")
        try:
            with opened(folder / location, at_most=MODEL) as (descriptor, file_size):
                first = int(start)
                last = file_size if size is None else first + int(size)
                if not first <= last <= file_size:
                    raise ValueError(f"{where}, which is too short for them.")
                total += last - first
                if total > left:
                    raise ValueError(f"{name} should have at most {MODEL} bytes, together with its weights.")
                files[location] = 512 * getattr(os.fstat(descriptor), "st_blocks", file_size)
                if total > FACTOR * sum(files.values()) + ROOM:
                    raise ValueError(f"{where}, which is mostly holes, or is referenced too often.")
                os.lseek(descriptor, first, os.SEEK_SET)
                with os.fdopen(os.dup(descriptor), "rb") as file:
                    tensor.raw_data = file.read(last - first)
        except OSError as error:
            raise ValueError(f"{where}, which cannot be read: {error.strerror}") from error
        tensor.ClearField("external_data")
        tensor.data_location = tensor.DEFAULT


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


class _End(Protocol):
    """An input or output of a graph."""

    name: str
    type: str
    shape: list[int | str | None]


E = TypeVar("E", bound=_End)


def _only(ends: list[E], kind: str) -> E:
    if len(ends) != 1:
        names = ", ".join(f"{end.name} {end.shape}" for end in ends)
        raise ValueError(f"The graph should have one {kind}, but it has {len(ends)}: {names}. {WRAP}")
    return ends[0]
