"""Coefficients from files: `guardband identify`, the report on them, and their pictures."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from typer.testing import CliRunner

import guardband as gb
from guardband import pinn
from guardband.cli import app
from guardband.pinn.inverse.region import Test

HEAD = """
from dataclasses import dataclass
import torch
import guardband as gb
from guardband import pinn

@dataclass(frozen=True)
class Rod(pinn.Problem):
    diffusivity: float = 0.1
    domain = pinn.Segment(0, 1) * pinn.Time(0, 1)

    def residual(self, x, u):
        return u.d("t") - self.diffusivity * u.d("x", "x")

    def conditions(self):
        return [pinn.Initial(lambda x: torch.sin(torch.pi * x[:, :1])), pinn.Dirichlet(0.0)]
"""
FAMILY = "family = pinn.Family(Rod, diffusivity=(0.02, 0.2))\n"
SOLVER = """
def solver(x, diffusivity):
    x = torch.as_tensor(x)
    return torch.exp(-diffusivity * torch.pi**2 * x[:, 1:]) * torch.sin(torch.pi * x[:, :1])
"""
OSCILLATOR = pinn.Family(pinn.problems.DampedOscillator, damping=(0.02, 0.12), frequency=(5.5, 7.0)).exact()
SWUNG = pinn.problems.DampedOscillator(damping=0.05, frequency=6.2).observe(40, noise=0.15, seed=3)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    plt.close("all")


def run(*words: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["identify", *map(str, words)])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output


def write(text: str, name: str = "rod.py") -> Path:
    Path(name).write_text(text)
    return Path(name)


def heated(diffusivity: float = 0.1, names: str = "x,t,u", **more: Any) -> Path:
    data = pinn.problems.Heat1D(diffusivity=diffusivity).observe(40, noise=0.05, **more)
    np.savetxt("readings.csv", np.c_[data.x, data.y], header=names, comments="", delimiter=",")
    return Path("readings.csv")


def test_from_a_file_and_readings_to_a_region_and_a_page() -> None:
    said = run(write(HEAD + FAMILY + SOLVER), "--data", heated(), "--out", "page.html")
    assert "diffusivity = 0." in said and "in finite samples, by sign_perturbed" in said
    assert "Delta = 0" in said and said.endswith("Written to page.html.\n")
    page = Path("page.html").read_text()
    assert "<h1>diffusivity: estimate and confidence region</h1>" in page
    assert page.index("in finite samples") < page.index("<img"), "the claim comes first"
    assert page.count("<img") == 3 and "sha256" in page and "along t" in page
    assert "http" not in page.replace("http-equiv", ""), "it is self-contained"


@pytest.mark.parametrize(("noise", "method"), [("exchangeable", "permuted"), ("gaussian", "profile")])
def test_what_is_known_of_the_noise_is_said(noise: str, method: str) -> None:
    words = [write(HEAD + FAMILY + SOLVER), "--data", heated(), "--out", "page.md", "--noise", noise]
    found = json.loads(run(*words, "--level", "0.9", "--seed", "4", "--json"))
    assert found["method"] == method and found["level"] == 0.9 and found["informed"] == {"diffusivity": True}
    low, high = found["intervals"]["diffusivity"]
    assert low < found["values"]["diffusivity"] < high and not found["empty"]
    page = Path("page.md").read_text()
    assert page.startswith("# diffusivity: estimate and confidence region")
    assert ("no finite-sample guarantee" in page) == found["asymptotic"]


@pytest.mark.slow
def test_a_family_is_trained_kept_in_a_folder_and_taken_from_it() -> None:
    quick = "recipe = pinn.Recipe.by_newton(40, n_interior=256)\n"
    words = [write(HEAD + FAMILY + quick), "--data", heated(), "--family", "kept", "--delta", "0.05"]
    first = run(*words)
    assert "stored in kept" in first and "Delta = 0.05" in first
    assert "trained family is stored" not in run(*words)
    other = write(HEAD + FAMILY.replace("0.02", "0.03"))
    said = run(other, "--data", heated(), "--family", "kept", code=2)
    assert "diffusivity from 0.02 to 0.2" in said and "defines" in said and "a different folder" in said


@pytest.mark.filterwarnings("default")
def test_a_network_is_held_against_trainings_where_nobody_says_how_far_it_is_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("guardband.pinn.inverse.family.DRAWN", 1)
    monkeypatch.setattr("guardband.pinn.cli.DRAWN", 1)
    quick = "recipe = pinn.Recipe.by_newton(3, n_interior=64)\n"
    said = run(write(HEAD + FAMILY + quick), "--data", heated())
    assert "the solver or the range is wrong" not in said, "Delta allows for what the network misses"
    assert "estimated by 3 training runs" in said and "a length of at most Delta" in said
    assert "the network misses" in said


def test_a_problem_with_a_solution_needs_no_training_and_a_solved_family_is_taken() -> None:
    solution = "\n    def solution(self, x):\n        return " + (
        "torch.exp(-self.diffusivity * torch.pi**2 * x[:, 1:]) * torch.sin(torch.pi * x[:, :1])\n"
    )
    assert "Delta = 0;" in run(write(HEAD + solution + FAMILY), "--data", heated())
    solved = HEAD + SOLVER + "found = pinn.Family(Rod, diffusivity=(0.02, 0.2)).solved_by(solver)\n"
    assert "Delta = 0;" in run(write(solved), "--data", heated())


@pytest.mark.slow
def test_a_slow_solver_checks_the_network_of_a_folder() -> None:
    quick = "recipe = pinn.Recipe.by_newton(40, n_interior=256)\n"
    found = run(write(HEAD + FAMILY + SOLVER + quick), "--data", heated(), "--family", "kept", "--json")
    delta = json.loads(found.splitlines()[-1])["delta"]
    assert 0 < delta < 0.5 and Path("kept").is_dir() and "trainings" not in found


def test_a_wrong_equation_is_the_exit_code_and_comes_first() -> None:
    data = pinn.problems.Heat1D(diffusivity=0.1).observe(100, noise=0.02)
    warmed = data.y + 0.4 * data.x[:, 1:]  # by a source that is not in the equation
    np.savetxt("readings.csv", np.c_[data.x, warmed], header="x,t,u", comments="", delimiter=",")
    file = write(
        "from guardband import pinn\nfamily = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2))\n"
    )
    found = json.loads(run(file, "--data", "readings.csv", "--out", "page.html", "--json", code=1))
    assert found["doubted"] and "have an order along the axes" in found["said"]
    assert "<h2>The equation does not describe these readings</h2>" in Path("page.html").read_text()


@pytest.mark.parametrize(
    ("text", "names", "more", "cure"),
    [
        (HEAD, "x,t,u", [], r"family = pinn.Family(Rod, diffusivity=(LOW, HIGH))"),
        ("", "x,t,u", [], "for a problem that is a dataclass"),
        (
            HEAD + FAMILY + "other = family.solved_by(print)\n" + "del family\n" + FAMILY[3:],
            "x,t,u",
            [],
            "2 fam",
        ),
        (HEAD + "1 / 0\n", "x,t,u", [], "rod.py, line 17: ZeroDivisionError"),
        (
            HEAD + "family = pinn.Family(Rod, speed=(1, 2))\n",
            "x,t,u",
            [],
            "line 17: Rod has no coefficient 'speed'",
        ),
        (HEAD + "def\n", "x,t,u", [], "line 17: SyntaxError"),
        (HEAD + FAMILY + "recipe = 5\n", "x,t,u", [], "should be a pinn.Recipe, got int"),
        (
            HEAD + FAMILY,
            "x,time,u",
            [],
            "no column `t`; its columns are x, time, u. The axes of Rod are x, t",
        ),
        (HEAD + FAMILY, "x,t,heat", [], "no column of an output; its columns are x, t, heat"),
        (HEAD + FAMILY, "x,t,u", ["--noise", "loud"], "--noise should be symmetric, exchangeable, gaussian"),
        (HEAD + FAMILY, "x,t,u", ["--out", "page.pdf"], "should end in .html or .md"),
    ],
)
def test_what_is_wrong_is_told_with_its_cure(text: str, names: str, more: list[str], cure: str) -> None:
    said = run(write(text), "--data", heated(names=names), *more, code=2)
    assert cure in " ".join(said.split())


def test_a_file_that_is_not_there_and_readings_elsewhere_are_told() -> None:
    assert "such as problem.py, but" in run("none.py", "--data", heated(), code=2)
    Path("far.csv").write_text("x,t,u,who\n0.5,0.5,0.1,a\n3.0,0.5,0.1,b\n")
    said = run(write(HEAD + FAMILY + SOLVER), "--data", "far.csv", code=2)
    assert "1 of 2 readings lie outside the domain" in said and "x = 3, t = 0.5" in said
    assert "neither axes nor outputs: who" in said


# Report and pictures of estimates in Python


@pytest.mark.slow
def test_the_report_says_how_coefficients_trade_off() -> None:
    estimates = pinn.coefficients(OSCILLATOR, SWUNG)
    page = gb.report(estimates, path="page.md", title="Swings", facts={"who": "me"}).read_text()
    assert page.startswith("# Swings") and "| who | me |" in page and page.count("data:image/png") == 4
    titles = [section.title for section in estimates.report_sections()]
    assert titles[0] == "The claim" and "How coefficients trade off" in titles
    assert np.allclose(estimates.correlation, estimates.correlation.T)
    assert np.allclose(np.diag(estimates.correlation), 1)


@pytest.mark.slow
def test_the_headline_names_all_coefficients_and_a_weak_correlation_is_called_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    estimates = pinn.coefficients(OSCILLATOR, SWUNG)
    headline = estimates.report_sections()[0].paragraphs[0]
    assert all(f"{name} = " in headline for name in estimates.values)
    said = {}
    for strength in (-0.03, -0.6):
        found = np.array([[1.0, strength], [strength, 1.0]])
        monkeypatch.setattr(type(estimates), "correlation", found)
        (said[strength],) = (
            one.paragraphs[0] for one in estimates.report_sections() if "trade off" in one.title
        )
    assert "can be determined separately" in said[-0.03] and "by a smaller frequency" in said[-0.6]


def test_a_report_on_estimates_takes_no_points_and_one_on_a_band_does() -> None:
    with pytest.raises(TypeError, match=r"gb.report\(estimates, path=...\)"):
        gb.report(pinn.coefficients(OSCILLATOR, SWUNG), path="a.html", level=0.9)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="report on a band needs points"):
        gb.report(gb.calibrate(np.sin, np.ones(3), np.ones(3)), path="a.html")  # type: ignore[call-overload]


def test_the_misfit_is_least_at_the_estimate_and_flat_where_nothing_is_told() -> None:
    estimates = pinn.coefficients(OSCILLATOR, SWUNG)
    for name in estimates.values:
        values, off = estimates.misfit(name)
        assert abs(values[off.argmin()] - estimates.values[name]) <= np.diff(values)[0]
        assert off.min() >= np.sqrt(np.square(estimates.residuals).mean()) - 1e-9
    still = gb.Observations(np.zeros((9, 1)), SWUNG.y[:9])
    values, off = pinn.coefficients(OSCILLATOR, still).misfit("damping")
    assert np.ptp(off) < 1e-9 and np.isfinite(pinn.coefficients(OSCILLATOR, still).correlation).all()


def test_regions_are_drawn_with_what_is_known() -> None:
    estimates = pinn.coefficients(OSCILLATOR, SWUNG)
    assert pinn.plot.region(estimates).get_ylabel() == "frequency"
    assert pinn.plot.misfit(estimates, "damping", truth={"damping": 0.05}).get_xlabel() == "damping"
    assert pinn.plot.residuals(estimates).get_xlabel() == "t"
    heat = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    far = pinn.coefficients(heat, pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.001, seed=1))
    moved = gb.Observations(far.region.design.x, 5 + far.region.y)
    empty = pinn.coefficients(heat, moved)
    assert empty.region.empty and "95 % region" not in pinn.plot.region(empty).get_legend_handles_labels()[1]
    wide = pinn.Family(pinn.problems.DampedOscillator, damping=(0.02, 0.03), frequency=(5.5, 5.6)).exact()
    nothing = pinn.coefficients(wide, SWUNG)
    assert "95 % region: empty" in pinn.plot.region(nothing).get_legend_handles_labels()[1]
    assert "No value in the range" in gb.report(nothing, path="page.md").read_text()
    flow = pinn.Family(pinn.problems.Kovasznay, reynolds=(20.0, 60.0)).exact()
    both = pinn.coefficients(flow, pinn.problems.Kovasznay(reynolds=30.0).observe(20, noise=0.05))
    assert pinn.plot.residuals(both, "y").get_legend_handles_labels()[1] == ["u", "v", "p"]


def test_what_cannot_be_drawn_is_told() -> None:
    estimates = pinn.coefficients(OSCILLATOR, SWUNG)
    with pytest.raises(TypeError, match="should be the result of"):
        pinn.plot.region(estimates.region)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Unknown axis 'x'; the axes are t"):
        pinn.plot.residuals(estimates, "x")
    with pytest.raises(ValueError, match="Unknown coefficient 'mass'"):
        pinn.plot.misfit(estimates, "mass")


# Envelopes, and regions of three coefficients


def test_the_solution_for_the_true_coefficients_lies_in_the_envelope_at_all_points() -> None:
    estimates = pinn.coefficients(OSCILLATOR, SWUNG)
    assert estimates.region.contains(damping=0.05, frequency=6.2)
    x = np.linspace(0, 5, 101)
    envelope = estimates.envelope(x)
    truth = np.asarray(OSCILLATOR(x, [[0.05, 6.2]])[0])
    assert ((envelope.lower <= truth) & (truth <= envelope.upper)).all()
    assert "With a confidence of 95 % the solution" in repr(envelope) and len(envelope.band) == 101
    assert "(asymptotic)" in pinn.coefficients(OSCILLATOR, SWUNG, noise="gaussian").envelope(x).promise
    narrow = pinn.Family(pinn.problems.DampedOscillator, damping=(0.02, 0.03), frequency=(5.5, 5.6)).exact()
    with pytest.raises(ValueError, match="so there is no envelope"):
        pinn.coefficients(narrow, SWUNG).envelope(x)


def test_a_search_finds_what_a_grid_finds_and_promises_nothing() -> None:
    ranges = {"damping": (0.02, 0.12), "frequency": (5.5, 7.0)}
    three = pinn.Family(pinn.problems.DampedOscillator, **ranges, start=(0.9, 1.1)).exact()
    estimates = pinn.coefficients(three, SWUNG, noise="gaussian")
    region = estimates.region
    flat = pinn.coefficients(OSCILLATOR, SWUNG, noise="gaussian").region
    for name in ranges:  # the region of more coefficients is wider, and no search leaves the range
        low, high = region.interval(name)
        assert low <= flat.interval(name)[0] + 0.02 * (high - low)
        assert high >= flat.interval(name)[1] - 0.02 * (high - low)
    assert "no guaranteed coverage" in estimates.envelope([0.5]).promise
    page = gb.report(estimates, path="page.md").read_text()
    assert "come from a search" in page and "These ends have no guaranteed coverage" in page
    with pytest.raises(ValueError, match="3 coefficients cannot be drawn"):
        pinn.plot.region(estimates)
    gone = pinn.coefficients(
        pinn.Family(
            pinn.problems.DampedOscillator, damping=(0.02, 0.03), frequency=(5.5, 5.6), start=(1.0, 1.1)
        ).exact(),
        SWUNG,
    )
    assert np.isnan(gone.region.interval("start")).all() and "A search found no value" in str(gone)


def test_places_for_further_readings_are_named() -> None:
    said = run(write(HEAD + FAMILY + SOLVER), "--data", heated(), "--out", "page.md", "--next", "3")
    assert "further readings, in this order:\n  x = " in said and "no exact level" in said
    page = Path("page.md").read_text()
    places = page[page.index("## Where to measure next") : page.index("## Where it comes from")]
    assert "| x | t |" in places and "| 3 | " in places and "| 4 | " not in places
    np.savetxt("places.csv", [[0.5, 0.0], [0.5, 1.0]], header="x,t", comments="", delimiter=",")
    more = ["--next", "1", "--candidates", "places.csv", "--json"]
    assert json.loads(run("rod.py", "--data", "readings.csv", *more))["next"] == [{"x": 0.5, "t": 1.0}]
    assert "--candidates needs --next" in run("rod.py", "--data", "readings.csv", *more[2:], code=2)


def test_an_end_of_a_region_that_is_the_end_of_the_range_is_said(tmp_path: Path) -> None:
    solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.098)).exact()
    estimates = pinn.coefficients(solved, pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.05))
    assert "and 0.098, the end of the range." in str(estimates)
    assert estimates.region.at_ends("diffusivity") == (False, True)
    assert "0.098, the end of the range |" in gb.report(estimates, path=tmp_path / "p.md").read_text()
    three = {"diffusion": (0.04, 0.06), "growth": (1.9, 2.1)}
    front = pinn.Family(pinn.problems.ReactionDiffusion1D, **three).exact()
    data = pinn.problems.ReactionDiffusion1D(diffusion=0.05, growth=2.0).observe(40, noise=0.3)
    assert str(pinn.coefficients(front, data)).count("the end of the range") >= 2


def test_an_empty_region_and_the_test_of_the_equation_speak_with_one_voice(tmp_path: Path) -> None:
    """The noise is declared Gaussian and small, so no value agrees; the sign test does not notice."""
    solved = pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()
    data = pinn.problems.Heat1D(diffusivity=0.1).observe(40, noise=0.05)
    estimates = pinn.coefficients(solved, data)
    nothing = replace(estimates.region, test=_Refusing())
    empty = replace(estimates, region=nothing)
    assert empty.region.empty and not empty.doubt.alarm
    page = gb.report(empty, path=tmp_path / "page.md").read_text()
    for said in (str(empty), page):
        assert "do not speak against the equation" not in said
        assert "No value in the range agrees with the readings at 95 %: the range, the equation" in said
    assert "## No value in the range agrees with the readings" in page


class _Refusing(Test):
    method, asymptotic, noise = "a test that accepts nothing", False, "anything"

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        return np.zeros(len(theta), dtype=bool)
