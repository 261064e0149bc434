"""The parts of the command line that need torch: `guardband identify`, and scales of networks.

`identify` goes from a problem and readings in files to coefficients and their report.
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
from guardband.pinn.inverse.checking import DRAWN, has_solution
from guardband.pinn.inverse.next_points import SAID, NextPoints
from guardband.reports.page import refuse_other_endings

CANDIDATES = 256
"""So many places in the domain --next chooses from."""

Found = tuple[dict[str, Any], str]
"""What was found, for programs, and the same in words."""


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
    """Solve the family, find its coefficients, and write the page."""
    refuse_other_endings(out)
    if noise not in NOISES:
        raise ValueError(f"--noise should be {', '.join(NOISES)}, got {noise!r}.")
    if candidates is not None and not next_readings:
        raise ValueError("--candidates are the places that --next chooses from: say how many, --next 5.")
    said = ProblemFile.read(problem)
    readings = said.readings(data)
    solved = said.solved(folder)
    off = delta if noise == "gaussian" or delta is not None else said.delta(solved, readings)
    estimates = pinn.coefficients(solved, readings, noise=noise, level=level, delta=off, seed=seed)
    facts = {file.name: f"sha256 {sha256(file)}" for file in (problem, data)}
    further = said.next_points(solved, readings, next_readings, candidates) if next_readings else None
    gb.report(estimates, path=out, facts=facts, next_points=further)
    lines = [str(estimates), *_places(further), f"Written to {out}."]
    found = _found(estimates, out)
    if further is not None:
        found["next"] = [dict(zip(further.axes, at, strict=True)) for at in further.x.tolist()]
    return found, "\n".join(lines)


def _places(further: NextPoints | None) -> Iterator[str]:
    """The places for further readings, and what they do to the promise."""
    if further is None:
        return
    yield "Readings would tell most at, in this order:"
    for place in further.places:
        yield f"  {', '.join(f'{axis} = {value}' for axis, value in zip(further.axes, place, strict=True))}"
    yield SAID


def _found(estimates: pinn.Estimates, out: Path) -> dict[str, Any]:
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
        "empty": region.drawn and region.empty,
        "informed": dict(region.informed),
        "doubted": estimates.doubt.alarm,
        "p_value": estimates.doubt.p_value,
        "said": str(estimates),
    }


def predictor_of(model: Any, scale: str, training_data: gb.Observations | None) -> gb.Predictor:
    """The predictor that a word for a scale makes of a network, for `guardband calibrate`."""
    if scale == "latent-distance":
        x_train = None if training_data is None else training_data.x
        return pinn.predictors.LatentDistance(model, x_train, training_data=training_data)
    if scale == "dropout":
        return pinn.predictors.Dropout(model, training_data=training_data)
    if not isinstance(model, pinn.Fitted):
        raise ValueError(f"--scale {scale} knows the equation: it needs the result of `pinn.fit`.")
    return (pinn.predictors.Laplace if scale == "laplace" else pinn.predictors.LastLayerLaplace)(model)


@dataclass(frozen=True)
class ProblemFile:
    """What a file of Python says: a family, and how it may be solved."""

    path: Path
    family: pinn.Family
    given: pinn.SolvedFamily | None
    recipe: pinn.Recipe | None

    @classmethod
    def read(cls, path: Path) -> ProblemFile:
        """Run a file, and take the names `family`, `solver` and `recipe` from it."""
        names = _ran(path)
        family, solver, recipe = _family(path, names), names.get("solver"), names.get("recipe")
        if recipe is not None and not isinstance(recipe, pinn.Recipe):
            raise ValueError(f"`recipe` in {path.name} should be a pinn.Recipe, got {type(recipe).__name__}.")
        if isinstance(family, pinn.SolvedFamily):
            return cls(path, family.family, family, recipe)
        if solver is not None:
            return cls(path, family, family.solved_by(solver), recipe)
        return cls(path, family, None, recipe)

    def readings(self, path: Path) -> gb.Observations:
        """The readings, by the names of axes and outputs; those outside of the domain are refused."""
        table, names = tables.read(path), self.family.names
        outputs = [name for name in names.outputs if name in table.names]
        missing = [name for name in names.axes if name not in table.names]
        if missing or not outputs:
            kind = type(self.family.problem).__name__
            lacks = f"column `{missing[0]}`" if missing else "column of an output"
            raise ValueError(
                f"{path} has no {lacks}; it has {', '.join(table.names)}. The axes of {kind} are "
                f"{', '.join(names.axes)}, what can be read is {', '.join(names.outputs)}: call columns so."
            )
        x, y = matrix(table, [*names.axes], path), matrix(table, outputs, path)
        if others := [name for name in table.names if name not in (*names.axes, *outputs)]:
            note(f"Columns that are neither axes nor outputs are left out: {', '.join(others)}.")
        outside = self.family.own.domain.clearly_outside(x)
        if outside.any():
            first = ", ".join(f"{a} = {v:g}" for a, v in zip(names.axes, x[outside][0], strict=True))
            raise ValueError(
                f"{path}: {int(outside.sum())} of {len(x)} readings lie outside of the domain, where the "
                f"equation says nothing, the first at {first}. Leave them out, or make the domain of the "
                "problem larger."
            )
        return gb.Observations(x, y, outputs=outputs)

    def solved(self, folder: Path | None) -> pinn.SolvedFamily:
        """The family solved: by its solver, by its own solution, or by a network, in a folder or new."""
        if self.given is not None and folder is None:
            return self.given
        if folder is not None and folder.exists():
            return self._kept(folder)
        if folder is None and has_solution(self.family.problem, self.family.own.domain.quasi(1).double()):
            return self.family.exact()
        solved = self.family.fit(recipe=self.recipe)
        if folder is not None:
            gb.save(solved, folder)
            note(f"The trained family is kept in {folder}; the same --family takes it from there.")
        return solved

    def _kept(self, folder: Path) -> pinn.SolvedFamily:
        try:
            solved = gb.load(folder, pinn.SolvedFamily, problem=self.family.own)
        except TypeError:  # a problem that is known here was kept with it
            solved = gb.load(folder, pinn.SolvedFamily)
        if dict(solved.ranges) != dict(self.family.ranges) or solved.family.own != self.family.own:
            raise ValueError(
                f"{folder} holds {solved.family!r}, {self.path.name} asks for {self.family!r}. Train it "
                "again into another folder, or say the same problem and ranges."
            )
        return solved

    def next_points(
        self, solved: pinn.SolvedFamily, data: gb.Observations, n: int, path: Path | None
    ) -> NextPoints:
        """Where further readings would tell most: places of a file, or of the whole domain."""
        if path is None:
            places = self.family.own.domain.quasi(max(CANDIDATES, n), dtype=torch.float64).numpy()
        else:
            places = matrix(tables.read(path), list(self.family.names.axes), path)
        return pinn.next_points(solved, places, n, data=data)

    def delta(self, solved: pinn.SolvedFamily, data: gb.Observations) -> float | None:
        """How far a network is off at readings: by the solver, by the solution, or by other trainings."""
        if solved.solver.certain or has_solution(self.family.problem, data.x):
            return None
        if self.given is not None:
            return solved.check(data.x, self._by_solver)
        n = DRAWN + len(self.family.corners)
        note(
            f"How far is the network off? It is held against {n} trainings at single coefficients, which "
            f"take a minute or more. A `solver` in {self.path.name} spares them, and so does --delta if you "
            "know it."
        )
        return solved.check(data.x, recipe=self.recipe)

    def _by_solver(self, x: Any, **coefficients: float) -> Any:
        assert self.given is not None
        return self.given(x, [list(coefficients.values())])[0]


def _ran(path: Path) -> dict[str, Any]:
    """All names that a file of Python makes; what it raises is told with its line."""
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(f"A problem is a file of Python, such as problem.py; there is none at {path}.")
    if str(path.parent.resolve()) not in sys.path:  # what it imports lies beside it, as beside any script
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
        said = str(error) if type(error) in (ValueError, TypeError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{path}, line {line}: {said}") from error
    return vars(module)


def _family(path: Path, names: dict[str, Any]) -> pinn.Family | pinn.SolvedFamily:
    kinds = pinn.Family | pinn.SolvedFamily
    if isinstance(names.get("family"), kinds):
        return names["family"]
    found = [value for value in names.values() if isinstance(value, kinds)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(f"{path} makes {len(found)} families. Call the one to be used `family`.")
    raise ValueError(
        f"{path} makes no family. Say which coefficients are unknown, and between which values they lie: "
        f"{_suggested(names)}."
    )


def _suggested(names: dict[str, Any]) -> str:
    """A line that would make a family of what is there."""
    for name, value in names.items():
        own = isinstance(value, type) and issubclass(value, pinn.Problem) and value is not pinn.Problem
        if own and is_dataclass(value) and fields(value):
            return f"family = pinn.Family({name}, {fields(value)[0].name}=(LOW, HIGH))"
    return "family = pinn.Family(Rod, diffusivity=(0.02, 0.2)), of a problem that is a dataclass"
