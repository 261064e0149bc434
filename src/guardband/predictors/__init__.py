"""How sure: predictors say what they believe and where they are unsure. All are fixed functions of x."""

from guardband.predictors.constant import Constant
from guardband.predictors.given import Given

__all__ = ["Constant", "Given"]
