"""Problems: an equation on a box, its conditions, and what can be observed of its solution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from guardband.geometry import Box
from guardband.problems.conditions import Condition
from guardband.problems.field import Field
from guardband.values import Observations


class Problem(ABC):
    """An equation to be solved: subclass it as a frozen dataclass and write the residual.

    `residual` and everything it calls is plain torch on points x (n, d); u is a `Field`.

    >>> from dataclasses import dataclass
    >>> import guardband as gb
    >>> @dataclass(frozen=True)
    ... class Heat(gb.problems.Problem):
    ...     conductivity: float = 1.0
    ...     domain = gb.problems.Box((0, 0), (1, 1))
    ...
    ...     def residual(self, x, u):
    ...         return self.conductivity * u.laplacian + 1
    ...
    ...     def conditions(self):
    ...         return [gb.problems.Dirichlet(0.0)]
    >>> Heat(conductivity=2.0)
    Heat(conductivity=2.0)
    """

    domain: ClassVar[Box]
    outputs: ClassVar[int] = 1

    @abstractmethod
    def residual(self, x: Tensor, u: Field) -> Tensor:
        """What the equation says should vanish at x (n, d) inside the domain, (n, equations)."""

    def conditions(self) -> Sequence[Condition]:
        """What should hold on the faces of the domain and at the start; none by default."""
        return []

    def solution(self, x: Tensor) -> Tensor:
        """The exact solution (n, m), where it is known."""
        raise NotImplementedError(f"{type(self).__name__} has no known solution; write `solution(self, x)`.")

    def lift(self, x: Tensor) -> Tensor:
        """A function (n, m) that meets the conditions; with `bubble` it makes them hard constraints."""
        raise NotImplementedError(f"{type(self).__name__} has no hard constraint; write `lift` and `bubble`.")

    def bubble(self, x: Tensor) -> Tensor:
        """A function (n, 1) that vanishes where the conditions hold: u = lift + bubble net meets them."""
        raise NotImplementedError(f"{type(self).__name__} has no hard constraint; write `lift` and `bubble`.")

    def observe(
        self,
        n: int,
        *,
        noise: float | Callable[[Tensor], Tensor] = 0.0,
        seed: int = 0,
        dtype: torch.dtype | None = None,
    ) -> Observations:
        """n noisy readings of the solution at places uniform in the domain.

        `noise` is the standard deviation of Gaussian noise: a number, or a function of
        x (n, d) that returns (n, 1).
        """
        generator = torch.Generator().manual_seed(seed)
        x = self.domain.uniform(n, generator, dtype=torch.float64)
        u = self.solution(x)
        u = u[:, None] if u.ndim == 1 else u
        sd = torch.as_tensor(noise(x) if callable(noise) else noise, dtype=u.dtype)
        if sd.ndim and sd.shape not in (u.shape, (n, 1)):
            raise ValueError(f"`noise` returned {tuple(sd.shape)}, should be ({n}, 1): keep the column.")
        y = u + sd * torch.randn(u.shape, generator=generator, dtype=u.dtype)
        dtype = dtype or torch.get_default_dtype()
        return Observations(x.to(dtype), y.to(dtype))
