"""Threads and modes: eight threads, in any mode of torch, get the bits that one thread gets by default."""

import contextlib
import copy
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.conformal.rank import allow_infinite
from guardband.predictors.models import evaluating
from helpers import Later
from wings import nn, pinn, torch

modules, masks = Later("guardband.pinn.networks.modules"), Later("guardband.pinn.predictors.masks")
THREADS = 8
PROBLEM = pinn.problems.AllenCahn2D()
CAL = PROBLEM.observe(60, noise=0.05, seed=1)
X = np.random.default_rng(0).uniform(-1, 1, size=(30, 2)).astype("float32")
GROUPS = np.arange(60) % 2
MODES: dict[str, Callable[[], Any]] = {
    "as it is": contextlib.nullcontext,
    "inference mode": torch.inference_mode,
    "no grad": torch.no_grad,
}


@pytest.fixture(autouse=True)
def _many_switches() -> Iterator[None]:
    """Threads take turns a hundred times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def _float64_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@cache
def fitted(kind: str = "plain") -> pinn.Fitted:
    recipe = pinn.Recipe(steps=5, finish=0, n_interior=16, n_boundary=8)
    net = pinn.mlp(2, [8, 8], dropout=0.1 if kind == "dropout" else 0.0)
    made = pinn.Constrained(net, PROBLEM.lift, PROBLEM.bubble) if kind == "constrained" else net
    return pinn.fit(PROBLEM, made, PROBLEM.observe(30, seed=0), recipe=recipe, progress=False)


class Residual(nn.Module):
    """A network of a build of its own, with dropout in the middle, in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.drop = nn.Linear(2, 16), nn.Linear(16, 1), nn.Dropout(0.3)
        self.bend = self._bend  # a method of one object, kept by it

    def _bend(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(torch.tanh(self.first(x)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.bend(x)) + x[:, :1]


def sequential(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), *layers, nn.Linear(16, 1))


def regressor() -> Any:
    linear = pytest.importorskip("sklearn.linear_model")
    return linear.Ridge().fit(CAL.x.numpy(), CAL.y.numpy()[:, 0])


def onnx() -> gb.Predictor:
    parser = pytest.importorskip("onnx.parser")
    pytest.importorskip("onnxruntime")
    graph = '<ir_version: 8, opset_import: ["": 18]> g (float[n, 2] x) => (float[n, 2] y) { y = Exp(x) }'
    exp = gb.adapters.from_onnx(parser.parse_model(graph).SerializeToString())
    return gb.predictors.MeanOnly(lambda x: exp(x).mean[:, :1])


def jax() -> gb.Predictor:
    numpy = pytest.importorskip("jax.numpy")
    return gb.adapters.from_jax(lambda x: numpy.sin(x[:, :1]))


def bayes(kind: Callable[..., gb.Predictor], **options: Any) -> gb.Predictor:
    pytest.importorskip("pyro")
    return kind(fitted(), progress=False, n_interior=16, n_boundary=8, **options)


def ends(x: Any) -> gb.Prediction:
    return gb.Prediction(x, x[:, :1] ** 2, 1 + x[:, 1:] ** 2)


p = gb.predictors
PREDICTORS: dict[str, Callable[[], gb.Predictor]] = {
    "MeanOnly, function": lambda: p.MeanOnly(lambda x: x[:, :1] ** 2),
    "MeanOnly, in training mode": lambda: p.MeanOnly(Residual().train()),
    "MeanOnly, batch norm": lambda: p.MeanOnly(sequential(nn.BatchNorm1d(16)).train()),
    "MeanOnly, regressor": lambda: p.MeanOnly(regressor()),
    "Given": lambda: p.Given(sequential().train(), lambda x: 1 + x[:, :1] ** 2),
    "PredictionFunction": lambda: p.PredictionFunction(ends),
    "Distance": lambda: p.Distance(fitted(), n_neighbors=5),
    "LatentDistance": lambda: pinn.predictors.LatentDistance(fitted(), n_neighbors=5),
    "LatentDistance, latent": lambda: pinn.predictors.LatentDistance(
        fitted(), n_neighbors=5, search="latent"
    ),
    "Draws": lambda: pinn.predictors.Draws(sequential(), {"2.bias": torch.randn(7, 1)}),
    "Dropout": lambda: pinn.predictors.Dropout(fitted("dropout"), draws=20),
    "Dropout, sequential": lambda: pinn.predictors.Dropout(sequential(nn.Dropout(0.2)), draws=20),
    "Dropout, any module": lambda: pinn.predictors.Dropout(Residual(), draws=20),
    "Ensemble": lambda: p.Ensemble([Residual().train(), fitted(), lambda x: x[:, :1]]),
    "Laplace": lambda: pinn.predictors.Laplace(fitted()),
    "Laplace, constrained": lambda: pinn.predictors.Laplace(fitted("constrained")),
    "LastLayerLaplace": lambda: pinn.predictors.LastLayerLaplace(fitted()),
    "LastLayerLaplace, one layer": lambda: pinn.predictors.LastLayerLaplace(fitted(), layers=1),
    "MeanFieldVI": lambda: bayes(pinn.predictors.MeanFieldVI, steps=5, draws=10),
    "HMC": lambda: bayes(pinn.predictors.HMC, draws=5, warmup=3, leapfrog=2),
    "Outputs": lambda: p.Outputs(p.MeanOnly(lambda x: x**2), (1,)),
    "Quantiles": lambda: p.Quantiles(sequential().train(), lambda x: x[:, :1] ** 2),
    "Quantiles, regressor": lambda: p.Quantiles(regressor(), lambda x: x[:, :1] + 9),
    "from_onnx": onnx,
    "from_jax": jax,
}
CALIBRATORS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "Split": lambda: (gb.Split(), {}),
    "Split, confident": lambda: (gb.Split(), {"confidence": 0.9}),
    "Grouped": lambda: (gb.Grouped(), {"groups": GROUPS}),
    "Clustered": lambda: (gb.Clustered(), {"groups": np.arange(60) // 2}),
    "Weighted": lambda: (gb.Weighted(gb.conformal.density_ratio(X[:15], X[15:])), {}),
    "Weighted, kernel": lambda: (
        gb.Weighted(gb.conformal.density_ratio(X[:15], X[15:], method="kernel")),
        {},
    ),
    "Truth": lambda: (
        gb.conformal.Truth(gb.conformal.BoundedNoise(0.01)),
        {"score": gb.Absolute(), "confidence": 0.9},
    ),
    "Conditional": lambda: (gb.Conditional(lambda x: x[:, :1] > 0), {}),
    "RiskControl": lambda: (gb.RiskControl(), {}),
    "RandomlyLocalized": lambda: (gb.conformal.RandomlyLocalized(bandwidth=2.0), {}),
    "Local": lambda: (gb.Local(shape_data(), gb.conformal.LogScale(draws=4)), {}),
    "Local, pinball": lambda: (gb.Local(shape_data(), pinball()), {}),
    "Local, per level": lambda: (gb.Local(shape_data(), pinball(per_level=True)), {}),
}


def pinball(**options: Any) -> pinn.PinballNetwork:
    return pinn.PinballNetwork(widths=(8,), frequencies=4, steps=20, **options)


def shape_data() -> gb.Observations:
    return PROBLEM.observe(20, noise=lambda x: 0.02 + 0.5 * (x[:, :1] > 0), seed=5)


@cache
def predictor(name: str) -> gb.Predictor:
    torch.manual_seed(0)
    return PREDICTORS[name]()


@cache
def calibrated(name: str, calibrator: str) -> gb.Calibrated:
    made, options = CALIBRATORS[calibrator]()
    return gb.calibrate(predictor(name), CAL.x, CAL.y, calibrator=made, **options)


def bits(found: Any) -> list[bytes]:
    band = ("mean", "lower", "upper")
    values = found.parts.values() if isinstance(found, gb.Prediction) else [getattr(found, p) for p in band]
    return [np.ascontiguousarray(torch.as_tensor(v).numpy()).tobytes() for v in values]


def together(
    call: Callable[[Any], Any], mode: str, calls: int, alone: list[list[bytes]], n: int = THREADS
) -> None:
    """Every call in each of n threads, of an array and of a tensor in turn, gives what it gave alone."""
    start, wrong = threading.Barrier(n), list[Any]()

    def work() -> None:
        with MODES[mode]():
            start.wait()
            for i in range(calls):
                try:
                    if bits(call(torch.tensor(X) if i % 2 else X.copy())) != alone[i % 2]:
                        wrong.append("other bits")
                except Exception as error:
                    wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, f"{len(wrong)} of {n * calls} calls: {wrong[0]!r}"


def alone(call: Callable[[Any], Any]) -> list[list[bytes]]:
    return [bits(call(X.copy())), bits(call(torch.tensor(X)))]


def check_predictor(name: str, mode: str, calls: int) -> None:
    cold = copy.deepcopy(predictor(name))  # nothing of what is found at the first call is there yet
    together(cold, mode, calls, alone(predictor(name)))


def band_of(made: gb.Calibrated, x: Any) -> Any:
    with allow_infinite():
        return made(x, 0.8, groups=GROUPS[: len(X)] if made.needs_groups else None)


def check_calibrator(name: str, calibrator: str, mode: str, calls: int) -> None:
    made = calibrated(name, calibrator)
    cold = copy.deepcopy(made)
    together(lambda x: band_of(cold, x), mode, calls, alone(lambda x: band_of(made, x)))


def test_all_predictors_and_calibrators_are_here() -> None:
    assert {name.split(",")[0] for name in PREDICTORS} >= set(gb.predictors.__all__)
    kinds = {name: getattr(gb.conformal, name) for name in gb.conformal.__all__}
    classes = {name for name, kind in kinds.items() if isinstance(kind, type)}
    all_of_them = {n for n in classes if issubclass(kinds[n], gb.conformal.Calibrator)} - {"Calibrator"}
    assert {name.split(",")[0] for name in CALIBRATORS} >= all_of_them


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PREDICTORS)
def test_predictors_give_the_same_bits_in_threads(name: str, mode: str) -> None:
    check_predictor(name, mode, 5)


@pytest.mark.usefixtures("_float64_by_default")
@pytest.mark.parametrize("name", PREDICTORS)
def test_predictors_give_the_same_bits_where_float64_is_the_default(name: str) -> None:
    torch.set_default_dtype(torch.float32)
    expected, cold = alone(predictor(name)), copy.deepcopy(predictor(name))
    torch.set_default_dtype(torch.float64)
    together(cold, "as it is", 2, expected)


@pytest.mark.slow("Conditional-as it is", "Conditional-inference mode", "Conditional-no grad")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_calibrators_give_the_same_bits_in_threads(calibrator: str, mode: str) -> None:
    check_calibrator("PredictionFunction", calibrator, mode, 5)


@pytest.mark.slow("Conditional")
@pytest.mark.usefixtures("_float64_by_default")
@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_calibrators_give_the_same_bits_where_float64_is_the_default(calibrator: str) -> None:
    torch.set_default_dtype(torch.float32)
    made = calibrated("PredictionFunction", calibrator)
    cold = copy.deepcopy(made)
    expected = alone(lambda x: band_of(made, x))
    torch.set_default_dtype(torch.float64)
    together(lambda x: band_of(cold, x), "as it is", 2, expected)


@pytest.mark.long
@pytest.mark.parametrize("calibrator", CALIBRATORS)
@pytest.mark.parametrize("name", PREDICTORS)
def test_every_predictor_with_every_calibrator_a_hundred_times(name: str, calibrator: str) -> None:
    for mode in MODES:
        check_calibrator(name, calibrator, mode, 100)


@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_calibrating_in_threads_gives_the_same_bits(calibrator: str) -> None:
    """What is learned is learned alike in any mode, with float64 as the default too."""
    made, options = CALIBRATORS[calibrator]()
    expected = alone(lambda x: band_of(calibrated("PredictionFunction", calibrator), x))

    def calibrate(x: Any) -> Any:
        model = predictor("PredictionFunction")
        return band_of(gb.calibrate(model, CAL.x, CAL.y, calibrator=made, **options), x)

    together(calibrate, "inference mode", 1, expected, n=2 if "Local" in calibrator else THREADS)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            assert bits(calibrate(X)) == expected[0]
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["Laplace", "LastLayerLaplace", "MeanFieldVI", "HMC", "Dropout, any module"])
def test_predictors_are_built_alike_in_any_mode(name: str, mode: str) -> None:
    expected = alone(predictor(name))
    torch.manual_seed(0)
    with MODES[mode]():
        made = PREDICTORS[name]()
    assert alone(made) == expected


