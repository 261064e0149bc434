"""Bands over a huge grid to Zarr, compared with the bare network that writes its mean alone.

    python benchmarks/field.py [--quick] [--points N] [--workers]

A 3D Helmholtz PINN of the paper's size (trained for seconds; its speed does not depend on its weights) with a
one-layer last-layer Laplace scale: mean, lower and upper at two levels, on a cube of about 1e8 points (with
`--quick`, 1e6). The bare loop evaluates the same weights in a plain torch.nn.Sequential, in the same
micro-batches, and writes the mean with the same chunks and compression. Both run in this process on one
thread, alternating every eight chunks, followed by a sample of the chunks of 1e9 points. `--workers` instead
compares one Dask worker with two, and with two under Dask's default allocator setting.
"""

import argparse
import copy
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from claims import claim, finish

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
import torch
import zarr
from tqdm import tqdm

import guardband as gb
from guardband import lab, pinn
from guardband.base import engine
from guardband.fields import store
from guardband.pinn import MLP

torch.set_num_threads(1)

RESULTS = Path(__file__).parent.parent / "results/data/field.json"
LEVELS = ["0.9", "0.95"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--points", type=float, default=1e8)
    parser.add_argument("--workers", action="store_true", help="compare one and two Dask workers instead")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        gb.save(helmholtz(), options.train)
        return
    side = round((1e6 if options.quick else options.points) ** (1 / 3))
    calibrated = trained_elsewhere()
    claims, measured = (on_a_cluster if options.workers else here)(calibrated, side, options.quick)
    if not options.quick:
        known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"claims": []}
        names = {found["name"] for found in claims}
        all_of_them = claims + [found for found in known["claims"] if found["name"] not in names]
        RESULTS.write_text(json.dumps(known | measured | {"claims": all_of_them}, indent=1) + "\n")
    finish(claims)


