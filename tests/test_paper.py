"""The paper: settings, a study with stable keys, and a page with verdicts, tables and figures."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from scipy.stats import binom

from guardband import lab
from guardband.lab import paper
from guardband.lab.paper.costs import AUTHORS, CURVE, costs
from guardband.lab.paper.experiments import EXPERIMENTS, METHODS
from guardband.lab.paper.verdicts import PAPER, PLAIN, THEIRS, claims, share
from guardband.lab.studies import Cell, Result
from guardband.lab.studies.base import describe, key_of
from guardband.lab.studies.tables import MethodRow, rows
from guardband.pinn.problems import AllenCahn2D, Box, Field, Helmholtz3D, Poisson1D, Problem, noise

ROOT = Path(__file__).parent.parent


class Other(Problem):
    domain = Box((0,), (1,))

    def residual(self, x: torch.Tensor, u: Field) -> torch.Tensor:
        return u.value


class Stiffer(AllenCahn2D):
    """A variant of one of the paper's problems."""


def test_the_papers_loss_is_a_likelihood() -> None:
    assert paper.likelihood(AllenCahn2D()).weights().tolist() == pytest.approx([1, 1, 5])
    recipe = paper.recipe(Helmholtz3D())
    assert (recipe.steps, recipe.rate(0), recipe.rate(4999)) == (5000, 1e-3, 1e-3)
    assert paper.recipe(Poisson1D()).rate(3000) == pytest.approx(5e-4)
    assert paper.settings(Stiffer()) == paper.settings(AllenCahn2D())
    for ask in (paper.settings, paper.recipe, paper.likelihood):
        with pytest.raises(
            ValueError, match=r"Other is not an experiment of the paper\. These are: Poisson1D"
        ):
            ask(Other())


def test_only_what_is_in_the_paper_can_be_asked_for() -> None:
    with pytest.raises(ValueError, match="`only` should name some of A, B, C, allen-cahn"):
        paper.study(only=["table7"])
    with pytest.raises(ValueError, match="`presets` should be some of ours, paper"):
        paper.study(presets=["theirs"])  # type: ignore[list-item]


@pytest.mark.slow
def test_the_study_in_the_repository_is_found_again() -> None:
    """Fails after a changed default or a new field without a neutral value."""
    wanted = [cell.key for cell in paper.study().cells]
    stored = {result["key"]: result for result in lab.campaign.results(ROOT / "results" / "paper")}
    assert sorted(wanted) == sorted(stored)
    assert all(key_of(result["cell"]) == key for key, result in stored.items())
    assert {result["versions"]["guardband"] for result in stored.values()} <= {"0.1.0.dev0", "0.1.0"}


@pytest.mark.slow
def test_the_paper_has_the_seeds_that_it_needs() -> None:
    study = paper.study()
    seeds: dict[tuple[str, str], int] = {}
    for cell in study.cells:
        seeds[cell.experiment, cell.method] = seeds.get((cell.experiment, cell.method), 0) + 1
    assert all(n == 20 for (experiment, _), n in seeds.items() if experiment.endswith("ours"))
    assert (
        seeds["allen-cahn, paper", "HMC, scaled"] == 3 and seeds["helmholtz, paper", "dropout, scaled"] == 2
    )
    trainings = {cell.training.key for cell in study.cells if cell.experiment == "helmholtz, paper"}
    assert len(trainings) == 4  # distances share their trainings; dropout has separate ones
    assert {name for name in METHODS} == set(EXPERIMENTS)
    assert {c.experiment for c in paper.study(only=["table2"]).cells} == {
        "helmholtz, ours",
        "helmholtz, paper",
    }


def made_up(cell: Cell, generator: np.random.Generator) -> Result:
    """A result in the form of a campaign, with invented but valid numbers."""
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


def test_a_page_on_a_single_seed_has_all_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unrendered(figure: Figure, path: Path, **_: Any) -> None:
        Path(path).write_text(str(len(figure.axes)))

    monkeypatch.setattr(Figure, "savefig", unrendered)
    generator, study = np.random.default_rng(0), paper.study(presets=["ours"], seeds=1, draws=20)
    study.write([made_up(cell, generator) for cell in study.cells], tmp_path)
    panels = {path.stem: int(path.read_text()) for path in tmp_path.glob("*.png")}
    assert [*sorted(panels)] == [f"figure{i}-ours" for i in range(2, 10)] and min(panels.values()) >= 2
    page = (tmp_path / "README.md").read_text()
    assert page.count("](figure") == 8 and "0 broke it" in page and "BROKEN" not in page


