"""Values: what is observed, what is predicted, and the set around it; validated on construction."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from guardband import cf
from guardband.arrays import Array, finite, flat, kind_of, like, limits_of, rows, to_numpy
from guardband.frames import Columns, is_frame, only_numbers
from guardband.grids import FieldGrid
from guardband.kept import kept

if TYPE_CHECKING:
    import pandas
    import xarray


MODEL = "It is what the model answered there; look at the model, or leave that point out."


@kept
@dataclass(frozen=True)
class Names:
    """What the axes and the outputs of a field are called, and which axes are space.

    >>> import guardband as gb
    >>> gb.problems.Names.numbered(("x", "t"), 3)
    Names(axes=('x', 't'), outputs=('u0', 'u1', 'u2'), space=(0, 1))
    """

    axes: tuple[str, ...]
    outputs: tuple[str, ...]
    space: tuple[int, ...]

    @classmethod
    def numbered(cls, axes: tuple[str, ...], m: int) -> Names:
        """The names of a field whose outputs have none."""
        return cls(axes, output_names(m), tuple(range(len(axes))))

    def positions(self, outputs: str | int | Sequence[str | int]) -> tuple[int, ...]:
        """The numbers of outputs that are called by name, or by number.

        >>> import guardband as gb
        >>> gb.problems.Names(("x",), ("u", "v", "p"), (0,)).positions(("p", 0))
        (2, 0)
        """
        wanted = (outputs,) if isinstance(outputs, str | int) else tuple(outputs)
        return tuple(position(one, self.outputs, "output") for one in wanted)


def position(wanted: str | int, names: Sequence[str], what: str) -> int:
    """Where something stands that is called by its name or by its number, from either end.

    >>> position("t", ("x", "t"), "axis"), position(-1, ("x", "t"), "axis")
    (1, 1)
    """
    if isinstance(wanted, str) and wanted in names:
        return list(names).index(wanted)
    if not isinstance(wanted, str) and -len(names) <= operator.index(wanted) < len(names):
        return operator.index(wanted) % len(names)
    several = "axes" if what == "axis" else f"{what}s"
    raise ValueError(
        f"There is no {what} {wanted!r}: the {several} are {', '.join(names)}, or 0 to {len(names) - 1}."
    )


def output_names(m: int) -> tuple[str, ...]:
    """u; where there are several outputs u0, u1, ..."""
    return ("u",) if m == 1 else tuple(f"u{j}" for j in range(m))


@kept
@dataclass(frozen=True, eq=False)
class Observations:
    """Points x (n, d) and what was measured there, y (n, m); of a DataFrame x the `names` of its columns too.

    `outputs` names the columns of y where not all outputs of a problem were measured.

    >>> import guardband as gb
    >>> data = gb.Observations([0.0, 0.5, 1.0], [1.0, 0.2, 0.1])
    >>> data.x.shape, data.y.shape, len(data)
    ((3, 1), (3, 1), 3)
    >>> gb.Observations([[0.0, 0.5]], [[1.0, 0.2]], outputs=("u", "v"))
    Observations(1 points, x (1, 2), y (1, 2) of u, v)
    """

    x: Array
    y: Array
    names: tuple[str | int, ...] | None = None
    outputs: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if is_frame(self.x):
            _set(self, names=Columns.of(self.x).names, x=only_numbers(self.x, "gb.Observations"))
        _set(self, x=finite(rows(self.x, "x"), "x"), y=finite(rows(self.y, "y"), "y"))
        _same_length("x", self.x, "y", self.y)
        if self.outputs is not None:
            words = (self.outputs,) if isinstance(self.outputs, str | int) else tuple(self.outputs)
            _set(self, outputs=words)
            if not all(isinstance(word, str) for word in words):
                raise TypeError(f'`outputs` should be names, such as ("u", "p"), got {self.outputs!r:.80}.')
            if len({*words}) != self.y.shape[-1] or len(words) != self.y.shape[-1]:
                said = ", ".join(map(str, words))
                raise ValueError(f"`outputs` should name the {self.y.shape[-1]} columns of y, got {said}.")

    @classmethod
    def together(cls, sets: Sequence[Observations], outputs: Sequence[str]) -> Observations:
        """Several sets one after the other, with a column for each output; what was not measured is NaN.

        >>> import guardband as gb
        >>> velocity = gb.Observations([0.0, 1.0], [3.0, 4.0], outputs="u")
        >>> pressure = gb.Observations([0.5], [9.0], outputs="p")
        >>> gb.Observations.together([velocity, pressure], ("u", "p")).y.tolist()
        [[3.0, nan], [4.0, nan], [nan, 9.0]]
        """
        tables = []
        for one in sets:
            words = tuple(one.outputs or outputs)
            strange = [word for word in words if word not in outputs]
            if strange or len(words) != one.y.shape[-1]:
                raise ValueError(
                    f"These observations are of {one.y.shape[-1]} outputs"
                    f"{' (' + ', '.join(words) + ')' if one.outputs else ''}, the outputs are "
                    f"{', '.join(outputs)}. Say which were measured: gb.Observations(x, y, outputs=...)."
                )
            table = np.full((len(one), len(outputs)), np.nan)
            table[:, [list(outputs).index(word) for word in words]] = to_numpy(one.y)
            tables.append(table)
        widths = {one.x.shape[1:] for one in sets}
        if len(widths) != 1:
            raise ValueError(f"All observations should have the same coordinates, got shapes {widths}.")
        whole = object.__new__(cls)
        _set(whole, x=np.concatenate([to_numpy(one.x) for one in sets]), y=np.concatenate(tables))
        _set(whole, names=None, outputs=tuple(outputs))
        return whole

    def __len__(self) -> int:
        return len(self.x)

    def __iter__(self) -> Iterator[Array]:
        """Unpack as `x, y = observations`."""
        return iter((self.x, self.y))

    def __repr__(self) -> str:
        of = "" if self.outputs is None else f" of {', '.join(self.outputs)}"
        return f"Observations({len(self)} points, x {tuple(self.x.shape)}, y {tuple(self.y.shape)}{of})"


@kept
@dataclass(frozen=True, eq=False)
class Prediction:
    """What a predictor believes at x (n, d): the mean (n, m) and how unsure it is, the scale (n, m).

    The scale is in the units of the mean and says where the error is likely to be large; it need
    not be right, calibration takes care of its size. `scale=None` is a predictor that has none.
    `x=None` is for arrays that came without their points; methods that look at x will ask for it.
    A batch of N whole fields is (N, points, m) throughout, or (N, *grid, m) where `gb.Fields` names the axes:
    one row is one field.

    >>> import guardband as gb
    >>> gb.Prediction(None, [1.0, 2.0], [0.1, 0.2]).mean.shape
    (2, 1)
    """

    x: Array | None
    mean: Array
    scale: Array | None = None

    def __post_init__(self) -> None:
        mean, x, scale = finite(rows(self.mean, "mean"), "mean", MODEL), self.x, self.scale
        if x is not None:
            x = kind_of(mean, rows(x, "x"))
            if len(x) != len(mean):
                _same_length("x", x, "mean", mean)
        if scale is not None:
            scale = finite(like(mean, rows(scale, "scale")), "scale", MODEL)
            _same_shape("scale", scale, "mean", mean)
            if bool((scale < 0).any()):
                row = int(np.argwhere(to_numpy(scale) < 0)[0][0])
                raise ValueError(f"`scale` should not be negative, but row {row} is. Use its size.")
        vars(self).update(x=x, mean=mean, scale=scale)  # it is frozen for everybody else

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def parts(self) -> dict[str, Array]:
        """What is believed, by name: the mean, the scale if there is one, and what a subclass adds."""
        known = {part.name: getattr(self, part.name) for part in fields(self) if part.init}
        return {name: values for name, values in known.items() if name != "x" and values is not None}

    @property
    def own_score(self) -> Any:
        """The score that is made for such predictions, where nobody chooses one; None if none is."""
        return None

    def take(self, rows: Any) -> Self:
        """The same at some rows: a slice, indices or booleans."""
        parts = {part.name: getattr(self, part.name) for part in fields(self) if part.init}
        return type(self)(**{name: None if v is None else v[rows] for name, v in parts.items()})

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Predictions one after the other as a single one, in numpy."""
        names = [part.name for part in fields(cls) if part.init]
        columns = {name: [getattr(part, name) for part in parts] for name in names}
        return cls(
            **{
                name: None if column[0] is None else np.concatenate([to_numpy(v) for v in column])
                for name, column in columns.items()
            }
        )

    def __repr__(self) -> str:
        scale = "no scale" if self.scale is None else "with a scale"
        return f"Prediction({len(self)} points, mean {tuple(self.mean.shape)}, {scale})"

    @cached_property
    def remembered(self) -> dict[int, tuple[Any, Any]]:
        """What was computed of this prediction, by the id of the object that did so, and that object."""
        return {}

    @cached_property
    def outward(self) -> tuple[Array, Array]:
        """The mean rounded down and up by 4 ulp: where a band starts, so that rounding loses no point.

        Kept here because a sweep over levels needs it once.
        """
        limits = limits_of(self.mean)
        slack = abs(self.mean)
        slack *= 4 * limits.eps
        slack += limits.tiny
        low = self.mean - slack
        slack += self.mean
        return low, slack


