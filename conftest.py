"""Rules for all tests: two tiers, light collection, and skips for packages that are not installed."""

import doctest
import importlib.util
import re
import sys
import time
from collections.abc import Generator, Iterator

import pytest
from _pytest.doctest import MultipleDoctestFailures

from guardband.base.kept import _KINDS
from guardband.store import ArtifactError
from helpers import forget_foreign_kinds
from wings import Absent, torch

HEAVY = """
    arviz dask deepxde distributed h5py jax lightgbm mlflow nbclient neuralop onnx onnxruntime onnxscript pina
    polars pyro pyvista skl2onnx vtk zarr
""".split()
"""Packages that tests may only import when they run, since every worker collects all tests."""

COLLECTING = 8.0
"""The largest CPU time for collecting one file, in seconds: enough to import torch, but not to train."""

MAY_LACK = ("arviz", "lightgbm", "mlflow", "onnxscript", "polars", "pyro", "pyvista", "skl2onnx", "torch")
"""Packages that .ci/run does not install, or not in the environment of its core tests."""

WITHOUT_TORCH = re.compile(r"ImportError: This needs torch|No module named '(torch|sympy)\b")
"""Import errors of files that need torch; only tests of equations use sympy."""


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Fail a file that imports a heavy package or computes for too long; skip one that needs torch."""
    before, start = set(sys.modules), time.process_time()
    report = yield
    spent = time.process_time() - start
    wrong = [f"imports {name}" for name in HEAVY if name in sys.modules and name not in before]
    wrong += [f"takes {spent:.1f} CPU seconds, above {COLLECTING:g},"] * (spent > COLLECTING)
    if isinstance(collector, pytest.File) and wrong:
        report.outcome = "failed"
        report.longrepr = (
            f"{collector.nodeid} {' and '.join(wrong)} when it is collected. Import heavy packages inside "
            "tests or through helpers.Later, and train in a cached function or a session fixture."
        )
    elif report.failed and isinstance(torch, Absent) and WITHOUT_TORCH.search(str(report.longrepr)):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, "Skipped: needs torch")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Skip a test whose fixture needs an optional package."""
    return (yield from _skip_if_missing())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Skip a test, a doctest or a page that needs an optional package."""
    return (yield from _skip_if_missing())


def _skip_if_missing() -> Generator[None, None, None]:
    """Run the test, and skip it if an optional package is missing."""
    try:
        return (yield)
    except (ArtifactError, ImportError, doctest.UnexpectedException, MultipleDoctestFailures) as error:
        failures = getattr(error, "failures", [error])
        errors = [one.exc_info[1] if hasattr(one, "exc_info") else one for one in failures]
        missing = {name for one in errors for name in MAY_LACK if _lacks(one, name)}
        if missing:
            pytest.skip(f"needs {', '.join(sorted(missing))}")
        raise


def _lacks(error: object, package: str) -> bool:
    """Whether an error names a package that is not installed."""
    said = isinstance(error, ArtifactError | ImportError) and re.search(rf"\b{package}\b", str(error))
    return bool(said) and importlib.util.find_spec(package) is None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Apply `@pytest.mark.slow("a", "b")` only to the cases with these ids."""
    for item in items:
        case = getattr(getattr(item, "callspec", None), "id", None)
        marks = item.own_markers
        marks[:] = [mark for mark in marks if mark.name != "slow" or not mark.args or case in mark.args]


def pytest_collection_finish() -> None:
    """After collection, only tests use torch."""
    Absent.collecting = False


@pytest.fixture(autouse=True)
def _seed_torch() -> None:
    """Seed torch's global generator, from which layers draw their weights, before every test."""
    if not isinstance(torch, Absent):
        torch.manual_seed(0)


@pytest.fixture
def only_our_kinds() -> Iterator[None]:
    """Hide the classes that other tests have marked with `@gb.kept`, as in a new process."""
    aside = forget_foreign_kinds()
    yield
    forget_foreign_kinds()
    _KINDS.update(aside)
