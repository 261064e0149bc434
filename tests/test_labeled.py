"""Labeled inputs: another order of names gives bitwise equal results at every public call, or is refused."""

import inspect
import re
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.base.arrays import to_numpy
from helpers import Later, needs
from wings import pinn

pandas, polars, xarray = Later("pandas"), Later("polars"), Later("xarray")

AXES, OUTPUTS = ("x", "y", "t"), ("a", "b", "c")
KINDS = ("pandas", "polars", "xarray")
QUICK, TURNS = 4, 20
"""How many orders are tried in the default tier, and in all."""


class Drift(pinn.Problem):
    """Three tracers in a plane."""

    domain = pinn.Rectangle((0, 0), (1, 1)) * pinn.Time(0, 1)
    outputs = OUTPUTS

    def residual(self, x: Any, u: Any) -> Any:
        return {name: u[name].d("t") + u[name].d("x") for name in OUTPUTS}

    def conditions(self) -> list[Any]:
        return []


GENERATOR = np.random.default_rng(5)
X, Y = GENERATOR.uniform(size=(60, 3)), GENERATOR.normal(size=(60, 3)) * [1, 2, 3]
NEW, CELLS = slice(40, 60), {"x": np.linspace(0, 1, 3), "y": np.linspace(0, 1, 4), "t": np.linspace(0, 1, 5)}


def model(x: Any) -> Any:
    """Three outputs that change if the inputs are exchanged."""
    return np.asarray(x, dtype=float) @ np.array([[1.0, 0, 2], [0, 3, 1], [2, 0, -1]])


class Turned:
    """Creates tables of one kind, with shuffled columns and axes if a seed is given."""

    def __init__(self, kind: str, seed: int | None) -> None:
        self.kind = kind
        self.generator = None if seed is None else np.random.default_rng(seed)

    def order(self, names: Any) -> list[Any]:
        """The names in a shuffled order that differs from the original."""
        names, shuffled = list(names), list(names)
        while self.generator is not None and len(names) > 1 and shuffled == names:
            shuffled = [names[i] for i in self.generator.permutation(len(names))]
        return shuffled

    def __call__(self, values: Any, names: Any) -> Any:
        columns = dict(zip(names, np.asarray(values).T, strict=True))
        columns = {name: columns[name] for name in self.order(names)}
        if self.kind == "polars":
            return polars.DataFrame(columns)
        if self.kind == "pandas":
            return pandas.DataFrame(columns)
        array = xarray.DataArray(
            np.stack([*columns.values()], axis=1), dims=("point", "column"), coords={"column": [*columns]}
        )
        return array if self.generator is None else array.transpose("column", "point")

    def x(self, rows: slice = slice(0, 40)) -> Any:
        return self(X[rows], AXES)

    def y(self, rows: slice = slice(0, 40)) -> Any:
        return self(Y[rows], OUTPUTS)


def bits(*parts: Any) -> list[Any]:
    """Arrays as bytes; strings unchanged."""
    return [part if isinstance(part, str) else to_numpy(part).tobytes() for part in parts]


@cache
def plain(kind: str) -> Any:
    """A calibration on tables of one kind, of a model that uses positions."""
    made = Turned(kind, None)
    return gb.calibrate(model, made.x(), made.y())


@cache
def network() -> Any:
    return pinn.mlp(Drift(), [4])


@cache
def fitted() -> Any:
    heat = pinn.problems.Heat1D()
    return pinn.fit(heat, pinn.mlp(heat, [4]), recipe=pinn.Recipe(steps=1, finish=0), progress=False)


def calibrate(given: Turned) -> list[Any]:
    made = gb.calibrate(network(), given.x(), given.y())
    return bits(made.fingerprint()["scores"], made(given.x(NEW)).upper, made(X[NEW]).upper)


def calibrate_arrays(given: Turned) -> list[Any]:
    means = Turned(given.kind, None)(model(X[:40]), OUTPUTS)
    made = gb.calibrate_arrays(means, given.y(), given(abs(Y[:40]), OUTPUTS), x_cal=X[:40])
    prediction = gb.Prediction(X[NEW], model(X[NEW]), abs(Y[NEW]))
    return bits(made.band(prediction).upper, made.contains(prediction, given.y(NEW)))


