"""Observations: points and the values measured there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from guardband.base.arrays import Array, finite, refuse_other_length, rows, to_numpy
from guardband.base.kept import kept
from guardband.values.frames import Columns, is_frame, only_numbers
from guardband.values.labeled import opened, refuse_unpaired


@kept
@dataclass(frozen=True, eq=False)
class Observations:
    """Measured values at points.

    Observations unpack as `x, y = observations`.

    Parameters
    ----------
    x
        Points, shape (n, d), or a numeric DataFrame.
    y
        Measured values, shape (n, m).
    names
        Names of the columns of x, taken from a DataFrame by default.
    outputs
        Names of the columns of y, required if only some outputs of a problem were measured.

    Examples
    --------
    >>> import guardband as gb
    >>> data = gb.Observations([0.0, 0.5, 1.0], [1.0, 0.2, 0.1])
    >>> data.x.shape, data.y.shape, len(data)
    ((3, 1), (3, 1), 3)
    >>> gb.Observations([[0.0, 0.5]], [[1.0, 0.2]], outputs=("u", "v"))
    Observations(1 points, x (1, 2), y (1, 2) of u, v)
    """

    x: Array
    y: Array
    names: tuple[str | int, ...] | None = None
    outputs: Sequence[str] | None = None

    def __post_init__(self) -> None:
        refuse_unpaired(x=self.x, y=self.y)
        # Fields are set through `vars`, since the class is frozen.
        if is_frame(self.x):
            vars(self).update(names=Columns.of(self.x).names, x=only_numbers(self.x, "gb.Observations"))
        x, axes = opened(self.x, "x")
        if axes is not None and axes.words is not None and self.names is None:
            vars(self).update(names=axes.words)
        y, measured = opened(self.y, "y")
        if measured is not None and measured.words is not None and len(measured.words) > 1:
            self._take_outputs(measured.words)
        vars(self).update(x=finite(rows(x, "x"), "x"), y=finite(rows(y, "y"), "y"))
        refuse_other_length("x", self.x, "y", self.y)
        if self.outputs is not None:
            names = (self.outputs,) if isinstance(self.outputs, str | int) else tuple(self.outputs)
            vars(self).update(outputs=names)
            if not all(isinstance(name, str) for name in names):
                raise TypeError(f'`outputs` should be names, such as ("u", "p"), got {self.outputs!r:.80}.')
            if len({*names}) != self.y.shape[-1] or len(names) != self.y.shape[-1]:
                listed = ", ".join(map(str, names))
                raise ValueError(f"`outputs` should name the {self.y.shape[-1]} columns of y, got {listed}.")

    def _take_outputs(self, names: tuple[str | int, ...]) -> None:
        """Take the names of outputs from the columns of y; `outputs` may repeat them but not differ."""
        given = names if self.outputs is None else tuple(self.outputs)
        if given != names:
            raise ValueError(
                f"`outputs` should match the columns of y, {', '.join(map(str, names))}, in this order, got "
                f"{', '.join(map(str, given))}."
            )
        vars(self).update(outputs=names)

    @classmethod
    def together(cls, sets: Sequence[Observations], outputs: Sequence[str]) -> Observations:
        """Concatenate observations of different outputs; values that were not measured are NaN.

        Parameters
        ----------
        sets
            The observations, each with the names of its outputs.
        outputs
            Names of all outputs, in the order of the columns of the result.

        Returns
        -------
        Observations
            One row per point, with y of shape (n, len(outputs)).

        Examples
        --------
        >>> import guardband as gb
        >>> velocity = gb.Observations([0.0, 1.0], [3.0, 4.0], outputs="u")
        >>> pressure = gb.Observations([0.5], [9.0], outputs="p")
        >>> gb.Observations.together([velocity, pressure], ("u", "p")).y.tolist()
        [[3.0, nan], [4.0, nan], [nan, 9.0]]
        """
        tables = []
        for one in sets:
            names = tuple(one.outputs or outputs)
            unknown = [name for name in names if name not in outputs]
            if unknown or len(names) != one.y.shape[-1]:
                raise ValueError(
                    f"These observations have {one.y.shape[-1]} columns of y"
                    f"{' (' + ', '.join(names) + ')' if one.outputs else ''}, but the outputs are "
                    f"{', '.join(outputs)}. Name those measured: gb.Observations(x, y, outputs=...)."
                )
            table = np.full((len(one), len(outputs)), np.nan)
            table[:, [list(outputs).index(name) for name in names]] = to_numpy(one.y)
            tables.append(table)
        widths = {one.x.shape[1:] for one in sets}
        if len(widths) != 1:
            raise ValueError(f"All observations should have the same coordinates, got shapes {widths}.")
        whole = object.__new__(cls)
        vars(whole).update(x=np.concatenate([to_numpy(one.x) for one in sets]), y=np.concatenate(tables))
        vars(whole).update(names=None, outputs=tuple(outputs))
        return whole

    def on_axes(self, axes: Sequence[str | int]) -> Observations:
        """Reorder the columns of x to match the axes of a problem.

        Parameters
        ----------
        axes
            Names of the axes. Columns with other names are refused; columns without names stay as they are.

        Returns
        -------
        Observations
            The observations with the columns of x in this order.

        Examples
        --------
        >>> import guardband as gb
        >>> data = gb.Observations([[0.1, 5.0]], [1.0], names=("x", "t"))
        >>> data.on_axes(("t", "x")).x.tolist()
        [[5.0, 0.1]]
        """
        if self.names is None or self.names == tuple(axes):
            return self
        if {*self.names} != {*axes}:
            raise ValueError(
                f"The columns of the readings are {', '.join(map(str, self.names))}, but the axes of the "
                f"problem are {', '.join(map(str, axes))}. Rename them, or pass an array with its columns in "
                "that order."
            )
        order = [self.names.index(axis) for axis in axes]
        return replace(self, x=self.x[:, order], names=tuple(axes))

    def __len__(self) -> int:
        return len(self.x)

    def __iter__(self) -> Iterator[Array]:
        """Unpack as `x, y = observations`."""
        return iter((self.x, self.y))

    def __repr__(self) -> str:
        of = "" if self.outputs is None else f" of {', '.join(self.outputs)}"
        return f"Observations({len(self)} points, x {tuple(self.x.shape)}, y {tuple(self.y.shape)}{of})"
