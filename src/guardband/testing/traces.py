"""A check that a call changes no global state."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from guardband.predictors.models import is_module


@contextmanager
def untouched(*owners: object) -> Iterator[None]:
    """Check that a block changes neither global random state, nor the default dtype, nor network modes.

    Parameters
    ----------
    *owners
        Networks, or objects with networks among their attributes.

    Yields
    ------
    None

    Raises
    ------
    AssertionError
        If something was changed.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> with gb.testing.untouched():
    ...     _ = np.random.default_rng(0).normal()
    """
    networks = [
        value
        for owner in owners
        for value in (owner, *getattr(owner, "__dict__", {}).values())
        if is_module(value)
    ]
    before = _global_state(networks)
    yield
    after = _global_state(networks)
    for name in before:
        assert before[name] == after[name], f"{name} was changed by the call"


def _global_state(networks: Sequence[Any]) -> dict[str, object]:
    legacy = np.random.get_state(legacy=False)
    found: dict[str, object] = {
        "Python's global random state": random.getstate(),
        "numpy's global random state": repr(legacy) + str(legacy["state"]["key"].tobytes()),
        "the mode of a network": [m.training for net in networks for m in net.modules()],
    }
    if (torch := sys.modules.get("torch")) is not None:
        found["torch's global random state"] = torch.get_rng_state().numpy().tobytes()
        found["torch's default dtype"] = torch.get_default_dtype()
        found["torch's gradient mode"] = torch.is_grad_enabled()
    return found
