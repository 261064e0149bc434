"""ONNX: the graph is traced, held against the library, labeled and written.

It repeats the road of one point, x -> mean and scale -> threshold -> band, in the dtypes the library uses.
What does not depend on x (the rank, the factors of covariances, dropout masks) is a constant in it.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from guardband.base.arrays import Array, fingerprint, to_numpy, to_torch
from guardband.base.extras import load
from guardband.base.files import write_bytes
from guardband.conformal import Calibrated
from guardband.conformal.rank import Level, exact
from guardband.conformal.split import level_text
from guardband.export.estimators import joined
from guardband.values import Band

OPSET = 18
"""The ONNX operators that are used; runtimes since 2023 know them."""

TOLERANCE = 1e-5
"""How much of the band's width the graph may be off at the calibration points before it is refused."""

OUTPUTS = ("mean", "lower", "upper")
"""What the graph answers."""


def export_onnx(
    calibrated: Calibrated,
    path: str | os.PathLike[str],
    *,
    level: Level = 0.95,
    dtype: Any = None,
) -> Path:
    """Write `calibrated(x, level)` as an ONNX graph: x (n, d) -> mean, lower, upper (n, m), for any n.

    Predictors: MeanOnly (of a torch module, or of a scikit-learn regressor by skl2onnx), Ensemble (of torch
    modules or results of `fit`), Dropout and LastLayerLaplace (of a network by `pinn.mlp`, Constrained or
    not). Scores: Absolute, Scaled, Total. Calibrators: Split, and Local with any shape it learns here.
    `dtype` is that of x and of the answer, float64 or float32, and by default that of the network, or
    float64. The level, what is guaranteed, and the SHA-256 of the calibration points and of what was
    predicted and measured there, stand in the file's metadata.

    The ends are rounded outwards as in the library, but another runtime evaluates the network in its own
    order: expect the last digits of the network's dtype to differ. Erf (in GELU) is computed in float32, the
    only one onnxruntime has. A graph cannot refuse an x that is not finite; it answers NaN.

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
        raise TypeError(f"`export_onnx` takes what `gb.calibrate` returned, got {type(calibrated).__name__}.")
    if dtype not in (None, torch.float64, torch.float32):
        raise ValueError(f"`dtype` should be torch.float64 or torch.float32, got {dtype}.")
    graph = calibrated.as_module(level).eval().requires_grad_(False)
    estimator = getattr(getattr(calibrated, "predictor", None), "estimator", None)
    dtype = dtype or _dtype_of(graph)
    if calibrated.prediction is None or calibrated.prediction.x is None:
        raise TypeError(
            f"A graph is held against the band at calibration points, and {calibrated.name} keeps none."
        )
    x = to_torch(calibrated.prediction.x)[:100].to("cpu", dtype)
    try:
        if estimator is None:
            _check(graph, calibrated(x, level), x)
            model = _traced(graph, (x[:1].repeat(3, 1),))
        else:
            few = x[:1].repeat(3, 1)
            behind = _traced(Around(graph), (few, to_torch(calibrated(few, level).mean)), "given")
            model = joined(estimator, behind, x, OPSET)
    except RuntimeError as error:
        raise TypeError(
            "The network could not be traced by torch.onnx.export. It should be a fixed sequence of tensor "
            "operations that act on each row of x alone; the reason stands above."
        ) from error
    _name_outputs(model)
    _single_erf(onnx, model)
    _label(onnx, model, calibrated, level)
    if estimator is not None and not agree(_run(model, x), calibrated(x, level)):
        raise TypeError(
            f"The graph of {type(estimator).__name__} differs from the library's band at the calibration "
            "points: skl2onnx computes it otherwise. Try the other dtype, torch.float32 or torch.float64."
        )
    return write_bytes(path, model.SerializeToString())


def _dtype_of(graph: Any) -> Any:
    """That of the network's weights; float32 for lower ones, float64 where there are none."""
    torch = load("torch", "export")
    found = next((weights.dtype for weights in graph.parameters() if weights.is_floating_point()), None)
    return torch.float64 if found in (None, torch.float64) else torch.float32


def _check(graph: Any, band: Band, x: Array) -> None:
    """Refuse a graph that says something else than the library at the calibration points."""
    with load("torch", "export").no_grad():
        given = graph(x)
    if not agree(given, band):
        raise TypeError(
            "The graph would differ from the library's band at the calibration points. Every layer should "
            "act on each row of x alone, and the predictor should be one of this library's, not a variant."
        )


def agree(given: Sequence[Array], band: Band) -> bool:
    """Whether mean, lower and upper are those of a band, but for rounding."""
    known = [to_torch(part) for part in (band.mean, band.lower, band.upper)]
    slack = TOLERANCE * (known[2] - known[1] + known[0].abs())
    pairs = zip(given, known, strict=True)
    return all(a.shape == b.shape and bool(((a - b).abs() <= slack).all()) for a, b in pairs)


def _run(model: Any, x: Array) -> list[Array]:
    """What the written graph answers."""
    runtime = load("onnxruntime", "export")
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [to_torch(part) for part in session.run(list(OUTPUTS), {"x": to_numpy(x)})]


def _traced(graph: Any, given: tuple[Array, ...], *others: str) -> Any:
    """The graph of x, and of others, as an ONNX model with a free number of rows."""
    torch = load("torch", "export")
    names, rows = ["x", *others], torch.export.Dim("n")
    with _quiet():
        program = torch.onnx.export(
            graph,
            given,
            dynamo=True,
            verbose=False,
            input_names=names,
            output_names=[f"band_{name}" for name in OUTPUTS],
            dynamic_shapes={name: {0: rows} for name in names},
            opset_version=OPSET,
        )
    assert program is not None
    return program.model_proto


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings and no log of the exporter's, for the length of a block."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _name_outputs(model: Any) -> None:
    """Name the outputs; the exporter overlooks that a value inside, such as a `mean`, may have the name."""
    new = {name: f"{name}_inside" for name in OUTPUTS} | {f"band_{name}": name for name in OUTPUTS}
    for node in model.graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]
        node.output[:] = [new.get(name, name) for name in node.output]
    for value in (*model.graph.output, *model.graph.value_info, *model.graph.initializer):
        value.name = new.get(value.name, value.name)


def _single_erf(onnx: Any, model: Any) -> None:
    """Compute Erf in float32: onnxruntime has no other."""
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


def _label(onnx: Any, model: Any, calibrated: Calibrated, level: Level) -> None:
    """Say in the file what it is; leave out the exporter's notes, which hold paths of this machine."""
    graph = model.graph
    for part in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        del part.metadata_props[:]
    guarantee = (
        f"At {level_text(level, calibrated.confidence)}: {calibrated.promise} The band is [lower, upper], "
        "all outputs at once. This is an average over new points; it holds neither at every single x nor for "
        "data drawn differently."
    )
    about = {"level": str(float(exact(level))), "guarantee": guarantee, "calibrated": repr(calibrated)}
    known = calibrated.prediction
    assert known is not None
    about |= {"promise": calibrated.promise}
    about |= {"sha256": fingerprint([known.x, *known.parts.values(), calibrated.y])}
    onnx.helper.set_model_props(model, {"guardband": metadata.version("guardband"), **about})
    onnx.checker.check_model(model)
