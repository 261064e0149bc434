"""Benchmarks end with one line of JSON, and with status 1 if a claim does not hold."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ROOT

SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))


def ended(code: str) -> subprocess.CompletedProcess[str]:
    """Run code after the imports of a benchmark, and return the finished process."""
    begin = f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r}); from claims import *; "
    return subprocess.run([sys.executable, "-c", begin + code], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("value", "bound", "status"),
    [
        (1.15, "<= 1.15", 0),
        (1.16, "<= 1.15", 1),
        (0.85, ">= 0.85", 0),
        (0.84, ">= 0.85", 1),
        (2, "< 2", 1),
        (float("nan"), "<= 1", 1),
        (float("nan"), ">= 1", 1),
    ],
)
def test_one_claim_that_fails_is_a_failure(value: float, bound: str, status: int) -> None:
    done = ended(f"nan = float('nan'); finish([claim('good', 1, '>= 1'), claim('this', {value}, {bound!r})])")
    assert done.returncode == status, done.stderr
    *_, said, last = done.stdout.splitlines()
    assert said.endswith("DOES NOT HOLD" if status else f"{bound}: holds")
    assert [found["holds"] for found in json.loads(last)["claims"]] == [True, not status]
    assert json.loads(last)["claims"][0] == {"name": "good", "value": 1, "bound": ">= 1", "holds": True}


def test_memory_is_kept_from_the_start() -> None:
    done = ended("print('begun'); keep_memory(); print(os.environ['MALLOC_TRIM_THRESHOLD_'], sys.argv)")
    assert done.stdout.splitlines()[-1] == "4294967296 ['-c']", done


@pytest.mark.parametrize(
    "path", [path for path in SCRIPTS if '"--quick"' in path.read_text()], ids=lambda path: path.name
)
def test_every_quick_benchmark_ends_with_its_claims(path: Path) -> None:
    text = path.read_text()
    assert "from claims import claim, finish" in text and "    finish(" in text
