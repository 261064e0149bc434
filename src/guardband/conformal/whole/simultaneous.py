"""`Simultaneous`: one band that contains a whole curve or field.

The exchangeable units are fields, not points: the outputs of a surrogate for many inputs, or repeated
experiments. The score of a field is its largest error over all nodes, in units of a shape that describes
where errors are large. A network for a single equation gives one field, whatever the number of its points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from guardband.base.arrays import ArrayLike, finite, floats, to_numpy
from guardband.base.kept import kept
from guardband.conformal.scores import Score
from guardband.conformal.whole.base import Shaped, positive
from guardband.values.grids import FieldGrid


# Older files lack `follows_scale`, which was False.
@kept(made=lambda parts: Simultaneous(**{"follows_scale": False, **parts}))
@dataclass(frozen=True, eq=False, repr=False)
class Simultaneous(Shaped):
    """The largest error over all nodes and outputs of a field, for predictions (N, points, m).

    With `calibrate(..., score=Simultaneous())` a new field lies in its band at all nodes simultaneously, with
    probability at least `level`.

    Parameters
    ----------
    shape
        Size of the errors at each node, > 0, shape (points, m) or (*grid, m), the same for every field. It
        must not be computed from the calibration fields; see `Simultaneous.fitted`.
    grid
        The named axes of the fields; set by the calibration.
    follows_scale
        Whether the predictor's scale is the shape if no `shape` is given.

    Examples
    --------
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
        """Return the score whose shape is the root mean square of residual fields.

        The shape is at least a hundredth of its largest value everywhere, so no node is treated as certain.

        Parameters
        ----------
        residuals
            Residual fields, shape (N, points, m), for example of training fields; never of calibration
            fields.

        Returns
        -------
        Simultaneous
            The score.
        """
        fields = to_numpy(finite(floats(residuals, "residuals"), "residuals"))
        if fields.ndim < 3 or len(fields) < 2:
            raise ValueError(f"`residuals` should be two fields or more, (N, points, m), got {fields.shape}.")
        shape = np.sqrt(np.mean(fields.astype(float) ** 2, axis=0))
        return cls(np.maximum(shape, 1e-2 * shape.max()))

    @property
    def plain(self) -> Score:
        """The same score with one width at all nodes."""
        return Simultaneous(grid=self.grid)

    @property
    def scope(self) -> str:
        """The meaning of a point."""
        return "A point here is a whole field, and it lies in the band at all its nodes at once."

    def on(self, grid: FieldGrid) -> Self:
        """Return the score for fields with these axes."""
        return replace(self, grid=grid)

    def __repr__(self) -> str:
        return "Simultaneous()" if self.shape is None else f"Simultaneous(shape {self.shape.shape})"
