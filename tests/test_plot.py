import itertools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

import guardband as gb
from wings import pinn, torch

X = np.random.default_rng(0).uniform(size=30)
LINE = gb.Band(X, np.sin(X), np.sin(X) - 1, np.sin(X) + 1, 0.9)
AXIS = np.linspace(0, 1, 7)
GRID = np.stack(np.meshgrid(AXIS, AXIS[:5], indexing="ij"), -1).reshape(-1, 2)


@pytest.fixture(autouse=True)
def _closed() -> object:
    yield
    plt.close("all")


def drawn_at(ax: Any) -> Callable[[float, float], float | None]:
    """Return the value drawn at a place of a raster plot."""
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


@pytest.mark.filterwarnings("error")
def test_a_busy_machine_is_not_blamed_on_the_legend(monkeypatch: pytest.MonkeyPatch) -> None:
    later = itertools.count(0, 10)
    monkeypatch.setattr("matplotlib.legend.time.perf_counter", lambda: next(later))
    gb.plot.band(LINE).figure.canvas.draw()
    assert next(later) > 10  # the time of the search was measured


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
    """Return a band of constant width around a much larger mean, rounded to the dtype `kind`."""
    at = torch.tensor(x, dtype=torch.float32) if kind == "float32" else x
    wave = mean * np.sin(7 * x[:, :1])
    y = torch.tensor(wave, dtype=torch.float32) if kind == "float32" else wave
    ends = (at, y, y - half, y + half)
    return gb.Band(*ends, level=0.9)


def test_the_band_before_calibration_is_dashed() -> None:
    x = np.linspace(1, 0, 30)
    calibrated = gb.calibrate(gb.predictors.Given(np.sin, lambda x: 0.01 + 0 * x), X, np.sin(X) + 0.1)
    raw = gb.conformal.raw_band(calibrated.predict(x), 0.9)
    ax = gb.plot.band(calibrated(x, 0.9), raw=raw)
    assert "before calibration" in ax.get_legend_handles_labels()[1]
    dashed = [line for line in ax.get_lines() if line.get_linestyle() == "--"]
    assert [np.asarray(line.get_ydata()).tolist() for line in dashed] == [
        raw.lower[::-1, 0].tolist(),
        raw.upper[::-1, 0].tolist(),
    ]
    with pytest.raises(ValueError, match="`raw` should be a band at the points of `band`"):
        gb.plot.band(calibrated(x + 1, 0.9), raw=raw)


@pytest.mark.slow("points0-float64")
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
    with pytest.raises(ValueError, match="was made from arrays, without points"):
        gb.plot.band(gb.Band(None, [0.0], [0.0], [0.0], 0.9))
    with pytest.raises(ValueError, match=r"should be \(30, 2\) for a field, got \(30, 1\)"):
        gb.plot.heatmap(X, X)


def test_a_hole_stays_blank_and_names_are_drawn() -> None:
    plate = pinn.Rectangle((0, 0), (2, 1)) - pinn.Disk((1, 0.5), 0.3, name="hole")
    x = plate.interior(500, "quasi")
    colored = drawn_at(gb.plot.heatmap(x, x[:, 0], domain=plate))
    for radius, seen in ((0.0, False), (0.29, False), (0.31, True), (0.4, True)):
        angle = np.linspace(0, 6, 20)
        around = [colored(1 + radius * np.cos(a), 0.5 + radius * np.sin(a)) for a in angle]
        assert [value is not None for value in around] == [seen] * 20
    names = gb.values.Names(("cost in $", "y"), ("u", "p"), (0, 1))
    wide = gb.Band(x, x, x - 1, x + 1, 0.9, names)
    assert gb.plot.width(wide, output="p").get_xlabel() == r"cost in \$"
    line = gb.Band(np.arange(9.0), np.ones((9, 2)), np.zeros((9, 2)), np.ones((9, 2)), 0.9)
    named = gb.Band(line.x, line.mean, line.lower, line.upper, 0.9, gb.values.Names(("t",), ("u", "p"), ()))
    ax = gb.plot.band(named, output="p")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("t", "p") and gb.plot.width(named).get_xlabel() == "t"
    with pytest.raises(ValueError, match="outputs of this band have no names; pass a number instead of 'p'"):
        gb.plot.band(line, output="p")
    with pytest.raises(ValueError, match="Unknown output 'q'"):
        gb.plot.band(named, output="q")


def test_more_than_two_axes_are_drawn_as_a_slice() -> None:
    x = np.random.default_rng(0).uniform(size=(30, 3))
    band = gb.Band(x, np.zeros(30), np.zeros(30), np.ones(30), 0.9)
    cure = r"got (shape )?\(30, 3\). Plot a slice: .* gb\.plot\.heatmap\(x\[:, :2\], values\)"
    for draw in (lambda: gb.plot.heatmap(x, X), lambda: gb.plot.width(band)):
        with pytest.raises(ValueError, match=cure) as caught:
            draw()
        assert "plot.width" not in str(caught.value)


