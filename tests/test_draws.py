"""Draws, dropout and ensembles: many networks, one prediction."""

import copy
import pickle
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn

import guardband as gb
from guardband import pinn
from guardband.pinn.predictors import Draws, Dropout
from guardband.pinn.predictors import draws as module
from guardband.predictors import Ensemble
from helpers import scale

X = torch.rand(30, 2, generator=torch.Generator().manual_seed(0))
QUICK = pinn.Recipe(steps=10, finish=0, n_interior=16, n_boundary=8)


def test_each_draw_is_the_network_with_those_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    nets = [pinn.mlp(2, [5, 4], seed=seed) for seed in range(3)]
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
    net = pinn.mlp(2, [50, 40], dropout=0.25, where=where)  # type: ignore[arg-type]
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
    net = pinn.mlp(2, [50, 40], dropout=0.1)
    predictor = Dropout(net, draws=4000)
    with torch.no_grad():
        whole = net.eval()(X)
    assert ((predictor(X).mean - whole).abs() < 5 * scale(predictor, X) / 4000**0.5).all()


def test_dropout_in_other_networks() -> None:
    plain = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 1))
    assert list(Dropout(plain).stacked) == ["3.weight"]
    inside = pinn.Constrained(pinn.mlp(2, [4], dropout=0.1), torch.sin, lambda x: x[:, :1])
    assert list(Dropout(inside).stacked) == ["net.layers.1.weight"]
    named = OrderedDict[str, nn.Module](drop=nn.Dropout(0.5), last=nn.Linear(2, 1))
    assert list(Dropout(nn.Sequential(named)).stacked) == ["last.weight"]
    drop = nn.Dropout(0.5)  # the same layer twice
    twice = nn.Sequential(nn.Linear(2, 2), drop, nn.Linear(2, 2), drop, nn.Linear(2, 1))
    assert list(Dropout(twice).stacked) == ["2.weight", "4.weight"]
    for net in (pinn.mlp(2, [4]), nn.Sequential(nn.Linear(2, 1)), nn.Linear(2, 1)):
        with pytest.raises(ValueError, match=f"This {type(net).__name__} has no layer torch.nn.Dropout"):
            Dropout(net)
    with pytest.raises(TypeError, match="result of `fit`"):
        Dropout(np.sin)
    with pytest.raises(ValueError, match="at least 2"):
        Dropout(plain, draws=1)


class Own(nn.Module):
    """A network of somebody's own: one layer of dropout in two places, and a skip between them."""

    def __init__(self, p: float = 0.25, inplace: bool = False) -> None:
        super().__init__()
        self.first, self.last = pinn.mlp(2, [8], outputs=12, seed=1), pinn.mlp(12, [9], outputs=2, seed=2)
        self.middle, self.drop = pinn.mlp(12, [], outputs=12, seed=3), nn.Dropout(p, inplace)
        self.size, self.mean = nn.Parameter(torch.tensor(2.0)), nn.BatchNorm1d(12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.drop(torch.tanh(self.first(x)))
        return self.size * self.last(h + self.drop(torch.tanh(self.mean(self.middle(h)))))


class Attention(nn.Module):
    """Every coordinate is a token: dropout sees (points, tokens, features)."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
        self.drop, self.end = nn.Dropout(0.5), nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.end(self.layer(torch.sin(x[..., None] * torch.arange(1, 9))).flatten(1))[:, 0]


class Silent(Own):
    """It has dropout, and does not use it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x)


