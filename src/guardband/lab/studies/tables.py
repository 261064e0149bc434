"""Tables of results: each method over its training runs, compared with the exact law."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from guardband.base.files import write_text
from guardband.base.limits import COUNTS, printable
from guardband.conformal.laws import CoverageLaw, tails, total_counts
from guardband.lab.studies import format1
from guardband.lab.studies.base import Result
from guardband.metrics import acd_floor

AT = "0.95"
ALARM = 1e-3
"""The probability that any cell of a valid study is reported as broken."""


@dataclass(frozen=True)
class MethodRow:
    """One method in one experiment: its results over training seeds."""

    experiment: str
    method: str
    results: Sequence[Result]

    @property
    def cell(self) -> Result:
        """The inputs, equal for all seeds except for the training seed."""
        return self.results[0]["cell"]

    @property
    def levels(self) -> list[str]:
        """The levels of the coverage curves."""
        return self.cell["levels"]

    @property
    def has_before(self) -> bool:
        """Whether there is a band before calibration."""
        return "before" in self.results[0]["found"]

    def find(self, *path: str) -> np.ndarray:
        """Return one measured number of each seed, (seeds,), NaN if it is missing."""
        return np.array([_at(result["found"], path) for result in self.results], dtype=float)

    def curves(self, *path: str) -> np.ndarray:
        """Return the coverage for each seed and level, (seeds, levels): after calibration, or at a path."""
        parts = [_part(result["found"], path) for result in self.results]
        return np.array([np.array(part["covered"]) / part["points"] for part in parts])

    def coverage(self, *path: str) -> np.ndarray:
        """Return the coverage for each seed at 95 %, or at the highest level if 95 % is missing."""
        return self.curves(*path)[:, self.levels.index(AT) if AT in self.levels else -1]

    @cached_property
    def seconds(self) -> dict[str, float]:
        """The median CPU seconds of training, predictor and evaluation."""
        parts = ("training", "predictor", "evaluation")
        return {part: float(np.median([r["seconds"][part] for r in self.results])) for part in parts}


def rows(results: Iterable[Result]) -> list[MethodRow]:
    """Group results by experiment and method, in the given order."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        sizes = [result["cell"].get(size, 1) for size in ("cal", "test", "draws")]
        if not all(isinstance(size, int) and 0 < size <= COUNTS for size in sizes):
            raise ValueError(
                f"Result {result['key']} should have 1 to {COUNTS} points and draws, got {sizes}."
            )
        groups.setdefault((result["cell"]["experiment"], result["cell"]["method"]), []).append(result)
    return [MethodRow(experiment, method, its) for (experiment, method), its in groups.items()]


def broken(results: Sequence[Result]) -> dict[str, float]:
    """Return the cells whose coverage contradicts the exact law at any level, with the p-value.

    One in a thousand valid studies has such a cell. Cells without a law (localized) are left out.
    """
    same_law: dict[tuple[tuple[tuple[int, ...], ...], int], list[tuple[str, int]]] = {}
    for result in results:
        known = laws(result)
        for pieces, covered in zip(known, result["found"]["covered"], strict=True) if known else ():
            sizes = tuple(tuple(piece) for piece in pieces), result["cell"]["draws"]
            same_law.setdefault(sizes, []).append((result["key"], covered))
    bound = ALARM / max(1, 2 * sum(map(len, same_law.values())))
    worst: dict[str, float] = {}
    for (pieces, draws), counts in same_law.items():
        if not 0 < draws * sum(m for _, _, m in pieces) <= COUNTS:
            raise ValueError(f"Result {counts[0][0]} should count 1 to {COUNTS} points, got {draws} draws.")
        law = total_counts([(CoverageLaw(k, n), m) for k, n, m in pieces], repeats=draws)
        for key, covered in counts:
            p = min(tails(law, covered))
            if p < bound:
                worst[key] = min(p, worst.get(key, 1.0))
    return worst


def laws(result: Result) -> list[list[list[int]]] | None:
    """Return k, n and m of all parts of the law of one draw at each level, or None without a law."""
    return result["found"]["laws"] if "laws" in result["found"] else format1.laws(result["cell"])


def has_law(result: Result) -> bool:
    """Whether the coverage of a cell follows an exact law."""
    return laws(result) is not None


def spread(values: np.ndarray, digits: str = ".3f") -> str:
    """Return the median with the range as text, or "nan" without values."""
    if np.isnan(values).all():
        return "nan"
    low, middle, high = (format(f(values), digits) for f in (np.nanmin, np.nanmedian, np.nanmax))
    return middle if low == high else f"{middle} ({low} to {high})"


