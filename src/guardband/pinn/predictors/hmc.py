"""Hamiltonian Monte Carlo over the weights, with diagnostics."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import torch
from tqdm.auto import tqdm

from guardband.base import extras
from guardband.base.kept import kept
from guardband.pinn.predictors.diagnostics import Diagnostics
from guardband.pinn.predictors.draws import StackedWeights
from guardband.pinn.predictors.potential import Potential, Prior, named
from guardband.pinn.training.fitted import Fitted
from guardband.values import Observations

TREE_DEPTH = 6
"""The base-2 logarithm of the largest number of gradients per draw of NUTS."""

PROBES = 16
"""The number of domain points at which the diagnostics record predictions."""


@kept
class HMC(StackedWeights):
    """Draws from the posterior of the weights by Pyro, with one chain from each fitted network.

    The posterior combines the training likelihood with a normal prior. For networks with thousands of
    weights, no affordable run leaves the neighborhood of its start. `diagnostics.verdict` then reports this,
    and the spread is only a local scale.

    Parameters
    ----------
    fitted, *others
        The fitted networks at which the chains start.
    draws
        The number of draws of each chain.
    warmup
        The number of draws during which the step size is adapted.
    leapfrog
        The number of gradients per draw.
    sampler
        "hmc", or "nuts", which chooses the number of gradients per draw, up to 2^6.
    prior
        The prior of the weights.
    n_interior, n_boundary
        The numbers of points for equation and conditions.
    seed
        The seed of the points and chains.
    progress
        Whether to show a progress bar.

    Notes
    -----
    Cost: (warmup + draws) x leapfrog gradients per chain, about two training runs each by default; each point
    takes one evaluation per draw. This requires `pip install "guardband[bayes]"`.

    Examples
    --------
    >>> from guardband import pinn
    >>> problem, recipe = pinn.problems.Poisson1D(), pinn.Recipe(steps=20, finish=0)
    >>> fitted = pinn.fit(
    ...     problem, pinn.mlp(1, [8]), problem.observe(30), recipe=recipe, progress=False
    ... )
    >>> pinn.predictors.HMC(fitted, draws=5, warmup=3, progress=False)
    HMC(5 draws)
    """

    @torch.inference_mode(False)
    @torch.enable_grad()
    def __init__(
        self,
        fitted: Fitted,
        *others: Fitted,
        draws: int = 200,
        warmup: int = 100,
        leapfrog: int = 10,
        sampler: Literal["hmc", "nuts"] = "hmc",
        prior: Prior | None = None,
        n_interior: int = 512,
        n_boundary: int = 256,
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        extras.load("pyro", "bayes")
        starts = (fitted, *others)
        potentials = [
            Potential(start, prior, n_interior=n_interior, n_boundary=n_boundary, seed=seed)
            for start in starts
        ]
        sizes = sorted({len(potential.start) for potential in potentials})
        if len(sizes) > 1:
            raise ValueError(
                "All networks should have the same layers, got networks with "
                f"{' and '.join(map(str, sizes))} weights. The draws of all chains are stored together."
            )
        total = len(potentials) * (draws + warmup)
        with tqdm(total=total, disable=not progress, desc=sampler, unit="draw") as bar:
            chains = [
                _chain(potential, draws, warmup, leapfrog, sampler, seed + i, bar)
                for i, potential in enumerate(potentials)
            ]
        potential = potentials[0]
        weights = torch.stack([chain["theta"] for chain in chains])
        net = potential.net
        super().__init__(net, named(net, weights.flatten(0, 1)), fitted.training_data)
        self.held_out: Observations | None = fitted.held_out
        probes = fitted.problem.domain.quasi(PROBES, seed=seed, dtype=torch.float32)
        outputs = self.outputs(probes)[..., 0].reshape(len(chains), draws, PROBES)
        self.diagnostics: Diagnostics = Diagnostics(
            acceptance=np.array([chain["acceptance"] for chain in chains]),
            step_size=np.array([chain["step_size"] for chain in chains]),
            divergences=np.array([chain["divergences"] for chain in chains]),
            energy=np.stack([chain["energy"] for chain in chains]),
            potential=np.stack([chain["potential"] for chain in chains]),
            norm=weights.norm(dim=-1).cpu().double().numpy(),
            predictions=outputs.cpu().double().numpy(),
            prior_norm=float(potential.scales.norm()),
        )

    def __repr__(self) -> str:
        return f"HMC({len(self)} draws)"


def _chain(
    potential: Potential,
    draws: int,
    warmup: int,
    leapfrog: int,
    sampler: str,
    seed: int,
    bar: tqdm,
) -> dict[str, Any]:
    """One chain, with its draws (draws, P), energies, acceptance rate, step size and divergences."""
    mcmc = extras.load("pyro.infer.mcmc", "bayes")
    # The mass matrix is diagonal, with the spread of each weight for a quadratic misfit, given the others.
    unit = (potential.gradients().square().sum(0) + potential.scales**-2) ** -0.5
    kernel_of = _followed(mcmc.NUTS if sampler == "nuts" else mcmc.HMC, leapfrog)
    energies: list[tuple[float, float]] = []

    def hook(kernel: Any, _params: object, stage: str, _i: int) -> None:
        bar.update()
        bar.set_postfix(accepted=f"{kernel._mean_accept_prob:.2f}", step=f"{kernel.step_size:.1e}")
        if "warm" not in stage.lower():
            energies.append((float(kernel._potential_energy_last), kernel.energy))

    kernel = kernel_of(
        potential_fn=lambda params: potential(potential.start + unit * params["z"]),
        step_size=0.1 / math.sqrt(len(potential.start)),
        adapt_step_size=True,
        adapt_mass_matrix=False,
        **({"max_tree_depth": TREE_DEPTH} if sampler == "nuts" else {}),
    )
    run = mcmc.MCMC(
        kernel,
        num_samples=draws,
        warmup_steps=warmup,
        initial_params={"z": torch.zeros_like(potential.start)},
        disable_progbar=True,
        hook_fn=hook,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        run.run()
    # `run.diagnostics()` would add effective sizes of all weights, with memory draws^2 each.
    found = run._diagnostics[0]
    potentials, energy = np.array(energies).T
    return {
        "theta": potential.start + unit * run.get_samples()["z"],
        "potential": potentials,
        "energy": energy,
        "acceptance": found["acceptance rate"],
        "divergences": len(found["divergences"]),
        "step_size": float(kernel.step_size),
    }


def _followed(base: Any, leapfrog: int) -> Any:
    """Pyro's kernel with a fixed number of leapfrog steps, which records the initial energy of each draw."""

    class Followed(base):
        energy = math.nan

        @property
        def num_steps(self) -> int:
            return leapfrog

        def _sample_r(self, name: str) -> Any:
            momentum = super()._sample_r(name)
            self.energy = float(self._kinetic_energy(momentum[1]) + self._potential_energy_last)
            return momentum

    return Followed
