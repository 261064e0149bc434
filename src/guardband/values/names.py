"""Names: what axes and outputs are called."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from guardband.base.kept import kept


@kept
@dataclass(frozen=True)
class Names:
    """What the axes and the outputs of a field are called, and which axes are space.

    >>> from guardband import pinn
    >>> pinn.problems.Names.numbered(("x", "t"), 3)
    Names(axes=('x', 't'), outputs=('u0', 'u1', 'u2'), space=(0, 1))
    """

    axes: tuple[str, ...]
    outputs: tuple[str, ...]
    space: tuple[int, ...] = ()

    @classmethod
    def given(cls, names: Names | Sequence[str], d: int | None, m: int) -> Names:
        """Names for arrays of d columns and m outputs: themselves, or names of columns of x alone.

        >>> Names.given(["depth", "time"], 2, 1)
        Names(axes=('depth', 'time'), outputs=('y',), space=())
        """
        if isinstance(names, str):
            raise TypeError(f"`names` should be a list of names, one for each column of x, got {names!r}.")
        if not isinstance(names, Names):
            names = cls(tuple(names), ("y",) if m == 1 else tuple(f"y{j}" for j in range(m)))
        for what, said, count in (("columns of x", names.axes, d), ("outputs", names.outputs, m)):
            if not all(isinstance(name, str) for name in said) or len(set(said)) < len(said):
                raise ValueError(f"`names` should be different words for the {what}, got {said!r}.")
            if count is not None and len(said) != count:
                raise ValueError(
                    f"`names` should name the {count} {what}, got {len(said)}: {', '.join(said)}."
                )
        return names

    @classmethod
    def numbered(cls, axes: tuple[str, ...], m: int) -> Names:
        """The names of a field whose outputs have none."""
        return cls(axes, output_names(m), tuple(range(len(axes))))

    def positions(self, outputs: str | int | Sequence[str | int]) -> tuple[int, ...]:
        """The numbers of outputs that are called by name, or by number.

        >>> from guardband import pinn
        >>> pinn.problems.Names(("x",), ("u", "v", "p"), (0,)).positions(("p", 0))
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