class Sideways(Own):
    """Points are the last dimension where dropout acts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.first(x).T).T


OWN: dict[str, Callable[[], nn.Module]] = {
    "own": Own,
    "in place": lambda: Own(inplace=True),
    "attention": Attention,
    "before tanh": lambda: nn.Sequential(nn.Linear(2, 9), nn.Dropout(0.5), nn.Tanh(), nn.Linear(9, 1)),
    "at the end": lambda: nn.Sequential(nn.Linear(2, 9), nn.Tanh(), nn.Linear(9, 2), nn.Dropout(0.5)),
    "nested": lambda: nn.Sequential(nn.Sequential(nn.Linear(2, 9), nn.Dropout(0.1)), nn.Linear(9, 1)),
    "tied": lambda: tied(nn.Linear(2, 2), nn.Dropout(0.5)),
    "constrained": lambda: pinn.Constrained(Own(), torch.sin, lambda x: x[:, :1]),
    "without weights": lambda: nn.Sequential(nn.Tanh(), nn.Dropout(0.5)),
}


def tied(linear: nn.Module, drop: nn.Module) -> nn.Module:
    return nn.Sequential(linear, drop, linear, drop, linear)


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


@pytest.mark.parametrize("name", OWN)
def test_any_network_with_dropout_is_a_fixed_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = seeded(OWN[name]).train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    with gb.testing.untouched():
        predictor = Dropout(net, draws=12, seed=1)
        for x in (X, X.double(), X.numpy()):
            gb.testing.check_predictor(predictor, x)
    assert len(predictor) == 12 and repr(predictor) == "Dropout(12 draws)" and not predictor.stacked
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert all(part.training and not part._forward_hooks for part in net.modules())
    assert bool((scale(predictor, X) > 0).all())
    whole = predictor.outputs(X)
    monkeypatch.setattr(module, "AT_ONCE", 300)
    assert torch.allclose(predictor.outputs(X), whole, atol=1e-6)
    assert torch.allclose(Dropout(net, draws=12, seed=1).outputs(X[:3]), whole[:, :3], atol=1e-6)
    assert not torch.allclose(Dropout(net, draws=12, seed=2).outputs(X), whole, atol=1e-2)
    with torch.no_grad():  # later training is not seen
        for parameter in net.parameters():
            parameter += 1
    assert torch.allclose(predictor.outputs(X), whole, atol=1e-6)


def test_masks_and_stacked_weights_are_the_same_thing() -> None:
    net = seeded(lambda: nn.Sequential(nn.Linear(2, 30), nn.Tanh(), nn.Dropout(0.25), nn.Linear(30, 2)))
    masked = Dropout(nn.Sequential(net), draws=8)  # one deeper: no longer known as a stack
    masked(X)
    assert masked.masks is not None
    (mask,) = masked.masks.drawn.values()
    assert mask.shape == (8, 30) and mask.unique().tolist() == [0, pytest.approx(4 / 3)]
    assert bool(((mask == 0).sum(0) == 2).all())
    stacked = Draws(net, {"3.weight": net.get_parameter("3.weight").detach() * mask[:, None]})
    assert torch.allclose(masked.outputs(X), stacked.outputs(X), atol=1e-6)


def test_masks_take_a_few_points_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    wide, narrow = nn.Linear(2, 30, bias=False), nn.Linear(30, 2, bias=False)
    net = nn.Sequential(nn.Sequential(wide, nn.Dropout(0.25), narrow))
    predictor = Dropout(seeded(lambda: net), draws=8)
    assert predictor.masks is not None
    at_once = predictor.outputs(X)
    for most in (1, 7):
        monkeypatch.setattr("guardband.pinn.predictors.draws.AT_ONCE", 8 * 30 * most)
        assert [part.shape[1] for part in predictor._parts(X)] == [len(p) for p in X.split(most)]
        assert torch.allclose(predictor.outputs(X), at_once, atol=1e-6)


@pytest.mark.parametrize("name", ["own", "attention", "before tanh", "nested"])
def test_mean_and_scale_are_those_of_dropout_itself(name: str) -> None:
    """Against 4000 passes in training mode; a right one fails at one seed in a thousand."""
    net = seeded(OWN[name]).double().eval()
    n, x = 4000, X.double()
    predictor = Dropout(net, draws=n, seed=3)
    for part in net.modules():
        # An encoder that is not in training mode takes a shorter way, without its layers of dropout.
        part.training = isinstance(part, nn.Dropout | nn.TransformerEncoderLayer)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(4)
        drawn = torch.stack([net(x) for _ in range(n)]).reshape(n, len(x), -1)
    spread, mean = torch.std_mean(drawn, dim=0)
    kurtosis = ((drawn - mean) / spread).pow(4).mean(0)
    limit = norm.isf(1e-3 / 2 / 2 / mean.numel())  # both sides, two tests, all points and outputs
    assert ((predictor(x).mean - mean).abs() / (spread * (2 / n) ** 0.5)).max() < limit
    ratio = (scale(predictor, x) ** 2 / spread**2 - 1).abs() / (2 * (kurtosis - 1) / n) ** 0.5
    assert ratio.max() < limit


def test_threads_do_not_disturb_each_other() -> None:
    predictor = Dropout(Own(), draws=12)
    expected = Dropout(Own(), draws=12).outputs(X)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: predictor.outputs(X[: 1 + k % 30]), range(80)))
    for k, outputs in enumerate(found):
        assert torch.allclose(outputs, expected[:, : 1 + k % 30], atol=1e-6)


def test_a_copy_and_what_was_pickled_give_the_same() -> None:
    predictor = Dropout(Own(), draws=5)
    early = pickle.loads(pickle.dumps(predictor))  # before anything was drawn
    expected = predictor.outputs(X)
    for other in (early, pickle.loads(pickle.dumps(predictor)), copy.deepcopy(predictor)):
        assert torch.equal(other.outputs(X), expected)


def test_a_band_with_dropout_in_ones_own_network_is_saved(tmp_path: Path) -> None:
    net = Own().train()
    data = gb.Observations(X[:10], X[:10])
    made = gb.calibrate(Dropout(net, draws=9, training_data=data), X[10:], X[10:])
    gb.save(made, tmp_path)
    assert gb.store.manifest(tmp_path)["passed_at_load"] == ["net"]
    again = gb.load(tmp_path, net=net)
    assert torch.equal(again(X, 0.8).upper, made(X, 0.8).upper)
    assert all(part.training and not part._forward_hooks for part in net.modules())
    nn.init.ones_(net.size)
    with pytest.raises(gb.store.ArtifactError, match="is not the one that was saved"):
        gb.load(tmp_path, net=net)


def test_training_data_are_known_and_refused() -> None:
    data = gb.Observations(X, X[:, :1])
    net = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    for model in (net, nn.Sequential(net)):
        predictor = Dropout(model, training_data=data)
        assert predictor.training_data is data
        with pytest.raises(ValueError, match="training points"):
            gb.calibrate(predictor, X, X[:, :1])


def test_what_cannot_be_silenced_is_refused() -> None:
    for net, message in [
        (Own(0.0), "Every Dropout of this Own has p = 0, so no neuron was ever dropped"),
        (Own(1.0), "A Dropout of this Own has p = 1, so no neuron is left"),
        (nn.Sequential(nn.Dropout(1.0), nn.Linear(2, 1)), "p = 1"),
        (nn.Sequential(nn.Dropout(0.5), nn.AlphaDropout(0.5)), "`1` of this Sequential, a AlphaDropout, has"),
        (nn.Sequential(pinn.mlp(2, [4], dropout=0.1), nn.Dropout(0.5)), "`0` of this Sequential, a MLP, has"),
        (
            nn.Sequential(pinn.mlp(2, [4], dropout=0.1)),
            "`0` of this Sequential, a MLP, has dropout of an",
        ),
        (nn.Sequential(nn.Dropout2d(0.5), nn.Linear(2, 1)), "a Dropout2d, has dropout of an unsupported"),
    ]:
        with pytest.raises(ValueError, match=message):
            Dropout(net)
    with pytest.raises(ValueError, match="No Dropout of this Silent was used in its forward pass"):
        Dropout(Silent())(X)
    with pytest.raises(ValueError, match=r"`drop` received the shape \(12, 3000\) for 100 draws"):
        Dropout(Sideways())(X)
    late = Dropout(Sideways(), draws=12)
    late(X[:1])
    with pytest.raises(
        ValueError, match=r"received the shape \(12, 24\) for 12 draws, after rows of \(12,\)"
    ):
        late(X[:2])
    pair = nn.Sequential(Own(), Pair())
    with pytest.raises(TypeError, match="this Sequential returned a tuple"):
        Dropout(pair)(X)


class Pair(nn.Module):
    """Two answers at once."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, x


