"""The root mean square error of whole fields, written outside of the package.

The set is a ball: all fields whose distance to the mean is at most the threshold. The calibrator's promise
is about whole fields; at a single node, a field in the ball may have any value.
"""

from dataclasses import dataclass
from typing import Any

import guardband as gb


def root_mean_square(difference: Any) -> Any:
    """Return the norm (N,) of fields (N, nodes, m)."""
    return (difference**2).mean((1, 2)) ** 0.5


@gb.kept
@dataclass(frozen=True, repr=False)
class FieldNorm(gb.conformal.Score):
    """The root mean square over the nodes and outputs of a field, for predictions (N, nodes, m)."""

    def __call__(self, prediction: gb.Prediction, y: Any) -> Any:
        if prediction.mean.ndim != 3:
            raise ValueError(
                f"FieldNorm() is about whole fields (N, nodes, m), got {tuple(prediction.mean.shape)}."
            )
        return root_mean_square(y - prediction.mean)

    def band(self, prediction: gb.Prediction, q: Any, level: float) -> gb.values.NormBand:
        return gb.values.NormBand(prediction.x, prediction.mean, q, root_mean_square, level)
