"""Simultaneous: one band that holds a whole curve or field at once.

What is exchangeable then is fields, not points: a surrogate over many inputs, repeated experiments. One score
per field, the largest miss over its nodes, in units of a shape that says where misses are large. One network
of one equation gives one field, and no number of its points makes a second one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from guardband.arrays import Array, ArrayLike, finite, floats, like, to_numpy
from guardband.conformal.scores import Symmetric
from guardband.kept import kept
from guardband.values import Prediction


@kept
@dataclass(frozen=True, eq=False, repr=False)
class Simultaneous(Symmetric):
    """The largest miss over all nodes and outputs of a field, for predictions (N, points, m).

    With `calibrate(..., score=Simultaneous())` a new field lies in its band everywhere, all nodes at once,
    with probability at least `level`. `shape` (points, m) > 0 makes the band wide where misses are large; it
    must come from elsewhere than the calibration fields: `Simultaneous.fitted(residuals)`.

    >>> import numpy as np
    >>> import guardband as gb
    >>> fields = np.random.default_rng(0).normal(size=(50, 20, 1))  # 50 fields with 20 nodes each
    >>> calibrated = gb.calibrate_arrays(0 * fields, fields, score=gb.Simultaneous())
    >>> band = calibrated.band(gb.Prediction(None, np.zeros((1, 20, 1))), level=0.9)
    >>> band.contains(np.full((1, 20, 1), 2.0))
    array([ True])
    """

    shape: ArrayLike = None

    def __post_init__(self) -> None:
        if self.shape is None:
            return
        shape = to_numpy(finite(floats(self.shape, "shape"), "shape"))
        if shape.ndim == 1:
            shape = shape[:, None]
        if shape.ndim != 2:
            raise ValueError(f"`shape` should be (points, m), one number per node, got shape {shape.shape}.")
        if not (shape > 0).all():
            raise ValueError(f"`shape` should be positive at every node, got {shape.min():g} at one.")
        object.__setattr__(self, "shape", shape)

    @classmethod
    def fitted(cls, residuals: ArrayLike) -> Simultaneous:
        """The shape of the root mean square of residual fields (N, points, m), training fields for instance.

        Nowhere less than a hundredth of its largest value, so that no node claims to be certain.
        """
        fields = to_numpy(finite(floats(residuals, "residuals"), "residuals"))
        if fields.ndim != 3 or len(fields) < 2:
            raise ValueError(f"`residuals` should be two fields or more, (N, points, m), got {fields.shape}.")
        shape = np.sqrt(np.mean(fields.astype(float) ** 2, axis=0))
        return cls(np.maximum(shape, 1e-2 * shape.max()))

    def __repr__(self) -> str:
        return "Simultaneous()" if self.shape is None else f"Simultaneous(shape {self.shape.shape})"

    def unit(self, prediction: Prediction) -> Array | float:
        """The shape, the same for every field."""
        if prediction.mean.ndim != 3:
            raise ValueError(
                "A simultaneous band is about whole fields, (N, points, m), drawn alike; these are points, "
                f"{tuple(prediction.mean.shape)}. One network of one equation has no second field to learn "
                "from: predict for many inputs, coefficients or experiments."
            )
        if self.shape is None:
            return 1.0
        if self.shape.shape != tuple(prediction.mean.shape[1:]):
            raise ValueError(
                f"`shape` should fit the fields, {tuple(prediction.mean.shape[1:])}, got {self.shape.shape}."
            )
        return like(prediction.mean, np.broadcast_to(self.shape, prediction.mean.shape).copy())