def test_the_domain_of_a_heatmap_is_a_shape() -> None:
    problem = pinn.problems.AllenCahn2D()
    for given, message in ((problem, r"got AllenCahn2D.* Pass problem\.domain"), ((0, 1), "got \\(0, 1\\)")):
        with pytest.raises(TypeError, match=f"`domain` should be a shape, {message}"):
            gb.plot.heatmap(GRID, GRID[:, 0], domain=given)  # type: ignore[arg-type]


PLATE = (
    pinn.Rectangle((0, 0), (2, 1))
    - pinn.Disk((0.5, 0.5), 0.2, name="hole")
    - pinn.Disk((1.5, 0.5), 0.1, name="eye")
)
SPACE = gb.values.Names(("x", "y"), ("u",), (0, 1))
XT = np.array([(x, t) for x in np.linspace(0, 1, 11) for t in np.linspace(0, 2, 21)])
TIME = gb.values.Names(("x", "t"), ("u",), (0,))


def around(x: np.ndarray, mean: Any, half: Any, names: Any = None, level: float = 0.9) -> gb.Band:
    return gb.Band(x, mean, mean - half, mean + half, level, names)


def labels(ax: Any) -> tuple[str, str]:
    return ax.get_xlabel(), ax.get_ylabel()


@pytest.mark.parametrize("names", [TIME, ("x", "t"), None], ids=["names", "words", "domain"])
def test_time_goes_across_and_space_upwards(names: Any) -> None:
    domain = None if names else pinn.Segment(0, 1) * pinn.Time(0, 2)
    ax = gb.plot.heatmap(XT, XT[:, 1], names=names, domain=domain)
    assert labels(ax) == ("t", "x") and ax.get_aspect() == "auto"
    assert drawn_at(ax)(1.5, 0.3) == pytest.approx(1.5, abs=0.01)
    turned = gb.plot.heatmap(XT[:, ::-1], XT[:, 1], names=("time", "x"))
    assert labels(turned) == ("time", "x") and drawn_at(turned)(1.5, 0.3) == pytest.approx(1.5, abs=0.01)


def test_two_axes_of_space_are_drawn_to_scale_and_long_channels_stay_readable() -> None:
    assert gb.plot.heatmap(GRID, GRID[:, 0], names=("x", "y")).get_aspect() == 1
    assert gb.plot.heatmap(GRID, GRID[:, 0], names=("x", "y"), aspect="auto").get_aspect() == "auto"
    assert gb.plot.heatmap(XT, XT[:, 0], names=TIME, aspect="equal").get_aspect() == 1
    long = gb.plot.heatmap(GRID * [80, 1.5], GRID[:, 0], names=("x", "y"))
    assert long.get_aspect() == 10 and labels(long) == ("x", "y (stretched)")
    high = gb.plot.heatmap(GRID * [1, 120], GRID[:, 0], names=("x", "y"))
    assert high.get_aspect() == pytest.approx(0.1) and labels(high) == ("x (stretched)", "y")
    assert gb.plot.heatmap(GRID * [1, 1e6], GRID[:, 0]).get_aspect() == "auto"


@pytest.mark.slow
def test_the_boundary_is_drawn_part_by_part_where_it_is() -> None:
    ax = gb.plot.heatmap(PLATE.grid(20), PLATE.grid(20)[:, 0], domain=PLATE)
    lines = {str(c.get_gid()): np.concatenate(c.get_segments()) for c in ax.collections[1:]}  # type: ignore[attr-defined]
    assert {*lines} == {*PLATE.parts} and labels(ax) == ("x", "y")
    for part, center, radius in (("hole", 0.5, 0.2), ("eye", 1.5, 0.1)):
        assert np.hypot(lines[part][:, 0] - center, lines[part][:, 1] - 0.5) == pytest.approx(radius)
        assert len(lines[part]) > 100
    assert (lines["left"][:, 0] == 0).all() and np.ptp(lines["left"][:, 1]) == pytest.approx(1)


def test_what_is_hidden_of_a_boundary_is_not_drawn() -> None:
    both = pinn.Disk((0, 0), 1.0, name="first") | pinn.Disk((1, 0), 1.0, name="second")
    ax = gb.plot.heatmap(both.quasi(200), both.quasi(200)[:, 0], domain=both)
    first, second = (np.concatenate(c.get_segments()) for c in ax.collections[1:])  # type: ignore[attr-defined]
    assert first[:, 0].max() == pytest.approx(0.5, abs=0.01) and first[:, 0].min() == pytest.approx(-1)
    assert second[:, 0].min() == pytest.approx(0.5, abs=0.01)


