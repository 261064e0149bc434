"""Bands from few readings, which both fit and calibrate a network that was trained only on the equation.

Near its weights a network is linear in them. The Gauss-Newton curvature of equation and conditions is the
precision of a Gaussian prior for a change of the weights. The n readings then define a ridge regression,
whose leave-one-out predictions have a closed form. Let mu_-i(x) and sd_-i(x) be the mean and the standard
deviation of a reading at x given all readings except i, and let R_i = y_i - mu_-i(x_i). The ends of the band
at x are order statistics of

    full          mu_-i(x) -+ |R_i| sd_-i(x) / sd_-i(x_i)
    jackknife+    mu_-i(x) -+ |R_i|

The first is full conformal prediction with the score |e_i| / sqrt(1 - h_ii), where e_i is the residual and
h_ii the leverage among n + 1 points. Since |M_ij| <= sqrt(M_ii M_jj) for the positive definite matrix M = 1 -
H, the set of accepted targets for each reading is an interval around the mean, and so is the whole set.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from guardband.base.arrays import Array, ArrayLike, finite, like, rows, to_numpy, to_torch
from guardband.base.arrays import copy as copied
from guardband.base.kept import kept
from guardband.conformal.base import Groups, Size, Traits, no_groups
from guardband.conformal.calibrated import Calibrated
from guardband.conformal.cross import band_between
from guardband.conformal.rank import Level, exact, points_needed
from guardband.leaks import refuse_leaks
from guardband.pinn.misses.jacobian import Slopes, value
from guardband.pinn.misses.likelihood import Likelihood, scales_of
from guardband.pinn.misses.points import Points, fixed_points
from guardband.pinn.misses.rows import Rows
from guardband.pinn.misses.titles import titles_of
from guardband.pinn.networks.traits import traits_of
from guardband.pinn.training.fitted import Fitted
from guardband.values import MODEL, Band, Names, Prediction
from guardband.values.frames import PROBES
from guardband.values.labeled import placed, refuse_unpaired

PROBED = 512
"""The largest number of points at which changes of the field are evaluated."""

NEGLIGIBLE = 1e-3
"""Changes of the field below this share of the noise are ignored."""

KINDS = ("full", "jackknife+")


@kept
@dataclass(frozen=True, eq=False)
class Tangent:
    """The tangent space of a network that was trained only on the equation, for bands from few readings.

    The default scales are those of training, which used no readings. If you change them, do not use the
    readings: the guarantee requires scales and weights that were fixed without the readings. Wrong scales
    increase the width but never reduce the coverage. If the equation is correct, calibrating the network
    alone is better: `gb.calibrate(fitted, x, y)`.

    Parameters
    ----------
    fitted
        A network with one output, trained without readings and without time windows; all other networks are
        refused.
    noise
        The standard deviation of a reading.
    physics
        The scale of the equation's residual, in its units, as in `pinn.Likelihood`.
    counts
        The number of readings to which the equation is equivalent; by default the actual number. The mean
        squares of the equation are multiplied by this number, so halving it corresponds to increasing
        `physics` by a factor of sqrt(2).
    prior
        The standard deviation of a change of a weight.
    n_interior, n_boundary
        The numbers of points for equation and conditions.
    seed
        The seed of these points.

    Examples
    --------
    >>> from guardband import pinn
    >>> # while it is 0.4 where readings are taken
    >>> problem = pinn.problems.Heat1D(diffusivity=0.6)
    >>> recipe = pinn.Recipe.by_newton(20)
    >>> fitted = pinn.fit(problem, pinn.mlp(2, [16, 16]), recipe=recipe, progress=False)
    >>> x, y = pinn.problems.Heat1D().observe(30, noise=0.05)
    >>> calibrated = pinn.Tangent(fitted, noise=0.05).calibrate(x, y)
    >>> calibrated
    Tangent(full, MLP of 337 weights, n=30)
    >>> calibrated(x[:2], level=0.9)
    Band(level=0.9, 2 points)
    """

    fitted: Fitted
    noise: float | None = None
    physics: float | None = field(default=None, kw_only=True)
    counts: float | None = field(default=None, kw_only=True)
    prior: float = field(default=1.0, kw_only=True)
    n_interior: int | None = field(default=None, kw_only=True)
    n_boundary: int = field(default=256, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        _refuse_network(self.fitted)
        noise = self.fitted.likelihood.data if self.noise is None else self.noise
        optional = {"physics": self.physics, "counts": self.counts}
        given = {name: scale for name, scale in optional.items() if scale is not None}
        for name, scale in {"noise": noise, "prior": self.prior, **given}.items():
            if not isinstance(scale, Real) or isinstance(scale, bool) or not 0 < float(scale) < math.inf:
                raise ValueError(f"`{name}` should be a positive number, got {scale!r:.80}.")
        object.__setattr__(self, "noise", noise)

    def calibrate(
        self, x: ArrayLike, y: ArrayLike, *, kind: Literal["full", "jackknife+"] = "full"
    ) -> TangentCalibrated:
        """Return a calibrated predictor from readings, each of which both fits and calibrates.

        Parameters
        ----------
        x
            The points of the readings, shape (n, d).
        y
            The readings, shape (n, 1).
        kind
            "full" guarantees the level, exactly k/(n + 1) for continuous noise. "jackknife+" guarantees 1 - 2
            (1 - level) and is sometimes slightly narrower. Both take milliseconds.

        Returns
        -------
        TangentCalibrated
            The calibrated predictor.
        """
        if kind not in KINDS:
            raise ValueError(f"`kind` should be 'full' or 'jackknife+', got {kind!r:.80}.")
        refuse_unpaired(x=x, y=y)
        x = placed(x, self.fitted.problem.names.axes)
        x, y = copied(finite(rows(x, "x"), "x")), copied(finite(rows(y, "y"), "y"))
        d = self.fitted.problem.domain.d
        if tuple(x.shape[1:]) != (d,) or tuple(y.shape) != (len(x), 1) or not len(x):
            raise ValueError(
                f"Readings should have shapes (n, {d}) for x and (n, 1) for y, with n of at least 1, got "
                f"{tuple(x.shape)} and "
                f"{tuple(y.shape)}."
            )
        if self.fitted.held_out is not None:
            refuse_leaks({"validation": self.fitted.held_out}, x, y)
        modes = self.modes(self.counts or len(x))
        base, features = _tangent(self._slopes, modes, x)
        ridge = Ridge(features, to_numpy(y).astype(float)[:, 0] - base, float(self.noise or 0))
        return TangentCalibrated(self.fitted, modes, ridge, kind, ridge.around(x, base, features), y)

    @torch.inference_mode(False)
    @torch.no_grad()
    def modes(self, n: float) -> Tensor:
        """Return the directions in weight space that equation and conditions leave open.

        A change of the weights is `modes` times r independent standard normals. Directions that change the
        field at fixed points by less than a thousandth of the noise are omitted.

        Parameters
        ----------
        n
            The number of readings to which equation and conditions are equivalent.

        Returns
        -------
        Tensor
            The directions, shape (P, r).
        """
        if n not in self._modes:
            basis, sizes, probed = self._curvature
            # The inverse root of n G^T G + 1 / prior^2, which is `prior` on the null space of G.
            inside = 1 / (n * sizes.square() + self.prior**-2).sqrt() - self.prior

            def narrowed(rows: Tensor) -> Tensor:
                return rows * self.prior + (rows @ basis * inside) @ basis.T

            seen = narrowed(probed)  # the change of the field at fixed points
            variances, turns = torch.linalg.eigh(seen @ seen.T)
            keep = variances > len(probed) * (NEGLIGIBLE * float(self.noise or 0)) ** 2
            keep[-1] = True
            whitened = (turns[:, keep] / variances[keep].clamp(min=1e-300).sqrt()).T @ seen
            self._modes[n] = narrowed(whitened).T.contiguous()
        return self._modes[n]

    @cached_property
    def _modes(self) -> dict[float, Tensor]:
        return {}

    @cached_property
    def _slopes(self) -> Slopes:
        return _slopes_of(self.fitted, self.fitted.problem.domain.d)

    @cached_property
    @torch.inference_mode(False)
    def _curvature(self) -> tuple[Tensor, Tensor, Tensor]:
        """V and S of G = U S V^T for equation and conditions, and the change of the field at fixed points."""
        problem, net = self.fitted.problem, _float64(self.fitted.net)
        nothing = torch.zeros(0, problem.domain.d, dtype=torch.float64), torch.zeros(0, 1).double()
        generator = torch.Generator().manual_seed(self.seed)
        points = fixed_points(problem, net, nothing, self.n_interior, self.n_boundary, generator)
        known = self.fitted.likelihood
        likelihood = Likelihood(known.data, self.physics or known.physics, known.boundary)
        scales = scales_of(likelihood, problem, titles_of(problem, net, points.inside))
        with torch.enable_grad():
            _, slopes = Rows(problem, net, points, scales)()
            _, seen = self._slopes(_probes(points))
        _, sizes, basis = torch.linalg.svd(slopes, full_matrices=False)
        return basis.T, sizes, seen[:, 0]


@kept
@dataclass(frozen=True, eq=False, repr=False)
class TangentPrediction(Prediction):
    """The mean and standard deviation of a new reading given all readings, with tangent-space coordinates.

    Parameters
    ----------
    x
        Points, shape (n, d).
    mean
        The mean, shape (n, 1).
    scale
        The standard deviation, shape (n, 1).
    features
        The change of the field along each direction, shape (n, r).

    Examples
    --------
    >>> from guardband import pinn
    >>> pinn.TangentPrediction(None, [2.0], [0.1], features=[[1.0, 3.0]])
    TangentPrediction(1 points, 2 directions)
    """

    features: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.features is None or tuple(np.shape(self.features)[:1]) != (len(self),):
            shape = None if self.features is None else tuple(np.shape(self.features))
            raise ValueError(f"`features` should have one row per point, ({len(self)}, r), got {shape}.")
        features = np.asarray(to_numpy(self.features), dtype=float)
        vars(self).update(features=finite(features, "features", MODEL))

    def __repr__(self) -> str:
        return f"TangentPrediction({len(self)} points, {self.features.shape[1]} directions)"


@kept
@dataclass(frozen=True, eq=False)
class Ridge:
    """Ridge regression of residuals (n,) on features (n, r) with standard normal weights and noise.

    With the covariance C = F F^T + noise^2 of the readings and its inverse P, the leave-one-out residual of
    row i is (P r)_i / P_ii, with the variance 1 / P_ii.
    """

    features: np.ndarray
    residuals: np.ndarray
    noise: float

    @cached_property
    def _solved(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The gain (r, n), the diagonal of P, the residuals R (n,), and a root of the variance."""
        f, r = self.features, self.features.shape[1]
        root = np.linalg.cholesky(np.eye(r) + f.T @ f / self.noise**2)
        whitened = np.linalg.solve(root, f.T)  # (r, n)
        gain = np.linalg.solve(root.T, whitened) / self.noise**2
        diagonal = (1 - (whitened**2).sum(axis=0) / self.noise**2) / self.noise**2
        # If a single reading determines the field at its point, h_ii is close to 1, and 1 - h_ii is lost to
        # rounding error.
        diagonal = np.maximum(diagonal, 1e-15 / self.noise**2)
        off = (self.residuals - f @ (gain @ self.residuals)) / self.noise**2
        return gain, diagonal, off / diagonal, np.linalg.inv(root)

    @property
    def left_out(self) -> np.ndarray:
        """The leave-one-out residual R_i of each row, (n,)."""
        return self._solved[2]

    def around(self, x: Array, base: np.ndarray, features: np.ndarray) -> TangentPrediction:
        """The prediction from all readings at points with these features, relative to a base (queries,)."""
        gain, _, _, root = self._solved
        mean = (base + features @ (gain @ self.residuals))[:, None]
        variance = self.noise**2 + ((features @ root.T) ** 2).sum(axis=1)
        kind = like(x, mean)
        return TangentPrediction(x, kind, like(kind, np.sqrt(variance)[:, None]), features=features)

    def without(
        self, features: np.ndarray, kind: str, mean: np.ndarray | float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """The center and half-width of each row's interval at points with these features, (queries, n)."""
        gain, diagonal, left_out, root = self._solved
        g = features @ gain
        reach = np.broadcast_to(abs(left_out), g.shape)
        if kind == "full":
            variance = self.noise**2 + ((features @ root.T) ** 2).sum(axis=1)
            reach = reach * np.sqrt(diagonal * variance[:, None] + g**2)
        return np.reshape(mean, (-1, 1)) - g * left_out, reach


@kept
@dataclass(frozen=True, eq=False, repr=False)
class TangentCalibrated(Calibrated):
    """A network with its readings and the directions in which these move it; see `pinn.Tangent`.

    Attributes
    ----------
    fitted
        The network.
    modes
        The directions in weight space, shape (P, r).
    ridge
        The regression on the readings.
    kind
        "full" or "jackknife+".
    prediction
        The prediction at the readings.
    y
        The readings, shape (n, 1).

    Examples
    --------
    >>> from guardband import pinn
    >>> problem, recipe = pinn.problems.Poisson1D(), pinn.Recipe.by_newton(5)
    >>> fitted = pinn.fit(problem, pinn.mlp(1, [8]), recipe=recipe, progress=False)
    >>> x, y = problem.observe(19, noise=0.1)
    >>> pinn.Tangent(fitted, noise=0.1).calibrate(x, y, kind="jackknife+").promised(0.9)
    Fraction(4, 5)
    """

    fitted: Fitted
    modes: Tensor
    ridge: Ridge
    kind: str
    prediction: TangentPrediction  # type: ignore[assignment]
    y: Array

    def predict(self, x: ArrayLike) -> TangentPrediction:
        """Return the prediction of the network, updated by all readings, with its standard deviation."""
        x = finite(rows(placed(x, self.fitted.problem.names.axes), "x"), "x")
        d = self.prediction.x.shape[1]  # type: ignore[union-attr]
        if tuple(x.shape[1:]) != (d,):
            raise ValueError(f"`x` should have shape (n, {d}), like the readings, got {tuple(x.shape)}.")
        base, features = _tangent(self._slopes, self.modes, x)
        return self.ridge.around(x, base, features)

    def band(self, prediction: Prediction, level: Level = 0.95, *, groups: Groups = None) -> Band:
        """Return the band between order statistics of the leave-one-out predictions."""
        no_groups(groups, self.name, "it treats all points alike.")
        if not isinstance(prediction, TangentPrediction):
            raise TypeError(
                "A band in the tangent space needs the coordinates of the points. Pass "
                "calibrated.predict(x), got "
                f"{type(prediction).__name__}."
            )
        mean = to_numpy(prediction.mean).astype(float)[:, 0]
        made = band_between(prediction, *self.ridge.without(prediction.features, self.kind, mean), level)
        if self.field_names is not None:
            object.__setattr__(made, "names", self.field_names)
        return made

    @property
    def promise(self) -> str:
        """The guaranteed coverage, and the conditions for it."""
        fixed = (
            f"If the {self.n} readings and a new one are exchangeable (sampled in the same way, in the same "
            "region and with the same noise), and neither the network's weights nor its scales were fitted "
            "to or chosen by them, a new measurement lies in the band with probability at least "
        )
        if self.kind == "full":
            return f"{fixed}the level."
        usual = "Usually it does so about as often as the level says."
        return f"{fixed}1 - 2 (1 - level), which is 0.8 at level 0.9 and 0.9 at level 0.95. {usual}"

    @property
    def traits(self) -> Traits:
        """The traits of intervals for one output by leave-one-out predictions."""
        return Traits(
            is_box=True,
            leaves_out=True,
            holds_for="any network whose weights and scales do not depend on the readings",
        )

    def promised(self, level: Level) -> Fraction:
        """Return the level, or 1 - 2 (1 - level) for jackknife+."""
        return exact(level) if self.kind == "full" else max(Fraction(0), 1 - 2 * (1 - exact(level)))

    def size(self, level: Level) -> Size:
        """Return the numbers of readings available and needed."""
        return Size(self.n, points_needed(level), "readings")

    def before(self, prediction: Prediction, level: Level) -> Band | None:
        """Return the band of the Gaussian posterior, which would be valid if the scales were correct."""
        from scipy.special import ndtri

        if prediction.scale is None:
            return None
        reach = float(ndtri((1 + float(exact(level))) / 2)) * prediction.scale
        return Band.around(prediction, prediction.mean - reach, prediction.mean + reach, float(exact(level)))

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"Tangent({self.kind})"

    @property
    def field_names(self) -> Names | None:
        """The names of axes and outputs."""
        return self.fitted.names

    def fingerprint(self) -> dict[str, np.ndarray]:
        """Return leave-one-out residuals, and predictions at some readings."""
        again = self.predict(self.prediction.x[:PROBES])  # type: ignore[index]
        return {"thresholds": self.ridge.left_out, "mean": to_numpy(again.mean)}

    def __repr__(self) -> str:
        weights = sum(parameter.numel() for parameter in self.fitted.net.parameters())
        return f"Tangent({self.kind}, {type(self.fitted.net).__name__} of {weights} weights, n={self.n})"

    @cached_property
    def _slopes(self) -> Slopes:
        return _slopes_of(self.fitted, self.prediction.x.shape[1])  # type: ignore[union-attr]


def _float64(net: nn.Module) -> nn.Module:
    """A copy of a network in float64 on the CPU."""
    return copy.deepcopy(net).cpu().double().eval()


def _slopes_of(fitted: Fitted, d: int) -> Slopes:
    """The Jacobian of the output of a network with d inputs, in float64."""
    return Slopes(value, _float64(fitted.net), torch.zeros(1, d, dtype=torch.float64))


def _tangent(slopes_of: Slopes, modes: Tensor, x: Array) -> tuple[np.ndarray, np.ndarray]:
    """The network's output (n,), and its derivative along each direction in weight space (n, r)."""
    points = to_torch(x).detach().cpu().double()
    parts = [slopes_of(part) for part in points.split(256)]
    base = torch.cat([out[:, 0] for out, _ in parts])
    features = torch.cat([slopes[:, 0] @ modes for _, slopes in parts])
    return base.numpy(), features.numpy()


def _probes(points: Points) -> Tensor:
    """Some of the points of equation and conditions."""
    whole = torch.cat([points.inside, *(edge.points for edge in points.edges)])
    return whole[:: math.ceil(len(whole) / PROBED)]


def _refuse_network(fitted: Fitted) -> None:
    """Refuse networks that have seen readings or have no tangent space."""
    if not isinstance(fitted, Fitted):
        raise TypeError(
            "`fitted` should be the result of `pinn.fit(problem, net)`, which includes its equation, got "
            f"{type(fitted).__name__}."
        )
    if fitted.training_data is not None or fitted.saw_data:
        raise ValueError(
            "`fitted` should be trained only on the equation, pinn.fit(problem, net), but its weights have "
            "seen readings. Pass these readings to `calibrate`, which uses them to fit and to calibrate."
        )
    if fitted.problem is None:
        raise ValueError(
            "`fitted` was loaded without its problem. Pass it when loading, gb.load(folder, pinn.Fitted, "
            "problem=...)."
        )
    if traits_of(fitted.net).windowed:
        raise ValueError(
            "`fitted` has one network per time window, which the readings would make discontinuous. Train a "
            "single network, pinn.fit(problem, net, recipe=pinn.Recipe.by_newton())."
        )
    outputs = fitted.problem.names.outputs
    if len(outputs) != 1:
        raise ValueError(f"A tangent band needs a network with one output, got {', '.join(outputs)}.")
