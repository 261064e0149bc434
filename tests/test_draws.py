"""Draws, dropout and ensembles: many networks, one prediction."""

import numpy as np
import pytest
import torch
from torch import nn

import guardband as gb
from guardband.predictors import Draws, Dropout, Ensemble
from guardband.predictors import draws as module
from helpers import scale

X = torch.rand(30, 2, generator=torch.Generator().manual_seed(0))
QUICK = gb.Recipe(steps=10, finish=0, inside=16, faces=8)


def test_each_draw_is_the_network_with_those_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    nets = [gb.mlp(2, [5, 4], seed=seed) for seed in range(3)]
    stacked = {
        name: torch.stack([dict(net.named_parameters())[name].detach() for net in nets])
        for name, _ in nets[0].named_parameters()
    }
    draws = Draws(nets[0], stacked)
    with torch.no_grad():
        expected = torch.stack([net(X) for net in nets])
    assert torch.allclose(draws.outputs(X), expected, atol=1e-6)
    assert torch.allclose(draws(X).mean, expected.mean(0), atol=1e-6)
    assert torch.allclose(scale(draws, X), expected.std(0), atol=1e-6)
    monkeypatch.setattr(module, "AT_ONCE", 40)
    assert torch.allclose(draws.outputs(X), expected, atol=1e-6)
    assert repr(draws) == "Draws(3 draws)" and len(draws) == 3


@pytest.mark.parametrize("where", ["last", "all"])
def test_a_dropout_draw_is_a_network_with_silent_neurons(where: str) -> None:
    net = gb.mlp(2, [50, 40], dropout=0.25, where=where)  # type: ignore[arg-type]
    predictor = Dropout(net, draws=200, seed=1)
    assert list(predictor.stacked) == [f"layers.{i}.weight" for i in ((1, 2) if where == "all" else (2,))]
    silent = predictor.stacked["layers.2.weight"] == 0
    assert silent.float().mean() == pytest.approx(0.25, abs=0.02)
    kept = net.linears[-1].weight.detach() / 0.75
    assert torch.allclose(predictor.stacked["layers.2.weight"][~silent], kept.expand(200, 1, 40)[~silent])
    again, other = Dropout(net, draws=200, seed=1), Dropout(net, draws=200, seed=2)
    assert torch.equal(scale(again, X), scale(predictor, X))
    assert not torch.equal(scale(other, X), scale(predictor, X))


def test_many_dropout_draws_have_the_mean_of_the_whole_network() -> None:
    net = gb.mlp(2, [50, 40], dropout=0.1)
    predictor = Dropout(net, draws=4000)
    with torch.no_grad():
        whole = net.eval()(X)
    assert ((predictor(X).mean - whole).abs() < 5 * scale(predictor, X) / 4000**0.5).all()


def test_dropout_in_other_networks() -> None:
    plain = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 1))
    assert list(Dropout(plain).stacked) == ["3.weight"]
    inside = gb.Constrained(gb.mlp(2, [4], dropout=0.1), torch.sin, lambda x: x[:, :1])
    assert list(Dropout(inside).stacked) == ["net.layers.1.weight"]
    for net in (gb.mlp(2, [4]), nn.Sequential(nn.Linear(2, 1)), nn.Linear(2, 1)):
        with pytest.raises(ValueError, match="no dropout that is known here"):
            Dropout(net)
    with pytest.raises(ValueError, match="directly before a Linear"):
        Dropout(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5), nn.Tanh()))
    with pytest.raises(TypeError, match="result of `fit`"):
        Dropout(np.sin)
    with pytest.raises(ValueError, match="at least 2"):
        Dropout(plain, draws=1)


def test_an_ensemble_is_mean_and_spread() -> None:
    members = [lambda x, a=a: a * x[:, :1] for a in (1.0, 2.0, 6.0)]
    ensemble, x = Ensemble(members), X.numpy()
    assert np.allclose(ensemble(x).mean, 3 * x[:, :1]) and np.allclose(scale(ensemble, x), 7**0.5 * x[:, :1])
    with pytest.raises(ValueError, match="at least two members"):
        Ensemble(members[:1])


def test_members_that_start_alike_are_refused() -> None:
    with pytest.raises(ValueError, match="the same starting weights twice"):
        Ensemble.train(gb.problems.Poisson1D(), lambda seed: gb.mlp(1, [4]), progress=False)


def make_net(seed: int) -> nn.Module:
    return gb.mlp(1, [6], seed=seed, dropout=0.1)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_ensemble_is_trained_alike_in_any_number_of_processes(workers: int) -> None:
    problem = gb.problems.Poisson1D()
    data = problem.observe(30, noise=0.1)
    ensemble = Ensemble.train(
        problem, make_net, data, seeds=[3, 4], workers=workers, recipe=QUICK, progress=False
    )
    alone = [
        gb.fit(problem, make_net(seed), data, seed=seed, recipe=QUICK, progress=False) for seed in (3, 4)
    ]
    x = torch.linspace(-1, 1, 9)[:, None]
    for member, same in zip(ensemble.members, alone, strict=True):
        assert torch.equal(member(x), same(x))
    assert isinstance(ensemble.train, gb.Observations) and np.array_equal(ensemble.train.y, data.y)
    assert repr(ensemble) == "Ensemble(2 members)"