def test_colors_do_not_cross_a_wall() -> None:
    rooms = pinn.Rectangle((0, 0), (1, 1)) - pinn.Rectangle((0.45, -1), (0.55, 0.8), name="wall")
    x = rooms.quasi(400).double().numpy()
    colored = drawn_at(gb.plot.heatmap(x, (x[:, 0] > 0.5).astype(float), domain=rooms))
    assert {colored(0.44, y) for y in (0.1, 0.3, 0.5)} == {0.0}
    assert {colored(0.56, y) for y in (0.1, 0.3, 0.5)} == {1.0}
    assert colored(0.5, 0.5) is None and colored(0.5, 0.9) is not None


def test_a_polygon_is_filled_to_its_corners_and_not_beyond_its_points() -> None:
    shape = pinn.Polygon([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)])
    x = shape.quasi(400).double().numpy()
    colored = drawn_at(gb.plot.heatmap(x, x[:, 0], domain=shape))
    assert colored(1.98, 0.02) == pytest.approx(2, abs=0.1) and colored(0.02, 1.98) == pytest.approx(
        0, abs=0.1
    )
    assert colored(1.2, 1.2) is None and colored(0.9, 1.1) == pytest.approx(0.9, abs=0.05)
    known = x[x[:, 0] < 1]
    half = drawn_at(gb.plot.heatmap(known, known[:, 0], domain=shape))
    assert half(0.5, 0.5) is not None and half(1.9, 0.5) is None


def test_a_shape_over_time_is_drawn_at_one_time_and_a_solid_is_refused() -> None:
    x = PLATE.grid(20)
    ax = gb.plot.heatmap(x, x[:, 0], domain=PLATE * pinn.Time(0, 1), names=SPACE)
    assert {str(c.get_gid()) for c in ax.collections[1:]} == {*PLATE.parts}
    for solid in (pinn.Box((0, 0, 0), (1, 1, 1)), pinn.Segment(0, 1)):
        with pytest.raises(
            ValueError, match="should be a shape over the two axes of the plot, got one over x"
        ):
            gb.plot.heatmap(x, x[:, 0], domain=solid)
    with pytest.raises(ValueError, match=r"`names` should be problem\.names, or two words"):
        gb.plot.heatmap(x, x[:, 0], names="xy")


def test_a_cloud_of_points_is_drawn_with_the_points_of_its_rim() -> None:
    angle = np.linspace(0, 6, 40)
    rim = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    cloud = pinn.PointCloud(0.5 * rim, {"rim": (rim, rim)})
    ax = gb.plot.heatmap(cloud.inside, cloud.inside[:, 0], domain=cloud)
    (dots,) = ax.get_lines()
    assert np.allclose(np.hypot(*np.asarray(dots.get_data())), 1) and dots.get_gid() == "rim"


class Disk:
    """A shape without torch."""

    lower, upper, names, space = (-1.0, -1.0), (1.0, 1.0), ("x", "y"), (0, 1)

    def in_plane(self, axes: Any) -> "Disk":
        return self

    def clearly_outside(self, x: np.ndarray) -> np.ndarray:
        return np.hypot(*x.T) > 1.001

    def outline(self, n: int) -> dict[str, list[np.ndarray]]:
        angle = np.linspace(0, 2 * np.pi, n)
        return {"rim": [np.stack([np.cos(angle), np.sin(angle)], axis=1)]}


def test_any_object_with_the_interface_is_a_shape() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    x = x[np.hypot(*x.T) < 1]
    ax = gb.plot.heatmap(x, x[:, 0], domain=Disk())
    assert [c.get_gid() for c in ax.collections[1:]] == ["rim"] and labels(ax) == ("x", "y")
    assert drawn_at(ax)(0.9, 0.9) is None and drawn_at(ax)(0.9, 0.1) == pytest.approx(0.9, abs=0.05)


def test_a_shape_of_pinn_answers_in_numpy_and_has_an_outline_over_two_axes_only() -> None:
    outside = PLATE.clearly_outside(np.array([[0.1, 0.1], [0.5, 0.5]]))
    assert isinstance(outside, np.ndarray) and outside.tolist() == [False, True]
    assert {*PLATE.outline(100)} == {*PLATE.parts}
    with pytest.raises(ValueError, match="with two axes, got 1"):
        pinn.Segment(0, 1).outline(10)


