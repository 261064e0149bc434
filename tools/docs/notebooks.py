"""Write the notebooks and run them, outputs included: `python tools/regenerate.py notebook-NAME`.

Their sources are below, as cells that begin with `# %%`, or `# %% [markdown]` for text.
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

FOLDER = Path(__file__).parents[2] / "docs/notebooks"

INSTALL = """\
#
# ```sh
# pip install guardband    # once it is released; until then the wheel: pip install guardband-*.whl
# ```
"""

MODEL = """
# %% [markdown]
# # I have a model
INSTALL
#
# A trained model, from any library, and measurements that it has not seen are enough for a band around its
# predictions. The model here is a small torch network, trained on readings along a pipe whose sensors are
# noisier in the middle.

# %%
%matplotlib inline
import matplotlib.pyplot as plt
import numpy as np
import torch

import guardband as gb
from guardband import pinn

plt.rcParams["figure.dpi"] = 70
rng = np.random.default_rng(0)


def measure(n):
    x = rng.uniform(size=(n, 1))
    noise = np.where(abs(x - 0.5) < 0.12, 0.15, 0.03)
    return gb.Observations(x, np.sin(6 * x) * np.exp(-x) + noise * rng.normal(size=x.shape))


train, cal, fresh = measure(300), measure(100), measure(1000)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
x, y = (torch.as_tensor(part, dtype=torch.float32) for part in train)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(1500):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(net(x), y).backward()
    optimizer.step()

# %% [markdown]
# ## The band
#
# Calibrate a torch module, a scikit-learn regressor or a function directly. With the training data, which are
# optional, `gb.Local` learns where errors are large, and makes the band wide there and narrow elsewhere.

# %%
calibrated = gb.calibrate(net, cal.x, cal.y, calibrator=gb.Local(train))
print(calibrated.promise)
ax = gb.plot.band(calibrated(np.linspace(0, 1, 400), level=0.95), data=cal)

# %% [markdown]
# ## Evaluate it
#
# Compare coverage on new measurements with its exact distribution and with a band of constant width. The rows
# for the middle show the advantage of `Local`.

# %%
middle = {"middle": lambda x: abs(x[:, 0] - 0.5) < 0.12}
print(gb.evaluate(calibrated, fresh.x, fresh.y, regions=middle))

# %% [markdown]
# ## Check the assumptions
#
# `gb.check` looks for reasons not to trust the band at the query points, here beyond the end of the pipe.

# %%
print(gb.check(calibrated, fresh.x + 0.6))

# %% [markdown]
# ## Save and load it
#
# The folder contains arrays and readable JSON, no pickle. Pass your own network again when loading; guardband
# compares its answers with the stored ones.

# %%
gb.save(calibrated, "band")
again = gb.load("band", model=net)
print("the same bits:", np.array_equal(again(fresh.x).upper, calibrated(fresh.x).upper))
"""

EQUATION = """
# %% [markdown]
# # I have an equation
INSTALL
#
# Advection and diffusion: $-d\\,u'' + u' = 1$, with $u = 0$ at both ends. Write the equation, train a
# network on it and on forty noisy readings, and compute a band around the result.

# %%
%matplotlib inline
from dataclasses import dataclass

import matplotlib.pyplot as plt
import torch

import guardband as gb
from guardband import pinn

plt.rcParams["figure.dpi"] = 70


@dataclass(frozen=True)
class Carried(pinn.Problem):
    diffusion: float = 0.1
    domain = pinn.Segment(0, 1)

    def residual(self, x, u):  # zero for the solution
        return -self.diffusion * u.d("x", "x") + u.d("x") - 1

    def conditions(self):
        return [pinn.Dirichlet(0.0)]

    def solution(self, x):  # known here, to generate readings; omit it for your own
        steep = torch.exp((x - 1) / self.diffusion)
        start = torch.exp(torch.tensor(-1 / self.diffusion))
        return x - (steep - start) / (1 - start)


problem = Carried()
train, cal, fresh = (problem.observe(n, noise=0.05, seed=seed) for seed, n in enumerate((40, 60, 1000)))

# %% [markdown]
# ## Train, and check convergence
#
# `Likelihood(data=0.05)` is the noise of the sensors; everything else has defaults.

# %%
fitted = pinn.fit(problem, pinn.mlp(problem), train, likelihood=pinn.Likelihood(data=0.05), progress=False)
print(fitted.verdict)

# %% [markdown]
# ## The band
#
# `LastLayerLaplace` measures the uncertainty that readings, equation and conditions leave;
# `gb.conformal.Total` adds the noise of the sensors; sixty held-out readings calibrate the band.

