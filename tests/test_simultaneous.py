"""Simultaneous bands: whole fields at once, at the exact law."""

import numpy as np
import pytest
import torch

import guardband as gb
from guardband.conformal.laws import CoverageLaw, tails, total_counts
from guardband.conformal.rank import rank

NODES = np.linspace(0, 1, 30)


def fields(generator: np.random.Generator, n: int) -> np.ndarray:
    """Random curves (n, 30, 1), wilder to the right."""
    waves = generator.normal(size=(n, 3, 1)) * np.sin(np.outer([1, 2, 3], 3 * NODES))
    return (waves.sum(axis=1) * NODES)[..., None]


@pytest.mark.parametrize("shaped", [False, True])
def test_whole_fields_obey_the_exact_law(shaped: bool) -> None:
    generator, draws, n, m = np.random.default_rng(0), 400, 30, 20
    score = gb.Simultaneous.fitted(fields(generator, 50)) if shaped else gb.Simultaneous()
    for level in (0.5, 0.8, 0.9):
        covered = 0
        for _ in range(draws):
            y = fields(generator, n + m)
            calibrated = gb.calibrate_arrays(0 * y[:n], y[:n], score=score)
            covered += int(calibrated.band(gb.Prediction(None, 0 * y[n:]), level).contains(y[n:]).sum())
        law = total_counts([(CoverageLaw(rank(n, level), n), m)], repeats=draws)
        assert min(tails(law, covered)) > 1e-3 / 12


def test_a_shape_fitted_on_the_calibration_fields_undercovers() -> None:
    generator, draws, n = np.random.default_rng(1), 2000, 10
    covered = 0
    for _ in range(draws):
        y = np.concatenate([fields(generator, n) * 1.0, fields(generator, 1)])
        y = y + 0.5 * generator.normal(size=y.shape)
        score = gb.Simultaneous.fitted(y[:n])
        band = gb.calibrate_arrays(0 * y[:n], y[:n], score=score).band(gb.Prediction(None, 0 * y[n:]), 0.8)
        covered += int(band.contains(y[n:])[0])
    assert covered / draws < 0.76  # three standard errors below 0.8 is 0.773


def test_the_shape_follows_the_misses() -> None:
    shape = gb.Simultaneous.fitted(fields(np.random.default_rng(0), 100)).shape
    assert shape.shape == (30, 1) and shape[-1] > 3 * shape[3] and shape.min() >= 0.01 * shape.max()
    y = torch.tensor(fields(np.random.default_rng(2), 40))
    band = gb.calibrate_arrays(0 * y, y, score=gb.Simultaneous(shape)).band(gb.Prediction(None, 0 * y), 0.9)
    assert isinstance(band.upper, torch.Tensor) and (band.width[:, -1] > 3 * band.width[:, 3]).all()


def test_errors_teach() -> None:
    with pytest.raises(ValueError, match="no second field"):
        gb.calibrate_arrays(np.zeros(20), np.ones(20), score=gb.Simultaneous())
    with pytest.raises(ValueError, match=r"fit the fields, \(30, 1\)"):
        gb.calibrate_arrays(np.zeros((9, 30, 1)), np.ones((9, 30, 1)), score=gb.Simultaneous(np.ones(7)))
    with pytest.raises(ValueError, match="two fields or more"):
        gb.Simultaneous.fitted(np.ones((1, 5, 1)))
    with pytest.raises(ValueError, match="positive"):
        gb.Simultaneous(np.zeros(5))
