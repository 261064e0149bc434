"""Diagnostics of Markov chains, with a verdict in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from guardband.base import extras
from guardband.base.kept import kept


@kept
@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Diagnostics of chains of weights; the first axis is over chains, the second over draws.

    R-hat and the effective sample size are ArviZ's rank-normalized split and bulk versions.

    Attributes
    ----------
    acceptance, step_size, divergences
        The acceptance rate, the step size and the number of divergent draws of each chain.
    energy
        The energy of each draw.
    potential
        U, the negative log posterior, of each draw.
    norm
        The norm of the weights theta of each draw.
    predictions
        Outputs at some points of the domain, shape (chains, draws, probes).
    prior_norm
        A typical norm of theta under the prior.
    """

    acceptance: np.ndarray
    step_size: np.ndarray
    divergences: np.ndarray
    energy: np.ndarray
    potential: np.ndarray
    norm: np.ndarray
    predictions: np.ndarray
    prior_norm: float

    @cached_property
    def bfmi(self) -> np.ndarray:
        """The Bayesian fraction of missing information per chain; values below 0.3 are a warning."""
        steps = np.diff(self.energy, axis=1)
        return np.mean(steps**2, axis=1) / np.var(self.energy, axis=1)

    @cached_property
    def rhat(self) -> dict[str, float]:
        """R-hat of U, of |theta| and of the worst prediction; above 1.05, the chains disagree."""
        return {name: max(map(_rhat, series)) for name, series in self._series()}

    @cached_property
    def ess(self) -> dict[str, float]:
        """The effective sample size for U, for |theta| and for the worst prediction."""
        return {name: min(map(_ess, series)) for name, series in self._series()}

    @property
    def verdict(self) -> str:
        """An assessment of the chains in a sentence."""
        worst = max(self.rhat, key=lambda name: self.rhat[name])
        if self.divergences.sum() > 0.01 * self.energy.size:
            share = self.divergences.sum() / self.energy.size
            return f"{share:.0%} of the draws diverged. Do not use the draws; increase `warmup`."
        if not self.rhat[worst] <= 1.05:
            norm = float(self.norm.mean())
            if norm < 0.5 * self.prior_norm:
                return (
                    "The chains have not left the neighborhood of their starting points: "
                    f"|theta| {norm:.3g}, prior-typical {self.prior_norm:.3g}; use as a local scale only."
                )
            return f"The chains do not agree yet: R-hat of {worst} is {self.rhat[worst]:.2f}; draw more."
        fewest = min(self.ess, key=lambda name: self.ess[name])
        return f"The chains agree: R-hat at most {self.rhat[worst]:.2f}, worth {self.ess[fewest]:.0f} draws."

    def to_arviz(self) -> Any:
        """The chains as ArviZ's `InferenceData`: U, |theta|, predictions and energies."""
        arviz = extras.load("arviz", "bayes")
        posterior = {"potential": self.potential, "norm": self.norm, "prediction": self.predictions}
        return arviz.from_dict(posterior=posterior, sample_stats={"energy": self.energy})

    def __repr__(self) -> str:
        chains, draws = self.energy.shape
        return f"Diagnostics({chains} chains of {draws} draws. {self.verdict})"

    def _series(self) -> list[tuple[str, list[np.ndarray]]]:
        probes = [self.predictions[..., j] for j in range(self.predictions.shape[-1])]
        return [("U", [self.potential]), ("|theta|", [self.norm]), ("predictions", probes)]


def _rhat(series: np.ndarray) -> float:
    return float(extras.load("arviz", "bayes").rhat(_two_chains(series), method="rank"))


def _ess(series: np.ndarray) -> float:
    return float(extras.load("arviz", "bayes").ess(_two_chains(series), method="bulk"))


def _two_chains(series: np.ndarray) -> np.ndarray:
    """At least two chains, as required by ArviZ; a single chain is cut in half."""
    if len(series) > 1:
        return series
    half = series.shape[1] // 2
    return np.stack([series[0, :half], series[0, -half:]])
