import numpy as np
import pytest
import torch

import guardband as gb
from guardband.testing import check_predictor

X = np.random.default_rng(0).uniform(size=(40, 2))


def network() -> torch.nn.Module:
    layers = torch.nn.Linear(2, 16), torch.nn.BatchNorm1d(16), torch.nn.Tanh(), torch.nn.Dropout(0.5)
    return torch.nn.Sequential(*layers, torch.nn.Linear(16, 1)).train()


def positive(x: np.ndarray) -> np.ndarray:
    return 1 + x[:, :1] ** 2


@pytest.mark.parametrize("x", [X, X.astype(np.float32), torch.tensor(X), torch.tensor(X).float()])
@pytest.mark.parametrize("make", [gb.predictors.Constant, lambda net: gb.predictors.Given(net, positive)])
def test_every_predictor_obeys_the_laws(make: type, x: np.ndarray) -> None:
    check_predictor(make(network()), x)


def test_the_mode_of_each_part_of_a_network_is_restored() -> None:
    net = network()
    net.get_submodule("3").eval()
    before = [module.training for module in net.modules()]
    gb.predictors.Constant(net)(X)
    assert [module.training for module in net.modules()] == before
    assert len(set(before)) == 2


def test_the_mode_is_restored_after_an_error() -> None:
    net = network()
    with pytest.raises(RuntimeError):
        gb.predictors.Constant(net)(X[:, :1])
    assert all(module.training for module in net.modules())


def test_a_module_without_parameters_and_a_function_of_tensors_work() -> None:
    x = torch.tensor(X)
    assert torch.equal(gb.predictors.Constant(torch.nn.Tanh())(x).mean, torch.tanh(x))
    assert torch.equal(gb.predictors.Constant(torch.sin)(x).mean, torch.sin(x))


def test_at_training_is_the_prediction_itself() -> None:
    given = gb.predictors.Given(np.sin, positive)
    with pytest.raises(ValueError, match="as many outputs"):
        given(X)
    constant = gb.predictors.Constant(positive)
    assert np.array_equal(constant.at_training(X).mean, constant(X).mean)
    given = gb.predictors.Given(positive, positive)
    assert np.array_equal(given.at_training(X).scale, given(X).scale)  # type: ignore[arg-type]