def line(data: gb.Observations) -> Any:
    order = [list(data.names or AXES).index(name) for name in AXES]
    weights = np.linalg.lstsq(data.x, data.y, rcond=None)[0][order]
    return lambda x: x[:, order] @ weights


def calibrate_cross(given: Turned) -> list[Any]:
    base = Turned(given.kind, None)
    made = gb.calibration.calibrate_cross(line, (base.x(), Y[:40, :1]), folds=4)
    return bits(made(given.x(NEW), level=0.6).upper, made.predict(given.x(NEW)).each)


def tangent(given: Turned) -> list[Any]:
    x = X[:20, :2]
    made = pinn.Tangent(fitted(), noise=0.5, physics=0.5).calibrate(given(x, ("x", "t")), Y[:20, :1])
    return bits(made(given(X[NEW, :2], ("x", "t"))).upper, fitted()(given(x, ("x", "t"))))


def asked(given: Turned) -> list[Any]:
    made, x, y = plain(given.kind), given.x(NEW), given.y(NEW)
    found = made(x).upper, made.predict(x).mean, made.contains(x, y), made.targets(y)
    return bits(*found, made.contains_at(made.predict(x), y, [0.9]), made.predict(X[NEW]).mean)


def checked(given: Turned) -> list[Any]:
    return [str(gb.check(plain(given.kind), given.x(NEW)))]


def evaluated(given: Turned) -> list[Any]:
    found = gb.evaluate(plain(given.kind), given.x(NEW), given.y(NEW))
    return [str(found), str(found.by_range)]


def stable(page: str) -> list[str]:
    """The lines of a report without the time and the hash of the points."""
    return [line for line in page.splitlines() if not re.match(r"\|? ?(written|points of this page)", line)]


def reported(given: Turned, folder: Path) -> list[Any]:
    path = gb.report(plain(given.kind), given.x(NEW), given.y(NEW), path=folder / "page.md")
    return stable(path.read_text())


def chosen(given: Turned) -> list[Any]:
    base = Turned(given.kind, None)
    candidates = {"net": network(), "other": pinn.mlp(Drift(), [4], seed=1)}
    rows = base.x(NEW), base.y(NEW)
    found = gb.choose(candidates, calibrate=(given.x(), given.y()), choose=rows, level=0.5)
    return [found.name, *bits(found.calibrated(given.x(NEW)).upper)]


def parted(given: Turned) -> list[Any]:
    parts = gb.partition((given.x(), given.y()), train=0.5, calibrate=0.5)
    made = gb.calibrate(network(), *parts.calibrate)
    return bits(parts.indices["train"], made(X[NEW]).upper)


def decided(given: Turned) -> list[Any]:
    limits = [f"{OUTPUTS[0]} <= 0.1"]
    found = gb.decide(plain(given.kind), given.x(NEW), limits)
    chosen = gb.screen(plain(given.kind), given.x(NEW), limits, fdr=0.5)
    return bits(found.accepting.upper, found.rejecting.lower, chosen.p)


def over(given: Turned) -> list[Any]:
    grid = {name: CELLS[name] for name in given.order(CELLS)}
    points = gb.band_over(plain(given.kind), given.x(NEW)).compute()
    found = [gb.band_over(made, grid).compute() for made in (plain(given.kind), _on_arrays())]
    return bits(*(one[name] for one in [points, *found] for name in sorted(one)))


def _hybrid() -> gb.Hybrid:
    return gb.Hybrid(np.sin, np.sin, np.zeros((8, 2)), np.zeros((8, 2)), tolerance=1.0)


@cache
def _on_arrays() -> Any:
    return gb.calibrate(network(), X[:40], Y[:40])


def followed(given: Turned) -> list[Any]:
    one, other = (gb.Stream(plain(given.kind), level=0.8) for _ in range(2))
    found = one.follow(given.x(NEW), given.y(NEW))
    other.band(given.x(slice(40, 41)))
    outcome = other.update(given.y(slice(40, 41)))
    return bits(found.band.upper, found.missed, np.array(outcome.score))


def measured(given: Turned) -> list[Any]:
    band, y = plain(given.kind)(X[NEW]), given.y(NEW)
    scores = gb.metrics.coverage(band, y), gb.metrics.interval_score(band, y)
    return [*map(repr, scores), repr(gb.metrics.quantile_loss(band, y)), *bits(band.contains(y))]