@pytest.mark.parametrize("domain", [None, pinn.Rectangle((0, 0), (1, 0.6667))])
def test_infinite_values_are_blank_hatched_and_said(domain: Any) -> None:
    values = np.where(GRID[:, 0] > 0.6, np.inf, GRID[:, 1])
    ax = gb.plot.heatmap(GRID, values, label="u", domain=domain)
    bar = ax.collections[0].colorbar
    assert bar is not None and bar.ax.get_ylabel() == "u: infinite where hatched"
    assert drawn_at(ax)(0.9, 0.3) is None and drawn_at(ax)(0.2, 0.3) is not None
    hatched = [c for c in ax.collections if getattr(c, "hatches", None)]
    assert len(hatched) == 1
    (box,) = [path.get_extents() for path in hatched[0].get_paths() if np.size(path.vertices)]
    assert box.x0 == pytest.approx(0.583, abs=0.02) and box.y0 < 0.1 and box.y1 > 0.6
    unknown = np.where(GRID[:, 0] > 0.6, np.nan, GRID[:, 1])
    plain = gb.plot.heatmap(GRID, unknown, domain=domain)
    assert drawn_at(plain)(0.9, 0.3) is None and not [c for c in plain.collections if hasattr(c, "hatches")]


def test_an_infinite_field_is_a_sentence() -> None:
    ax = gb.plot.width(around(GRID, GRID[:, 0], np.inf))
    assert [text.get_text() for text in ax.texts] == ["width of the 0.9 band: infinite everywhere"]
    assert ax.collections[0].colorbar is None


def test_triangles_at_an_infinite_value_are_hatched() -> None:
    x = np.random.default_rng(0).uniform(size=(60, 2))
    values = x[:, 0].copy()
    values[7] = np.inf
    ax = gb.plot.heatmap(x, values)
    hatched = ax.collections[1]
    assert hatched.get_hatch() and all((x[7] == path.vertices).all(1).any() for path in hatched.get_paths())
    missing = gb.plot.heatmap(x, np.where(np.isinf(values), np.nan, values))
    assert len(missing.collections) == 1


@pytest.mark.slow("domain1-1", "domain1-2", "domain1-3")
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("domain", [None, pinn.Rectangle((0, 0), (1, 1))])
def test_a_few_points_are_dots(n: int, domain: Any) -> None:
    x = np.random.default_rng(0).uniform(size=(n, 2))
    ax = gb.plot.heatmap(x, x[:, 0], domain=domain)
    ax.figure.canvas.draw()
    drawn = [c for c in ax.collections if np.array_equal(np.asarray(c.get_offsets()), x)]
    assert len(drawn) == 1
    line = gb.plot.band(around(x[:, 0], x[:, 0], 1.0))
    line.figure.canvas.draw()
    assert gb.plot.overview(around(x[:, 0], x[:, 0], 1.0)).axes


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-9, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_units_and_digits_do_not_matter(unit: float, dtype: torch.dtype) -> None:
    plate = pinn.Rectangle((0, 0), (2 * unit, unit))
    x = plate.grid((20, 10), dtype=dtype)
    band = around(x, x[:, :1], 0.1 * x[:, 1:], SPACE)  # type: ignore[arg-type]
    data = gb.Observations(x[::7], x[::7, :1] + unit)
    figure = gb.plot.overview(band, truth=1.1 * x[:, :1], data=data, domain=plate)
    figure.canvas.draw()
    assert figure.get_suptitle() == "90 % band\nmisses: 29 of 29 (100 %), 10 % expected"
    colored = drawn_at(figure.axes[0])
    assert colored(1.2 * unit, 0.4 * unit) == pytest.approx(1.2 * unit, rel=0.01)


def test_differences_are_drawn_around_zero() -> None:
    colors = gb.plot.heatmap(GRID, GRID[:, 0] - 0.2, signed=True).collections[0]
    assert colors.get_clim() == pytest.approx((-0.8, 0.8)) and colors.get_cmap().name == "RdBu_r"


@pytest.mark.slow
def test_several_fields_have_a_panel_and_a_colorbar_each() -> None:
    x = PLATE.grid(20)
    values = torch.cat([x, x.sum(1, keepdim=True)], dim=1)
    flow = gb.values.Names(("x", "y"), ("u", "v", "cost in $"), (0, 1))
    figure = gb.plot.fields(x, values, names=flow, domain=PLATE)
    panels = [ax for ax in figure.axes if ax.get_title()]
    assert [ax.get_title() for ax in panels] == ["u", "v", r"cost in \$"] and len(figure.axes) == 6
    assert [ax.collections[0].get_clim()[1] for ax in panels] == pytest.approx([2, 1, 3], abs=0.1)
    assert len({ax.get_position().y0 for ax in panels}) == 1, "side by side"
    long = gb.plot.fields(GRID * [5, 1], np.c_[GRID, GRID[:, 0]], names=("x", "y"))
    assert len({ax.get_position().x0 for ax in long.axes[:3]}) == 1, "one above the other"
    assert [ax.get_title() for ax in long.axes[:3]] == ["u0", "u1", "u2"]
    named = gb.plot.fields(GRID, GRID, titles=("a", "b"))
    assert [ax.get_title() for ax in named.axes[:2]] == ["a", "b"]
    with pytest.raises(ValueError, match="`titles` should name the 2 columns of the values, got 1"):
        gb.plot.fields(GRID, GRID, titles=("a",))