def here(calibrated: gb.Calibrated, side: int, quick: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One process: the whole cube compared with the bare network, and a sample of 1e9 points."""
    band = cube(calibrated, side)
    forget_peak()
    with tempfile.TemporaryDirectory() as folder:
        batch = store.create(band, Path(folder) / "ours.zarr", None)
        ours, bare = race(band, Path(folder), batch)
    peak = (memory("VmHWM") - interpreter()) / 2**20
    hours = sampled_hours(cube(calibrated, 1000), batch, 4 if quick else 60)
    rate = len(band) / ours
    print(f"{len(band):.3g} points, batches of {batch}: ours {ours:.0f} s, the bare network {bare:.0f} s")
    print(f"{rate:.3g} points/s; 1e9 points take {hours:.2f} h by a sample of their chunks")
    print(f"peak memory {peak:.2f} GiB above an interpreter with torch")
    claims = [
        claim("rate_vs_bare_network", bare / ours, ">= 0.2" if quick else ">= 0.85"),
        claim("peak_gib", peak, "< 2"),
    ]
    return claims, {
        "points": len(band),
        "seconds": round(ours, 1),
        "bare_seconds": round(bare, 1),
        "points_per_second": round(rate),
        "hours_for_1e9": round(hours, 3),
        "batch": batch,
    }


def on_a_cluster(
    calibrated: gb.Calibrated, side: int, quick: bool
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Part of the cube on one worker, on two, and on two with Dask's default setting."""
    part = cube(calibrated, side, max(2, side // (2 if quick else 8)))
    seconds = []
    for cluster in (engine.connect(1), engine.connect(2), untouched_dask(2)):
        with cluster as client:
            seconds.append(on_workers(part, 4096, client))
    one, two, theirs = seconds
    print(f"{len(part):.3g} points: 1 worker {one:.1f} s, 2 workers {two:.1f} s")
    print(f"2 workers with Dask's allocator setting {theirs:.1f} s, {theirs / two:.2f}x")
    return [claim("two_workers_vs_one", one / two, ">= 0.4" if quick else ">= 1.6")], {
        "worker_points": len(part),
        "one_worker": round(one, 1),
        "two_workers": round(two, 1),
        "two_workers_with_dask_malloc": round(theirs, 1),
    }


def helmholtz() -> gb.Calibrated:
    problem = pinn.problems.Helmholtz3D()
    train, cal = problem.observe(600, noise=0.05, seed=0), problem.observe(200, noise=0.05, seed=1)
    recipe = pinn.Recipe(steps=100, finish=50)
    net = pinn.mlp(3, lab.paper.settings(problem).widths)
    fitted = pinn.fit(problem, net, train, recipe=recipe, progress=False)
    return gb.calibrate(pinn.predictors.LastLayerLaplace(fitted, layers=1), cal.x, cal.y)


def trained_elsewhere() -> gb.Calibrated:
    """Train in another process, to keep its memory out of the measurement."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, __file__, "--train", f"{folder}/model"], check=True)
        return gb.load(f"{folder}/model")


def cube(calibrated: gb.Calibrated, side: int, slabs: int | None = None) -> gb.fields.FieldBand:
    """A grid with this number of points along each axis, optionally only its first slabs."""
    axis = np.linspace(0, 1, side)
    return gb.band_over(calibrated, {"x": axis[:slabs], "y": axis, "z": axis}, levels=LEVELS)


def race(band: gb.fields.FieldBand, folder: Path, batch: int) -> tuple[float, float]:
    """Seconds for all chunks, of this library and the bare loop, alternating every eight chunks."""
    net = plain(band.calibrated.predictor.fitted.net)  # type: ignore[union-attr]
    group = zarr.open_group(folder / "bare.zarr", mode="w")
    alike = {"chunks": band.chunks, "compressors": store.compression()}
    mean = group.create_array("mean", shape=band.shape, dtype="float32", **alike)
    ours = bare = 0.0
    numbered = list(enumerate(band.regions()))
    for first in tqdm(range(0, len(numbered), 8), unit_scale=8, unit="chunk"):
        some = numbered[first : first + 8]
        start = time.perf_counter()
        sum(store.write(band, folder / "ours.zarr", batch, some))
        ours += time.perf_counter() - start
        start = time.perf_counter()
        for _, region in some:
            x = torch.from_numpy(band.points(region))
            with torch.no_grad():
                values = torch.cat([net(part) for part in x.split(batch)])
            mean[region] = values.numpy().reshape([part.stop - part.start for part in region])
        bare += time.perf_counter() - start
    return ours, bare


def plain(net: MLP) -> torch.nn.Sequential:
    """The network in plain torch, with the scaling of the inputs in the first layer."""
    layers = copy.deepcopy(net.linears)
    with torch.no_grad():
        layers[0].bias.sub_(layers[0].weight @ (net.center / net.reach))
        layers[0].weight.div_(net.reach)
    hidden = [part for layer in layers[:-1] for part in (layer, torch.nn.Tanh())]
    made = torch.nn.Sequential(*hidden, layers[-1])
    x = torch.rand(1000, net.sizes[0])
    assert torch.allclose(made(x), net(x), atol=1e-5)
    return made


def sampled_hours(band: gb.fields.FieldBand, batch: int, count: int) -> float:
    """Estimated seconds for all chunks, from a sample spread over them."""
    numbered = list(enumerate(band.regions()))
    some = numbered[:: len(numbered) // count]
    with tempfile.TemporaryDirectory() as folder:
        store.create(band, Path(folder) / "f.zarr", batch)
        start = time.perf_counter()
        points = sum(store.write(band, Path(folder) / "f.zarr", batch, some))
    return (time.perf_counter() - start) / points * len(band) / 3600


def on_workers(band: gb.fields.FieldBand, batch: int, client: Any) -> float:
    """Seconds on a cluster whose workers have started."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.zarr"
        store.create(band, path, batch)
        client.run(warm)
        start = time.perf_counter()
        for _ in store.write_all(band, path, batch, client):
            pass
        return time.perf_counter() - start


@contextmanager
def untouched_dask(workers: int) -> Any:
    """A cluster with Dask's default settings, one thread per worker."""
    from distributed import Client, LocalCluster

    options = {"processes": True, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, **options) as cluster,
        Client(cluster) as client,
    ):
        yield client


def warm() -> None:
    """Import everything before the clock starts."""
    import guardband.fields  # noqa: F401


def forget_peak() -> None:
    """Reset the kernel's record of peak memory."""
    Path("/proc/self/clear_refs").write_text("5")


def memory(name: str, of: str = "self") -> int:
    """A memory figure of a process in KiB, such as the peak, VmHWM."""
    found = re.search(rf"{name}:\s+(\d+)", Path(f"/proc/{of}/status").read_text())
    assert found is not None
    return int(found[1])


def interpreter() -> int:
    """The memory in KiB of an interpreter that has imported torch."""
    code = (
        "import torch; print(next(l for l in open('/proc/self/status') if l.startswith('VmHWM')).split()[1])"
    )
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


if __name__ == "__main__":
    main()