def observed(given: Turned) -> list[Any]:
    data = gb.Observations(given.x(), given.y())
    recipe = pinn.Recipe(steps=1, finish=0)
    made = pinn.fit(Drift(), pinn.mlp(Drift(), [4]), data, recipe=recipe, progress=False)
    judged = pinn.verdict(Drift(), network(), gb.Observations(given.x(NEW), given.y(NEW)))
    return bits(made(X[NEW]), str(judged))


@cache
def family() -> Any:
    return pinn.Family(pinn.problems.Heat1D, diffusivity=(0.02, 0.2)).exact()


def sought(given: Turned) -> list[Any]:
    x = given(X[:20, :2], ("x", "t"))
    found = pinn.coefficients(family(), gb.Observations(x, Y[:20, :1]))
    at = family()(x, [[0.1]])
    return bits(pinn.next_points(family(), x, 2).x[:, :1], at, repr(found.values))


def of_sklearn(given: Turned) -> list[Any]:
    linear = pytest.importorskip("sklearn.linear_model")
    from guardband.integrations.sklearn import ConformalRegressor

    base = Turned(given.kind, None)
    made = ConformalRegressor(linear.LinearRegression(), calibration_size=0.5).fit(base.x(), Y[:40])
    interval = np.asarray(made.predict_interval(given.x(NEW), level=0.8), dtype=float)
    return bits(np.asarray(made.predict(given.x(NEW))), interval)


DOORS: dict[Callable[..., list[Any]], str] = {
    calibrate: "calibrate",
    calibrate_arrays: "calibrate_arrays",
    calibrate_cross: "calibrate_cross CrossValidated.predict",
    tangent: "Tangent.calibrate TangentCalibrated.predict",
    asked: """Calibrated.__call__ Calibrated.contains Calibrated.contains_at Calibrated.predict
        Calibrated.targets ScoreCalibrated.contains_at ScoreCalibrated.places ScoreCalibrated.predict""",
    checked: "check",
    evaluated: "evaluate",
    reported: "report",
    chosen: "choose Chosen.contains_at Chosen.predict",
    parted: "partition",
    decided: "decide screen",
    over: "band_over",
    followed: "Stream.band Stream.follow Stream.update",
    measured: "coverage interval_score quantile_loss ShareBand.share",
    observed: "fit verdict Observations",
    sought: """coefficients next_points SolvedFamily.__call__ SolvedFamily.check SolvedFamily.points
        Estimates.envelope""",
    of_sklearn: "ConformalRegressor.fit ConformalRegressor.predict ConformalRegressor.predict_interval",
}
"""For points with named columns: each test function and the public calls that it covers."""


REFUSED = {(of_sklearn, "xarray")}
"""Doors that refuse a kind of table in any order."""


HEAVY = (reported, observed)
"""Doors that train or draw: the default tier tries one order of each kind."""


def cases(doors: Any, kinds: Any) -> list[Any]:
    """Every entry point, kind and order; most of them belong to the slow tier."""
    found = []
    for door in doors:
        quick = 1 if door in HEAVY else QUICK
        for kind in kinds:
            for seed in range(TURNS):
                marks = [pytest.mark.slow] if seed >= quick else []
                found.append(pytest.param(door, kind, seed, id=f"{door.__name__}-{kind}-{seed}", marks=marks))
    return found


def answer(door: Callable[..., list[Any]], given: Any) -> list[Any]:
    """The result of an entry point, which gets a temporary folder if it writes files."""
    if "folder" not in inspect.signature(door).parameters:
        return door(given)
    with tempfile.TemporaryDirectory() as folder:
        return door(given, folder=Path(folder))


@cache
def in_order(door: Callable[..., list[Any]], kind: str) -> list[Any]:
    """The result of an entry point for tables or fields without a shuffle."""
    return answer(door, (Turned if kind in KINDS else TurnedGrid)(kind, None))


@pytest.mark.parametrize(("door", "kind", "seed"), cases(DOORS, KINDS))
def test_columns_in_another_order_give_equal_bits(
    door: Callable[..., list[Any]], kind: str, seed: int
) -> None:
    if (door, kind) in REFUSED:
        for turn in (None, seed):
            with pytest.raises((TypeError, ValueError)):
                door(Turned(kind, turn))
    else:
        assert answer(door, Turned(kind, seed)) == in_order(door, kind)


