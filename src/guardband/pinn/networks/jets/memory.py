"""Memory for jets, allocated once and reused at every step."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


class Block:
    """A jet in contiguous memory, with views of its parts."""

    whole: Tensor
    flat: Tensor
    channels: tuple[Tensor, ...]
    value: Tensor
    rest: Tensor

    def __init__(self, whole: Tensor) -> None:
        self.whole, self.flat, self.channels = whole, whole.flatten(0, 1), whole.unbind()
        self.value, self.rest = whole[0], whole[1:]


class Memory:
    """Memory that is allocated once and reused at every step, which costs less than a new allocation."""

    def __init__(self) -> None:
        self._free: dict[tuple[object, ...], list[list[Block]]] = {}

    def take(self, like: Tensor, channels: int, n: int, widths: Sequence[int]) -> Blocks:
        """Uninitialized jets, one for each hidden layer, whose memory is reused after garbage collection."""
        key = channels, n, tuple(widths), like.dtype, like.device
        if key not in self._free and len(self._free) == 8:  # sizes that keep changing are not worth keeping
            self._free = {}
        free = self._free.setdefault(key, [])
        try:
            blocks = free.pop()
        except IndexError:
            blocks = [Block(like.new_empty(channels, n, width)) for width in widths]
        return Blocks(blocks, free)


class Blocks:
    """Borrowed jets, one for each hidden layer."""

    def __init__(self, blocks: list[Block], free: list[list[Block]]) -> None:
        self._blocks, self._free = blocks, free

    def __getitem__(self, depth: int) -> Block:
        return self._blocks[depth]

    def __del__(self) -> None:
        self._free.append(self._blocks)