def rod(half: Any = 0.1, level: float = 0.9) -> gb.Band:
    return around(XT, XT[:, 0] * XT[:, 1], half, TIME, level)


def test_slices_are_cut_at_the_nearest_times() -> None:
    data = gb.Observations([[0.5, 0.51], [0.2, 0.54], [0.4, 0.56]], [1.0, 2.0, 3.0])
    figure = gb.plot.slices(rod(), at=(0.52, 1.98), truth=XT[:, 0] * XT[:, 1] + 1, data=data)
    first, second = figure.axes
    assert [ax.get_title() for ax in figure.axes] == ["t = 0.5", "t = 2"]
    assert (first.get_xlabel(), first.get_ylabel()) == ("x", "u")
    lines = {str(line.get_label()): np.asarray(line.get_data()) for line in first.get_lines()}
    space = np.linspace(0, 1, 11)
    assert np.allclose(lines["prediction"], [space, 0.5 * space], atol=1e-6)
    assert np.allclose(lines["truth"][1], 0.5 * space + 1, atol=1e-6)
    assert np.allclose(lines["data"], [[0.5, 0.2], [1.0, 2.0]]), "within half a step"
    assert np.allclose(np.asarray(second.get_lines()[-1].get_ydata()), 2 * space, atol=1e-6)
    assert [ax.get_title() for ax in gb.plot.slices(rod()).axes] == ["t = 0.5", "t = 1", "t = 1.5"]
    plain = gb.plot.slices(around(GRID, GRID[:, 0], 0.1), at=[0.5])
    assert plain.axes[0].get_title() == "x1 = 0.5" and plain.axes[0].get_xlabel() == "x0"


def test_slices_say_what_they_need() -> None:
    scattered = np.random.default_rng(0).uniform(size=(30, 2))
    for x in (scattered, X[:, None]):
        with pytest.raises(ValueError, match=r"full grid of two axes, got x .*Compute the band on a grid"):
            gb.plot.slices(around(x, x[:, :1], 0.1))
    with pytest.raises(ValueError, match=r"`at` should be times of the band, 0 to 2, got 0\.5, 2\.5"):
        gb.plot.slices(rod(), at=(0.5, 2.5))


def marks(ax: Any, label: str) -> np.ndarray:
    """Return the positions of the marks with a label, (n, 2)."""
    return np.concatenate(
        [np.asarray(line.get_data()).T for line in ax.get_lines() if line.get_label() == label]
    )


def test_an_overview_over_one_axis_shows_what_was_missed() -> None:
    x = np.linspace(0, 1, 50)
    half = 0.1 + 0.1 * x
    y = np.array([0.05, 0.5, 0.95, 9.0])
    at = np.array([0.1, 0.5, 0.9, 2.0])
    band = around(x, x, half, gb.values.Names(("t",), ("u",), ()))
    figure = gb.plot.overview(band, truth=x + 0.05, data=gb.Observations(at, y + np.eye(4)[1]))
    above, below = figure.axes
    assert figure.get_suptitle() == "90 % band\nmisses: 1 of 3 (33 %), 10 % expected", "one is out of sight"
    assert marks(above, "missed").tolist() == [[0.5, 1.5]] and len(marks(above, "data")) == 4
    assert (above.get_ylabel(), below.get_ylabel(), below.get_xlabel()) == ("u", "u - prediction", "t")
    assert np.allclose(marks(below, "truth")[:, 1], 0.05) and np.allclose(marks(below, "prediction")[:, 1], 0)
    assert np.allclose(marks(below, "data")[:3, 1], [-0.05, 1.0, 0.05])


@pytest.mark.slow
def test_a_width_that_is_the_same_everywhere_is_a_sentence() -> None:
    line = gb.plot.overview(around(X, X, 0.06))
    assert line.get_suptitle() == "90 % band, width 0.12 everywhere" and len(line.axes) == 1
    plane = gb.plot.overview(around(GRID, GRID[:, 0], 0.06))
    assert plane.get_suptitle() == "90 % band, half-width 0.06 everywhere"
    assert [ax.get_title() for ax in plane.axes] == ["y, predicted", ""], "a panel and its colorbar"
    endless = gb.plot.overview(around(GRID, GRID[:, 0], np.inf))
    assert endless.get_suptitle() == "90 % band, half-width infinite everywhere"
    varied = gb.plot.overview(around(X, X, 0.1 + X))
    assert varied.get_suptitle() == "90 % band" and len(varied.axes) == 2
    partly = gb.plot.overview(
        around(X, X, np.where(X > 0.5, np.inf, 0.2)), data=gb.Observations([0.9], [99.0])
    )
    assert partly.get_suptitle() == (
        "90 % band, width 0.4 where it is finite\nmisses: 0 of 1 (0 %), 10 % expected"
    )


