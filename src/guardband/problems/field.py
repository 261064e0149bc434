"""Fields: u and its derivatives at points x, in the words an equation uses; computed only if asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor


class Field(ABC):
    """A function u of x (n, d) with m outputs: `u.value`, `u.first(i)`, `u.second(i, j)` are (n, m).

    >>> import guardband as gb
    >>> def residual(x, u):  # the heat equation: u is a Field, time is the last axis
    ...     return u.first(1) - u.second(0, 0)
    >>> x = gb.problems.Box((0, 0), (1, 1)).grid(3)
    >>> u = gb.problems.AutogradField(lambda x: x[:, :1] ** 2 + 2 * x[:, 1:], x)
    >>> bool((residual(x, u) == 0).all())
    True
    """

    def __init__(self, x: Tensor) -> None:
        self.x = x

    @abstractmethod
    def derivative(self, *axes: int) -> Tensor:
        """The partial derivative along these axes in turn, (n, m); none of them is the value itself."""

    @property
    def value(self) -> Tensor:
        """The values of u, (n, m)."""
        return self.derivative()

    def first(self, i: int) -> Tensor:
        """du / dx_i, (n, m)."""
        return self.derivative(i)

    def second(self, i: int, j: int) -> Tensor:
        """d2u / dx_i dx_j, (n, m)."""
        return self.derivative(i, j)

    @property
    def grad(self) -> Tensor:
        """All first derivatives, (n, m, d)."""
        return torch.stack([self.first(i) for i in range(self.x.shape[1])], dim=-1)

    @property
    def laplacian(self) -> Tensor:
        """The sum of the second derivatives along each axis, (n, m)."""
        return torch.stack([self.second(i, i) for i in range(self.x.shape[1])]).sum(0)


class AutogradField(Field):
    """Derivatives of any order by repeated autograd, for any differentiable function of x.

    >>> import torch
    >>> import guardband as gb
    >>> u = gb.problems.AutogradField(lambda x: x**3, torch.tensor([[2.0]]))
    >>> u.value.item(), u.first(0).item(), u.laplacian.item()
    (8.0, 12.0, 12.0)
    """

    def __init__(self, function: Callable[[Tensor], Tensor], x: Tensor) -> None:
        super().__init__(x.detach().requires_grad_())
        self._function = function
        self._known: dict[tuple[int, ...], Tensor] = {}

    @cached_property
    def _value(self) -> Tensor:
        with torch.enable_grad():
            return self._function(self.x)

    def derivative(self, *axes: int) -> Tensor:
        """The partial derivative along these axes in turn, (n, m)."""
        if not axes:
            return self._value
        axes = tuple(sorted(axes))
        if axes not in self._known:
            lower = self.derivative(*axes[:-1])
            along = [self._gradient(lower[:, j]) for j in range(lower.shape[1])]
            for i in range(self.x.shape[1]):
                if i >= max(axes[:-1], default=0):
                    self._known[(*axes[:-1], i)] = torch.stack([g[:, i] for g in along], dim=1)
        return self._known[axes]

    def _gradient(self, output: Tensor) -> Tensor:
        """The gradient in x, (n, d), kept differentiable; zero where the output does not depend on x."""
        if not output.requires_grad:
            return torch.zeros_like(self.x)
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(
                output.sum(), self.x, create_graph=True, allow_unused=True, materialize_grads=True
            )
        return gradient
