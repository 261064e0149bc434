"""Observations: points and what was measured there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from guardband.base.arrays import Array, finite, rows, to_numpy
from guardband.base.kept import kept
from guardband.values.frames import Columns, is_frame, only_numbers
from guardband.values.labeled import opened, refuse_unpaired
from guardband.values.parts import same_length, set_parts


@kept
@dataclass(frozen=True, eq=False)
class Observations:
    """Points x (n, d) and what was measured there, y (n, m); of a DataFrame x the `names` of its columns too.

    `outputs` names the columns of y where not all outputs of a problem were measured.

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
        if is_frame(self.x):
            set_parts(self, names=Columns.of(self.x).names, x=only_numbers(self.x, "gb.Observations"))
        x, axes = opened(self.x, "x")
        if axes is not None and axes.words is not None and self.names is None:
            set_parts(self, names=axes.words)
        y, measured = opened(self.y, "y")
        if measured is not None and measured.words is not None and len(measured.words) > 1:
            self._refuse_other_outputs(measured.words)
        set_parts(self, x=x, y=y)
        set_parts(self, x=finite(rows(self.x, "x"), "x"), y=finite(rows(self.y, "y"), "y"))
        same_length("x", self.x, "y", self.y)
        if self.outputs is not None:
            words = (self.outputs,) if isinstance(self.outputs, str | int) else tuple(self.outputs)
            set_parts(self, outputs=words)
            if not all(isinstance(word, str) for word in words):
                raise TypeError(f'`outputs` should be names, such as ("u", "p"), got {self.outputs!r:.80}.')
            if len({*words}) != self.y.shape[-1] or len(words) != self.y.shape[-1]:
                said = ", ".join(map(str, words))
                raise ValueError(f"`outputs` should name the {self.y.shape[-1]} columns of y, got {said}.")

    def _refuse_other_outputs(self, words: tuple[Any, ...]) -> None:
        """The columns of y name its outputs; other names that were given beside them are refused."""
        given = words if self.outputs is None else tuple(self.outputs)
        if given != words:
            raise ValueError(
                f"`outputs` should name the columns of y, {', '.join(map(str, words))}, in their order, got "
                f"{', '.join(map(str, given))}."
            )
        set_parts(self, outputs=words)

    @classmethod
    def together(cls, sets: Sequence[Observations], outputs: Sequence[str]) -> Observations:
        """Several sets one after the other, with a column for each output; what was not measured is NaN.

        >>> import guardband as gb
        >>> velocity = gb.Observations([0.0, 1.0], [3.0, 4.0], outputs="u")
        >>> pressure = gb.Observations([0.5], [9.0], outputs="p")
        >>> gb.Observations.together([velocity, pressure], ("u", "p")).y.tolist()
        [[3.0, nan], [4.0, nan], [nan, 9.0]]
        """
        tables = []
        for one in sets:
            words = tuple(one.outputs or outputs)
            strange = [word for word in words if word not in outputs]
            if strange or len(words) != one.y.shape[-1]:
                raise ValueError(
                    f"These observations are of {one.y.shape[-1]} outputs"
                    f"{' (' + ', '.join(words) + ')' if one.outputs else ''}, the outputs are "
                    f"{', '.join(outputs)}. Say which were measured: gb.Observations(x, y, outputs=...)."
                )
            table = np.full((len(one), len(outputs)), np.nan)
            table[:, [list(outputs).index(word) for word in words]] = to_numpy(one.y)
            tables.append(table)
        widths = {one.x.shape[1:] for one in sets}
        if len(widths) != 1:
            raise ValueError(f"All observations should have the same coordinates, got shapes {widths}.")
        whole = object.__new__(cls)
        set_parts(whole, x=np.concatenate([to_numpy(one.x) for one in sets]), y=np.concatenate(tables))
        set_parts(whole, names=None, outputs=tuple(outputs))
        return whole

    def on_axes(self, axes: Sequence[str | int]) -> Observations:
        """The same with columns of x in the order of these axes, where they have names; others are refused.

        >>> import guardband as gb
        >>> data = gb.Observations([[0.1, 5.0]], [1.0], names=("x", "t"))
        >>> data.on_axes(("t", "x")).x.tolist()
        [[5.0, 0.1]]
        """
        if self.names is None or self.names == tuple(axes):
            return self
        if {*self.names} != {*axes}:
            raise ValueError(
                f"The columns of the readings are {', '.join(map(str, self.names))}, the axes of the problem "
                f"{', '.join(map(str, axes))}. Rename them, or give an array with its columns in that order."
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
