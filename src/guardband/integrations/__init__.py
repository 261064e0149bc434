"""Integrations: bands where people already work. One file for each place, imported when it is asked for.

`adapters` bring models of other libraries in; what is here takes bands out: `sklearn.py` an estimator like
any other.
"""

from typing import TYPE_CHECKING

from guardband.lazy import names as _names

if TYPE_CHECKING:
    from guardband.integrations import sklearn as sklearn
else:
    __getattr__, __dir__ = _names(__name__, {"guardband.integrations": "sklearn"})

del TYPE_CHECKING