class Predictor(ABC):
    """Anything that says what it believes and how unsure it is: `predictor(x) -> Prediction`.

    It must be a fixed function: the same x gives the same answer, alone or among others. A predictor that
    knows what it was trained on carries it as `training_data`, so that calibration can refuse rows it has
    seen. A function that returns a `Prediction` will do in its place. Of a DataFrame it is given the numbers,
    unless `takes_frames`.

    >>> import numpy as np
    >>> import guardband as gb
    >>> def predictor(x):
    ...     return gb.Prediction(x, np.sin(x), scale=0.1 + x**2)
    >>> x = np.linspace(0, 1, 50)
    >>> gb.calibrate(predictor, x, np.sin(x) + 0.1 * np.cos(50 * x))([0.5], level=0.9)
    Band(level=0.9, 1 points)
    """

    takes_frames: ClassVar[bool] = False
    training_data: Observations | None = None
    held_out: Observations | None = None
    """Readings that its training was watched by, which calibration refuses too."""

    @property
    def scope(self) -> str:
        """A sentence for the promise, where a band around it is not about all that the model answers."""
        return ""

    def remarks(self, calibrated: Any, prediction: Prediction, level: Any) -> list[str]:
        """Sentences that belong beside the coverage of a calibrated band around it; most have none."""
        return []

    @property
    def field_names(self) -> Names | None:
        """What axes and outputs are called, where what it holds knows: a fitted PINN, or its network."""
        known = (getattr(one, "names", None) for one in self.held())
        return next((names for names in known if isinstance(names, Names)), None)

    def held(self) -> list[Any]:
        """What it is made of, as far as can be seen: a fitted PINN, a model, a function, its members."""
        words = ("fitted", "model", "net", "function", "predictor")
        found = [getattr(self, word, None) for word in words]
        return [one for one in (*found, *getattr(self, "members", ())) if one is not None]

    @abstractmethod
    def __call__(self, x: Array) -> Prediction:
        """Predict at x (n, d)."""

    def at_training(self, x_train: Array) -> Prediction:
        """Predict at training points, as if each had been left out where that can be told; else as it is."""
        return self(x_train)

    @property
    def estimator(self) -> Any:
        """The scikit-learn regressor whose answer is the mean, where it is one; else None."""
        return None

    def as_module(self) -> Any:
        """The same as a torch module for `gb.export_onnx`: x -> (mean, scale or None), the mean first."""
        raise TypeError(
            f"{type(self).__name__} cannot be exported: it has no `as_module`, which gives mean and scale as "
            "a torch module. MeanOnly, Ensemble, Dropout and LastLayerLaplace have one."
        )


