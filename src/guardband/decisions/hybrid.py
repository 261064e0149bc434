"""Hybrids: a surrogate answers where that is certified, and the solver everywhere else."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from guardband.base.arrays import ArrayLike, rows, to_numpy
from guardband.base.engine import On, connect, each
from guardband.calibration.calibrate import as_predictor
from guardband.conformal.rank import Level, exact
from guardband.decisions.certificate import Audit, Certificate, certify
from guardband.decisions.solvers import solved
from guardband.values import Prediction, Predictor

SURROGATE, SOLVER, AUDIT, FAILED = "surrogate", "solver", "audit", "failed"


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a hybrid to some queries.

    Attributes
    ----------
    y
        The answers, shape (n, m); NaN where the solver failed.
    by
        Who answered each query: "surrogate", "solver", "audit" (served and solved as well; the answer is the
        solver's) or "failed".
    scale
        The predicted scale of each query, shape (n,).
    error
        The error of the surrogate over the tolerance where the solver answered, else NaN, shape (n,).
    reasons
        Why the solver failed, by row.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> x = np.linspace(0, 1, 100)[:, None]
    >>> hybrid = gb.Hybrid(np.sin, np.sin, x, np.sin(x), tolerance=0.1, audits=0)
    >>> hybrid([[0.5], [0.7]])
    Answers(2 by surrogate)
    """

    y: np.ndarray
    by: np.ndarray
    scale: np.ndarray
    error: np.ndarray
    reasons: dict[int, str]

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        words, counts = np.unique(self.by, return_counts=True)
        return (
            f"Answers({', '.join(f'{count} by {word}' for word, count in zip(words, counts, strict=True))})"
        )