@pytest.mark.parametrize("mode", MODES)
def test_bands_of_whole_fields_give_the_same_bits_in_threads(mode: str) -> None:
    draw = np.random.default_rng(0).normal
    x, y = draw(size=(40, 1, 6)).astype("float32"), draw(size=(40, 6, 1)).astype("float32")
    operator = gb.adapters.from_neuralop(nn.Sequential(nn.Conv1d(1, 1, 3, padding=1), nn.Dropout(0.5)))
    made = gb.calibrate(operator, x, y, score=gb.Simultaneous.fitted(y[:10]))

    def band(points: Any) -> gb.Band:
        return made(points[:, 0].reshape(5, 1, 6), 0.8)

    together(band, mode, 5, alone(band))


@pytest.mark.parametrize("mode", MODES)
def test_rollouts_and_learned_shapes_give_the_same_bits_in_threads(mode: str) -> None:
    rollout = gb.Rollout(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)).train(), steps=3)
    y = rollout(X).mean + np.random.default_rng(0).normal(size=(30, 3, 2)).astype("float32")
    with MODES[mode]():
        made = pinn.surrogates.NetworkScale.fitted(rollout.shaped(X, y), X, y, steps=20)
    usual = pinn.surrogates.NetworkScale.fitted(rollout.shaped(X, y), X, y, steps=20)
    assert alone(made) == alone(usual)
    together(made, mode, 5, alone(usual), n=4)


