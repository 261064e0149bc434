"""Unknown coefficients of a problem, which training estimates together with the solution."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from numbers import Real
from typing import Any, NoReturn, TypeVar

from torch import Tensor

from guardband.base.kept import kept

P = TypeVar("P")

NO_VALUE = (
    "A pinn.Unknown has no value before training. Estimate it by pinn.fit(problem, net, data), after which "
    "`fitted.problem` has its value, or use a number instead. Compute with it only in `residual` and "
    "`conditions`, and keep each unknown in a separate field."
)


class _NoValue:
    """A base class that refuses arithmetic, with an error that explains the remedy."""

    def _refuse(self, *others: object) -> Any:
        raise TypeError(NO_VALUE)

    __add__ = _refuse
    __radd__ = _refuse
    __sub__ = _refuse
    __rsub__ = _refuse
    __mul__ = _refuse
    __rmul__ = _refuse
    __truediv__ = _refuse
    __rtruediv__ = _refuse
    __pow__ = _refuse
    __rpow__ = _refuse
    __neg__ = _refuse
    __pos__ = _refuse
    __abs__ = _refuse
    __lt__ = _refuse
    __le__ = _refuse
    __gt__ = _refuse
    __ge__ = _refuse
    __array_ufunc__ = None  # makes numpy defer to the methods above

    def __float__(self) -> float:
        return self._refuse()

    @classmethod
    def __torch_function__(cls, *_: object) -> NoReturn:
        raise TypeError(NO_VALUE)


@kept
@dataclass(frozen=True, repr=False)
class Unknown(_NoValue):
    """A coefficient between two bounds that `pinn.fit` estimates together with the field.

    Pass it instead of a number, as a field of the problem. `fitted.estimates` and `fitted.problem` then hold
    the estimated value.

    Parameters
    ----------
    low, high
        The bounds.
    start
        The initial value of the search; the midpoint of the bounds if None.

    Examples
    --------
    >>> from guardband import pinn
    >>> data = pinn.problems.Heat1D(diffusivity=0.12).observe(40, noise=0.01)
    >>> problem = pinn.problems.Heat1D(diffusivity=pinn.Unknown(0.02, 0.2))
    >>> fitted = pinn.fit(problem, pinn.mlp(problem, [8]), data, progress=False)
    >>> round(fitted.estimates["diffusivity"], 2)
    0.12
    """

    low: float
    high: float
    start: float | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high", "start"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Real) and math.isfinite(value)):
                raise ValueError(f"`{name}` of an unknown should be a finite number, got {value!r:.80}.")
        if not self.low < self.high:
            raise ValueError(
                f"An unknown should lie between two numbers, the lower one first, as in pinn.Unknown(0.02, "
                f"0.2), got {self.low:g} and {self.high:g}."
            )
        if self.start is not None and not self.low < self.start < self.high:
            raise ValueError(
                f"`start` should lie strictly between {self.low:g} and {self.high:g}, got {self.start:g}."
            )

    def __repr__(self) -> str:
        start = "" if self.start is None else f", start={self.start:g}"
        return f"Unknown({self.low:g}, {self.high:g}{start})"

    @property
    def first(self) -> float:
        """The initial value of the search."""
        return (self.low + self.high) / 2 if self.start is None else float(self.start)


def unknowns_in(problem: object) -> dict[str, Unknown]:
    """The unknowns of a problem, by the names of their fields.

    >>> from guardband import pinn
    >>> unknowns_in(pinn.problems.DampedOscillator(damping=pinn.Unknown(0.02, 0.12)))
    {'damping': Unknown(0.02, 0.12)}
    """
    return {name: value for name, value in _attributes(problem).items() if isinstance(value, Unknown)}


def check_coefficients(problem: object) -> None:
    """Refuse tensors that require gradients as coefficients, since training would not update them."""
    for name, value in _attributes(problem).items():
        if isinstance(value, Tensor) and value.requires_grad:
            raise TypeError(
                f"`{name}` of {type(problem).__name__} is a tensor that requires gradients, but `fit` does "
                f"not train it. Use {name}=pinn.Unknown(low, high) to estimate it with the field, or a "
                f"number, {name}.item()."
            )


def with_values(problem: P, values: Mapping[str, object]) -> P:
    """A copy of a problem with new coefficients: numbers, tensors, or columns (n, 1) for n points."""
    found = copy.copy(problem)
    for name, value in values.items():
        object.__setattr__(found, name, value)
    return found


def _attributes(problem: object) -> dict[str, object]:
    """The attributes of a problem, of its classes and of its fields."""
    found = {name: value for kind in reversed(type(problem).__mro__) for name, value in vars(kind).items()}
    if is_dataclass(problem):
        found |= {part.name: getattr(problem, part.name, None) for part in fields(problem)}
    return found | getattr(problem, "__dict__", {})