@pytest.mark.slow
def test_the_page_on_the_paper_has_verdicts_tables_costs_and_figures(tmp_path: Path) -> None:
    generator, study = np.random.default_rng(0), paper.study(seeds=2, draws=20)
    results = [made_up(cell, generator) for cell in study.cells]
    study.write(results, tmp_path)
    page = (tmp_path / "README.md").read_text()
    for word in (
        "Which of the paper's claims hold",
        "Comparison with our learner",
        "Further observations",
        "Cost",
    ):
        assert f"## {word}\n" in page
    assert "0 broke it" in page and ": 1 of 2 seeds [0.01, 0.99]" in page
    table = list(csv.DictReader((tmp_path / "tables.csv").read_text().splitlines()))
    assert {row["experiment"] for row in table} == {cell.experiment for cell in study.cells}
    assert {row["the law"] for row in table} == {"holds", "-"}
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn == {f"figure{i}-{preset}.png" for i in range(2, 10) for preset in ("ours", "paper")}
    assert page.count("](figure") == len(drawn)


@pytest.mark.slow
def test_a_page_of_a_part_of_the_paper_is_a_page_too(tmp_path: Path) -> None:
    study = paper.study(only=["helmholtz"], presets=["ours"], seeds=1, draws=20)
    study.write([made_up(cell, np.random.default_rng(0)) for cell in study.cells], tmp_path)
    assert "## helmholtz, ours" in (tmp_path / "README.md").read_text()
    running = paper.study(only=["oscillator"], presets=["ours"], seeds=2, draws=20).cells
    for some in (running[:-5], running[:3], [running[2], *running[7:9]]):
        study.write([made_up(cell, np.random.default_rng(0)) for cell in some], tmp_path)


def local_results(plain: list[float], local: list[float], narrow: list[float]) -> list[Result]:
    """Results of the paper's pair of methods on the ring: coverage in the region, and the local width."""
    results = []
    for seed, (outside, inside, width) in enumerate(zip(plain, local, narrow, strict=True)):
        for method, coverage, its in ((PLAIN, outside, 1.0), (THEIRS, inside, width)):
            part = {"covered": [int(1e6 * coverage)], "points": 1_000_000, "acd": 0.1}
            cell = {"experiment": "B, ours", "method": method, "levels": ["0.95"], "training": {"seed": seed}}
            results.append({"cell": cell, "found": {"regions": {"mask": part}, "width": its}})
    return results


def verdict(results: list[Result], claim: str) -> str:
    """The result for a claim in our preset."""
    lines = [line.strip("| ").split(" | ") for line in claims(rows(results))]
    (found,) = [line[3] for line in lines if line[0] == claim]
    return found


def test_a_sentence_is_counted_over_the_trainings_of_which_it_is_true() -> None:
    three = local_results([0.7, 0.7, 0.7], [0.93, 0.94, 0.90], [0.8, 0.9, 1.1])
    assert verdict(three, "B: plain CP under-covers where the noise is large") == (
        "0.700: 3 of 3 seeds [0.29, 1.00]"
    )
    assert verdict(three, "B: local CP is sharper over the whole domain") == (
        "1.000 to 0.900: 2 of 3 seeds [0.09, 0.99]"
    )
    one = local_results([0.96], [0.99], [1.5])
    assert verdict(one, "B: plain CP under-covers where the noise is large") == (
        "0.960: **not reproduced**, 0 of 1 seed [0.00, 0.97]"
    )


def test_restoring_is_judged_by_the_papers_own_figure() -> None:
    claim = "B: local CP restores coverage there"  # the paper reports 0.92
    short = local_results([0.7, 0.7], [0.915001, 0.93], [0.8, 0.8])
    assert verdict(short, claim).endswith(": 2 of 2 seeds [0.16, 1.00], short of 0.95")
    assert verdict(local_results([0.7], [0.96], [0.8]), claim) == ("0.960: 1 of 1 seed [0.03, 1.00]")
    assert "**not reproduced**" in verdict(local_results([0.7], [0.91], [0.8]), claim)


def test_a_flat_shape_is_counted_and_not_judged() -> None:
    some = local_results([0.7, 0.7], [0.93, 0.7], [0.8, 1.0])
    assert verdict(some, "B: local CP covers more there than plain CP") == (
        "0.930: 1 of 1 seed [0.03, 1.00]; flat in 1 more"
    )
    assert verdict(some[2:], "B: local CP covers more there than plain CP") == "flat in all 1"


