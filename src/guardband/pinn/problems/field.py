"""Fields: a function u and its derivatives at points x, computed on demand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor

from guardband.pinn.geometry import axis_names
from guardband.values import Names, position

Columns: TypeAlias = tuple[int, ...] | None
"""Indices of outputs; None means all outputs."""


class Field(ABC):
    """Base class of fields: a function u of x (n, d) with m outputs, and its derivatives.

    `u.value` and `u.d("x", "x")` have shape (n, m). Axes are given by name or number. `w["p"]` selects one
    output and `w["u", "v"]` two; both return a field. `laplacian`, `grad` and `divergence` use the spatial
    axes, without time.

    Parameters
    ----------
    x
        Points, shape (n, d).
    names
        The names of axes and outputs; x, y, z and numbered outputs by default.
    normals
        Outward normals at boundary points, shape (n, d).

    Examples
    --------
    >>> from guardband import pinn
    >>> def residual(x, u):  # the heat equation
    ...     return u.d("t") - u.laplacian
    >>> rod = pinn.Segment(0, 1) * pinn.Time(0, 1)
    >>> names = pinn.problems.Names(rod.names, ("u",), rod.space)
    >>> x = rod.interior(9)
    >>> u = pinn.problems.AutogradField(lambda x: x[:, :1] ** 2 + 2 * x[:, 1:], x, names)
    >>> bool((residual(x, u) == 0).all())
    True
    """

    def __init__(self, x: Tensor, names: Names | None = None, normals: Tensor | None = None) -> None:
        self.x: Tensor = x
        self.normals: Tensor | None = normals
        self._names = names

    @abstractmethod
    def partial(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """Return a partial derivative of some outputs.

        Parameters
        ----------
        axes
            The axes of differentiation, sorted; empty for the value itself.
        columns
            The outputs; None means all outputs.

        Returns
        -------
        Tensor
            The derivative, shape (n, m).
        """

    def trace(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """Return the sum of the second derivatives along some axes.

        Parameters
        ----------
        axes
            The axes.
        columns
            The outputs; None means all outputs.

        Returns
        -------
        Tensor
            The sum, shape (n, m).
        """
        return torch.stack([self.partial((i, i), columns) for i in axes]).sum(0)

    @property
    def names(self) -> Names:
        """The names of axes and outputs."""
        if self._names is None:
            self._names = Names.numbered(axis_names(self.x.shape[1]), self.value.shape[1])
        return self._names

    @property
    def value(self) -> Tensor:
        """The values of u, shape (n, m)."""
        return self.partial(())

    def d(self, *axes: str | int) -> Tensor:
        """Return a partial derivative: `u.d("x", "x")` is the second derivative along x.

        Parameters
        ----------
        *axes
            The axes of differentiation, by name or number.

        Returns
        -------
        Tensor
            The derivative, shape (n, m).
        """
        return self.partial(tuple(sorted(self._axis(axis) for axis in axes)))

    def __getitem__(self, outputs: str | int | tuple[str | int, ...]) -> Field:
        """Select one output, or several, as a field."""
        wanted = outputs if isinstance(outputs, tuple) else (outputs,)
        return _Columns(self, tuple(self._output(output) for output in wanted))

    @property
    def grad(self) -> Tensor:
        """The gradient along the spatial axes, shape (n, m, axes)."""
        return torch.stack([self.partial((i,)) for i in self._space()], dim=-1)

    @property
    def laplacian(self) -> Tensor:
        """The Laplacian over the spatial axes, shape (n, m)."""
        return self.trace(self._space())

    @property
    def divergence(self) -> Tensor:
        """The divergence of a field with one output per spatial axis, shape (n, 1)."""
        space, outputs = self._space(), self.names.outputs
        if len(outputs) != len(space):
            axes = ", ".join(self.names.axes[i] for i in space)
            raise ValueError(
                f"A divergence needs one output for each of the axes {axes}, got {len(outputs)} "
                f'({", ".join(outputs)}). Select the outputs, w["u", "v"].divergence.'
            )
        return torch.stack([self.partial((i,), (j,)) for j, i in enumerate(space)]).sum(0)

    @property
    def outward(self) -> Tensor:
        """The derivative along the outward normal at boundary points, shape (n, m)."""
        if self.normals is None:
            raise ValueError(
                "Interior points have no normal. Use `outward` only in conditions on a boundary."
            )
        normals = self.normals
        return torch.stack([normals[:, i : i + 1] * self.partial((i,)) for i in self._space()]).sum(0)

    def _space(self) -> tuple[int, ...]:
        space = tuple(range(self.x.shape[1])) if self._names is None else self._names.space
        if not space:
            raise ValueError('This field has no spatial axis, only time. Write u.d("t").')
        return space

    def _axis(self, axis: str | int) -> int:
        known = axis_names(self.x.shape[1]) if self._names is None else self._names.axes
        return position(axis, known, "axis")

    def _output(self, output: str | int) -> int:
        names = self.names.outputs
        try:
            return position(output, names, "output")
        except ValueError as error:
            more = output if isinstance(output, str) else f"u{output}"
            cure = f"To add an output, declare it in the problem, outputs = {(*names, more)!r}."
            raise ValueError(f"{error} {cure}") from None


class _Columns(Field):
    """Some outputs of a field."""

    def __init__(self, whole: Field, columns: tuple[int, ...]) -> None:
        names = replace(whole.names, outputs=tuple(whole.names.outputs[j] for j in columns))
        super().__init__(whole.x, names, whole.normals)
        self._whole, self._chosen = whole, columns

    def partial(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """Return a partial derivative of some outputs."""
        return self._whole.partial(axes, self._of(columns))

    def trace(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """Return the sum of second derivatives."""
        return self._whole.trace(axes, self._of(columns))

    def _of(self, columns: Columns) -> tuple[int, ...]:
        return self._chosen if columns is None else tuple(self._chosen[j] for j in columns)


def pick(values: Tensor, columns: Columns) -> Tensor:
    """Some columns of (n, m); a view if only one is selected.

    >>> (
    ...     pick(torch.tensor([[1, 2, 3]]), (2,)).tolist(),
    ...     pick(torch.tensor([[1, 2, 3]]), (2, 0)).tolist(),
    ... )
    ([[3]], [[3, 1]])
    """
    if columns is None:
        return values
    return values[:, columns[0] : columns[0] + 1] if len(columns) == 1 else values[:, list(columns)]


class AutogradField(Field):
    """A field of any differentiable function, with derivatives of any order by repeated autograd.

    Parameters
    ----------
    function
        A function from points (n, d) to outputs (n, m).
    x
        Points, shape (n, d).
    names
        The names of axes and outputs; x, y, z and numbered outputs by default.
    normals
        Outward normals at boundary points, shape (n, d).

    Examples
    --------
    >>> import torch
    >>> from guardband import pinn
    >>> u = pinn.problems.AutogradField(lambda x: x**3, torch.tensor([[2.0]]))
    >>> u.value.item(), u.d("x").item(), u.laplacian.item()
    (8.0, 12.0, 12.0)
    """

    def __init__(
        self,
        function: Callable[[Tensor], Tensor],
        x: Tensor,
        names: Names | None = None,
        normals: Tensor | None = None,
    ) -> None:
        super().__init__(x.detach().requires_grad_(), names, normals)
        self._function = function
        self._own: Callable[..., Tensor | None] | None = getattr(function, "known_derivative", None)
        self._known: dict[tuple[int, tuple[int, ...]], Tensor] = {}

    @cached_property
    def _value(self) -> Tensor:
        with torch.enable_grad():
            return self._function(self.x)

    def partial(self, axes: tuple[int, ...], columns: Columns = None) -> Tensor:
        """Return a partial derivative of some outputs."""
        if not axes:
            return pick(self._value, columns)
        own = None if self._own is None else self._own(self.x, axes)  # a closed form, or None
        if own is not None:
            return pick(own, columns)
        chosen: Sequence[int] = range(self._value.shape[1]) if columns is None else columns
        return torch.stack([self._column(j, axes) for j in chosen], dim=1)

    def _column(self, j: int, axes: tuple[int, ...]) -> Tensor:
        """The derivative of one output, (n,)."""
        if not axes:
            return self._value[:, j]
        if (j, axes) not in self._known:
            with torch.enable_grad():  # further derivatives need the graph
                along = self._gradient(self._column(j, axes[:-1]))
                for i in range(max(axes[:-1], default=0), self.x.shape[1]):
                    self._known[j, (*axes[:-1], i)] = along[:, i]
        return self._known[j, axes]

    def _gradient(self, output: Tensor) -> Tensor:
        """The differentiable gradient with respect to x, (n, d); 0 if the output does not depend on x."""
        if not output.requires_grad:
            return torch.zeros_like(self.x)
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(
                output.sum(), self.x, create_graph=True, allow_unused=True, materialize_grads=True
            )
        return gradient
