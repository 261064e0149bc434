"""The report: says what is promised and what was found, for any band, and escapes what came from outside."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import guardband as gb
from guardband.report import _misses, report, sections

GENERATOR = np.random.default_rng(0)


def drawn(d: int, n: int = 60, m: int = 1) -> tuple[np.ndarray, np.ndarray]:
    return GENERATOR.uniform(size=(n, d)), GENERATOR.normal(size=(n, m))


def zero(x: np.ndarray) -> np.ndarray:
    return np.zeros((len(x), 1))


@pytest.mark.parametrize(("d", "pictures"), [(1, 4), (2, 4), (3, 4)])
def test_every_dimension_has_its_pictures(d: int, pictures: int, tmp_path: Path) -> None:
    calibrated = gb.calibrate(gb.predictors.Constant(zero), *drawn(d))
    path = report(calibrated, *drawn(d, 200), path=tmp_path / "page.html", facts={"data": "<b>"})
    text = path.read_text()
    assert text.count("<img") == pictures and "&lt;b&gt;" in text and "<b>" not in text
    assert "lies between 0." in text and "Beta law" in text and "constant width" in text
    assert "default-src 'none'" in text  # nothing can be fetched or run


def test_without_measurements_nothing_is_claimed_to_be_measured(tmp_path: Path) -> None:
    calibrated = gb.calibrate(gb.predictors.Constant(zero), *drawn(2), confidence=0.9)
    text = report(calibrated, drawn(2, 50)[0], path=tmp_path / "page.md", level=0.8).read_text()
    assert "nothing was measured" in text and "at least 80 %" in text and "With confidence 0.9" in text
    assert text.startswith("# A prediction band")


def test_an_infinite_band_is_said_to_be_one() -> None:
    calibrated = gb.calibrate(gb.predictors.Constant(zero), *drawn(1, 10))
    claim = sections(calibrated, *drawn(1, 20))[0].paragraphs[0]
    assert "infinite at 100% of the points" in claim


def test_what_may_void_the_guarantee_comes_first() -> None:
    x, y = drawn(1, 60)
    calibrated = gb.calibrate(gb.predictors.Constant(zero), x, y)
    checks = sections(calibrated, x + 5)[2]
    assert checks.table[1][0] == "ALARM" and "speaks against it" in checks.paragraphs[0]


def test_calibrations_without_a_law_say_so() -> None:
    x, y = drawn(1, 60)
    calibrated = gb.calibrate(
        gb.predictors.Constant(zero), x, y, calibrator=gb.Clustered(), groups=np.arange(60)
    )
    assert "no exact law" in sections(calibrated, x + 0.001)[3].paragraphs[1]
    grouped = gb.calibrate(
        gb.predictors.Constant(zero), x, y, calibrator=gb.Grouped(), groups=np.arange(60) % 2
    )
    made = sections(grouped, *drawn(1, 30), groups=np.arange(30) % 2)
    assert "in every group" in made[1].paragraphs[0]


def test_several_outputs_are_covered_jointly() -> None:
    calibrated = gb.calibrate(gb.predictors.Constant(lambda x: np.zeros((len(x), 2))), *drawn(1, 40, 2))
    assert "2 outputs each, covered jointly" in sections(calibrated, *drawn(1, 40, 2))[3].paragraphs[0]


def test_whole_fields_can_be_reported(tmp_path: Path) -> None:
    fields = GENERATOR.normal(size=(40, 6, 1))
    predictor = gb.predictors.Constant(lambda x: np.zeros((len(x), 6, 1)))
    calibrated = gb.calibrate(predictor, GENERATOR.normal(size=(40, 2)), fields, score=gb.Simultaneous())
    text = report(calibrated, GENERATOR.normal(size=(9, 2)), path=tmp_path / "page.html").read_text()
    assert "Whole fields were calibrated" in text


def test_a_claim_that_fails_says_so_first(tmp_path: Path) -> None:
    calibrated = gb.calibrate(gb.predictors.Constant(zero), *drawn(1, 100))
    x, y = drawn(1, 100)
    made = sections(calibrated, x, y + 5)
    assert made[0].title == "The claim does not hold on these data" and made[0].paragraphs[0].startswith(
        "NOT"
    )
    assert made[2].table[1][:2] == ["ALARM", "fresh data"]
    with pytest.raises(ValueError, match=r"written as \.html or \.md, got"):
        report(calibrated, x, path=tmp_path / "page.pdf")


def test_misses_are_held_against_the_threshold_at_their_place(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, noise = rng.uniform(size=100), rng.normal(size=100)
    groups = x > 0.5
    model = gb.predictors.Constant(np.zeros_like)
    calibrated = gb.calibrate(model, x, noise * (1 + 9 * groups), calibrator=gb.Grouped(), groups=groups)
    import matplotlib.pyplot as plt

    ax = plt.figure().gca()
    _misses(calibrated, 0.9, ax)
    legend = ax.get_legend()
    assert legend is not None
    inside = int(legend.get_texts()[0].get_text().split(": ")[1].split()[0])
    assert inside == sum(int(np.ceil((n + 1) * 0.9)) for n in (groups.sum(), (~groups).sum()))


def test_regions_have_lines_of_their_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(2, 200))
    calibrated = gb.calibrate(gb.predictors.Constant(np.zeros_like), x[:100], y[:100])
    regions = {"late": lambda x: x[:, 0] > 0.5}
    page = gb.report(calibrated, x[100:], y[100:], path=tmp_path / "band.md", regions=regions)
    assert "this band, late" in page.read_text()


@pytest.mark.parametrize("where", ["one sensor", "a diagonal", "one place", "few"])
def test_points_that_span_no_plane_are_reported_too(where: str, tmp_path: Path) -> None:
    calibrated = gb.calibrate(gb.predictors.Constant(zero), *drawn(2, 5 if where == "few" else 60))
    x, y = drawn(2, 40)
    if where == "one sensor":
        x[:, 0] = 0.5
    elif where == "a diagonal":
        x[:, 1] = x[:, 0]
    elif where == "one place":
        x[:] = 0.5
    with warnings.catch_warnings(action="ignore", category=gb.InfiniteBandWarning):
        path = report(calibrated, x, y, path=tmp_path / "page.html")
    assert path.read_text().count("<img") >= 3


def test_a_far_outlier_does_not_draw_a_million_bars() -> None:
    import matplotlib.pyplot as plt

    x, y = drawn(1, 200)
    y[3] = -9999.0
    _, ax = plt.subplots()
    _misses(gb.calibrate(gb.predictors.Constant(zero), x, y), 0.9, ax)
    assert len(ax.patches) <= 150 and "5 or more" in [text.get_text() for text in ax.texts]
    plt.close("all")
