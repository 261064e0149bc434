"""The nearest rows, by the largest difference over columns."""

from __future__ import annotations

import numpy as np

COLUMNS = 8
"""Neighbors are looked for in so many columns, and compared in all."""


def search(
    known: np.ndarray, new: np.ndarray, k: int, left_out: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest known rows of each new one, by the largest difference over columns: how far, and which.

    `left_out` is the known row, if any, that each new one is not to be compared with. With many columns,
    candidates are found in a few of them and compared in all.
    """
    from scipy.spatial import cKDTree  # type: ignore[attr-defined]

    width = known.shape[1]
    few = np.unique(np.linspace(0, width - 1, COLUMNS).astype(int)) if width > COLUMNS else np.arange(width)
    if width == 0:
        known, new, few = np.zeros((len(known), 1)), np.zeros((len(new), 1)), np.arange(1)
    wanted = min(len(known), k + (left_out is not None) + (4 if width > COLUMNS else 0))
    tree = cKDTree(known[:, few], balanced_tree=False)
    distances, nearest = tree.query(new[:, few], range(1, wanted + 1), p=np.inf)
    if width > COLUMNS:
        for start in range(0, len(new), 1000):
            part = slice(start, start + 1000)
            distances[part] = np.abs(known[nearest[part]] - new[part, None]).max(axis=-1)
    if left_out is not None:
        distances = np.where(nearest == left_out[:, None], np.inf, distances)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(nearest, order, axis=1)
