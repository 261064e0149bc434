"""Bands in many settings, for bitwise comparison with another release.

    python tools/stored_bands.py FILE.npz

writes them with the installed guardband; `tests/test_vectors.py` compares them with the files of versions
0.1.0 and 0.2.0. They use only numpy and torch on small arrays, so the numbers do not depend on the machine.
Methods added since version 0.1.0 that solve linear systems or programs, use special functions or evaluate
networks are in `tools/baseline.py`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import guardband as gb

LEVELS = ("0.5", "0.9", "0.95")
MeanOnly = getattr(gb.predictors, "MeanOnly", None) or gb.predictors.Constant  # type: ignore  # as 0.1 called it
Localized = getattr(gb.conformal, "RandomlyLocalized", None) or gb.Localized  # type: ignore[attr-defined]
# Version 0.2 and earlier: draws depended on location and seed only.
DRAWS: dict[str, Any] = {"fresh": False} if hasattr(Localized, "fresh") else {}


def bands() -> Iterator[tuple[str, np.ndarray]]:
    """The name of each setting, and the ends of its bands, (levels, 2, n, m), or radii, (levels, 1, n).

    Settings on tensors are omitted without torch.
    """
    for number, (name, make) in enumerate(SETTINGS.items()):
        if find_spec("torch") is None and "torch" in name:
            continue
        generator = np.random.default_rng(number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calibrated, x, options = make(generator)
            made = [calibrated(x, level, **options) for level in LEVELS]
        yield name, np.array([_ends(band) for band in made])


def _ends(band: Any) -> list[np.ndarray]:
    """The lower and upper ends of a band, or the radius of a ball."""
    if isinstance(band, gb.values.NormBand):
        return [band.radius]
    return [np.asarray(band.lower), np.asarray(band.upper)]


def _mean(x: Any, outputs: int) -> Any:
    return (
        3 * x[:, :1] ** 2
        - x[:, 1:2]
        + (np if isinstance(x, np.ndarray) else sys.modules["torch"]).arange(outputs)
    )


def _scale(x: Any, outputs: int) -> Any:
    return 0.1 + abs(x[:, :1] - x[:, 1:2]) + 0 * _mean(x, outputs)


def _data(generator: np.random.Generator, n: int, outputs: int, dtype: str, kind: str) -> tuple[Any, Any]:
    x = generator.uniform(-1, 1, size=(n, 2)).astype(dtype)
    noise = generator.normal(size=(n, outputs)) * (0.1 + abs(x[:, :1]))
    y = (_mean(x, outputs) + noise).astype(dtype)
    if kind == "numpy":
        return x, y
    import torch

    return torch.from_numpy(x), torch.from_numpy(y)


def _setting(
    generator: np.random.Generator,
    *,
    score: Any = None,
    calibrator: Callable[[np.random.Generator], Any] | None = None,
    scaled: bool = True,
    outputs: int = 1,
    dtype: str = "float64",
    kind: str = "numpy",
    n: int = 60,
    groups: int = 0,
    at_call: bool = False,
    confidence: str | None = None,
) -> tuple[Any, Any, dict[str, Any]]:
    mean, scale = (partial(part, outputs=outputs) for part in (_mean, _scale))
    predictor = gb.predictors.Given(mean, scale) if scaled else MeanOnly(mean)
    x, y = _data(generator, n, outputs, dtype, kind)
    options: dict[str, Any] = {"score": score, "confidence": confidence}
    if calibrator is not None:
        options["calibrator"] = calibrator(generator)
    if groups:
        options["groups"] = np.arange(n) % groups
    new, _ = _data(generator, 12, outputs, dtype, kind)
    calibrated = gb.calibrate(predictor, x, y, **options)
    return calibrated, new, {"groups": np.arange(12) % groups} if at_call else {}


def _fields(generator: np.random.Generator, *, shaped: bool, dtype: str) -> tuple[Any, Any, dict[str, Any]]:
    fields = generator.normal(size=(40, 7, 2)).astype(dtype) * np.linspace(1, 2, 7, dtype=dtype)[:, None]
    score = gb.Simultaneous.fitted(generator.normal(size=(5, 7, 2))) if shaped else gb.Simultaneous()
    x = generator.uniform(size=(40, 3)).astype(dtype)
    predictor = MeanOnly(lambda x: np.zeros((len(x), 7, 2), dtype) + x[:, :1, None])
    return gb.calibrate(predictor, x, fields, score=score), x[:5] + 1, {}


class Steep:
    """A learner that returns a fixed shape."""

    def fit(self, x: np.ndarray, scores: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """A shape that grows with the first coordinate."""
        return _steep


def _steep(x: np.ndarray) -> np.ndarray:
    return 0.1 + abs(x[:, 0])


def _local(generator: np.random.Generator) -> Any:
    x, y = _data(generator, 100, 1, "float64", "numpy")
    return gb.Local(gb.Observations(x, y), learner=Steep())


def _weighted(method: str, generator: np.random.Generator) -> Any:
    old, new = generator.uniform(-1, 1, size=(80, 2)), generator.uniform(-0.5, 1, size=(80, 2))
    return gb.Weighted(gb.conformal.density_ratio(old, new, method=method))  # type: ignore[arg-type]


def _quantiles(
    generator: np.random.Generator,
    *,
    score: Any = None,
    calibrator: Any = None,
    outputs: int = 1,
    dtype: str = "float64",
    kind: str = "numpy",
    n: int = 60,
    groups: int = 0,
    at_call: bool = False,
    confidence: str | None = None,
) -> tuple[Any, Any, dict[str, Any]]:
    """A predictor of two quantiles whose upper one is too high."""

    def lower(x: Any) -> Any:
        return _mean(x, outputs) - _scale(x, outputs)

    def upper(x: Any) -> Any:
        return _mean(x, outputs) + 2.5 * _scale(x, outputs)

    x, y = _data(generator, n, outputs, dtype, kind)
    new, _ = _data(generator, 12, outputs, dtype, kind)
    options: dict[str, Any] = {"score": score, "calibrator": calibrator, "confidence": confidence}
    if groups:
        options["groups"] = np.arange(n) % groups
    calibrated = gb.calibrate(gb.Quantiles(lower, upper), x, y, **options)
    return calibrated, new, {"groups": np.arange(12) % groups} if at_call else {}


def _cross(
    generator: np.random.Generator, *, folds: int | None, groups: int = 0, dtype: str = "float64"
) -> tuple[Any, Any, dict[str, Any]]:
    """CV+ or jackknife+ of a model of the median."""

    def fit(data: Any) -> Callable[[Any], Any]:
        offset = np.median(data.y - _mean(data.x, 1)).astype(dtype)
        return lambda x: _mean(x, 1) + offset

    x, y = _data(generator, 40, 1, dtype, "numpy")
    labels = np.arange(40) % groups if groups else None
    return gb.calibration.calibrate_cross(fit, (x, y), folds=folds, groups=labels), x[:12] / 2, {}


def _chosen(
    generator: np.random.Generator, *, confidence: str | None = None
) -> tuple[Any, Any, dict[str, Any]]:
    """One of three candidates, selected on the calibration points."""
    x, y = _data(generator, 300, 1, "float64", "numpy")
    mean, scale = (partial(part, outputs=1) for part in (_mean, _scale))
    candidates = {
        "constant": mean,
        "scaled": gb.predictors.Given(mean, scale),
        "total": (gb.predictors.Given(mean, scale), gb.conformal.Total(noise=0.3), None),
    }
    made = gb.choose(candidates, calibrate=(x, y), confidence=confidence).calibrated
    return made, _data(generator, 12, 1, "float64", "numpy")[0], {}


def _truth(generator: np.random.Generator, *, readings: int = 1) -> tuple[Any, Any, dict[str, Any]]:
    """A band for the truth behind noise with a known bound, from `readings` at each location."""
    x, y = (part.repeat(readings, axis=0) for part in _data(generator, 160, 1, "float64", "numpy"))
    y = y + generator.uniform(-1, 1, size=y.shape)
    options: dict[str, Any] = {
        "target": "truth",
        "noise": gb.conformal.BoundedNoise(1.0),
        "confidence": "0.9",
    }
    calibrated = gb.calibrate(partial(_mean, outputs=1), x, y, **options)
    return calibrated, _data(generator, 12, 1, "float64", "numpy")[0], {}


def _whole(
    generator: np.random.Generator,
    *,
    score: Any,
    scaled: bool = False,
    placed: bool = False,
    calibrator: Any = None,
    dtype: str = "float64",
) -> tuple[Any, Any, dict[str, Any]]:
    """Fields of 3 times, 5 locations and 2 outputs, on named axes, optionally with coordinates."""
    x = generator.uniform(1, 2, size=(40, 3)).astype(dtype)
    values = generator.normal(size=(40, 3, 5, 2)).astype(dtype) * np.linspace(1, 2, 5, dtype=dtype)[:, None]
    nodes = {"t": np.array([0.0, 0.5, 2.0]), "x": np.linspace(0, 1, 5)} if placed else {}

    def mean(x: np.ndarray) -> np.ndarray:
        return np.zeros((len(x), 3, 5, 2), dtype) + x[:, :1, None, None]

    predictor = gb.predictors.Given(mean, lambda x: abs(mean(x)) + 1) if scaled else MeanOnly(mean)
    fields = gb.Fields(values, dims=("t", "x"), coordinates=nodes)
    return gb.calibrate(predictor, x, fields, score=score, calibrator=calibrator), x[:5] + 1, {}


def _largest(fields: np.ndarray) -> np.ndarray:
    return fields.max(axis=(1, 2, 3))


def _extremes(fields: np.ndarray) -> np.ndarray:
    return np.stack([fields.max(axis=(1, 2, 3)), fields.min(axis=(1, 2, 3))], axis=1)


def _cut_distance(band: Any, y: Any) -> np.ndarray:
    outside = np.maximum(np.maximum(band.lower - y, y - band.upper), 0)
    return np.minimum(np.asarray(outside).max(axis=1), 1)


SCORES: dict[str, Any] = {
    "absolute": gb.Absolute(),
    "scaled": gb.Scaled(),
    "total": gb.conformal.Total(noise=0.3),
}
KINDS = [(kind, dtype) for kind in ("numpy", "torch") for dtype in ("float64", "float32")]
SETTINGS: dict[str, Callable[[np.random.Generator], tuple[Any, Any, dict[str, Any]]]] = {
    **{
        f"split, {score}, {kind}, {dtype}": partial(_setting, score=made, kind=kind, dtype=dtype)
        for score, made in SCORES.items()
        for kind, dtype in KINDS
    },
    **{
        f"no scale, {kind}, {dtype}, n={n}": partial(_setting, scaled=False, kind=kind, dtype=dtype, n=n)
        for kind, dtype in KINDS
        for n in (5, 19, 200)
    },
    **{
        f"two outputs, {score}, {dtype}": partial(_setting, score=made, outputs=2, dtype=dtype)
        for score, made in {**SCORES, "noise per output": gb.conformal.Total(noise=[0.1, 2.0])}.items()
        for dtype in ("float64", "float32")
    },
    **{
        f"confidence {c}, n={n}": partial(_setting, confidence=c, n=n)
        for c in ("0.9", "0.99")
        for n in (60, 400)
    },
    "grouped": partial(_setting, calibrator=lambda g: gb.Grouped(), groups=3, at_call=True),
    "grouped, float32": partial(
        _setting, calibrator=lambda g: gb.Grouped(), groups=2, at_call=True, dtype="float32", n=99
    ),
    "clustered": partial(_setting, calibrator=lambda g: gb.Clustered(), groups=20, n=200),
    "clustered, uneven": partial(_setting, calibrator=lambda g: gb.Clustered(), groups=23, n=150),
    "weighted, logistic": partial(_setting, calibrator=partial(_weighted, "logistic")),
    "weighted, kernel": partial(_setting, calibrator=partial(_weighted, "kernel")),
    "localized, gauss": partial(_setting, calibrator=lambda g: Localized(0.8, **DRAWS), n=200),
    "localized, box": partial(_setting, calibrator=lambda g: Localized(0.9, kernel="box", **DRAWS), n=200),
    "local": partial(_setting, calibrator=_local),
    "local, no scale": partial(_setting, calibrator=_local, scaled=False),
    "fields": partial(_fields, shaped=False, dtype="float64"),
    "fields, float32": partial(_fields, shaped=False, dtype="float32"),
    "fields, shaped": partial(_fields, shaped=True, dtype="float64"),
    "fields, shaped, float32": partial(_fields, shaped=True, dtype="float32"),
    # the settings above exist since 0.1.0; each draws by its position, so new settings are appended
    **{
        f"quantiles, {ranks}, {kind}, {dtype}": partial(
            _quantiles, score=gb.CQR(symmetric=ranks == "one rank"), kind=kind, dtype=dtype
        )
        for ranks in ("one rank", "two ranks")
        for kind, dtype in KINDS
    },
    "quantiles, each output": partial(_quantiles, score=gb.CQR(joint=False), outputs=2),
    "quantiles, two ranks, two outputs": partial(_quantiles, score=gb.CQR(symmetric=False), outputs=2, n=150),
    "quantiles, two ranks, confident": partial(
        _quantiles, score=gb.CQR(symmetric=False), confidence="0.9", n=200
    ),
    "quantiles, grouped": partial(_quantiles, calibrator=gb.Grouped(), groups=2, at_call=True, n=99),
    "quantiles, two ranks, grouped": partial(
        _quantiles, score=gb.CQR(symmetric=False), calibrator=gb.Grouped(), groups=2, at_call=True, n=150
    ),
    "quantiles, new groups": partial(_quantiles, calibrator=gb.Clustered(), groups=25, n=200),
    "new groups, two outputs": partial(
        _setting, calibrator=lambda g: gb.Clustered(), groups=21, outputs=2, n=130
    ),
    "new groups, torch": partial(
        _setting, calibrator=lambda g: gb.Clustered(), groups=30, n=120, kind="torch", dtype="float32"
    ),
    "grouped, confident": partial(
        _setting, calibrator=lambda g: gb.Grouped(), groups=2, at_call=True, n=200, confidence="0.9"
    ),
    "each output": partial(_setting, score=gb.Scaled(joint=False), outputs=2),
    "units, each output": partial(_setting, score=gb.Absolute(units=[1, 2], joint=False), outputs=2),
    "chosen": _chosen,
    "chosen, confident": partial(_chosen, confidence="0.9"),
    "risk": partial(_setting, calibrator=lambda g: gb.RiskControl(), outputs=3),
    "risk, float32": partial(_setting, calibrator=lambda g: gb.RiskControl(), outputs=2, dtype="float32"),
    "risk, own loss": partial(_setting, calibrator=lambda g: gb.RiskControl(_cut_distance), outputs=2, n=90),
    "truth": _truth,
    "truth, two readings": partial(_truth, readings=2),
    "cross, ten folds": partial(_cross, folds=10),
    "cross, ten folds, float32": partial(_cross, folds=10, dtype="float32"),
    "cross, leave one out": partial(_cross, folds=None),
    "cross, groups": partial(_cross, folds=None, groups=20),
    "simultaneous, scale": partial(_whole, score=gb.Simultaneous(), scaled=True),
    "share": partial(_whole, score=gb.Share(0.1)),
    "share, scale": partial(_whole, score=gb.Share(0.3), scaled=True),
    "share, coordinates": partial(_whole, score=gb.Share(0.2), placed=True),
    "share, float32": partial(_whole, score=gb.Share(0.1), dtype="float32"),
    "L2": partial(_whole, score=gb.Norm("L2")),
    "L2, scale": partial(_whole, score=gb.Norm("L2"), scaled=True),
    "L2, coordinates": partial(_whole, score=gb.Norm("L2"), placed=True),
    "H1": partial(_whole, score=gb.Norm("H1"), placed=True),
    "H1, float32": partial(_whole, score=gb.Norm("H1"), placed=True, dtype="float32"),
    "quantity": partial(_whole, score=gb.Quantity(_largest)),
    "two quantities": partial(_whole, score=gb.Quantity(_extremes, units=[1.0, 2.0])),
    "fields, risk": partial(_whole, score=gb.Simultaneous(), calibrator=gb.RiskControl()),
}

if __name__ == "__main__":
    np.savez_compressed(sys.argv[1], **dict(bands()))  # type: ignore[arg-type]
    print(f"{len(SETTINGS)} settings by guardband {gb.__version__}")