@pytest.mark.parametrize(
    ("method", "preset", "said"),
    [
        ("distance", "paper", "**not reproduced**, 0 of 1 seed"),
        ("latent distance", "paper", "does not carry over, 0 of 1 seed [0.00, 0.97] (corrected method)"),
        ("VI", "ours", ": 1 of 1 seed [0.03, 1.00] (corrected method)"),
        ("dropout", "paper", ": 1 of 1 seed"),
        ("dropout", "ours", ": 1 of 1 seed [0.03, 1.00] (our dropout)"),
    ],
)
def test_a_corrected_method_does_not_refute_the_uncorrected_one(method: str, preset: str, said: str) -> None:
    """Before calibration the paper reports 1.00, 0.84, 0.99 and 0.42."""
    covered = {"distance": 0.5, "latent distance": 0.98, "VI": 0.98, "dropout": 0.3}[method]
    before = {"covered": [int(1e6 * covered)], "points": 1_000_000, "acd": 0.2}
    cell = {"experiment": f"allen-cahn, {preset}", "method": f"{method}, scaled", "levels": ["0.95"]}
    row = MethodRow(
        cell["experiment"], cell["method"], [{"cell": cell, "found": {"before": before, "acd": 0.1}}]
    )
    direction = "under" if PAPER["allen-cahn", method].before < 0.95 else "over"
    found = {line[0]: line[2:] for made in claims([row]) if len(line := made.strip("| ").split(" | ")) == 4}
    both = found[f"allen-cahn, {method}: {direction}-covers before calibration"]
    assert said in both[0 if preset == "paper" else 1]


def test_intervals_of_shares_are_exact() -> None:
    """Clopper and Pearson: at the lower end k or more of n are seen with probability 0.025."""
    for n in (1, 2, 3, 5, 20):
        for k in range(n + 1):
            low, high = share(k, n)
            assert low <= k / n <= high
            assert k == 0 or binom.sf(k - 1, n, low) == pytest.approx(0.025)
            assert k == n or binom.cdf(k, n, high) == pytest.approx(0.025)


# The cost of a study is counted once and compared with the authors'.


def result(preset: str, method: str, seed: int, seconds: tuple[float, float, float], l2: float) -> Any:
    training, predictor, evaluation = seconds
    return {
        "cell": {
            "experiment": f"allen-cahn, {preset}",
            "method": method,
            "training": {"seed": seed, "preset": preset},
            "predictor": {"use": method.split(", ")[0]},
        },
        "found": {"l2": l2},
        "seconds": {"training": training, "predictor": predictor, "evaluation": evaluation},
    }


def lines(results: list[Any]) -> dict[str, list[str]]:
    cells = [line.strip("| ").split(" | ") for line in costs(results) if line.startswith("|")]
    return {first: others for first, *others in cells}


def test_errors_are_compared_on_the_seeds_that_both_presets_have() -> None:
    made = lines(
        [
            result("paper", "constant width", 0, (60, 0, 1), 0.02),
            result("ours", "constant width", 0, (12, 0, 1), 0.01),
            result("ours", "constant width", 1, (12, 0, 1), 0.9),
        ]
    )
    authors = f"{AUTHORS['allen-cahn'][0]} (4500 steps)"
    assert made["training, allen-cahn"] == [authors, "60", "12", "3.0", "5.0", "2.00%", "1.00%"]
    assert made["training, poisson"] == ["-"] * 7


def test_what_cells_share_is_counted_once() -> None:
    """Two cells of one training: 3600 s of it, 1800 s of one predictor, 900 s of evaluation each."""
    made = lines([result("paper", f"VI, {how}", 0, (3600, 1800, 900), 0.1) for how in ("vanilla", "scaled")])
    assert made["allen-cahn"] == ["2.00", f"{AUTHORS['VI'][0] / 3600:.2f}", "0.00", "1", "0"]


def test_the_authors_train_nineteen_networks_for_a_curve() -> None:
    made = lines([result("paper", CURVE, seed, (1, 1, 1), 0.1) for seed in (0, 1)])
    expected = 2 * (AUTHORS["allen-cahn"][0] + 19 * 77) / 3600
    assert made["allen-cahn"][1] == f"{expected:.2f}"
