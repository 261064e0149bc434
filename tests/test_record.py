"""The record of a training: what each equation and each condition is missed by, under its own name."""

from dataclasses import dataclass
from typing import Any, cast

import pytest
import torch
from torch import Tensor

import guardband as gb
from guardband import pinn
from guardband.pinn.problems import Condition, Field


@dataclass(frozen=True)
class Flow(pinn.Problem):
    """Two outputs, three equations; what they say does not matter."""

    named: bool = True
    domain = pinn.Rectangle((0, 0), (1, 1)) * pinn.Time(0, 1)
    outputs = ("u", "v")

    def residual(self, x: Tensor, w: Field) -> Any:
        u, v = w["u"], w["v"]
        parts = {
            "momentum": torch.cat([u.d("t") + u.value, v.d("t") - 2.0], dim=1),
            "data": u.d("x") + v.d("y"),
        }
        return parts if self.named else torch.cat([*parts.values()], dim=1)

    def conditions(self) -> list[Condition]:
        return [
            pinn.Dirichlet(0.0, on="left"),
            pinn.Dirichlet(1.0, on=("top", "bottom"), output="u"),
            pinn.Dirichlet(1.0, on=lambda x: x[:, 0] == 1, output=("u", "v")),
            pinn.Initial(0.0),
            pinn.Dirichlet(0.5, on="left"),
            pinn.Periodic("x"),
            pinn.PointValue((0.5, 0.5, 0.5), 0.0, output="v"),
        ]


CONDITIONS = [
    "Dirichlet on left",
    "Dirichlet of u on top, bottom",
    "Dirichlet of u, v on a part",
    "Initial",
    "Dirichlet on left 2",
    "Periodic along x",
    "PointValue of v",
]


def fitted(problem: pinn.Problem, data: gb.Observations | None = None, **options: Any) -> pinn.Fitted:
    recipe = pinn.Recipe(steps=60, finish=50, n_interior=40, n_boundary=20, batch=16)
    return pinn.fit(problem, pinn.mlp(problem, [6]), data, recipe=recipe, progress=False, **options)


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False])
def test_equations_and_conditions_are_called_by_name(named: bool) -> None:
    equations = ["momentum", "equation data"] if named else ["equation", "equation 2", "equation 3"]
    found = fitted(Flow(named)).terms
    assert all([*row] == ["step", *equations, *CONDITIONS] for row in found)
    data = gb.Observations(torch.rand(9, 3, generator=torch.Generator().manual_seed(0)), torch.zeros(9, 2))
    assert [*fitted(Flow(named), data).terms[0]][:2] == ["step", "data"]


@pytest.mark.slow
def test_the_parts_sum_to_the_history() -> None:
    made = fitted(Flow())
    assert [row["step"] for row in made.terms] == [row["step"] for row in made.history] == [50, 60, 110]
    physics, boundary = made.likelihood.physics, made.likelihood.boundary
    assert isinstance(physics, dict) and isinstance(boundary, dict)
    assert [*physics] == ["momentum", "equation data"] and [*boundary] == CONDITIONS
    for row, whole in zip(made.terms, made.history, strict=True):
        for scales, term in ((physics, "physics"), (boundary, "boundary")):
            over = sum(row[name] / cast(float, scale) ** 2 for name, scale in scales.items())
            assert over == pytest.approx(whole[term], rel=1e-5)


def test_the_data_are_missed_as_the_history_says() -> None:
    problem = pinn.problems.Poisson1D()
    made = fitted(problem, problem.observe(20, noise=0.1))
    assert [row["data"] for row in made.terms] == pytest.approx([row["data"] for row in made.history])


def test_conditions_that_a_network_meets_are_not_recorded() -> None:
    problem = pinn.problems.Poisson1D()
    recipe = pinn.Recipe(steps=50, finish=0)
    net = pinn.Constrained(pinn.mlp(1, [6]), problem.lift, problem.bubble)
    made = pinn.fit(problem, net, problem.observe(20), recipe=recipe, progress=False)
    assert [*made.terms[0]] == ["step", "data", "equation"]


@pytest.mark.slow
def test_a_run_that_goes_on_has_the_whole_record(tmp_path: Any) -> None:
    whole = fitted(Flow())

    def stop(now: pinn.Moment) -> None:
        if now.step == 60:
            raise KeyboardInterrupt

    path = tmp_path / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        fitted(Flow(), checkpoint=path, callback=stop)
    assert fitted(Flow(), checkpoint=path).terms == whole.terms


@pytest.mark.slow
def test_a_record_is_kept_with_a_calibration(tmp_path: Any) -> None:
    problem = pinn.problems.Poisson1D()
    made = fitted(problem, problem.observe(20, noise=0.1))
    calibrated = gb.calibrate(made, *problem.observe(30, noise=0.1, seed=1))
    again = gb.load(gb.save(calibrated, tmp_path / "band"))
    kept = again.predictor.model  # type: ignore[union-attr]
    assert kept.terms == made.terms