# %%
predictor = pinn.predictors.LastLayerLaplace(fitted)
calibrated = gb.calibrate(predictor, cal.x, cal.y, score=gb.conformal.Total(noise=0.05))
grid = problem.domain.grid(300)
ax = gb.plot.band(calibrated(grid, level=0.9), truth=problem.solution(grid), data=cal)

# %% [markdown]
# ## Evaluate it
#
# The verdict compares coverage on new measurements with its exact distribution.

# %%
print(gb.evaluate(calibrated, fresh.x, fresh.y, level=0.9))
"""

REVIEWER = """
# %% [markdown]
# # I have a reviewer
INSTALL
#
# A reviewer who reads "our bands have 95 % coverage" may ask five questions. Each cell answers one, for a
# small network on the Allen-Cahn equation.

# %%
%matplotlib inline
import matplotlib.pyplot as plt
import torch

import guardband as gb
from guardband import pinn

plt.rcParams["figure.dpi"] = 70
problem = pinn.problems.AllenCahn2D()
train, cal, fresh = (problem.observe(n, noise=0.05, seed=seed) for seed, n in enumerate((200, 100, 1000)))
recipe = pinn.Recipe(steps=300, finish=200)  # short, for a notebook
fitted = pinn.fit(problem, pinn.mlp(2, [32, 32]), train, recipe=recipe, progress=False)
calibrated = gb.calibrate(fitted, cal.x, cal.y)

# %% [markdown]
# ## 1. What exactly do you claim?

# %%
print(calibrated.promise)

# %% [markdown]
# ## 2. Does it hold on unused data, and is the network good?
#
# The table has coverage with its exact distribution, the width, the error, and the ACD with its noise floor,
# the ACD of a perfect band. A network that predicts zero has an error of one but can have the same coverage.

# %%
evaluation = gb.evaluate(calibrated, fresh.x, fresh.y)
print(evaluation)
ax = gb.plot.coverage_curve(evaluation)

# %% [markdown]
# ## 3. Would it hold with another calibration set?
#
# On average, yes. The coverage for a single set has a known distribution. With a confidence the band is
# wider, and covers at least the level for 90 % of calibration sets.

# %%
(law, _), *_ = calibrated.laws(0.95, len(fresh.x))
low, high = law.interval(0.95)
print(f"coverage {low:.3f} to {high:.3f} in 95 % of calibration sets, below 0.95 in {law.below(0.95):.0%}")
sure = gb.calibrate(fitted, cal.x, cal.y, confidence=0.9)
for name, band in (("on average", calibrated), ("with confidence 0.9", sure)):
    print(f"{name:20s} mean width {gb.metrics.sharpness(band(fresh.x)):.3f}")

# %% [markdown]
# ## 4. Are calibration points independent of training, and queries from the same distribution?
#
# Training points are refused, and queries from other locations are detected.

# %%
try:
    gb.calibrate(fitted, train.x, train.y)
except ValueError as error:
    print(error)
corner = 0.5 + 0.5 * torch.rand(200, 2, generator=torch.Generator().manual_seed(0))
print(gb.check(calibrated, corner))

# %% [markdown]
# ## 5. Can I have this on one page?

# %%
page = gb.report(calibrated, fresh.x, fresh.y, path="report.html", title="Allen-Cahn: the band")
print(f"{page.name}, {page.stat().st_size / 1024:.0f} kB, to be sent as it is")
"""

SOURCES = {"i_have_a_model": MODEL, "i_have_an_equation": EQUATION, "i_have_a_reviewer": REVIEWER}
CELL = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)


def notebook(source: str) -> NotebookNode:
    """A notebook with cells that have not been executed."""
    _, *parts = CELL.split(dedent(source).replace("INSTALL\n", INSTALL))
    cells = []
    for number, (text, body) in enumerate(zip(parts[::2], parts[1::2], strict=True), 1):
        body = re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE) if text else body.strip()
        cell = (new_markdown_cell if text else new_code_cell)(body)
        cell["id"] = f"cell-{number}"
        cells.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def executed(made: NotebookNode) -> NotebookNode:
    """The same notebook with its outputs, executed in a temporary folder."""
    metadata = dict(made.metadata)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            made, timeout=120, record_timing=False, resources={"metadata": {"path": folder}}
        )
        made = client.execute()
    for cell in made.cells:
        if cell.cell_type == "code":  # without ipywidgets, tqdm warns with a path of this machine
            cell["outputs"] = [output for output in cell.outputs if "TqdmWarning" not in str(output)]
    made["metadata"] = metadata
    return made


def main(chosen: Sequence[str]) -> None:
    """Write the given notebooks, or all."""
    for name in chosen or SOURCES:
        nbformat.write(executed(notebook(SOURCES[name])), FOLDER / f"{name}.ipynb")
        print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
