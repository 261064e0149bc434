"""Write the notebooks and run them, outputs included: `python docs/notebooks/make.py [name ...]`.

Their sources stand below, as cells that begin with `# %%`, or `# %% [markdown]` for text.
"""

import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

FOLDER = Path(__file__).parent

MODEL = """
# %% [markdown]
# # I have a model
#
# You trained something, somewhere, with whatever library you like. You also have some measurements that it
# has not seen. This notebook puts a band around its predictions and tells you how far to trust it.
#
# First a stand-in for your model: a small torch network, trained on noisy readings along a pipe. The
# sensors in the middle of the pipe are worse than the others.

# %%
%matplotlib inline
import matplotlib.pyplot as plt
import numpy as np
import torch

import guardband as gb

plt.rcParams["figure.dpi"] = 70
rng = np.random.default_rng(0)


def truth(x):
    return np.sin(6 * x) * np.exp(-x)


def measure(n):
    x = rng.uniform(size=(n, 1))
    noise = np.where(abs(x - 0.5) < 0.12, 0.15, 0.03)
    return gb.Observations(x, truth(x) + noise * rng.normal(size=x.shape))


train, cal, fresh = measure(300), measure(100), measure(1000)

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
x, y = (torch.as_tensor(part, dtype=torch.float32) for part in (train.x, train.y))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(1500):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(net(x), y).backward()
    optimizer.step()

# %% [markdown]
# ## A band in two lines
#
# A model becomes a *predictor*. `MeanOnly` says nothing about where it is unsure, so the band has constant
# width. `gb.calibrate` needs points that the model has **not** seen.

# %%
calibrated = gb.calibrate(net, cal.x, cal.y)
grid = np.linspace(0, 1, 400)
ax = gb.plot.band(calibrated(grid, level=0.95), truth=truth(grid), data=cal)

# %% [markdown]
# ## Before you trust it
#
# `gb.check` looks for reasons not to: too few points, leaked training rows, few sensors read often, questions
# from other places. It sees the places only, not the noise.

# %%
print(gb.check(calibrated, fresh.x))

# %% [markdown]
# And what if the questions come from beyond the end of the pipe?

# %%
print(gb.check(calibrated, fresh.x + 0.6))

# %% [markdown]
# ## Does it hold?
#
# Ask with fresh measurements. The last line is a verdict against the exact law. The rows of the middle show
# the weak spot of a constant width.

# %%
middle = {"middle": lambda x: abs(x[:, 0] - 0.5) < 0.12}
print(gb.evaluate(calibrated, fresh.x, fresh.y, regions=middle))

# %% [markdown]
# ## Wide where it must be, narrow elsewhere
#
# If you still have the training data, `gb.Local` learns from the residuals there where misses are large. The
# promise stays the same.

# %%
local = gb.calibrate(net, cal.x, cal.y, calibrator=gb.Local(train))
ax = gb.plot.band(local(grid, level=0.95), truth=truth(grid), data=cal)
print(gb.evaluate(local, fresh.x, fresh.y, regions=middle))

# %% [markdown]
# ## Keep it
#
# Arrays and readable JSON, no pickle. Your own network is handed in again at loading, and compared with what
# it said before.

# %%
gb.save(local, "band")
again = gb.load("band", model=net)
print(again)
print("the same bits:", np.array_equal(again(grid).upper, local(grid).upper))
"""

