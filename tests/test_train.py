"""Training: accurate, reproducible, and hard to break."""

import signal
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import guardband as gb
from guardband import pinn
from guardband.pinn import (
    Constrained,
    Fitted,
    Likelihood,
    Recipe,
    TrainingDiverged,
    fit,
    mlp,
)
from guardband.pinn.misses.likelihood import typical_residual
from guardband.pinn.problems import AllenCahn2D, Box, DampedOscillator, Dirichlet, Poisson1D, Problem
from guardband.pinn.training import checkpoint as checkpoints
from guardband.testing import untouched

QUICK = Recipe(steps=60, warmup=10, batch=32, n_interior=64, n_boundary=16, finish=100)
DATA = Poisson1D().observe(60, noise=0.05, seed=1)


def quick(**options: Any) -> Fitted:
    settings: dict[str, Any] = dict(recipe=QUICK, progress=False) | options
    return fit(Poisson1D(), mlp(1, [8, 8]), DATA, **settings)


def error(fitted: Fitted) -> float:
    x = fitted.problem.domain.uniform(2000, torch.Generator().manual_seed(7))
    return gb.metrics.relative_l2(fitted(x), fitted.problem.solution(x))


def same(a: Fitted, b: Fitted) -> bool:
    pairs = zip(a.net.state_dict().values(), b.net.state_dict().values(), strict=True)
    return all(torch.equal(p, q) for p, q in pairs)


@pytest.mark.slow
def test_the_default_solves_the_poisson_equation() -> None:
    problem = Poisson1D()
    data = problem.observe(60, noise=0.15, seed=3)
    fitted = fit(problem, mlp(1, [25, 35, 35, 25]), data, likelihood=Likelihood(data=0.15), progress=False)
    assert error(fitted) < 0.001
    assert fitted.training_data is data and fitted.likelihood.boundary and not fitted.net.training
    assert set(fitted.history[0]) == {"step", "loss", "data", "physics", "boundary"}
    band = gb.calibrate(gb.predictors.MeanOnly(fitted), *problem.observe(50, noise=0.15, seed=4))(
        np.zeros((3, 1))
    )
    assert isinstance(band.upper, np.ndarray)
    with pytest.raises(ValueError, match="60 of 60 calibration points are training points"):
        gb.calibrate(gb.predictors.MeanOnly(fitted), data.x, data.y)


@pytest.mark.slow
def test_an_equation_alone_needs_no_data() -> None:
    problem = Poisson1D()
    assert error(fit(problem, mlp(1, [16, 16]), recipe=replace(QUICK, finish=400), progress=False)) < 0.05


def test_a_hard_constraint_needs_no_condition_in_the_loss() -> None:
    problem = Poisson1D()
    net = Constrained(mlp(1, [16, 16]), problem.lift, problem.bubble)
    fitted = fit(problem, net, DATA, recipe=replace(QUICK, finish=300), progress=False)
    assert error(fitted) < 0.05 and fitted.history[-1]["boundary"] == 0


def test_any_module_can_be_trained() -> None:
    class Waves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.amplitude = nn.Parameter(torch.zeros(3, 1))

        def forward(self, x: Tensor) -> Tensor:
            return torch.sin(torch.pi * x * torch.arange(1, 4)) @ self.amplitude

    assert error(fit(Poisson1D(), Waves(), DATA, recipe=QUICK, progress=False)) < 0.03


@dataclass(frozen=True)
class Rotation(Problem):
    """Two outputs: (u, v)' = (v, -u), u(0) = 0, v(0) = 1."""

    domain = pinn.Time(0, 2)
    outputs = 2

    def residual(self, x: Tensor, u: pinn.problems.Field) -> Tensor:
        return u.d(0) - u.value @ torch.tensor([[0.0, -1.0], [1.0, 0.0]])

    def conditions(self) -> list[pinn.problems.Condition]:
        return [pinn.Initial((0.0, 1.0))]

    def solution(self, x: Tensor) -> Tensor:
        return torch.cat([torch.sin(x), torch.cos(x)], dim=1)


