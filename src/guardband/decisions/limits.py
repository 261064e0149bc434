"""Tolerance limits of a quantity: numbers with a side, or strings such as "p_drop <= 120"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from guardband.base.arrays import ArrayLike, floats, to_numpy
from guardband.conformal.scores import Side
from guardband.values import Names

Limit: TypeAlias = "float | ArrayLike | str | Sequence[str] | ToleranceLimits"
"""A limit: a number with `side=`, one number per output, a string such as "p_drop <= 120", or several."""

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
SENTENCE = re.compile(
    rf"\s*(?:(?P<low>{NUMBER})\s*<=\s*)?(?P<name>.+?)\s*(?:(?P<sign><=|>=)\s*(?P<high>{NUMBER})\s*)?"
)


@dataclass(frozen=True, eq=False)
class ToleranceLimits:
    """The tolerance interval of each output; both ends are conforming.

    Parameters
    ----------
    lower, upper
        Ends of the tolerance intervals, shape (m,) or one per query, shape (n, m); infinite where there is
        none.
    outputs
        Names of the m outputs.

    Examples
    --------
    >>> from guardband.decisions import ToleranceLimits
    >>> limits = ToleranceLimits.parse(
    ...     ["p_drop <= 120", "280 <= T <= 360"], ("T", "p_drop")
    ... )
    >>> limits.lower, limits.upper, limits.sides
    (array([280., -inf]), array([360., 120.]), ('both', 'upper'))
    """

    lower: np.ndarray
    upper: np.ndarray
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        if np.isnan(self.lower).any() or np.isnan(self.upper).any():
            raise ValueError("A limit should be a number, got NaN.")
        if (self.lower > self.upper).any():
            raise ValueError(f"A lower limit lies above its upper limit: {self}.")
        if (self.lower == np.inf).any() or (self.upper == -np.inf).any():
            raise ValueError(
                "A lower limit of inf or an upper limit of -inf excludes every value, got "
                f"lower={self.lower} and upper={self.upper}. Use -inf or inf where there is no limit."
            )
        if not self.limited.any():
            raise ValueError("At least one limit is needed, such as 'p_drop <= 120'.")

    @classmethod
    def of(cls, limit: Limit, side: Side, outputs: Sequence[str]) -> ToleranceLimits:
        """Return limits from numbers with a side, from strings, or from limits.

        Parameters
        ----------
        limit
            The limit as the user wrote it.
        side
            The side of numbers, "upper" or "lower".
        outputs
            Names of the outputs.

        Returns
        -------
        ToleranceLimits
            The limits of all outputs.
        """
        if isinstance(limit, ToleranceLimits):
            if limit.outputs != tuple(outputs):
                raise ValueError(
                    f"The limits are on {', '.join(limit.outputs)}, and the outputs are {', '.join(outputs)}."
                )
            return limit
        if isinstance(limit, str):
            return cls.parse([limit], outputs)
        if isinstance(limit, Sequence) and any(isinstance(one, str) for one in limit):
            return cls.parse(list(limit), outputs)  # type: ignore[arg-type]
        if side not in ("upper", "lower"):
            raise ValueError(f"`side` should be 'upper' or 'lower', got {side!r}.")
        values = np.asarray(to_numpy(floats(limit, "limit")), dtype=float)
        m = len(outputs)
        if values.ndim == 1 and m == 1 and len(values) > 1:
            values = values[:, None]
        if values.ndim > 2 or (values.ndim and values.shape[-1] != m):
            raise ValueError(
                f"`limit` should be one number, one per output ({m}) or one row per query (n, {m}), got "
                f"shape "
                f"{values.shape}."
            )
        values = (
            np.broadcast_to(values, (*values.shape[:-1], m)) if values.ndim else np.full(m, float(values))
        )
        none = np.full(values.shape, np.inf)
        lower, upper = (-none, values) if side == "upper" else (values, none)
        return cls(lower, upper, tuple(outputs))

    @classmethod
    def parse(cls, sentences: Sequence[str], outputs: Sequence[str]) -> ToleranceLimits:
        """Return limits from strings such as "p_drop <= 120" and "280 <= T <= 360".

        Parameters
        ----------
        sentences
            One string per limited output.
        outputs
            Names of all outputs.

        Returns
        -------
        ToleranceLimits
            The limits of all outputs.
        """
        names = Names((), tuple(outputs))
        lower, upper = np.full(len(outputs), -np.inf), np.full(len(outputs), np.inf)
        for sentence in sentences:
            found = SENTENCE.fullmatch(sentence)
            if found is None or (found["low"] is None and found["sign"] is None) or "<" in found["name"]:
                raise ValueError(
                    f"A limit is written as 'p_drop <= 120', 'T >= 280' or '280 <= T <= 360', got "
                    f"{sentence!r}."
                )
            j = names.positions(found["name"])[0]
            if found["low"] is not None and found["sign"] == ">=":
                raise ValueError(f"Both limits should point in one direction, got {sentence!r}.")
            for end, value, sense in (
                (lower, found["low"], max),
                (
                    lower if found["sign"] == ">=" else upper,
                    found["high"],
                    max if found["sign"] == ">=" else min,
                ),
            ):
                if value is not None:
                    if np.isfinite(end[j]):
                        raise ValueError(f"There are two limits on the same side of {found['name']!r}.")
                    end[j] = sense(end[j], float(value))
        return cls(lower, upper, tuple(outputs))

    @property
    def limited(self) -> np.ndarray:
        """Which outputs have a limit, (m,) booleans."""
        return self._at_some(np.isfinite(self.lower) | np.isfinite(self.upper))

    @property
    def sides(self) -> tuple[Side, ...]:
        """The side of the limits of each output; "none" for outputs without a limit."""
        words: dict[tuple[bool, bool], Side] = {
            (False, False): "none",
            (True, False): "lower",
            (False, True): "upper",
            (True, True): "both",
        }
        low, high = self._at_some(np.isfinite(self.lower)), self._at_some(np.isfinite(self.upper))
        return tuple(words[bool(a), bool(b)] for a, b in zip(low, high, strict=True))

    def met_by(self, y: np.ndarray) -> np.ndarray:
        """Return which rows meet all limits.

        Parameters
        ----------
        y
            Quantities, shape (n, m); NaN meets no limit.

        Returns
        -------
        np.ndarray
            Booleans, shape (n,).
        """
        return np.asarray(((self.lower <= y) & (y <= self.upper)).all(axis=-1))

    def __str__(self) -> str:
        words = []
        for j, name in enumerate(self.outputs):
            low, high = self.lower[..., j], self.upper[..., j]
            left = f"{_number(low)} <= " if np.isfinite(low).any() else ""
            right = f" <= {_number(high)}" if np.isfinite(high).any() else ""
            if left and not right:
                words.append(f"{name} >= {_number(low)}")
            elif left or right:
                words.append(f"{left}{name}{right}")
        return ", ".join(words)

    def _at_some(self, known: np.ndarray) -> np.ndarray:
        return np.asarray(known.reshape(-1, known.shape[-1]).any(axis=0))


def _number(values: np.ndarray) -> str:
    """One limit, or that there is one for each query."""
    several = np.unique(values)
    return f"{several[0]:g}" if len(several) == 1 else "its limit"
