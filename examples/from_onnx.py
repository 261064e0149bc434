"""A band for an ONNX graph: a torch network, exported, then run without torch."""

import numpy as np
import torch

import guardband as gb
from guardband.adapters import from_onnx


def truth(x: np.ndarray) -> np.ndarray:
    """A damped oscillation."""
    return np.exp(-0.3 * x) * np.cos(2 * x)


def measured(n: int, seed: int) -> gb.Observations:
    """Readings at n random times in [0, 5], with noise of 0.05."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 5, size=(n, 1))
    return gb.Observations(x, truth(x) + 0.05 * rng.normal(size=(n, 1)))


def trained() -> bytes:
    """The graph, for any number of rows, of a small network fitted to 300 readings."""
    torch.manual_seed(0)
    x, y = (torch.tensor(a, dtype=torch.float32) for a in measured(300, seed=0))
    net = torch.nn.Sequential(
        torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(1000):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
    rows = {0: torch.export.Dim("rows")}
    program = torch.onnx.export(net.eval(), (x,), dynamic_shapes=(rows,), verbose=False)
    assert program is not None
    return program.model_proto.SerializeToString()


if __name__ == "__main__":
    calibrated = gb.calibrate(from_onnx(trained()), *measured(100, seed=1))
    print(gb.evaluate(calibrated, *measured(1000, seed=2)))