@pytest.mark.slow
def test_a_reading_at_a_point_of_the_band_is_held_against_that_very_point() -> None:
    """Interpolation rounds, and a target whose score equals the threshold lies exactly on the end."""
    generator = np.random.default_rng(0)
    for x in (generator.uniform(size=(40, 1)), generator.uniform(size=(40, 2))):
        mean = generator.normal(size=40)
        band = gb.Band(x, mean, mean - abs(mean) / 3, mean + abs(mean) / 7, 0.9)
        on = gb.Observations(x, band.upper)
        assert "misses: 0 of 40" in gb.plot.overview(band, data=on).get_suptitle()
        off = gb.Observations(x, np.nextafter(band.upper, np.inf))
        assert "misses: 40 of 40" in gb.plot.overview(band, data=off).get_suptitle()


@pytest.mark.slow
def test_an_overview_over_space_and_time() -> None:
    data = gb.Observations([[0.25, 0.5], [0.5, 1.0], [0.5, 1.55]], [0.125, 0.9, 0.775])
    figure = gb.plot.overview(
        rod(0.1 + XT[:, 1] / 10), truth=XT[:, 0] * XT[:, 1] + 0.05 * XT[:, 0], data=data
    )
    panels = [ax for ax in figure.axes if ax.get_title()]
    assert [ax.get_title() for ax in panels] == ["u, predicted", "u, half-width", "u, |error|"]
    assert figure.get_suptitle() == "90 % band\nmisses: 1 of 3 (33 %), 10 % expected"
    assert labels(panels[0]) == ("t", "x") and labels(panels[1]) == ("t", "")
    assert marks(panels[2], "missed").tolist() == [[1.0, 0.5]], "time across"
    assert len(marks(panels[0], "data")) == 3
    assert drawn_at(panels[1])(1.5, 0.5) == pytest.approx(0.25) and drawn_at(panels[2])(
        1, 0.8
    ) == pytest.approx(0.04)


def test_a_small_overview_has_a_line_for_each_output() -> None:
    names = gb.values.Names(("x", "y"), ("u", "v"), (0, 1))
    half = np.c_[0.1 + GRID[:, 0], np.full(len(GRID), 0.1)]
    at = GRID[[3, 20]]
    data = gb.Observations(at, at + np.array([0, 9]))
    figure = gb.plot.overview(around(GRID, GRID, half, names), data=data)
    assert [ax.get_title() for ax in figure.axes if ax.get_title()] == [
        "u, predicted",
        "u, half-width",
        "u, |reading - prediction|\nmisses: 0 of 2 (0 %),\nat most 10 % expected",
        "v, predicted",
        "v, |reading - prediction|\nmisses: 2 of 2 (100 %),\nat most 10 % expected",
    ]
    assert [text.get_text() for ax in figure.axes for text in ax.texts] == ["half-width 0.1\neverywhere"]


def test_a_small_overview_over_space_and_time_shows_the_error_and_what_was_missed() -> None:
    x = np.stack(np.meshgrid([0.0, 0.5, 1.0], [0.0, 1.0, 2.0], indexing="ij"), axis=-1).reshape(-1, 2)
    band = around(x, x[:, 0], 0.1 + x[:, 1] / 10, TIME)
    data = gb.Observations([[0.5, 1.0], [0.5, 2.0]], [0.9, 0.6])
    figure = gb.plot.overview(band, truth=x[:, 0] + 0.05, data=data)
    panels = [ax for ax in figure.axes if ax.get_title()]
    assert [ax.get_title() for ax in panels] == ["u, predicted", "u, half-width", "u, |error|"]
    assert figure.get_suptitle() == "90 % band\nmisses: 1 of 2 (50 %), 10 % expected"
    assert labels(panels[0]) == ("t", "x") and marks(panels[2], "missed").tolist() == [[1.0, 0.5]]