def test_a_network_stays_in_its_mode_whatever_threads_do() -> None:
    net = Residual()
    net.first.eval()
    before = [module.training for module in net.modules()]
    expected = alone(p.MeanOnly(net))
    together(p.MeanOnly(net), "as it is", 50, expected)
    assert [module.training for module in net.modules()] == before


def test_blocks_that_overlap_leave_the_mode_as_it_was() -> None:
    net = Residual()
    first, second = evaluating(net), evaluating(net.drop)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not net.drop.training and net.training  # the second block is not over yet
    second.__exit__(None, None, None)
    assert net.drop.training


def test_a_call_exchanges_weights_in_modules_of_its_own() -> None:
    net = nn.Sequential(Residual(), nn.ReLU())
    net.append(net[0])  # one module at two places
    own = modules.own_modules(net.eval())
    x = torch.rand(4, 2, generator=torch.Generator().manual_seed(0))
    assert own[0] is own[2] and own[0] is not net[0]  # type: ignore[index]
    assert all(a is b for a, b in zip(own.parameters(), net.parameters(), strict=True))
    zeros = {name: torch.zeros_like(w) for name, w in own[0].named_parameters()}  # type: ignore[index]
    assert torch.equal(torch.func.functional_call(own[0], zeros, (x,)), x[:, :1])  # type: ignore[index]
    seen: list[bool] = []
    net[0].first.register_forward_hook(lambda *_: seen.append(bool(net[0].first.weight.any())))  # type: ignore
    torch.func.functional_call(modules.own_modules(net[0]), zeros, (x,))
    assert seen == [True]  # while the weights are exchanged, the network still has its own


