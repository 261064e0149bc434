"""ONNX: a graph exported from anywhere, run by onnxruntime, as a predictor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from guardband.base.arrays import Array, to_numpy
from guardband.base.extras import load
from guardband.base.files import opened, read_bytes
from guardband.base.limits import FACTOR, MODEL, ROOM, shown
from guardband.predictors import MeanOnly
from guardband.values import Observations

DTYPES = {"tensor(float16)": "float16", "tensor(float)": "float32", "tensor(double)": "float64"}
SAID = 300
"""Characters of an error of onnxruntime that are shown."""

WRAP = "Export one with a single x and a single answer, or wrap your session in a function for MeanOnly(...)."


def from_onnx(
    path_or_bytes: str | PathLike[str] | bytes, *, training_data: Observations | None = None
) -> MeanOnly:
    """An ONNX graph, equally unsure everywhere, run on the CPU in the dtype of its input.

    The graph takes one array x (n, d) with any number of rows, and returns one; export it with a dynamic
    first dimension. `path_or_bytes` is the file or its content. Weights may be in other files if you give the
    path, as `torch.onnx.export` writes them to `model.onnx.data`: regular files in the folder of the model,
    no links, and at most 2 GiB together with it.

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
            f"{name} no ONNX graph that onnxruntime can run: {shown(str(error), SAID)}"
        ) from error
    given = _only(session.get_inputs(), "input")
    answer = _only(session.get_outputs(), "output")
    if given.type not in DTYPES:
        raise TypeError(
            f"The graph should take floating-point numbers, `{given.name}` is a {given.type}. {WRAP}"
        )
    if given.shape and isinstance(given.shape[0], int):
        raise ValueError(
            f"The graph should take any number of rows, `{given.name}` has the fixed shape {given.shape}. "
            "Export it with a dynamic first dimension (`dynamic_shapes` in torch.onnx.export)."
        )

    width = given.shape[1] if len(given.shape) == 2 else None

    def predict(x: Array) -> Array:
        if isinstance(width, int) and x.shape[1] != width:
            raise ValueError(
                f"The graph takes {width} inputs per row, got {x.shape[1]}. Give the columns it was trained "
                "on, in their order."
            )
        return session.run([answer.name], {given.name: to_numpy(x).astype(DTYPES[given.type])})[0]

    return MeanOnly(predict, training_data=training_data)


def whole_graph(path_or_bytes: str | PathLike[str] | bytes) -> bytes:
    """An ONNX graph with all its weights in one piece, from a file and those that it keeps weights in.

    A graph that is given as bytes has to be whole, since it has no folder.
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
    except Exception as error:  # its parsers raise what they like
        said = f"{type(error).__name__}: {shown(str(error))}"
        raise ValueError(f"{name if by_path else 'This'} cannot be read as ONNX: {said}") from error
    outside = [tensor for tensor in _tensors(graph) if tensor.data_location == tensor.EXTERNAL]
    if not outside:
        return data
    if not by_path:
        raise ValueError(
            f"{name} keeps weights in another file, and bytes have no folder to look in. Give the path."
        )
    _take_in(outside, Path(os.fspath(path_or_bytes)).resolve().parent, name, MODEL - len(data))
    return graph.SerializeToString(deterministic=True)


def _tensors(message: Any) -> Iterator[Any]:
    """All tensors of a graph, wherever they stand: weights, constants, graphs in nodes, functions."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
        return
    for about, value in message.ListFields():
        if about.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                yield from _tensors(part)


def _take_in(tensors: list[Any], folder: Path, name: str, left: int) -> None:
    """Move weights from other files of the folder into the graph, at most `left` bytes.

    They take no more memory than `FACTOR` times the bytes on the disk, and `ROOM`: holes are no bytes.
    """
    taken, files = 0, {}
    for tensor in tensors:
        about = {entry.key: entry.value for entry in tensor.external_data}
        location, start, size = about.get("location", ""), about.get("offset", "0"), about.get("length")
        where = f"{name} keeps weights in {shown(location)}"
        if location in ("", ".", "..") or Path(location).name != location or "\\" in location:
            raise ValueError(f"{where}, which should be a file in the same folder. Export it again.")
        if not (_digits(start) and _digits(size or "0")):
            raise ValueError(f"{where}, at a place that is no number.")
        try:
            with opened(folder / location, at_most=MODEL) as (descriptor, there):
                first = int(start)
                last = there if size is None else first + int(size)
                if not first <= last <= there:
                    raise ValueError(f"{where}, which is too short for them.")
                taken += last - first
                if taken > left:
                    raise ValueError(f"{name} should have at most {MODEL} bytes, together with its weights.")
                files[location] = 512 * getattr(os.fstat(descriptor), "st_blocks", there)
                if taken > FACTOR * sum(files.values()) + ROOM:
                    raise ValueError(f"{where}, which is mostly holes, or named again and again.")
                os.lseek(descriptor, first, os.SEEK_SET)
                with os.fdopen(os.dup(descriptor), "rb") as file:
                    tensor.raw_data = file.read(last - first)
        except OSError as error:
            raise ValueError(f"{where}, which cannot be read: {error.strerror}") from error
        tensor.ClearField("external_data")
        tensor.data_location = tensor.DEFAULT


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def _only(ends: list[Any], kind: str) -> Any:
    if len(ends) != 1:
        names = ", ".join(f"{end.name} {end.shape}" for end in ends)
        raise ValueError(f"The graph should have one {kind}, this one has {len(ends)}: {names}. {WRAP}")
    return ends[0]
