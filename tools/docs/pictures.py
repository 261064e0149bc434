"""Draw the solutions, predictions and errors of the four problems: `python tools/regenerate.py pictures`."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

import guardband as gb
from guardband import lab, pinn
from guardband.pinn.problems import AllenCahn2D, DampedOscillator, Helmholtz3D, Poisson1D, Problem

FOLDER = Path(__file__).parents[2] / "docs/images"


def fitted(problem: Problem) -> pinn.Fitted:
    """The default training on as many noisy readings as the paper has."""
    settings = lab.paper.settings(problem)
    data = problem.observe(settings.train, noise=settings.noise, seed=1010)
    likelihood = pinn.Likelihood(data=settings.noise)
    return pinn.fit(problem, pinn.mlp(problem), data, likelihood=likelihood, seed=10, progress=False)


def title(problem: Problem, model: pinn.Fitted, where: str = "") -> str:
    """The errors of the network and of its readings, relative to the solution."""
    assert model.training_data is not None
    inside = problem.domain.uniform(10_000, torch.Generator().manual_seed(0))
    error = gb.metrics.relative_l2(model(inside), problem.solution(inside))
    noise = gb.metrics.relative_l2(model.training_data.y, problem.solution(model.training_data.x))
    said = f"error of the readings {100 * noise:.2g} %, of the network {100 * error:.1g} %"
    return f"{type(problem).__name__}{where}: {said}"


def line(problem: Problem, name: str) -> None:
    """A problem in one dimension: truth, prediction and data, and the error below."""
    model = fitted(problem)
    x = problem.domain.grid(400)
    truth, mean = problem.solution(x), model(x)
    figure, (above, below) = plt.subplots(
        2, 1, sharex=True, figsize=(6.4, 4.5), height_ratios=[3, 1], layout="constrained"
    )
    assert model.training_data is not None
    above.plot(
        model.training_data.x, model.training_data.y, ".", color=gb.plot.GRAY, ms=3, alpha=0.6, label="data"
    )
    above.plot(x, mean, color=gb.plot.BLUE, lw=4, alpha=0.5, label="PINN")
    above.plot(x, truth, "--", color=gb.plot.ORANGE, label="truth")
    above.set(ylabel=problem.names.outputs[0])
    above.set_title(title(problem, model), fontsize="medium")
    above.legend(frameon=False)
    below.plot(x, mean - truth, color=gb.plot.BLUE)
    below.axhline(0, color=gb.plot.GRAY, lw=0.5)
    below.set(xlabel=problem.names.axes[0], ylabel="error")
    save(figure, name)


def plane(problem: Problem, name: str) -> None:
    """A problem in the plane, or a slice through the middle of a cube: truth, prediction, error."""
    model = fitted(problem)
    d = problem.domain.d
    x = problem.domain.grid([80, 80, *[1] * (d - 2)])
    x[:, 2:] = torch.tensor(problem.domain.center)[2:]
    truth, mean = problem.solution(x), model(x)
    figure, axes = plt.subplots(1, 3, figsize=(7, 3.3), layout="constrained")
    limits = (float(truth.min()), float(truth.max()))
    options = {"names": problem.names, "domain": problem.domain if d == 2 else None, "colorbar": "bottom"}
    gb.plot.heatmap(x[:, :2], truth, limits=limits, ax=axes[0], **options)
    gb.plot.heatmap(x[:, :2], mean, limits=limits, ax=axes[1], **options)
    gb.plot.heatmap(x[:, :2], mean - truth, signed=True, ax=axes[2], **options)
    where = "" if d == 2 else f" at {problem.domain.names[2]} = {problem.domain.center[2]:g}"
    output = problem.names.outputs[0]
    for ax, panel in zip(axes, (f"{output}, truth", f"{output}, PINN", "error"), strict=True):
        ax.set_title(panel, fontsize="medium")
        ax.set_xticks([problem.domain.lower[0], problem.domain.center[0], problem.domain.upper[0]])
        ax.label_outer()
    figure.suptitle(title(problem, model, where), fontsize="medium")
    save(figure, name)


def save(figure: Figure, name: str) -> None:
    """Write a picture of the page."""
    figure.savefig(FOLDER / f"{name}.png", dpi=120)


if __name__ == "__main__":
    line(Poisson1D(), "poisson")
    line(DampedOscillator(), "oscillator")
    plane(AllenCahn2D(), "allen_cahn")
    plane(Helmholtz3D(), "helmholtz")
