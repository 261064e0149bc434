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
    alone = gb.plot.field(GRID[order], values, colorbar=False)
    assert len(alone.figure.axes) == 1
    ax = gb.plot.field(GRID[order], values, label="u", limits=(0, 12))
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


def test_the_coverage_curve_shades_what_a_valid_band_may_show() -> None:
    model = gb.predictors.Given(np.sin, np.ones_like)
    y = np.sin(X) + np.random.default_rng(1).normal(size=30)
    ax = gb.plot.coverage_curve(gb.evaluate(gb.calibrate(model, X, y), X + 1, y, regions={"a": X > 0.5}))
    labels = [text.get_text() for text in ax.get_legend().get_texts()]  # type: ignore[union-attr]
    assert labels == ["valid (99 %)", "this band", "constant width", "before calibration"]
    clustered = gb.calibrate(model, X, y, calibrator=gb.Clustered(), groups=np.arange(30))
    gb.plot.coverage_curve(gb.evaluate(clustered, X + 1, y))


def test_plots_say_which_shape_they_want() -> None:
    with pytest.raises(ValueError, match="for 1-dimensional x, got shape"):
        gb.plot.band(gb.Band(GRID, np.zeros(35), np.zeros(35), np.zeros(35), 0.9))
    with pytest.raises(ValueError, match="came from arrays without points"):
        gb.plot.band(gb.Band(None, [0.0], [0.0], [0.0], 0.9))
    with pytest.raises(ValueError, match=r"should be \(30, 2\) for a field, got \(30, 1\)"):
        gb.plot.field(X, X)
