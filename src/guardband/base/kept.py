"""Classes whose objects can be saved and loaded, marked by a decorator in their own file.

    @gb.kept
    @dataclass(frozen=True)
    class Thrifty(gb.conformal.Calibrator):
        share: float = 0.5

A file names classes and contains no code. Loading creates only objects of classes that this process has
defined and marked, so modules with other classes must be imported before loading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, TypeVar, cast, overload

from guardband.base import extras

T = TypeVar("T", bound=type)

ToParts: TypeAlias = Callable[[Any], Mapping[str, object] | None]
"""A function from an object to its parts, by name; None if it cannot be saved."""

FromParts: TypeAlias = Callable[[dict[str, Any]], object]
"""A function that creates an object from its parts."""


@dataclass(frozen=True)
class Kind:
    """A class that can be saved: its name in files, and functions from an object to its parts and back.

    `parts` may return None for an object that cannot be saved and must be passed again when loading. An
    `optional` part that cannot be saved need not be passed again; it is then None. A `told` part is recorded
    as text, so that a different one is refused when loading.
    """

    name: str
    cls: type
    parts: ToParts
    made: FromParts
    optional: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


_KINDS: dict[str, Kind] = {}

_HOMES = {
    "guardband.conformal": """
        Absolute BoundedNoise CQR Calibrated Chosen Clustered Conditional CrossPrediction CrossValidated
        Flat GaussianNoise Grouped Kernel KernelRatio LaplaceNoise Local LocalShape LogScale LogScaleDraw
        LogScaleShape LogisticRatio Norm OneSided Quantity QuantilePrediction RandomlyLocalized RiskControl
        Scaled Share ShareOutside Simultaneous Split SplitThreshold Total Truth UniformNoise Weighted
    """,
    "guardband.pinn.inverse": "ByFunction ByNetwork BySolution Family SolvedFamily",
    "guardband.pinn.misses.likelihood": "Likelihood",
    "guardband.pinn.networks.networks": "Constrained MLP",
    "guardband.pinn.networks.windows": "Windowed",
    "guardband.pinn.predictors": """
        Diagnostics Draws Dropout DropoutMasks HMC Laplace LastLayerLaplace MeanFieldVI Posterior Ridge
        Tangent TangentCalibrated TangentPrediction
    """,
    "guardband.pinn.predictors.latent_distance": "Features LatentDistance",
    "guardband.pinn.predictors.pinball": "PinballNetwork PinballShape QuantileCurves",
    "guardband.pinn.problems": """
        Advection1D AllenCahn1D AllenCahn2D Beam Burgers1D Cavity Cylinder DampedOscillator DiscAndCorner
        Even Front Heat1D HeatDisk Helmholtz3D Islands KortewegDeVries Kovasznay KuramotoSivashinsky
        LotkaVolterra NoisyDisk PlateWithHole Poisson1D PoissonLShape ReactionDiffusion1D Ring
        TaylorGreen2D Unknown VibratingBeam Wave1D
    """,
    "guardband.pinn.surrogates": "NetworkScale",
    "guardband.pinn.training.fitted": "Fitted PointEstimates",
    "guardband.pinn.training.recipe": "Recipe",
    "guardband.predictors.distance": "Distance",
    "guardband.predictors.ensemble": "Ensemble",
    "guardband.predictors.function": "PredictionFunction",
    "guardband.predictors.given": "Given",
    "guardband.predictors.mean_only": "MeanOnly",
    "guardband.predictors.outputs": "Outputs",
    "guardband.predictors.quantiles": "Quantiles",
    "guardband.streams": "AdaptiveLevel Alarm ConformalPID DecayingSteps RollingWindow Stream",
    "guardband.surrogates": "Adapted ConstantScale Rollout SizeScale SmoothedScale",
    "guardband.values": "Axes Columns FieldGrid Names Observations Prediction Words",
}
"""The module of each class of this package; it is imported when a file names the class."""


@overload
def kept(cls: T) -> T: ...
@overload
def kept(
    cls: None = None,
    *,
    name: str | None = None,
    parts: ToParts | None = None,
    made: FromParts | None = None,
    optional: tuple[str, ...] = (),
    told: tuple[str, ...] = (),
) -> Callable[[T], T]: ...
def kept(
    cls: Any = None,
    *,
    name: str | None = None,
    parts: ToParts | None = None,
    made: FromParts | None = None,
    optional: tuple[str, ...] = (),
    told: tuple[str, ...] = (),
) -> Any:
    """Mark a class whose objects `gb.save` can save.

    Parameters
    ----------
    cls
        The class, if the decorator is used without arguments.
    name
        Unique name of the class in files; by default the name of the class.
    parts
        A function that returns the parts of an object to save, by name. By default, its attributes are saved.
    made
        A function that creates an object from its parts. By default, the attributes are set.
    optional
        Names of parts that need not be passed again when loading if they cannot be saved; they are then None.
    told
        Names of parts that are passed again when loading and must hold the same numbers as the saved ones.
        These parts are dataclasses.

    Returns
    -------
    type or callable
        The class, or a decorator if arguments are given.

    Notes
    -----
    Attributes may be numbers, strings, arrays, tensors, lists, dicts and objects of other marked classes.
    Other objects, such as your own network or function, are passed again when loading:
    `gb.load(folder, model=net)`.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import tempfile
    >>> import guardband as gb
    >>> @gb.kept
    ... @dataclass(frozen=True)
    ... class Doubled(gb.conformal.Symmetric):
    ...     def unit(self, prediction):
    ...         return 2.0
    >>> calibrated = gb.calibrate_arrays(
    ...     [0.0] * 9, [1, 2, 3, 4, 5, 6, 7, 8, 9], score=Doubled()
    ... )
    >>> gb.load(gb.save(calibrated, tempfile.mkdtemp() + "/band")).score
    Doubled()
    """

    def mark(cls: T) -> T:
        kind = Kind(
            name or cls.__name__, cls, parts or attributes, made or _of_attributes(cls), optional, told
        )
        known = _KINDS.get(kind.name)
        if known is not None and _place(known.cls) != _place(cls):
            raise ValueError(
                f"The class {_place(known.cls)} is already kept as {kind.name!r}. Give {_place(cls)} a "
                "different name: @gb.kept(name=...)."
            )
        _KINDS[kind.name] = kind
        return cls

    return mark if cls is None else mark(cls)


def kind_of(value: object) -> Kind | None:
    """The kind of an object, or None if its class is not marked; a subclass must be marked itself."""
    return next((kind for kind in list(_KINDS.values()) if kind.cls is type(value)), None)


def kind_named(name: str) -> Kind:
    """The kind with this name, imported on demand if it belongs to this package."""
    if name not in _KINDS:
        home = next((home for home, names in _HOMES.items() if name in names.split()), None)
        if home is None:
            raise LookupError(
                f"{name!r} is a kind of object that is not defined here. If it comes from your own code or "
                "another package, import its module before loading, or pass --import FILE_OR_MODULE on the "
                "command line."
            )
        extras.load(home, "pinn")
    return _KINDS[name]


def classes_of(base: T) -> dict[str, T]:
    """The marked subclasses of `base`, by their names in files."""
    return {name: cast("T", kind.cls) for name, kind in list(_KINDS.items()) if issubclass(kind.cls, base)}


def attributes(value: object) -> dict[str, Any]:
    """The attributes of an object, without cached properties, which are computed again on demand."""
    owners = type(value).__mro__
    return {
        part: item
        for part, item in vars(value).items()
        if not any(isinstance(vars(owner).get(part), cached_property) for owner in owners)
    }


def _of_attributes(cls: type) -> FromParts:
    def made(parts: dict[str, object]) -> object:
        value = object.__new__(cls)
        for part, item in parts.items():
            if part.startswith("__"):
                raise ValueError(
                    f"The name of an attribute should not start with two underscores, got {part!r}."
                )
            object.__setattr__(value, part, item)
        return value

    return made


def _place(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
