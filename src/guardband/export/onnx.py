"""ONNX: the graph of a band, traced, compared with the library, annotated and written.

The graph evaluates x -> mean and scale -> threshold -> band in the dtypes of the library. Values that do not
depend on x (the rank, factors of covariances, dropout masks) are constants.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from guardband.base.arrays import Array, fingerprint, to_numpy, to_torch
from guardband.base.extras import load
from guardband.base.files import write_bytes
from guardband.conformal import Calibrated
from guardband.conformal.rank import Level, exact
from guardband.conformal.split import level_text
from guardband.predictors.models import Model
from guardband.values import Band

if TYPE_CHECKING:
    from onnx import ModelProto

    from guardband.export.modules import Dtype, Module

OPSET = 18
"""Version of the ONNX operators, supported by runtimes since 2023."""

TOLERANCE = 1e-5
"""Largest accepted difference from the library's band at the calibration points, relative to its width."""

OUTPUTS = ("mean", "lower", "upper")
"""Names of the outputs of the graph."""

PREFIX, MEAN_INPUT = "model_", "given"
"""The prefix of names in the graph of an estimator, and the input of the band's graph for its output."""


def export_onnx(
    calibrated: Calibrated,
    path: str | os.PathLike[str],
    *,
    level: Level = 0.95,
    dtype: Dtype | None = None,
) -> Path:
    """Write the band at a level as an ONNX graph.

    The graph maps x, shape (n, d), to mean, lower and upper, each of shape (n, m), for any n.

    Parameters
    ----------
    calibrated
        Calibration to export. Supported predictors are `MeanOnly` (of a torch module, or of a scikit-learn
        regressor by skl2onnx), `Ensemble` (of torch modules or results of `pinn.fit`), `Dropout` and
        `LastLayerLaplace` (of a network by `pinn.mlp`, also if `Constrained`). Supported scores are
        `Absolute`, `Scaled` and `Total`; supported calibrators are `Split`, and `Local` with the shapes of
        this library.
    path
        File to write.
    level
        Requested coverage, strictly between 0 and 1.
    dtype
        Data type of x and of the outputs, `torch.float64` or `torch.float32`; by default that of the network,
        or float64.

    Returns
    -------
    Path
        The file.

    Notes
    -----
    The metadata of the file contain the level, the guarantee, and the SHA-256 of the calibration points,
    predictions and targets.

    The ends are rounded outward as in the library, but runtimes differ in the order of operations, so expect
    differences in the last digits of the network's dtype. onnxruntime computes Erf (in GELU) only in float32.
    A graph cannot refuse values that are not finite: it returns NaN.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import guardband as gb
    >>> from guardband import pinn
    >>> x = np.linspace(0, 1, 50)
    >>> calibrated = gb.calibrate(pinn.mlp(1, [8]), x, np.sin(x))
    >>> gb.export_onnx(calibrated, Path(tempfile.mkdtemp(), "band.onnx"), level=0.9).name
    'band.onnx'
    """
    torch, onnx, _ = (load(module, "export") for module in ("torch", "onnx", "onnxscript"))
    from guardband.export.modules import Around

    if not isinstance(calibrated, Calibrated):
        raise TypeError(
            f"`export_onnx` expects the result of `gb.calibrate`, got {type(calibrated).__name__}."
        )
    if dtype not in (None, torch.float64, torch.float32):
        raise ValueError(f"`dtype` should be torch.float64 or torch.float32, got {dtype}.")
    graph = calibrated.as_module(level).eval().requires_grad_(False)
    estimator = getattr(getattr(calibrated, "predictor", None), "estimator", None)
    dtype = dtype or _dtype_of(graph)
    if calibrated.prediction is None or calibrated.prediction.x is None:
        raise TypeError(
            f"A graph is compared with the band at calibration points, but {calibrated.name} keeps none."
        )
    x = to_torch(calibrated.prediction.x)[:100].to("cpu", dtype)
    try:
        if estimator is None:
            _check(graph, calibrated(x, level), x)
            model = _traced(graph, (x[:1].repeat(3, 1),))
        else:
            few = x[:1].repeat(3, 1)
            band = _traced(Around(graph), (few, to_torch(calibrated(few, level).mean)), MEAN_INPUT)
            model = _with_estimator(estimator, band, x)
    except RuntimeError as error:
        raise TypeError(
            "The network could not be traced by torch.onnx.export. It should be a fixed sequence of tensor "
            "operations that act on each row of x alone; the cause is shown above."
        ) from error
    _name_outputs(model)
    _single_erf(onnx, model)
    _label(onnx, model, calibrated, level)
    if estimator is not None and not agree(_run(model, x), calibrated(x, level)):
        raise TypeError(
            f"The graph of {type(estimator).__name__} differs from the library's band at the calibration "
            "points: skl2onnx computes it differently. Try the other dtype, torch.float32 or torch.float64."
        )
    return write_bytes(path, model.SerializeToString())


def _dtype_of(graph: Module) -> Dtype:
    """The dtype of the network's weights: float32 for lower precisions, float64 without weights."""
    torch = load("torch", "export")
    found = next((weights.dtype for weights in graph.parameters() if weights.is_floating_point()), None)
    return torch.float64 if found in (None, torch.float64) else torch.float32


