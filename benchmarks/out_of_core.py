"""Calibration on fields in a Zarr store, compared with the bare model over the same chunks.

    python benchmarks/out_of_core.py [--quick] [--fields N] [--part speed|workers|kills|large]

20,000 random fields of 128 x 128 nodes (with `--quick`, 1536 of 32 x 32) are written to a temporary Zarr
store. The model is an untrained Fourier neural operator, since its speed does not depend on its weights.
`speed` scores all fields in one process and thread. Every eight chunks, it switches to a loop that reads the
same inputs and calls the bare model in the same micro-batches; some scores are compared with the in-memory
result bit for bit. `workers` compares one and two Dask workers in three alternating runs each.
`kills` kills a worker ten times. `large` scores a few fields of 1024 x 1024.
"""

import argparse
import json
import os
import signal
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from claims import claim, finish

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
import torch
import zarr
from field import forget_peak, interpreter, memory
from tqdm import tqdm

import guardband as gb
from guardband.base import engine
from guardband.fields import store
from guardband.fields.stored import StoredScores, numbered

torch.set_num_threads(1)

RESULTS = Path(__file__).parent.parent / "results/data/out_of_core.json"
CHUNK, BATCH, SIDE = 64, 8, 128
LARGE = 1024
KILLS = 10

Found = tuple[list[dict[str, Any]], dict[str, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--fields", type=int, default=20_000)
    parser.add_argument("--part", choices=PARTS, action="append")
    options = parser.parse_args()
    claims: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.part or PARTS:
            found, measured = PARTS[name](Path(folder), options.fields, options.quick)
            claims += found
            if not options.quick:
                keep(found, measured)
    finish(claims)


def keep(claims: list[dict[str, Any]], measured: dict[str, float]) -> None:
    """Merge new figures with those of other parts, and write the page."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"claims": []}
    names = {found["name"] for found in claims}
    both = [found for found in known["claims"] if found["name"] not in names] + claims
    known |= {name: float(f"{value:.4g}") for name, value in measured.items()} | {"claims": both}
    RESULTS.write_text(json.dumps(known, indent=1) + "\n")
    (RESULTS.parents[1] / "out_of_core.md").write_text(page(known))


def speed(folder: Path, n: int, quick: bool) -> Found:
    """All fields in one process, alternating with the bare model, and equality with the in-memory bits."""
    n, side = (24 * CHUNK, 32) if quick else (n, SIDE)
    fields, net = made(folder / "fields.zarr", n, side), operator()
    work = scores_of(net, fields)
    store.create(work, folder / "scores.zarr", BATCH)
    forget_peak()
    ours, bare = race(work, folder / "scores.zarr", net, folder / "fields.zarr")
    peak = (memory("VmHWM") - interpreter()) / 2**20
    calibrated = gb.calibrate(
        predictor(net), fields, scores=folder / "scores.zarr", chunk=CHUNK, batch=BATCH, progress=False
    )
    few = min(n, 1000)
    same = np.array_equal(in_memory(net, fields[:few]), zarr.open_array(folder / "scores.zarr/score")[:few])
    ratios = sorted(theirs / mine for mine, theirs in zip(ours, bare, strict=True))
    rate, milliseconds = n / sum(ours), 1e3 * sum(bare) / n
    print(f"{n} fields of {side} x {side}: {rate:.0f} per second, bare model {milliseconds:.1f} ms per field")
    print(f"rate relative to the bare model in three parts: {ratios}; {calibrated}")
    claims = [
        claim("rate_vs_bare_model", statistics.median(ratios), ">= 0.2" if quick else ">= 0.8"),
        claim("milliseconds_of_the_bare_model", milliseconds, "<= 20"),
        claim("peak_gib", peak, "< 1"),
        claim("equal_to_memory", float(same), ">= 1"),
    ]
    hours = 1e11 / (rate * side**2) / 3600
    return claims, {"fields": n, "fields_per_second": rate, "core_hours_for_1e5_of_1e6": hours}


def workers(folder: Path, n: int, quick: bool) -> Found:
    """One worker and two, alternating on the same fields, three times."""
    n, side = (8 * CHUNK, 32) if quick else (min(n, 32 * CHUNK), SIDE)
    fields, net = made(folder / "some.zarr", n, side), operator()
    times: dict[int, list[float]] = {1: [], 2: []}
    with engine.connect(1) as one, engine.connect(2) as two:
        for i, (count, client) in enumerate([(1, one), (2, two)] * 3):
            work, path = scores_of(net, fields), folder / f"workers{i}.zarr"
            store.create(work, path, BATCH)
            client.run(warm)
            start = time.perf_counter()
            for _ in store.write_all(work, path, BATCH, client):
                pass
            times[count].append(time.perf_counter() - start)
    print(f"{n} fields: 1 worker {times[1]} s, 2 workers {times[2]} s")
    gain = statistics.median(alone / both for alone, both in zip(times[1], times[2], strict=True))
    return [claim("two_workers_vs_one", gain, ">= 0.4" if quick else ">= 1.6")], {
        "worker_fields": n,
        "one_worker_seconds": statistics.median(times[1]),
        "two_workers_seconds": statistics.median(times[2]),
    }


def kills(folder: Path, n: int, quick: bool) -> Found:
    """Two workers, one of which is killed repeatedly, each time after some results are finished."""
    n, side, times = (8 * CHUNK, 32, 1) if quick else (min(n, 112 * CHUNK), SIDE, KILLS)
    fields, net = made(folder / "killed.zarr", n, side), operator()
    path, draw, killed, failed = folder / "kills.zarr", np.random.default_rng(0), 0, []
    with engine.connect(2) as client:

        def calibrate() -> None:
            options: dict[str, Any] = {"chunk": 16, "batch": BATCH, "progress": False}
            try:
                gb.calibrate(predictor(net), fields, scores=path, on=client, **options)
            except BaseException as error:
                failed.append(error)

        running = threading.Thread(target=calibrate)
        running.start()
        before = 0
        while running.is_alive():
            time.sleep(0.05)
            finished = len(list(store.notes_of(path).glob("[0-9]*.json")))
            known = client.scheduler_info(n_workers=-1)["workers"]
            alive = [one.pid for one in client.cluster.workers.values() if one.worker_address in known]
            if (
                killed < times and finished > before and len(alive) == 2
            ):  # exclude a worker that is just starting
                os.kill(int(draw.choice(alive)), signal.SIGKILL)
                killed, before = killed + 1, finished
                print(f"{killed} killed, {finished} chunks finished", flush=True)
                time.sleep(1)
        running.join()
    whole = gb.calibrate(
        predictor(net), fields, scores=folder / "whole.zarr", chunk=16, batch=BATCH, progress=False
    )
    found = np.sort(np.asarray(zarr.open_array(path / "score")[:], dtype=float))  # missing scores are NaN
    lost = int(np.isnan(found).sum())
    same = not failed and np.array_equal(found, whole.threshold.scores)  # type: ignore[attr-defined]
    print(f"{n} fields, {killed} workers killed: {failed or 'all finished'}, equal bits: {same}")
    return [
        claim("workers_killed", killed, f">= {times}"),
        claim("fields_lost", lost, "<= 0"),
        claim("equal_after_kills", float(same), ">= 1"),
    ], {"fields_under_kills": n}


def large(folder: Path, n: int, quick: bool) -> Found:
    """A few fields of a million nodes, one at a time."""
    side = 128 if quick else LARGE
    fields, net = made(folder / "large.zarr", 8, side, chunk=1), operator()
    forget_peak()
    gb.calibrate(predictor(net), fields, scores=folder / "large_scores.zarr", progress=False)
    peak = (memory("VmHWM") - interpreter()) / 2**20
    print(f"fields of {side} x {side}: peak memory {peak:.2f} GiB")
    return [claim("peak_gib_of_million_nodes", peak, "< 2")], {"large_nodes": side**2}


PARTS = {"speed": speed, "workers": workers, "kills": kills, "large": large}


def race(
    work: StoredScores, path: Path, net: torch.nn.Module, source: Path
) -> tuple[list[float], list[float]]:
    """CPU seconds of this library and of the bare model in three parts, alternating every eight chunks."""
    inputs = zarr.open_array(source / "a", mode="r")
    ours, bare = [0.0] * 3, [0.0] * 3
    numbered_chunks = list(enumerate(work.regions()))
    for first in tqdm(range(0, len(numbered_chunks), 8), unit_scale=8, unit="chunk"):
        some, third = numbered_chunks[first : first + 8], 3 * first // len(numbered_chunks)
        start = time.process_time()
        sum(store.write(work, path, BATCH, some))
        ours[third] += time.process_time() - start
        start = time.process_time()
        for _, (rows,) in some:
            x = torch.from_numpy(np.asarray(inputs[rows]))
            with torch.no_grad():
                torch.cat([net(part) for part in x.split(BATCH)])
        bare[third] += time.process_time() - start
    return ours, bare


def scores_of(net: torch.nn.Module, fields: gb.StoredFields) -> StoredScores:
    """The scores of all fields, not yet computed."""
    some = slice(16)
    first = gb.calibrate(predictor(net), fields.inputs(some), fields.targets(some), score=gb.Simultaneous())
    return StoredScores(first, {"field": numbered(fields)}, (), chunk=CHUNK, fields=fields)


def in_memory(net: torch.nn.Module, fields: gb.StoredFields) -> np.ndarray:
    """The scores of fields that are read together, predicted in the same micro-batches."""
    x, y = fields.inputs(slice(None)), fields.targets(slice(None))
    with torch.no_grad():
        mean = torch.cat([net(part) for part in torch.from_numpy(x).split(BATCH)])
    calibrated = gb.calibrate_arrays(mean.movedim(1, -1).numpy(), y, score=gb.Simultaneous())
    return np.asarray(calibrated.score(calibrated.prediction, calibrated.y))


def made(path: Path, n: int, side: int, chunk: int = CHUNK) -> gb.StoredFields:
    """Smooth random inputs and their images under a spectral filter, in chunks of fields."""
    if not path.exists():
        group, draw = zarr.open_group(path, mode="w"), np.random.default_rng(side)
        shapes = {"a": (n, 1, side, side), "u": (n, side, side)}
        dims = {"a": ("field", "channel", "x", "y"), "u": ("field", "x", "y")}
        arrays = {
            name: group.create_array(
                name,
                shape=shape,
                chunks=(chunk, *shape[1:]),
                dtype="float32",
                dimension_names=dims[name],
            )
            for name, shape in shapes.items()
        }
        waves = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)) * side
        for start in tqdm(range(0, n, chunk), unit_scale=chunk, unit="field", desc="data"):
            count = min(chunk, n - start)
            noise = np.fft.rfft2(draw.normal(size=(count, side, side)).astype("float32"))
            a = np.fft.irfft2(noise / (1 + waves) ** 2, s=(side, side)).astype("float32")
            arrays["a"][start : start + count] = a[:, None]
            smooth = np.fft.irfft2(noise / (1 + waves) ** 3, s=(side, side))
            arrays["u"][start : start + count] = np.tanh(smooth).astype("float32")
    return gb.StoredFields(path, x="a", y="u")


class Spectral(torch.nn.Module):
    """Products with weights at the lowest frequencies."""

    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weights = torch.nn.Parameter(torch.randn(2, width, width, modes, modes, 2) / width)

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        """The field of the lowest frequencies."""
        waves, k = torch.fft.rfft2(u), self.modes
        out, weights = torch.zeros_like(waves), torch.view_as_complex(self.weights)
        for part, weight in ((slice(k), weights[0]), (slice(-k, None), weights[1])):
            out[:, :, part, :k] = torch.einsum("nixy,ioxy->noxy", waves[:, :, part, :k], weight)
        return torch.fft.irfft2(out, s=u.shape[-2:])


class Operator(torch.nn.Module):
    """A Fourier neural operator of two layers, from (n, 1, side, side) to the same shape."""

    def __init__(self, width: int = 16, modes: int = 12) -> None:
        super().__init__()
        self.lift, self.project = torch.nn.Conv2d(1, width, 1), torch.nn.Conv2d(width, 1, 1)
        self.spectral = torch.nn.ModuleList(Spectral(width, modes) for _ in range(2))
        self.local = torch.nn.ModuleList(torch.nn.Conv2d(width, width, 1) for _ in range(2))

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        """The output of the operator for u."""
        v = self.lift(u)
        for spectral, local in zip(self.spectral, self.local, strict=True):
            v = torch.nn.functional.gelu(spectral(v) + local(v))
        return self.project(v)


def operator() -> Operator:
    torch.manual_seed(0)
    return Operator()


def predictor(net: torch.nn.Module) -> gb.Predictor:
    return gb.adapters.from_neuralop(net, on_grid=True)


def warm() -> None:
    """Import everything before the clock starts."""
    import guardband.adapters
    import guardband.fields  # noqa: F401


def page(known: dict[str, Any]) -> str:
    """The content of results/out_of_core.md."""
    rows = [
        f"| {found['name'].replace('_', ' ')} | {found['bound']} | {found['value']:g} | "
        f"{'holds' if found['holds'] else '**does not hold**'} |"
        for found in known["claims"]
    ]
    rest = {name: value for name, value in known.items() if name != "claims"}
    others = [f"- {name.replace('_', ' ')}: {value:,.4g}" for name, value in rest.items()]
    return "\n".join(
        [
            "# Fields larger than memory",
            "",
            "Written by `python benchmarks/out_of_core.py`: a Fourier neural operator is calibrated on "
            f"fields of {SIDE} x {SIDE} nodes in a Zarr store, with one number kept per field. Rates are "
            "computed from CPU times. Every eight chunks, the run switches to a loop that reads the same "
            "inputs and calls the bare model in the same micro-batches; the rate relative to the bare model "
            "is the median over the three thirds of the run. One and two workers are compared by wall time "
            "in three alternating runs each; medians are given.",
            "",
            "| claim | bound | measured | |",
            "|---|---|---|---|",
            *rows,
            "",
            "Other figures:",
            "",
            *others,
            "",
        ]
    )


if __name__ == "__main__":
    main()
