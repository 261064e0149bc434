"""The law suites must fail where a law is broken."""

import random
from typing import Any

import numpy as np
import pytest
import torch

import guardband as gb
from guardband import testing
from guardband.values import Prediction

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
        (wrong_kind, "the kind of array it was given"),
        (too_short, "a row per point, got 1 for 30"),
        (in_place, "the points x were changed|same mean"),
        (moody, "scale comes and goes with x"),
        (LeavesEvalMode(), "the mode of a network was changed"),
        (ShortAtTraining(), "at_training should return a row per point"),
        (lambda x: x, "should return a Prediction, got ndarray"),
    ],
)
def test_a_predictor_that_breaks_a_law_is_named(predictor: Any, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        testing.check_predictor(predictor, X)


def test_flat_points_are_points() -> None:
    testing.check_predictor(gb.predictors.Constant(np.sin), X[:, 0])


class Broken(gb.Scaled):
    """A score with one thing wrong."""

    def __init__(self, fault: str) -> None:
        object.__setattr__(self, "fault", fault)

    def __call__(self, prediction: Prediction, y: Any) -> Any:
        scores = super().__call__(prediction, y)
        match getattr(self, "fault"):  # noqa: B009
            case "shape":
                return scores[:, None]
            case "negative":
                return scores - 1
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
        ("negative", "numbers >= 0"),
        ("torch", "numpy and torch should give the same scores"),
        ("narrow", "lies outside its own band"),
        ("wide", "scores more than q lies inside"),
        ("clipped", "lies outside its own band|reach to -infinity"),
        ("rows", "q per row differs"),
        ("lower", "q per row differs"),
        ("shrinks", "scores more than q lies inside|narrower"),
    ],
)
def test_a_score_that_breaks_a_law_is_named(fault: str, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        testing.check_score(Broken(fault))


class Lawless(gb.Split):
    """A valid calibrator that knows no law of its own."""

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