@pytest.mark.slow
def test_an_overview_has_a_line_for_each_output_and_counts_what_was_measured() -> None:
    x = PLATE.grid(20).double().numpy()
    names = gb.values.Names(("x", "y"), ("u", "v", "p"), (0, 1))
    mean = np.c_[x, x[:, :1]]
    half = np.c_[0.1 + x[:, 0], np.full(len(x), 0.1), 0.1 + x[:, 1]]
    at = np.array([[0.1, 0.1], [1.0, 0.5], [1.9, 0.9]])
    velocity = gb.Observations(at, at + 9 * np.eye(3, 2)[[2, 1, 2]], outputs=("u", "v"))
    figure = gb.plot.overview(around(x, mean, half, names), data=velocity, domain=PLATE)
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert titles == [
        "u, predicted",
        "u, half-width",
        "u, |reading - prediction|\nmisses: 0 of 3 (0 %),\nat most 10 % expected",
        "v, predicted",
        "v, |reading - prediction|\nmisses: 1 of 3 (33 %),\nat most 10 % expected",
        "p, predicted",
        "p, half-width",
    ]
    said = [text.get_text() for ax in figure.axes for text in ax.texts]
    assert said == ["half-width 0.1\neverywhere", "p was not measured"]
    level = gb.plot.heatmap(GRID, np.full(35, 3.0), label="v", colorbar="bottom")
    ticks = level.collections[0].colorbar.ax  # type: ignore[union-attr]
    assert [text.get_text() for text in ticks.get_xticklabels()] == [
        "v: 3 everywhere"
    ] and not ticks.get_xlabel()
    alone = gb.plot.overview(around(x, mean, half, names), data=velocity, domain=PLATE, output="p")
    assert [ax.get_title() for ax in alone.axes if ax.get_title()] == ["p, predicted", "p, half-width"]
    together = gb.Observations.together(
        [velocity, gb.Observations(at[:1], [7.0], outputs="p")], names.outputs
    )
    counted = gb.plot.overview(around(x, mean, half, names), data=together, output="p")
    assert counted.get_suptitle() == "90 % band\nmisses: 1 of 1 (100 %), at most 10 % expected"


@pytest.mark.slow
def test_a_long_channel_has_its_panels_one_above_the_other() -> None:
    x = GRID * [5, 1.5]
    names = gb.values.Names(("x", "y"), ("u", "p"), (0, 1))
    half = np.c_[np.full(35, 0.1), 0.1 + x[:, 0]]
    figure = gb.plot.overview(around(x, x, half, names), truth=x)
    panels = [ax for ax in figure.axes if ax.get_title()]
    assert [ax.get_title() for ax in panels] == [
        "u, predicted, half-width 0.1 everywhere",
        "u, |error|",
        "p, predicted",
        "p, half-width",
        "p, |error|",
    ]
    assert len({ax.get_position().x0 for ax in panels}) == 1
    assert [labels(ax)[0] for ax in panels] == ["", "", "", "", "x"]


@pytest.mark.slow
@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("wider", [0.0, 0.05])
def test_the_title_of_an_overview_stands_above_those_of_its_panels(wider: float, truth: bool) -> None:
    square = pinn.Rectangle((0, 0), (1, 1))
    x = square.grid(12).numpy()
    u, half = x[:, :1] * x[:, 1:], 0.1 + wider * x[:, :1]
    band = gb.Band(x, u, u - half, u + half, 0.95)
    data = gb.Observations(x[::9], u[::9])
    whole = gb.plot.overview(band, truth=u + 0.01 * x[:, :1] if truth else None, data=data, domain=square)
    whole.draw_without_rendering()
    above = whole.texts[0].get_window_extent().y0
    assert all(ax.title.get_window_extent().y1 <= above for ax in whole.axes if ax.get_title())


@pytest.mark.slow
def test_an_overview_over_one_axis_of_several_outputs() -> None:
    names = gb.values.Names(("t",), ("u", "v"), ())
    x = np.linspace(0, 1, 20)
    band = around(x, np.c_[x, 1 - x], np.c_[0.1 + x, 0.2 + 0 * x], names)
    figure = gb.plot.overview(band, data=gb.Observations([0.5], [[5.0]], outputs=("v",)))
    assert [ax.get_title() for ax in figure.axes] == [
        "",
        "",
        "misses: 1 of 1 (100 %), at most 10 % expected; width 0.4 everywhere",
        "",
    ]
    assert [ax.get_ylabel() for ax in figure.axes] == ["u", "u - prediction", "v", "v - prediction"]


def test_a_small_overview_over_one_axis_of_several_outputs() -> None:
    names = gb.values.Names(("t",), ("u", "v"), ())
    x = np.linspace(0, 1, 6)
    band = around(x, np.c_[x, 1 - x], np.c_[0.1 + x, 0.2 + 0 * x], names)
    figure = gb.plot.overview(band, data=gb.Observations([0.5], [[5.0]], outputs=("v",)))
    assert [ax.get_title() for ax in figure.axes][2:] == [
        "misses: 1 of 1 (100 %), at most 10 % expected; width 0.4 everywhere",
        "",
    ]
    endless = gb.plot.overview(around(x, x, np.inf), data=gb.Observations([7.0], [0.0]))
    assert (
        endless.get_suptitle() == "90 % band, width infinite everywhere\nno reading where the band is known"
    )