def test_an_ensemble_is_mean_and_spread() -> None:
    members = [lambda x, a=a: a * x[:, :1] for a in (1.0, 2.0, 6.0)]
    ensemble, x = Ensemble(members), X.numpy()
    assert np.allclose(ensemble(x).mean, 3 * x[:, :1]) and np.allclose(scale(ensemble, x), 7**0.5 * x[:, :1])
    with pytest.raises(ValueError, match="at least two members"):
        Ensemble(members[:1])


@pytest.mark.parametrize("distinct", [1, 2, 4])
def test_members_that_start_alike_are_refused(distinct: int) -> None:
    with pytest.raises(ValueError, match="the same initial weights twice"):
        pinn.predictors.train_ensemble(
            pinn.problems.Poisson1D(), lambda seed: pinn.mlp(1, [4], seed=seed % distinct), progress=False
        )


def make_net(seed: int) -> nn.Module:
    return pinn.mlp(1, [6], seed=seed, dropout=0.1)


@pytest.mark.slow("2")
@pytest.mark.parametrize("on", [1, 2])
def test_an_ensemble_is_trained_alike_in_any_number_of_processes(on: int) -> None:
    problem = pinn.problems.Poisson1D()
    data = problem.observe(30, noise=0.1)
    ensemble = pinn.predictors.train_ensemble(
        problem, make_net, data, seeds=[3, 4], on=on, recipe=QUICK, progress=False
    )
    alone = [
        pinn.fit(problem, make_net(seed), data, seed=seed, recipe=QUICK, progress=False) for seed in (3, 4)
    ]
    x = torch.linspace(-1, 1, 9)[:, None]
    for member, same in zip(ensemble.members, alone, strict=True):
        assert torch.equal(member(x), same(x))
    assert isinstance(ensemble.training_data, gb.Observations) and np.array_equal(
        ensemble.training_data.y, data.y
    )
    assert repr(ensemble) == "Ensemble(2 members)"


def test_processes_refuse_what_they_cannot_import() -> None:
    class Mine(pinn.problems.Poisson1D):
        pass

    with pytest.raises(RuntimeError, match="define functions and classes in a module"):
        pinn.predictors.train_ensemble(Mine(), make_net, seeds=[3, 4], on=2, progress=False)
    with pytest.raises(TypeError, match="`on` should be a number of processes on this machine, or None"):
        pinn.predictors.train_ensemble(
            pinn.problems.Poisson1D(), make_net, seeds=[3, 4], on=0, progress=False
        )
