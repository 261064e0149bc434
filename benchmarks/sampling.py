"""Overhead of Pyro: its Hamiltonian Monte Carlo compared with a bare leapfrog loop on the same potential.

    python benchmarks/sampling.py [--quick]

The potential is that of 2D Allen-Cahn with the paper's network and 300 measurements, as in
`pinn.predictors.HMC`. The two are interleaved in one process on one thread, and the ratio of CPU times is
the median over rounds. The last line is one JSON object of claims.
"""

import argparse
import os

from claims import claim, finish

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import time
from collections.abc import Callable

import numpy as np
import torch
from pyro.infer.mcmc import HMC, MCMC
from torch import Tensor

from guardband import lab, pinn
from guardband.pinn.predictors.potential import Potential

torch.set_num_threads(1)
STEP, LEAPFROG = 1e-4, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    options = parser.parse_args()
    problem = pinn.problems.AllenCahn2D()
    settings = lab.paper.settings(problem)
    data = problem.observe(settings.train, noise=settings.noise, seed=1010)
    recipe = pinn.Recipe(steps=100, finish=0)
    fitted = pinn.fit(problem, pinn.mlp(2, settings.widths, seed=10), data, recipe=recipe, progress=False)
    potential = Counted(Potential(fitted, n_interior=512, n_boundary=256))
    draws = 4
    bare, pyro = bare_loop(potential, draws), with_pyro(potential, draws)
    calls = [potential.calls_of(run) for run in (bare, pyro)]
    times = np.array([(seconds(bare), seconds(pyro)) for _ in range(5 if options.quick else 15)])
    per_gradient = 1e3 * np.median(times, axis=0) / (draws * LEAPFROG)
    print(f"bare loop  {per_gradient[0]:.2f} ms per gradient")
    print(f"Pyro       {per_gradient[1]:.2f} ms per gradient")
    ratio = float(np.median(times[:, 0] / times[:, 1]))
    finish(
        [
            claim("potentials_of_pyro_vs_bare_leapfrog", calls[1] / calls[0], "<= 1.2"),
            claim("pyro_vs_bare_leapfrog", ratio, ">= 0.2" if options.quick else ">= 0.75"),
        ]
    )


class Counted:
    """A potential that counts its evaluations."""

    def __init__(self, potential: Potential) -> None:
        self.potential, self.start, self.calls = potential, potential.start, 0

    def __call__(self, theta: Tensor) -> Tensor:
        self.calls += 1
        return self.potential(theta)

    def calls_of(self, run: Callable[[], object]) -> int:
        before = self.calls
        run()
        return self.calls - before


def bare_loop(potential: Counted, draws: int) -> Callable[[], object]:
    """Hamiltonian Monte Carlo with a fixed step, written out."""

    def gradient(theta: Tensor) -> tuple[Tensor, Tensor]:
        theta = theta.detach().requires_grad_()
        u = potential(theta)
        return u.detach(), torch.autograd.grad(u, theta)[0]

    def run() -> Tensor:
        generator = torch.Generator().manual_seed(0)
        theta = potential.start
        u, slope = gradient(theta)
        for _ in range(draws):
            momentum = torch.randn(len(theta), generator=generator)
            energy = u + 0.5 * momentum @ momentum
            new, u_new, slope_new = theta, u, slope
            for _ in range(LEAPFROG):
                momentum = momentum - 0.5 * STEP * slope_new
                new = new + STEP * momentum
                u_new, slope_new = gradient(new)
                momentum = momentum - 0.5 * STEP * slope_new
            change = float(energy - u_new - 0.5 * momentum @ momentum)
            if float(torch.rand((), generator=generator)) < np.exp(min(0.0, change)):
                theta, u, slope = new, u_new, slope_new
        return theta

    return run


def with_pyro(potential: Counted, draws: int) -> Callable[[], object]:
    """The same with Pyro."""

    def run() -> object:
        kernel = HMC(
            potential_fn=lambda params: potential(params["theta"]),
            step_size=STEP,  # type: ignore[arg-type]
            num_steps=LEAPFROG,
            adapt_step_size=False,
            adapt_mass_matrix=False,
        )
        start = {"theta": potential.start.clone()}
        return MCMC(kernel, draws, warmup_steps=0, initial_params=start, disable_progbar=True).run()

    return run


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
