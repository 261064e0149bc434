"""Names: what axes and outputs are called."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from guardband.kept import kept


@kept
@dataclass(frozen=True)
class Names:
    """What the axes and the outputs of a field are called, and which axes are space.

    >>> import guardband as gb
    >>> gb.problems.Names.numbered(("x", "t"), 3)
    Names(axes=('x', 't'), outputs=('u0', 'u1', 'u2'), space=(0, 1))
    """

    axes: tuple[str, ...]
    outputs: tuple[str, ...]
    space: tuple[int, ...]

    @classmethod
    def numbered(cls, axes: tuple[str, ...], m: int) -> Names:
        """The names of a field whose outputs have none."""
        return cls(axes, output_names(m), tuple(range(len(axes))))

    def positions(self, outputs: str | int | Sequence[str | int]) -> tuple[int, ...]:
        """The numbers of outputs that are called by name, or by number.

        >>> import guardband as gb
        >>> gb.problems.Names(("x",), ("u", "v", "p"), (0,)).positions(("p", 0))
        (2, 0)
        """
        wanted = (outputs,) if isinstance(outputs, str | int) else tuple(outputs)
        return tuple(position(one, self.outputs, "output") for one in wanted)


def position(wanted: str | int, names: Sequence[str], what: str) -> int:
    """Where something stands that is called by its name or by its number, from either end.

    >>> position("t", ("x", "t"), "axis"), position(-1, ("x", "t"), "axis")
    (1, 1)
    """
    if isinstance(wanted, str) and wanted in names:
        return list(names).index(wanted)
    if not isinstance(wanted, str) and -len(names) <= operator.index(wanted) < len(names):
        return operator.index(wanted) % len(names)
    several = "axes" if what == "axis" else f"{what}s"
    raise ValueError(
        f"There is no {what} {wanted!r}: the {several} are {', '.join(names)}, or 0 to {len(names) - 1}."
    )


def output_names(m: int) -> tuple[str, ...]:
    """u; where there are several outputs u0, u1, ..."""
    return ("u",) if m == 1 else tuple(f"u{j}" for j in range(m))
