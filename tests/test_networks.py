from typing import Any

import pytest
import torch

from guardband.pinn.networks.networks import Constrained, mlp
from guardband.pinn.problems import AllenCahn2D, Box


def test_a_seed_makes_a_network_and_no_global_state_changes() -> None:
    state = torch.get_rng_state()
    one, same, other = (mlp(2, [16, 16], seed=seed) for seed in (0, 0, 1))
    assert torch.equal(state, torch.get_rng_state())
    x = torch.rand(5, 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(one(x), same(x)) and not torch.equal(one(x), other(x))


def test_weights_start_as_xavier_with_the_gain_of_tanh() -> None:
    net = mlp(100, [200])
    weight, bias = net.linears[0].weight, net.linears[0].bias
    assert weight.std().item() == pytest.approx(5 / 3 * (2 / 300) ** 0.5, rel=0.02)
    assert bias.abs().max().item() == pytest.approx(0.1, rel=0.05)


def test_inputs_are_scaled_to_the_domain() -> None:
    net, same = mlp(2, [8]), mlp(2, [8])
    same.set_domain(Box((-1, 0), (3, 10)))
    assert torch.equal(
        same(torch.tensor([[3.0, 10.0], [1.0, 5.0]])), net(torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    )


def test_features_are_the_penultimate_layer() -> None:
    net, x = mlp(2, [8, 5], outputs=3), torch.rand(4, 2, generator=torch.Generator())
    assert net.features(x).shape == (4, 5)
    assert torch.equal(net.linears[-1](net.features(x)), net(x))
    constrained = Constrained(net, lambda x: 0 * x[:, :1], lambda x: x[:, :1])
    assert torch.equal(constrained.features(x), net.features(x))


def test_dropout_acts_in_training_only_where_it_should_and_from_its_own_generator() -> None:
    x = torch.rand(400, 2, generator=torch.Generator())
    state = torch.get_rng_state()
    settings: list[tuple[Any, list[bool]]] = [("last", [False, True]), ("all", [True, True])]
    for where, layers in settings:
        net = mlp(2, [50, 50], dropout=0.25, where=where)
        masks = [net.draw_mask(i, torch.zeros(400, 50)) for i in range(2)]
        assert [mask is not None for mask in masks] == layers
        share = (masks[1] == 0).float().mean().item()  # type: ignore[union-attr]
        assert share == pytest.approx(0.25, abs=0.02)
        assert not torch.equal(net(x), net(x))
        net.eval()
        assert torch.equal(net(x), net(x))
    assert torch.equal(state, torch.get_rng_state())
    with pytest.raises(ValueError, match=r"`dropout` should lie in \[0, 1\), got 1"):
        mlp(2, [8], dropout=1)


def test_a_constrained_network_meets_its_conditions() -> None:
    problem = AllenCahn2D()
    net = Constrained(mlp(2, [8]), problem.lift, problem.bubble)
    (condition,) = problem.conditions()
    x = condition.points(problem.domain, 40).points.float()
    assert (net(x) - problem.solution(x)).abs().max() < 1e-6


def test_widths_are_a_list() -> None:
    with pytest.raises(
        TypeError, match=r"should be a list of the widths of the hidden layers, such as \[16, 16\], got 16"
    ):
        mlp(1, 16)  # type: ignore[arg-type]
