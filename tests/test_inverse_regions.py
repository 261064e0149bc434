"""Regions for coefficients: exact ranks, coverage under the stated noise and no other, and honest words."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import Tensor

import guardband as gb
from guardband import pinn
from guardband.conformal.hashed import key
from guardband.pinn.inverse.design import Design
from guardband.pinn.inverse.least_squares import least_squares
from guardband.pinn.inverse.methods import Permutations, Perturbation, Signs, _signs, ranks, units_needed
from guardband.pinn.inverse.search import search_grid
from guardband.pinn.problems import Field

SETS, N = 1000, 20
OSCILLATOR = pinn.Family(pinn.problems.DampedOscillator, damping=(0.02, 0.12), frequency=(5.5, 7.0))
HEAT = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2))

Noise = Callable[[np.random.Generator, np.ndarray], np.ndarray]
NOISES: dict[str, Noise] = {
    "gaussian": lambda rng, x: 0.15 * rng.normal(size=(SETS, len(x))),
    "laplace": lambda rng, x: 0.1 * rng.laplace(size=(SETS, len(x))),
    "heteroskedastic": lambda rng, x: 0.3 * x[:, 0] / 5 * rng.normal(size=(SETS, len(x))),
    "lognormal": lambda rng, x: 0.1 * rng.lognormal(size=(SETS, len(x))),
    "offset": lambda rng, x: 0.1 + 0.15 * rng.normal(size=(SETS, len(x))),
}


LEVEL = 1 - 6 / 128


def chance(kind: type[Perturbation], seed: int, n: int = N) -> Perturbation:
    return kind(seed, n, 1, 128, centered=kind is Permutations)


def cases(noise: Noise, n: int = N, seed: int = 0) -> tuple[Design, np.ndarray, np.ndarray]:
    """A design of n readings, and for each data set another truth and the noise of its readings."""
    rng = np.random.default_rng(seed)
    design = Design.at(OSCILLATOR.exact(), rng.uniform(0, 5, (n, 1)))
    return design, OSCILLATOR.drawn(SETS, seed + 1), noise(rng, np.asarray(design.x))


def covered(
    kind: type[Perturbation],
    noise: Noise,
    *,
    make: Callable[[type[Perturbation], int], Perturbation] = chance,
    delta: float = 0.0,
    bias: float = 0.0,
) -> int:
    """In how many of the data sets the truth is accepted; permutations are those of "
    "`pinn.inverse.permuted`."""
    design, truth, misses = cases(noise)
    directions = design.directions(truth, centered=kind is Permutations)
    misses = misses + bias * directions[:, 0]  # a solver that is wrong along the tangent plane
    y, inside = design.values(truth) + misses, 0
    for j in range(SETS):
        one, along = misses[j : j + 1], directions[j : j + 1]
        drawn = make(kind, int.from_bytes(key(0, y[j]), "little") if kind is Permutations else 0)
        inside += int(drawn.accepted(drawn.statistics(along, one, design.p), one, 6, delta)[0])
    return inside


def too_few(inside: int) -> bool:
    """Whether so few are rejected one-sided at 1e-3 for a coverage of 1 - 6 / 128."""
    return bool(binom.cdf(inside, SETS, LEVEL) < 1e-3)


def off(inside: int, level: float = LEVEL) -> bool:
    """Whether the count is rejected on either side at 1e-3."""
    return bool(min(binom.cdf(inside, SETS, level), binom.sf(inside - 1, SETS, level)) < 5e-4)


@pytest.mark.parametrize(
    ("kind", "noise"),
    [
        *((Signs, noise) for noise in ("gaussian", "laplace", "heteroskedastic")),
        *((Permutations, noise) for noise in ("gaussian", "laplace", "lognormal", "offset")),
    ],
)
def test_coverage_is_exactly_the_level_under_the_stated_noise(kind: type[Perturbation], noise: str) -> None:
    assert not off(covered(kind, NOISES[noise]))


