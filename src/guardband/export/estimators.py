"""Estimators of scikit-learn in a graph: skl2onnx writes the mean, and the band is put behind it."""

from __future__ import annotations

from typing import Any

from guardband.base.arrays import Array, to_numpy
from guardband.base.extras import load

MODEL, GIVEN = "model_", "given"
"""What names of the estimator's graph begin with, and what its answer is called in the other."""


def joined(estimator: Any, behind: Any, x: Array, opset: int) -> Any:
    """One graph: the estimator's, whose answer is the `given` of the other, both of one x."""
    onnx, converter = load("onnx", "export"), load("skl2onnx", package="skl2onnx")
    try:
        model = converter.to_onnx(estimator, to_numpy(x[:1]), target_opset={"": opset, "ai.onnx.ml": 3})
    except Exception as error:
        raise TypeError(
            f"{type(estimator).__name__} should be one that skl2onnx writes as a graph of one array. "
            f"It could not: {error}."
        ) from error
    ask, answer = model.graph.input[0].name, model.graph.output[0].name
    kind = onnx.TensorProto.DOUBLE if x.dtype.itemsize == 8 else onnx.TensorProto.FLOAT
    model.graph.node.append(onnx.helper.make_node("Cast", [answer], ["cast"], to=kind))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("cast", kind, None))
    model.ir_version = behind.ir_version
    whole = onnx.compose.merge_models(
        onnx.compose.add_prefix(model, MODEL), behind, io_map=[(f"{MODEL}cast", GIVEN)]
    )
    for node in whole.graph.node:
        node.input[:] = ["x" if name == f"{MODEL}{ask}" else name for name in node.input]
    others = [value for value in whole.graph.input if value.name not in (f"{MODEL}{ask}", "x")]
    own = next(value for value in whole.graph.input if value.name in ("x", f"{MODEL}{ask}"))
    kept = onnx.helper.make_tensor_value_info("x", own.type.tensor_type.elem_type, ["n", x.shape[1]])
    del whole.graph.input[:]
    whole.graph.input.extend([kept, *others])
    return whole
