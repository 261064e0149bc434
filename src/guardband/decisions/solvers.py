"""Solvers that a hybrid calls: a function, or a command that runs in a separate folder for each case."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from guardband.base.files import write_bytes


class SolverFailed(RuntimeError):
    """A solver run gave no usable answer.

    Examples
    --------
    >>> import tempfile
    >>> import guardband as gb
    >>> solver = gb.decisions.Command(["false"], tempfile.mkdtemp(), ["x"], ["y"])
    >>> try:
    ...     solver([1.0])
    ... except gb.decisions.SolverFailed as error:
    ...     print(str(error).partition(": ")[2])
    the command exited with status 1; see its log.
    """


@dataclass(frozen=True)
class Command:
    """A solver that is a command: it reads `inputs.json` in the case folder and writes `outputs.json`.

    Parameters
    ----------
    words
        The command and its arguments. It is started in the case folder, without a shell.
    folder
        Where case folders are made: `case-000001`, `case-000002` and so on.
    inputs, outputs
        Names of the columns of x and of the quantities that are read.
    timeout
        Seconds after which a run is ended, with all processes that it has started.

    Examples
    --------
    >>> import sys, tempfile
    >>> from guardband.decisions import Command
    >>> script = "import json; x = json.load(open('inputs.json'))"
    >>> script += "; json.dump({'y': x['a'] ** 2}, open('outputs.json', 'w'))"
    >>> solver = Command(
    ...     [sys.executable, "-c", script], tempfile.mkdtemp(), inputs=["a"], outputs=["y"]
    ... )
    >>> solver([3.0])
    array([9.])
    """

    words: Sequence[str]
    folder: str | os.PathLike[str]
    inputs: Sequence[str]
    outputs: Sequence[str]
    timeout: float = 3600.0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Run one case and return its quantities.

        Parameters
        ----------
        x
            The inputs of the case, shape (d,).

        Returns
        -------
        numpy.ndarray
            The quantities of the case, shape (m,).

        Raises
        ------
        SolverFailed
            If the command fails, takes longer than `timeout` or leaves out a quantity.
        """
        case = self._new_case()
        known = dict(zip(self.inputs, np.asarray(x, dtype=float).tolist(), strict=True))
        write_bytes(case / "inputs.json", json.dumps(known).encode())
        with open(case / "log", "wb") as log:
            process = subprocess.Popen(
                list(self.words),
                cwd=case,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(self.timeout)
            except subprocess.TimeoutExpired:
                raise SolverFailed(f"{case}: no answer within {self.timeout:g} s.") from None
            finally:
                _end(process)
        if status:
            raise SolverFailed(f"{case}: the command exited with status {status}; see its log.")
        return self._read(case)

    def _new_case(self) -> Path:
        """Create a new folder, also if several processes create folders at the same time."""
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        number = 1 + max(
            (int(path.name[5:]) for path in folder.glob("case-*") if path.name[5:].isdecimal()), default=0
        )
        while True:
            try:
                case = folder / f"case-{number:06d}"
                case.mkdir()
                return case
            except FileExistsError:
                number += 1

    def _read(self, case: Path) -> np.ndarray:
        path = case / "outputs.json"
        try:
            found = json.loads(path.read_bytes())
            return np.array([float(found[name]) for name in self.outputs])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise SolverFailed(
                f"{case}: outputs.json should hold one number for each of {', '.join(self.outputs)}: "
                f"{error!r}."
            ) from error


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a command, including all processes that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()


def solved(
    solver: Callable[[np.ndarray], object], x: np.ndarray, m: int, retries: int
) -> tuple[np.ndarray, str]:
    """The answer (m,) of a solver at one x (d,) and "", or NaN and why every try failed."""
    reason = ""
    for _ in range(1 + retries):
        try:
            answer = np.asarray(solver(x), dtype=float).reshape(-1)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            continue
        if len(answer) != m:
            reason = f"{len(answer)} numbers in place of {m}"
        elif not np.isfinite(answer).all():
            reason = "an answer that is not finite"
        else:
            return answer, ""
    return np.full(m, math.nan), reason