def _check(graph: Module, band: Band, x: Array) -> None:
    """Raise a `TypeError` if the graph differs from the library at the calibration points."""
    with load("torch", "export").no_grad():
        outputs = graph(x)
    if not agree(outputs, band):
        raise TypeError(
            "The graph would differ from the library's band at the calibration points. Every layer should "
            "act on each row of x alone, and the predictor should be one of this library, not a subclass."
        )


def agree(outputs: Sequence[Array], band: Band) -> bool:
    """Whether mean, lower and upper equal those of a band up to rounding."""
    expected = [to_torch(part) for part in (band.mean, band.lower, band.upper)]
    slack = TOLERANCE * (expected[2] - expected[1] + expected[0].abs())
    pairs = zip(outputs, expected, strict=True)
    return all(a.shape == b.shape and bool(((a - b).abs() <= slack).all()) for a, b in pairs)


def _run(model: ModelProto, x: Array) -> list[Array]:
    """The outputs of the ONNX graph at x."""
    runtime = load("onnxruntime", "export")
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [to_torch(part) for part in session.run(list(OUTPUTS), {"x": to_numpy(x)})]


def _traced(graph: Module, inputs: tuple[Array, ...], *others: str) -> ModelProto:
    """The module as an ONNX model of x and other inputs, with a dynamic number of rows."""
    torch = load("torch", "export")
    names, rows = ["x", *others], torch.export.Dim("n")
    with _quiet():
        program = torch.onnx.export(
            graph,
            inputs,
            dynamo=True,
            verbose=False,
            input_names=names,
            output_names=[f"band_{name}" for name in OUTPUTS],
            dynamic_shapes={name: {0: rows} for name in names},
            opset_version=OPSET,
        )
    assert program is not None
    return program.model_proto


def _with_estimator(estimator: Model, band: ModelProto, x: Array) -> ModelProto:
    """One graph of x: that of a scikit-learn estimator, followed by that of the band around its output."""
    onnx, converter = load("onnx", "export"), load("skl2onnx", package="skl2onnx")
    try:
        model = converter.to_onnx(estimator, to_numpy(x[:1]), target_opset={"": OPSET, "ai.onnx.ml": 3})
    except Exception as error:
        raise TypeError(
            f"{type(estimator).__name__} should be an estimator that skl2onnx converts to a graph of one "
            f"array. The conversion failed: {error}."
        ) from error
    source, output = model.graph.input[0].name, model.graph.output[0].name
    kind = onnx.TensorProto.DOUBLE if x.dtype.itemsize == 8 else onnx.TensorProto.FLOAT
    model.graph.node.append(onnx.helper.make_node("Cast", [output], ["cast"], to=kind))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("cast", kind, None))
    model.ir_version = band.ir_version
    merged = onnx.compose.merge_models(
        onnx.compose.add_prefix(model, PREFIX), band, io_map=[(f"{PREFIX}cast", MEAN_INPUT)]
    )
    for node in merged.graph.node:
        node.input[:] = ["x" if name == f"{PREFIX}{source}" else name for name in node.input]
    others = [value for value in merged.graph.input if value.name not in (f"{PREFIX}{source}", "x")]
    first = next(value for value in merged.graph.input if value.name in ("x", f"{PREFIX}{source}"))
    x_input = onnx.helper.make_tensor_value_info("x", first.type.tensor_type.elem_type, ["n", x.shape[1]])
    del merged.graph.input[:]
    merged.graph.input.extend([x_input, *others])
    return merged


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings and logs of the exporter for the duration of a block."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _name_outputs(model: ModelProto) -> None:
    """Name the outputs; the exporter does not handle inner values with the same name, such as a `mean`."""
    new = {name: f"{name}_inside" for name in OUTPUTS} | {f"band_{name}": name for name in OUTPUTS}
    for node in model.graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]
        node.output[:] = [new.get(name, name) for name in node.output]
    for value in (*model.graph.output, *model.graph.value_info, *model.graph.initializer):
        value.name = new.get(value.name, value.name)


def _single_erf(onnx: ModuleType, model: ModelProto) -> None:
    """Compute Erf in float32, since onnxruntime does not implement it in float64."""
    single, double, make = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.helper.make_node
    wide = {v.name for v in model.graph.value_info if v.type.tensor_type.elem_type == double}
    nodes = []
    for node in model.graph.node:
        if node.op_type == "Erf" and node.output[0] in wide:
            name = node.output[0]
            nodes.append(make("Cast", [node.input[0]], [f"{name}_in"], to=single))
            nodes.append(make("Erf", [f"{name}_in"], [f"{name}_out"]))
            nodes.append(make("Cast", [f"{name}_out"], [name], to=double))
        else:
            nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _label(onnx: ModuleType, model: ModelProto, calibrated: Calibrated, level: Level) -> None:
    """Write the metadata, and remove those of the exporter, which contain paths of this machine."""
    graph = model.graph
    for part in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        del part.metadata_props[:]
    guarantee = (
        f"At {level_text(level, calibrated.confidence)}: {calibrated.promise} The band is [lower, upper], "
        "all outputs at once. This is an average over new points; it holds neither at every single x nor for "
        "data drawn differently."
    )
    about = {"level": str(float(exact(level))), "guarantee": guarantee, "calibrated": repr(calibrated)}
    prediction = calibrated.prediction
    assert prediction is not None
    about |= {"promise": calibrated.promise}
    about |= {"sha256": fingerprint([prediction.x, *prediction.parts.values(), calibrated.y])}
    onnx.helper.set_model_props(model, {"guardband": metadata.version("guardband"), **about})
    onnx.checker.check_model(model)