def test_the_guard_pays_for_a_solver_that_is_off_and_without_it_coverage_is_lost() -> None:
    assert too_few(covered(Signs, NOISES["gaussian"], bias=0.4))
    for kind in (Signs, Permutations):
        assert not too_few(covered(kind, NOISES["gaussian"], bias=0.4, delta=0.4))


def test_signs_drawn_after_the_readings_are_caught() -> None:
    def after(kind: type[Perturbation], seed: int) -> Perturbation:
        class Peeking(Signs):
            """Signs that make all residuals that were seen negative, and so their own statistics small."""

            def products(self, directions: np.ndarray, residuals: np.ndarray) -> np.ndarray:
                found = super().products(directions, residuals)
                rng = np.random.default_rng(0)
                n = residuals.shape[1]
                signs = np.sign(residuals) * rng.choice([-1, 1], (127, n), p=[0.5, 0.5])
                signs[:, ::2] = np.abs(signs[:, ::2]) * np.where(np.arange(n)[::2] % 4, 1, -1)
                found[:, :, 1:] = directions @ (signs * residuals).T
                return found

        return Peeking(seed, N, 1, 128)

    assert off(covered(Signs, NOISES["gaussian"], make=after))


@pytest.mark.parametrize("n", [1, 2, 6, 7, 8, 12, 40, 128, 300])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_patterns_of_signs_are_a_group_without_their_opposites(n: int, seed: int) -> None:
    """What makes the level exact at a fixed seed; the signs of 0.2 were not closed under products."""
    m, _ = ranks("0.95", n)
    patterns = _signs(seed, n, m).T
    found = {tuple(pattern) for pattern in patterns}
    assert len(found) == m and (patterns[0] == 1).all()
    assert {tuple(a * b) for a in patterns[: 2 * n] for b in patterns} <= found
    assert tuple(-patterns[0]) not in found
    if n <= m:
        assert len(np.unique(patterns, axis=1).T) == n, "no two readings always share their sign"


@pytest.mark.parametrize("n", [6, 7, 10])
def test_signs_are_exact_at_a_fixed_seed(n: int) -> None:
    assert not off(*covered_by_signs(n, seed=0))


def covered_by_signs(n: int, seed: int) -> tuple[int, float]:
    """How often the truth is accepted with the signs of one seed, and the exact level."""
    design, truth, misses = cases(NOISES["heteroskedastic"], n, seed + 100 * n)
    m, q = ranks("0.95", n)
    drawn = Signs(seed, n, 1, m)
    statistics = drawn.statistics(design.directions(truth), misses, design.p)
    return int(drawn.accepted(statistics, misses, q).sum()), 1 - q / m


@pytest.mark.parametrize("kind", [Signs, Permutations])
def test_ties_do_not_reject(kind: type[Perturbation]) -> None:
    """Noise on a coarse grid: many variants are equal, and the level is kept."""
    rng = np.random.default_rng(3)
    misses = rng.integers(-1, 2, size=(SETS, 8)).astype(float)
    along = np.broadcast_to(np.eye(2, 8)[::-1], (SETS, 2, 8))
    drawn = replace(chance(kind, 5, 8), centered=False)
    inside = int(drawn.accepted(drawn.statistics(along, misses, 1), misses, 6).sum())
    assert not too_few(inside) and inside > LEVEL * SETS


def test_few_readings_reject_nothing_and_say_so() -> None:
    solved, given = HEAT.exact(), _heated(0.1, n=5)
    with pytest.warns(UserWarning, match="signs of 5 readings cannot reject .* At least 6 readings"):
        region = pinn.inverse.sign_perturbed(solved, given)
    assert region.share == pytest.approx(1.0) and region.interval("diffusivity") == (0.02, 0.2)
    assert pinn.inverse.sign_perturbed(solved, given, level=0.9).level == 0.9  # 5 suffice


