"""`Share`: a band that contains a stated share of a field, narrower than one that contains the whole field.

The score of a field is the smallest multiple of the shape within which nodes of total weight 1 - gamma lie.
With probability at least the level, a new field lies in its band on at least 1 - gamma of the area.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from typing import ClassVar, Self

import numpy as np

from guardband.base.arrays import Array, ArrayLike, to_numpy
from guardband.base.kept import kept
from guardband.conformal.rank import Level, exact
from guardband.conformal.scores import Score
from guardband.conformal.whole.base import Shaped, node_weights, positive
from guardband.values import Band, Prediction
from guardband.values.bands import targets_of
from guardband.values.grids import FieldGrid

TOTAL = 2**52
"""Approximate sum of the integer weights, if they are not multiples of the smallest weight."""


@kept
@dataclass(frozen=True, eq=False, repr=False)
class Share(Shaped):
    """The error that is not exceeded on at least a share 1 - gamma of a field's area, in units of the shape.

    With probability at least `level`, a new field lies between the ends of its band on a share 1 - gamma of
    the area or more; it may leave the band on the rest. A node with several outputs is inside if all of them
    are.

    Parameters
    ----------
    gamma
        The share of the area that may lie outside the band, strictly between 0 and 1.
    shape
        Size of the errors at each node, shape (points, m) or (*grid, m), the same for every field. By default
        the predictor's scale, if it has one. It must not be computed from the calibration fields.
    weights
        Sizes of the nodes' cells; by default those of the grid, or equal weights without coordinates.
    grid
        The named axes of the fields; set by the calibration.

    Notes
    -----
    The two-level guarantee of UQNO (Ma et al. 2024), with the exact rank at both levels.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> fields = np.random.default_rng(0).normal(size=(50, 20, 1))
    >>> calibrated = gb.calibrate_arrays(0 * fields, fields, score=gb.Share(0.1))
    >>> band = calibrated.band(gb.Prediction(None, np.zeros((1, 20, 1))), level=0.9)
    >>> one_off = np.where(np.arange(20) == 7, 9.0, 0.0)[None, :, None]
    >>> band, band.contains(one_off)
    (ShareBand(level=0.9, 1 fields, gamma=0.1), array([ True]))
    """

    gamma: Level
    shape: ArrayLike = None
    weights: ArrayLike = None
    grid: FieldGrid | None = None
    follows_scale: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", _share(self.gamma))
        if self.shape is not None:
            shape = positive(self.shape, "shape", "one number per node, (points, m)")
            object.__setattr__(self, "shape", shape[:, None] if shape.ndim == 1 else shape)
        if self.weights is not None:
            object.__setattr__(self, "weights", positive(self.weights, "weights", "the size of its cell"))

    def __call__(self, prediction: Prediction, y: Array) -> np.ndarray:
        """Return the scores (n,) of fields y; a node that is NaN lies in no band."""
        each = to_numpy(self.each(prediction, y))
        nodes = each.reshape(len(each), -1, prediction.mean.shape[-1]).max(axis=-1)
        counts, needed = self._counts(prediction)
        order = np.argsort(nodes, axis=1)  # NaN comes last
        reached = np.cumsum(counts[order], axis=1) >= needed
        at = np.take_along_axis(order, reached.argmax(axis=1)[:, None], axis=1)
        scores = np.take_along_axis(nodes, at, axis=1)[:, 0]
        return np.where(np.isnan(scores), np.inf, scores)

    def band(self, prediction: Prediction, q: float | Array, level: float) -> ShareBand:
        """Return mean +- q shape, which contains the stated share of the field."""
        box = super().band(prediction, q, level)
        weights = node_weights(self.weights, self.grid, prediction)
        made = object.__new__(ShareBand)
        made.__dict__.update(vars(box), gamma=self.gamma, weights=weights)
        return made

    @property
    def plain(self) -> Score:
        """The same score with one width at all nodes."""
        return replace(self, shape=None)

    @property
    def is_box(self) -> bool:
        """False: a share of the nodes may lie outside the band."""
        return False

    @property
    def scope(self) -> str:
        """The meaning of a point, and when it counts as inside."""
        return (
            "A point here is a whole field, and it counts as inside if it lies between the ends of the band "
            f"on at least {_percent(1 - exact(self.gamma))} of its area; it may leave them on the rest."
        )

    def before(self, prediction: Prediction, level: Level) -> None:
        """Return None: a scale makes no statement about shares."""
        return None

    def remarks(self, prediction: Prediction, y: Array, q: float | Array) -> list[str]:
        """Return the share of fields that lie in the band everywhere, which is not guaranteed."""
        wholly = float(np.mean(to_numpy(super().band(prediction, q, 0.5).contains(y))))
        return [
            f"Inside means on at least {_percent(1 - exact(self.gamma))} of the area; {wholly:.3f} of these "
            "fields lie in the band everywhere, which is not promised."
        ]

    def on(self, grid: FieldGrid) -> Self:
        """Return the score for fields with these axes; the cells are the weights unless weights are given."""
        return replace(self, grid=grid)

    def __repr__(self) -> str:
        return f"Share({float(exact(self.gamma)):g})"

    def _counts(self, prediction: Prediction) -> tuple[np.ndarray, int]:
        return integer_weights(node_weights(self.weights, self.grid, prediction), self.gamma)


@dataclass(frozen=True, eq=False, repr=False)
class ShareBand(Band):
    """A band that contains a field if it lies between the ends on a share 1 - gamma of the area.

    The ends are for plots. A field inside may leave them anywhere on at most a share gamma of the area. Use
    `contains` for membership, and `share` for the share of a field between the ends.

    Parameters
    ----------
    x
        Inputs of the fields, or None.
    mean
        Predicted fields, shape (N, points, m) or (N, *grid, m).
    lower, upper
        Ends of the band, of the shape of `mean`.
    level
        Coverage of the band.
    names, grid, targets
        Names of columns, axes of the fields, and names of the targets' axes, if known.
    side
        "both", since a share has no one-sided bounds.
    gamma
        The share of the area that may lie outside.
    weights
        Weights of the nodes, or None for equal weights.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> zero = np.zeros((1, 4, 1))
    >>> band = gb.conformal.ShareBand(None, zero, zero - 1, zero + 1, level=0.9, gamma=0.25)
    >>> y = np.array([5.0, 0.0, 0.5, 0.0]).reshape(1, 4, 1)
    >>> band.share(y), band.contains(y)
    (array([0.75]), array([ True]))
    """

    gamma: Level = field(kw_only=True)
    weights: Array | None = field(default=None, kw_only=True)
    boxed: ClassVar[bool] = False

    def share(self, y: ArrayLike) -> np.ndarray:
        """Return the share of each field's area on which it lies between the ends.

        Parameters
        ----------
        y
            Fields, of the shape of `mean`.

        Returns
        -------
        np.ndarray
            Shares, shape (N,).
        """
        inside, counts, _ = self._inside(y)
        return inside @ counts / counts.sum()

    def contains(self, y: Array) -> np.ndarray:
        """Return which fields lie between the ends on the required share of the area: booleans (N,)."""
        inside, counts, needed = self._inside(y)
        return inside @ counts >= needed

    def _inside(self, y: ArrayLike) -> tuple[np.ndarray, np.ndarray, int]:
        y = targets_of(self, y)
        if y.shape != self.mean.shape:
            raise ValueError(
                f"`y` should have the shape of the band, {tuple(self.mean.shape)}, got {tuple(y.shape)}."
            )
        inside = to_numpy((self.lower <= y) & (y <= self.upper))
        nodes = np.asarray(inside.reshape(len(inside), -1, inside.shape[-1]).all(axis=-1), dtype=np.int64)
        weights = np.ones(len(nodes.T)) if self.weights is None else np.asarray(self.weights, dtype=float)
        counts, needed = integer_weights(weights.reshape(-1), self.gamma)
        return nodes, counts, needed

    def __repr__(self) -> str:
        head = super().__repr__()[len("Band(") : -1].replace("points", "fields")
        return f"ShareBand({head}, gamma={float(exact(self.gamma)):g})"


def integer_weights(weights: np.ndarray, gamma: Level) -> tuple[np.ndarray, int]:
    """Weights as integers, and the weight of a share 1 - gamma, so that rounding decides nothing.

    Weights that are multiples of the smallest one, such as the cells of a regular grid, become these
    multiples. Other weights are rounded to about sixteen digits of their sum.
    """
    multiples = weights / weights.min()
    whole = np.rint(multiples)
    near = abs(multiples - whole) <= 1e-9 * whole
    regular = bool(near.all()) and whole.sum() < TOTAL
    counts = (whole if regular else np.rint(weights * (TOTAL / weights.sum()))).astype(np.int64)
    return counts, ceil((1 - exact(gamma)) * int(counts.sum()))


def _share(gamma: Level) -> Fraction:
    if isinstance(gamma, int | float) and gamma == 0:
        raise ValueError(
            "`gamma` should be more than 0, got 0. With no share outside it is gb.Simultaneous()."
        )
    return exact(gamma, "gamma")


def _percent(share: Fraction) -> str:
    return f"{float(100 * share):g} %"
