"""The checks must fail if a law is broken."""

import random
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband import testing
from guardband.values import Prediction
from wings import pinn, torch

X = np.linspace(0, 1, 30)[:, None]


def noisy(x: np.ndarray) -> Prediction:
    return Prediction(x, x + np.random.default_rng().normal(size=x.shape))


def seeding(x: np.ndarray) -> Prediction:
    np.random.seed(0)
    return Prediction(x, x)


def python_random(x: np.ndarray) -> Prediction:
    random.random()
    return Prediction(x, x)


def torch_random(x: np.ndarray) -> Prediction:
    torch.rand(1)
    return Prediction(x, x)


def batch_dependent(x: np.ndarray) -> Prediction:
    return Prediction(x, x, np.full_like(x, x.std() + 1))


def order_dependent(x: np.ndarray) -> Prediction:
    return Prediction(x, x + np.where(len(x) == 30, np.arange(len(x))[:, None], x * 29))


def wrong_dtype(x: np.ndarray) -> Prediction:
    return Prediction(x, x.astype(np.float32))


def wrong_kind(x: np.ndarray) -> Prediction:
    return Prediction(None, torch.tensor(x))


def too_short(x: np.ndarray) -> Prediction:
    return Prediction(None, x[:1])


def in_place(x: np.ndarray) -> Prediction:
    x += 1
    return Prediction(None, x - 1)


def moody(x: np.ndarray) -> Prediction:
    return Prediction(x, x, None if len(x) > 1 else 1 + x)


class LeavesEvalMode:
    def __init__(self) -> None:
        self.net = torch.nn.Linear(1, 1).train()

    def __call__(self, x: np.ndarray) -> Prediction:
        self.net.eval()
        return Prediction(x, x)


class ShortAtTraining:
    def __call__(self, x: np.ndarray) -> Prediction:
        return Prediction(x, x)

    def at_training(self, x: np.ndarray) -> Prediction:
        return Prediction(None, x[1:])


