"""A band over a whole field, written by two processes and opened with xarray

`gb.band_over` is a lazy band over a grid. `to_zarr` computes it in chunks, here with
two Dask workers, or on a cluster; an interrupted run resumes, and the numbers do not
depend on the workers. The output is plain Zarr: the picture is drawn by xarray, without
guardband. The band is that of a PINN whose scale is the Laplace approximation,
calibrated on exchangeable points.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xarray

import guardband as gb
from guardband import pinn


def main() -> None:
    """Train, calibrate, write the field, and open it with xarray."""
    problem = pinn.problems.AllenCahn2D()
    train, cal = (
        problem.observe(n, noise=0.002, seed=seed) for seed, n in enumerate((60, 150))
    )
    likelihood = pinn.Likelihood(data=0.002)
    fitted = pinn.fit(
        problem, pinn.mlp(problem), train, likelihood=likelihood, progress=False
    )
    predictor = pinn.predictors.LastLayerLaplace(fitted)
    calibrated = gb.calibrate(
        predictor, cal.x, cal.y, score=gb.conformal.Total(noise=0.002)
    )

    side = 400
    grid = {"x": np.linspace(-1, 1, side), "y": np.linspace(-1, 1, side)}
    band = gb.band_over(
        calibrated,
        grid,
        levels=[0.95],
        units={"x": "m", "y": "m"},
        chunk=side * side // 8,
    )
    with tempfile.TemporaryDirectory() as folder:
        store = band.to_zarr(Path(folder, "band.zarr"), on=2)
        field = xarray.open_zarr(store).load()

    figure, axes = plt.subplots(1, 2, figsize=(6.8, 4), layout="constrained")
    bar = {"location": "bottom", "label": "width of the 95 % band"}
    field["mean"].plot.pcolormesh(
        ax=axes[0], x="x", y="y", cbar_kwargs=bar | {"label": "u"}
    )
    width = field["upper_0.95"] - field["lower_0.95"]
    width.plot.pcolormesh(
        ax=axes[1], x="x", y="y", vmin=0, cmap="cividis", cbar_kwargs=bar
    )
    for ax in axes:
        ax.set_aspect("equal")
    axes[0].set_title("Written in 8 chunks by 2 workers", fontsize="medium")
    axes[1].plot(*train.x.T, ".", ms=2, color="white")
    axes[1].set_title("Opened by xarray: the width", fontsize="medium")
    figure.savefig("field_to_zarr.png", dpi=120)


if __name__ == "__main__":  # the workers import this file
    main()
