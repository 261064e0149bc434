"""Simultaneous: one band that holds a whole curve or field at once.

What is exchangeable then is fields, not points: a surrogate over many inputs, repeated experiments. One score
per field, the largest miss over its nodes, in units of a shape that says where misses are large. One network
of one equation gives one field, and no number of its points makes a second one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from guardband.base.arrays import ArrayLike, finite, floats, to_numpy
from guardband.base.kept import kept
from guardband.conformal.scores import Score
from guardband.conformal.whole.base import Shaped, positive
from guardband.values.grids import FieldGrid


def _made(parts: dict[str, Any]) -> Simultaneous:
    """Of files from before a scale could be the shape, it was none."""
    return Simultaneous(**{"follows_scale": False, **parts})


@kept(made=_made)
@dataclass(frozen=True, eq=False, repr=False)
class Simultaneous(Shaped):
    """The largest miss over all nodes and outputs of a field, for predictions (N, points, m).

    With `calibrate(..., score=Simultaneous())` a new field lies in its band everywhere, all nodes at once,
    with probability at least `level`. The predictor's scale, if it has one, makes the band wide where and
    when misses are large; a `shape` (points, m) > 0, the same for every field, wins over it. Either must come
    from elsewhere than the calibration fields: `Simultaneous.fitted(residuals)`.

    >>> import numpy as np
    >>> import guardband as gb
    >>> # 50 fields with 20 nodes each
    >>> fields = np.random.default_rng(0).normal(size=(50, 20, 1))
    >>> calibrated = gb.calibrate_arrays(0 * fields, fields, score=gb.Simultaneous())
    >>> band = calibrated.band(gb.Prediction(None, np.zeros((1, 20, 1))), level=0.9)
    >>> band.contains(np.full((1, 20, 1), 2.0))
    array([ True])
    """

    shape: ArrayLike = None
    grid: FieldGrid | None = None
    follows_scale: bool = True

    def __post_init__(self) -> None:
        if self.shape is None:
            return
        shape = positive(self.shape, "shape", "one number per node, (points, m)")
        object.__setattr__(self, "shape", shape[:, None] if shape.ndim == 1 else shape)

    @classmethod
    def fitted(cls, residuals: ArrayLike) -> Simultaneous:
        """The shape of the root mean square of residual fields (N, points, m), training fields for instance.

        Nowhere less than a hundredth of its largest value, so that no node claims to be certain.
        """
        fields = to_numpy(finite(floats(residuals, "residuals"), "residuals"))
        if fields.ndim < 3 or len(fields) < 2:
            raise ValueError(f"`residuals` should be two fields or more, (N, points, m), got {fields.shape}.")
        shape = np.sqrt(np.mean(fields.astype(float) ** 2, axis=0))
        return cls(np.maximum(shape, 1e-2 * shape.max()))

    @property
    def plain(self) -> Score:
        """One width at all nodes."""
        return Simultaneous(grid=self.grid)

    @property
    def scope(self) -> str:
        """Of what a point is here."""
        return "A point here is a whole field, and it lies in the band at all its nodes at once."

    def on(self, grid: FieldGrid) -> Self:
        """For fields with these axes."""
        return replace(self, grid=grid)

    def __repr__(self) -> str:
        return "Simultaneous()" if self.shape is None else f"Simultaneous(shape {self.shape.shape})"
