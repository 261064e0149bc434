"""A band for a network from an ONNX file, without its library

The period of a pendulum increases with its amplitude. A small torch network learns this
from readings and is exported to `pendulum.onnx`, which onnxruntime evaluates.
`from_onnx` turns any such graph with one input and one output into a predictor, and a
hundred readings that it has not seen calibrate it. They must be drawn like new
readings, in amplitude and noise.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.special import ellipk

import guardband as gb
from guardband.adapters import from_onnx


def period(amplitude: np.ndarray) -> np.ndarray:
    """The period in units of the period of small oscillations."""
    return 2 / np.pi * ellipk(np.sin(amplitude / 2) ** 2)


def measured(n: int, seed: int) -> gb.Observations:
    """n periods with amplitudes up to 170 degrees, measured to 5 %."""
    rng = np.random.default_rng(seed)
    amplitude = rng.uniform(0, np.radians(170), size=(n, 1))
    return gb.Observations(
        amplitude, period(amplitude) * (1 + 0.05 * rng.normal(size=(n, 1)))
    )


def export(path: Path, steps: int) -> None:
    """Train a small network on 300 readings; export it for any number of rows."""
    torch.manual_seed(0)
    x, y = (torch.tensor(a, dtype=torch.float32) for a in measured(300, seed=0))
    net = torch.nn.Sequential(
        torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
    rows = {0: torch.export.Dim("rows")}
    torch.onnx.export(net.eval(), (x,), path, dynamic_shapes=(rows,), verbose=False)


with tempfile.TemporaryDirectory() as folder:
    export(Path(folder, "pendulum.onnx"), steps=2000)
    predictor = from_onnx(Path(folder, "pendulum.onnx"))
    cal = measured(100, seed=1)
    calibrated = gb.calibrate(predictor, cal.x, cal.y)
    found = gb.evaluate(calibrated, *measured(5000, seed=2))
    amplitude = np.linspace(0, np.radians(170), 300)[:, None]
    band = calibrated(amplitude, level=0.95)

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
gb.plot.band(band, truth=period(amplitude), data=cal, ax=ax)
ax.legend(frameon=False, loc="upper left")
ax.set(xlabel="amplitude", ylabel="period (of small swings: 1)")
ax.set_xticks(np.radians([0, 45, 90, 135]), ["0", "45°", "90°", "135°"])
ax.set_title(
    f"pendulum.onnx: 95 % asked, {100 * found.coverage:.0f} % covered",
    fontsize="medium",
)
figure.savefig("from_onnx.png", dpi=120)
