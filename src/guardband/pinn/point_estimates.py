"""Point estimates: the unknowns of a problem as a training found them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from guardband.kept import kept
from guardband.problems import Unknown

NEAR = 0.01
"""How near to an end of its range, as a share of it, an estimate says that the truth may lie outside."""


NO_COVERAGE = (
    "Found together with the field; no coverage is stated. gb.coefficients gives regions that state one."
)


@kept
@dataclass(frozen=True, eq=False, repr=False)
class PointEstimates(Mapping[str, float]):
    """Coefficients that were found together with the field, by name; no coverage is stated.

    For regions with a stated coverage see `gb.coefficients`. Print it to read it.

    >>> import guardband as gb
    >>> gb.pinn.PointEstimates({"rate": 1.2345678}, {"rate": gb.Unknown(1.0, 3.0)})
    rate = 1.235, sought between 1 and 3.
    Found together with the field; no coverage is stated. gb.coefficients gives regions that state one.
    """

    found: Mapping[str, float] = field(default_factory=dict)
    sought: Mapping[str, Unknown] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return self.found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __hash__(self) -> int:
        return hash(frozenset(self.found.items()))

    def __repr__(self) -> str:
        if not self.found:
            return "No unknown was sought: the problem had no gb.Unknown."
        lines = [
            f"{name} = {value:.4g}, sought between {self.sought[name].low:g} and {self.sought[name].high:g}."
            for name, value in self.found.items()
        ]
        lines += [
            f"The estimate of {name} is at an end of its range: the truth may lie outside."
            for name in self.found
            if self._at_an_end(name)
        ]
        return "\n".join([*lines, NO_COVERAGE])

    def _at_an_end(self, name: str) -> bool:
        low, high = self.sought[name].low, self.sought[name].high
        return min(self.found[name] - low, high - self.found[name]) < NEAR * (high - low)


NOTHING = PointEstimates()
"""What a problem without unknowns has found."""
