"""Predictors: fixed functions of x that leave no trace."""

from __future__ import annotations

import numpy as np

from guardband.base.arrays import Array, to_numpy
from guardband.testing.traces import untouched
from guardband.values import Prediction, Predictor


def check_predictor(predictor: Predictor, x: Array, *, tolerance: float = 1e-5) -> None:
    """A predictor is a fixed function of x that leaves no trace, with a finite scale >= 0.

    `x` (n, d) should hold a few dozen typical points. `tolerance` is relative to the largest mean or
    scale and allows for matrix products that round differently in batches of different size.

    >>> import numpy as np
    >>> import guardband as gb
    >>> def predictor(x):
    ...     return gb.Prediction(x, x, 1 + x**2)
    >>> gb.testing.check_predictor(predictor, np.linspace(0, 1, 20)[:, None])
    """
    x = x[:, None] if x.ndim == 1 else x
    before = to_numpy(x).copy()
    with untouched(predictor):
        whole = predictor(x)
        again = predictor(x)
        parts = [predictor(part) for part in (x[:7], x[7:8], x[8:])]
        turned = predictor(x[list(reversed(range(len(x))))])
    assert np.array_equal(to_numpy(x), before), "the points x were changed by the call"
    assert isinstance(whole, Prediction), f"it should return a Prediction, got {type(whole).__name__}"
    assert len(whole) == len(x), f"it should return a row per point, got {len(whole)} for {len(x)}"
    assert isinstance(whole.mean, type(x)), (
        f"it should answer with the kind of array it was given, {type(x).__name__}, got "
        f"{type(whole.mean).__name__}"
    )
    assert whole.mean.dtype == x.dtype, f"the dtype should follow x, {x.dtype}, got {whole.mean.dtype}"
    size = max(float(abs(to_numpy(values)).max()) for values in whole.parts.values())
    others = (again, *parts, turned)
    for name in dict.fromkeys(name for made in (whole, *others) for name in made.parts):
        assert all(name in made.parts for made in (whole, *others)), f"{name} comes and goes with x"
        values = whole.parts[name]
        assert np.array_equal(to_numpy(values), to_numpy(again.parts[name])), (
            f"the same x should give the same {name}: keep random draws from construction on"
        )
        joined = np.concatenate([to_numpy(part.parts[name]) for part in parts])
        flipped = to_numpy(turned.parts[name])[::-1]
        for other, how in ((joined, "in chunks"), (flipped, "in another order")):
            gap = float(abs(to_numpy(values) - other).max())
            assert gap <= tolerance * size, f"{name} {how} differs from {name} as a whole by {gap:g}"
    at_training = getattr(predictor, "at_training", None)  # a plain function has none
    if at_training is not None:
        with untouched(predictor):
            assert len(at_training(x)) == len(x), "at_training should return a row per point"
