"""Exact order statistics over shards, compared with a partition of the gathered array and with sketches.

    python benchmarks/quantile.py [--quick] [--peers]

The input is 1e8 float32 scores in 16 files (with `--quick`, 4e6), for 19 levels. Times are interleaved CPU
seconds; memory is the peak of the counting process above its initial memory. `--peers` adds the sketches of
Apache DataSketches, KLL and t-digest, with their time and their error in rank.
"""

import argparse
import importlib
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from claims import claim, finish

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np

import guardband as gb
from guardband.conformal.rank import rank

RESULTS = Path(__file__).parent.parent / "results/data/quantile.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peers", action="store_true", help="needs `pip install datasketches`")
    options = parser.parse_args()
    quick = options.quick
    n = 4_000_000 if quick else 100_000_000
    with tempfile.TemporaryDirectory() as folder:
        shards = [write(Path(folder), i, n // 16) for i in range(16)]
        ranks = [rank(n, level) for level in gb.conformal.LEVELS]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ours, found = timed(lambda: gb.conformal.order_statistics(shards, ranks))
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        times = [ours]
        gathered = np.concatenate([np.load(path) for path in shards])
        partitions = []
        for _ in range(2):
            partitions.append(timed(lambda: np.partition(gathered, np.array(ranks) - 1))[0])
            times.append(timed(lambda: gb.conformal.order_statistics(shards, ranks))[0])
        exact = np.sort(gathered)
        right = bool(np.array_equal(found, exact[np.array(ranks) - 1].astype(float)))
        ratio = min(times) / min(partitions)
        print(
            f"{n:.0e} scores: {min(times):.2f} CPU s, {peak:.0f} MB; np.partition {min(partitions):.2f} CPU s"
        )
        measured: dict[str, Any] = {"scores": n, "seconds": min(times), "partition_seconds": min(partitions)}
        if options.peers:
            sketches = importlib.import_module("datasketches")
            makers = {"KLL": sketches.kll_floats_sketch, "t-digest": sketches.tdigest_float}
            for name, maker in makers.items():
                seconds, values = timed(lambda maker=maker: sketched(maker, shards))
                off = np.abs(np.searchsorted(exact, values) + 1 - np.array(ranks)).max() / n
                slower = seconds / min(times)
                print(f"{name}: {seconds:.2f} CPU s, {slower:.1f}x ours; rank off by {off:.1e} n")
                key = name.lower().replace("-", "_")
                measured |= {
                    f"{key}_vs_ours": round(slower, 2),
                    f"{key}_rank_off_percent": round(100 * off, 2),
                }
    claims = [
        claim("equal_to_sort", float(right), ">= 1"),
        claim("cpu_vs_partition", ratio, "<= 10" if quick else "<= 2.5"),
        claim("megabytes", peak, "< 200"),
    ]
    if not quick:
        RESULTS.write_text(json.dumps({"claims": claims, **measured}, indent=1) + "\n")
    finish(claims)


def write(folder: Path, seed: int, n: int) -> Path:
    scores = np.abs(np.random.default_rng(seed).standard_normal(n, dtype=np.float32))
    path = folder / f"scores{seed}.npy"
    np.save(path, scores)
    return path


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    made = work()
    return time.process_time() - start, made


def sketched(make: Callable[[], Any], shards: list[Path]) -> np.ndarray:
    """The same levels from a sketch of Apache DataSketches, shard by shard, merged."""
    whole = make()
    for shard in shards:
        part = make()
        part.update(np.load(shard))
        whole.merge(part)
    return np.array([whole.get_quantile(float(level)) for level in gb.conformal.LEVELS])


if __name__ == "__main__":
    main()