@dataclass(frozen=True, eq=False)
class Band:
    """The answer: at each x (n, d) the interval [lower, upper] (n, m) around the mean, at a level.

    Both ends belong to the band. With several outputs the band is joint: a row counts as covered
    when all its outputs lie inside. Around whole fields on a `grid` the ends are (N, *grid, m).

    >>> import guardband as gb
    >>> band = gb.Band(None, [0.0, 1.0], [-1.0, 0.5], [1.0, 1.5], level=0.9)
    >>> band.contains([0.3, 2.0])
    array([ True, False])
    """

    x: Array | None
    mean: Array
    lower: Array
    upper: Array
    level: float
    names: Names | None = None
    grid: FieldGrid | None = None
    boxed: ClassVar[bool] = True
    """Whether what lies in the band lies between its ends everywhere."""

    def __post_init__(self) -> None:
        mean = rows(self.mean, "mean")
        lower, upper = (kind_of(mean, rows(getattr(self, n), n)) for n in ("lower", "upper"))
        _set(self, mean=mean, lower=lower, upper=upper)
        _same_shape("lower", lower, "mean", mean)
        _same_shape("upper", upper, "mean", mean)
        if self.x is not None:
            _set(self, x=kind_of(mean, rows(self.x, "x")))
            _same_length("x", self.x, "mean", mean)

    @classmethod
    def around(cls, prediction: Prediction, lower: Array, upper: Array, level: float) -> Band:
        """The band around a prediction, whose arrays are known to fit: nothing is checked again."""
        band = object.__new__(cls)
        band.__dict__.update(x=prediction.x, mean=prediction.mean, lower=lower, upper=upper, level=level)
        return band

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        infinite = int((flat(to_numpy(self.width)) == np.inf).any(axis=-1).sum())
        note = f", {infinite} of them infinite" if infinite else ""
        empty = int(self.empty.sum())
        note += f", {empty} of them empty" if empty else ""
        return f"Band(level={self.level:g}, {len(self)} points{note})"

    @property
    def width(self) -> Array:
        """Upper minus lower, (n, m); 0 where the interval is empty."""
        return (self.upper - self.lower).clip(min=0)

    @property
    def empty(self) -> np.ndarray:
        """Where nothing lies in the band, since an upper end lies below its lower one: (n,) booleans."""
        return flat(to_numpy(self.upper < self.lower)).any(axis=-1)

    def contains(self, y: Array) -> Array:
        """Which rows of y (n, m) lie inside, all outputs at once: (n,) booleans.

        NaN is in no band.
        """
        y = kind_of(self.mean, rows(y, "y"))
        _same_shape("y", y, "band", self.mean)
        inside = (self.lower <= y) & (y <= self.upper)
        return flat(inside).all(-1)

    def numpy(self) -> Band:
        """The same band in numpy arrays."""
        x = None if self.x is None else to_numpy(self.x)
        ends = (to_numpy(self.mean), to_numpy(self.lower), to_numpy(self.upper))
        return replace(self, x=x, **dict(zip(("mean", "lower", "upper"), ends, strict=True)))

    def one(self, row: int) -> Band:
        """One of several whole fields, as a band over its nodes (points, d), to be drawn or tabulated.

        >>> import numpy as np
        >>> import guardband as gb
        >>> u = gb.Fields(np.ones((9, 5)), dims="x", coordinates={"x": np.linspace(0, 1, 5)})
        >>> band = gb.calibrate_arrays(0 * u.values, u, score=gb.Simultaneous())
        >>> band.band(gb.Prediction(None, np.zeros((2, 5, 1))), level=0.9).one(0).x.ravel()
        array([0.  , 0.25, 0.5 , 0.75, 1.  ])
        """
        if self.mean.ndim < 3:
            raise ValueError("This band has a row per point, so it can be drawn as it is.")
        m = self.mean.shape[-1]
        mean, low, high = (to_numpy(part)[row].reshape(-1, m) for part in (self.mean, self.lower, self.upper))
        grid = self.grid or FieldGrid(("node",), (len(mean),))
        return Band(grid.nodes, mean, low, high, self.level, Names(grid.dims, output_names(m), grid.space))

    def to_pandas(self) -> pandas.DataFrame:
        """One row per point: columns x0, x1, ..., mean, lower, upper (mean0, ... if there are several).

        Where axes and outputs have names, they go by these: x, y, mean_u, mean_p, ...
        """
        import pandas

        return pandas.DataFrame({name: column for name, column in self._columns()})

    def to_xarray(self, units: Mapping[str, str] | None = None) -> xarray.Dataset:
        """A dataset over `point` (and `output`), with the coordinates of x and the level.

        `units` are those of axes and outputs by name. Attributes follow the CF conventions, and `offsets`,
        the ends minus the mean, their draft on uncertainty, which the dataset names.

        >>> import guardband as gb
        >>> data = gb.Band([0.5], [1.0], [0.0], [3.0], level=0.9).to_xarray({"x0": "m", "u": "K"})
        >>> data["upper"].attrs["units"], data["x0"].attrs["units"], data["offsets"].values.tolist()
        ('K', 'm', [[[-1.0, 2.0]]])
        """
        import xarray

        band, units = self.numpy(), units or {}
        dims, places = _axes_of(band.mean, self.grid)
        m = band.mean.shape[-1]
        outputs = output_names(m) if self.names is None else self.names.outputs
        strange = {*units} - {*outputs, *places, *(name for name, _ in band._coordinates())}
        if strange:
            raise ValueError(
                f"`units` should name axes and outputs, there is no {', '.join(sorted(strange))}."
            )
        known = [units.get(output, "") for output in outputs]
        same = {"units": known[0]} if len({*known}) == 1 and known[0] else {}
        parts = {part: getattr(band, part) for part in ("mean", *cf.ENDS)}
        coords: dict[str, Any] = {name: ("point", values) for name, values in band._coordinates()} | {
            name: (name, values) for name, values in places.items()
        }
        for name, (dim, values) in coords.items():
            coords[name] = (dim, values, {"units": units[name]} if name in units else {})
        if m > 1 and (self.names is not None or any(known)):
            coords["output"] = list(outputs)
        if m > 1 and any(known):
            coords["output_units"] = ("output", known)
        made = cf.variables(dims, parts, self.level, about=same)
        return cf.described(xarray.Dataset(made, coords=coords, attrs=cf.about(level=self.level)))

    def _coordinates(self) -> Iterator[tuple[str, np.ndarray]]:
        if self.x is not None and self.x.ndim == 2:
            x = to_numpy(self.x)
            words = [f"x{j}" for j in range(x.shape[1])] if self.names is None else self.names.axes
            yield from ((word, x[:, j]) for j, word in enumerate(words))

    def _columns(self) -> Iterator[tuple[str, np.ndarray]]:
        if self.mean.ndim != 2:
            raise ValueError("A table has one row per point; whole fields fit `to_xarray()`.")
        yield from self._coordinates()
        for name in ("mean", "lower", "upper"):
            values = to_numpy(getattr(self, name))
            for j in range(values.shape[1]):
                of = str(j) if self.names is None else f"_{self.names.outputs[j]}"
                yield (name if values.shape[1] == 1 else f"{name}{of}"), values[:, j]


