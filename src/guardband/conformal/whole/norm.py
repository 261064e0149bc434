"""`Norm`: all fields within a radius of the prediction in the L2 or H1 norm.

The set is a ball and not a band: a field in it may deviate strongly at a few nodes if it is close on average.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Self

import numpy as np

from guardband.base.arrays import Array, ArrayLike, to_numpy
from guardband.base.kept import kept
from guardband.conformal.rank import Level
from guardband.conformal.scores import Score
from guardband.conformal.whole.base import node_weights, positive, refuse_points, same_shape
from guardband.values import NormBand, Prediction
from guardband.values.grids import FieldGrid


@kept
@dataclass(frozen=True, eq=False, repr=False)
class Norm(Score):
    """The L2 or H1 norm of the error of a field, over all outputs; the set is a ball, a `NormBand`.

    Parameters
    ----------
    kind
        "L2", the root of the sum over nodes of weight times squared error, or "H1", which adds the squared
        derivatives along all axes except time. H1 requires a `gb.Fields` with regular `coordinates`.
    weights
        Sizes of the nodes' cells; by default those of the grid. Without coordinates all nodes have the same
        weight and the weights sum to 1, which gives the root mean square.
    grid
        The named axes of the fields; set by the calibration.

    Notes
    -----
    Derivatives are central differences of second order, one-sided at ends that are not periodic. If the
    predictor has a scale, the radius is proportional to the L2 norm of the scale.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> fields = np.random.default_rng(0).normal(size=(50, 20, 1))
    >>> calibrated = gb.calibrate_arrays(0 * fields, fields, score=gb.Norm("L2"))
    >>> ball = calibrated.band(gb.Prediction(None, np.zeros((1, 20, 1))), level=0.9)
    >>> one_off = np.where(np.arange(20) == 7, 5.0, 0.0)[None, :, None]
    >>> ball.radius.round(2), ball.contains(one_off)
    (array([1.13]), array([ True]))
    """

    kind: Literal["L2", "H1"] = "L2"
    weights: ArrayLike = None
    grid: FieldGrid | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("L2", "H1"):
            raise ValueError(f"`kind` should be 'L2' or 'H1', got {self.kind!r}.")
        if self.weights is not None:
            object.__setattr__(self, "weights", positive(self.weights, "weights", "the size of its cell"))

    def __call__(self, prediction: Prediction, y: Array) -> np.ndarray:
        """Return the scores (n,) of fields y."""
        same_shape(prediction, y)
        norm, size = self._norm(prediction)(y - prediction.mean), self._size(prediction)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(norm == 0, 0.0, norm / size)  # NaN remains NaN, which is in no set

    def band(self, prediction: Prediction, q: float | Array, level: float) -> NormBand:
        """Return the ball of radius q, times the norm of the scale if any, rounded up by a few ulp."""
        q = np.broadcast_to(np.asarray(to_numpy(q), dtype=float), (len(prediction),))
        with np.errstate(invalid="ignore"):
            radius = np.where(np.isinf(q), np.inf, q * self._size(prediction) * (1 + 4 * np.finfo(float).eps))
        return NormBand(prediction.x, prediction.mean, radius, self._norm(prediction), level, self.grid)

    @property
    def plain(self) -> Score:
        """The same score: one radius for all fields."""
        return self

    @property
    def scope(self) -> str:
        """The meaning of a point, and the difference between a ball and a band."""
        return (
            f"A point here is a whole field, and it lies in a ball around the prediction in the {self.kind} "
            "norm: near on the whole, and not within a stated distance at any single node."
        )

    def before(self, prediction: Prediction, level: Level) -> None:
        """Return None: a scale at nodes defines no norm ball."""
        return None

    def remarks(self, prediction: Prediction, y: Array, q: float | Array) -> list[str]:
        """Return how many fields would lie in the ball read as a pointwise band, which it is not."""
        ball = self.band(prediction, q, 0.5)
        total = node_weights(self.weights, self.grid, prediction).sum() if self._has_weights else 1.0
        largest = abs(to_numpy(y - prediction.mean)).reshape(len(y), -1).max(axis=1)
        within = float(np.mean(largest <= ball.radius / np.sqrt(total)))
        return [
            "A ball is not a band. Read as one, mean +- its root mean square at every node, it would hold "
            f"{within:.3f} of these fields."
        ]

    def on(self, grid: FieldGrid) -> Self:
        """Return the score for fields with these axes; the cells are the weights unless weights are given."""
        return replace(self, grid=grid)

    def __repr__(self) -> str:
        return f"Norm({self.kind!r})"

    @property
    def _has_weights(self) -> bool:
        return self.weights is not None or (self.grid is not None and bool(self.grid.coordinates))

    def _norm(self, prediction: Prediction, kind: str | None = None) -> partial[np.ndarray]:
        """The norm as a function of differences."""
        refuse_points(prediction, self.grid)
        weights = node_weights(self.weights, self.grid, prediction)
        weights = weights if self._has_weights else weights / weights.sum()
        kind = kind or self.kind
        if kind == "H1" and self.grid is None:
            raise ValueError(
                "The H1 norm needs the coordinates of the nodes. Name the axes and give coordinates: "
                'y_cal=gb.Fields(values, dims=("x",), coordinates={"x": places}).'
            )
        return partial(norm_of, weights=weights, grid=self.grid if kind == "H1" else None)

    def _size(self, prediction: Prediction) -> np.ndarray | float:
        return 1.0 if prediction.scale is None else self._norm(prediction, "L2")(prediction.scale)


def norm_of(difference: Array, *, weights: np.ndarray, grid: FieldGrid | None) -> np.ndarray:
    """The L2 norm (n,) of fields; with a grid the H1 norm, by differences along its spatial axes."""
    values = np.asarray(to_numpy(difference), dtype=float)
    parts = [values] + ([] if grid is None else [grid.gradient(values, axis) for axis in grid.space])
    squares = sum(np.square(part).reshape(len(part), len(weights), -1).sum(axis=-1) for part in parts)
    # not a matrix product: its last bits can depend on the other rows
    return np.sqrt((squares * weights).sum(axis=-1))
