"""Datasets: each agrees with a refined solution of its equation and is reproducible."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guardband import datasets
from guardband.datasets.darcy import _solution
from guardband.datasets.kuramoto_sivashinsky import evolved

SMALL: dict[str, dict[str, Any]] = {
    "burgers": {"n": 12, "nodes": 64},
    "kuramoto_sivashinsky": {"n": 4, "nodes": 64, "steps": 5},
    "navier_stokes": {"n": 2, "nodes": 32, "steps": 2},
    "darcy": {"n": 4, "nodes": 32},
}
OFF = {"burgers": 1e-5, "kuramoto_sivashinsky": 1e-4, "navier_stokes": 5e-3, "darcy": 5e-3}
"""Largest accepted difference from a refined solution, relative to the largest value."""


def made(name: str, **options: Any) -> datasets.Dataset:
    return getattr(datasets, name)(**{"folder": None, "progress": False, **SMALL[name], **options})


@pytest.mark.parametrize("name", SMALL)
def test_a_refined_solution_is_the_same(name: str) -> None:
    usual = 4 if name == "burgers" else 2 if name == "darcy" else 1
    x, y = made(name)
    x_fine, fine = made(name, refined=2 * usual)
    assert np.array_equal(x.values, x_fine.values)
    error = abs(y.values - fine.values).max() / abs(fine.values).max()
    assert error < OFF[name], error


@pytest.mark.parametrize("name", SMALL)
def test_rows_are_the_same_again_and_kept(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"nodes": 16, "n": 3} | ({"steps": 2} if "steps" in SMALL[name] else {})
    first = made(name, **few, folder=tmp_path)
    assert len(list(tmp_path.rglob("*.npz"))) == 1
    again, fewer = made(name, **few, folder=tmp_path), made(name, **{**few, "n": 2})
    other = made(name, **few, seed=1)
    assert np.array_equal(first.y.values, again.y.values) and np.array_equal(
        first.y.values[:2], fewer.y.values
    )
    assert not np.array_equal(first.y.values, other.y.values)
    assert first.y.values.dtype == np.float32 and "3 rows" in repr(first) and len(first[:2]) == 2
    monkeypatch.setenv("GUARDBAND_DATA", str(tmp_path / "mine"))
    made(name, **few, folder="usual")
    assert (tmp_path / "mine").is_dir()
    with pytest.raises(ValueError, match="positive integer"):
        made(name, n=0)


def test_inputs_of_burgers_differ_in_size_or_are_alike() -> None:
    sizes = [made("burgers", n=300, alike=alike).x.values.std(axis=1) for alike in (False, True)]
    spread = [np.quantile(size, 0.9) / np.quantile(size, 0.1) for size in sizes]
    assert spread[0] > 3 > 2.5 > spread[1]


def test_what_is_conserved_is_conserved() -> None:
    x, y = made("burgers")
    assert np.allclose(x.values.mean(axis=1), y.values.mean(axis=1), atol=1e-4)
    w = made("navier_stokes").y.values
    assert np.allclose(w.mean(axis=(2, 3)), 0, atol=1e-6)
    assert (made("darcy").y.values > 0).all()


def test_darcy_with_an_even_permeability_is_a_known_series() -> None:
    middle = _solution(np.ones((64, 64)))[31:33, 31:33].mean()
    assert abs(middle - 0.0736713) < 1e-4  # the torsion of a square


def test_too_few_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 16, for 8 modes, got 8"):
        made("burgers", nodes=8)


def test_chaos_leaves_its_start_behind() -> None:
    a = evolved(np.random.default_rng(0).normal(size=(1, 64)), 22.0, 1.0, 60)
    assert 0.5 < a[:, 40:].std() < 3
