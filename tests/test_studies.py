"""Studies: cells have stable keys, and their numbers are what the library would give by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.predictors import Constant, Distance
from guardband.problems import Poisson1D, noise
from guardband.studies import Cell, Result, Study, Training, Use, grid, paper
from guardband.studies.base import describe
from guardband.studies.experiments import EXPERIMENTS, METHODS
from guardband.studies.tables import broken, has_law, rows, spread, write_page
from guardband.studies.workshop import Pool, Workshop, recalibrated

QUICK = gb.Recipe(steps=20, finish=0, inside=32, faces=4)
TRAINING = Training(Poisson1D(), (8, 8), n=40, noise=0.1, recipe=QUICK)
CELL = Cell("mine", "distance", TRAINING, Use(Distance, neighbours=5), cal=30, test=50, draws=40)


def test_keys_are_stable_and_see_every_input() -> None:
    assert CELL.key == "56b9b018ba19165b"
    assert TRAINING.key == replace(TRAINING).key
    changes = [{"draws": 41}, {"method": "other"}, {"predictor": Use(Distance, neighbours=6)}, {"grid": 3}]
    keys = {replace(CELL, **change).key for change in changes}  # type: ignore[arg-type]
    keys |= {replace(CELL, training=replace(TRAINING, seed=1)).key, CELL.key}
    assert len(keys) == len(changes) + 2


def test_what_has_no_name_cannot_be_a_part_of_a_cell() -> None:
    with pytest.raises(TypeError, match="named functions, got <function"):
        _ = replace(CELL, predictor=Use(lambda fitted: fitted)).key
    assert describe({"a": (1, noise.Islands)}) == {"a": [1, "guardband.Islands"]}


def test_a_study_refuses_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="has no cells"):
        Study("empty", [], write_page)
    with pytest.raises(ValueError, match="1 cells of the study 'twice' are there twice"):
        Study("twice", [CELL, CELL], write_page)
    with pytest.raises(ValueError, match="`only` should name some of A, B, C, allen-cahn"):
        paper(only=["table7"])


def test_the_paper_has_the_seeds_that_it_needs() -> None:
    study = paper()
    seeds: dict[tuple[str, str], int] = {}
    for cell in study.cells:
        seeds[cell.experiment, cell.method] = seeds.get((cell.experiment, cell.method), 0) + 1
    assert all(n == 20 for (experiment, _), n in seeds.items() if experiment.endswith("ours"))
    assert (
        seeds["allen-cahn, paper", "HMC, scaled"] == 3 and seeds["helmholtz, paper", "dropout, scaled"] == 2
    )
    trainings = {cell.training.key for cell in study.cells if cell.experiment == "helmholtz, paper"}
    assert len(trainings) == 4  # distances share theirs; dropout has its own
    assert {name for name in METHODS} == set(EXPERIMENTS)
    assert {c.experiment for c in paper(only=["table2"]).cells} == {"helmholtz, ours", "helmholtz, paper"}


@pytest.fixture(scope="module")
def result() -> Result:
    return Workshop().run(CELL)


def test_a_result_is_what_calibrations_by_hand_give(result: Result) -> None:
    fitted = TRAINING.fit()
    pool = Pool(TRAINING)
    prediction = Distance(fitted, neighbours=5)(pool.x)
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
        raw += int(gb.raw_band(gb.Prediction(None, mean[30:], scale[30:])).contains(y[30:]).sum())
    found = result["found"]
    assert found["covered"][-1] == covered and found["points"] == 40 * 50
    assert found["width"] == pytest.approx(width, rel=1e-6)
    assert found["before"]["covered"][-1] == raw
    assert result["threads"] >= 1 and set(result["seconds"]) == {"training", "predictor", "evaluation"}
    assert json.loads(json.dumps(result)) == result


def test_a_local_band_is_the_same_whether_its_shape_is_part_of_the_scale_or_not() -> None:
    train = TRAINING.observe()
    local = replace(CELL, predictor=Use(Constant), calibrator=Use(gb.Local, learner=gb.LogScale(draws=5)))
    by_scale = Workshop().run(local)["found"]
    fitted, pool = TRAINING.fit(), Pool(TRAINING)
    predictor = Constant(fitted)
    calibrator = gb.Local(train, gb.LogScale(draws=5)).prepared(predictor, gb.Scaled())
    by_shape = recalibrated(local, pool, predictor(pool.x), gb.Scaled(), calibrator)
    assert by_scale["covered"] == by_shape["covered"]
    assert by_scale["width"] == pytest.approx(by_shape["width"])


def test_a_kept_network_gives_the_same_result(tmp_path: Path, result: Result) -> None:
    for _ in range(2):  # trained, then read
        again = Workshop(tmp_path).run(CELL)
        assert again["found"] == result["found"] and again["key"] == result["key"]
    assert [path.suffix for path in tmp_path.iterdir()] == [".safetensors"]
    Workshop(tmp_path).forget(TRAINING)
    assert not list(tmp_path.iterdir())
    Workshop().forget(TRAINING)


def test_regions_fields_and_infinite_bands_are_kept() -> None:
    training = replace(TRAINING, noise=noise.Islands(centers=(0.5,)))
    few = replace(CELL, training=training, cal=10, draws=5, grid=7)
    found = Workshop().run(few)["found"]
    assert set(found["regions"]) == {"mask", "region"} and found["regions"]["mask"]["points"] < 250
    assert found["infinite"] == 1 and found["width"] is None and found["field"]["width"] == [None] * 7
    assert set(found["field"]) == {"mean", "error", "width", "before"}
    half = Workshop().run(replace(few, levels=("0.5",), score=gb.Absolute()))["found"]
    assert half["width"] > 0 and "before" not in half


def test_a_grid_is_every_predictor_with_every_calibrator() -> None:
    trainings = [replace(TRAINING, seed=seed) for seed in range(2)]
    predictors = {"constant": Use(Constant), "distance": Use(Distance)}
    assert len(grid("mine", trainings, predictors).cells) == 4
    both = grid("mine", trainings, predictors, {"split": gb.Split(), "local": Use(gb.Local)}, cal=50)
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


def made_up(cell: Cell, generator: np.random.Generator) -> Result:
    """A result as a campaign would write it, its numbers made up but lawful."""
    levels = np.array([float(level) for level in cell.levels])
    n = cell.draws * cell.test

    def part(lift: float) -> Result:
        covered = np.clip(levels + lift, 0, 1)
        return {"covered": [int(c * n) for c in covered], "points": n, "acd": abs(lift) + 0.03}

    found = {**part(0.0), "width": 0.5, "infinite": 0.0, "truth": 0.99, "l2": 0.5, "regions": {}}
    if isinstance(cell.training.noise, noise.Noise):
        found["regions"] = {"mask": part(0.0 if "local" in cell.method else -0.2), "region": part(-0.1)}
    if "scaled" in cell.method:
        found["before"] = part(-0.3 if cell.training.seed % 2 else 0.3) | {"width": 2.0}
    if cell.grid:
        size = cell.grid**cell.training.problem.domain.d
        found["field"] = {
            name: generator.uniform(0.1, 1, size=size).tolist()
            for name in ("mean", "error", "width", "before")
        }
    seconds = {"training": 10.0, "predictor": 1.0, "evaluation": 1.0}
    return {"key": cell.key, "cell": describe(cell), "found": found, "seconds": seconds}


def test_the_page_on_the_paper_has_verdicts_tables_costs_and_figures(tmp_path: Path) -> None:
    generator, study = np.random.default_rng(0), paper(seeds=2, draws=20)
    results = [made_up(cell, generator) for cell in study.cells]
    study.write(results, tmp_path)
    page = (tmp_path / "README.md").read_text()
    for word in ("holds", "does not hold", "cannot be told at this size", "What it cost"):
        assert word in page
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn == {f"figure{i}-{preset}.png" for i in range(2, 10) for preset in ("ours", "paper")}
    assert page.count("](figure") == len(drawn)


def test_a_page_of_a_part_of_the_paper_is_a_page_too(tmp_path: Path) -> None:
    study = paper(only=["helmholtz"], presets=["ours"], seeds=1, draws=20)
    study.write([made_up(cell, np.random.default_rng(0)) for cell in study.cells], tmp_path)
    assert "## helmholtz, ours" in (tmp_path / "README.md").read_text()
    running = paper(only=["oscillator"], presets=["ours"], seeds=2, draws=20).cells
    for some in (running[:-5], running[:3], [running[2], *running[7:9]]):
        study.write([made_up(cell, np.random.default_rng(0)) for cell in some], tmp_path)


def test_a_study_without_95_percent_has_a_page(tmp_path: Path) -> None:
    training = Training(Poisson1D(), (8,), n=30, noise=0.1, recipe=gb.Recipe(steps=5, finish=0))
    options: dict[str, Any] = {"cal": 60, "test": 20, "draws": 50, "levels": ("0.8", "0.9")}
    ways = {"split": gb.Split(), "near": gb.Localized(bandwidth=0.05), "even": gb.Weighted(even)}
    study = grid("mine", [training], {"constant": Use(Constant)}, ways, **options)
    assert gb.campaign.run(study, tmp_path, progress=False).done == 3
    page = (tmp_path / "README.md").read_text()
    assert "BROKEN" not in page and "highest level" in page
    made = {row.method: row for row in rows(gb.campaign.results(tmp_path, study))}
    assert [has_law(row.results[0]) for row in made.values()] == [True, False, False]
    assert made["constant, split"].coverage()[0] == pytest.approx(made["constant, split"].curves()[0, 1])


def even(x: np.ndarray) -> np.ndarray:
    return np.ones(len(x))


def test_a_grid_tells_seeds_from_other_trainings() -> None:
    wide, narrow = (
        [Training(Poisson1D(), widths, n=30, seed=seed) for seed in range(2)] for widths in ((8,), (4,))
    )
    for trainings, names in ((wide, ["Poisson1D"]), (wide + narrow, ["Poisson1D 1", "Poisson1D 2"])):
        study = grid("mine", trainings, {"constant": Use(Constant)})
        assert list(dict.fromkeys(cell.experiment for cell in study.cells)) == names
