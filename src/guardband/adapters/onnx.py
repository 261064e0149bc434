"""ONNX: a graph exported from anywhere, run by onnxruntime, as a predictor."""

from __future__ import annotations

from os import PathLike
from typing import Any

from guardband.arrays import Array, to_numpy
from guardband.extras import load
from guardband.predictors import MeanOnly
from guardband.values import Observations

DTYPES = {"tensor(float16)": "float16", "tensor(float)": "float32", "tensor(double)": "float64"}
WRAP = "Export one with a single x and a single answer, or wrap your session in a function for MeanOnly(...)."


def from_onnx(
    path_or_bytes: str | PathLike[str] | bytes, *, training_data: Observations | None = None
) -> MeanOnly:
    """An ONNX graph, equally unsure everywhere, run on the CPU in the dtype of its input.

    The graph takes one array x (n, d) with any number of rows, and returns one; export it with a dynamic
    first dimension. `path_or_bytes` is the file or its content.

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
    runtime = load("onnxruntime", "export")
    try:
        session = runtime.InferenceSession(
            path_or_bytes, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:
        name = "These bytes are" if isinstance(path_or_bytes, bytes) else f"{path_or_bytes} is"
        raise ValueError(f"{name} no ONNX graph that onnxruntime can run: {error}") from error
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


def _only(ends: list[Any], kind: str) -> Any:
    if len(ends) != 1:
        names = ", ".join(f"{end.name} {end.shape}" for end in ends)
        raise ValueError(f"The graph should have one {kind}, this one has {len(ends)}: {names}. {WRAP}")
    return ends[0]
