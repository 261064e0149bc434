"""Names of axes and outputs, and how they are printed and drawn."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from guardband.base.kept import kept
from guardband.base.limits import NAME, printable


@kept
@dataclass(frozen=True)
class Names:
    """Names of the axes and outputs of a field.

    Parameters
    ----------
    axes
        Names of the axes, one for each column of x.
    outputs
        Names of the outputs.
    space
        Indices of the axes that are space.

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.problems.Names.numbered(("x", "t"), 3)
    Names(axes=('x', 't'), outputs=('u0', 'u1', 'u2'), space=(0, 1))
    """

    axes: tuple[str, ...]
    outputs: tuple[str, ...]
    space: tuple[int, ...] = ()

    @classmethod
    def given(cls, names: Names | Sequence[str], d: int | None, m: int) -> Names:
        """Return validated names for arrays with d columns and m outputs.

        Parameters
        ----------
        names
            `Names`, or only the names of the columns of x.
        d
            Number of columns of x, or None to skip this check.
        m
            Number of outputs.

        Returns
        -------
        Names
            The names of axes and outputs.

        Examples
        --------
        >>> Names.given(["depth", "time"], 2, 1)
        Names(axes=('depth', 'time'), outputs=('y',), space=())
        """
        if isinstance(names, str):
            raise TypeError(f"`names` should be a list of names, one for each column of x, got {names!r}.")
        if not isinstance(names, Names):
            names = cls(tuple(names), ("y",) if m == 1 else tuple(f"y{j}" for j in range(m)))
        for what, given, count in (("columns of x", names.axes, d), ("outputs", names.outputs, m)):
            if not all(isinstance(name, str) for name in given) or len(set(given)) < len(given):
                raise ValueError(f"`names` should be different strings for the {what}, got {given!r}.")
            if count is not None and len(given) != count:
                raise ValueError(
                    f"`names` should name the {count} {what}, got {len(given)}: {', '.join(given)}."
                )
        return names

    @classmethod
    def numbered(cls, axes: tuple[str, ...], m: int) -> Names:
        """Return names for a field whose outputs have no names: u, or u0, u1, ...

        Parameters
        ----------
        axes
            Names of the axes, all of them space.
        m
            Number of outputs.

        Returns
        -------
        Names
            The names of axes and outputs.
        """
        return cls(axes, output_names(m), tuple(range(len(axes))))

    def positions(self, outputs: str | int | Sequence[str | int]) -> tuple[int, ...]:
        """Return the indices of outputs.

        Parameters
        ----------
        outputs
            Names or indices of outputs.

        Returns
        -------
        tuple of int
            Their indices.

        Examples
        --------
        >>> from guardband import pinn
        >>> pinn.problems.Names(("x",), ("u", "v", "p"), (0,)).positions(("p", 0))
        (2, 0)
        """
        wanted = (outputs,) if isinstance(outputs, str | int) else tuple(outputs)
        return tuple(position(one, self.outputs, "output") for one in wanted)


def position(wanted: str | int, names: Sequence[str], what: str) -> int:
    """The index of an item given by its name or its index, which may be negative.

    >>> position("t", ("x", "t"), "axis"), position(-1, ("x", "t"), "axis")
    (1, 1)
    """
    if isinstance(wanted, str) and wanted in names:
        return list(names).index(wanted)
    if not isinstance(wanted, str) and -len(names) <= operator.index(wanted) < len(names):
        return operator.index(wanted) % len(names)
    several = "axes" if what == "axis" else f"{what}s"
    raise ValueError(
        f"Unknown {what} {wanted!r}. The {several} are {', '.join(names)}, or 0 to {len(names) - 1}."
    )


def output_names(m: int) -> tuple[str, ...]:
    """The default names of m outputs: u, or u0, u1, ..."""
    return ("u",) if m == 1 else tuple(f"u{j}" for j in range(m))


def axis_words(names: Names | None, otherwise: Sequence[str]) -> list[str]:
    """The names of the first axes for a plot, or the given ones if axes have no names."""
    return list(otherwise) if names is None else [word(axis) for axis in names.axes[: len(otherwise)]]


def word(name: str) -> str:
    r"""A name as a label for matplotlib, with dollar signs escaped so that they do not start a formula.

    >>> print(word("cost in $"))
    cost in \$
    """
    return printed(name).replace("$", "\\$")


def output_words(names: Names | None) -> tuple[str, ...]:
    """The names of the outputs for printing, or () if outputs have no names."""
    return () if names is None else tuple(printed(output) for output in names.outputs)


def printed(name: str) -> str:
    """A name, truncated, without characters that would move the cursor."""
    return printable(name[:NAME])
