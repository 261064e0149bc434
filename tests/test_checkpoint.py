"""Checkpoints: a damaged one is refused, one of another run too, and the same run is known again."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from guardband import Observations
from guardband.pinn import Constrained, Fitted, Likelihood, Moment, Recipe, fit, mlp
from guardband.pinn.problems import AutogradField, Box, Condition, Dirichlet, Field, Poisson1D, Problem
from guardband.pinn.problems.conditions import Function
from guardband.pinn.training import checkpoint as checkpoints
from guardband.pinn.training import identity as identities

RECIPE = Recipe(steps=60, warmup=10, batch=16, n_interior=32, n_boundary=4, finish=0)
DATA = Poisson1D().observe(40, noise=0.05, seed=1)


@dataclass(frozen=True)
class Rod(Problem):
    """u'' = source with given ends."""

    source: Function
    ends: Function | float = 0.0
    domain = Box((0,), (1,))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d(0, 0) - self.source(x)

    def conditions(self) -> list[Condition]:
        return [Dirichlet(self.ends)]


def rod(slope: float = 1.0, ends: float = 0.0) -> Problem:
    """A problem of lambdas, which are new ones at every call."""
    return Rod(lambda x: slope * x, lambda x: ends + 0 * x)


def interrupted(path: Path, **changes: Any) -> None:
    def stop(now: Moment) -> None:
        if now.step > 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=path, callback=stop, **changes)
    assert path.exists()


def run(**changes: Any) -> Fitted:
    settings: dict[str, Any] = {"problem": rod(), "net": mlp(1, [6]), "training_data": DATA, "recipe": RECIPE}
    settings |= {"progress": False} | changes
    return fit(settings.pop("problem"), settings.pop("net"), settings.pop("training_data"), **settings)


def test_no_flipped_bit_is_taken_as_a_run(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    checkpoints.write(path, {"step": 3, "net": {"0": torch.arange(50.0)}, "history": [{"loss": 0.25}]})
    whole, generator = path.read_bytes(), np.random.default_rng(0)
    for place in generator.choice(8 * len(whole), size=300, replace=False).tolist():
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match=r"is not a checkpoint of guardband: .*Delete it to start over"):
            checkpoints.read(path)


def test_a_damaged_one_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    interrupted(path)
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(checkpoints.DamagedCheckpoint, match="its checksum does not match its content"):
        run(checkpoint=path)
    path.write_bytes(b"\0" * 500)
    with pytest.raises(checkpoints.DamagedCheckpoint, match="its first line is not that of this version"):
        run(checkpoint=path)


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes and symbolic links")
@pytest.mark.parametrize("kind", ["pipe", "endless", "large"])
def test_what_is_no_regular_file_or_too_large_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    else:
        path.touch()
        os.truncate(path, 2**40)
    with pytest.raises(ValueError, match="start over"):
        run(checkpoint=path)


@pytest.mark.parametrize("state", [[], {}, {"step": 3}])
def test_a_forged_one_with_the_right_identity_is_refused(state: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    interrupted(path)
    identity = checkpoints.read(path)["identity"]
    checkpoints.write(path, state | {"identity": identity} if isinstance(state, dict) else state)
    with pytest.raises(ValueError, match="start over"):
        run(checkpoint=path)


def test_a_problem_of_lambdas_and_of_a_notebook_is_known_again(tmp_path: Path) -> None:
    path, whole = tmp_path / "run.ckpt", run()
    interrupted(path)
    resumed = run(checkpoint=path)
    assert resumed.history == whole.history and not path.exists()
    names: list[dict[str, Any]] = [{}, {}]
    for module in names:  # as a notebook does whose cell is run again
        exec(NOTEBOOK, module)
    interrupted(path, problem=names[0]["Heat"]())
    steps: list[int] = []
    run(problem=names[1]["Heat"](), checkpoint=path, callback=lambda now: steps.append(now.step))
    assert steps == [60] and not path.exists()


NOTEBOOK = """
import torch
from guardband.pinn.problems import AutogradField, Box, Dirichlet, Problem

class Heat(Problem):
    domain = Box((0,), (1,))
    weight = torch.ones(1, 1)

    def residual(self, x, u):
        return u.d(0, 0) + x @ self.weight

    def conditions(self):
        return [Dirichlet(lambda x: 0 * x)]
