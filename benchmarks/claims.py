"""Claims: measured values compared with their bounds.

A script ends with `finish`: the last line it prints is one JSON object, and its exit status is 1 if a claim
does not hold. With `--quick`, bounds are wide enough for a busy machine.
"""

import json
import operator
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

RELATIONS = {"<": operator.lt, "<=": operator.le, ">=": operator.ge}


def claim(name: str, value: float, bound: str) -> dict[str, Any]:
    """Compare a value with a bound such as "<= 1.15", print the result and return it as a row."""
    relation, limit = bound.split()
    holds = bool(RELATIONS[relation](value, float(limit)))
    print(f"{name}: {value:.4g}, {bound}: {'holds' if holds else 'DOES NOT HOLD'}")
    return {"name": name, "value": float(f"{value:.4g}"), "bound": bound, "holds": holds}


def finish(claims: Sequence[dict[str, Any]]) -> NoReturn:
    """Print all claims as the last line and exit, with status 1 if one does not hold."""
    print(json.dumps({"claims": list(claims)}), flush=True)
    sys.exit(0 if all(found["holds"] for found in claims) else 1)


def keep_memory() -> None:
    """Restart the script with an allocator that keeps freed memory.

    Otherwise glibc returns memory to the system at irregular times, and the next allocation pays for it. It
    reads these settings once, when a process starts.
    """
    settings = dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(2**32))
    if not settings.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **settings})
