"""Mean-field variational inference over the weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from tqdm.auto import tqdm

from guardband.base import extras
from guardband.base.kept import kept
from guardband.pinn.predictors.draws import StackedWeights
from guardband.pinn.predictors.potential import Potential, Prior, named
from guardband.pinn.training.fitted import Fitted
from guardband.values import Observations


@kept
class MeanFieldVI(StackedWeights):
    """A diagonal normal distribution of the weights that maximizes the evidence lower bound, by Pyro.

    The optimization starts from the fitted network with small spreads. The spread of a mean-field posterior
    rarely ranks errors well, so add the noise (`gb.conformal.Total`) and compare with constant width.

    Parameters
    ----------
    fitted
        A network trained with observations.
    kl
        The weight of the divergence from the prior. 1 is the evidence lower bound, which fits badly for
        networks with thousands of weights. Smaller values give a tempered posterior, which `repr` indicates.
    prior
        The prior of the weights, by default `Prior(fan_in=True)`.
    steps
        The number of steps of Adam.
    learning_rate
        The learning rate of Adam.
    draws
        The number of draws of the weights.
    n_interior, n_boundary
        The numbers of points for equation and conditions.
    seed
        The seed of the points and draws.
    progress
        Whether to show a progress bar.

    Notes
    -----
    Cost: less than another training run; each point takes `draws` evaluations. This requires `pip install
    "guardband[bayes]"`.

    Examples
    --------
    >>> from guardband import pinn
    >>> problem, recipe = pinn.problems.Poisson1D(), pinn.Recipe(steps=20, finish=0)
    >>> fitted = pinn.fit(
    ...     problem, pinn.mlp(1, [8]), problem.observe(30), recipe=recipe, progress=False
    ... )
    >>> pinn.predictors.MeanFieldVI(fitted, steps=20, progress=False)
    MeanFieldVI(100 draws, tempered, kl=0.1)
    """

    kl: float
    steps: int
    mean: Tensor
    spread: Tensor
    history: list[float]

    @torch.inference_mode(False)
    @torch.enable_grad()
    def __init__(
        self,
        fitted: Fitted,
        *,
        kl: float = 0.1,
        prior: Prior | None = None,
        steps: int = 1000,
        learning_rate: float = 1e-4,
        draws: int = 100,
        n_interior: int = 256,
        n_boundary: int = 256,
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        if not 0 < kl <= 1:
            raise ValueError(f"`kl` should lie in (0, 1], where 1 is the evidence lower bound, got {kl}.")
        self.kl, self.steps = kl, steps
        potential = Potential(
            fitted, prior or Prior(fan_in=True), n_interior=n_interior, n_boundary=n_boundary, seed=seed
        )
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.mean, self.spread, self.history = _fit(potential, kl, steps, learning_rate, progress)
            noise = torch.randn(draws, len(self.mean), dtype=torch.float32)
        weights = self.mean + self.spread * noise.to(self.mean)
        super().__init__(fitted.net, named(fitted.net, weights), fitted.training_data)
        self.held_out: Observations | None = fitted.held_out

    def __repr__(self) -> str:
        kind = "evidence lower bound" if self.kl == 1 else f"tempered, kl={self.kl:g}"
        return f"MeanFieldVI({len(self)} draws, {kind})"


def _fit(
    potential: Potential, kl: float, steps: int, learning_rate: float, progress: bool
) -> tuple[Tensor, Tensor, list[float]]:
    """Means and spreads of the weights, (P,) each, and the loss at every step."""
    pyro, poutine = extras.load("pyro", "bayes"), extras.load("pyro.poutine", "bayes")
    infer, optim = extras.load("pyro.infer", "bayes"), extras.load("pyro.optim", "bayes")
    normal = extras.load("pyro.distributions", "bayes").Normal
    softplus = torch.nn.functional.softplus
    zero = torch.zeros_like(potential.start)
    curvature = potential.gradients().square().sum(0)
    start = (kl / (curvature + kl / potential.scales**2)).sqrt()  # the optimum for a quadratic misfit

    def model() -> None:
        with poutine.scale(scale=kl):
            theta = pyro.sample("theta", normal(zero, potential.scales).to_event(1))
        pyro.factor("likelihood", -potential.misfit(theta))

    def guide() -> None:
        mean = pyro.param("mean", potential.start.clone())
        raw = pyro.param("raw", start.expm1().log())
        with poutine.scale(scale=kl):
            pyro.sample("theta", normal(mean, softplus(raw)).to_event(1))

    def rate(step: int) -> float:
        return min(1.0, 10 * (step + 1) / steps) * 0.5 * (1 + math.cos(math.pi * step / steps))

    settings = {"optimizer": torch.optim.Adam, "optim_args": {"lr": learning_rate}, "lr_lambda": rate}
    schedule = optim.LambdaLR(settings)
    history = []
    with pyro.get_param_store().scope():
        svi = infer.SVI(model, guide, schedule, infer.TraceMeanField_ELBO())
        for _ in tqdm(range(steps), disable=not progress, desc="variational", unit="step"):
            history.append(float(svi.step()))
            schedule.step()
        store = pyro.get_param_store()
        return store["mean"].detach(), softplus(store["raw"].detach()), history
