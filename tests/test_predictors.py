from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.testing import check_predictor, untouched
from wings import pinn, torch

X = np.random.default_rng(0).uniform(size=(40, 2))


def network() -> torch.nn.Module:
    layers = torch.nn.Linear(2, 16), torch.nn.BatchNorm1d(16), torch.nn.Tanh(), torch.nn.Dropout(0.5)
    return torch.nn.Sequential(*layers, torch.nn.Linear(16, 1)).train()


def positive(x: np.ndarray) -> np.ndarray:
    return 1 + x[:, :1] ** 2


@cache
def fitted(seed: int = 0, dropout: float = 0.0) -> pinn.Fitted:
    problem = pinn.problems.AllenCahn2D()
    recipe = pinn.Recipe(steps=20, finish=10, n_interior=32, n_boundary=16)
    net = pinn.mlp(2, [8, 8], seed=seed, dropout=dropout)
    return pinn.fit(problem, net, problem.observe(40, noise=0.05), recipe=recipe, seed=seed, progress=False)


NETWORK = network()
BAYES: dict[str, Any] = dict(n_interior=32, n_boundary=16, progress=False)
MAKERS: dict[str, Callable[[], Any]] = {
    "MeanOnly": lambda: gb.predictors.MeanOnly(NETWORK),
    "Given": lambda: gb.predictors.Given(NETWORK, positive),
    "PredictionFunction": lambda: gb.predictors.PredictionFunction(gb.predictors.Given(NETWORK, positive)),
    "Distance": lambda: gb.predictors.Distance(fitted()),
    "LatentDistance": lambda: pinn.predictors.LatentDistance(fitted()),
    "LatentDistance, by latent neighbors": lambda: pinn.predictors.LatentDistance(fitted(), search="latent"),
    "Dropout": lambda: pinn.predictors.Dropout(fitted(dropout=0.1)),
    "Dropout, in any network": lambda: pinn.predictors.Dropout(
        torch.nn.Sequential(NETWORK, torch.nn.Tanh()), training_data=fitted().training_data
    ),
    "Ensemble": lambda: gb.predictors.Ensemble([fitted(0), fitted(1)]),
    "LastLayerLaplace": lambda: pinn.predictors.LastLayerLaplace(fitted()),
    "Laplace": lambda: pinn.predictors.Laplace(fitted()),
    "Outputs": lambda: gb.predictors.Outputs(pinn.predictors.LastLayerLaplace(fitted()), (0,)),
    "Quantiles": lambda: gb.predictors.Quantiles(
        NETWORK, lambda x: np.asarray(x)[:, :1] + 2, training_data=fitted().training_data
    ),
    "MeanFieldVI": lambda: pinn.predictors.MeanFieldVI(fitted(), steps=10, draws=20, **BAYES),
    "HMC": lambda: pinn.predictors.HMC(fitted(), draws=20, warmup=5, **BAYES),
}


def test_every_predictor_is_held_to_the_laws() -> None:
    public = {name for room in (gb.predictors, pinn.predictors) for name in room.__all__}
    known = {"Draws", "Tangent", "TangentCalibrated", "TangentPrediction", "train_ensemble"}
    assert {name.partition(",")[0] for name in MAKERS} | known == public


@pytest.mark.slow("Distance", "Dropout", "Dropout, in any network", "Ensemble", "HMC")
@pytest.mark.parametrize("name", MAKERS)
def test_every_predictor_obeys_the_laws(name: str) -> None:
    with untouched():
        predictor = MAKERS[name]()
    for x in (X, X.astype(np.float32), torch.tensor(X), torch.tensor(X).float()):
        check_predictor(predictor, x)
        scale = predictor(x).scale
        if name not in ("MeanOnly", "Given", "PredictionFunction", "Quantiles"):
            assert bool((scale > 0).all()) and predictor.training_data is not None


def test_the_mode_of_each_part_of_a_network_is_restored() -> None:
    net = network()
    net.get_submodule("3").eval()
    before = [module.training for module in net.modules()]
    gb.predictors.MeanOnly(net)(X)
    assert [module.training for module in net.modules()] == before
    assert len(set(before)) == 2


def test_the_mode_is_restored_after_an_error() -> None:
    net = network()
    with pytest.raises(RuntimeError):
        gb.predictors.MeanOnly(net)(X[:, :1])
    assert all(module.training for module in net.modules())


def test_a_module_without_parameters_and_a_function_of_tensors_work() -> None:
    x = torch.tensor(X)
    assert torch.equal(gb.predictors.MeanOnly(torch.nn.Tanh())(x).mean, torch.tanh(x))
    assert torch.equal(gb.predictors.MeanOnly(torch.sin)(x).mean, torch.sin(x))


def test_at_training_is_the_prediction_itself() -> None:
    given = gb.predictors.Given(np.sin, positive)
    with pytest.raises(ValueError, match="as many outputs"):
        given(X)
    constant = gb.predictors.MeanOnly(positive)
    assert np.array_equal(constant.at_training(X).mean, constant(X).mean)
    given = gb.predictors.Given(positive, positive)
    assert np.array_equal(given.at_training(X).scale, given(X).scale)  # type: ignore[arg-type]


def test_an_output_is_chosen_once() -> None:
    with pytest.raises(ValueError, match="should contain no duplicates"):
        gb.predictors.Outputs.named(gb.predictors.MeanOnly(positive), (0, 0), 2)


def test_a_list_will_do() -> None:
    assert gb.predictors.MeanOnly(np.sin)([0.5]).mean.shape == (1, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("progress", [True, False])
def test_an_ensemble_shows_its_progress_where_it_may(
    progress: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = pinn.Recipe(steps=1, finish=0, n_interior=8, n_boundary=4)
    problem = pinn.problems.Poisson1D()
    pinn.predictors.train_ensemble(
        problem, lambda seed: pinn.mlp(1, [4], seed=seed), seeds=range(2), recipe=recipe, progress=progress
    )
    assert ("ensemble" in capsys.readouterr().err) is progress
