"""The selected band keeps its guarantee: exactly on separate rows, with an adjustment on the same rows."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import guardband as gb
from guardband.conformal.chosen import Chosen
from guardband.conformal.laws import CoverageLaw, tails, total_counts
from guardband.conformal.rank import exact, rank

FALSE_ALARM = 1e-3 / 3


def world(generator: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    return generator.uniform(size=(n, 1)), generator.normal(size=(n, 1))


def scaled(seed: int) -> gb.predictors.Given:
    """A useless scale, a random wave that looks good by chance only."""
    return gb.predictors.Given(lambda x: 0 * x, lambda x: np.exp(0.6 * np.sin(400 * (seed + 1) * x + seed)))


CANDIDATES = {f"wave {seed}": scaled(seed) for seed in range(4)}


@pytest.mark.slow
def test_on_rows_of_their_own_the_exact_law_holds() -> None:
    generator, covered, draws = np.random.default_rng(0), 0, 300
    for _ in range(draws):
        seen, rows = world(generator, 30), world(generator, 19)
        choice = gb.choose(CANDIDATES, choose=seen, calibrate=rows, level=0.8)
        covered += int(choice.calibrated.contains(*world(generator, 50), 0.8).sum())
    law = total_counts([(CoverageLaw(rank(19, "0.8"), 19), 50)], repeats=draws)
    assert min(tails(law, covered)) > FALSE_ALARM / 2


def test_on_the_same_rows_the_level_is_kept_and_a_free_choice_is_caught() -> None:
    """One new point for each of 1500 sets; without the adjustment the narrowest of four undercovers."""
    generator, held, free, draws = np.random.default_rng(1), 0, 0, 1500
    for _ in range(draws):
        (x, y), (new, target) = world(generator, 19), world(generator, 1)
        made = [gb.calibrate_arrays(one(x), y) for one in CANDIDATES.values()]
        for among in (1, 4):
            bands = [Chosen(one, among) for one in made]
            widths = [
                float(one.band(each.prediction, 0.8).width.mean())
                for one, each in zip(bands, made, strict=True)
            ]
            best = int(np.argmin(widths))
            inside = bands[best].contains(list(CANDIDATES.values())[best](new), target, 0.8)[0]
            held, free = held + (among == 4) * int(inside), free + (among == 1) * int(inside)
    assert held >= binom.ppf(FALSE_ALARM, draws, 0.8)
    assert free < binom.ppf(FALSE_ALARM, draws, 0.8)


def readings(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.uniform(size=(n, 1))
    return x, np.sin(3 * x) + (0.05 + x) * generator.normal(size=(n, 1))


def model(x: Any) -> Any:
    return np.sin(3 * x)


USEFUL: dict[str, Any] = {
    "constant": model,
    "scaled": gb.predictors.Given(model, lambda x: 0.05 + x),
    "off": (lambda x: 1 + model(x), gb.Absolute(), None),
}


def test_the_better_candidate_is_taken_either_way() -> None:
    own = gb.choose(USEFUL, choose=readings(100, 0), calibrate=readings(100, 1), level=0.9)
    same = gb.choose(USEFUL, calibrate=readings(100, 1), level=0.9)
    assert own.name == same.name == "scaled" and "scaled" in str(own)
    assert min(own.scores, key=lambda name: own.scores[name]) == "scaled" and len(own.scores) == 3
    alone = gb.calibrate(USEFUL["scaled"], *readings(100, 1))
    x, _ = readings(50, 2)
    assert np.array_equal(own.calibrated(x, 0.9).upper, alone(x, 0.9).upper)
    assert np.array_equal(same.calibrated(x, 0.7).upper, alone(x, 0.9).upper), "0.9 is 1 - 0.3 / 3"
    assert same.calibrated(x, 0.7).level == 0.7


def test_what_was_chosen_on_its_own_points_says_so_and_is_kept(tmp_path: Path) -> None:
    chosen = gb.choose(USEFUL, calibrate=readings(100, 1), level=0.9).calibrated
    assert "Of 3 bands this one was chosen by looking at the calibration points" in chosen.promise
    assert "at level 1 - (1 - level)/3" in chosen.promise and chosen.laws(0.9, 5) is None
    assert chosen.promised(0.9) == chosen.promised("0.9") and float(chosen.promised(0.9) or 0) == 0.9
    x, y = readings(80, 2)
    gb.testing.check_calibrated(chosen, x, y)
    said = gb.evaluate(chosen, x, y, level=0.9)
    assert "no exact law" in said.verdict and not gb.check(chosen, x, level=0.9)["size"].alarm
    again = gb.load(gb.save(chosen, tmp_path / "band"), mean=model, scale=USEFUL["scaled"].scale)
    assert np.array_equal(again(x, 0.9).lower, chosen(x, 0.9).lower) and repr(again) == repr(chosen)
    page = gb.report(chosen, x, y, path=tmp_path / "band.md", level=0.9).read_text()
    assert "Of 3 bands this one was chosen" in page


def test_a_confidence_is_shared_too() -> None:
    chosen = gb.choose(USEFUL, calibrate=readings(100, 1), level=0.9, confidence=0.85).calibrated
    assert chosen.confidence == exact("0.85")
    one = gb.calibrate(USEFUL["scaled"], *readings(100, 1), confidence="0.95")
    x, _ = readings(50, 2)
    assert np.array_equal(chosen(x, 0.9).upper, one(x, 0.9).upper)
    assert "the guarantee has confidence 0.85 whichever is chosen" in chosen.promise


@pytest.mark.parametrize(
    "trait",
    "prediction y columns traits field_names used".split(),
)
def test_traits_are_those_of_the_chosen_calibration(trait: str) -> None:
    one: Any = SimpleNamespace(**{trait: object()})
    assert getattr(Chosen(one, 3), trait) is getattr(one, trait)


def test_too_few_rows_and_shared_rows_are_refused_with_the_number_needed() -> None:
    with pytest.raises(
        ValueError, match=r"Choosing among 3 candidates on the calibration points needs 59 rows at level"
    ):
        gb.choose(USEFUL, calibrate=readings(58, 1), level=0.95)
    assert gb.choose(USEFUL, calibrate=readings(59, 1), level=0.95).name == "scaled"
    with pytest.raises(ValueError, match=r"`choose` needs 24 rows at level 0.95, but there are 20"):
        gb.choose(USEFUL, choose=readings(20, 0), calibrate=readings(59, 1))
    with pytest.raises(ValueError, match="choosing"):
        gb.choose(USEFUL, choose=readings(59, 1), calibrate=readings(59, 1))
    with pytest.raises(TypeError, match="`candidates` should be a dict of names and models"):
        gb.choose([model], calibrate=readings(59, 1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"A candidate is a model or a tuple.*got 4 parts"):
        gb.choose({"a": (model, None, None, None)}, calibrate=readings(59, 1))
    with pytest.raises(ValueError, match="at least 5 rows, got 3"):
        gb.choose(USEFUL, choose=readings(3, 0), calibrate=readings(59, 1))


def test_a_candidate_keeps_its_own_score_and_calibrator() -> None:
    generator = np.random.default_rng(0)
    rows, seen = world(generator, 30), world(generator, 30)
    weighted = gb.Weighted(lambda x: np.ones(len(x)))
    choice = gb.choose({"sine": (np.sin, gb.Absolute(), weighted)}, choose=seen, calibrate=rows, level=0.5)
    assert "Weighted" in repr(choice.calibrated)
