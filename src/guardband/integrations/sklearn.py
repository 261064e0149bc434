"""A scikit-learn estimator whose prediction intervals have a coverage guarantee."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from guardband.base.arrays import DATES, ArrayLike, axis_names, to_numpy
from guardband.calibration.calibrate import calibrate
from guardband.calibration.partition import partition
from guardband.conformal import Calibrated, Calibrator, Clustered, Score, Split, calibrate_arrays
from guardband.conformal.base import Groups
from guardband.conformal.rank import Level
from guardband.predictors import MeanOnly
from guardband.values import Band, Observations, Prediction
from guardband.values.frames import Columns, is_frame, only_numbers, refuse_columns, select
from guardband.values.labeled import refuse_unpaired

try:
    from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone, is_classifier
    from sklearn.utils import _safe_indexing, check_random_state, get_tags, indexable
    from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
    from sklearn.utils.validation import _check_method_params, check_is_fitted
except ImportError as _error:
    raise ImportError('This needs scikit-learn: pip install -U "guardband[sklearn]".') from _error


if TYPE_CHECKING:  # scikit-learn has no types; these are the inherited methods

    class _Estimator:
        """A regressor that wraps another estimator."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the parameters, including those of the wrapped estimator."""
            ...

        def set_params(self, **params: Any) -> Self:
            """Set parameters by name."""
            ...

        def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike = None) -> float:
            """Return the coefficient of determination of `predict`."""
            ...

        def __sklearn_tags__(self) -> Any: ...

else:

    class _Estimator(MetaEstimatorMixin, RegressorMixin, BaseEstimator):
        """A regressor that wraps another estimator."""


