"""The parts of the command line that need torch: `guardband identify`, and scales from networks.

`identify` reads a problem and measurements from files, and writes the coefficients and a report.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import torch

import guardband as gb
from guardband import pinn, tables
from guardband.base.files import sha256
from guardband.cli.choices import NOISES
from guardband.cli.errors import note
from guardband.cli.models import matrix
from guardband.pinn.inverse.family import DRAWN, has_solution
from guardband.pinn.inverse.next_points import CAUTION, NextPoints
from guardband.reports.page import refuse_other_endings

CANDIDATES = 256
"""The number of points in the domain from which --next chooses."""

Found = tuple[dict[str, object], str]
"""The result as JSON, and the same result as text."""


def identify(
    problem: Path,
    data: Path,
    out: Path,
    *,
    noise: str,
    level: str,
    folder: Path | None,
    delta: float | None,
    seed: int,
    next_readings: int = 0,
    candidates: Path | None = None,
) -> Found:
    """Solve the family, estimate its coefficients, and write the report."""
    refuse_other_endings(out)
    if noise not in NOISES:
        raise ValueError(f"--noise should be {', '.join(NOISES)}, got {noise!r}.")
    if candidates is not None and not next_readings:
        raise ValueError("--candidates needs --next, the number of points to choose, such as --next 5.")
    file = ProblemFile.read(problem)
    readings = file.readings(data)
    solved = file.solved(folder)
    off = delta if noise == "gaussian" or delta is not None else file.delta(solved, readings)
    estimates = pinn.coefficients(solved, readings, noise=noise, level=level, delta=off, seed=seed)
    facts = {path.name: f"sha256 {sha256(path)}" for path in (problem, data)}
    further = file.next_points(solved, readings, next_readings, candidates) if next_readings else None
    gb.report(estimates, path=out, facts=facts, next_points=further)
    lines = [str(estimates), *_places(further), f"Written to {out}."]
    found = _found(estimates, out)
    if further is not None:
        found["next"] = [dict(zip(further.axes, at, strict=True)) for at in further.x.tolist()]
    return found, "\n".join(lines)


def _places(further: NextPoints | None) -> Iterator[str]:
    """The points for further measurements, with a caution about the guarantee."""
    if further is None:
        return
    yield "The most informative points for further readings, in this order:"
    for place in further.places:
        yield f"  {', '.join(f'{axis} = {value}' for axis, value in zip(further.axes, place, strict=True))}"
    yield CAUTION


def _found(estimates: pinn.Estimates, out: Path) -> dict[str, object]:
    region = estimates.region
    ends = {name: region.interval(name) for name in region.names if len(region.values)}
    return {
        "file": str(out),
        "values": dict(estimates.values),
        "intervals": {name: list(pair) for name, pair in ends.items()},
        "searched": not region.drawn,
        "level": region.level,
        "method": region.test.method,
        "asymptotic": region.test.asymptotic,
        "delta": region.delta,
        "empty": region.nothing_found,
        "informed": dict(region.informed),
        "doubted": estimates.doubt.alarm,
        "p_value": estimates.doubt.p_value,
        "said": str(estimates),
    }


def predictor_of(model: Any, scale: str, training_data: gb.Observations | None) -> gb.Predictor:
    """The predictor of a network for a scale by name, for `guardband calibrate`."""
    if scale == "latent-distance":
        x_train = None if training_data is None else training_data.x
        return pinn.predictors.LatentDistance(model, x_train, training_data=training_data)
    if scale == "dropout":
        return pinn.predictors.Dropout(model, training_data=training_data)
    if not isinstance(model, pinn.Fitted):
        raise ValueError(
            f"--scale {scale} uses the equation, so the model should be the result of `pinn.fit`."
        )
    return (pinn.predictors.Laplace if scale == "laplace" else pinn.predictors.LastLayerLaplace)(model)


@dataclass(frozen=True)
class ProblemFile:
    """The contents of a problem file: a family, and optionally a solver and a recipe."""

    path: Path
    family: pinn.Family
    given: pinn.SolvedFamily | None
    recipe: pinn.Recipe | None

    @classmethod
    def read(cls, path: Path) -> ProblemFile:
        """Run a file and read the names `family`, `solver` and `recipe` from it."""
        names = _names_in(path)
        family, solver, recipe = _family(path, names), names.get("solver"), names.get("recipe")
        if recipe is not None and not isinstance(recipe, pinn.Recipe):
            raise ValueError(f"`recipe` in {path.name} should be a pinn.Recipe, got {type(recipe).__name__}.")
        if isinstance(family, pinn.SolvedFamily):
            return cls(path, family.family, family, recipe)
        if solver is not None:
            return cls(path, family, family.solved_by(solver), recipe)
        return cls(path, family, None, recipe)

    def readings(self, path: Path) -> gb.Observations:
        """The measurements, by the names of axes and outputs; refuse measurements outside the domain."""
        table, names = tables.read(path), self.family.names
        outputs = [name for name in names.outputs if name in table.names]
        missing = [name for name in names.axes if name not in table.names]
        if missing or not outputs:
            kind = type(self.family.problem).__name__
            lacks = f"column `{missing[0]}`" if missing else "column of an output"
            raise ValueError(
                f"{path} has no {lacks}; its columns are {', '.join(table.names)}. The axes of {kind} are "
                f"{', '.join(names.axes)}, and its outputs are {', '.join(names.outputs)}. Name the columns "
                "accordingly."
            )
        x, y = matrix(table, [*names.axes], path), matrix(table, outputs, path)
        if others := [name for name in table.names if name not in (*names.axes, *outputs)]:
            note(f"Ignored columns, which are neither axes nor outputs: {', '.join(others)}.")
        outside = self.family.own.domain.clearly_outside(x)
        if outside.any():
            first = ", ".join(f"{a} = {v:g}" for a, v in zip(names.axes, x[outside][0], strict=True))
            raise ValueError(
                f"{path}: {int(outside.sum())} of {len(x)} readings lie outside the domain, the first at "
                f"{first}. Remove these readings, or enlarge the domain of the problem."
            )
        return gb.Observations(x, y, outputs=outputs)

    def solved(self, folder: Path | None) -> pinn.SolvedFamily:
        """The family, solved by its solver, by its exact solution, or by a stored or new network."""
        if self.given is not None and folder is None:
            return self.given
        if folder is not None and folder.exists():
            return self._kept(folder)
        if folder is None and has_solution(self.family.problem, self.family.own.domain.quasi(1).double()):
            return self.family.exact()
        solved = self.family.fit(recipe=self.recipe)
        if folder is not None:
            gb.save(solved, folder)
            note(f"The trained family is stored in {folder}; pass the same --family to load it.")
        return solved

    def _kept(self, folder: Path) -> pinn.SolvedFamily:
        try:
            solved = gb.load(folder, pinn.SolvedFamily, problem=self.family.own)
        except TypeError:  # the folder contains a problem from the catalogue
            solved = gb.load(folder, pinn.SolvedFamily)
        if dict(solved.ranges) != dict(self.family.ranges) or solved.family.own != self.family.own:
            raise ValueError(
                f"{folder} contains {solved.family!r}, but {self.path.name} defines {self.family!r}. "
                "Use a different folder, or the same problem and ranges."
            )
        return solved

    def next_points(
        self, solved: pinn.SolvedFamily, data: gb.Observations, n: int, path: Path | None
    ) -> NextPoints:
        """The most informative points for further measurements, from a file or the whole domain."""
        if path is None:
            places = self.family.own.domain.quasi(max(CANDIDATES, n), dtype=torch.float64).numpy()
        else:
            places = matrix(tables.read(path), list(self.family.names.axes), path)
        return pinn.next_points(solved, places, n, data=data)

    def delta(self, solved: pinn.SolvedFamily, data: gb.Observations) -> float | None:
        """The error of a network at the measurements, by a solver, the exact solution, or training runs."""
        if solved.solver.certain or has_solution(self.family.problem, data.x):
            return None
        if self.given is not None:
            return solved.check(data.x, self._by_solver)
        n = DRAWN + len(self.family.corners)
        note(
            f"The error of the network is estimated by {n} training runs at single coefficients, which take "
            f"a minute or more. To avoid them, define a `solver` in {self.path.name} or pass --delta."
        )
        return solved.check(data.x, recipe=self.recipe)

    def _by_solver(self, x: Any, **coefficients: float) -> Any:
        assert self.given is not None
        return self.given(x, [list(coefficients.values())])[0]


def _names_in(path: Path) -> dict[str, Any]:
    """All names that a Python file defines; errors are reported with their line."""
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(
            f"The problem should be a Python file, such as problem.py, but {path} is not a file."
        )
    if (
        str(path.parent.resolve()) not in sys.path
    ):  # lets the file import modules from its folder, like a script
        sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(f"_identified_{path.stem}", path.resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == spec.origin]
        line = getattr(error, "lineno", None) or (lines[-1] if lines else 1)
        message = str(error) if type(error) in (ValueError, TypeError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{path}, line {line}: {message}") from error
    return vars(module)


def _family(path: Path, names: dict[str, Any]) -> pinn.Family | pinn.SolvedFamily:
    kinds = pinn.Family | pinn.SolvedFamily
    if isinstance(names.get("family"), kinds):
        return names["family"]
    found = [value for value in names.values() if isinstance(value, kinds)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(f"{path} defines {len(found)} families. Give one of them the name `family`.")
    raise ValueError(
        f"{path} defines no family. Declare the unknown coefficients and their ranges, such as "
        f"{_suggested(names)}."
    )


def _suggested(names: dict[str, Any]) -> str:
    """A line of code that would define a family with the problem in the file."""
    for name, value in names.items():
        own = isinstance(value, type) and issubclass(value, pinn.Problem) and value is not pinn.Problem
        if own and is_dataclass(value) and fields(value):
            return f"family = pinn.Family({name}, {fields(value)[0].name}=(LOW, HIGH))"
    return "family = pinn.Family(Rod, diffusivity=(0.02, 0.2)), for a problem that is a dataclass"
