"""Comparisons for `benchmarks/surrogates.py`: UQNO's rule, and separately calibrated steps of a rollout."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import guardband as gb
from guardband.conformal import CoverageLaw, quantile, rank
from guardband.conformal.laws import tails, total_counts
from guardband.conformal.whole.share import integer_weights

Draws = Callable[[int, int], Iterator[tuple[np.ndarray, np.ndarray]]]


def uqno_places(n: int, nodes: int, gamma: float, miss: float) -> tuple[int, int]:
    """The ranks of UQNO's script among the descending ratios of a field, and among the descending fields.

    Re-derived from `scripts/train_uqno_darcy.py` of neuraloperator 2.0. A share t of gamma is spent on a
    Hoeffding bound over nodes, which assumes independent nodes: t = b + (gamma - b) / 3 with b = sqrt(log(1 /
    miss) / (2 nodes)). The rank in each field is ceil((gamma - t) nodes), and over fields ceil((n + 1) (miss
    - exp(-2 nodes t^2))), both counted from 0.
    """
    least = math.sqrt(-math.log(miss) / (2 * nodes))
    t = least + (gamma - least) / 3
    return math.ceil((gamma - t) * nodes), math.ceil((n + 1) * (miss - math.exp(-2 * nodes * t * t)))


def compared_with_uqno(
    ratios: np.ndarray, span: np.ndarray, draws: Draws, gamma: float, level: float, sizes: tuple[int, ...]
) -> Iterator[dict[str, Any]]:
    """Coverage and width of the two-level promise on sorted ratios (N, nodes), by UQNO's and the exact rule.

    `span` (N,) is the mean width of a field's band at a threshold of 1.
    """
    total, nodes = ratios.shape
    outside = nodes - integer_weights(np.ones(nodes), gamma)[1]  # number of nodes that may lie outside
    ours = ratios[:, nodes - 1 - outside]
    for n in sizes:
        at, fields = uqno_places(n, nodes, gamma, 1 - level)
        theirs, k = ratios[:, nodes - 1 - at], n - fields
        rules: dict[str, tuple[np.ndarray, int]] = {
            "UQNO's rule": (theirs, k),
            "UQNO's place in a field, exact rank": (theirs, rank(n, level)),
            "guardband, Share": (ours, rank(n, level)),
        }
        for name, (scores, place) in rules.items():
            covered, own, width = [], [], []
            for cal, test in draws(n, total):
                q = np.sort(scores[cal])[place - 1]
                covered.append(float((ours[test] <= q).mean()))
                own.append(float((scores[test] <= q).mean()))
                width.append(q * float(span[test].mean()))
            law = total_counts([(CoverageLaw(place, n), total - n)], repeats=len(own))
            inside = round(sum(own) * (total - n))
            yield {
                "rule": name,
                "n": n,
                "nodes outside": outside if scores is ours else at,
                "rank": place,
                "exact rank": rank(n, level),
                "coverage": float(np.mean(covered)),
                "own share": float(np.mean(own)),
                "law": CoverageLaw(place, n).mean,
                "p": min(1.0, 2 * min(tails(law, inside))),
                "width": float(np.mean(width)),
            }


def by_steps(
    misses: np.ndarray,
    shaped: np.ndarray,
    span: np.ndarray,
    draws: Draws,
    level: float,
    sizes: tuple[int, ...],
) -> Iterator[dict[str, Any]]:
    """Joint coverage of trajectories and widths by step, with one score per trajectory or separate steps.

    `misses` (N, steps) are the largest residuals at each step, `shaped` the same in units of a learned shape,
    whose mean at each step is `span` (N, steps).
    """
    total, steps = misses.shape
    apart = {"steps apart": level, "steps apart, Bonferroni": 1 - round(1 - level, 12) / steps}
    for n in sizes:
        found: dict[str, list[tuple[float, np.ndarray]]] = {}
        for cal, test in draws(n, total):
            sup = quantile(misses[cal].max(axis=1), level)
            inside = misses[test].max(axis=1) <= sup
            found.setdefault("one score, constant", []).append((inside.mean(), np.full(steps, 2 * sup)))
            q = quantile(shaped[cal].max(axis=1), level)
            inside = shaped[test].max(axis=1) <= q
            by_step = 2 * q * span[test].mean(axis=0)
            found.setdefault("one score, step and size", []).append((inside.mean(), by_step))
            for name, each in apart.items():
                qs = np.array([quantile(misses[cal, k], each) for k in range(steps)])
                found.setdefault(name, []).append(((misses[test] <= qs).all(axis=1).mean(), 2 * qs))
        for name, pairs in found.items():
            coverage, widths = (np.array(part) for part in zip(*pairs, strict=True))
            row = {"rule": name, "n": n, "coverage": float(coverage.mean())}
            if name.startswith("one score"):
                law = CoverageLaw(rank(n, level), n)
                chances = total_counts([(law, total - n)], repeats=len(coverage))
                inside = round(float(coverage.sum()) * (total - n))
                row |= {"law": law.mean, "p": min(1.0, 2 * min(tails(chances, inside)))}
            mean = widths.mean(axis=0).tolist()
            yield row | {"widths": [round(w, 4) if math.isfinite(w) else None for w in mean]}


def largest_by_step(prediction: gb.Prediction, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Largest residuals by step, the same in units of the scale, and the scale by step, (N, steps) each."""
    shape = (*y.shape[:2], -1)
    misses = abs(y - prediction.mean).reshape(shape)
    scale = np.asarray(prediction.scale).reshape(shape)
    return misses.max(axis=2), (misses / scale).max(axis=2), scale.mean(axis=2)