def test_each_data_set_has_permutations_of_its_own() -> None:
    perturbations = [
        pinn.inverse.permuted(HEAT.exact(), _heated(0.1, seed=seed)).test.perturbation  # type: ignore[attr-defined]
        for seed in (0, 0, 1)
    ]
    assert perturbations[0] == perturbations[1] != perturbations[2]


@pytest.mark.parametrize("kind", [Signs, Permutations])
def test_the_statistic_moves_by_at_most_what_is_added(kind: type[Perturbation]) -> None:
    rng = np.random.default_rng(0)
    design = Design.at(OSCILLATOR.exact(), rng.uniform(0, 5, (N, 1)))
    along = design.directions(OSCILLATOR.drawn(50), centered=kind is Permutations)
    misses, added = rng.normal(size=(50, N)), rng.normal(size=(50, N))
    both = [
        chance(kind, 0).statistics(along, e, 2) * np.linalg.norm(e, axis=1, keepdims=True)
        for e in (misses, misses + added)
    ]
    assert (np.abs(both[1] - both[0]) <= np.linalg.norm(added, axis=1, keepdims=True) + 1e-9).all()


def test_one_sign_and_one_place_for_all_outputs_of_a_reading() -> None:
    rng = np.random.default_rng(0)
    misses, along = rng.normal(size=(1, 12)), rng.normal(size=(1, 3, 12))
    signs = Signs(0, 6, 2, 32).products(along, misses)[0]
    places = Permutations(0, 6, 2, 32).products(along, misses)[0]
    rows = misses.reshape(6, 2)
    flipped = {tuple(np.round(along[0] @ (rows * s[:, None]).ravel(), 9)) for s in _all_signs(6)}
    assert {tuple(np.round(column, 9)) for column in signs.T} <= flipped
    assert np.allclose(signs[:, 0], along[0] @ misses[0]) and np.allclose(places[:, 0], along[0] @ misses[0])
    norms = np.linalg.norm(np.linalg.lstsq(along[0], places, rcond=None)[0], axis=0)
    assert (norms <= np.linalg.norm(misses) + 1e-9).all()


def _all_signs(n: int) -> np.ndarray:
    return np.array(np.meshgrid(*[[-1, 1]] * n)).reshape(n, -1).T


def test_ranks_keep_every_level() -> None:
    for level in ("0.5", "0.8", "0.9", "0.95", "0.99", "0.999", "0.9999", "2/3", "0.683"):
        m, q = ranks(level)
        miss = 1 - Fraction(level)
        assert q / Fraction(m) <= miss < Fraction(q + 1, m) and m >= 128 and m & (m - 1) == 0 and q >= 1
        units = units_needed(level)
        assert ranks(level, units)[1] >= 1 > ranks(level, units - 1)[1]
    with pytest.raises(ValueError, match=r"at most 0\.999985 here"):
        ranks("0.9999999")


def test_directions_depend_on_x_and_theta_alone_and_have_length_one() -> None:
    design = Design.at(OSCILLATOR.exact(), np.random.default_rng(0).uniform(0, 5, (N, 1)))
    along = design.directions(OSCILLATOR.drawn(5))
    assert np.allclose(along[:, :2] @ np.swapaxes(along[:, :2], 1, 2), np.eye(2), atol=1e-6)
    assert np.allclose(np.linalg.norm(along[:, 2:], axis=2), 1)
    centered = design.directions(OSCILLATOR.drawn(5), centered=True)
    assert np.allclose(centered.sum(axis=2), 0, atol=1e-9)


def data(n: int = 40, seed: int = 0, **truth: float) -> gb.Observations:
    problem = pinn.problems.DampedOscillator(**truth)
    return problem.observe(n, noise=0.15, seed=seed, dtype=torch.float64)