class Hybrid:
    """A surrogate that answers where its error is certified, and a solver that answers everything else.

    It has a state, as streams have: audits, and certificates that they may withdraw.

    Parameters
    ----------
    surrogate
        A model or predictor. Without a scale it is served everywhere or nowhere.
    solver
        A function from one x (d,) to the quantities (m,), such as `gb.decisions.Command`.
    x, y
        Calibration runs of the solver that the surrogate has not seen, shapes (n, d) and (n, m).
    tolerance
        The largest admissible error |surrogate - solver|, one number or one per quantity.
    risk
        The largest P(error > tolerance | served).
    confidence
        The probability over calibration runs that the risk is kept.
    thresholds
        Thresholds of the scale to be tested, fixed without the calibration runs. By default 50 quantiles of
        the scale at a random quarter of the runs, which are then left out of the tests.
    audits
        The share of served queries that a coin sends to the solver as well.
    alarm
        The probability that audits ever withdraw a certificate that holds.
    renewal
        The number of solver runs after an alarm that test the next certificate.
    retries
        How often a failed solver run is repeated.
    log
        A file to which each answer is appended as one line of JSON.
    on
        Where the solver runs: None here, a number of Dask workers, or the address of a scheduler.
    seed
        The seed of the coin.

    Notes
    -----
    The error of a query is the largest |surrogate - solver| / tolerance over the quantities; above 1 it
    counts as wrong. A solver run that fails, hangs or returns NaN is repeated `retries` times, then
    reported, and the query is never counted as served. An audit whose solver run fails is counted neither
    as right nor as wrong.

    Once an alarm is raised, every query goes to the solver. The first `renewal` of these runs are used as
    calibration runs of the next certificate with the same thresholds; audits from before the alarm are not.

    Examples
    --------
    >>> import numpy as np
    >>> import guardband as gb
    >>> draw = np.random.default_rng(0)
    >>> def surrogate(x):
    ...     return gb.Prediction(x, np.sin(x), scale=0.01 + 0.1 * x**2)
    >>> def solver(x):
    ...     return np.sin(x) + 0.1 * x**2 * np.cos(40 * x)
    >>> x = draw.uniform(size=(400, 1))
    >>> hybrid = gb.Hybrid(surrogate, solver, x, solver(x), tolerance=0.03, audits=0)
    >>> hybrid.certificate.threshold is not None
    True
    >>> answers = hybrid([[0.2], [0.95]])
    >>> answers.by.tolist()
    ['surrogate', 'solver']
    """

    def __init__(
        self,
        surrogate: Any,
        solver: Callable[[np.ndarray], Any],
        x: ArrayLike,
        y: ArrayLike,
        *,
        tolerance: float | ArrayLike,
        risk: Level = 0.05,
        confidence: Level = 0.95,
        thresholds: ArrayLike | None = None,
        audits: float = 0.05,
        alarm: float = 0.01,
        renewal: int = 200,
        retries: int = 1,
        log: str | os.PathLike[str] | None = None,
        on: On = None,
        seed: int = 0,
    ) -> None:
        if not callable(solver):
            raise TypeError(f"`solver` should be a function of one x (d,), got {type(solver).__name__}.")
        if not 0 <= audits <= 1:
            raise ValueError(f"`audits` should be a share from 0 to 1, got {audits}.")
        if not 0 < alarm < 1:
            raise ValueError(f"`alarm` should lie strictly between 0 and 1, got {alarm}.")
        x, y = to_numpy(rows(x, "x")).astype(float), to_numpy(rows(y, "y")).astype(float)
        if len(x) != len(y):
            raise ValueError(f"`x` and `y` should pair up, got {len(x)} and {len(y)} rows.")
        if not np.isfinite(y).all():
            raise ValueError("`y` should hold solver runs that succeeded, got numbers that are not finite.")
        self.surrogate: Predictor = as_predictor(surrogate, x)
        self._solver, self._retries, self._on = solver, retries, on
        self._tolerance = np.asarray(tolerance, dtype=float)
        if not (np.isfinite(self._tolerance) & (self._tolerance > 0)).all() or self._tolerance.size not in (
            1,
            y.shape[1],
        ):
            raise ValueError(
                f"`tolerance` should be positive, one number or one per quantity, got {tolerance!r}."
            )
        self._risk, self._confidence = exact(risk, "risk"), exact(confidence, "confidence")
        self._share, self._alarm, self._renewal = audits, alarm, renewal
        self._log = None if log is None else Path(log)
        self._coin = np.random.default_rng(seed)
        prediction = self.surrogate(x)
        scale, error = _scale(prediction), self._error(to_numpy(prediction.mean), y)
        if thresholds is None:
            # Runs are often sorted; what remains should be a fair sample.
            first, rest = np.split(np.random.default_rng(seed).permutation(len(x)), [-(-len(x) // 4)])
            tried = np.quantile(scale[first], np.linspace(0.02, 1, 50), method="higher")
            scale, error = scale[rest], error[rest]
        else:
            tried = np.asarray(thresholds, dtype=float).reshape(-1)
        self._thresholds: list[float] = tried.tolist()
        self._certify(scale, error)
        self._pending: list[tuple[float, float]] = []

    def __call__(self, x: ArrayLike) -> Answers:
        """Answer queries, by the surrogate where that is certified, else by the solver.

        Parameters
        ----------
        x
            Queries, shape (n, d).

        Returns
        -------
        Answers
            The answers, with who gave each of them.

        Notes
        -----
        The queries of one call share one certificate: an alarm takes effect from the next call on.
        """
        x = to_numpy(rows(x, "x")).astype(float)
        start = time.time()
        prediction = self.surrogate(x)
        mean, scale = to_numpy(prediction.mean).astype(float), _scale(prediction)
        served = np.zeros(len(x), dtype=bool)
        if self.certificate.threshold is not None:
            served = (scale <= self.certificate.threshold) & np.isfinite(mean).all(axis=1)
        audited = served & (self._coin.random(len(x)) < self._share)
        by = np.where(served, SURROGATE, SOLVER).astype(object)
        y, error, reasons = mean.copy(), np.full(len(x), np.nan), {}
        wanted = np.flatnonzero(~served | audited)
        for row, (answer, reason) in zip(wanted, self._solved(x[wanted], mean.shape[1]), strict=True):
            if reason:
                reasons[int(row)] = reason
                if not audited[row]:
                    y[row], by[row] = np.nan, FAILED
                continue
            error[row] = self._error(mean[row], answer)
            y[row], by[row] = answer, AUDIT if audited[row] else SOLVER
        answers = Answers(y, by.astype(str), scale, error, reasons)
        self._learn(answers)
        self._write(x, answers, time.time() - start)
        return answers

    @property
    def promise(self) -> str:
        """What is certified for the answers of the surrogate, and how it is watched."""
        watched = (
            f" {self._share:.0%} of the served queries are audited; the audits raise a false alarm with "
            f"probability "
            f"at most {self._alarm:g}."
            if self._share
            else " Served queries are not audited, so a drift would not be noticed."
        )
        return self.certificate.promise + watched

    def __repr__(self) -> str:
        threshold = self.certificate.threshold
        state = (
            "every query goes to the solver" if threshold is None else f"serves {self.certificate.share:.0%}"
        )
        return f"Hybrid({state}, risk={float(self._risk):g}, {self.audit.audits} audits)"

    def _certify(self, scale: np.ndarray, error: np.ndarray) -> None:
        """A new certificate, and audits that start from nothing."""
        self.certificate: Certificate = certify(
            scale, error > 1, self._thresholds, risk=self._risk, confidence=self._confidence
        )
        self.audit: Audit = Audit(float(self._risk), self._alarm)

    def _learn(self, answers: Answers) -> None:
        """Count audits; after an alarm, collect the runs of the next certificate."""
        if self.certificate.threshold is not None:
            for error in answers.error[answers.by == AUDIT]:
                self.audit.update(bool(error > 1))
            if self.audit.alarmed:
                self.certificate = Certificate(
                    None, float(self._risk), float(self._confidence), self.certificate.n
                )
                self._pending = []
            return
        if not self.audit.alarmed:
            return  # nothing was ever certified, so there is nothing to renew
        solved_here = answers.by == SOLVER
        self._pending += zip(answers.scale[solved_here], answers.error[solved_here], strict=True)
        if len(self._pending) >= self._renewal:
            scale, error = np.array(self._pending[: self._renewal]).T
            self._pending = []
            self._certify(scale, error)

    def _solved(self, x: np.ndarray, m: int) -> list[tuple[np.ndarray, str]]:
        """The answers of the solver at x (n, d), each with the reason why it failed, if it did."""
        work = partial(_numbered, self._solver, m, self._retries)
        found: dict[int, tuple[np.ndarray, str]] = {}
        with connect(self._on if len(x) else None) as client:
            for number, answer, reason in each(client, work, list(enumerate(x))):
                found[number] = answer, reason
        return [found[number] for number in range(len(x))]

    def _error(self, mean: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The largest error of each row over its tolerance; infinite for predictions that are not finite."""
        ratio = np.abs(mean - y) / self._tolerance
        return np.where(np.isfinite(ratio), ratio, np.inf).max(axis=-1)

    def _write(self, x: np.ndarray, answers: Answers, seconds: float) -> None:
        """Append one line for each answer to the log."""
        if self._log is None:
            return
        shared = {"seconds": seconds, "certificate": asdict(self.certificate)}
        lines = []
        for row in range(len(answers)):
            line = {"x": x[row].tolist(), "y": answers.y[row].tolist(), "by": str(answers.by[row])}
            line |= {"scale": float(answers.scale[row]), "error": float(answers.error[row])}
            line |= {"reason": answers.reasons.get(row, ""), "time": time.time()} | shared
            lines.append(json.dumps(line))
        with open(self._log, "a", encoding="utf-8") as file:
            file.write("\n".join([*lines, ""]))


def _scale(prediction: Prediction) -> np.ndarray:
    """The largest scale of each row; 0 without a scale, so that the surrogate is served or not as a whole."""
    if prediction.scale is None:
        return np.zeros(len(prediction))
    return to_numpy(prediction.scale).astype(float).reshape(len(prediction), -1).max(axis=1)


def _numbered(
    solver: Callable[[np.ndarray], Any], m: int, retries: int, case: tuple[int, np.ndarray]
) -> tuple[int, np.ndarray, str]:
    """The answer at one numbered x."""
    number, x = case
    return (number, *solved(solver, x, m, retries))
