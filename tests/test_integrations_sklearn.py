"""ConformalRegressor follows scikit-learn's rules, and its intervals follow the exact law.

The false-alarm rate of each test of the law is 2e-4.
"""

import pickle
import warnings
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_estimator

import guardband as gb
from guardband.conformal.laws import tails, total_counts
from guardband.integrations.sklearn import ConformalRegressor
from helpers import Later, script

polars = Later("polars")
SEARCH = script("benchmarks/search.py")


def table(n: int = 300, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = pandas.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"), index=np.arange(n) + 1000)
    return x, x.sum(axis=1) + rng.normal(size=n)


def copied(model: Any) -> Any:
    return clone(model)


@pytest.mark.parametrize(
    "inner",
    [Ridge(), make_pipeline(StandardScaler(), Ridge()), HistGradientBoostingRegressor(max_iter=10)],
    ids=["ridge", "pipeline", "boosting"],
)
def test_scikit_learns_own_suite_passes(inner: Any) -> None:
    """Skipped checks are those that scikit-learn skips for any estimator in this environment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(ConformalRegressor(inner), on_fail=None, on_skip=None)
    assert [r["check_name"] for r in found if r["status"] not in ("passed", "skipped")] == []
    skipped = {str(r["exception"]) for r in found if r["status"] == "skipped"}
    assert skipped <= {"SCIPY_ARRAY_API is not set: not checking array_api input"}
    assert len(found) > 45 and not any(r["expected_to_fail"] for r in found)


def check_law(draws: int) -> None:
    """With a column transformer, a ridge and a search inside, coverage of new rows follows the exact law."""
    count = sum(SEARCH.covered(SEARCH.pipeline, SEARCH.frame, seed) for seed in range(draws))
    law = gb.conformal.CoverageLaw(gb.conformal.rank(SEARCH.HELD_OUT, SEARCH.LEVEL), SEARCH.HELD_OUT)
    below, above = tails(total_counts([(law, SEARCH.NEW)], repeats=draws), count)
    print(f"covered {count / (draws * SEARCH.NEW):.4f}, p = {below:.3g} below, {above:.3g} above")
    assert min(below, above) >= 1e-4


@pytest.mark.slow
def test_a_search_inside_keeps_the_law() -> None:
    check_law(40)


@pytest.mark.long
def test_a_search_inside_keeps_the_law_over_500_draws() -> None:
    check_law(500)


def test_rows_that_calibrate_are_held_out_before_anything_is_fitted() -> None:
    seen: list[pandas.Index] = []

    class Watching(LinearRegression):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Watching":
            seen.append(X.index)
            assert (X.index == y.index).all()
            return super().fit(X, y, sample_weight)

    x, y = table()
    model = ConformalRegressor(GridSearchCV(Watching(), {"positive": [True, False]}, cv=3)).fit(x, y)
    held_out = x.index[model.calibration_rows_]
    assert len(held_out) == 75 == model.calibrated_.n and len(seen) == 7
    assert not any(index.isin(held_out).any() for index in seen)
    assert len(seen[-1]) == 225


def test_intervals_are_those_of_the_calibration() -> None:
    x, y = table()
    model = ConformalRegressor(Ridge(), calibration_size=100).fit(x.to_numpy(), y.to_numpy())
    ends = model.predict_interval(x.to_numpy()[:7], level=0.9)
    band = gb.calibrate(
        model.estimator_, x.to_numpy()[model.calibration_rows_], y.to_numpy()[model.calibration_rows_]
    )(x.to_numpy()[:7], level=0.9)
    assert ends.shape == (7, 2) and model.predict(x.to_numpy()[:7]).shape == (7,)
    assert np.array_equal(ends, np.stack([band.lower[:, 0], band.upper[:, 0]], axis=1))
    wider = model.predict_interval(x.to_numpy()[:7], level=0.99)
    assert (wider[:, 0] < ends[:, 0]).all() and (ends[:, 1] < wider[:, 1]).all()


def test_a_frame_gives_a_frame() -> None:
    x, y = table()
    found = ConformalRegressor(Ridge()).fit(x, y).predict_interval(x[::-1][:4])
    assert list(found.columns) == ["mean", "lower", "upper"] and list(found.index) == list(x.index[::-1][:4])
    assert (found["lower"] < found["mean"]).all() and (found["mean"] < found["upper"]).all()
    reordered = ConformalRegressor(Ridge()).fit(x, y).predict_interval(x[["c", "a", "b"]][::-1][:4])
    pandas.testing.assert_frame_equal(found, reordered)
    model = ConformalRegressor(Ridge()).fit(polars.from_pandas(x), y.to_numpy())
    other = model.predict_interval(polars.from_pandas(x[::-1][:4]))
    assert isinstance(other, polars.DataFrame)
    assert np.allclose(other.to_numpy(), found.to_numpy(), rtol=1e-12)


def test_several_outputs_are_covered_at_once() -> None:
    x, y = table()
    both = pandas.DataFrame({"u": y, "v": 100 * y + np.random.default_rng(1).normal(size=len(y))})
    model = ConformalRegressor(Ridge()).fit(x, both)
    found = model.predict_interval(x[:5])
    assert list(found.columns) == [f"{part}_{name}" for name in "uv" for part in ("mean", "lower", "upper")]
    ends = ConformalRegressor(Ridge()).fit(x.to_numpy(), both.to_numpy()).predict_interval(x.to_numpy()[:5])
    assert ends.shape == (5, 2, 2)
    assert np.allclose(ends[:, 1, 1], found["upper_v"], rtol=1e-12)
    for inner, shape in ((Ridge(), (5,)), (LinearRegression(), (5, 1))):  # of a single column of targets
        one = ConformalRegressor(inner).fit(x.to_numpy(), both[["u"]].to_numpy())
        assert one.predict(x.to_numpy()[:5]).shape == shape
        assert one.predict_interval(x.to_numpy()[:5]).shape == (*shape, 2)


def test_what_the_calibration_cannot_keep_is_calibrated_all_the_same() -> None:
    x, y = table()
    gaps = x.mask(np.random.default_rng(1).uniform(size=x.shape) < 0.2)
    boosted = ConformalRegressor(HistGradientBoostingRegressor(max_iter=10))
    of_array = boosted.fit(gaps.to_numpy(), y.to_numpy()).predict_interval(gaps.to_numpy()[:5])
    of_frame = copied(boosted).fit(gaps, y).predict_interval(gaps[:5])
    assert np.allclose(of_array, of_frame[["lower", "upper"]], rtol=1e-12)
    sparse = scipy.sparse.csr_array(x.to_numpy())
    dense = ConformalRegressor(Ridge(solver="lsqr")).fit(x.to_numpy(), y).predict_interval(x.to_numpy()[:5])
    found = ConformalRegressor(Ridge(solver="lsqr")).fit(sparse, y).predict_interval(sparse[:5])
    assert np.allclose(found, dense, rtol=1e-2)


def test_groups_are_held_out_whole_and_a_new_one_is_covered() -> None:
    x, y = table()
    groups = np.repeat(np.arange(100), 3)
    model = ConformalRegressor(Ridge()).fit(x, y, groups=groups)
    held_out = groups[model.calibration_rows_]
    rest = np.delete(groups, model.calibration_rows_)
    assert not set(held_out) & set(rest) and model.calibrated_.covers_new_groups
    regimes = np.array(["cold", "warm"])[np.arange(300) % 2]
    each = ConformalRegressor(Ridge(), calibrator=gb.Grouped()).fit(x, y, groups=regimes)
    assert set(regimes[each.calibration_rows_]) == set(np.delete(regimes, each.calibration_rows_))
    found = each.predict_interval(x[:2], level=0.9, groups=["cold", "warm"])
    width = found["upper"] - found["lower"]
    assert width.iloc[0] != width.iloc[1]
    with pytest.raises(ValueError, match=r"`groups` should not be passed to Split\(\)"):
        ConformalRegressor(Ridge(), calibrator=gb.Split()).fit(x, y, groups=groups)


def test_metadata_go_to_whoever_asks_for_them() -> None:
    x, y = table()
    groups, weights = np.repeat(np.arange(100), 3), np.linspace(1, 2, 300)
    seen: list[Any] = []

    class Watching(Ridge):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Watching":
            seen.append((X.index, sample_weight))
            return super().fit(X, y, sample_weight)

    plain = ConformalRegressor(Watching()).fit(x, y, sample_weight=weights)
    train = np.delete(np.arange(300), plain.calibration_rows_)
    assert np.array_equal(seen[-1][1], weights[train])
    with sklearn.config_context(enable_metadata_routing=True):
        inner: Any = Watching()
        inner.set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        search = GridSearchCV(inner, {"alpha": [0.1, 1.0]}, cv=GroupKFold(3))
        model: Any = ConformalRegressor(search)
        model.set_fit_request(groups=True).set_score_request(sample_weight=False)
        seen.clear()
        model.fit(x, y, groups=groups, sample_weight=weights)
        assert len(seen) == 7
        assert all(np.array_equal(sent, weights[rows - 1000]) for rows, sent in seen)
        calibrating = set(groups[model.calibration_rows_])
        assert not any(calibrating & set(groups[rows - 1000]) for rows, _ in seen)
        params = {"groups": groups, "sample_weight": weights}
        assert len(cross_val_score(model, x, y, cv=GroupKFold(4), params=params)) == 4


def test_it_works_where_estimators_do() -> None:
    x, y = table()
    model = ConformalRegressor(Ridge(alpha=2.0), calibrator=gb.Local(), random_state=3)
    other = copied(model)
    assert other.get_params()["estimator__alpha"] == 2.0 and repr(other.calibrator) == repr(gb.Local())
    assert cross_val_score(model, x, y, cv=3).min() > 0.5
    pipe: Any = make_pipeline(StandardScaler(), ConformalRegressor(Ridge())).fit(x.to_numpy(), y)
    assert pipe[-1].predict_interval(pipe[:-1].transform(x.to_numpy()[:2])).shape == (2, 2)
    outside = GridSearchCV(ConformalRegressor(Ridge()), {"estimator__alpha": [0.1, 1.0]}, cv=2).fit(x, y)
    assert outside.best_estimator_.predict_interval(x[:2]).shape == (2, 3)
    fitted = model.fit(x, y)
    again = pickle.loads(pickle.dumps(fitted))
    pandas.testing.assert_frame_equal(again.predict_interval(x[:5]), fitted.predict_interval(x[:5]))


def test_a_fitted_calibration_is_checked_and_evaluated_like_any_other() -> None:
    (x, y), (fresh, y_fresh) = table(), table(seed=1)
    model = ConformalRegressor(Ridge()).fit(x, y)
    assert "Consistent with the guarantee" in str(gb.evaluate(model.calibrated_, fresh, y_fresh))
    rows = np.delete(np.arange(len(x)), model.calibration_rows_)
    with pytest.warns(UserWarning, match="225 of 225 test points are training points"):
        gb.evaluate(model.calibrated_, x.iloc[rows], y.iloc[rows])


def test_randomness_is_the_users() -> None:
    x, y = table()
    rows = [ConformalRegressor(Ridge(), random_state=s).fit(x, y).calibration_rows_ for s in (0, 0, 1)]
    assert np.array_equal(rows[0], rows[1]) and not np.array_equal(rows[0], rows[2])
    with gb.testing.untouched():
        ConformalRegressor(Ridge()).fit(x, y).predict_interval(x)


def test_what_cannot_be_is_refused() -> None:
    x, y = table()
    with pytest.raises(TypeError, match="LogisticRegression is a classifier"):
        ConformalRegressor(LogisticRegression()).fit(x, y > 0)
    with pytest.raises(ValueError, match="should leave rows for fitting; 300 takes all 300"):
        ConformalRegressor(Ridge(), calibration_size=300).fit(x, y)
    with pytest.raises(ValueError, match="n_samples = 1"):
        ConformalRegressor(Ridge()).fit(x[:1], y[:1])
    with pytest.raises(ValueError, match="requires y to be passed"):
        ConformalRegressor(Ridge()).fit(x, None)
    norm = ConformalRegressor(Ridge(), conformal_score=Largest()).fit(x, y)
    with pytest.raises(TypeError, match="are not intervals"):
        norm.predict_interval(x)
    with pytest.warns(gb.conformal.InfiniteBandWarning, match="needs 19 calibration points, but there are 5"):
        ends = ConformalRegressor(Ridge()).fit(x[:20], y[:20]).predict_interval(x[:2])
    assert np.isinf(ends[["lower", "upper"]]).all(axis=None)


class Largest(gb.conformal.Score):
    """A score whose sets are balls, not boxes."""

    def __call__(self, prediction: gb.Prediction, y: Any) -> Any:
        return abs(y - prediction.mean).max(axis=1)

    def band(self, prediction: gb.Prediction, q: Any, level: float) -> gb.values.NormBand:
        return gb.values.NormBand(prediction.x, prediction.mean, q, lambda d: abs(d).max(axis=1), level)


def test_rows_that_were_copied_before_the_split_are_noticed() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(100, 2))
    y = X.sum(axis=1) + 0.1 * rng.normal(size=100)
    often = rng.integers(0, 100, size=1000)
    with pytest.warns(UserWarning, match="250 calibration points look like training points"):
        model = ConformalRegressor(DecisionTreeRegressor()).fit(X[often], y[often])
    assert "ALARM" in str(gb.check(model.calibrated_, X))


def test_a_column_of_words_hides_no_fitted_rows() -> None:
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"p": rng.uniform(size=300), "seal": rng.choice(["a", "b"], size=300)})
    y = X["p"] + 0.1 * rng.normal(size=300)
    words = make_column_transformer((OneHotEncoder(), ["seal"]), remainder="passthrough")
    model = ConformalRegressor(make_pipeline(words, DecisionTreeRegressor())).fit(X, y)
    fitted = np.setdiff1d(np.arange(300), model.calibration_rows_)
    with pytest.warns(UserWarning, match="225 of 225 test points are training points"):
        evaluation = gb.evaluate(model.calibrated_, X.iloc[fitted], y.iloc[fitted])
    assert evaluation.consistent is None


def test_names_that_come_or_go_are_said_as_scikit_learn_does() -> None:
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.uniform(size=(100, 2)), columns=["a", "b"])
    named, bare = (ConformalRegressor(Ridge()).fit(rows, X["a"]) for rows in (X, X.to_numpy()))
    with pytest.warns(UserWarning, match="X has no feature names, but ConformalRegressor was fitted with "):
        named.predict_interval(X.to_numpy())
    with pytest.warns(UserWarning, match="X has feature names, but ConformalRegressor was fitted without"):
        bare.predict_interval(X)
