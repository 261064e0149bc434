"""Cells have stable keys, and their numbers equal those computed directly with the library."""

import json
from dataclasses import field, fields, make_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband import lab, pinn
from guardband.conformal import CoverageLaw
from guardband.conformal.laws import total_counts
from guardband.conformal.local.shape import KnownShape
from guardband.lab.studies import Cell, Factory, Result, Study, Training, grid
from guardband.lab.studies.base import describe, key_of
from guardband.lab.studies.runner import CellRunner, Pool
from guardband.lab.studies.tables import broken, differences, has_law, rows, spread, write_page
from guardband.pinn.problems import Poisson1D, noise
from guardband.predictors import Distance, MeanOnly
from helpers import ROOT, Shaped, script

QUICK = pinn.Recipe(steps=20, finish=0, n_interior=32, n_boundary=4)
TRAINING = Training(Poisson1D(), (8, 8), n=40, noise=0.1, recipe=QUICK)
CELL = Cell("mine", "distance", TRAINING, Factory(Distance, n_neighbors=5), cal=30, test=50, draws=40)


def test_keys_are_stable_and_see_every_input() -> None:
    assert CELL.key == "f018aa27a2d06a08"
    assert TRAINING.key == replace(TRAINING).key
    changes = [
        {"draws": 41},
        {"method": "other"},
        {"predictor": Factory(Distance, n_neighbors=6)},
        {"grid": 3},
    ]
    keys = {replace(CELL, **change).key for change in changes}  # type: ignore[arg-type]
    keys |= {replace(CELL, training=replace(TRAINING, seed=1)).key, CELL.key}
    assert len(keys) == len(changes) + 2


def grown(value: Any, **options: Any) -> Any:
    """Return the value as a later release would make it, with a new field in its class."""
    kind = type(value)
    extra = field(default=3.0, metadata={"neutral": 1.0})
    later = make_dataclass(kind.__name__, [("extra", float, extra)], bases=(kind,), frozen=True)
    later.__module__, later.__qualname__ = kind.__module__, kind.__qualname__
    return later(**{part.name: getattr(value, part.name) for part in fields(value)}, **options)


@pytest.mark.parametrize("part", ["recipe", "likelihood", "problem", "noise", "training", "cell"])
def test_a_field_added_later_orphans_no_cell(part: str) -> None:
    """A field is left out of the key at its neutral value, whatever its default, and included otherwise."""
    training = replace(TRAINING, likelihood=pinn.Likelihood(data=0.1), noise=noise.Islands())
    before = replace(CELL, training=training)

    def after(**options: Any) -> Cell:
        if part == "cell":
            return grown(before, **options)
        if part == "training":
            return replace(before, training=grown(training, **options))
        new = grown(getattr(training, part), **options)
        return replace(before, training=replace(training, **{part: new}))

    assert after(extra=1.0).key == before.key and after(extra=1.0).training.key == training.key
    assert len({before.key, after().key, after(extra=2.0).key}) == 3


@pytest.mark.parametrize("is_packed", [False, True])
def test_stored_results_get_todays_names(is_packed: bool, tmp_path: Path) -> None:
    tool = script("tools/rename_cells.py")
    new = describe(replace(CELL, predictor=Factory(MeanOnly)))
    old = json.loads(json.dumps(new).replace("guardband.MeanOnly", "guardband.Constant"))
    recipe = old["training"]["recipe"]
    for now, then in (("n_interior", "inside"), ("n_boundary", "faces"), ("min_improvement", "patience")):
        recipe[then] = recipe.pop(now)
    rest = {"found": {"inside": 1}, "versions": {"guardband": "0.1.0"}, "seconds": {}}
    (tmp_path / "cells").mkdir()
    file = tmp_path / "cells" / f"{key_of(old)}.json"
    file.write_text(json.dumps({"key": key_of(old), "cell": old, **rest}))
    if is_packed:
        assert lab.campaign.pack(tmp_path) == 1
    assert tool.rename(tmp_path) == 1 and tool.rename(tmp_path) == 0
    assert list(lab.campaign.results(tmp_path)) == [{"key": key_of(new), "cell": new, **rest}]
    assert not list((tmp_path / "cells").iterdir())
    assert tool.renamed({"use": "guardband.Distance", "neighbours": 3}) == {
        "use": "guardband.Distance",
        "n_neighbors": 3,
    }