@pytest.mark.parametrize("method", ["sign_perturbed", "permuted", "wald", "profile"])
def test_a_region_is_what_its_test_accepts(method: str) -> None:
    region = getattr(pinn.inverse, method)(OSCILLATOR.exact(), data(damping=0.07, frequency=6.2))
    grid = region.grid
    theta = np.stack([axis.ravel() for axis in np.meshgrid(*grid.axes, indexing="ij")], axis=1)
    assert (region.contains(theta).reshape(grid.inside.shape) == grid.inside).mean() > 0.995
    for j, name in enumerate(region.names):
        low, high = region.interval(name)
        inside = theta[grid.inside.ravel(), j]
        assert low < inside.min() and inside.max() < high
        assert low < region.estimate[j] < high
    assert region.contains(damping=0.07, frequency=6.2) and not region.contains(damping=0.07, frequency=6.9)
    assert not region.contains(damping=0.2, frequency=6.2), "outside of the range"
    assert region.pieces == 1 and not region.empty and region.touches_edge == ()
    assert 0.001 < region.share < 0.2 and region.informed == {"damping": True, "frequency": True}


def test_wald_and_profile_say_that_they_are_asymptotic() -> None:
    for method in (pinn.inverse.wald, pinn.inverse.profile):
        assert "asymptotic" in repr(method(OSCILLATOR.exact(), data()))
    assert "finite-sample" in repr(pinn.inverse.permuted(OSCILLATOR.exact(), data()))


def test_least_squares_finds_the_lowest_of_many_valleys() -> None:
    wide = pinn.Family(pinn.problems.DampedOscillator, damping=(0.02, 0.3), frequency=(2.0, 12.0)).exact()
    for seed, (damping, frequency) in enumerate(wide.family.drawn(10, seed=4)):
        given = data(damping=damping, frequency=frequency, seed=seed)
        design = Design.at(wide, given.x)
        y = (
            pinn.problems.DampedOscillator(damping=damping, frequency=frequency)
            .solution(given.x)
            .numpy()[:, 0]
        )
        theta, squares = least_squares(design, y)
        assert squares < 1e-12 and np.allclose(theta, [damping, frequency], rtol=1e-4)


def test_a_small_region_between_the_values_of_the_first_grid_is_found_near_the_estimate() -> None:
    at = np.array([0.4037, 0.6121])
    grid = search_grid(lambda theta: np.square(theta - at).sum(axis=1) < 1e-3**2, np.zeros(2), np.ones(2), at)
    assert not grid.empty and grid.pieces == 1
    assert grid.share == pytest.approx(np.pi * 1e-6, rel=0.2)
    assert grid.ends(0)[0] < at[0] - 1e-3 * 0.9 and grid.ends(0)[1] > at[0] + 1e-3 * 0.9
    nothing = search_grid(lambda theta: np.zeros(len(theta), dtype=bool), np.zeros(1), np.ones(1), at[:1])
    assert nothing.empty and np.isnan(nothing.ends(0)).all()


def test_the_sentence_names_all_that_is_assumed() -> None:
    said = str(pinn.coefficients(HEAT.exact(), _heated(0.1), delta=0.01, seed=7))
    for words in (
        "between",
        "95 %",
        "the truth lies in the range (diffusivity from 0.02 to 0.2)",
        "the equation of Heat1D and its conditions are right",
        "independent and symmetric about zero",
        "at most Delta = 0.01",
        "the seed 7 was chosen before",
    ):
        assert words in said
    assert "exchangeable" in str(pinn.coefficients(HEAT.exact(), _heated(0.1), noise="exchangeable"))
    gaussian = str(pinn.coefficients(HEAT.exact(), _heated(0.1), noise="gaussian"))
    assert "asymptotic" in gaussian and "Gaussian" in gaussian and "profile" in gaussian


def test_the_signs_come_from_the_seed() -> None:
    solved, data = HEAT.exact(), _heated(0.1)
    for noise, method in {
        "symmetric": pinn.inverse.sign_perturbed,
        "exchangeable": pinn.inverse.permuted,
    }.items():
        first, second = (
            method(solved, data, delta=0.0, seed=seed).interval("diffusivity") for seed in (0, 7)
        )
        found = pinn.coefficients(solved, data, noise=noise, delta=0.0, seed=7)  # type: ignore[arg-type]
        assert found.region.interval("diffusivity") == second != first