@pytest.mark.parametrize(
    ("predictor", "text"),
    [
        (noisy, "the same x should give the same mean"),
        (seeding, "numpy's global random state was changed"),
        (python_random, "Python's global random state was changed"),
        (torch_random, "torch's global random state was changed"),
        (batch_dependent, "scale in chunks differs"),
        (order_dependent, "mean in another order differs"),
        (wrong_dtype, "the dtype should follow x"),
        (wrong_kind, "the kind of array it receives"),
        (too_short, "a row per point, got 1 for 30"),
        (in_place, "the points x were changed|same mean"),
        (moody, "the presence of scale depends on x"),
        (LeavesEvalMode(), "the mode of a network was changed"),
        (ShortAtTraining(), "at_training should return a row per point"),
        (lambda x: x, "should return a Prediction, got ndarray"),
    ],
)
def test_a_predictor_that_breaks_a_law_is_named(predictor: Any, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        testing.check_predictor(predictor, X)


def test_flat_points_are_points() -> None:
    testing.check_predictor(gb.predictors.MeanOnly(np.sin), X[:, 0])


class Broken(gb.Scaled):
    """A score with one error."""

    def __init__(self, fault: str) -> None:
        object.__setattr__(self, "fault", fault)

    def __call__(self, prediction: Prediction, y: Any) -> Any:
        scores = super().__call__(prediction, y)
        match getattr(self, "fault"):  # noqa: B009
            case "shape":
                return scores[:, None]
            case "nan":
                return scores * np.nan
            case "torch":
                return scores * (2 if isinstance(scores, torch.Tensor) else 1)
        return scores

    def band(self, prediction: Prediction, q: Any, level: float) -> gb.Band:
        band = super().band(prediction, q, level)
        match getattr(self, "fault"):  # noqa: B009
            case "narrow":
                return super().band(prediction, 0.99 * q, level)
            case "wide":
                return super().band(prediction, 1.01 * q, level)
            case "clipped":
                return super().band(prediction, np.minimum(q, 1e6), level)
            case "rows":
                return super().band(prediction, q if np.ndim(q) == 0 else q + 1, level)
            case "lower":
                return gb.Band(None, band.mean, band.lower - np.ndim(q), band.upper, level)
            case "shrinks":
                return super().band(prediction, np.inf, level) if np.ndim(q) == 0 and q < 0.01 else band
        return band


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("shape", "one score per row, got shape"),
        ("nan", "numbers, never NaN"),
        ("torch", "numpy and torch should give the same scores"),
        ("narrow", "lies outside its own band"),
        ("wide", "scores more than q lies inside"),
        ("clipped", "lies outside its own band|extend to -infinity"),
        ("rows", "q per row differs"),
        ("lower", "q per row differs"),
        ("shrinks", "scores more than q lies inside|narrower"),
    ],
)
def test_a_score_that_breaks_a_law_is_named(fault: str, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        testing.check_score(Broken(fault))


class Lawless(gb.Split):
    """A valid calibrator without an exact law."""

    def threshold(self, *args: Any, **options: Any) -> Any:
        threshold = gb.Split().threshold(*args, **options)
        object.__setattr__(threshold, "laws", lambda *_: None)
        return threshold


@pytest.mark.parametrize("sampler", [testing.exchangeable, testing.new_sensors])
def test_a_calibrator_without_a_law_is_held_against_the_binomial(sampler: testing.Sampler) -> None:
    if sampler is testing.exchangeable:
        testing.check_calibrator(Lawless(), draws=300, sizes=[19])
    else:
        testing.check_calibrator(gb.Clustered(), sampler=sampler, draws=300, sizes=[19])


def test_groups_are_drawn_for_single_test_points_too() -> None:
    draw = testing.two_groups(testing.HOMOSKEDASTIC, np.random.default_rng(0), 9, 1, 1)
    assert len(draw.y) == 2 and draw.groups is not None and draw.groups.tolist() == ["left", "right"]
    testing.check_calibrator(gb.Grouped(), sampler=testing.two_groups, draws=50, sizes=[9])


X_CAL = np.random.default_rng(0).uniform(size=(80, 1))
TRAIN = gb.Observations(X_CAL, np.sin(3 * X_CAL) + 0.1 * np.random.default_rng(1).normal(size=(80, 1)))
THRESHOLDS: dict[str, dict[str, Any]] = {
    "split": dict(calibrator=gb.Split()),
    "absolute": dict(calibrator=gb.Split(), score=gb.Absolute()),
    "few points": dict(calibrator=gb.Split(), n=5),
    "grouped": dict(calibrator=gb.Grouped(), sampler=testing.two_groups),
    "clustered": dict(calibrator=gb.Clustered(), sampler=testing.new_sensors),
    "weighted": dict(calibrator=gb.Weighted(lambda x: 1 + x[:, 0])),
    "localized": dict(calibrator=gb.conformal.RandomlyLocalized(bandwidth=0.5)),
    "local": dict(calibrator=gb.Local(TRAIN, gb.conformal.LogScale(draws=5))),
    "local, per level": dict(calibrator=gb.Local(TRAIN, pinn.PinballNetwork(steps=20))),
}


@pytest.mark.parametrize("name", THRESHOLDS)
def test_every_threshold_obeys_the_laws(name: str) -> None:
    testing.check_threshold(**THRESHOLDS[name])


class Faulty(gb.conformal.Calibrator):
    """Split with one error."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def threshold(self, scores: Any, prediction: Prediction, **options: Any) -> gb.conformal.Threshold:
        return FaultyThreshold(gb.Split().threshold(scores, prediction), self.fault)


class FaultyThreshold(gb.conformal.Threshold):
    def __init__(self, right: gb.conformal.Threshold, fault: str) -> None:
        self.right, self.fault = right, fault
        self.needs_groups = fault == "groups"  # type: ignore[misc]

    def __call__(self, prediction: Prediction, level: Any, groups: Any = None) -> Any:
        q, n = self.right(prediction, level), len(prediction)
        match self.fault:
            case "shape":
                return np.full((n, 2), q)
            case "nan":
                return np.nan
            case "shrinks":
                return 1 / q
            case "neighbors":
                return q * (1 + np.arange(n))
            case "clipped":
                return min(q, 1e6)
            case "low":
                return 0.5 * q
            case "random":
                np.random.uniform()
        return q

    def size(self, level: Any) -> Any:
        return self.right.size(level)

    def laws(self, level: Any, m: int, groups: Any = None) -> Any:
        return self.right.laws(level, m - (self.fault == "laws"))


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("shape", r"one threshold, or one per row, got shape \(40, 2\)"),
        ("nan", "a number, never NaN"),
        ("shrinks", "a higher level should not give a lower threshold"),
        ("neighbors", "should not depend on other rows"),
        ("clipped", "60 of 99 points, but a finite threshold"),
        ("laws", "the laws should count all test points"),
        ("low", "its law requires 7 points inside, but 2 are"),
        ("random", "numpy's global random state was changed"),
        ("groups", "needs groups, but does not require them"),
    ],
)
def test_a_threshold_that_breaks_a_law_is_named(fault: str, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        testing.check_threshold(Faulty(fault))
    if fault == "shape":
        testing.check_threshold(Faulty("none"))


PROBLEMS = [
    getattr(pinn.problems, name)() for name in ("Poisson1D", "DampedOscillator", "AllenCahn2D", "Helmholtz3D")
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_the_problems_here_obey_the_laws(problem: pinn.problems.Problem) -> None:
    pinn.testing.check_problem(problem)


class Wave(pinn.problems.Problem):
    """u_tt = u_xx, with one error."""

    domain = pinn.problems.Box((0, 0), (1, 1))

    def __init__(self, fault: str = "none") -> None:
        self.fault = fault

    def residual(self, x: torch.Tensor, u: pinn.problems.Field) -> torch.Tensor:
        if self.fault == "random":
            torch.rand(1)
        miss = u.d(1, 1) - (4 if self.fault == "equation" else 1) * u.d(0, 0)
        return miss[:, 0] if self.fault == "shape" else miss / (0 if self.fault == "infinite" else 1)

    def conditions(self) -> list[pinn.problems.Condition]:
        return [pinn.problems.Dirichlet(1.0 if self.fault == "walls" else 0.0, on="left")]

    def solution(self, x: torch.Tensor) -> torch.Tensor:
        if self.fault in ("unknown", "unknown, random"):
            raise NotImplementedError
        u = 1e-5 * torch.sin(torch.pi * x[:, 0]) * torch.cos(torch.pi * x[:, 1])
        return u if self.fault == "flat" else u[:, None]


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("equation", "should make the residual vanish, but leaves 0.00029"),
        ("walls", "should make the residual vanish, but leaves 1"),
        ("shape", r"a residual should have shape \(n, equations\), got \(200,\) for 200 points"),
        ("infinite", "a residual should be finite"),
        ("flat", r"solution should have shape \(n, 1\), got \(200,\) for 200 points"),
        ("random", "torch's global random state was changed"),
    ],
)
def test_a_problem_that_breaks_a_law_is_named(fault: str, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        pinn.testing.check_problem(Wave(fault))


@pytest.mark.parametrize("fault", ["none", "unknown"])
def test_a_sound_problem_passes_with_or_without_a_solution(fault: str) -> None:
    pinn.testing.check_problem(Wave(fault))


def test_a_threshold_may_say_its_traits_as_before_0_3() -> None:
    class Sensors(gb.conformal.Calibrator):
        def threshold(self, scores: Any, prediction: Prediction, **options: Any) -> gb.conformal.Threshold:
            return Old(gb.Split().threshold(scores, prediction), "none")

    class Old(FaultyThreshold):
        covers_new_groups = True

        def __init__(self, right: gb.conformal.Threshold, fault: str) -> None:
            super().__init__(right, fault)
            self.needs_groups = True  # type: ignore[misc]

    made = gb.calibrate_arrays(np.zeros(20), np.arange(20.0), calibrator=Sensors())
    assert made.traits == gb.conformal.Traits(needs_groups=True, covers_new_groups=True, is_box=True)
    assert made.needs_groups and made.covers_new_groups and not made.answers_shift and made.joint
    assert not gb.conformal.Threshold.needs_groups and not made.threshold.traits.needs_groups
