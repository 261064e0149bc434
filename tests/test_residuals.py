"""Yardsticks: offsets, outputs that are nothing, and small ones that are real."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from guardband import pinn
from guardband.pinn.convergence.residuals import rms, sample_misses, size
from guardband.pinn.problems import Field, catalogue
from guardband.pinn.problems.base import conditions_in
from guardband.pinn.problems.catalogue.navier_stokes import navier_stokes


@dataclass(frozen=True)
class Fin(pinn.Problem):
    """T'' = loss (T - air), hot at the left, insulated at the right; T is in any unit."""

    loss: float = 4.0
    air: float = 293.0
    base: float = 343.0
    domain = pinn.Segment(0, 1)
    outputs = ("T",)

    def residual(self, x: Tensor, T: Field) -> Tensor:
        return T.d("x", "x") - self.loss * (T.value - self.air)

    def conditions(self) -> list[pinn.problems.Condition]:
        return [pinn.Dirichlet(self.base, on="left"), pinn.Neumann(0.0, on="right")]

    def solution(self, x: Tensor) -> Tensor:
        rate = self.loss**0.5
        share = torch.cosh(rate * (1 - x)) / torch.cosh(torch.tensor(rate, dtype=x.dtype))
        return self.air + (self.base - self.air) * share


@dataclass(frozen=True)
class Channel(pinn.Problem):
    """Plane Poiseuille flow, in which nothing flows across: u = 4 y (1 - y) speed, v = 0."""

    viscosity: float = 0.1
    speed: float = 1.0
    domain = pinn.Rectangle((0, 0), (2, 1))
    outputs = ("u", "v", "p")

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        return navier_stokes(w, self.viscosity)

    def conditions(self) -> list[pinn.problems.Condition]:
        def inflow(x: Tensor) -> Tensor:
            return 4 * self.speed * x[:, 1:] * (1 - x[:, 1:])

        return [
            pinn.Dirichlet(inflow, on="left", output="u"),
            pinn.Dirichlet(0.0, on=("left", "right"), output="v"),
            pinn.Dirichlet(0.0, on=("top", "bottom"), output=("u", "v")),
            pinn.Dirichlet(0.0, on="right", output="p"),
        ]

    def solution(self, x: Tensor) -> Tensor:
        u = 4 * self.speed * x[:, 1:] * (1 - x[:, 1:])
        return torch.cat([u, 0 * u, 8 * self.viscosity * self.speed * (2 - x[:, :1])], dim=1)


@dataclass(frozen=True)
class Trace(pinn.Problem):
    """Little of b decays, and takes a little of a with it."""

    start: float = 1e-4
    domain = pinn.Time(0, 2)
    outputs = ("a", "b")

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        a, b = w["a"], w["b"]
        return {"a": a.d("t") + a.value * b.value, "b": b.d("t") + b.value}

    def conditions(self) -> list[pinn.problems.Condition]:
        return [pinn.Initial(1.0, output="a"), pinn.Initial(self.start, output="b")]

    def solution(self, x: Tensor) -> Tensor:
        b = self.start * torch.exp(-x)
        return torch.cat([torch.exp(b - self.start), b], dim=1)


@dataclass(frozen=True)
class Fast(pinn.Problem):
    """u is a fast wave and v'' = u, so v is small for its equation, and all that there is."""

    rate: float = 30 * torch.pi
    domain = pinn.Segment(0, 1)
    outputs = ("u", "v")

    def residual(self, x: Tensor, w: Field) -> dict[str, Tensor]:
        u, v = w["u"], w["v"]
        return {"u": u.d("x", "x") + self.rate**2 * torch.sin(self.rate * x), "v": v.d("x", "x") - u.value}

    def conditions(self) -> list[pinn.problems.Condition]:
        return [pinn.Dirichlet(0.0)]

    def solution(self, x: Tensor) -> Tensor:
        u = torch.sin(self.rate * x)
        return torch.cat([u, -u / self.rate**2], dim=1)


@dataclass(frozen=True)
class Still(pinn.Problem):
    """A plate that is equally warm all around."""

    warmth: float = 300.0
    domain = pinn.Rectangle((0, 0), (1, 1))

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.laplacian

    def conditions(self) -> list[pinn.problems.Condition]:
        return [pinn.Dirichlet(self.warmth)]


def test_of_an_offset_three_times_the_spread_counts() -> None:
    values, ones = torch.tensor([[99.0, -1.0, 5.0], [101.0, 1.0, 5.0]]).double(), torch.ones(2)
    assert size(values, ones).tolist() == pytest.approx([3.0, 1.0, 0.05])
    assert size(values * torch.tensor([1, 7, -2]), ones).tolist() == pytest.approx([3.0, 7.0, 0.1])


def test_weights_are_as_copies_of_points() -> None:
    values = torch.randn(50, 2, generator=torch.Generator().manual_seed(0)) + 5
    counts = torch.randint(1, 4, (50,), generator=torch.Generator().manual_seed(1))
    copies = values.repeat_interleave(counts, dim=0)
    weights = counts * 50 / counts.sum()  # which are 1 in the mean
    for measure in (rms, size):
        torch.testing.assert_close(measure(values, weights), measure(copies, torch.ones(len(copies))))


@pytest.mark.parametrize("name", catalogue.__all__)
def test_a_catalogue_problem_is_held_against_its_root_mean_square(name: str) -> None:
    """So its errors are relative L2, as they are elsewhere: no offset is large, and no output is nothing."""
    problem: pinn.Problem = getattr(catalogue, name)()
    x = problem.domain.uniform(512, seed=0, dtype=torch.float64)
    found = problem.solution(x)
    torch.testing.assert_close(size(found, torch.ones(len(x))), rms(found, torch.ones(len(x))))


@pytest.mark.parametrize(("off", "word"), [(0.5, "converged"), (10.0, "not converged")])
def test_an_offset_hides_no_error(off: float, word: str) -> None:
    """The fin is 343 K at most and changes by 37 K."""
    fin = Fin()
    found = pinn.verdict(fin, lambda x: fin.solution(x) + off * x)
    assert found.word == word, str(found)


@pytest.mark.parametrize("noise", [2.0, None])
def test_an_offset_hides_no_wrong_equation(noise: float | None) -> None:
    fin, wrong = Fin(), Fin(loss=8.0)
    data = fin.observe(100, noise=2.0, seed=1)
    assert pinn.verdict(wrong, wrong.solution, data, noise=noise).word == "suspicious"
    assert pinn.verdict(fin, fin.solution, data, noise=noise).word == "converged"
    assert pinn.verdict(fin, fin.solution, data, noise=0.2).word == "suspicious"  # understated


@pytest.mark.slow("1.0")
@pytest.mark.parametrize("speed", [1.0, 1e-5, 1e5])
def test_a_velocity_that_is_nothing_is_held_against_what_would_matter(speed: float) -> None:
    """A network is never quite 0 there."""
    channel = Channel(viscosity=0.1 * speed, speed=speed)
    unit = torch.tensor([speed, speed, speed**2], dtype=torch.float64)

    def near(x: Tensor, by: float) -> Tensor:
        return channel.solution(x) + by * unit * torch.sin(3 * x[:, :1] + 5 * x[:, 1:])

    assert pinn.verdict(channel, lambda x: near(x, 1e-6)).word == "converged"
    found = pinn.verdict(channel, lambda x: near(x, 1e-3))
    assert found.word == "not converged" and found.error["v"] > 0.1


@pytest.mark.parametrize("start", [1e-2, 1e-5, 1e-8])
def test_what_is_prescribed_to_be_small_is_held_against_itself(start: float) -> None:
    trace, fewer = Trace(start), torch.tensor([1.0, 0.8], dtype=torch.float64)
    assert pinn.verdict(trace, trace.solution).word == "converged"
    found = pinn.verdict(trace, lambda x: trace.solution(x) * fewer)
    assert found.word == "not converged" and found.error["b"] == pytest.approx(0.2, rel=0.1)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_what_is_small_because_it_is_fast_is_held_against_itself(share: float) -> None:
    """A smooth field of its size would be small against the terms, but its own terms are not met."""
    fast, part = Fast(), torch.tensor([1.0, share], dtype=torch.float64)
    found = pinn.verdict(fast, lambda x: fast.solution(x) * part)
    assert found.word == "not converged" and found.error["v"] > 0.5


@pytest.mark.parametrize(("off", "word"), [(1e-3, "converged"), (3.0, "not converged")])
def test_what_is_the_same_everywhere_is_held_against_a_hundredth_of_itself(off: float, word: str) -> None:
    found = pinn.verdict(Still(), lambda x: Still().warmth + off * torch.sin(3 * x[:, :1]))
    assert found.word == word, str(found)


def test_scales_of_equations_and_conditions_are_never_nothing() -> None:
    channel = Channel()
    looked = sample_misses(channel, channel.solution, 0, 200, 40)
    assert len(looked.scales()) == 1 + len(conditions_in(channel))
    assert all(bool((scale > 1e-3).all()) for scale in looked.scales())