def _heated(diffusivity: float, n: int = 40, seed: int = 0) -> gb.Observations:
    return pinn.problems.Heat1D(diffusivity=diffusivity).observe(
        n, noise=0.05, seed=seed, dtype=torch.float64
    )


@dataclass(frozen=True)
class Product(pinn.problems.Heat1D):
    """Only the product of two coefficients is in the solution."""

    width: float = 1.0
    rate: float = 1.0

    def solution(self, x: Tensor) -> Tensor:
        return torch.exp(-self.width * self.rate * x[:, 1:]) * torch.sin(torch.pi * x[:, :1])


@dataclass(frozen=True)
class Late(pinn.Problem):
    """A coefficient that acts only after t = 1."""

    rate: float = 1.0
    domain = pinn.Time(0, 2)

    def residual(self, x: Tensor, u: Field) -> Tensor:
        return u.d("t") + self.rate * (x - 1).clamp(min=0)

    def solution(self, x: Tensor) -> Tensor:
        return 1 - self.rate * (x - 1).clamp(min=0) ** 2 / 2


@pytest.mark.parametrize("noise", ["symmetric", "exchangeable", "gaussian"])
def test_coefficients_that_cannot_be_told_apart_are_said_to_be_so(noise: Any) -> None:
    solved = pinn.Family(Product, width=(0.5, 2.0), rate=(0.5, 2.0)).exact()
    for seed in range(3):
        given = Product(width=1.2, rate=0.9).observe(40, noise=0.05, seed=seed, dtype=torch.float64)
        estimates = pinn.coefficients(solved, given, noise=noise)
        assert "NOT INFORMED: width and rate cannot be determined separately" in str(estimates)
        if not estimates.region.empty:
            low, high = estimates.region.interval("width")
            assert high - low > 0.5


@pytest.mark.parametrize("noise", ["symmetric", "exchangeable", "gaussian"])
def test_a_coefficient_that_no_reading_sees_could_be_anything(noise: Any) -> None:
    solved = pinn.Family(Late, rate=(0.5, 2.0)).exact()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        given = gb.Observations(rng.uniform(0, 1, (30, 1)), 1 + 0.05 * rng.normal(size=30))
        estimates = pinn.coefficients(solved, given, noise=noise, seed=seed)
        assert "NOT INFORMED: rate could have any value in its range" in str(estimates)
        assert estimates.region.interval("rate") == (0.5, 2.0)


@pytest.mark.parametrize("noise", ["symmetric", "exchangeable", "gaussian"])
def test_a_truth_outside_of_the_range_is_suspected(noise: Any) -> None:
    for seed in range(20):
        estimates = pinn.coefficients(HEAT.exact(), _heated(0.4, seed=seed), noise=noise, seed=seed)
        assert "the truth may lie outside" in str(estimates).lower()


@pytest.mark.slow
def test_membership_is_exact_for_four_coefficients_and_nothing_is_drawn() -> None:
    ranges = {"damping": (0.02, 0.12), "frequency": (5.5, 7.0), "start": (0.5, 1.5), "velocity": (-1.0, 1.0)}
    solved = pinn.Family(pinn.problems.DampedOscillator, **ranges).exact()
    region = pinn.inverse.sign_perturbed(solved, data(damping=0.05, frequency=6.2))
    assert region.contains(damping=0.05, frequency=6.2, start=1.0, velocity=0.0)
    with pytest.raises(ValueError, match="grid, which would be too large"):
        region.grid  # noqa: B018
    assert region.contains(region.values).all() and len(region.values) > 100  # type: ignore[union-attr]
    low, high = region.interval("damping")
    assert 0.02 <= low < 0.05 < high <= 0.12
    said = str(pinn.coefficients(solved, data(damping=0.05, frequency=6.2)))
    assert "test single values by" in said and "according to a search" in said