EQUATION = """
# %% [markdown]
# # I have an equation
#
# Something is carried along and diffuses on its way: -d u'' + u' = 1, with u = 0 at both ends. Near the right
# end the solution drops steeply. We write the equation down, train a network on it and on a few noisy
# measurements, and put a band around the result.

# %%
%matplotlib inline
from dataclasses import dataclass

import matplotlib.pyplot as plt
import torch

import guardband as gb

plt.rcParams["figure.dpi"] = 70

# %% [markdown]
# ## Write what should vanish
#
# `u.d("x")` and `u.d("x", "x")` are derivatives. The exact solution is optional; here it draws the
# measurements and lets us look at the error.

# %%
@dataclass(frozen=True)
class Carried(gb.Problem):
    diffusion: float = 0.1
    domain = gb.Segment(0, 1)

    def residual(self, x, u):
        return -self.diffusion * u.d("x", "x") + u.d("x") - 1

    def conditions(self):
        return [gb.Dirichlet(0.0)]

    def solution(self, x):
        steep = torch.exp((x - 1) / self.diffusion)
        start = torch.exp(torch.tensor(-1 / self.diffusion))
        return x - (steep - start) / (1 - start)


problem = Carried()
train, cal, fresh = (problem.observe(n, noise=0.05, seed=seed) for seed, n in enumerate((40, 60, 1000)))

# %% [markdown]
# ## Train
#
# `Likelihood(data=0.05)` is the noise of the sensors. How far the equation may be off is chosen for you.

# %%
recipe = gb.Recipe(steps=400, finish=300)  # short, for a notebook; leave it out in earnest
likelihood = gb.Likelihood(data=0.05)
fitted = gb.fit(problem, gb.mlp(1, [24, 24]), train, likelihood=likelihood, recipe=recipe, progress=False)
grid = problem.domain.grid(300)
print(f"relative L2 error: {gb.metrics.relative_l2(fitted(grid), problem.solution(grid)):.4f}")

# %% [markdown]
# ## Where is it unsure?
#
# `LastLayerLaplace` asks what data, equation and conditions leave open. Here is its answer, beside the true
# error. The two need not agree: calibration makes the answer honest, not clever.

# %%
predictor = gb.predictors.LastLayerLaplace(fitted)
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(grid, predictor(grid).scale, color=gb.plot.BLUE, label="scale")
ax.plot(grid, abs(fitted(grid) - problem.solution(grid)), color=gb.plot.ORANGE, label="true error")
ax.set(xlabel="x")
legend = ax.legend(frameon=False)

# %% [markdown]
# ## From unsure to guaranteed
#
# That scale knows the network, not the noise of the sensors. `gb.Total(noise=0.05)` adds it, and sixty
# held-out measurements do the rest.

# %%
calibrated = gb.calibrate(predictor, cal.x, cal.y, score=gb.Total(noise=0.05))
ax = gb.plot.band(calibrated(grid, level=0.9), truth=problem.solution(grid), data=cal)

# %% [markdown]
# ## Does it hold?
#
# For new measurements there is an exact law, and a verdict.

# %%
print(gb.evaluate(calibrated, fresh.x, fresh.y, level=0.9))

# %% [markdown]
# For the noise-free truth there is a weaker promise, if the noise is fair. Here we can look, because we know
# the truth.

# %%
truth = problem.solution(fresh.x)
print(gb.evaluate(calibrated, fresh.x, truth, level=0.9, target="truth", median_zero=True))
"""

