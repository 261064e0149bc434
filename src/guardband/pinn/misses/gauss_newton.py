"""Damped Gauss-Newton (Levenberg-Marquardt) steps for a sum of squares.

With misses r and their Jacobian J, the step is s = (J^T J + damping)^-1 J^T r. The system is solved in the
space of the weights or of the misses, whichever is smaller, since s = J^T (J J^T + damping)^-1 r is the same
step. The damping follows the gain, the ratio of the actual to the predicted decrease of the loss (Nielsen).
The factorization of the matrix is reused for the misses after the step as long as this is worthwhile. If J is
too large for a matrix, conjugate gradients solve the same equations by products with J. On the CPU, LAPACK
operates on numpy arrays; on other devices, all arrays remain on the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

Vector = Any
"""A vector (P,) or (N,) in float64: a numpy array on the CPU, a tensor on another device."""


class Linear(Protocol):
    """A Jacobian J (N, P) that is available through products only."""

    def times(self, v: Tensor, /) -> Tensor:
        """The product J v."""
        ...

    def transposed(self, w: Tensor, /) -> Tensor:
        """The product J^T w."""
        ...


class System(Protocol):
    """Misses as functions of weights that can be changed."""

    @property
    def theta(self) -> Tensor:
        """All weights, (P,)."""
        ...

    @theta.setter
    def theta(self, theta: Tensor, /) -> None: ...

    def misses(self) -> Tensor:
        """All misses at `theta`, (N,)."""
        ...

    def __call__(self) -> tuple[Tensor, Tensor | Linear]:
        """All misses (N,) at `theta`, and their Jacobian (N, P), as a matrix or through products."""
        ...


class Step(NamedTuple):
    """Half the sum of squares before and after a step; `moved` is False if no damping decreased it."""

    before: float
    after: float
    moved: bool


CHORDS = 2
"""The largest number of steps that reuse a factorization."""

TRIALS = 12
"""The largest number of dampings that a step tries."""

TOLERANCE, MOST = 1e-3, 100
"""Conjugate gradients stop at this relative size of the gradient, or after this number of products."""

LEAST = 1e-14
"""The smallest damping; the rounding of the matrix is only slightly below it."""


class GaussNewton:
    """Gauss-Newton steps with a damping that is carried over from step to step.

    Examples
    --------
    >>> class Rosenbrock:
    ...     theta = torch.tensor([-1.2, 1.0], dtype=torch.float64)
    ...
    ...     def misses(self):
    ...         x, y = self.theta
    ...         return torch.stack([10 * (y - x * x), 1 - x])
    ...
    ...     def __call__(self):
    ...         x = float(self.theta[0])
    ...         slopes = [[-20 * x, 10.0], [-1.0, 0.0]]
    ...         return self.misses(), torch.tensor(slopes, dtype=torch.float64)
    >>> banana, newton = Rosenbrock(), GaussNewton()
    >>> for _ in range(20):
    ...     step = newton.step(banana)
    >>> step.after < 1e-20
    True
    """

    damping: float
    growth: float

    def __init__(self, damping: float = 1e-2) -> None:
        self.damping, self.growth = damping, 2.0

    def step(self, system: System) -> Step:
        """Take one step that decreases the sum of squares."""
        start = system.theta
        found, slopes = system()
        misses = _vector(found)
        before = _half_square(misses)
        normal = _equations(slopes)
        for _ in range(TRIALS):
            solve = normal.damped(self.damping)
            if solve is not None:
                move = solve(misses)
                promised = before - _half_square(misses - normal.times(move))
                system.theta = start - _tensor(move).to(start)
                after = _vector(system.misses())
                gain = (before - _half_square(after)) / promised if promised > 0 else -1.0
                if gain > 1e-4:  # False for NaN
                    self._relax(gain)
                    if normal.factored:  # solving again with a factorization costs little
                        after = self._chords(system, solve, after)
                    return Step(before, _half_square(after), True)
            self.damping *= self.growth
            self.growth *= 2
        system.theta = start
        self.growth = 2.0
        return Step(before, before, False)

    def _relax(self, gain: float) -> None:
        self.damping = max(LEAST, self.damping * max(0.2, 1 - (2 * gain - 1) ** 3))
        self.growth = 2.0

    def _chords(self, system: System, solve: Callable[[Vector], Vector], misses: Vector) -> Vector:
        """Steps with the same Jacobian, as long as each step decreases the loss by a tenth."""
        for _ in range(CHORDS):
            here = system.theta
            system.theta = here - _tensor(solve(misses)).to(here)
            after = _vector(system.misses())
            before, now = _half_square(misses), _half_square(after)
            if not now < before:
                system.theta = here
                break
            misses = after
            if now > 0.9 * before:
                break
        return misses


class Normal:
    """The normal equations of a Jacobian J (N, P), or their dual if there are fewer misses than weights."""

    slopes: Vector
    dual: bool
    gram: Vector
    factored: ClassVar[bool] = True

    def __init__(self, slopes: Vector) -> None:
        from scipy.linalg.blas import dsyrk  # type: ignore[attr-defined]

        self.slopes, self.dual = slopes, slopes.shape[0] < slopes.shape[1]
        self.gram = dsyrk(1.0, slopes.T, trans=int(self.dual), lower=1)

    def times(self, v: Vector) -> Vector:
        """The product J v."""
        return self.slopes @ v

    def damped(self, damping: float) -> Callable[[Vector], Vector] | None:
        """A function from misses r to (J^T J + damping)^-1 J^T r; None if rounding makes it impossible."""
        from scipy.linalg.lapack import dpotrf, dpotrs  # type: ignore[attr-defined]

        matrix = self.gram.copy(order="F")
        matrix[np.diag_indices(len(matrix))] += damping
        factor, failed = dpotrf(matrix, lower=1, overwrite_a=1)
        if failed:
            return None
        if self.dual:
            return lambda misses: self.slopes.T @ dpotrs(factor, misses, lower=1)[0]
        return lambda misses: dpotrs(factor, self.slopes.T @ misses, lower=1)[0]


class Iterated:
    """The normal equations by conjugate gradients (CGLS), for Jacobians given by products.

    The iteration stops when the gradient of the damped problem has decreased to `TOLERANCE` times its initial
    size, or after `MOST` products. Each iteration decreases the damped objective, so stopping early still
    gives a descent step.
    """

    slopes: Linear
    factored: ClassVar[bool] = False

    def __init__(self, slopes: Linear) -> None:
        self.slopes = slopes

    def times(self, v: Vector) -> Vector:
        """The product J v."""
        return _vector(self.slopes.times(_tensor(v)))

    def damped(self, damping: float) -> Callable[[Vector], Vector]:
        """A function from misses r to (J^T J + damping)^-1 J^T r."""

        def solve(misses: Vector) -> Vector:
            left = _tensor(misses).clone()
            gradient = self.slopes.transposed(left)
            step, along = torch.zeros_like(gradient), gradient.clone()
            size = start = float(gradient @ gradient)
            for _ in range(MOST):
                if size <= TOLERANCE**2 * start:
                    break
                moved = self.slopes.times(along)
                length = size / float(moved @ moved + damping * (along @ along))
                step += length * along
                left -= length * moved
                gradient = self.slopes.transposed(left) - damping * step
                size, before = float(gradient @ gradient), size
                along = gradient + size / before * along
            return _vector(step)

        return solve


class NormalElsewhere:
    """The normal equations of a Jacobian J (N, P) on a device other than the CPU, or their dual."""

    slopes: Tensor
    dual: bool
    gram: Tensor
    factored: ClassVar[bool] = True

    def __init__(self, slopes: Tensor) -> None:
        self.slopes, self.dual = slopes, slopes.shape[0] < slopes.shape[1]
        self.gram = slopes @ slopes.T if self.dual else slopes.T @ slopes

    def times(self, v: Tensor) -> Tensor:
        """The product J v."""
        return self.slopes @ v

    def damped(self, damping: float) -> Callable[[Tensor], Tensor] | None:
        """A function from misses r to (J^T J + damping)^-1 J^T r; None if rounding makes it impossible."""
        matrix = self.gram.clone()
        matrix.diagonal().add_(damping)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if int(failed):
            return None

        def solve(misses: Tensor) -> Tensor:
            known = misses if self.dual else self.slopes.T @ misses
            solved = torch.cholesky_solve(known[:, None], factor)[:, 0]
            return self.slopes.T @ solved if self.dual else solved

        return solve


def _equations(slopes: Tensor | Linear) -> Normal | NormalElsewhere | Iterated:
    """The normal equations, in the form that suits the Jacobian."""
    if not isinstance(slopes, Tensor):
        return Iterated(slopes)
    return Normal(slopes.numpy()) if slopes.device.type == "cpu" else NormalElsewhere(slopes)


def _vector(tensor: Tensor) -> Vector:
    return tensor.numpy() if tensor.device.type == "cpu" else tensor


def _tensor(vector: Vector) -> Tensor:
    return vector if isinstance(vector, Tensor) else torch.from_numpy(vector)


def _half_square(misses: Vector) -> float:
    total = 0.5 * float(misses @ misses)
    return total if math.isfinite(total) else math.inf