class ConformalRegressor(_Estimator):
    """A regressor with guaranteed intervals: `fit`, `predict`, `predict_interval(X, level=0.95)`.

    `fit` first holds out calibration rows and then fits `estimator` to the others. After `fit`,
    `estimator_` is the fitted estimator, `calibrated_` the calibration for `gb.report`, `gb.check` and
    `gb.evaluate`, and `calibration_rows_` the positions of the held-out rows.

    Parameters
    ----------
    estimator
        The regressor to wrap, such as a pipeline or a search.
    calibrator
        The calibrator of `gb.calibrate`. The default is `gb.Split()`, or `gb.Clustered()` if `fit` receives
        `groups`. In that case, whole groups are held out, and the guarantee is for rows of a new group.
        `gb.Grouped()` guarantees the level in each known group instead.
    conformal_score
        The `score` of `gb.calibrate`.
    calibration_size
        The share or number of the rows to hold out.
    confidence
        The `confidence` of `gb.calibrate`.
    random_state
        The seed of the split: an integer, a NumPy `RandomState`, or None.

    Notes
    -----
    The guarantee is exact if the whole pipeline and the whole search are inside, as in
    `ConformalRegressor(GridSearchCV(pipeline, ...))`. With a search or a transformer outside, calibration
    rows influence the model, and the guarantee is void.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from guardband.integrations.sklearn import ConformalRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = ConformalRegressor(Ridge()).fit(X, X.sum(axis=1))
    >>> model.predict(X[:5]).shape, model.predict_interval(X[:5], level=0.9).shape
    ((5,), (5, 2))
    """

    def __init__(
        self,
        estimator: Any,
        *,
        calibrator: Calibrator | None = None,
        conformal_score: Score | None = None,
        calibration_size: float = 0.25,
        confidence: Level | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.conformal_score = conformal_score
        self.calibration_size = calibration_size
        self.confidence = confidence
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Groups = None, **fit_params: Any) -> Self:
        """Hold out rows, fit the estimator to the others, and calibrate it on the held-out rows.

        Parameters
        ----------
        X, y
            Points, shape (n, d), and targets, shape (n,) or (n, m).
        groups
            One label per row, for calibrators that use groups.
        **fit_params
            Parameters of the estimator's `fit`; those with one entry per row of X are split in the same way.
            With metadata routing, they and `groups` are routed as requested.

        Returns
        -------
        Self
            The fitted estimator.
        """
        if y is None:
            raise ValueError("ConformalRegressor requires y to be passed, but the target y is None.")
        if is_classifier(self.estimator):
            kind = type(self.estimator).__name__
            raise TypeError(
                f"`estimator` should be a regressor; {kind} is a classifier, which has no intervals."
            )
        calibrator = self.calibrator or (Split() if groups is None else Clustered())
        params = process_routing(self, "fit", groups=groups, **fit_params) if _routed() else None
        refuse_unpaired(X=X, y=y, groups=groups)
        _refuse_unlike(X)
        X, y, groups = indexable(X, y, groups)
        train, held_out = self._split(len(y), groups if calibrator.whole_groups else None)
        own = fit_params if params is None else params.estimator.fit
        own = _check_method_params(X, own, indices=train)
        x_train, y_train = _safe_indexing(X, train), _safe_indexing(y, train)
        inner: Any = clone(self.estimator)
        self.estimator_: Any = inner.fit(x_train, y_train, **own)
        self.calibrated_: Calibrated = self._calibrated(
            _points(x_train),
            y_train,
            _safe_indexing(X, held_out),
            _safe_indexing(y, held_out),
            calibrator=calibrator,
            groups=None if groups is None else _safe_indexing(groups, held_out),
        )
        self.calibration_rows_ = held_out
        self._flat = np.ndim(self.estimator_.predict(_safe_indexing(X, held_out[:1]))) == 1
        self._outputs = tuple(y.columns) if is_frame(y) else ()
        self._columns = tuple(X.columns) if is_frame(X) else None
        for known in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, known):
                setattr(self, known, getattr(self.estimator_, known))
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the predictions of the estimator.

        Parameters
        ----------
        X
            Points, shape (n, d).

        Returns
        -------
        ndarray
            The predictions, in the shape that the estimator returns.
        """
        check_is_fitted(self)
        return self.estimator_.predict(self._in_order(X))

    def predict_interval(self, X: ArrayLike, level: Level = 0.95, *, groups: Groups = None) -> Any:
        """Return the ends of intervals that contain a new y with probability at least `level`.

        Several outputs are covered jointly.

        Parameters
        ----------
        X
            Points, shape (n, d).
        level
            Requested coverage, strictly between 0 and 1.
        groups
            One label per row, for calibrators with a guarantee for each group.

        Returns
        -------
        ndarray or DataFrame
            Lower and upper ends, shape (n, 2), or (n, m, 2) if `predict` returns columns. For a frame X,
            the result is a frame with the same rows and the columns mean, lower, upper, or mean_a,
            mean_b, ... for several outputs.
        """
        check_is_fitted(self)
        band = self.calibrated_.band(self._prediction(X), level, groups=groups)
        if not isinstance(band, Band):
            raise TypeError(
                f"The prediction sets of {self.calibrated_.name} are not intervals; use "
                "calibrated_.contains(X, y, level)."
            )
        if is_frame(X):
            return self._frame(band, X)
        ends = np.stack([to_numpy(band.lower), to_numpy(band.upper)], axis=-1)
        return ends[:, 0] if self._flat else ends

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of metadata in `fit`: groups to this estimator, others as requested."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the wrapped estimator, as a regressor."""
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        tags.regressor_tags = inner.regressor_tags or tags.regressor_tags
        tags.non_deterministic = inner.non_deterministic
        return tags

    def _split(self, n: int, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of the rows for fitting and for calibration."""
        if n < 2:
            raise ValueError(f"Fitting and calibration need at least one row each, got n_samples = {n}.")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        numbers = np.arange(n)
        held_out = partition(
            (numbers, numbers), calibrate=self.calibration_size, groups=groups, seed=seed
        ).indices["calibrate"]
        train = np.setdiff1d(numbers, held_out)
        if not len(train):
            raise ValueError(
                f"`calibration_size` should leave rows for fitting; {self.calibration_size!r} takes all {n}."
            )
        return train, held_out

    def _calibrated(
        self,
        x_train: ArrayLike,
        y_train: ArrayLike,
        x: ArrayLike,
        y: ArrayLike,
        *,
        calibrator: Calibrator,
        groups: Groups,
    ) -> Calibrated:
        options = {
            "score": self.conformal_score,
            "calibrator": calibrator,
            "groups": groups,
            "confidence": self.confidence,
        }
        points, y, y_train = _points(x), np.asarray(y, dtype=float), np.asarray(y_train, dtype=float)
        if points is None or x_train is None:
            return calibrate_arrays(self.estimator_.predict(x), y, **options)
        known = _known(x_train, y_train)
        return calibrate(MeanOnly(self.estimator_, training_data=known), points, y, **options)

    def _prediction(self, X: ArrayLike) -> Prediction:
        _refuse_unlike(X)
        if getattr(self.calibrated_, "predictor", None) is None:
            return Prediction(None, self.predict(X))
        named = getattr(self.calibrated_, "columns", None) is not None
        if is_frame(X) != named:  # as scikit-learn does
            warnings.warn(
                f"X has {'' if is_frame(X) else 'no '}feature names, but ConformalRegressor was fitted "
                f"with{'' if named else 'out'} feature names; columns are matched by position.",
                stacklevel=3,
            )
        return self.calibrated_.predict(X if is_frame(X) else np.asarray(X))

    def _in_order(self, X: ArrayLike) -> ArrayLike:
        """Return a frame with its columns in the order of `fit`, for estimators that use positions."""
        _refuse_unlike(X)
        if not is_frame(X) or self._columns is None:
            return X
        return select(X, self._columns, "X")

    def _frame(self, band: Band, X: Any) -> Any:
        m = band.mean.shape[1]
        names = self._outputs or tuple(range(m))
        columns = {
            part if m == 1 else f"{part}_{name}": to_numpy(getattr(band, part))[:, j]
            for j, name in enumerate(names)
            for part in ("mean", "lower", "upper")
        }
        return type(X)(columns, index=X.index) if hasattr(X, "iloc") else type(X)(columns)


def _refuse_unlike(X: ArrayLike) -> None:
    """Refuse dates, which estimators read as integers, and named axes, which they ignore."""
    if len(axis_names(X)) > 1:
        raise TypeError(f"`X` should be an array or a frame, got a {type(X).__name__}. Use X.to_pandas().")
    if is_frame(X):
        refuse_columns(X)
    elif isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise TypeError(f"`X` holds dates or durations. {DATES}")


def _points(x: ArrayLike) -> ArrayLike:
    """Return x as a frame or finite numbers for the calibration; None for sparse, missing or other data."""
    if is_frame(x):
        return x
    if hasattr(x, "tocsr"):
        return None
    x = np.asarray(x)
    return x if x.dtype.kind in "fiub" and np.isfinite(x).all() else None


def _known(x: ArrayLike, y: np.ndarray) -> Observations | None:
    """Return the numeric columns of the training rows; None if there are none, or values are missing."""
    if is_frame(x):
        x = x[list(Columns.of(x).numeric)]
        if not len(x.columns) or not np.isfinite(only_numbers(x, "fit")).all():
            return None
    return Observations(x, y)


def _routed() -> bool:
    """Whether metadata routing is enabled."""
    from sklearn import get_config

    return bool(get_config()["enable_metadata_routing"])