REVIEWER = """
# %% [markdown]
# # I have a reviewer
#
# A reviewer reads "our bands have 95 % coverage" and asks six questions. Here are the answers, each in one
# cell. The model is a small network on the Allen-Cahn equation.

# %%
%matplotlib inline
import matplotlib.pyplot as plt
import torch

import guardband as gb

plt.rcParams["figure.dpi"] = 70
problem = gb.problems.AllenCahn2D()
train, cal, fresh = (problem.observe(n, noise=0.05, seed=seed) for seed, n in enumerate((200, 100, 1000)))
recipe = gb.Recipe(steps=300, finish=200)  # short, for a notebook
fitted = gb.fit(problem, gb.mlp(2, [32, 32]), train, recipe=recipe, progress=False)
calibrated = gb.calibrate(gb.predictors.Distance(fitted), cal.x, cal.y)

# %% [markdown]
# ## 1. What exactly do you claim?

# %%
print(calibrated.promise)

# %% [markdown]
# ## 2. Does it hold on data that you have not used? And is the network any good?
#
# Coverage against the exact law, width beside constant width, and the error. A network that predicts zero has
# an error of one, and is covered too.

# %%
evaluation = gb.evaluate(calibrated, fresh.x, fresh.y)
print(evaluation)
ax = gb.plot.coverage_curve(evaluation)

# %% [markdown]
# ## 3. With another calibration set, would it still hold? With what confidence?
#
# On average, yes. A single set may give a little less; how much is known exactly. If that is not enough, ask
# for a confidence: the band gets wider, and covers at least the level in 90 % of calibration sets.

# %%
law = gb.conformal.CoverageLaw(gb.conformal.rank(100, 0.95), 100)
low, high = law.interval(0.95)
print(f"coverage {low:.3f} to {high:.3f} in 95 % of calibration sets, below 0.95 in {law.below(0.95):.0%}")

sure = gb.calibrate(gb.predictors.Distance(fitted), cal.x, cal.y, confidence=0.9)
for name, band in (("on average", calibrated), ("with confidence 0.9", sure)):
    print(f"{name:20s} mean width {gb.metrics.sharpness(band(fresh.x)):.3f}")
print("points needed for that, at least:", gb.points_needed(0.95, 0.9))

# %% [markdown]
# ## 4. Your ACD is small. Is that good?
#
# Only beside its floor: what a perfect band shows by luck.

# %%
floor = evaluation.acd_floor
print(f"ACD {evaluation.acd:.3f}")
print(f"a perfect band: {floor.mean:.3f}, mostly {floor.low:.3f} to {floor.high:.3f}")

# %% [markdown]
# ## 5. Were calibration points among the training data? Do the questions come from the same places?
#
# Training points are refused. Other places are noticed.

# %%
try:
    gb.calibrate(gb.predictors.Distance(fitted), train.x, train.y)
except ValueError as error:
    print(error)
corner = 0.5 + 0.5 * torch.rand(200, 2, generator=torch.Generator().manual_seed(0))
print(gb.check(calibrated, corner))

# %% [markdown]
# ## 6. Can I have that on one page?
#
# HTML to send, or Markdown. It says what is claimed and what is not, what was checked and measured, and
# shows it.

# %%
gb.report(calibrated, fresh.x, fresh.y, path="report.html", title="Allen-Cahn: the band and its promise")
page = gb.report(calibrated, fresh.x, fresh.y, path="report.md", title="Allen-Cahn: the band and its promise")
print(*page.read_text().splitlines()[:14], sep="\\n")
"""

SOURCES = {"i_have_a_model": MODEL, "i_have_an_equation": EQUATION, "i_have_a_reviewer": REVIEWER}
CELL = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)


def notebook(source: str) -> NotebookNode:
    """A notebook of cells that have not run."""
    _, *parts = CELL.split(dedent(source))
    cells = []
    for number, (text, body) in enumerate(zip(parts[::2], parts[1::2], strict=True), 1):
        body = re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE) if text else body.strip()
        cell = (new_markdown_cell if text else new_code_cell)(body)
        cell["id"] = f"cell-{number}"
        cells.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def executed(made: NotebookNode) -> NotebookNode:
    """The same notebook with its outputs, run in a folder of its own."""
    metadata = dict(made.metadata)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            made, timeout=120, record_timing=False, resources={"metadata": {"path": folder}}
        )
        made = client.execute()
    for cell in made.cells:
        if cell.cell_type == "code":  # without ipywidgets tqdm complains, and names a folder of this machine
            cell["outputs"] = [output for output in cell.outputs if "TqdmWarning" not in str(output)]
    made["metadata"] = metadata
    return made


def main(chosen: Sequence[str]) -> None:
    """Write the notebooks chosen, or all."""
    for name in chosen or SOURCES:
        nbformat.write(executed(notebook(SOURCES[name])), FOLDER / f"{name}.ipynb")
        print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
