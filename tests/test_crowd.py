"""The crowd of states: its slope is that of its likelihood, and its draws are of the exact posterior."""

import numpy as np
import pytest
from scipy.stats import norm

from guardband.conformal.local.crowd import MEAN, SIZE, Crowd

POINTS = np.linspace(-1, 1, 12)
SCORES = np.where(POINTS > 0.3, 3.0, 0.5) * abs(np.random.default_rng(0).normal(size=12))
ROUGH, SMOOTH = np.sign(POINTS - 0.3)[:, None], POINTS[:, None]
"""Two lengths of a kernel, with one feature each."""


def crowd(states: int, seed: int = 0) -> Crowd:
    return Crowd([ROUGH, SMOOTH], SCORES, states, np.random.default_rng(seed))


def log_likelihood(feature: np.ndarray, w: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of half-normal scores, with the floor integrated out, written out from the model."""
    h = MEAN[0] + MEAN[1] * a + SIZE[0] * np.exp(SIZE[1] * b) * w * feature[:, 0]
    logs = np.logaddexp(0, h)
    return -logs.sum(-1) - 0.5 * len(SCORES) * np.log((SCORES**2 * np.exp(-2 * logs)).sum(-1))


def test_the_slope_is_that_of_the_likelihood() -> None:
    states = crowd(6)
    fit, slope = states._likelihood(states.z)
    parts = [
        log_likelihood([ROUGH, SMOOTH][k], *z[:, None]) for k, z in zip(states.kernel, states.z, strict=True)
    ]
    assert fit == pytest.approx(np.array(parts))
    for column in range(3):
        step = 1e-5 * np.eye(3)[column]
        rise = states._likelihood(states.z + step)[0] - states._likelihood(states.z - step)[0]
        assert slope[:, column] == pytest.approx(rise / 2e-5, rel=1e-5, abs=1e-6)


def test_the_draws_are_of_the_posterior() -> None:
    """Beside quadrature, with 4000 states: the share of each kernel and the mean of every coordinate."""
    grid = np.linspace(-6, 6, 81)
    w, a, b = (part[..., None] for part in np.meshgrid(grid, grid, grid, indexing="ij"))
    prior = sum(norm.logpdf(part[..., 0]) for part in (w, a, b))
    logs = np.stack([prior + log_likelihood(feature, w, a, b) for feature in (ROUGH, SMOOTH)])
    exact = np.exp(logs - logs.max())
    exact /= exact.sum()
    states = crowd(4000)
    states.lead()
    states.move(5)
    spread = 4 / np.sqrt(1000)  # states are worth fewer than they are
    assert states.power == 1.0
    assert (states.kernel == 0).mean() == pytest.approx(exact[0].sum(), abs=spread)
    for column, part in enumerate((w, a, b)):
        mean = (exact.sum(0) * part[..., 0]).sum()
        sd = np.sqrt((exact.sum(0) * (part[..., 0] - mean) ** 2).sum())
        assert states.z[:, column].mean() == pytest.approx(mean, abs=spread * sd)
        assert states.z[:, column].std() == pytest.approx(sd, rel=spread)


def test_states_of_a_kernel_stand_together_and_keep_what_they_fit() -> None:
    states = crowd(40)
    states.lead()
    assert (np.diff(states.kernel) >= 0).all()
    assert states.fit == pytest.approx(states._likelihood(states.z)[0])
