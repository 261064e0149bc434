"""Variational inference and Hamiltonian Monte Carlo against a posterior that is known."""

import matplotlib

matplotlib.use("Agg")

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from guardband import pinn
from guardband.pinn import Prior
from guardband.pinn.predictors import HMC, MeanFieldVI
from guardband.pinn.predictors.diagnostics import Diagnostics
from guardband.testing import untouched
from helpers import scale
from line import posterior, simulate

THETA = torch.tensor([0.7, -0.4], dtype=torch.float64)
LINE: dict[str, Any] = dict(n_interior=8, progress=False)


def ranks(repetitions: int, draws: int, thin: int = 3, leapfrog: int = 4) -> np.ndarray:
    """The rank of the true slope, offset and their product among posterior draws, for draws of the prior."""
    found = []
    for repetition in range(repetitions):
        generator = torch.Generator().manual_seed(repetition)
        theta = torch.randn(2, generator=generator, dtype=torch.float64)
        fitted, _ = simulate(theta, generator)
        hmc = HMC(fitted, draws=thin * draws, warmup=60, leapfrog=leapfrog, seed=repetition, **LINE)
        slope, offset = (part.flatten()[thin - 1 :: thin] for part in hmc.stacked.values())
        pairs = ((slope, theta[0]), (offset, theta[1]), (slope * offset, theta[0] * theta[1]))
        found.append([int((drawn < true).sum()) for drawn, true in pairs])
    return np.array(found)


def check_uniform(found: np.ndarray, draws: int, bins: int) -> None:
    for column in found.T:
        counts = np.bincount(column * bins // (draws + 1), minlength=bins)
        assert chisquare(counts).pvalue > 1e-3 / found.shape[1], counts


@pytest.mark.slow
def test_hmc_is_calibrated_by_simulation() -> None:
    check_uniform(ranks(16, draws=19), draws=19, bins=4)


@pytest.mark.long
def test_hmc_is_calibrated_by_many_simulations() -> None:
    check_uniform(ranks(500, draws=99, leapfrog=7), draws=99, bins=10)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["hmc", "nuts"])
def test_the_moments_of_the_chain_are_the_closed_form(sampler: Any) -> None:
    fitted, seen = simulate(THETA, torch.Generator().manual_seed(0))
    mean, covariance = posterior(seen)
    with untouched():
        hmc = HMC(fitted, fitted, draws=500, warmup=100, leapfrog=4, sampler=sampler, **LINE)
    drawn = torch.stack([part.flatten() for part in hmc.stacked.values()], dim=1)
    sd = covariance.diagonal().sqrt()
    assert ((drawn.mean(0) - mean).abs() < 0.15 * sd).all()
    assert (drawn.T.cov() - covariance).abs().max() < 0.2 * covariance.abs().max()
    found = hmc.diagnostics
    assert found.verdict.startswith("The chains agree") and "2 chains of 500" in repr(found)
    assert (found.acceptance > 0.6).all() and (found.divergences == 0).all() and (found.bfmi > 0.5).all()
    assert max(found.rhat.values()) < 1.05 and min(found.ess.values()) > 100
    kept = found.to_arviz()
    assert kept.posterior["prediction"].shape == (2, 500, 16)
    x = np.linspace(0, 1, 5)[:, None]
    rows = np.hstack([x, np.ones_like(x)])
    expected = np.sqrt(np.einsum("ni,ij,nj->n", rows, covariance.numpy(), rows))
    assert scale(hmc, x)[:, 0] == pytest.approx(expected, rel=0.2)


@pytest.mark.slow
def test_a_mean_field_has_the_mean_and_the_conditional_spreads_of_the_posterior() -> None:
    fitted, seen = simulate(THETA, torch.Generator().manual_seed(0))
    mean, covariance = posterior(seen)
    with untouched():
        vi = MeanFieldVI(fitted, kl=1.0, prior=Prior(1.0), steps=3000, learning_rate=0.03, **LINE)
    assert torch.allclose(vi.mean, mean, atol=0.05)
    conditional = torch.linalg.inv(covariance).diagonal() ** -0.5  # the best a diagonal normal can do
    assert torch.allclose(vi.spread, conditional, rtol=0.1)
    assert "evidence lower bound" in repr(vi) and len(vi.history) == 3000


