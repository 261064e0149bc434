"""Bands over a huge grid to Zarr, against the bare network writing its mean alone.

    python benchmarks/field.py [--quick] [--points N]

A 3D Helmholtz PINN of the paper's size (trained for seconds; its speed does not depend on its weights) with a
one-layer last-layer Laplace scale: mean, lower and upper at two levels, on a cube of about 1e8 points (with
`--quick`, 1e6). The bare loop evaluates the network in the same micro-batches and writes the mean with the
same chunks and compression. Both in this process, one thread, interleaved slab by slab where both are timed;
then two Dask workers against one, and against two with Dask's own allocator setting.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
import torch
import zarr

import guardband as gb
from guardband import fields
from guardband.fields import FieldBand

torch.set_num_threads(1)


RESULTS = Path(__file__).parent.parent / "results" / "field.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--points", type=float, default=1e8)
    parser.add_argument("--workers", action="store_true", help="compare one and two Dask workers as well")
    options = parser.parse_args()
    side = round((1e6 if options.quick else options.points) ** (1 / 3))
    calibrated = helmholtz()
    axis = np.linspace(0, 1, side)
    band = gb.field(calibrated, {"x": axis, "y": axis, "z": axis}, levels=["0.9", "0.95"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        batch = fields._created(band, Path(folder) / "ours.zarr", None)
        ours, bare = race(band, Path(folder), batch)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    points = len(band)
    rate = points / ours
    print(f"{points:.3g} points, batches of {batch}: ours {ours:.0f} s, the bare network {bare:.0f} s")
    print(
        f"{rate:.3g} points/s; 1e9 points take {1e9 / rate / 3600:.2f} h; peak {peak:.2f} GiB over the start"
    )
    measured = {"points": points, "seconds": round(ours, 1), "bare_seconds": round(bare, 1), "batch": batch}
    claims = [
        claim("rate_vs_bare_network", bare / ours, ">= 0.85", bare / ours >= 0.85),
        claim("peak_gib", peak, "< 2", peak < 2),
    ]
    if options.workers:
        part = gb.field(
            calibrated, {"x": axis[: max(2, side // 8)], "y": axis, "z": axis}, levels=["0.9", "0.95"]
        )
        one, two = on_workers(part, 1, batch), on_workers(part, 2, batch)
        print(f"{len(part):.3g} points: 1 worker {one:.0f} s, 2 workers {two:.0f} s")
        measured |= {"worker_points": len(part), "one_worker": round(one, 1), "two_workers": round(two, 1)}
        claims.append(claim("two_workers_vs_one", one / two, ">= 1.6", one / two >= 1.6))
    if not options.quick:
        RESULTS.write_text(json.dumps({"claims": claims, **measured}, indent=1) + "\n")
    print(json.dumps({"claims": claims}))


def claim(name: str, value: float, bound: str, holds: bool) -> dict[str, Any]:
    return {"name": name, "value": round(value, 3), "bound": bound, "holds": holds}


def helmholtz() -> gb.Calibrated:
    problem = gb.problems.Helmholtz3D()
    assert problem.paper is not None
    train, cal = problem.observe(600, noise=0.05, seed=0), problem.observe(200, noise=0.05, seed=1)
    recipe = gb.Recipe(steps=100, finish=50)
    fitted = gb.fit(problem, gb.mlp(3, problem.paper.widths), train, recipe=recipe, progress=False)
    return gb.calibrate(gb.predictors.LastLayerLaplace(fitted, layers=1), cal.x, cal.y)


def race(band: FieldBand, folder: Path, batch: int) -> tuple[float, float]:
    """Seconds for all chunks, ours and the bare loop's, chunk by chunk in turn."""
    net = band.calibrated.predictor.fitted.net  # type: ignore[union-attr]
    group = zarr.open_group(folder / "bare.zarr", mode="w")
    mean = group.create_array("mean", shape=band.shape, chunks=band.chunks, dtype="float32")
    ours = bare = 0.0
    for number, region in enumerate(band.regions()):
        start = time.perf_counter()
        fields.write_chunks(band, str(folder / "ours.zarr"), batch, [(number, region)])
        ours += time.perf_counter() - start
        start = time.perf_counter()
        x = torch.from_numpy(fields._points(band, region))
        with torch.no_grad():
            values = torch.cat([net(part) for part in x.split(batch)])
        mean[region] = values.numpy().reshape([part.stop - part.start for part in region])
        bare += time.perf_counter() - start
    return ours, bare


def on_workers(band: FieldBand, workers: int, batch: int) -> float:
    from guardband import engine

    with tempfile.TemporaryDirectory() as folder, engine.connect(workers) as client:
        path = Path(folder) / "f.zarr"
        fields._created(band, path, batch)
        client.run(warm)
        start = time.perf_counter()
        for _ in fields._run(band, str(path), batch, list(band.regions()), client):
            pass
        return time.perf_counter() - start


def warm() -> None:
    """Import everything before the clock starts."""
    torch.set_num_threads(1)


if __name__ == "__main__":
    main()
