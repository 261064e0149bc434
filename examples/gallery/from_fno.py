"""A band for the whole field predicted by a Fourier neural operator

An FNO of neuraloperator maps a velocity on a ring to the velocity at a later time, when
Burgers' equation has steepened it into fronts. One row is one field: two hundred pairs
that the operator has not seen calibrate `gb.Simultaneous`, and the band then covers a
new field at all nodes at once with a probability of 95 %. The initial fields have to be
exchangeable; their nodes may depend on each other and do not count as points.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from neuralop.models import FNO

import guardband as gb
from guardband.adapters import from_neuralop, nodes

NODES, VISCOSITY, TIME = 64, 0.05, 1.0


def fields(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Exact velocities before and after, (n, 1, NODES), by the Cole-Hopf transform."""
    rng = np.random.default_rng(seed)
    x, k = (
        np.linspace(0, 2 * np.pi, NODES, endpoint=False),
        np.fft.rfftfreq(NODES, 1 / NODES),
    )
    a, b = rng.normal(size=(2, n, 3, 1)) / np.array([1, 2, 3])[:, None] ** 1.5
    modes = np.arange(1, 4)[:, None]
    before = 0.6 * (a * np.sin(modes * x) + b * np.cos(modes * x)).sum(axis=1)
    integral = 0.6 * ((-a * np.cos(modes * x) + b * np.sin(modes * x)) / modes).sum(
        axis=1
    )
    heat = np.fft.rfft(np.exp(-integral / (2 * VISCOSITY))) * np.exp(
        -VISCOSITY * k**2 * TIME
    )
    after = (
        -2 * VISCOSITY * np.fft.irfft(1j * k * heat, NODES) / np.fft.irfft(heat, NODES)
    )
    return before[:, None], after[:, None]


def trained(steps: int) -> FNO:
    """An FNO trained on 200 pairs of fields."""
    torch.manual_seed(0)
    before, after = (
        torch.tensor(field, dtype=torch.float32) for field in fields(200, seed=0)
    )
    model = FNO(
        n_modes=(24,), in_channels=1, out_channels=1, hidden_channels=16, n_layers=3
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(before), after).backward()
        optimizer.step()
    return model


predictor = from_neuralop(trained(300))
before, after = fields(200, seed=1)
calibrated = gb.calibrate(predictor, before, nodes(after), score=gb.Simultaneous())

before, after = fields(1000, seed=2)
band = calibrated(before, level=0.95)
held = band.contains(nodes(after)).mean()
x = np.linspace(0, 2 * np.pi, NODES, endpoint=False)
figure, axes = plt.subplots(2, 1, figsize=(6.4, 4.8), sharex=True, layout="constrained")
for row, ax in enumerate(axes):
    ax.plot(x, before[row, 0], color=gb.plot.GRAY, ls=":", label="before")
    ax.fill_between(
        x,
        band.lower[row, :, 0],
        band.upper[row, :, 0],
        color=gb.plot.BLUE,
        alpha=0.25,
        lw=0,
    )
    ax.plot(x, band.mean[row, :, 0], color=gb.plot.BLUE, label="FNO and its 95 % band")
    ax.plot(x, after[row, 0], color=gb.plot.ORANGE, ls="--", lw=1.4, label="after")
    ax.set(xlim=(0, x[-1]), ylabel="velocity")
axes[0].set_title(
    f"{100 * held:.0f} % of new fields lie wholly in their 95 % band", fontsize="medium"
)
axes[0].legend(frameon=False, fontsize="small", ncols=3)
axes[1].set_xlabel("angle on the ring")
figure.savefig("from_fno.png", dpi=120)