def test_a_small_overview_of_a_long_channel_and_of_what_was_not_measured() -> None:
    names = gb.values.Names(("x", "y"), ("u", "p"), (0, 1))
    x = GRID * [5, 1.5]
    measured = gb.Observations(x[:2], x[:2, :1], outputs=("u",))
    figure = gb.plot.overview(around(x, x, np.c_[np.full(35, 0.1), 0.1 + x[:, 0]], names), data=measured)
    assert [ax.get_title() for ax in figure.axes if ax.get_title()] == [
        "u, predicted, half-width 0.1 everywhere",
        "u, |reading - prediction|\nmisses: 0 of 2 (0 %), at most 10 % expected",
        "p, predicted",
        "p, half-width",
    ]
    single = gb.plot.overview(around(x, x, 0.1, names), data=measured, truth=x, output="u")
    assert [ax.get_title() for ax in single.axes if ax.get_title()] == ["u, predicted", "u, |error|"]


def test_an_overview_says_what_it_needs() -> None:
    band = around(GRID, GRID, 0.1)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (gb.Band(None, [0.0], [0.0], [0.0], 0.9), {}, "was made from arrays, without points"),
        (around(np.ones((4, 3)), np.ones((4, 1)), 1.0), {}, r"got x of shape \(4, 3\). Plot a slice"),
        (
            around(np.ones((4, 2)), np.ones((4, 5, 1)), 1.0),
            {},
            "a row per point, but .* Plot one of the fields",
        ),
        (band, {"truth": X}, r"`truth` should be \(35, 2\), .* got \(30, 1\). Evaluate it at the points"),
        (
            band,
            {"data": gb.Observations(GRID, X.repeat(2)[:35])},
            "a column for each of the 2 outputs .* got 1",
        ),
        (band, {"data": gb.Observations(X, np.c_[X, X])}, "the 2 coordinates of the band, got 1"),
        (band, {"output": 2}, "Unknown output 2. The outputs are numbered from 0 to 1"),
        (around(GRID[:0], GRID[:0], 1.0), {}, "has no points"),
    ]
    for given, options, message in cases:
        with pytest.raises(ValueError, match=message):
            gb.plot.overview(given, **options)
    with pytest.raises(TypeError, match=r"`band` should be a gb\.Band, such as calibrated"):
        gb.plot.overview(np.ones(3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"`data` should be gb\.Observations"):
        gb.plot.overview(band, data=(GRID, GRID))  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_history_has_a_line_for_each_equation_and_condition() -> None:
    problem = pinn.problems.Poisson1D()
    recipe = pinn.Recipe(steps=60, finish=100)
    fitted = pinn.fit(problem, pinn.mlp(1, [8]), problem.observe(30), recipe=recipe, progress=False)
    ax = pinn.plot.history(fitted)
    lines = {str(line.get_label()): line for line in ax.get_lines() if line.get_label()[0] != "_"}  # type: ignore[index]
    assert [*lines] == ["data", "equation", "Dirichlet"] and ax.get_yscale() == "log"
    for name, line in lines.items():
        assert np.asarray(line.get_ydata()).tolist() == [row[name] for row in fitted.terms]
        assert np.asarray(line.get_xdata()).tolist() == [row["step"] for row in fitted.history]
    assert [line.get_xdata() for line in ax.get_lines() if line not in lines.values()] == [[60, 60]]
    before = pinn.plot.history(replace(fitted, terms=()))
    assert before.get_legend_handles_labels()[1] == ["data", "physics", "boundary"]
    with pytest.raises(ValueError, match=r"no history.*records a history"):
        pinn.plot.history(replace(fitted, terms=(), history=[]))
    with pytest.raises(TypeError, match=r"should be the result of pinn\.fit, got MLP"):
        pinn.plot.history(fitted.net)  # type: ignore[arg-type]


@pytest.mark.slow
def test_matplotlib_is_imported_when_something_is_drawn() -> None:
    code = "import sys, guardband as gb; gb.plot.overview; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_a_history_and_the_titles_of_fields_that_are_not_there_are_refused() -> None:
    with pytest.raises(TypeError, match=r"the result of pinn.fit, got str"):
        pinn.plot.history("fitted")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="should name the 2 columns of the values, got 1"):
        gb.plot.fields(GRID, GRID, titles=["u"])
    with pytest.raises(ValueError, match="one column per output"):
        gb.plot.fields(GRID, np.zeros((35, 2, 2)))