A = GENERATOR.normal(size=(50, 6, 6, 1))
U = np.concatenate([A.cumsum(axis=1), A], axis=-1) + 0.1 * GENERATOR.normal(size=(50, 6, 6, 2))
PLACES = {"x": np.linspace(0, 1, 6), "y": np.linspace(0, 2, 6)}


def surrogate(a: Any) -> Any:
    """A model that treats the first axis of a field as x."""
    return np.concatenate([np.cumsum(a, axis=1), a], axis=-1)


def first_output(a: Any) -> Any:
    """The first output of the surrogate."""
    return np.cumsum(a, axis=1)


class TurnedGrid:
    """Creates fields of one kind, with shuffled axes if a seed is given."""

    def __init__(self, kind: str, seed: int | None) -> None:
        self.kind, self.turned = kind, Turned("", seed)

    def __call__(self, values: Any, words: bool = False) -> Any:
        order = self.turned.order(DIMS)
        if self.kind == "Fields":
            return gb.Fields(values, ("x", "y"), PLACES).turned([name for name in order if name in PLACES])
        coords = {**PLACES, "channel": list("vw")[: values.shape[-1]]}
        array = xarray.DataArray(values, dims=DIMS, coords=coords)
        words = words and self.turned.generator is not None
        return (array.isel(channel=[1, 0]) if words else array).transpose(*order)

    def x(self, rows: slice = slice(0, 30)) -> Any:
        return self(A[rows])

    def y(self, rows: slice = slice(0, 30)) -> Any:
        return self(U[rows], words=rows != slice(0, 30))

    def stored(self, rows: slice) -> Any:
        return xarray.Dataset({"a": self(A[rows]), "u": self(U[rows, ..., :1])})


DIMS = ("sample", "x", "y", "channel")
FRESH = slice(30, 50)


@cache
def on_grid(kind: str) -> Any:
    """A calibration on fields of one kind."""
    base = TurnedGrid(kind, None)
    return gb.calibrate(surrogate, base.x(), base.y(), score=gb.Simultaneous())


def fields_calibrated(given: TurnedGrid) -> list[Any]:
    base = TurnedGrid(given.kind, None)
    found = []
    for score in (gb.Scaled(), gb.Simultaneous(), gb.Share(0.25), gb.Norm("L2")):
        made = gb.calibrate(surrogate, base.x(), given.y(), score=score)
        found += bits(made.fingerprint()["scores"], made.contains(given.x(FRESH), given.y(FRESH)))
        if not isinstance(score, gb.Norm):
            found += bits(made(given.x(FRESH)).upper)
    return found


def fields_of_arrays(given: TurnedGrid) -> list[Any]:
    base = TurnedGrid(given.kind, None)
    made = gb.calibrate_arrays(base(surrogate(A[:30])), given(U[:30], True), score=gb.Simultaneous())
    return bits(made.fingerprint()["scores"])


def fields_asked(given: TurnedGrid, folder: Path) -> list[Any]:
    made, x, y = on_grid(given.kind), given.x(FRESH), given.y(FRESH)
    page = gb.report(made, x, y, path=folder / "page.md").read_text()
    lines = stable(page)
    band = made(A[FRESH])
    found = str(gb.evaluate(made, x, y)), str(gb.check(made, x)), repr(gb.metrics.interval_score(band, y))
    stream = gb.Stream(made, level=0.8).follow(x, y)
    share = gb.calibrate(surrogate, A[:30], gb.Fields(U[:30], ("x", "y")), score=gb.Share(0.25))
    other = [] if given.kind != "Fields" else bits(share(A[FRESH]).share(y))
    return [*found, *lines, *other, *bits(band.contains(y), made.predict(x).mean, stream.missed)]


def fields_learned(given: TurnedGrid) -> list[Any]:
    x, y = TurnedGrid(given.kind, None).x(), given(U[:30, ..., :1])
    predictor = gb.predictors.MeanOnly(first_output)
    crossed = gb.surrogates.cross_fitted(lambda x, y: predictor, x, y)
    sized = gb.surrogates.SizeScale.fitted(predictor, x, y)
    return bits(crossed.mean, sized(A[FRESH]).scale)


