from collections.abc import Callable
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

import guardband as gb

X = np.random.default_rng(0).uniform(size=30)
LINE = gb.Band(X, np.sin(X), np.sin(X) - 1, np.sin(X) + 1, 0.9)
AXIS = np.linspace(0, 1, 7)
GRID = np.stack(np.meshgrid(AXIS, AXIS[:5], indexing="ij"), -1).reshape(-1, 2)


@pytest.fixture(autouse=True)
def _closed() -> object:
    yield
    plt.close("all")


def drawn_at(ax: Any) -> Callable[[float, float], float | None]:
    """The value whose color is seen at a place of a picture made of cells."""
    cells = ax.collections[0]
    corners, values = cells.get_coordinates(), np.ma.asarray(cells.get_array())
    across, upwards = corners[0, :, 0], corners[:, 0, 1]

    def value(x: float, y: float) -> float | None:
        found = values[np.searchsorted(upwards, y) - 1, np.searchsorted(across, x) - 1]
        return None if np.ma.is_masked(found) else float(found)

    return value


def test_a_band_is_drawn_in_order_with_truth_and_data() -> None:
    ax = gb.plot.band(LINE, truth=np.sin(X), data=gb.Observations(X, np.sin(X)))
    drawn = ax.get_lines()[-1].get_xdata()
    assert np.array_equal(drawn, np.sort(X))
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "data",
        "truth",
        "prediction",
        "0.9 band",
    ]


def test_a_plot_draws_on_the_axes_it_is_given() -> None:
    _, ax = plt.subplots()
    assert gb.plot.band(LINE, ax=ax) is ax and gb.plot.width(LINE, ax=ax) is ax


def test_an_infinite_band_fills_the_height() -> None:
    endless = gb.Band([0.0, 1.0], [0.0, 1.0], [-np.inf] * 2, [np.inf] * 2, 0.9)
    ax = gb.plot.band(endless)
    assert np.isfinite(ax.get_ylim()).all()


@pytest.mark.parametrize("order", [np.arange(35), np.random.default_rng(0).permutation(35)])
def test_a_grid_becomes_a_picture_whatever_its_order(order: np.ndarray) -> None:
    values = (GRID[:, 0] + 10 * GRID[:, 1])[order]
    alone = gb.plot.heatmap(GRID[order], values, colorbar=False)
    assert len(alone.figure.axes) == 1
    ax = gb.plot.heatmap(GRID[order], values, label="u", limits=(0, 12))
    mesh = ax.collections[0]
    assert mesh.get_clim() == (0, 12)
    assert np.allclose(np.asarray(mesh.get_array()), AXIS[None, :] + 10 * AXIS[:5, None])


def test_scattered_points_become_triangles_and_infinite_widths_stay_blank() -> None:
    x = torch.tensor(np.random.default_rng(0).uniform(size=(50, 2)))
    half = torch.ones(50, 1)
    half[3] = torch.inf
    band = gb.Band(x, torch.zeros(50, 1), -half, half, 0.9)
    assert np.mean(gb.plot.width(band).collections[0].get_clim()) == 2
    everywhere = gb.Band(GRID, np.zeros(35), np.full(35, -np.inf), np.full(35, np.inf), 0.9)
    gb.plot.width(everywhere)


def constant(x: np.ndarray, kind: str, mean: float = 10.0, half: float = 0.0658) -> gb.Band:
    """A calibrated band of one width around a mean that is large beside it, rounded as in `kind`."""
    at = torch.tensor(x, dtype=torch.float32) if kind == "float32" else x
    wave = mean * np.sin(7 * x[:, :1])
    y = torch.tensor(wave, dtype=torch.float32) if kind == "float32" else wave
    ends = (at, y, y - half, y + half)
    return gb.Band(*ends, level=0.9)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("points", [GRID, np.random.default_rng(0).uniform(size=(50, 2))])