def test_what_has_no_name_cannot_be_a_part_of_a_cell() -> None:
    with pytest.raises(TypeError, match="named functions, got <function"):
        _ = replace(CELL, predictor=Factory(lambda fitted: fitted)).key
    assert describe({"a": (1, noise.Islands)}) == {"a": [1, "guardband.Islands"]}


def test_a_study_refuses_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="has no cells"):
        Study("empty", [], write_page)
    with pytest.raises(ValueError, match="1 cells of the study 'twice' are duplicates"):
        Study("twice", [CELL, CELL], write_page)


@pytest.fixture(scope="module")
def result() -> Result:
    return CellRunner().run(CELL)


def test_a_result_is_what_calibrations_by_hand_give(result: Result) -> None:
    fitted = TRAINING.fit()
    pool = Pool(TRAINING)
    prediction = Distance(fitted, n_neighbors=5)(pool.x)
    generator = np.random.default_rng(0)
    covered, width, raw = 0, 0.0, 0
    for _ in range(40):
        chosen = generator.integers(len(pool.x), size=80)
        y = pool.truth[chosen] + 0.1 * generator.normal(size=(80, 1))
        mean, scale = prediction.mean[chosen], prediction.scale[chosen]  # type: ignore[index]
        calibrated = gb.calibrate_arrays(mean[:30], y[:30], scale[:30])
        band = calibrated.band(gb.Prediction(None, mean[30:], scale[30:]), 0.95)
        covered += int(band.contains(y[30:]).sum())
        width += float(band.width.mean()) / 40
        raw += int(gb.conformal.raw_band(gb.Prediction(None, mean[30:], scale[30:])).contains(y[30:]).sum())
    found = result["found"]
    assert found["covered"][-1] == covered and found["points"] == 40 * 50
    assert found["width"] == pytest.approx(width, rel=1e-6)
    assert found["before"]["covered"][-1] == raw
    assert result["threads"] >= 1 and set(result["seconds"]) == {"training", "predictor", "evaluation"}
    assert json.loads(json.dumps(result)) == result