def write_page(results: Sequence[Result], folder: Path) -> None:
    """Write `README.md` with one table per experiment."""
    lines = [
        "# Results",
        "",
        "Medians over training seeds (with their range), means over recalibrations, at 95 % (or at the "
        "highest level, if 95 % is not among the levels).",
    ]
    bad, grouped = broken(results), rows(results)
    differ = differences({row.experiment: row.cell["training"] for row in grouped})
    for experiment, text in differ.items():
        mine = [row for row in grouped if row.experiment == experiment]
        lines += ["", f"## {experiment}{text and f': {text}'}", "", *table(mine, bad)]
    write_text(folder / "README.md", printable("\n".join(lines)) + "\n")


def differences(trainings: Mapping[str, object]) -> dict[str, str]:
    """Return the settings in which experiments on the same problem differ: `n = 60, noise = 0.1`.

    >>> poisson = {"problem": {"kind": "Poisson1D"}, "n": 60}
    >>> differences({"a": poisson | {"noise": 0.1}, "b": poisson | {"noise": 0.2}})
    {'a': 'noise = 0.1', 'b': 'noise = 0.2'}
    """
    settings = {name: dict(_settings(training)) for name, training in trainings.items()}
    texts = dict.fromkeys(trainings, "")
    for name, its in settings.items():
        related = [other for other in settings.values() if other.get("problem") == its.get("problem")]
        keys = dict.fromkeys(key for other in related for key in other)
        differ = [key for key in keys if len({other.get(key, "none") for other in related}) > 1]
        parts = [f"{key} = {its.get(key, 'none')}" for key in differ if key != "seed"]
        texts[name] = ", ".join(parts[:SHOWN]) + (", ..." if len(parts) > SHOWN else "")
    return texts


SHOWN = 6
"""The number of differing settings in a heading."""


def _settings(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the settings of a training by name as text, with the kind of a problem as its value."""
    if not isinstance(value, Mapping):
        yield name, " x ".join(map(str, value)) if isinstance(value, list) else str(value)
        return
    for key, part in value.items():
        if key == "kind":
            yield name or key, str(part).rpartition(".")[2]
        else:
            yield from _settings(part, key)


def table(mine: Sequence[MethodRow], bad: dict[str, float]) -> Iterator[str]:
    """Yield one experiment as a Markdown table, after a line on its sizes."""
    cell = mine[0].cell
    floor = acd_floor(cell["cal"], cell["test"])
    yield (
        f"{cell['cal']} calibration and {cell['test']} test points, {cell['draws']} recalibrations per seed"
        f"{_noise(cell)}. "
        f"A perfectly valid band has an ACD of {floor.mean:.3f} on average, {floor.low:.3f} to "
        f"{floor.high:.3f} in 95 % of single experiments."
    )
    yield ""
    yield (
        "| method | seeds | relative L2, % | coverage before | coverage after | the law | ACD before | "
        "ACD after | width before | width after | truth covered | CPU s |"
    )
    yield "|" + "---|" * 12
    for row in mine:
        before = (
            (
                spread(row.coverage("before")),
                spread(row.find("before", "acd")),
                spread(row.find("before", "width")),
            )
            if row.has_before
            else ("-", "-", "-")
        )
        infinite = row.find("infinite").mean()
        width = spread(row.find("width")) + (f", {infinite:.0%} infinite" if infinite else "")
        cost = row.seconds["training"] + row.seconds["predictor"]
        yield (
            f"| {row.method} | {len(row.results)} | {spread(100 * row.find('l2'), '.2f')} | {before[0]} | "
            f"{row.coverage().mean():.4f} | {verdict(row, bad)} | {before[1]} | {acd_after(row)} | "
            f"{before[2]} | {width} | {spread(row.find('truth'))} | {cost:.0f} |"
        )


def _noise(cell: Result) -> str:
    """Return the noise of a cell as text, if it is a number."""
    noise = cell.get("training", {}).get("noise")
    return f", noise {noise:g}" if isinstance(noise, int | float) else ""


def verdict(row: MethodRow, bad: dict[str, float]) -> str:
    """Return whether the exact law holds for all seeds of a method."""
    if not has_law(row.results[0]):
        return "-"
    wrong = [bad[result["key"]] for result in row.results if result["key"] in bad]
    return f"BROKEN (p = {min(wrong):.1g})" if wrong else "holds"


def acd_after(row: MethodRow) -> str:
    """Return the ACD after calibration, if there are several levels."""
    return spread(row.find("acd")) if len(row.levels) > 1 else "-"


def _part(found: Result, path: Sequence[str]) -> Result:
    for name in path:
        found = found[name]
    return found


def _at(found: Result, path: Sequence[str]) -> float:
    value: Any = _part(found, path)
    return np.nan if value is None else value