"""


@dataclass(frozen=True)
class Wide(Rod):
    """The same equation on another domain."""

    domain = Box((0,), (1.001,))


def moved(data: Observations) -> Observations:
    y = torch.as_tensor(data.y).clone()
    y[7] += 1e-6
    return Observations(data.x, y)


OTHERS: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "one target": ("data", lambda: {"training_data": moved(DATA)}),
    "fewer data": ("data", lambda: {"training_data": Observations(DATA.x[:-1], DATA.y[:-1])}),
    "no data": ("data", lambda: {"training_data": None}),
    "widths": ("network", lambda: {"net": mlp(1, [7])}),
    "weights": ("network", lambda: {"net": mlp(1, [6], seed=1)}),
    "activation": ("network", lambda: {"net": mlp(1, [6], activation=torch.sin)}),
    "a lambda as activation": ("network", lambda: {"net": mlp(1, [6], activation=lambda x: 1.01 * x.tanh())}),
    "dropout": ("network", lambda: {"net": mlp(1, [6], dropout=0.1)}),
    "where dropout is": ("network", lambda: {"net": mlp(1, [6], where="all")}),
    "dtype": ("network", lambda: {"dtype": torch.float64}),
    "a constraint": ("network", lambda: {"net": Constrained(mlp(1, [6]), lambda x: 0 * x, lambda x: x)}),
    "the equation": ("problem", lambda: {"problem": rod(slope=1.00001)}),
    "the conditions": ("problem", lambda: {"problem": rod(ends=1e-3)}),
    "the domain": ("problem", lambda: {"problem": Wide(lambda x: x, lambda x: 0 * x)}),
    "steps": ("recipe", lambda: {"recipe": replace(RECIPE, steps=61)}),
    "noise": ("likelihood", lambda: {"likelihood": Likelihood(data=0.06)}),
    "noise by name": ("likelihood", lambda: {"likelihood": Likelihood(data={"u": 0.05})}),
    "tolerance": ("likelihood", lambda: {"likelihood": Likelihood(data=0.05, tolerance=0.01)}),
    "seed": ("seed", lambda: {"seed": 1}),
}


@pytest.mark.parametrize("other", OTHERS)
def test_the_checkpoint_of_another_run_is_refused(other: str, tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    interrupted(path)
    part, changes = OTHERS[other]
    before = path.read_bytes()
    with pytest.raises(
        ValueError, match=rf"belongs to a different run, .* its .*{part}.*delete this file to start"
    ):
        run(checkpoint=path, **changes())
    assert path.read_bytes() == before


def test_dropout_of_any_network_counts(tmp_path: Path) -> None:
    def net(rate: float) -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(1, 6), nn.Tanh(), nn.Dropout(rate), nn.Linear(6, 1))

    path = tmp_path / "run.ckpt"
    interrupted(path, net=net(0.1))
    with pytest.raises(ValueError, match="differs in its network"):
        run(checkpoint=path, net=net(0.2))
    run(checkpoint=path, net=net(0.1))


def test_scales_by_name_are_known_again(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    by_name = Likelihood(data={"u": 0.05}, physics={"equation": 1.0})
    interrupted(path, likelihood=by_name)
    with pytest.raises(ValueError, match="differs in its likelihood"):
        run(checkpoint=path, likelihood=Likelihood(data={"u": 0.05}, physics={"equation": 2.0}))
    ends = [run(checkpoint=path, likelihood=by_name), run(likelihood=by_name)]
    first, second = (end.net.state_dict() for end in ends)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    recipe = replace(RECIPE, steps=np.int64(60), learning_rate=np.float32(0.003))
    interrupted(path, recipe=recipe)
    run(checkpoint=path, recipe=recipe)
    assert not path.exists()


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_points_fill_the_box_and_no_derivative_of_the_fields_vanishes(d: int) -> None:
    box = Box((-1.0,) * d, tuple(1.0 + axis for axis in range(d)))
    x = identities.points_in(box)
    lower, upper = torch.tensor(box.lower), torch.tensor(box.upper)
    assert x.shape == (64, d) and bool(((x > lower) & (x < upper)).all())
    assert bool((x.mean(0) - (lower + upper) / 2).abs().max() < 0.05 * (upper - lower).max())
    for field in identities.fields_on(box, 2):
        u = AutogradField(field, x)
        for axes in ((), (0,), (d - 1, d - 1), (0, d - 1)):
            assert bool((u.d(*axes).abs().amax(0) > 1e-3).all())


def test_values_are_compared_to_a_millionth() -> None:
    one = {"values": [torch.tensor([1.0, -200.0, torch.nan])]}
    for change, same in ((1e-4, True), (1e-3, False)):
        other = {"values": [one["values"][0] + torch.tensor([change, 0.0, 0.0])]}
        assert (identities.differences(one, other) == []) is same
    for other in ({}, None, {"values": [torch.zeros(2)]}, {"values": [torch.zeros(3)]}, {"values": 3}):
        assert identities.differences(one, other) == ["values"]
