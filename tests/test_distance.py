"""Distances: root mean squares over the nearest points, without the point itself at training points."""

from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.predictors import Distance
from helpers import scale
from wings import nn, pinn, torch

X = np.random.default_rng(0).uniform(size=(50, 2))
NEW = np.random.default_rng(1).uniform(size=(8, 2))


def brute(train: np.ndarray, new: np.ndarray, k: int) -> np.ndarray:
    distances = np.sort(np.linalg.norm(train[None] - new[:, None], axis=-1), axis=1)[:, :k]
    return np.sqrt((distances**2).mean(axis=1))


def test_the_distance_is_a_root_mean_square() -> None:
    assert scale(Distance(lambda x: x[:, :1], X, n_neighbors=5), NEW)[:, 0] == pytest.approx(brute(X, NEW, 5))


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_units_of_the_targets_change_the_scale_only_between_outputs(unit: float) -> None:
    def model(x: Any) -> Any:
        return unit * x

    one = Distance(lambda x: model(x)[:, :1], gb.Observations(X, model(X[:, :1])), n_neighbors=5)
    assert scale(one, NEW)[:, 0] == pytest.approx(brute(X, NEW, 5))
    two = Distance(model, gb.Observations(X, model(X) * [1, 4]), n_neighbors=5)
    spread = model(X).std(axis=0) * [1, 4]
    assert scale(two, NEW) == pytest.approx(brute(X, NEW, 5)[:, None] * spread)


def test_a_training_point_is_not_its_own_neighbor() -> None:
    predictor = Distance(lambda x: x[:, :1], X, n_neighbors=5)
    left_out = np.asarray(predictor.at_training(X).scale)[:, 0]
    assert left_out == pytest.approx([brute(np.delete(X, i, 0), X[i : i + 1], 5)[0] for i in range(50)])
    assert predictor.at_training(NEW).scale == pytest.approx(predictor(NEW).scale)


def test_one_of_two_equal_training_points_stays() -> None:
    twice = np.vstack([X, X[:1]])
    predictor = Distance(lambda x: x[:, :1], twice, n_neighbors=1)
    assert predictor.at_training(X[:1]).scale == 0
    assert predictor(X[:1]).scale == 0


@pytest.mark.parametrize(
    "net", [pinn.mlp(2, [6, 5]), nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 1))]
)
def test_latent_distance_is_in_the_penultimate_layer(net: nn.Module) -> None:
    features: Any = net[:-1] if isinstance(net, nn.Sequential) else net.features
    with torch.no_grad():
        hidden, new = (features(torch.tensor(x).float()).numpy() for x in (X, NEW))
    latent = scale(pinn.predictors.LatentDistance(net, X, 5, search="latent"), NEW)
    assert latent[:, 0] == pytest.approx(brute(hidden, new, 5), rel=1e-5)
    nearest = np.argsort(np.linalg.norm(X[None] - NEW[:, None], axis=-1), axis=1)[:, :5]
    by_input = np.sqrt(((hidden[nearest] - new[:, None]) ** 2).sum(-1).mean(1))
    assert scale(pinn.predictors.LatentDistance(net, X, 5), NEW)[:, 0] == pytest.approx(by_input, rel=1e-5)


def test_features_may_be_given() -> None:
    own = pinn.predictors.LatentDistance(np.sin, X, 5, features=lambda x: x)
    assert scale(own, NEW) == pytest.approx(scale(Distance(np.sin, X, 5), NEW))
    with pytest.raises(ValueError, match="Pass it as `features="):
        pinn.predictors.LatentDistance(np.sin, X)


def test_training_points_come_from_fit() -> None:
    problem = pinn.problems.Poisson1D()
    data = problem.observe(30, noise=0.1)
    fitted = pinn.fit(problem, pinn.mlp(1, [4]), data, recipe=pinn.Recipe(steps=2, finish=0), progress=False)
    for kind in (Distance, pinn.predictors.LatentDistance):
        assert kind(fitted).training_data is data
        with pytest.raises(ValueError, match="30 of 30 calibration points are training points"):
            gb.calibrate(kind(fitted), data.x, data.y)


def test_errors_teach() -> None:
    with pytest.raises(ValueError, match="Pass `x_train`"):
        Distance(np.sin)
    with pytest.raises(ValueError, match=r"below the number of training points \(50\)"):
        Distance(np.sin, X, n_neighbors=50)
    with pytest.raises(ValueError, match="'input' or 'latent'"):
        pinn.predictors.LatentDistance(pinn.mlp(2, [3]), X, search="output")  # type: ignore[arg-type]


def test_observations_bring_points_and_training_data() -> None:
    train = gb.Observations(np.arange(30.0), np.zeros(30))
    by_data = gb.predictors.Distance(np.sin, train, 5)
    assert by_data.training_data is train
    x = np.array([[0.3]])
    assert by_data(x).scale == gb.predictors.Distance(np.sin, train.x, 5)(x).scale