@dataclass(frozen=True, eq=False)
class NormBand:
    """The answer where it is no box: all fields whose distance to the mean, in a norm, is at most a radius.

    `norm` takes differences (n, ...) to their norms (n,). A ball in a norm has no ends at a point: a field
    inside may leave any band there, so ask `contains`.

    >>> import numpy as np
    >>> import guardband as gb
    >>> def largest(difference):
    ...     return abs(difference).max(axis=(1, 2))
    >>> ball = gb.NormBand(None, np.zeros((1, 5, 1)), np.array([2.0]), largest, level=0.9)
    >>> ball.contains(np.full((1, 5, 1), 1.5))
    array([ True])
    """

    x: Array | None
    mean: Array
    radius: Array
    norm: Callable[[Array], Array]
    level: float
    grid: FieldGrid | None = None

    def __post_init__(self) -> None:
        mean = rows(self.mean, "mean")
        radius = np.broadcast_to(np.asarray(to_numpy(self.radius), dtype=float), (len(mean),))
        _set(self, mean=mean, radius=radius)
        if self.x is not None:
            _set(self, x=kind_of(mean, rows(self.x, "x")))
            _same_length("x", self.x, "mean", mean)

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        infinite = int(np.isinf(self.radius).sum())
        note = f", {infinite} of them infinite" if infinite else ""
        return f"NormBand(level={self.level:g}, {len(self)} fields{note})"

    @property
    def width(self) -> Array:
        """The diameter in the norm, (n, 1)."""
        return 2 * self.radius[:, None]

    def contains(self, y: Array) -> Array:
        """Which rows of y lie within the radius: (n,) booleans. NaN is in no ball."""
        y = kind_of(self.mean, rows(y, "y"))
        _same_shape("y", y, "band", self.mean)
        return to_numpy(self.norm(y - self.mean)) <= self.radius

    def to_xarray(self) -> xarray.Dataset:
        """A dataset over `point` with the mean and the radius, and the level."""
        import xarray

        dims, places = _axes_of(self.mean, self.grid)
        parts = {"mean": (dims, to_numpy(self.mean)), "radius": ((dims[0],), self.radius)}
        return xarray.Dataset(parts, coords=places, attrs={"level": self.level})