def test_masks_do_not_depend_on_the_default_dtype() -> None:
    found = []
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            found.append(masks.balanced(0.3, 20, 7, torch.Generator().manual_seed(0)))
        finally:
            torch.set_default_dtype(torch.float32)
    assert found[0].dtype == found[1].dtype == torch.float32 and torch.equal(*found)


def test_what_is_kept_from_inference_mode_serves_elsewhere() -> None:
    for name in ("Dropout, any module", "LastLayerLaplace, one layer"):
        made = copy.deepcopy(predictor(name))
        with torch.inference_mode():
            made(X)
        kept = made.masks.drawn.values() if isinstance(made, pinn.predictors.Dropout) else made._whitening  # type: ignore
        assert not any(tensor.is_inference() for tensor in kept)


def test_fields_computed_in_threads_leave_the_filters_of_warnings_alone() -> None:
    few = gb.calibrate(p.MeanOnly(lambda x: x[:, :1]), CAL.x[:5], CAL.y[:5])
    band = gb.band_over(few, {"x": X[:, 0], "y": X[:, 1]}, chunk=100)
    before = list(warnings.filters)
    asked = threading.Event()
    seen: list[Any] = []

    def look() -> None:
        while not asked.is_set():
            seen.append(list(warnings.filters) == before)

    watcher = threading.Thread(target=look)
    watcher.start()
    for _ in range(3):
        band.compute()  # infinite, and no warning of it
    asked.set()
    watcher.join()
    assert seen and all(seen) and warnings.filters == before


def test_only_the_thread_that_asked_for_silence_has_it() -> None:
    few = gb.calibrate(p.MeanOnly(lambda x: x[:, :1]), CAL.x[:5], CAL.y[:5])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with allow_infinite():
            few(X, 0.95)
            assert not said
            other = threading.Thread(target=few, args=(X, 0.95))
            other.start()
            other.join()
        few(X, 0.95)
    assert [kind.category for kind in said] == [gb.conformal.InfiniteBandWarning] * 2
