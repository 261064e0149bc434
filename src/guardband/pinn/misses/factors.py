"""Jacobians of misses in factored form, for products without the matrix (N, P).

The derivative of a miss with respect to the weights of a layer is a sum over the channels of a jet: the
gradient after the layer times the jet before it. Both factors are small, and a product with the whole
Jacobian requires only a few matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Factors:
    """The Jacobian of misses (n, q) for all weights, as factors; `held` keeps their memory alive."""

    shape: torch.Size
    together: int

    def __init__(
        self,
        shape: torch.Size,
        found: Sequence[tuple[slice, int, Sequence[tuple[Tensor, Tensor]]]],
        together: int,
        held: object,
    ) -> None:
        self.shape, self._found, self.together, self._held = shape, found, together, held
        grad = found[0][2][0][0]
        self._row_weights = grad.new_ones(shape)

    def weigh(self, factor: Tensor) -> None:
        """Multiply the derivatives of each miss by a factor (n, q)."""
        self._row_weights = self._row_weights * factor

    def times(self, v: Tensor) -> Tensor:
        """The product J v, (n, q), for a change v of all weights (P,)."""
        product = v.new_zeros(self.shape)
        for rows, j, layers in self._found:
            total, start = v.new_zeros(layers[0][0].shape[1]), 0
            for grad, jet in layers:
                n_out, n_in = grad.shape[2], jet.shape[2]
                weight = v[start : start + n_out * n_in].view(n_out, n_in)
                start += n_out * n_in
                moved = (jet.flatten(0, 1) @ weight.T).view_as(grad)
                moved[0] += v[start : start + n_out]
                start += n_out
                total += torch.einsum("cno,cno->n", grad, moved)
            product[rows, j] = total.unflatten(0, (-1, self.together)).sum(dim=1)
        return product * self._row_weights

    def transposed(self, w: Tensor) -> Tensor:
        """The product J^T w, (P,), for one number per miss (n, q)."""
        weighted, total = w * self._row_weights, None
        for rows, j, layers in self._found:
            each = weighted[rows, j].repeat_interleave(self.together)
            parts = []
            for grad, jet in layers:
                outer = grad * each[:, None]
                parts += [(outer.flatten(0, 1).T @ jet.flatten(0, 1)).flatten(), outer[0].sum(0)]
            found = torch.cat(parts)
            total = found if total is None else total + found
        assert total is not None
        return total

    @property
    def nbytes(self) -> int:
        """The size of the factors in bytes."""
        tensors = {part.data_ptr(): part for _, _, layers in self._found for pair in layers for part in pair}
        return sum(part.numel() * part.element_size() for part in tensors.values())


class Widened:
    """Derivatives that are given by products, with additional columns (N, K) as a matrix."""

    products: Products
    columns: Tensor

    def __init__(self, products: Products, columns: Tensor) -> None:
        self.products, self.columns = products, columns

    def times(self, v: Tensor) -> Tensor:
        """The product J v, (N,)."""
        weights, rest = v.tensor_split([len(v) - self.columns.shape[1]])
        return self.products.times(weights) + self.columns @ rest

    def transposed(self, w: Tensor) -> Tensor:
        """The product J^T w, (P + K,)."""
        return torch.cat([self.products.transposed(w), self.columns.T @ w])


class Products:
    """The derivatives (N, P) of several kinds of misses; `units` multiply the columns."""

    kinds: Sequence[Factors]
    units: Tensor | float

    def __init__(self, kinds: Sequence[Factors], units: Tensor | float = 1.0) -> None:
        self.kinds, self.units = kinds, units

    def times(self, v: Tensor) -> Tensor:
        """The product J v, (N,)."""
        return torch.cat([kind.times(v * self.units).flatten() for kind in self.kinds])

    def transposed(self, w: Tensor) -> Tensor:
        """The product J^T w, (P,)."""
        parts = w.split([kind.shape.numel() for kind in self.kinds])
        found = [kind.transposed(part.view(kind.shape)) for kind, part in zip(self.kinds, parts, strict=True)]
        return torch.stack(found).sum(0) * self.units

    @property
    def nbytes(self) -> int:
        """The size of the factors in bytes."""
        return sum(kind.nbytes for kind in self.kinds)
