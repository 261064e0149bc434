from collections.abc import Iterator

import pytest
import torch

from guardband.kept import _KINDS
from helpers import forget_foreign_kinds


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
