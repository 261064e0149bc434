"""Memory for jets, taken once and used at every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor


class Block:
    """A jet in memory of its own, with its views."""

    whole: Tensor
    flat: Tensor
    channels: tuple[Tensor, ...]
    value: Tensor
    rest: Tensor

    def __init__(self, whole: Tensor) -> None:
        self.whole, self.flat, self.channels = whole, whole.flatten(0, 1), whole.unbind()
        self.value, self.rest = whole[0], whole[1:]


class Memory:
    """Memory that is taken once and used at every step; asking the system for it anew costs more."""

    def __init__(self) -> None:
        self._free: dict[Any, list[list[Block]]] = {}

    def take(self, like: Tensor, channels: int, n: int, widths: Sequence[int]) -> Blocks:
        """A jet for each hidden layer, not filled; it comes back when nobody holds it any more."""
        key = channels, n, tuple(widths), like.dtype, like.device
        if key not in self._free and len(self._free) == 8:  # whoever asks for ever new sizes keeps none
            self._free = {}
        free = self._free.setdefault(key, [])
        try:
            blocks = free.pop()
        except IndexError:
            blocks = [Block(like.new_empty(channels, n, width)) for width in widths]
        return Blocks(blocks, free)


class Blocks:
    """A jet for each hidden layer, on loan."""

    def __init__(self, blocks: list[Block], free: list[list[Block]]) -> None:
        self._blocks, self._free = blocks, free

    def __getitem__(self, depth: int) -> Block:
        return self._blocks[depth]

    def __del__(self) -> None:
        self._free.append(self._blocks)
