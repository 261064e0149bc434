"""Noise models: the fields of the paper, with their regions."""

import pytest
import torch

from guardband.problems import AllenCahn2D, DampedOscillator, noise

X = torch.rand(4000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
T = torch.linspace(0, 5, 501, dtype=torch.float64)[:, None]


def at(model: noise.Noise, *point: float) -> float:
    return float(model.extra(torch.tensor([point], dtype=torch.float64)))


def test_the_islands_are_bumps_with_sharp_edges() -> None:
    islands = noise.Islands()
    assert at(islands, 2.0) == pytest.approx(0.3) and at(islands, 3.15) == pytest.approx(
        0.3 * 2.718281828 ** (-0.28125)
    )
    assert at(islands, 1.21) == 0 and at(islands, 4.0) == 0
    assert islands.region(T).double().mean() == pytest.approx(3 * 0.4 / 5, abs=0.01)
    assert float(islands(torch.tensor([[2.0]]))) == pytest.approx((0.3**2 + 0.05**2) ** 0.5)


def test_the_scenarios_have_the_documented_sizes() -> None:
    assert at(noise.Disc(), 0.2, 0.0) == pytest.approx(0.2) and at(noise.Disc(), 0.0, 0.0) == pytest.approx(
        0.4 / (1 + 2.718281828**-5)
    )
    assert at(noise.Ring(), 0.8, 0.2) == pytest.approx(0.5 / (1 + 2.718281828 ** (-0.05 / 0.07)))
    assert at(noise.Ring(), 0.2, 0.75) == pytest.approx(
        0.25, rel=0.01
    )  # half a thickness outside the ellipse
    corner = noise.DiscAndCorner()
    assert at(corner, -0.5, -0.2) == pytest.approx(0.275, rel=0.02) and at(corner, 0.6, 0.4) == pytest.approx(
        0.275, rel=0.01
    )
    assert at(corner, 0.6, 0.35) == pytest.approx(0.55 / (1 + 2.718281828**-0.5), rel=0.01)
    for model in (noise.Disc(), noise.Ring(), corner, noise.Front()):
        region, mask = model.region(X), model.authors_region(X)
        assert 0 < region.double().mean() < 0.25 and (mask | ~region).all()
        assert model.extra(X)[region].mean() > 4 * model.extra(X)[~mask].mean()


def test_even_noise_is_even() -> None:
    assert (
        torch.equal(noise.Even(0.1)(X), torch.full((4000, 1), 0.1, dtype=torch.float64))
        and noise.Even().region(X).all()
    )


def test_observations_are_as_noisy_as_the_model_says() -> None:
    problem, model = AllenCahn2D(), noise.DiscAndCorner()
    data = problem.observe(20_000, noise=model, seed=1, dtype=torch.float64)
    misses = (data.y - problem.solution(data.x)) / model(data.x)
    assert misses.std() == pytest.approx(1, abs=0.02)
    assert DampedOscillator().observe(10, noise=noise.Islands()).y.shape == (10, 1)
