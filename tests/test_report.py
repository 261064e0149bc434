"""The report states the promise and the findings for any band, and escapes external text."""

import contextlib
import hashlib
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.reports import page, report, sections
from guardband.reports.page import Section
from guardband.reports.pictures import _misses
from helpers import needs
from wings import pinn, torch


def drawn(d: int, n: int = 60, m: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.uniform(size=(n, d)), generator.normal(size=(n, m))


def titled(made: list[Section], title: str) -> Section:
    """Return the section with this title."""
    return next(section for section in made if section.title == title)


def zero(x: np.ndarray) -> np.ndarray:
    return np.zeros((len(x), 1))


@pytest.mark.slow("1-5")
@pytest.mark.parametrize(("d", "pictures"), [(1, 5), (2, 5), (3, 5)])
def test_every_dimension_has_its_pictures(d: int, pictures: int, tmp_path: Path) -> None:
    calibrated = gb.calibrate(gb.predictors.MeanOnly(zero), *drawn(d))
    path = report(calibrated, *drawn(d, 200, seed=1), path=tmp_path / "page.html", facts={"data": "<b>"})
    text = path.read_text()
    assert text.count("<img") == pictures and "&lt;b&gt;" in text and "<b>" not in text
    assert "lies between 0." in text and "Beta law" in text and "constant width" in text
    assert "default-src 'none'" in text  # nothing can be fetched or run


def test_without_measurements_nothing_is_claimed_to_be_measured(tmp_path: Path) -> None:
    calibrated = gb.calibrate(gb.predictors.MeanOnly(zero), *drawn(2), confidence=0.9)
    text = report(calibrated, drawn(2, 50, seed=1)[0], path=tmp_path / "page.md", level=0.8).read_text()
    assert "the claim is untested" in text and "at least 80 %" in text and "with confidence 0.9" in text
    assert text.startswith("# A prediction band")


def test_an_infinite_band_is_said_to_be_one() -> None:
    calibrated = gb.calibrate(gb.predictors.MeanOnly(zero), *drawn(1, 10))
    claim = sections(calibrated, *drawn(1, 20, seed=1))[0]
    assert claim.title == "What is claimed" and "infinite at 100% of the points" in claim.paragraphs[-1]


def test_what_may_void_the_guarantee_comes_first() -> None:
    x, y = drawn(1, 60)
    calibrated = gb.calibrate(gb.predictors.MeanOnly(zero), x, y)
    checks = titled(sections(calibrated, x + 5), "What would void it")
    assert checks.table[1][0] == "ALARM" and "in doubt" in checks.paragraphs[0]


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_the_claim_is_an_average_over_calibration_sets_or_holds_with_a_confidence(confidence: Any) -> None:
    x, y = drawn(1, 60)
    calibrated = gb.calibrate(gb.predictors.MeanOnly(zero), x, y, confidence=confidence)
    (claim,) = [
        text
        for text in titled(sections(calibrated, x + 0.001), "What is claimed").paragraphs
        if "any noise" in text
    ]
    assert "This holds for any model, any noise and any number of points" in claim
    assert ("and over calibration sets" in claim) == (confidence is None)
    assert ("with confidence 0.9 for the calibration set at hand" in claim) == (confidence is not None)


def test_a_claim_of_cross_calibration_needs_training_that_ignores_the_order_of_rows() -> None:
    x, y = drawn(1, 40)
    crossed = gb.calibration.calibrate_cross(lambda data: zero, (x, y), folds=4)
    claim = " ".join(titled(sections(crossed, x + 0.001), "What is claimed").paragraphs)
    assert "any model whose training does not depend on the order of its rows, any noise" in claim


@pytest.mark.slow
def test_calibrations_without_a_law_say_so() -> None:
    x, y = drawn(1, 60)
    calibrated = gb.calibrate(
        gb.predictors.MeanOnly(zero), x, y, calibrator=gb.Clustered(), groups=np.arange(60)
    )
    stands = titled(sections(calibrated, x + 0.001), "Size of the calibration set")
    assert "no exact law" in stands.paragraphs[1]
    grouped = gb.calibrate(
        gb.predictors.MeanOnly(zero), x, y, calibrator=gb.Grouped(), groups=np.arange(60) % 2
    )
    made = sections(grouped, *drawn(1, 30, seed=1), groups=np.arange(30) % 2)
    assert "in every group" in titled(made, "What is claimed").paragraphs[1]


def test_several_outputs_are_covered_jointly() -> None:
    calibrated = gb.calibrate(gb.predictors.MeanOnly(lambda x: np.zeros((len(x), 2))), *drawn(1, 40, 2))
    stands = titled(sections(calibrated, *drawn(1, 40, 2, seed=1)), "Size of the calibration set")
    assert "Calibrated on 40 points; 2 outputs each, covered jointly" in stands.paragraphs[0]


def test_whole_fields_can_be_reported(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    fields = generator.normal(size=(40, 6, 1))
    predictor = gb.predictors.MeanOnly(lambda x: np.zeros((len(x), 6, 1)))
    calibrated = gb.calibrate(predictor, generator.normal(size=(40, 2)), fields, score=gb.Simultaneous())
    text = report(calibrated, generator.normal(size=(30, 2)), path=tmp_path / "page.html").read_text()
    assert "40 calibration fields are enough for 95 %" in text and "No check raised an alarm" in text
    assert "by calibration on 40 fields" in text and "with 40 fields it lies between" in text
    assert text.count("alibration point") == 1  # in the promise, which defines a point
    assert "A point here is a whole field" in text and "Sizes of the misses of the calibration fields" in text
    far = titled(sections(calibrated, 9 + generator.normal(size=(30, 2))), "What would void it")
    assert "in doubt" in far.paragraphs[0] and [row[1] for row in far.table[1:3]] == ["shift", "far"]


def test_a_claim_that_fails_says_so_first(tmp_path: Path) -> None:
    calibrated = gb.calibrate(gb.predictors.MeanOnly(zero), *drawn(1, 100))
    x, y = drawn(1, 100, seed=1)
    made = sections(calibrated, x, y + 5)
    assert made[0].title == "Verdict: the claim does not hold on these data" and made[0].mark == "fails"
    assert made[0].paragraphs[0].startswith("NOT") and made[1].mark == "claim"
    assert titled(made, "What would void it").table[1][:2] == ["ALARM", "fresh data"]
    with pytest.raises(ValueError, match=r"should end in \.html or \.md, got"):
        report(calibrated, x, path=tmp_path / "page.pdf")


def test_misses_are_held_against_the_threshold_at_their_place(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, noise = rng.uniform(size=100), rng.normal(size=100)
    groups = x > 0.5
    model = gb.predictors.MeanOnly(np.zeros_like)
    calibrated = gb.calibrate(model, x, noise * (1 + 9 * groups), calibrator=gb.Grouped(), groups=groups)
    import matplotlib.pyplot as plt

    ax = plt.figure().gca()
    share = calibrated.misses(0.9)
    assert share is not None
    _misses(share, ax)
    legend = ax.get_legend()
    assert legend is not None
    inside = int(legend.get_texts()[0].get_text().split(": ")[1].split()[0])
    assert inside == sum(int(np.ceil((n + 1) * 0.9)) for n in (groups.sum(), (~groups).sum()))


def test_regions_have_lines_of_their_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(2, 200))
    calibrated = gb.calibrate(gb.predictors.MeanOnly(np.zeros_like), x[:100], y[:100])
    regions = {"late": lambda x: x[:, 0] > 0.5}
    page = gb.report(calibrated, x[100:], y[100:], path=tmp_path / "band.md", regions=regions)
    assert "this band, late" in page.read_text()


def test_each_output_by_itself_has_its_lines_and_no_common_miss(tmp_path: Path) -> None:
    model = gb.predictors.MeanOnly(lambda x: np.zeros((len(x), 2)))
    calibrated = gb.calibrate(model, *drawn(1, 99, 2), score=gb.Absolute(joint=False))
    x, y = drawn(1, 100, 2)
    page = report(calibrated, x, y, path=tmp_path / "page.md", level=0.9).read_text()
    assert "2 outputs each, covered separately" in page and "y1: Consistent" in page
    assert "this band, y1" in page and "calibration points missed" not in page


def test_balls_and_sets_that_cannot_be_shown_are_reported_too(tmp_path: Path) -> None:
    class Largest(gb.conformal.Score):
        def __call__(self, prediction: gb.Prediction, y: np.ndarray) -> np.ndarray:
            return largest(y - prediction.mean)

    class Ball(Largest):
        def band(self, prediction: gb.Prediction, q: Any, level: float) -> gb.values.NormBand:
            return gb.values.NormBand(prediction.x, prediction.mean, q, largest, level)

    def largest(difference: np.ndarray) -> np.ndarray:
        return abs(difference).max(axis=(1, 2))

    generator = np.random.default_rng(0)
    fields, x = generator.normal(size=(80, 6, 1)), generator.normal(size=(80, 2))
    predictor = gb.predictors.MeanOnly(lambda x: np.zeros((len(x), 6, 1)))
    for score in (Largest(), Ball()):
        calibrated = gb.calibrate(predictor, x[:40], fields[:40], score=score)
        page = report(calibrated, x[40:], fields[40:], path=tmp_path / "page.md", level=0.9).read_text()
        assert ("Its diameter in its norm is" in page) == isinstance(score, Ball) and "Consistent" in page


def test_a_calibration_on_a_frame_is_reported(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    generator = np.random.default_rng(0)
    frame = pandas.DataFrame({"x": generator.uniform(size=80), "site": ["a", "b"] * 40})
    y = generator.normal(size=80)
    calibrated = gb.calibrate(lambda frame: np.zeros(len(frame)), frame[:40], y[:40])
    page = report(calibrated, frame[40:], y[40:], path=tmp_path / "page.md", level=0.9).read_text()
    assert "which exclude site" in page and page.count("![") >= 3


@pytest.mark.parametrize("where", ["one sensor", "a diagonal", "one place", "few"])
def test_points_that_span_no_plane_are_reported_too(where: str, tmp_path: Path) -> None:
    calibrated = gb.calibrate(gb.predictors.MeanOnly(zero), *drawn(2, 5 if where == "few" else 60))
    x, y = drawn(2, 40, seed=1)
    if where == "one sensor":
        x[:, 0] = 0.5
    elif where == "a diagonal":
        x[:, 1] = x[:, 0]
    elif where == "one place":
        x[:] = 0.5
    with warnings.catch_warnings(action="ignore", category=gb.conformal.InfiniteBandWarning):
        path = report(calibrated, x, y, path=tmp_path / "page.html")
    assert path.read_text().count("<img") >= 3


def test_a_far_outlier_does_not_draw_a_million_bars() -> None:
    import matplotlib.pyplot as plt

    x, y = drawn(1, 200)
    y[3] = -9999.0
    _, ax = plt.subplots()
    share = gb.calibrate(gb.predictors.MeanOnly(zero), x, y).misses(0.9)
    assert share is not None
    _misses(share, ax)
    assert len(ax.patches) <= 150 and "5 or more" in [text.get_text() for text in ax.texts]
    plt.close("all")


def test_a_reviewer_finds_the_answers_in_order(tmp_path: Path) -> None:
    x, y = drawn(1, 300)
    calibrated = gb.calibrate(zero, x[:100], y[:100])
    made = sections(calibrated, x[100:], y[100:], level=0.9)
    titles = ["What is claimed", "Verdict", "Measured coverage", "Where it covers", "What it looks like"]
    titles += ["What would void it", "Size of the calibration set", "Where it comes from"]
    assert [section.title for section in made] == [*titles, "How to reproduce it"]
    assert made[1].mark == "holds" and "Measured against predicted" in made[4].pictures[0][0]
    assert "their mean as a constant prediction has 0.99" in made[2].paragraphs[0]
    prints = {row[0]: row[1] for row in made[7].table}
    assert prints["calibration data"].startswith("(100, 1) and (100, 1), sha256 ")
    again = {row[0]: row[1] for row in sections(calibrated, x[100:], y[100:])[7].table}
    assert prints["points of this page"] == again["points of this page"] != prints["calibration data"]
    assert "level=0.9" in made[8].paragraphs[1] and "guardband report" not in str(made[8])


def test_fingerprints_know_columns_and_text(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    x, y = drawn(1, 60)
    frame = pandas.DataFrame({"depth": x[:, 0], "site": ["a", "b"] * 30})
    model = gb.predictors.MeanOnly(lambda frame: np.zeros((len(frame), 1)))
    calibrated = gb.calibrate(model, frame[:40], y[:40])
    page = report(calibrated, frame[40:], y[40:], path=tmp_path / "page.md", level=0.9).read_text()
    assert "(20, 2) and (20, 1), columns depth, site, sha256" in page


@pytest.mark.slow
def test_the_line_that_makes_a_page_again_does_so(tmp_path: Path) -> None:
    """The call runs as printed, except for the dots and the name of the folder."""
    x, y = drawn(1, 60)
    plain = gb.calibrate(pinn.mlp(1, [4]).double(), x, y)
    ratio = gb.calibrate(zero, x, y, calibrator=gb.Weighted(lambda x: np.ones(len(x))))
    for made, yours in ((plain, "gb.load('"), (gb.calibrate(zero, x, y), "model=zero"), (ratio, "ratio=")):
        folder = gb.save(made, tmp_path / yours[:2] / str(id(made)))
        path = report(made, *drawn(1, 30, seed=1), path=tmp_path / "page.html", title='A "band"', level=0.8)
        line = titled(
            sections(made, *drawn(1, 30, seed=1), level=0.8, title='A "band"'), "How to reproduce it"
        )
        call = line.paragraphs[1].replace("model=...", "model=zero").replace('"FOLDER"', repr(str(folder)))
        call = call.replace("ratio=...", "ratio=made.calibrator.ratio").replace("report.html", "again.html")
        assert yours in call and "'A \"band\"'" in call
        x_new, y_new = drawn(1, 30, seed=1)
        names = {"gb": gb, "zero": zero, "made": made, "x": x_new, "y": y_new, "Path": Path}
        with contextlib.chdir(tmp_path):
            eval(call, names)
        first, second = (
            "".join(line for line in one.read_text().splitlines() if "written" not in line)
            for one in (path, tmp_path / "again.html")
        )
        assert first == second


def test_what_else_was_given_stands_in_the_line() -> None:
    x, y = drawn(1, 60)
    sides = np.arange(60) % 2
    made = gb.calibrate(zero, x, y, calibrator=gb.Grouped(), groups=sides)
    late = {"late": lambda x: x[:, 0] > 0.5}
    fresh = drawn(1, 60, seed=1)
    line = titled(sections(made, *fresh, groups=sides, regions=late, facts={"a": "b"}), "How to reproduce it")
    assert "x, y, level=0.95, groups=groups, regions=regions, facts=facts, path=" in line.paragraphs[1]


def test_what_cannot_be_kept_is_not_loaded() -> None:
    class Own(gb.conformal.Score):
        def __call__(self, prediction: gb.Prediction, y: np.ndarray) -> np.ndarray:
            return abs(y - prediction.mean)[:, 0]

    class Silent(gb.Calibrated):
        promise = "none"  # type: ignore[assignment]

        def predict(self, x: Any) -> gb.Prediction:
            return gb.Prediction(x, x)

        def band(self, prediction: gb.Prediction, level: Any = 0.95, *, groups: Any = None) -> gb.Band:
            mean = prediction.mean
            return gb.Band(prediction.x, mean, mean, mean, 0.95)

    for made, source in (
        (gb.calibrate(zero, *drawn(1), score=Own()), 'gb.load("FOLDER", model=..., score=...)'),
        (Silent(), "calibrated"),
    ):
        again = titled(sections(made, drawn(1, 30, seed=1)[0]), "How to reproduce it")
        assert again.paragraphs[1].startswith(f"gb.report({source}, x, level=0.95, path=")


def facts_of(calibrated: gb.Calibrated, x: np.ndarray, y: np.ndarray | None = None) -> dict[str, str]:
    return {row[0]: row[1] for row in titled(sections(calibrated, x, y), "Where it comes from").table}


def by_hand(arrays: list[np.ndarray]) -> str:
    """Compute the fingerprint as the page explains it."""
    whole = b"".join(f"{a.dtype} {a.shape}".encode() + a.tobytes() for a in arrays)
    return hashlib.sha256(whole).hexdigest()[:16]


def test_fingerprints_can_be_made_by_hand() -> None:
    x, y = drawn(1, 60)
    net = torch.nn.Sequential(torch.nn.Linear(1, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    calibrated = gb.calibrate(net, x, y)
    fresh = drawn(1, 30, seed=1)
    facts = facts_of(calibrated, *fresh)
    assert facts["calibration data"].endswith(f"sha256 {by_hand([x, y])}")
    assert facts["points of this page"].endswith(f"sha256 {by_hand(list(fresh))}")
    weights = [part.numpy() for part in net.state_dict().values()]
    said = f"MeanOnly around torch Sequential; 10 numbers in its state_dict, sha256 {by_hand(weights)}"
    assert facts["model"] == said
    with torch.no_grad():
        next(net.parameters()).add_(1)
    assert facts_of(calibrated, fresh[0])["model"] != said


@pytest.mark.slow
def test_the_model_inside_is_named() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = drawn(1, 60)
    piped = make_pipeline(StandardScaler(), linear.Ridge()).fit(x, y)
    nets = [pinn.mlp(1, [4], seed=seed).double() for seed in range(3)]
    here = f"{__name__}.zero"
    for model, said in (
        (zero, f"MeanOnly around the function {here}"),
        (linear.Ridge().fit(x, y), "MeanOnly around sklearn Ridge"),
        (piped, "MeanOnly around sklearn Pipeline of StandardScaler, Ridge"),
        (
            gb.predictors.Given(zero, lambda x: 1 + x**2),
            f"Given around the function {here} and the function ",
        ),
        (
            gb.predictors.Ensemble(nets),
            "Ensemble around 3 x torch MLP; 45 numbers in its state_dict, sha256 ",
        ),
    ):
        assert facts_of(gb.calibrate(model, x, y), x + 0.001)["model"].startswith(said)
    crossed = gb.calibration.calibrate_cross(lambda data: zero, (x, y), folds=5)
    assert facts_of(crossed, x + 0.001)["model"] == f"5 x MeanOnly around the function {here}"
    problem = pinn.problems.Poisson1D()
    alone = pinn.fit(problem, pinn.mlp(1, [8]), recipe=pinn.Recipe.by_newton(3), progress=False)
    tangent = pinn.Tangent(alone, noise=0.1).calibrate(*problem.observe(30, noise=0.1))
    assert facts_of(tangent, x)["model"].startswith("Fitted around torch MLP; ")


@pytest.mark.slow
def test_nothing_is_found_only_where_nothing_was() -> None:
    """No page states this for calibration rows, or together with an alarm for a range."""
    x, y = drawn(1, 1500)
    y[x > 0.8] *= 10
    calibrated = gb.calibrate(zero, x[:500], y[:500])
    uneven = sections(calibrated, x[500:], y[500:], level=0.9)
    assert any(row[0] == "ALARM" for row in titled(uneven, "Where it covers").table)
    said = titled(uneven, "What would void it")
    assert said.paragraphs[0].startswith("The promised average is not in doubt, but")
    assert said.table[1][:2] == ["ALARM", "where it covers"]
    text = r"Coverage differs between ranges by more than chance allows, in \d+ of \d+ tests\."
    assert re.fullmatch(text, said.table[1][2])
    with pytest.warns(UserWarning, match="test points are calibration points"):
        known = sections(calibrated, x[:500], y[:500], level=0.9)
    assert known[0].title == "Verdict: these data cannot test the claim" and known[0].mark == "fails"
    said = titled(known, "What would void it")
    assert "in doubt" in said.paragraphs[0] and "used before" in [row[1] for row in said.table]
    even = sections(gb.calibrate(zero, *drawn(1, 99)), *drawn(1, 400, seed=1), level=0.9)
    assert titled(even, "What would void it").paragraphs[0].startswith("No check raised an alarm")


def test_a_training_that_has_not_converged_is_a_note() -> None:
    problem, recipe = pinn.problems.Poisson1D(), pinn.Recipe(steps=5, finish=0)
    rough = pinn.fit(problem, pinn.mlp(1, [8]), recipe=recipe, progress=False)
    made = sections(gb.calibrate(rough, *problem.observe(30)), problem.observe(30, seed=5).x)
    table = titled(made, "What would void it").table
    assert [row[0] for row in table if row[1] == "training"] == ["note"]


def test_what_counts_is_said() -> None:
    x, y = drawn(1, 60)
    fresh = drawn(1, 30, seed=1)[0]

    def said(calibrator: gb.conformal.Calibrator, **options: Any) -> str:
        made = sections(gb.calibrate(zero, x, y, calibrator=calibrator, **options), fresh, level=0.8, **asked)
        stands = titled(made, "Size of the calibration set").paragraphs[0]
        counted = stands.removeprefix("Calibrated on ").partition(";")[0]
        assert f"by calibration on {counted}" in titled(made, "What is claimed").paragraphs[0]
        return counted

    asked: dict[str, Any] = {}
    sensors = "6 sensors (groups), which is the number that matters, with 60 points in total"
    assert said(gb.Clustered(), groups=np.arange(60) % 6) == sensors
    assert said(gb.Split()) == "60 points"
    assert said(gb.Weighted(lambda x: 1 + 9 * x[:, 0])).endswith("the effective size of 60 weighted ones)")
    asked = {"groups": np.zeros(30)}
    smallest = "60 points (20 calibration points in the smallest group)"
    assert said(gb.Grouped(), groups=np.arange(60) % 3 > 0) == smallest


def two(x: np.ndarray) -> np.ndarray:
    return np.zeros((len(x), 2))


@pytest.mark.slow
def test_each_of_several_outputs_stands_beside_all_of_them() -> None:
    x, y = drawn(2, 400, 2)
    y[:, 1] *= 5
    calibrated = gb.calibrate(two, x[:100], y[:100])
    made = sections(calibrated, x[100:], y[100:], level=0.8)
    assert (
        "lies in this band, both outputs jointly, with prob" in titled(made, "What is claimed").paragraphs[0]
    )
    joint, *each = titled(made, "Measured coverage").table[1:4]
    assert joint[0] == "this band" and [row[0] for row in each] == ["its y0 alone", "its y1 alone"]
    band = calibrated(x[100:], level=0.8)
    for j, row in enumerate(each):
        inside = (band.lower[:, j] <= y[100:, j]) & (y[100:, j] <= band.upper[:, j])
        assert row[1:4] == ["300", f"{inside.mean():.3f}", f"{band.width[0, j]:.4g}"]
        assert float(row[2]) >= float(joint[2])
    captions = [caption for caption, _ in titled(made, "What it looks like").pictures]
    assert "Width of the band of y0, and its misses in any output." in captions
    assert "Where the model errs, in y0: calibration points." in captions
    alone = gb.calibrate(two, x[:100], y[:100], score=gb.Absolute(joint=False))
    made = sections(alone, x[100:], y[100:], level=0.8)
    assert "band, each of 2 outputs by itself, with prob" in titled(made, "What is claimed").paragraphs[0]
    assert "alone" not in str(titled(made, "Measured coverage").table)


def test_a_field_of_two_outputs_is_covered_where_all_its_nodes_are() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(90, 2)), generator.normal(size=(90, 6, 2))
    model = gb.predictors.MeanOnly(lambda x: np.zeros((len(x), 6, 2)))
    calibrated = gb.calibrate(model, x[:40], y[:40], score=gb.Simultaneous())
    made = sections(calibrated, x[40:], y[40:], level=0.8)
    rows = titled(made, "Measured coverage").table
    band = calibrated(x[40:], level=0.8)
    inside = (abs(y[40:]) <= band.upper).all(axis=1).mean(axis=0)
    alone = [(row[0], row[2]) for row in rows if "alone" in row[0]]
    assert alone == [(f"its u{j} alone", f"{share:.3f}") for j, share in enumerate(inside)]
    assert "The band of u0 around the first field, and its misses." in [row[0] for row in made[-5].pictures]


@pytest.fixture
def labels(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Collect the labels of all axes drawn afterwards."""
    seen: set[str] = set()

    def png(draw: Any) -> bytes:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots()
        draw(ax)
        seen.update((ax.get_xlabel(), ax.get_ylabel()))
        plt.close("all")
        return b""

    monkeypatch.setattr(sys.modules["guardband.reports.pictures"], "png", png)
    return seen


@pytest.mark.parametrize("d", [1, 2, 3])
def test_axes_carry_the_names_of_columns(d: int, labels: set[str]) -> None:
    pandas = pytest.importorskip("pandas")
    x, y = drawn(d, 120)
    frame = pandas.DataFrame(x, columns=["depth", "load in $", "speed"][:d]).assign(site=["a", "b"] * 60)
    calibrated = gb.calibrate(lambda frame: np.zeros(len(frame)), frame[:60], y[:60])
    sections(calibrated, frame[60:], y[60:], level=0.9)
    assert "depth" in labels and not {"x", "x0", "x1"} & labels
    assert ("load in \\$" in labels) == (d > 1)


@pytest.mark.parametrize("ending", ["html", "md"])
def test_characters_that_reorder_or_hide_text_are_escaped(ending: str, tmp_path: Path) -> None:
    signs = "\u202e\u2066\u200b\u3164\ufe0f\x1b"
    made = Section(signs, [signs], [["", signs], [signs, "µ"]], [(signs, b"")])
    text = page.write(tmp_path / f"page.{ending}", signs, [made]).read_text()
    assert not set(signs) & set(text) and "µ" in text
    assert text.count("202e") >= 6


def plane_fields(n: int, seed: int) -> tuple[np.ndarray, gb.Fields]:
    """Noisy bumps of many sizes on a spatial grid of two axes."""
    generator = np.random.default_rng(seed)
    a, b = np.meshgrid(np.linspace(0, 2, 12), np.linspace(0, 1, 10), indexing="ij")
    size = np.exp(generator.normal(size=(n, 1, 1, 1)))
    bump = size * np.exp(-8 * ((a - 1) ** 2 + (b - 0.5) ** 2))[None, :, :, None]
    noise = (0.02 + 0.1 * a[None, :, :, None]) * generator.normal(size=bump.shape)
    axes = {"x": np.linspace(0, 2, 12), "y": np.linspace(0, 1, 10)}
    return bump, gb.Fields(bump + noise, dims=("x", "y"), coordinates=axes)


def test_a_field_over_two_axes_has_a_picture_of_prediction_reading_and_width(tmp_path: Path) -> None:
    x, y = plane_fields(30, 0)
    calibrated = gb.calibrate(lambda x: x, x, y, score=gb.Simultaneous())
    new_x, new_y = plane_fields(20, 1)
    looks = titled(sections(calibrated, new_x, new_y, level=0.9), "What it looks like")
    caption, picture = looks.pictures[0]
    assert caption == "The first field: predicted, measured and width of the band."
    (tmp_path / "field.png").write_bytes(picture)
    blind = titled(sections(calibrated, new_x, level=0.9), "What it looks like")
    assert blind.pictures[0][0] == "The first field: predicted and width of the band."
    from matplotlib import pyplot as plt

    shape = plt.imread(tmp_path / "field.png").shape
    assert shape[1] > 300 and not plt.get_fignums()


def test_the_verdict_on_a_network_from_elsewhere_is_shown(tmp_path: Path) -> None:
    problem = pinn.problems.Poisson1D()
    net = pinn.mlp(problem, [4])
    x, y = drawn(1, 60)
    calibrated = gb.calibrate(net, x, y)
    found = pinn.verdict(problem, net)
    text = report(calibrated, *drawn(1, 60, seed=1), path=tmp_path / "page.md", verdict=found).read_text()
    assert "## The network: not converged" in text and "verdict=verdict" in text
    assert all(reason.split("%")[0] in text.replace("\\", "") for reason in found.reasons)
    assert "## The network" not in report(calibrated, x, path=tmp_path / "page.md").read_text()


class Counted:
    """A value with its own report."""

    report_title = "Counted"

    def report_sections(self, facts: dict[str, str] | None = None) -> list[Section]:
        return [Section("The count", ["Three."]), page.origin("count", "3", facts or {})]


def test_any_value_may_bring_its_report_and_sections(tmp_path: Path) -> None:
    path = report(Counted(), path=tmp_path / "page.md", facts={"who": "me"}, next_points=Counted())
    titles = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    assert titles == ["Counted", "The count", "The count", "Where it comes from", "Where it comes from"]
    assert "| who | me |" in path.read_text()


@needs("torch")
def test_the_version_of_torch_is_listed_if_torch_was_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"torch {torch.__version__}" in str(page.origin("a", "b", {}).table)
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    said = str(page.origin("a", "b", {}).table)
    assert "torch" not in said and f"numpy {np.__version__}" in said