def test_a_tempered_posterior_says_so() -> None:
    fitted, _ = simulate(THETA, torch.Generator().manual_seed(0))
    vi = MeanFieldVI(fitted, steps=5, draws=20, **LINE)
    assert "tempered, kl=" in repr(vi) and len(vi) == 20
    with pytest.raises(ValueError, match="lie in"):
        MeanFieldVI(fitted, kl=0.0)


@pytest.mark.parametrize("progress", [True, False])
def test_a_mean_field_shows_its_progress_where_it_may(
    progress: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    fitted, _ = simulate(THETA, torch.Generator().manual_seed(0))
    MeanFieldVI(fitted, steps=2, draws=2, n_interior=8, progress=progress)
    assert ("variational" in capsys.readouterr().err) is progress


def test_energies_are_those_of_the_draws_that_are_kept() -> None:
    fitted, _ = simulate(THETA, torch.Generator().manual_seed(0))
    found = HMC(fitted, draws=4, warmup=3, **LINE).diagnostics
    assert found.energy.shape == found.potential.shape == found.norm.shape == (1, 4)


def diagnostics(**changed: Any) -> Diagnostics:
    noise = np.random.default_rng(0).normal(size=(6, 2, 400))
    settings: dict[str, Any] = dict(
        acceptance=np.array([0.8, 0.8]),
        step_size=np.array([0.1, 0.1]),
        divergences=np.array([0, 0]),
        energy=noise[0],
        potential=noise[1],
        norm=18 + noise[2],
        predictions=noise[3:].transpose(1, 2, 0),
        prior_norm=117.0,
    )
    return Diagnostics(**(settings | changed))


def test_verdicts_are_plain() -> None:
    assert diagnostics().verdict.startswith("The chains agree") and "2 chains of 400" in repr(diagnostics())
    assert diagnostics().to_arviz().posterior["prediction"].shape == (2, 400, 3)
    assert (diagnostics().bfmi > 0.5).all()
    apart = np.random.default_rng(1).normal(size=(2, 400)) + np.array([[18.0], [28.0]])
    assert diagnostics(norm=apart).verdict == (
        "The chains have not left the neighborhood of their starting points: "
        "|theta| 22.9, prior-typical 117; use as a local scale only."
    )
    assert "R-hat of |theta| is" in diagnostics(norm=apart, prior_norm=20.0).verdict
    assert "diverged" in diagnostics(divergences=np.array([0, 30])).verdict
    one = diagnostics()
    alone = {name: getattr(one, name)[:1] for name in ("energy", "potential", "norm", "predictions")}
    assert diagnostics(**alone).rhat["U"] == pytest.approx(1.0, abs=0.03)


def test_chains_of_different_networks_are_refused() -> None:
    fitted, _ = simulate(THETA, torch.Generator().manual_seed(0))
    other = replace(fitted, net=pinn.mlp(1, [3]).double())
    with pytest.raises(ValueError, match="the same layers"):
        HMC(fitted, other, **LINE)


def test_chains_are_drawn() -> None:
    for of, label in (("U", "U"), ("|theta|", "|theta|"), (2, "prediction at probe 2")):
        ax = pinn.plot.trace(diagnostics(), of)
        assert ax.get_ylabel() == label and len(ax.lines) == 2
    with pytest.raises(ValueError, match="number of a probe"):
        pinn.plot.trace(diagnostics(), "theta")


@pytest.mark.parametrize("kind", [HMC, MeanFieldVI])
def test_without_the_extra_one_line_says_what_to_install(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyro"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "pyro", None)
    monkeypatch.setitem(sys.modules, "pyro.infer.mcmc", None)
    fitted, _ = simulate(THETA, torch.Generator().manual_seed(0))
    with pytest.raises(ImportError, match=r'^This needs pyro: pip install "guardband\[bayes\]"$'):
        kind(fitted, **LINE)
