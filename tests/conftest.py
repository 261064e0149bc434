import signal
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from guardband.kept import _KINDS
from helpers import forget_foreign_kinds

WATCHED = 15.0
"""CPU seconds for which coverage watches a test. It doubles the time, and long tests repeat their lines."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Let coverage look away from a test that takes long."""
    plugin = item.config.pluginmanager.getplugin("_cov")
    coverage = getattr(getattr(plugin, "cov_controller", None), "cov", None)
    if coverage is None:
        return (yield)
    away = False

    def look_away(*_: object) -> None:
        nonlocal away
        coverage.stop()
        away = True

    before = signal.signal(signal.SIGVTALRM, look_away)
    signal.setitimer(signal.ITIMER_VIRTUAL, WATCHED)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        if away:
            coverage.start()


@pytest.fixture(autouse=True)
def _alike_whatever_ran_before() -> None:
    """Layers of torch draw their weights from its global generator: every test finds it as it was."""
    torch.manual_seed(0)


@pytest.fixture
def only_our_kinds() -> Iterator[None]:
    """What is kept is found as in a new process: the classes that other tests marked are put aside."""
    aside = forget_foreign_kinds()
    yield
    forget_foreign_kinds()
    _KINDS.update(aside)