LEARNERS = {
    "one shape": gb.conformal.LogScale(draws=5),
    "one network": pinn.PinballNetwork(steps=20, widths=(8,)),
    "a shape per level": pinn.PinballNetwork(steps=20, widths=(8,), per_level=True),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_local_cell_runs_the_local_calibrator_itself(name: str, monkeypatch: Any) -> None:
    """The numbers equal those of `calibrate` with a `Local`, which evaluates its shape in every draw."""
    learner = LEARNERS[name]
    cell = replace(CELL, calibrator=Factory(gb.Local, learner=learner), levels=("0.5", "0.9"), grid=9)
    learned = []
    original = gb.Local.learn
    monkeypatch.setattr(gb.Local, "learn", lambda *asked: learned.append(1) or original(*asked))
    found = CellRunner().run(cell)["found"]
    assert len(learned) == 1, "the shape is learned once, though the cell has a field"
    predictor = Distance(TRAINING.fit(), n_neighbors=5)
    local = Shaped(gb.Local(TRAINING.observe(), learner).learn(predictor, gb.Scaled()).shape)
    pool, generator = Pool(TRAINING), np.random.default_rng(0)
    covered, width = np.zeros(2, dtype=int), 0.0
    for _ in range(40):
        chosen = generator.integers(len(pool.x), size=80)
        y = pool.truth[chosen] + 0.1 * generator.normal(size=(80, 1))
        x_cal, x_new = np.split(pool.x[chosen], [30])
        calibrated = gb.calibrate(predictor, x_cal, y[:30], calibrator=local)
        bands = [calibrated(x_new, level) for level in (0.5, 0.9)]
        covered += [int(band.contains(y[30:]).sum()) for band in bands]
        width += float(bands[1].width.mean()) / 40
    assert found["covered"] == covered.tolist()
    assert found["width"] == pytest.approx(width, rel=1e-6)


def test_a_known_shape_is_the_shape() -> None:
    def shape(x: np.ndarray, level: float = 1.0) -> np.ndarray:
        asked.append(len(x))
        return level * x.sum(axis=1)

    asked: list[int] = []
    x = np.random.default_rng(0).uniform(size=(100, 3))
    for level in ((), (0.5,), (0.9,)):
        known = KnownShape(shape, x)
        asked.clear()
        for some in (x[:7], x[[5, 5, 99]], x[60:]):
            assert (known(some, *level) == shape(some, *level)).all()
        assert asked.count(100) == 1
        new = np.vstack([x[:3], [[0.1, 0.2, 0.3]]])
        assert (known(new, *level) == shape(new, *level)).all()
    assert not known.per_level


def test_the_two_sample_law_is_that_of_all_pairs(monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    again = script("benchmarks/again.py")
    monkeypatch.setattr(again, "FURTHEST", 6)
    law = total_counts([(CoverageLaw(8, 9), 3)], repeats=2)  # k = 8 of 9 scores, 3 test points, twice
    pairs = np.outer(law, law)
    apart = abs(np.subtract.outer(np.arange(7), np.arange(7)))
    for difference in range(7):
        assert again.two_sample(9, 3, 2, "0.8", difference) == pytest.approx(pairs[apart >= difference].sum())
    assert again.two_sample(9, 3, 2, "0.8", 1000) == pytest.approx(pairs[apart >= 6].sum())


def test_a_kept_network_gives_the_same_result(tmp_path: Path, result: Result) -> None:
    for _ in range(2):  # trained, then read
        again = CellRunner(tmp_path).run(CELL)
        assert again["found"] == result["found"] and again["key"] == result["key"]
    assert [path.suffix for path in tmp_path.iterdir()] == [".network"]
    CellRunner(tmp_path).forget(TRAINING)
    assert not list(tmp_path.iterdir())
    CellRunner().forget(TRAINING)


@pytest.mark.parametrize("name", [f"{TRAINING.key}.network", f"{TRAINING.key}.checkpoint"])
def test_a_damaged_network_or_checkpoint_is_made_again(name: str, tmp_path: Path, result: Result) -> None:
    CellRunner(tmp_path).run(CELL)
    (kept,) = tmp_path.iterdir()
    data = bytearray(kept.read_bytes())
    kept.unlink()
    data[len(data) // 2] ^= 1
    (tmp_path / name).write_bytes(data)
    assert CellRunner(tmp_path).run(CELL)["found"] == result["found"]
    assert [path.name for path in tmp_path.iterdir()] == [kept.name]


def test_regions_fields_and_infinite_bands_are_kept() -> None:
    training = replace(TRAINING, noise=noise.Islands(centers=(0.5,)))
    few = replace(CELL, training=training, cal=10, draws=5, grid=7)
    found = CellRunner().run(few)["found"]
    assert set(found["regions"]) == {"mask", "region"} and found["regions"]["mask"]["points"] < 250
    assert found["infinite"] == 1 and found["width"] is None and found["field"]["width"] == [None] * 7
    assert set(found["field"]) == {"mean", "error", "width", "before"}
    half = CellRunner().run(replace(few, levels=("0.5",), score=gb.Absolute()))["found"]
    assert half["width"] > 0 and "before" not in half


def test_a_grid_is_every_predictor_with_every_calibrator() -> None:
    trainings = [replace(TRAINING, seed=seed) for seed in range(2)]
    predictors = {"constant": Factory(MeanOnly), "distance": Factory(Distance)}
    assert len(grid("mine", trainings, predictors).cells) == 4
    both = grid("mine", trainings, predictors, {"split": gb.Split(), "local": Factory(gb.Local)}, cal=50)
    assert [cell.method for cell in both.cells[:2]] == ["constant, split", "constant, local"]
    assert both.cells[0].cal == 50


def test_a_page_says_whether_the_law_holds(tmp_path: Path, result: Result) -> None:
    write_page([result], tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "| distance | 1 |" in page and "| holds |" in page
    wrong = json.loads(json.dumps(result))
    wrong["found"]["covered"] = [0] * 19
    assert list(broken([wrong])) == [result["key"]]
    write_page([wrong], tmp_path)
    assert "BROKEN (p =" in (tmp_path / "README.md").read_text()


def test_spreads_are_medians_with_ranges() -> None:
    assert (
        spread(np.array([1.0, 2.0, 4.0]), ".0f") == "2 (1 to 4)" and spread(np.array([2.0]), ".1f") == "2.0"
    )


def test_rows_gather_seeds(result: Result) -> None:
    (row,) = rows([result, result])
    assert row.coverage().shape == (2,) and row.has_before and row.seconds["training"] >= 0


def test_a_study_without_95_percent_has_a_page(tmp_path: Path) -> None:
    training = Training(Poisson1D(), (8,), n=30, noise=0.1, recipe=pinn.Recipe(steps=5, finish=0))
    options: dict[str, Any] = {"cal": 60, "test": 20, "draws": 50, "levels": ("0.8", "0.9")}
    ways = {
        "split": gb.Split(),
        "near": gb.conformal.RandomlyLocalized(bandwidth=0.05),
        "even": gb.Weighted(even),
    }
    study = grid("mine", [training], {"constant": Factory(MeanOnly)}, ways, **options)
    assert lab.campaign.run(study, tmp_path, progress=False).done == 3
    page = (tmp_path / "README.md").read_text()
    assert "BROKEN" not in page and "highest level" in page
    made = {row.method: row for row in rows(lab.campaign.results(tmp_path, study))}
    assert [has_law(row.results[0]) for row in made.values()] == [True, False, False]
    assert made["constant, split"].coverage()[0] == pytest.approx(made["constant, split"].curves()[0, 1])


def even(x: np.ndarray) -> np.ndarray:
    return np.ones(len(x))


def test_a_grid_tells_seeds_from_other_trainings() -> None:
    wide, narrow = (
        [Training(Poisson1D(), widths, n=30, seed=seed) for seed in range(2)] for widths in ((8,), (4,))
    )
    for trainings, names in ((wide, ["Poisson1D"]), (wide + narrow, ["Poisson1D 1", "Poisson1D 2"])):
        study = grid("mine", trainings, {"constant": Factory(MeanOnly)})
        assert list(dict.fromkeys(cell.experiment for cell in study.cells)) == names


def test_a_range_of_unknown_values_is_unknown() -> None:
    assert spread(np.array([np.nan, np.nan])) == "nan"
    assert spread(np.array([np.nan, 0.5, 0.25])) == "0.375 (0.250 to 0.500)"


def test_headings_say_what_differs_and_which_noise_was_swept(tmp_path: Path) -> None:
    """Labels do not change, since they are in the keys of cells; the page explains them."""
    trainings = [
        replace(TRAINING, noise=0.1),
        replace(TRAINING, noise=0.3),
        replace(TRAINING, noise=0.3, seed=1),
        replace(TRAINING, noise=0.1, widths=(4, 4)),
    ]
    study = grid("mine", trainings, {"constant": Factory(MeanOnly)}, cal=30, test=20, draws=5)
    assert [cell.experiment for cell in study.cells] == [f"Poisson1D {k}" for k in (1, 2, 2, 3)]
    runner = CellRunner(tmp_path / "trainings")
    write_page([runner.run(cell) for cell in study.cells[:2]], tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "## Poisson1D 1: noise = 0.1" in page and "## Poisson1D 2: noise = 0.3" in page
    assert "recalibrations per seed, noise 0.3." in page
    told = differences({cell.experiment: describe(cell.training) for cell in study.cells})
    assert told["Poisson1D 3"] == "widths = 4 x 4, noise = 0.1"
    bent = describe(replace(TRAINING, noise=noise.Islands()))
    assert "noise = Islands" in differences({"a": describe(TRAINING), "b": bent})["b"]
    assert differences({"a": describe(TRAINING)}) == {"a": ""}