def test_some_outputs_of_several_may_be_measured() -> None:
    solved = pinn.Family(pinn.problems.Kovasznay, reynolds=(20.0, 60.0)).exact()
    whole = pinn.problems.Kovasznay(reynolds=30.0).observe(40, noise=0.05, dtype=torch.float64)
    velocity = gb.Observations(whole.x, whole.y[:, :2], outputs=("u", "v"))
    for method in (pinn.inverse.sign_perturbed, pinn.inverse.permuted, pinn.inverse.profile):
        region = method(solved, velocity)
        assert region.contains(reynolds=30.0) and not region.contains(reynolds=59.0)
    with pytest.raises(ValueError, match=r"name them, gb\.Observations"):
        pinn.inverse.profile(solved, gb.Observations(whole.x, whole.y[:, :2]))


@pytest.mark.slow
def test_a_network_is_held_against_the_solution_unless_delta_is_given() -> None:
    solved = HEAT.fit(recipe=pinn.Recipe.by_newton(40), progress=False)
    given = _heated(0.1)
    assert pinn.coefficients(solved, given).region.delta == pytest.approx(solved.check(given.x))
    assert pinn.coefficients(solved, given, delta=0.5).region.delta == 0.5

    @dataclass(frozen=True)
    class Unsolved(pinn.problems.Heat1D):
        def solution(self, x: Tensor) -> Tensor:
            raise NotImplementedError

    family = pinn.Family(Unsolved, diffusivity=(0.02, 0.2)).fit(
        recipe=pinn.Recipe.by_newton(1), progress=False
    )
    with pytest.raises(ValueError, match="error of the network is unknown"):
        pinn.coefficients(family, given)


def test_a_larger_delta_and_a_higher_level_accept_more() -> None:
    given, solved = data(damping=0.07, frequency=6.2), OSCILLATOR.exact()
    theta = OSCILLATOR.drawn(400)
    inside = [
        pinn.inverse.sign_perturbed(solved, given, delta=delta).contains(theta) for delta in (0.0, 0.1, 10.0)
    ]
    assert (inside[0] <= inside[1]).all() and inside[2].all()  # type: ignore[operator]
    assert pinn.inverse.profile(solved, given, level=0.5).share < pinn.inverse.profile(solved, given).share


def test_what_is_asked_wrongly_is_refused_with_the_cure() -> None:
    solved, given = OSCILLATOR.exact(), data()
    region = pinn.inverse.wald(solved, given)
    with pytest.raises(ValueError, match="A region is joint"):
        region.contains(damping=0.05)
    with pytest.raises(TypeError, match="not both"):
        region.contains([[0.05, 6.0]], damping=0.05)
    with pytest.raises(ValueError, match="Unknown coefficient 'mass'"):
        region.interval("mass")
    with pytest.raises(ValueError, match='"symmetric", "exchangeable" or "gaussian"'):
        pinn.coefficients(solved, given, noise="normal")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="should be a solved family"):
        pinn.coefficients(OSCILLATOR, given)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"should be gb.Observations\(x, y\)"):
        pinn.coefficients(solved, (given.x, given.y))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="chosen before the readings"):
        pinn.inverse.permuted(solved, given, seed=-1)
    with pytest.raises(ValueError, match="a nonnegative number"):
        pinn.inverse.permuted(solved, given, delta=-1.0)
    with pytest.raises(ValueError, match="more than 2 readings"):
        pinn.inverse.wald(solved, gb.Observations([0.1, 0.2], [1.0, 1.0]))
    gaps = gb.Observations.together([given, gb.Observations([0.1], [1.0])], ("u",))
    gaps.y[0] = np.nan
    with pytest.raises(ValueError, match="some values are missing"):
        pinn.inverse.wald(solved, gaps)
