"""Guarantees for whole fields: one score per field or trajectory, never one per node."""

from guardband.conformal.whole.norm import Norm
from guardband.conformal.whole.quantity import Quantity
from guardband.conformal.whole.share import Share, ShareBand
from guardband.conformal.whole.simultaneous import Simultaneous

__all__ = ["Norm", "Quantity", "Share", "ShareBand", "Simultaneous"]