def test_a_constant_width_is_drawn_in_one_color_and_said(points: np.ndarray, kind: str) -> None:
    band = constant(points, kind)
    assert len(np.unique(np.asarray(band.width))) > 1  # by rounding
    ax = gb.plot.width(band)
    colors = ax.collections[0]
    drawn = np.unique(np.asarray(colors.get_array()))
    assert drawn.size == 1 and abs(drawn[0] - 0.1316) < 1e-5
    low, high = colors.get_clim()
    assert low < 0.94 * high and low < drawn[0] < high
    bar = colors.colorbar
    assert bar is not None and bar.ax.get_ylabel() == "width of the 0.9 band: 0.1316 everywhere"
    ax.figure.canvas.draw()
    assert [text.get_text() for text in bar.ax.get_yticklabels()] == ["0.1316"]
    assert bar.ax.yaxis.get_offset_text().get_text() == ""


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_constant_width_over_a_line_is_a_level_line_in_the_picture(kind: str) -> None:
    ax = gb.plot.width(constant(X[:, None], kind))
    drawn = np.unique(np.asarray(ax.get_lines()[0].get_ydata()))
    assert drawn.size == 1 and ax.get_ylabel() == "width of the 0.9 band: 0.1316 everywhere"
    assert ax.get_ylim()[0] == 0 and 1.2 * drawn[0] < ax.get_ylim()[1] < 2 * drawn[0]
    ax = gb.plot.width(gb.Band([0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0], 0.9))
    assert ax.get_ylabel().endswith(": 0 everywhere") and ax.get_ylim() == (0, 1)


def test_a_width_that_varies_is_drawn_as_it_is() -> None:
    half = 0.0658 * (1 + 1e-3 * GRID[:, :1])
    mean = np.sin(7 * GRID[:, :1])
    ax = gb.plot.width(gb.Band(GRID, mean, mean - half, mean + half, 0.9))
    colors = ax.collections[0]
    assert colors.get_clim() == (np.asarray(colors.get_array()).min(), np.asarray(colors.get_array()).max())
    assert colors.colorbar is not None and colors.colorbar.ax.get_ylabel() == "width of the 0.9 band"
    line = gb.plot.width(gb.Band(GRID[:, :1], mean, mean - half, mean + half, 0.9))
    assert np.ptp(np.asarray(line.get_lines()[0].get_ydata())) > 0 and "everywhere" not in line.get_ylabel()


def test_a_constant_field_with_holes_or_given_limits_says_so() -> None:
    values = np.where(GRID[:, 0] > 0.5, np.inf, 2.0)
    bar = gb.plot.heatmap(GRID, values, label="u").collections[0].colorbar
    assert bar is not None and bar.ax.get_ylabel() == "u: 2 where it is finite"
    colors = gb.plot.heatmap(GRID, 2 + 1e-9 * GRID[:, 0], limits=(0, 4)).collections[0]
    assert colors.get_clim() == (0, 4) and len(np.unique(np.asarray(colors.get_array()))) == 1
    assert colors.colorbar is not None and colors.colorbar.ax.get_ylabel() == "2 everywhere"
    assert len(colors.colorbar.get_ticks()) > 2


def test_the_coverage_curve_shades_what_a_valid_band_may_show() -> None:
    model = gb.predictors.Given(np.sin, lambda x: 1 + x)
    y = np.sin(X) + np.random.default_rng(1).normal(size=30)
    ax = gb.plot.coverage_curve(gb.evaluate(gb.calibrate(model, X, y), X + 1, y, regions={"a": X > 0.5}))
    labels = [text.get_text() for text in ax.get_legend().get_texts()]  # type: ignore[union-attr]
    assert labels == ["valid (99 %)", "this band", "constant width", "before calibration"]
    clustered = gb.calibrate(model, X, y, calibrator=gb.Clustered(), groups=np.arange(30))
    gb.plot.coverage_curve(gb.evaluate(clustered, X + 1, y))
    alone = gb.calibrate(np.sin, X, y)
    ax = gb.plot.coverage_curve(gb.evaluate(alone, X + 1, y))
    assert ax.get_legend_handles_labels()[1] == ["valid (99 %)", "this band"]


