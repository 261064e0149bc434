"""Bands of fifty settings, to be compared bit by bit with those of another release.

    python tools/stored_bands.py FILE.npz

writes them with the guardband that is installed; `tests/test_vectors.py` compares them with the file
that
0.1.0 wrote. Only numpy and torch on small arrays, so the numbers do not depend on the machine.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

import guardband as gb

LEVELS = ("0.5", "0.9", "0.95")
MeanOnly = getattr(gb.predictors, "MeanOnly", None) or gb.predictors.Constant  # type: ignore  # as 0.1 called it
Localized = getattr(gb, "RandomlyLocalized", None) or gb.Localized  # type: ignore[attr-defined]


def bands() -> Iterator[tuple[str, np.ndarray]]:
    """The name of each setting, and the ends of its bands, (levels, 2, n, m)."""
    for number, (name, make) in enumerate(SETTINGS.items()):
        generator = np.random.default_rng(number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calibrated, x, options = make(generator)
            made = [calibrated(x, level, **options) for level in LEVELS]
        ends = [[np.asarray(band.lower), np.asarray(band.upper)] for band in made]
        yield name, np.array(ends)


def _mean(x: Any, outputs: int) -> Any:
    return 3 * x[:, :1] ** 2 - x[:, 1:2] + (np if isinstance(x, np.ndarray) else torch).arange(outputs)


def _scale(x: Any, outputs: int) -> Any:
    return 0.1 + abs(x[:, :1] - x[:, 1:2]) + 0 * _mean(x, outputs)


def _data(generator: np.random.Generator, n: int, outputs: int, dtype: str, kind: str) -> tuple[Any, Any]:
    x = generator.uniform(-1, 1, size=(n, 2)).astype(dtype)
    noise = generator.normal(size=(n, outputs)) * (0.1 + abs(x[:, :1]))
    y = (_mean(x, outputs) + noise).astype(dtype)
    return (x, y) if kind == "numpy" else (torch.from_numpy(x), torch.from_numpy(y))


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
    """A learner that has made up its mind."""

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
    return gb.Weighted(gb.density_ratio(old, new, method=method))  # type: ignore[arg-type]


SCORES: dict[str, Any] = {"absolute": gb.Absolute(), "scaled": gb.Scaled(), "total": gb.Total(noise=0.3)}
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
        for score, made in {**SCORES, "noise per output": gb.Total(noise=[0.1, 2.0])}.items()
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
    "localized, gauss": partial(_setting, calibrator=lambda g: Localized(0.8), n=200),
    "localized, box": partial(_setting, calibrator=lambda g: Localized(0.9, kernel="box"), n=200),
    "local": partial(_setting, calibrator=_local),
    "local, no scale": partial(_setting, calibrator=_local, scaled=False),
    "fields": partial(_fields, shaped=False, dtype="float64"),
    "fields, float32": partial(_fields, shaped=False, dtype="float32"),
    "fields, shaped": partial(_fields, shaped=True, dtype="float64"),
    "fields, shaped, float32": partial(_fields, shaped=True, dtype="float32"),
}

if __name__ == "__main__":
    np.savez_compressed(sys.argv[1], **dict(bands()))  # type: ignore[arg-type]
    print(f"{len(SETTINGS)} settings by guardband {gb.__version__}")
