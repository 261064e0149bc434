"""A check of predictors: fixed functions of x without side effects."""

from __future__ import annotations

import numpy as np

from guardband.base.arrays import Array, to_numpy
from guardband.testing.traces import untouched
from guardband.values import Prediction, Predictor


def check_predictor(predictor: Predictor, x: Array, *, tolerance: float = 1e-5) -> None:
    """Check that a predictor is a fixed function of x without side effects.

    Results must not depend on the other points, their order, or global state, and must follow the kind and
    dtype of x.

    Parameters
    ----------
    predictor
        The predictor to check.
    x
        A few dozen typical points, shape (n, d).
    tolerance
        The allowed difference between batches, relative to the largest mean or scale. Matrix products
        round differently in batches of different sizes.

    Raises
    ------
    AssertionError
        If a property does not hold.

    Examples
    --------
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
        reversed_ = predictor(x[list(reversed(range(len(x))))])
    assert np.array_equal(to_numpy(x), before), "the points x were changed by the call"
    assert isinstance(whole, Prediction), f"it should return a Prediction, got {type(whole).__name__}"
    assert len(whole) == len(x), f"it should return a row per point, got {len(whole)} for {len(x)}"
    assert isinstance(whole.mean, type(x)), (
        f"it should return the kind of array it receives, {type(x).__name__}, got {type(whole.mean).__name__}"
    )
    assert whole.mean.dtype == x.dtype, f"the dtype should follow x, {x.dtype}, got {whole.mean.dtype}"
    size = max(float(abs(to_numpy(values)).max()) for values in whole.parts.values())
    results = (whole, again, *parts, reversed_)
    for name in dict.fromkeys(name for result in results for name in result.parts):
        assert all(name in result.parts for result in results), f"the presence of {name} depends on x"
        values = whole.parts[name]
        assert np.array_equal(to_numpy(values), to_numpy(again.parts[name])), (
            f"the same x should give the same {name}: draw random numbers once, at construction"
        )
        joined = np.concatenate([to_numpy(part.parts[name]) for part in parts])
        flipped = to_numpy(reversed_.parts[name])[::-1]
        for other, how in ((joined, "in chunks"), (flipped, "in another order")):
            gap = float(abs(to_numpy(values) - other).max())
            assert gap <= tolerance * size, f"{name} {how} differs from {name} as a whole by {gap:g}"
    at_training = getattr(predictor, "at_training", None)  # a plain function has none
    if at_training is not None:
        with untouched(predictor):
            assert len(at_training(x)) == len(x), "at_training should return a row per point"
