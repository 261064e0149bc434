"""The derivatives that a jet carries, and their positions in the jet."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Pairs: TypeAlias = tuple[tuple[int, int], ...]


class Channels(NamedTuple):
    """The derivatives that a jet carries in addition to the value.

    `axes` are the axes of first derivatives. `sums` are sums of second derivatives, given as pairs of
    positions in `axes`: (((0, 0), (1, 1)),) is the Laplacian over two axes, and (((0, 1),),) is the mixed
    derivative. `thirds` and `fourths` are positions of axes whose second derivative is also carried.
    """

    axes: tuple[int, ...] = ()
    sums: tuple[Pairs, ...] = ()
    thirds: tuple[int, ...] = ()
    fourths: tuple[int, ...] = ()

    def __len__(self) -> int:
        return 1 + len(self.axes) + len(self.sums) + len(self.thirds) + len(self.fourths)

    def position(self, axes: tuple[int, ...]) -> int | None:
        """The channel of a derivative along these axes; None if it is not carried."""
        if not axes:
            return 0
        if not {*axes} <= {*self.axes}:
            return None
        where = tuple(self.axes.index(axis) for axis in axes)
        if len(axes) == 1:
            return 1 + where[0]
        if len(axes) == 2:
            return self.position_of_sum((where,))  # type: ignore[arg-type]
        line = next((line for line in self.lines() if line[0] == 1 + where[0]), None)
        return line[len(axes) - 1] if line and len({*where}) == 1 and len(axes) < 5 else None

    def position_of_sum(self, pairs: Pairs) -> int | None:
        """The channel of a sum of second derivatives; None if it is not carried."""
        return 1 + len(self.axes) + self.sums.index(pairs) if pairs in self.sums else None

    def lines(self) -> list[tuple[int, int, int, int | None]]:
        """The channels of the first to third (or fourth) derivatives along each axis in `thirds`."""
        start = 1 + len(self.axes) + len(self.sums)
        found = []
        for k, p in enumerate(self.thirds):
            second = 1 + len(self.axes) + self.sums.index(((p, p),))
            fourth = start + len(self.thirds) + self.fourths.index(p) if p in self.fourths else None
            found.append((1 + p, second, start + k, fourth))
        return found