def test_outputs_that_are_covered_each_by_itself_have_curves_of_their_own() -> None:
    def two(x: np.ndarray) -> gb.Prediction:
        return gb.Prediction(x, np.c_[x, x], 1 + np.c_[x, x])

    y = np.random.default_rng(1).normal(size=(30, 2))
    made = gb.calibrate(two, X, y, score=gb.Scaled(joint=False))
    ax = gb.plot.coverage_curve(gb.evaluate(made, X + 1, y))
    lines = {
        str(line.get_label()): line for line in ax.get_lines() if not str(line.get_label()).startswith("_")
    }
    kinds = ("this band", "constant width", "before calibration")
    assert list(lines) == [f"{kind}, y{j}" for kind in kinds for j in (0, 1)]
    for kind in kinds:
        first, second = (lines[f"{kind}, y{j}"] for j in (0, 1))
        assert first.get_color() == second.get_color() and first.get_linestyle() != second.get_linestyle()


def test_plots_say_which_shape_they_want() -> None:
    with pytest.raises(ValueError, match="for 1-dimensional x, got shape"):
        gb.plot.band(gb.Band(GRID, np.zeros(35), np.zeros(35), np.zeros(35), 0.9))
    with pytest.raises(ValueError, match="came from arrays without points"):
        gb.plot.band(gb.Band(None, [0.0], [0.0], [0.0], 0.9))
    with pytest.raises(ValueError, match=r"should be \(30, 2\) for a field, got \(30, 1\)"):
        gb.plot.heatmap(X, X)


def test_a_hole_stays_blank_and_names_are_drawn() -> None:
    plate = gb.Rectangle((0, 0), (2, 1)) - gb.Disk((1, 0.5), 0.3, name="hole")
    x = plate.interior(500, "quasi")
    colored = drawn_at(gb.plot.heatmap(x, x[:, 0], domain=plate))
    for radius, seen in ((0.0, False), (0.29, False), (0.31, True), (0.4, True)):
        angle = np.linspace(0, 6, 20)
        around = [colored(1 + radius * np.cos(a), 0.5 + radius * np.sin(a)) for a in angle]
        assert [value is not None for value in around] == [seen] * 20
    names = gb.problems.Names(("cost in $", "y"), ("u", "p"), (0, 1))
    wide = gb.Band(x, x, x - 1, x + 1, 0.9, names)
    assert gb.plot.width(wide, output="p").get_xlabel() == r"cost in \$"
    line = gb.Band(np.arange(9.0), np.ones((9, 2)), np.zeros((9, 2)), np.ones((9, 2)), 0.9)
    named = gb.Band(line.x, line.mean, line.lower, line.upper, 0.9, gb.problems.Names(("t",), ("u", "p"), ()))
    ax = gb.plot.band(named, output="p")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("t", "p") and gb.plot.width(named).get_xlabel() == "t"
    with pytest.raises(ValueError, match="does not know its outputs by name; give 'p' as a number"):
        gb.plot.band(line, output="p")
    with pytest.raises(ValueError, match="There is no output 'q'"):
        gb.plot.band(named, output="q")


def test_more_than_two_axes_are_drawn_as_a_slice() -> None:
    x = np.random.default_rng(0).uniform(size=(30, 3))
    band = gb.Band(x, np.zeros(30), np.zeros(30), np.ones(30), 0.9)
    cure = r"got (shape )?\(30, 3\). Draw a slice: .* gb\.plot\.heatmap\(x\[:, :2\], values\)"
    for draw in (lambda: gb.plot.heatmap(x, X), lambda: gb.plot.width(band)):
        with pytest.raises(ValueError, match=cure) as caught:
            draw()
        assert "plot.width" not in str(caught.value)


def test_the_domain_of_a_heatmap_is_a_shape() -> None:
    problem = gb.problems.AllenCahn2D()
    for given, message in ((problem, r"got AllenCahn2D.* Give problem\.domain"), ((0, 1), "got \\(0, 1\\)")):
        with pytest.raises(TypeError, match=f"`domain` should be a shape, {message}"):
            gb.plot.heatmap(GRID, GRID[:, 0], domain=given)  # type: ignore[arg-type]