def fields_stored(given: TurnedGrid, folder: Path) -> list[Any]:
    inputs, targets = TurnedGrid(given.kind, None).stored(slice(0, 30)), given.stored(slice(0, 30))
    fields = gb.StoredFields(inputs[["a"]].assign(u=targets["u"]), x="a", y="u")
    fresh = gb.StoredFields(given.stored(FRESH), x="a", y="u")
    made = gb.calibrate(first_output, fields, scores=folder / "scores.zarr", progress=False)
    tested = gb.evaluate(made, fresh, scores=folder / "test.zarr", progress=False)
    band = gb.band_over(made, fresh, levels=0.9).compute()
    return [str(tested), *bits(np.array(made.threshold(made.prediction, 0.8)), band["upper_0.9"])]


GRIDS: dict[Callable[..., list[Any]], str] = {
    fields_calibrated: "calibrate Calibrated.__call__ Calibrated.contains",
    fields_of_arrays: "calibrate_arrays",
    fields_asked: "evaluate check report interval_score Stream.follow ShareBand.share",
    fields_learned: "cross_fitted SizeScale.fitted NetworkScale.fitted adapted Rollout.shaped",
    fields_stored: "calibrate evaluate band_over StoredFields",
}
"""The same for whole fields with named axes."""


@pytest.mark.parametrize(("door", "kind", "seed"), cases(GRIDS, ["Fields", "DataArray"]))
def test_axes_in_another_order_give_equal_bits(door: Callable[..., list[Any]], kind: str, seed: int) -> None:
    if door is fields_stored and kind == "Fields":
        pytest.skip("stored fields have the axes of xarray")
    assert answer(door, TurnedGrid(kind, seed)) == in_order(door, kind)


def frame(*names: str, rows: int = 8) -> Any:
    return pandas.DataFrame(np.random.default_rng(0).uniform(size=(rows, len(names))), columns=list(names))


def cube() -> Any:
    return xarray.DataArray(np.ones((8, 6, 5)), dims=("sample", "y", "x"))


def on_nodes(score: Callable[[], Any]) -> Any:
    return gb.calibrate_arrays(np.zeros((8, 6, 5, 1)), np.ones((8, 6, 5, 1)), score=score())


def units() -> Any:
    return pandas.Series({"b": 1.0, "a": 2.0})


BY_POSITION: dict[str, Callable[[], Any]] = {
    "Absolute.__init__": lambda: gb.Absolute(units=units()),
    "ConfidenceRegion.contains": lambda: sought_region().contains(frame("b", "a")),
    "Distance.__init__": lambda: gb.predictors.Distance(np.sin, frame("b", "a")),
    "Fields.__init__": lambda: gb.Fields(np.zeros((3, 8)), "x", {"x": frame("b", "a")}),
    "LatentDistance.__init__": lambda: pinn.predictors.LatentDistance(pinn.mlp(2, [4]), frame("b", "a")),
    "Hybrid.__init__": lambda: gb.Hybrid(np.sin, np.sin, frame("b", "a"), np.zeros((8, 2)), tolerance=1.0),
    "Hybrid.__call__": lambda: _hybrid()(frame("b", "a")),
    "Norm.__init__": lambda: on_nodes(lambda: gb.Norm("L2", weights=cube()[0])),
    "PointCloud.__init__": lambda: pinn.PointCloud(frame("b", "a"), {}),
    "PointValue.__init__": lambda: pinn.PointValue(frame("b", "a"), 0.0).points(Drift.domain, 1),
    "QuantilePrediction.__init__": lambda: gb.conformal.QuantilePrediction(
        None, frame("b", "a"), frame("b", "a")
    ),
    "Quantity.__init__": lambda: gb.Quantity(np.max, units=units()),
    "RandomlyLocalized.__init__": lambda: gb.conformal.RandomlyLocalized(inputs=frame("b", "a")),
    "Scaled.__init__": lambda: gb.Scaled(units=units()),
    "Share.__init__": lambda: on_nodes(lambda: gb.Share(0.2, shape=cube())),
    "Simultaneous.__init__": lambda: on_nodes(lambda: gb.Simultaneous(shape=cube())),
    "Simultaneous.fitted": lambda: gb.Simultaneous.fitted(cube()),
    "SolvedFamily.values": lambda: family().values(frame("b", "a")),
    "crps": lambda: gb.metrics.crps(np.zeros((3, 8, 2)), frame("b", "a")),
    "energy_score": lambda: gb.metrics.energy_score(np.zeros((3, 8, 2)), frame("b", "a")),
    "pit": lambda: gb.metrics.pit(np.zeros((3, 8, 2)), frame("b", "a")),
    "relative_l2": lambda: gb.metrics.relative_l2(frame("b", "a"), frame("a", "b")),
    "density_ratio": lambda: gb.conformal.density_ratio(frame("b", "a"), frame("a", "b")),
    "quantile": lambda: gb.conformal.quantile(frame("b", "a"), 0.9),
    "Prediction": lambda: plain("pandas").band(gb.Prediction(None, frame(*OUTPUTS[::-1]))),
    "Prediction, x": lambda: plain("pandas").band(gb.Prediction(frame(*AXES[::-1]), np.zeros((8, 3)))),
    "Prediction, scale": lambda: gb.Prediction(None, frame("b", "a"), frame("b", "c")),
    "Band": lambda: gb.Band(None, *[frame("b", "a")] * 3, level=0.9),
    "fields": lambda: gb.plot.fields(frame("b", "a"), {"u": np.zeros(8)}),
    "heatmap": lambda: gb.plot.heatmap(frame("b", "a"), np.zeros(8)),
    "band": lambda: gb.plot.band(plain("pandas")(frame(*AXES)), truth=frame("b", "a")),
    "write_mesh": lambda: gb.fields.write_mesh(plain("pandas")(frame(*AXES)), frame("b", "a"), "mesh.vtu"),
}
"""Public calls whose arrays go by positions: a table with several named columns or axes is refused."""