def test_systems_with_several_outputs_train() -> None:
    problem = Rotation()
    data = problem.observe(20, noise=0.01)
    fitted = fit(
        problem, mlp(1, [16, 16], outputs=2), data, recipe=replace(QUICK, finish=300), progress=False
    )
    assert error(fitted) < 0.05


@pytest.mark.slow
def test_a_seed_fixes_the_result_and_no_trace_is_left() -> None:
    net = mlp(1, [8, 8], dropout=0.1)
    before = [p.clone() for p in net.parameters()]
    with untouched(net):
        one, two = (fit(Poisson1D(), net, DATA, recipe=QUICK, progress=False, seed=5) for _ in range(2))
        other = fit(Poisson1D(), net, DATA, recipe=QUICK, progress=False, seed=6)
    assert same(one, two) and not same(one, other)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


def test_dtype_and_device_follow_the_arguments() -> None:
    fitted = quick(dtype=torch.float64, device="cpu")
    assert next(fitted.net.parameters()).dtype == torch.float64
    assert quick().net.get_buffer("reach").tolist() == [0.5]


@pytest.mark.parametrize("dtype", ["float64", np.float64, np.dtype("f8"), float])
def test_a_dtype_may_be_called_by_its_name(dtype: Any) -> None:
    fitted = quick(dtype=dtype, recipe=replace(QUICK, steps=1, finish=0))
    assert next(fitted.net.parameters()).dtype == torch.float64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float6"}, "`dtype` should be torch.float32 or torch.float64, got 'float6'"),
        ({"dtype": np.int64}, "`dtype` should be torch.float32 or torch.float64"),
        ({"dtype": torch.int64}, "got torch.int64"),
        ({"dtype": np.complex128}, "`dtype` should be"),
        ({"recipe": 100}, r"`recipe` should be pinn\.Recipe\(steps=...\), got 100"),
        ({"recipe": 0}, r"`recipe` should be pinn\.Recipe\(steps=...\), got 0"),
        ({"training_data": DATA.x}, r"should be gb\.Observations\(x, y\).* got Tensor of shape \(60, 1\)"),
        ({"training_data": np.zeros((2, 2))}, r"got ndarray of shape \(2, 2\)"),
        ({"training_data": []}, r"several of them in a list, or None, got \[\]"),
        ({"training_data": [DATA, DATA.x]}, r"got Tensor of shape \(60, 1\) among them"),
    ],
)
def test_settings_and_data_should_be_what_they_are_called(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        fit(Poisson1D(), mlp(1, [4]), progress=False, **options)


def test_the_callback_sees_each_row() -> None:
    rows: list[tuple[int, dict[str, float]]] = []
    fitted = quick(callback=lambda now: rows.append((now.step, now.row)))
    assert [row for _, row in rows] == fitted.history and [step for step, _ in rows][:2] == [50, 60]


@pytest.mark.slow("True")
@pytest.mark.parametrize("compile", [False, True])
def test_jets_and_autograd_train_to_the_same_loss(compile: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty steps in float64 by the fast path and by double backward: equal to 8 digits."""
    recipe = replace(QUICK, steps=50, finish=0)
    options: dict[str, Any] = dict(recipe=recipe, dtype=torch.float64, progress=False)
    problem = AllenCahn2D()
    data = problem.observe(50, noise=0.05)
    fast = fit(problem, mlp(2, [8, 8]), data, compile=compile, **options)
    monkeypatch.setattr("guardband.pinn.networks.derivatives.layers_of", lambda net, x: None)
    slow = fit(problem, mlp(2, [8, 8]), data, compile=False, **options)
    assert fast.history[-1]["loss"] == pytest.approx(slow.history[-1]["loss"], rel=1e-8)


def test_a_rate_that_diverges_ends_with_advice_and_a_finite_network() -> None:
    with pytest.raises(
        TrainingDiverged, match=r"diverged at step \d+: .* Try a learning rate of 10 instead of 100"
    ) as caught:
        quick_recipe = replace(QUICK, learning_rate=1e2, steps=400, finish=200)
        fit(
            AllenCahn2D(),
            mlp(2, [16, 16, 16]),
            AllenCahn2D().observe(50),
            recipe=quick_recipe,
            progress=False,
        )
    network = caught.value.fitted.net
    assert all(bool(p.isfinite().all()) for p in network.parameters())


class Given(pinn.problems.Condition):
    """A condition that forgets to return what it computes."""

    def residual(self, x: Tensor, u: pinn.problems.Field) -> Tensor:
        return None  # type: ignore[return-value]


def test_a_residual_that_is_not_finite_is_called_out() -> None:
    @dataclass(frozen=True)
    class Singular(Poisson1D):
        def residual(self, x: Tensor, u: pinn.problems.Field) -> Tensor:
            return u.d(0, 0) / (x - x)

    with pytest.raises(TrainingDiverged, match="points at which the residual is not finite"):
        fit(Singular(), mlp(1, [4]), DATA, likelihood=Likelihood(physics=1.0), recipe=QUICK, progress=False)


@pytest.mark.parametrize(
    ("residual", "conditions", "message"),
    [
        (
            lambda x, u: u.d(0, 0) / (x - x),
            [],
            r"residual should be finite, but it is NaN at 256 of 256 points inside, with u = 0.* x = ",
        ),
        (lambda x, u: u.value.log(), [], "is infinite at 256 of 256 points inside"),
        (lambda x, u: (1 + u.value).log(), [], r"is NaN at \d+ of 256 points inside, with waves .*physics="),
        (
            lambda x, u: u.laplacian,
            [Dirichlet(lambda x: x.log())],
            "The residual of Dirichlet should be finite, but it is infinite at 1 of 2 points where it holds",
        ),
        (lambda x, u: u.laplacian, [Given()], "The residual of Given should return a tensor .* got None"),
    ],
)
def test_what_is_not_finite_at_the_start_is_named(residual: Any, conditions: list[Any], message: str) -> None:
    parts = {"residual": lambda self, x, u: residual(x, u), "conditions": lambda self: conditions}
    with pytest.raises((ValueError, TypeError), match=message):
        fit(type("Own", (Poisson1D,), parts)(), mlp(1, [4]), recipe=QUICK, progress=False)


@pytest.mark.parametrize(
    ("residual", "net", "message"),
    [
        (
            lambda x, u: u.laplacian.detach(),
            mlp(1, [4]),
            "changing the weights of the network does not change it",
        ),
        (lambda x, u: x - 1, mlp(1, [4]), "changing the weights of the network does not change it"),
        (
            lambda x, u: u.d("x", "x") + 1,
            nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1)),
            "second derivatives, but those of this network are 0 everywhere, as with ReLU",
        ),
        (lambda x, u: u.laplacian, nn.Linear(1, 1), "are 0 everywhere"),
    ],
)
def test_equations_that_the_network_cannot_meet_are_refused(residual: Any, net: Any, message: str) -> None:
    own = type("Own", (Poisson1D,), {"residual": lambda self, x, u: residual(x, u)})()
    with pytest.raises(ValueError, match=message):
        fit(own, net, recipe=QUICK, progress=False)


def test_first_derivatives_are_enough_for_an_equation_of_first_order() -> None:
    own = type("Own", (Poisson1D,), {"residual": lambda self, x, u: u.d("x") - 1})()
    fit(own, nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1)), recipe=QUICK, progress=False)


def test_observations_of_another_problem_are_refused() -> None:
    with pytest.raises(ValueError, match=r"have 2 coordinates and 1 outputs \(u\), got x \(60, 1\)"):
        fit(AllenCahn2D(), mlp(2, [4]), DATA, progress=False)


@pytest.mark.parametrize("name", ["data", "physics", "boundary"])
def test_scales_should_be_positive(name: str) -> None:
    with pytest.raises(ValueError, match=f"`{name}` should be a positive noise scale, got -1"):
        Likelihood(**{name: -1.0})


def test_scales_that_are_not_known_yet_have_no_weights() -> None:
    with pytest.raises(ValueError, match="Some scales are still None"):
        Likelihood().weights()


def test_the_schedules_start_and_end_where_they_should() -> None:
    recipe = Recipe(steps=1000, learning_rate=1.0, warmup=100, anneal=50)
    assert recipe.rate(0) == pytest.approx(0.01, rel=1e-3) and recipe.rate(999) == pytest.approx(
        0.1, rel=1e-3
    )
    assert recipe.physics_factor(0) == 50 and recipe.physics_factor(500) == 1 == recipe.physics_factor(900)


def test_the_typical_residual_knows_the_units_of_the_equation() -> None:
    def typical(problem: Problem, size: float) -> float:
        return float(typical_residual(problem, problem.misses, None, torch.tensor([size])))

    slow, fast = (typical(DampedOscillator(frequency=w), 1.0) for w in (2.0, 20.0))
    assert fast / slow > 50
    assert typical(Poisson1D(), 2.0) == pytest.approx(2 * typical(Poisson1D(), 1.0))


def test_measurements_outside_of_the_domain_are_told() -> None:
    problem = pinn.problems.AllenCahn2D()
    recipe = Recipe(steps=1, finish=0, n_interior=4, n_boundary=2)
    low, high = (np.array(ends) for ends in (problem.domain.lower, problem.domain.upper))
    x = np.random.default_rng(0).uniform(low, high, size=(50, 2))
    x[0], x[1] = low * (1 + 1e-7), high * (1 + 1e-7)  # on the boundary but for rounding
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(problem, mlp(2, [4]), gb.Observations(x, x[:, :1]), recipe=recipe, progress=False)
    x[2] = high * 10
    with pytest.warns(UserWarning, match=r"1 of 50 measurements lie outside .* \(10, 10\)"):
        fit(problem, mlp(2, [4]), gb.Observations(x, x[:, :1]), recipe=recipe, progress=False)


def test_a_fitted_network_is_differentiated_like_its_network() -> None:
    fitted = quick()
    x = fitted.problem.domain.quasi(20)
    field, inner = fitted.problem.field(fitted, x), fitted.problem.field(fitted.net, x)
    assert torch.equal(field.d("x", "x"), inner.d("x", "x")) and bool(field.d("x").abs().max() > 0.1)


def test_points_with_another_number_of_columns_are_refused() -> None:
    problem = pinn.problems.AllenCahn2D()
    recipe = Recipe(steps=1, finish=0, n_interior=4, n_boundary=2)
    fitted = fit(problem, mlp(2, [4]), recipe=recipe, progress=False)
    for x in ([0.3, 0.9], np.zeros((5, 1)), np.zeros((5, 3))):
        with pytest.raises(
            ValueError, match=r"should have 2 columns, one per input of the network, got [13]\."
        ):
            fitted(x)
    with pytest.raises(ValueError, match="should have 2 columns"):
        gb.calibrate(fitted, np.zeros((20, 1)), np.zeros(20))


@pytest.mark.slow
def test_a_checkpoint_resumes_bit_for_bit_from_every_stage(tmp_path: Path) -> None:
    whole = quick()
    for stop in (50, 60, 110):
        path = tmp_path / f"{stop}.ckpt"

        def interrupt(now: pinn.Moment, stop: int = stop) -> None:
            if now.step > stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            quick(checkpoint=path, callback=interrupt)
        assert path.exists()
        resumed = quick(checkpoint=path)
        assert same(resumed, whole) and resumed.history == whole.history and not path.exists()


def test_a_checkpoint_of_another_run_or_a_broken_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"

    def interrupt(now: pinn.Moment) -> None:
        if now.step > 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quick(checkpoint=path, callback=interrupt)
    with pytest.raises(ValueError, match=r"belongs to a different run.*delete this file to start over"):
        quick(checkpoint=path, seed=1)
    data = path.read_bytes()
    for broken in (b"", data[: len(data) // 2], b"{}" + data[2:], checkpoint_without_skeleton()):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="is not a checkpoint of guardband"):
            quick(checkpoint=path)


@pytest.mark.parametrize(
    ("part", "name", "stop"), [("adam", "exp_avg", 50), ("lbfgs", "d", 110), ("lbfgs", "old_dirs", 110)]
)
def test_what_an_optimizer_cannot_remember_is_refused(
    tmp_path: Path, part: str, name: str, stop: int
) -> None:
    """Somebody may write what they like, with the right checksum."""
    path = tmp_path / "run.ckpt"

    def interrupt(now: pinn.Moment) -> None:
        if now.step > stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quick(checkpoint=path, callback=interrupt)
    state = checkpoints.read(path)
    for forged in ("x", torch.zeros(3, 7), [torch.zeros(2)], [["x"]]):
        state["stage"][part][0][name] = forged
        checkpoints.write(path, state)
        with pytest.raises(ValueError, match=f"is not a checkpoint of guardband: the optimizer's `{name}`"):
            quick(checkpoint=path)
    state["stage"][part] = {0: {}, 1000: {"step": torch.zeros(())}}
    checkpoints.write(path, state)
    with pytest.raises(ValueError, match="is not a checkpoint of guardband"):
        quick(checkpoint=path)


def checkpoint_without_skeleton() -> bytes:
    from safetensors.torch import save

    return save({"a": torch.zeros(1)})


WRITER = """
import sys, torch
from pathlib import Path
from guardband.pinn import checkpoint
state = {"step": 0, "net": {str(i): torch.zeros(100_000) for i in range(20)}}
print("ready", flush=True)
while True:
    state["step"] += 1
    state["net"]["0"] += 1
    checkpoint.write(Path(sys.argv[1]), state)
"""


@pytest.mark.slow("5")
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize("times", [5, pytest.param(100, marks=pytest.mark.long)])
def test_a_checkpoint_write_that_is_killed_leaves_a_readable_file(tmp_path: Path, times: int) -> None:
    generator = np.random.default_rng(1)
    path = tmp_path / "run.ckpt"
    for _ in range(times):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(float(generator.uniform(0.05, 0.3)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if path.exists():
            state = checkpoints.read(path)
            assert float(state["net"]["0"][0]) == state["step"]
    assert path.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of resources")
def test_a_full_disk_leaves_the_previous_checkpoint_loadable(tmp_path: Path) -> None:
    import resource

    path = tmp_path / "run.ckpt"
    checkpoints.write(path, {"step": 1, "big": torch.zeros(1000)})
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            checkpoints.write(path, {"step": 2, "big": torch.zeros(1_000_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert checkpoints.read(path)["step"] == 1 and list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_a_users_own_equation_is_a_few_lines() -> None:
    @dataclass(frozen=True)
    class Membrane(Problem):
        domain = Box((0, 0), (1, 1))

        def residual(self, x: Tensor, u: pinn.problems.Field) -> Tensor:
            return u.laplacian + 1

        def conditions(self) -> list[pinn.problems.Condition]:
            return [Dirichlet(lambda x: 0 * x[:, :1])]

    fitted = fit(Membrane(), mlp(2, [32, 32]), recipe=Recipe(steps=300, finish=300), progress=False)
    # The deflection at the center of a square membrane under unit load is 0.07367.
    assert float(fitted(torch.tensor([[0.5, 0.5]]))) == pytest.approx(0.07367, rel=0.03)


def test_a_source_without_its_column_is_refused() -> None:
    @dataclass(frozen=True)
    class Flat(Problem):
        columns: int = 1
        domain = Box((0, 0), (1, 1))

        def residual(self, x: Tensor, u: Any) -> Tensor:
            return u.laplacian - x[:, 0] if self.columns else u.laplacian[:, 0]

        def conditions(self) -> list[Any]:
            return [Dirichlet(0.0)]

    with pytest.raises(ValueError, match=r"returned \(3, 3\) for 3 points and \(5, 5\) for 5"):
        fit(Flat(), mlp(2, [4]), recipe=QUICK, progress=False)
    with pytest.raises(ValueError, match=r"should return shape \(n, equations\), got \(3,\) for 3 points"):
        fit(Flat(columns=0), mlp(2, [4]), recipe=QUICK, progress=False)


def test_arguments_of_fit_are_checked() -> None:
    with pytest.raises(ValueError, match=r"pinn.mlp\(problem\) fits it"):
        fit(Poisson1D(), mlp(2, [4]), progress=False)
    with pytest.raises(TypeError, match=r"pinn\.Likelihood"):
        fit(Poisson1D(), mlp(1, [4]), likelihood=0.05, progress=False)  # type: ignore[arg-type]
    fitted = fit(Poisson1D(), mlp(1, [4]), (DATA.x, DATA.y), recipe=QUICK, progress=False)  # type: ignore[arg-type]
    assert isinstance(fitted.training_data, gb.Observations) and fitted(np.linspace(0, 1, 5)).shape == (5, 1)
    for use in (pinn.predictors.LastLayerLaplace, pinn.Potential):
        with pytest.raises(TypeError, match=r"the result of `pinn\.fit`"):
            use(fitted.net)  # type: ignore[arg-type]


class Nowhere(pinn.problems.Problem):
    def residual(self, x: torch.Tensor, u: Any) -> torch.Tensor:
        return u.laplacian


class Pair(Nowhere):
    domain = (0, 1)  # type: ignore[assignment]


def test_a_problem_without_a_domain_is_refused() -> None:
    with pytest.raises(TypeError, match="Nowhere should define its domain"):
        pinn.fit(Nowhere(), pinn.mlp(1, [4]), progress=False)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: pinn.fit(Poisson1D, mlp(1, [4])), r"should be an instance, Poisson1D\(\), got the"),  # type: ignore[arg-type]
        (lambda: mlp(Poisson1D), r"Poisson1D\(\), got the class itself"),  # type: ignore[arg-type]
        (lambda: Constrained.of(Poisson1D, mlp(1, [4])), "got the class itself"),  # type: ignore[arg-type]
        (lambda: pinn.fit(mlp(1, [4]), Poisson1D()), r"The problem comes first.* pinn\.fit\(problem, net"),  # type: ignore[arg-type]
        (lambda: pinn.fit(mlp(1, [4]), DATA), r"`problem` should be a pinn\.Problem, got MLP"),  # type: ignore[arg-type]
        (lambda: pinn.fit(Poisson1D(), DATA), r"`net` should be a torch module.* got Observations"),  # type: ignore[arg-type]
        (lambda: mlp("Poisson1D"), r"should be a pinn\.Problem, got str"),  # type: ignore[arg-type]
        (lambda: mlp(Nowhere()), "Nowhere should define its domain"),
        (lambda: Nowhere().observe(3), "Nowhere should define its domain"),
        (lambda: mlp(Pair()), r"Pair.domain should be a shape, such as pinn\.Segment\(0, 1\), got \(0, 1\)"),
        (lambda: pinn.fit(Pair(), mlp(1, [4])), "Pair.domain should be a shape"),
    ],
)
def test_problem_and_network_should_be_what_they_are_called(use: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        use()
