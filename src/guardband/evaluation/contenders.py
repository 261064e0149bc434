"""The bands that an evaluation compares: the band, one of constant width, and the band before calibration."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from guardband.base.arrays import Array, to_numpy
from guardband.conformal import Calibrated
from guardband.conformal.rank import Level
from guardband.evaluation.results import RIVAL, THIS, Row
from guardband.metrics.bands import interval_score, mean_over
from guardband.metrics.ranges import FALSE_ALARM, Ranges, by_chance, by_range, features_of, nearest
from guardband.values import Band, NormBand, Prediction
from guardband.values.names import output_words


@dataclass(frozen=True, eq=False)
class Contender:
    """A band to compare: its set at the level, and the points that it covers at this and all other levels."""

    name: str
    band: Band | NormBand | None
    inside: np.ndarray
    curves: np.ndarray
    output: int | None = None
    alike: bool = False  # equal to the band of constant width, which is then omitted
    words: tuple[str, ...] = ()  # names of outputs

    def rows(
        self, y: Array, regions: Mapping[str, np.ndarray | None], levels: tuple[Level, ...]
    ) -> Iterable[Row]:
        """One row per region, and per output if outputs are covered separately."""
        for part in self._parts():
            target = y if part.output is None else y[..., [part.output]]
            for region, chosen in regions.items():
                yield part._row(target, region, chosen, levels)

    def _parts(self) -> Iterable[Contender]:
        """The band itself, or one part per output if outputs are covered separately."""
        if self.inside.ndim == 1:
            yield self
            return
        for j in range(self.inside.shape[1]):
            name = f"{self.name}, {self.words[j] if self.words else f'y{j}'}"
            named = replace(self, name=name, inside=self.inside[:, j], curves=self.curves[..., j])
            if isinstance(self.band, Band) and self.band.mean.shape[1:] == self.inside.shape[1:]:
                mean, lower, upper = (
                    part[:, [j]] for part in (self.band.mean, self.band.lower, self.band.upper)
                )
                named = replace(named, band=Band(self.band.x, mean, lower, upper, self.band.level), output=j)
            yield named

    def _row(self, y: Array, region: str, chosen: np.ndarray | None, levels: tuple[Level, ...]) -> Row:
        some = slice(None) if chosen is None else chosen
        inside, curves = self.inside[some], self.curves[:, some]
        wide = np.full((1, 1), math.nan) if self.band is None else to_numpy(self.band.width)[some]
        each = wide.reshape(-1, wide.shape[-1])
        return Row(
            name=self.name,
            region=region,
            points=len(inside),
            coverage=mean_over(self.inside, chosen),
            sharpness=float(wide.mean()) if wide.size else math.nan,
            interval_score=interval_score(self.band, y, region=chosen)
            if isinstance(self.band, Band) and self.band.boxed
            else math.nan,
            widths=tuple(each.mean(axis=0).tolist()) if each.size else (math.nan,) * each.shape[1],
            coverages=tuple(curves.mean(axis=1).tolist()) if len(inside) else (math.nan,) * len(levels),
            levels=levels,
        )


def contenders_of(
    calibrated: Calibrated,
    prediction: Prediction,
    y: Array,
    level: Level,
    levels: tuple[Level, ...],
    groups: np.ndarray | None,
) -> Iterable[Contender]:
    """The bands to compare; the band of constant width is omitted if it equals the band itself."""
    all_levels = (level, *levels)
    inside = calibrated.contains_at(prediction, y, all_levels, groups=groups)
    this = band_at(calibrated, prediction, level, groups)
    rival = calibrated.constant_width()
    bare = Prediction(prediction.x, prediction.mean)
    flat = None if rival is None else band_at(rival, bare, level, groups)
    alike = this is not None and flat is not None and _alike(this, flat)
    name = f"{THIS}, a ball by its diameter" if isinstance(this, NormBand) else THIS
    words = output_words(calibrated.field_names)
    yield Contender(name, this, inside[0], inside[1:], alike=alike, words=words)
    if rival is not None and not alike:
        inside = rival.contains_at(bare, y, all_levels, groups=groups)
        yield Contender(RIVAL, flat, inside[0], inside[1:], words=words)
    before = [band for at in all_levels if isinstance(band := calibrated.before(prediction, at), Band)]
    if len(before) == len(all_levels):
        lower, upper = (np.stack([to_numpy(end) for end in ends]) for ends in _ends(before))
        inside = np.reshape((lower <= to_numpy(y)) & (to_numpy(y) <= upper), (len(all_levels), len(y), -1))
        raw = np.asarray(inside.all(axis=2)) if calibrated.joint else inside
        yield Contender("before calibration", before[0], raw[0], raw[1:], words=words)


def ranges_of(calibrated: Calibrated, prediction: Prediction, mine: Contender) -> Callable[[], Ranges]:
    """A function that computes coverage by ranges of features; it holds copies of arrays and no model.

    It returns no ranges if the guarantee is about new groups: readings of one group are dependent, and the
    tests assume independent points.
    """
    if calibrated.covers_new_groups:
        return Ranges
    inside, curves = (
        part if mine.inside.ndim == 1 else np.asarray(part.all(axis=-1))
        for part in (mine.inside, mine.curves)
    )
    features, d = features_of(calibrated, prediction)
    at = np.stack(list(features.values())[:d], axis=1) if d else None
    training, known = calibrated.used.get("training"), None
    if at is not None and training is not None and training.x.shape[1:] == at.shape[1:]:
        known = to_numpy(training.x)
    band, width = mine.band, None
    if isinstance(band, Band) and not constant(band):
        width = to_numpy(band.width).astype(float)
    missed_at = len(curves) - curves.sum(axis=0) + ~inside  # number of levels, in the order of the scores
    return partial(_ranges, inside, features, at, known, width, missed_at)


def _ranges(
    inside: np.ndarray,
    features: dict[str, np.ndarray],
    at: np.ndarray | None,
    known: np.ndarray | None,
    width: np.ndarray | None,
    missed_at: np.ndarray,
) -> Ranges:
    if known is not None and at is not None:
        features = features | {"distance to training data": nearest(known.astype(float), at)}
    if width is not None:
        features = features | {"width": width.reshape(len(inside), -1).mean(axis=1)}
    return by_range(inside, features, at, missed_at)


def sizes_of(prediction: Prediction) -> np.ndarray | None:
    """The root mean square of the input of each whole field; None for points."""
    if prediction.mean.ndim < 3 or prediction.x is None:
        return None
    return np.sqrt(np.mean(to_numpy(prediction.x).astype(float).reshape(len(prediction), -1) ** 2, axis=1))


def by_size(size: np.ndarray | None, inside: np.ndarray) -> Iterable[str]:
    """Coverage of whole fields by quartiles of the size of their inputs, with its range by chance."""
    if size is None or len(size) < 8 or inside.ndim > 1 or not np.ptp(size) > 0:
        return
    quarters = np.array_split(np.argsort(size, kind="stable"), 4)
    shares = [float(inside[rows].mean()) for rows in quarters]
    sizes = [len(rows) for rows in quarters]
    ends = {drawn: by_chance(inside, drawn, FALSE_ALARM / 4) for drawn in {*sizes}}
    low, high = min(low for low, _ in ends.values()), max(high for _, high in ends.values())
    even = all(ends[n][0] <= share <= ends[n][1] for n, share in zip(sizes, shares, strict=True))
    note = "" if even else ". They do not: coverage seems to depend on the size of the input"
    yield (
        f"Coverage by quarters of the size of the input, smallest first: "
        f"{', '.join(f'{share:.3f}' for share in shares)}; if the size does not matter and fields are "
        f"independent, all lie between {low:.3f} and {high:.3f} in at least "
        f"{100 * (1 - FALSE_ALARM):g} % of cases{note}"
    )


def _ends(bands: Sequence[Band]) -> tuple[list[Array], list[Array]]:
    return [band.lower for band in bands], [band.upper for band in bands]


def band_at(
    calibrated: Calibrated, prediction: Prediction, level: Level, groups: np.ndarray | None
) -> Band | NormBand | None:
    """The band at a level, or None if the set is not a band."""
    try:
        return calibrated.band(prediction, level, groups=groups)
    except TypeError:
        return None


def constant(band: Band | NormBand | None) -> bool:
    """Whether the width of a band is constant up to rounding."""
    assert band is not None
    width, mean = (to_numpy(part).astype(float) for part in (band.width, band.mean))
    slack = 1e-6 * width[:1] + 32 * np.finfo(to_numpy(band.mean).dtype).eps * abs(mean).max()
    with np.errstate(invalid="ignore"):
        return bool(((width == width[:1]) | (abs(width - width[:1]) <= slack)).all())


def _alike(a: Band | NormBand, b: Band | NormBand) -> bool:
    ends = ("lower", "upper") if isinstance(a, Band) else ("radius",)
    if type(a) is not type(b):
        return False
    return all(np.array_equal(to_numpy(getattr(a, end)), to_numpy(getattr(b, end))) for end in ends)