def _axes_of(mean: Array, grid: FieldGrid | None) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """What the axes of a mean are called in a dataset, and the places of nodes that are known."""
    if grid is not None:
        return ("point", *grid.dims, "output"), grid.coordinates
    if mean.ndim > 3:
        raise ValueError(
            f"The axes of fields {tuple(mean.shape)} have no names. Calibrate on fields that have them: "
            'gb.Fields(values, dims=("x", "y")).'
        )
    return ("point", "node", "output")[:: 1 if mean.ndim == 3 else 2], {}


def _set(value: Any, **parts: Any) -> None:
    """Fill fields of a frozen value while it is being made."""
    for name, part in parts.items():
        object.__setattr__(value, name, part)


def _same_length(a_name: str, a: Array, b_name: str, b: Array) -> None:
    if len(a) != len(b):
        raise ValueError(
            f"`{a_name}` and `{b_name}` should have the same number of rows, got {len(a)} and {len(b)}."
        )


def _same_shape(a_name: str, a: Array, b_name: str, b: Array) -> None:
    _same_length(a_name, a, b_name, b)
    if a.shape != b.shape:
        raise ValueError(
            f"`{a_name}` should have as many outputs as `{b_name}`: "
            f"got shape {tuple(a.shape)} beside {tuple(b.shape)}."
        )
