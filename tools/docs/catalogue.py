"""Draw the problems of the catalogue and write its page: `python tools/docs/catalogue.py [--pages]`.

The page has the first sentence of each docstring; the rest is in the reference. `--pages` draws nothing.
"""

import inspect
import math
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

import guardband as gb
from guardband.pinn.problems import Problem, catalogue

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images" / "catalogue"

SECTIONS = {
    "In time, on a line": """
        Heat1D Wave1D Advection1D Burgers1D ReactionDiffusion1D AllenCahn1D KortewegDeVries
        KuramotoSivashinsky VibratingBeam
    """,
    "In time alone, or in space alone": "LotkaVolterra DampedOscillator Poisson1D Beam Helmholtz3D",
    "On shapes": "HeatDisk PoissonLShape PlateWithHole AllenCahn2D",
    "Flows": "Kovasznay TaylorGreen2D Cavity Cylinder",
}

REFERENCE = "reference/the-catalogue.md"

HEAD = """\
# The catalogue

Classical problems, ready to use: `pinn.problems.Burgers1D()`. Each is the equation as in the literature, \
with its parameters as fields and a reference solution: `problem.solution(x)`, \
`problem.observe(n, noise=0.05)`. Reference solutions are closed forms, exact to rounding, or were computed \
by the scripts in `tools/references`; then `problem.reference.error` is their root mean square error, \
estimated by refinement. [The results](../results/catalogue.md) show how well Adam and L-BFGS solve each \
problem, from the equation alone and with readings. Each heading links to the parameters and the known \
difficulties of the problem. To define your own, see [Write an equation](equations.md).
"""


def page() -> str:
    """The Markdown page."""
    lines = [HEAD]
    for title, names in SECTIONS.items():
        lines.append(f"## {title}\n")
        for name in names.split():
            lines += [f"### [{name}]({REFERENCE}#{_home(name)})\n", *_entry(name)]
    return "\n".join(lines)


def _entry(name: str) -> list[str]:
    problem: Any = getattr(catalogue, name)()
    summary = inspect.cleandoc(type(problem).__doc__ or "").partition("\n\n")[0]
    picture = f"![{name}](images/catalogue/{name}.png){{ loading=lazy }}"
    return [" ".join(summary.split()), "", picture, "", *_figures(problem)]


def _home(name: str) -> str:
    """The anchor of a problem in the reference."""
    problem = getattr(catalogue, name)
    return f"{problem.__module__}.{problem.__qualname__}"


def _figures(problem: Any) -> list[str]:
    """The error of a computed reference solution."""
    if not hasattr(problem, "reference"):
        return []
    errors = ", ".join(f"{output} {_power(error)}" for output, error in problem.reference.error.items())
    return [f"Error of the reference: at most {errors}.", ""]


def _power(error: float) -> str:
    """The next power of ten above an error."""
    return f"10<sup>{math.ceil(math.log10(error))}</sup>"


def draw(problem: Problem, file: Path) -> None:
    """The solution: over one axis as lines, over two as fields, over three at the middle of the last."""
    domain, outputs = problem.domain, problem.names.outputs
    if domain.d == 1:
        x = domain.grid(400)
        figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
        for style, output, values in zip(("-", "--"), outputs, problem.solution(x).T, strict=False):
            ax.plot(x, values, style, label=output)
        ax.set(xlabel=domain.names[0], ylabel=", ".join(outputs), xlim=(domain.lower[0], domain.upper[0]))
        if len(outputs) > 1:
            ax.legend(frameon=False)
    else:
        x = domain.grid([241, 241, *[1] * (domain.d - 2)])
        x[:, 2:] = torch.tensor(domain.center)[2:]
        x = x[domain.contains(x)]
        flat = None if "z" in domain.names else domain
        figure = gb.plot.fields(x[:, :2], problem.solution(x), names=problem.names, domain=flat)
        if domain.d == 3:
            figure.suptitle(f"at {domain.names[2]} = {domain.center[2]:g}", fontsize="medium")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=100)
    plt.close(figure)


if __name__ == "__main__":
    if "--pages" not in sys.argv:
        for name in " ".join(SECTIONS.values()).split():
            draw(getattr(catalogue, name)(), IMAGES / f"{name}.png")
    (ROOT / "docs/catalogue.md").write_text(page())