WITHOUT_NAMES = {
    "Calibrated.targets": "covered as asked",
    "Problem.field": "tensors of one training step",
    "Parts.__init__": "made by `partition`",
    "Table.__init__": "columns are given by their names",
    "Table.with_columns": "columns are given by their names",
    "calibrate_shards": "x is asked once for the shape of answers; its names are kept, as in `calibrate`",
    "nodes": "fields of FEniCS, which bring their own points",
    "log_model": "`fresh` goes to `evaluate` and `report`",
    "overview": "`truth` goes to `band`",
    "slices": "`truth` goes to `band`",
}
"""Public calls that need no test of their own, and why."""


@cache
def sought_region() -> Any:
    data = gb.Observations(X[:20, :2], Y[:20, :1])
    return pinn.coefficients(family(), data).region


@pytest.mark.parametrize("name", BY_POSITION)
def test_arrays_that_go_by_position_refuse_names(name: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        BY_POSITION[name]()
    assert "ambiguous" not in str(refused.value)


INSIDE = tuple(f"guardband.{room}" for room in ("base", "cli", "lab.paper", "leaks", "reports.", "testing"))
"""Where public calls of the package itself are, and of its tests."""


def doors(module: Any, seen: set[int]) -> Iterator[str]:
    """The public callables of a package that take an `ArrayLike` or rows, by their names."""
    rooms = dir(module) if module in (gb, pinn) else []  # `__all__` has no modules
    for name in [*getattr(module, "__all__", dir(module)), *rooms]:
        one = getattr(module, name, None)
        home = getattr(one, "__name__" if inspect.ismodule(one) else "__module__", None) or ""
        if name.startswith("_") or id(one) in seen or not home.startswith("guardband"):
            continue
        if home.startswith(INSIDE):
            continue
        seen.add(id(one))
        if inspect.ismodule(one):
            yield from doors(one, seen)
        for part in [one, *vars(one).values()] if inspect.isclass(one) else [one]:
            part = getattr(part, "__func__", part)
            label = getattr(part, "__qualname__", "")
            public = not label.split(".")[-1].startswith("_") or label.endswith(("__call__", "__init__"))
            if inspect.isfunction(part) and public and part.__module__.startswith("guardband"):
                kinds = [str(kind) for kind in part.__annotations__.values()]
                if any(word in kind for kind in kinds for word in ("ArrayLike", "Rows")):
                    yield label


@needs("torch")
def test_no_public_call_is_left_out() -> None:
    listed = {word for words in (*DOORS.values(), *GRIDS.values()) for word in words.split()}
    known = listed | {*BY_POSITION} | {*WITHOUT_NAMES}
    found = {*doors(gb, set())}
    assert len(found) > 50 and sorted(found - known) == []
