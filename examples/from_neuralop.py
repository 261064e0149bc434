"""A band for an FNO from neuraloperator that predicts the temperature on a ring."""

import numpy as np
import torch
from neuralop.models import FNO

import guardband as gb
from guardband.adapters import from_neuralop, nodes

NODES = 32


def fields(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Temperatures before and after, (n, 1, 32): mode k decays by exp(-k^2 / 50)."""
    rng = np.random.default_rng(seed)
    k = np.arange(NODES // 2 + 1)
    modes = (
        rng.normal(size=(n, 1, len(k))) + 1j * rng.normal(size=(n, 1, len(k)))
    ) * np.exp(-k / 3)
    before, after = (
        np.fft.irfft(NODES * modes * decay, NODES)
        for decay in (1.0, np.exp(-(k**2) / 50))
    )
    return before, after


def measured(n: int, seed: int) -> gb.Observations:
    """The same fields for calibration: one row per field, (n, 32, 1)."""
    before, after = fields(n, seed)
    return gb.Observations(before, nodes(after))


def trained() -> FNO:
    """An FNO trained on 100 pairs of fields."""
    torch.manual_seed(0)
    before, after = (torch.tensor(a, dtype=torch.float32) for a in fields(100, seed=0))
    model = FNO(
        n_modes=(12,), in_channels=1, out_channels=1, hidden_channels=16, n_layers=2
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(200):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(before), after).backward()
        optimizer.step()
    return model


if __name__ == "__main__":
    calibrated = gb.calibrate(
        from_neuralop(trained()), *measured(100, seed=1), score=gb.Simultaneous()
    )
    print(gb.evaluate(calibrated, *measured(1000, seed=2)))
