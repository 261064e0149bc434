"""Decisions: limits, one-sided bounds, screening, certificates, hybrids and validation."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.conformal.rank import exact
from guardband.decisions import (
    Audit,
    Command,
    GridConvergence,
    SolverFailed,
    ToleranceLimits,
    certify,
    validation,
)
from guardband.decisions.screen import benjamini_hochberg, p_values, weighted_selection
from wings import torch


def runs(n: int = 200, seed: int = 0, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    x = draw.uniform(size=(n, 1))
    return x, x + noise * draw.normal(size=x.shape)


def identity(x: np.ndarray) -> np.ndarray:
    return x


# One-sided bounds


@pytest.mark.parametrize("score", [gb.Scaled(), gb.Absolute(), gb.conformal.Total(noise=0.1)], ids=repr)
def test_the_bound_on_each_side_is_the_exact_rank_of_signed_errors(score: gb.conformal.Score) -> None:
    x, y = runs(99)
    prediction = gb.Prediction(x, 0 * x, 0.5 + x)
    unit = score.unit(prediction)  # type: ignore[attr-defined]
    sides: tuple[Any, ...] = ("upper", "lower")
    for side, signed in zip(sides, (y / unit, -y / unit), strict=True):
        calibrated = gb.calibrate_arrays(prediction, y, score=score, side=side)
        band = calibrated.band(prediction, level=0.9)
        bound = np.sort(signed.ravel())[89] * unit * (1 if side == "upper" else -1)
        closed, opened = (band.upper, band.lower) if side == "upper" else (band.lower, band.upper)
        np.testing.assert_allclose(closed, np.broadcast_to(bound, closed.shape), rtol=1e-12, atol=1e-12)
        assert np.isinf(opened).all()
        assert calibrated.contains(prediction, y, level=0.9).sum() == 90
        assert band.contains(y).sum() == 90


def test_a_negative_threshold_is_rounded_outwards() -> None:
    """All readings lie below the prediction, so the upper bound does too."""
    y = -np.arange(1.0, 20.0)[:, None] / 3
    calibrated = gb.calibrate_arrays(0 * y, y, side="upper")
    for level in (0.5, 0.9, 0.95):
        band = calibrated.band(gb.Prediction(None, 0 * y), level=level)
        assert (band.upper < 0).all()
        assert band.contains(y).sum() == gb.conformal.rank(19, level)


def test_several_outputs_have_one_bound_each_and_hold_together() -> None:
    draw = np.random.default_rng(0)
    y = draw.normal(size=(99, 3))
    calibrated = gb.calibrate_arrays(0 * y, y, side=("upper", "none", "both"))
    band = calibrated.band(gb.Prediction(None, 0 * y), level=0.9)
    assert np.isinf(band.lower[:, 0]).all() and np.isfinite(band.upper[:, 0]).all()
    assert np.isinf(band.lower[:, 1]).all() and np.isinf(band.upper[:, 1]).all()
    assert np.isfinite(band.lower[:, 2]).all() and np.isfinite(band.upper[:, 2]).all()
    inside = (y[:, 0] <= band.upper[:, 0]) & (abs(y[:, 2]) <= band.upper[:, 2])
    assert inside.sum() == 90 == band.contains(y).sum()


def test_quantiles_move_one_end() -> None:
    y = np.arange(1.0, 20.0)
    ends = gb.conformal.QuantilePrediction(None, lower=[5.0] * 19, upper=[10.0] * 19)
    band = gb.calibrate_arrays(ends, y, side="upper").band(ends.take([0]), level=0.9)
    assert (band.lower[0, 0], band.upper[0, 0].round(6)) == (-np.inf, 18.0)


def test_a_field_lies_below_its_bound_at_all_nodes() -> None:
    fields = np.random.default_rng(0).normal(size=(99, 20, 1))
    calibrated = gb.calibrate_arrays(0 * fields, fields, score=gb.Simultaneous(), side="upper")
    band = calibrated.band(gb.Prediction(None, 0 * fields), level=0.9)
    assert band.contains(fields).sum() == 90
    assert band.upper[0, 0, 0] == pytest.approx(np.sort(fields.max(axis=(1, 2)))[89])


def test_a_local_bound_has_the_shape_of_the_two_sided_band() -> None:
    x, y = runs(400)
    local = gb.Local(gb.Observations(x[:200], y[:200]))
    both = gb.calibrate(identity, x[200:], y[200:], calibrator=local)
    upper = gb.calibrate(identity, x[200:], y[200:], calibrator=local, side="upper")
    at = np.linspace(0, 1, 9)[:, None]
    shape, bound = both(at).width, upper(at).upper - at
    np.testing.assert_allclose(bound / bound[0], shape / shape[0], rtol=1e-9)


def test_fifty_nine_runs_give_the_largest_one_at_95_and_95() -> None:
    x, y = runs(59)
    calibrated = gb.calibrate(identity, x, y, side="upper", confidence=0.95)
    assert calibrated([0.5], level=0.95).upper == pytest.approx(0.5 + (y - x).max())
    with pytest.warns(gb.conformal.InfiniteBandWarning, match="needs 59"):
        assert np.isinf(gb.calibrate(identity, x[1:], y[1:], side="upper", confidence=0.95)([0.5]).upper)


def test_a_bound_is_saved_and_loaded(tmp_path: Path) -> None:
    y = runs()[1]
    calibrated = gb.calibrate_arrays(0 * y, y, side="lower")
    gb.save(calibrated, tmp_path / "bound")
    again = gb.load(tmp_path / "bound")
    prediction = gb.Prediction(None, [0.0])
    assert again.band(prediction).lower == calibrated.band(prediction).lower
    assert "holds from below" in again.promise


def test_tensors_give_tensors() -> None:
    y = torch.arange(-9.0, 10.0)[:, None]
    band = gb.calibrate_arrays(0 * y, y, side="upper").band(gb.Prediction(None, torch.zeros(2, 1)), level=0.9)
    assert isinstance(band.upper, torch.Tensor) and band.upper.dtype == torch.float32
    assert band.lower.tolist() == [[-np.inf]] * 2 and band.contains(
        torch.tensor([[8.0], [8.5]])
    ).tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize("side", ["up", (), ("upper", "down")])
def test_other_sides_are_refused(side: object) -> None:
    with pytest.raises(ValueError, match="`side` should be one of upper, lower, both, none"):
        gb.calibrate_arrays([0.0] * 9, [1.0] * 9, side=side)  # type: ignore[arg-type]


def test_scores_without_ends_have_no_side() -> None:
    with pytest.raises(TypeError, match="A bound on one side needs a score whose sets are intervals"):
        gb.conformal.OneSided(gb.Norm("L2"))
    with pytest.raises(TypeError, match="A one-sided bound needs"):
        ends = gb.conformal.QuantilePrediction(None, lower=[5.0] * 19, upper=[10.0] * 19)
        gb.calibrate_arrays(ends, [7.0] * 19, score=gb.CQR(symmetric=False), side="upper")
    with pytest.raises(ValueError, match="names 2 outputs, and the prediction has 1"):
        gb.calibrate_arrays([0.0] * 9, [1.0] * 9, side=("upper", "lower"))


# ToleranceLimits


def test_limits_are_read_from_sentences() -> None:
    limits = ToleranceLimits.parse(
        ["p_drop<=120", "280 <= T<=360", "v >= -1.5e-1"], ("T", "p_drop", "v", "w")
    )
    assert limits.sides == ("both", "upper", "lower", "none")
    assert str(limits) == "280 <= T <= 360, p_drop <= 120, v >= -0.15"
    assert limits.met_by(np.array([[300, 120, 0, 9], [300, 121, 0, 9], [np.nan, 0, 0, 0]])).tolist() == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("p <", "A limit is written as"),
        ("p < 3", "A limit is written as"),
        ("p", "A limit is written as"),
        ("q <= 3", "Unknown output 'q'"),
        ("3 <= p >= 2", "point in one direction"),
        ("5 <= p <= 2", "lies above its upper limit"),
    ],
)
def test_sentences_that_are_no_limit_are_refused(sentence: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ToleranceLimits.parse([sentence], ("p", "T"))


def test_two_limits_on_one_side_are_refused() -> None:
    with pytest.raises(ValueError, match="two limits on the same side of 'p'"):
        ToleranceLimits.parse(["p <= 3", "p <= 4"], ("p",))


# Decisions


def test_acceptance_compares_the_bound_with_the_limit() -> None:
    x, y = runs()
    calibrated = gb.calibrate(identity, x, y)
    at = np.linspace(0, 1, 201)[:, None]
    for side in ("upper", "lower"):
        decisions = gb.decide(calibrated, at, 0.5, side=side)
        upper = gb.calibrate(identity, x, y, side="upper")(at).upper[:, 0]
        lower = gb.calibrate(identity, x, y, side="lower")(at).lower[:, 0]
        accept, reject = (upper <= 0.5, lower > 0.5) if side == "upper" else (lower >= 0.5, upper < 0.5)
        assert (decisions.decision == "accept").tolist() == accept.tolist()
        assert (decisions.decision == "reject").tolist() == reject.tolist()
        assert sum(decisions.counts.values()) == 201
        bound = decisions.acceptance_limits[side == "upper"][:, 0]
        by_limit = at[:, 0] <= bound if side == "upper" else at[:, 0] >= bound
        assert (by_limit == accept).all()
        assert (decisions.guard_band > 0).all()


def test_several_limits_are_met_together() -> None:
    draw = np.random.default_rng(0)
    x = draw.uniform(size=(300, 2))
    calibrated = gb.calibrate(identity, x, x + 0.05 * draw.normal(size=x.shape), names=pair())
    decisions = gb.decide(
        calibrated, [[0.2, 0.5], [0.2, 0.95], [0.9, 0.5], [0.49, 0.5]], ["a <= 0.5", "0.1 <= b <= 0.9"]
    )
    assert decisions.decision.tolist() == ["accept", "conditional", "reject", "conditional"]
    assert list(decisions.to_pandas().columns)[:4] == [
        "decision",
        "a predicted",
        "a lower bound",
        "a upper bound",
    ]
    assert "global consumer's risk" in decisions.risk and "at most 0.05" in decisions.risk


def pair() -> gb.values.Names:
    return gb.values.Names(("x", "y"), ("a", "b"))


def test_each_query_may_have_a_limit_of_its_own() -> None:
    x, y = runs()
    calibrated = gb.calibrate(identity, x, y)
    decisions = gb.decide(calibrated, [[0.5], [0.5], [0.5]], [0.9, 0.5, 0.1])
    assert decisions.decision.tolist() == ["accept", "conditional", "reject"]
    with pytest.raises(ValueError, match="limits for 2 queries, and 3 queries"):
        gb.decide(calibrated, [[0.5], [0.5], [0.5]], [0.9, 0.5])


def test_too_few_runs_accept_nothing() -> None:
    x, y = runs(10)
    with pytest.warns(gb.conformal.InfiniteBandWarning):
        decisions = gb.decide(gb.calibrate(identity, x, y), [[0.0]], 1e9)
    assert decisions.decision.tolist() == ["conditional"]


def test_a_band_about_the_truth_decides_on_the_truth() -> None:
    x, y = runs()
    truth = gb.calibrate(
        identity, x, y, target="truth", noise=gb.conformal.GaussianNoise(0.05), confidence=0.9
    )
    assert "noise-free truth" in gb.decide(truth, [[0.1]], 0.5).risk


# Screening


def test_p_values_count_violating_runs_that_look_as_safe() -> None:
    violating, asked = np.array([0.1, 0.3, 0.3, -0.2]), np.array([0.5, 0.3, 0.2, -1.0])
    assert p_values(violating, asked, n=9).tolist() == [0.1, 0.3, 0.3, 0.5]


def test_benjamini_hochberg_is_the_textbook_procedure() -> None:
    draw = np.random.default_rng(0)
    for _ in range(200):
        p = np.round(draw.uniform(size=12) ** 2, 2)
        ordered = np.sort(p)
        k = max([j for j in range(1, 13) if ordered[j - 1] <= 0.2 * j / 12 + 1e-12], default=0)
        expected = p <= ordered[k - 1] if k else np.zeros(12, dtype=bool)
        assert benjamini_hochberg(p, exact(0.2)).tolist() == expected.tolist()


def test_equal_weights_select_no_more_than_unweighted_screening() -> None:
    x, y = runs(300, noise=0.1)
    designs = np.random.default_rng(1).uniform(size=(150, 1))
    plain = gb.screen(gb.calibrate(identity, x, y), designs, 0.5, fdr=0.2)
    weighted = gb.screen(
        gb.calibrate(identity, x, y, calibrator=gb.Weighted(constant)), designs, 0.5, fdr=0.2
    )
    assert weighted.weighted and np.allclose(weighted.p, plain.p)
    assert 0 < weighted.selected.sum() <= plain.selected.sum()
    assert "density ratio" in weighted.promise and "exchangeable" in plain.promise


def constant(x: np.ndarray) -> np.ndarray:
    return np.ones(len(x))


def test_weighted_selection_is_that_of_the_paper_written_out() -> None:
    draw = np.random.default_rng(0)
    for _ in range(30):
        known, violating, weights = (
            draw.normal(size=20),
            draw.uniform(size=20) < 0.4,
            draw.exponential(size=20),
        )
        asked, own = draw.normal(size=8) + 1, draw.exponential(size=8)
        selected, p = weighted_selection(known, violating, weights, asked, own, exact(0.4))
        total, sizes = weights.sum(), []
        for j in range(8):
            mine = [
                (weights[violating & (known >= asked[k])].sum() + own[j] * (asked[j] >= asked[k]))
                / (total + own[j])
                for k in range(8)
            ]
            assert p[j] == pytest.approx(mine[j])
            mine[j] = 0.0
            sizes.append(max(k for k in range(1, 9) if np.sort(mine)[k - 1] <= 0.4 * k / 8))
        first = [j for j in range(8) if p[j] <= 0.4 * sizes[j] / 8]
        largest = max([r for r in range(9) if sum(sizes[j] <= r for j in first) >= r])
        assert np.flatnonzero(selected).tolist() == [j for j in first if sizes[j] <= largest]


def test_what_screening_cannot_use_is_refused() -> None:
    x, y = runs()
    calibrated = gb.calibrate(identity, x, y)
    with pytest.raises(ValueError, match="the same for all designs"):
        gb.screen(calibrated, x, np.linspace(0, 1, 200))
    with pytest.raises(ValueError, match="`fdr` should lie strictly between 0 and 1"):
        gb.screen(calibrated, x, 0.5, fdr=1.0)
    grouped = gb.calibrate(identity, x, y, calibrator=gb.Clustered(), groups=np.arange(200) // 2)
    with pytest.raises(ValueError, match="single designs"):
        gb.screen(grouped, x, 0.5)


# Certificates and audits


def test_the_largest_threshold_that_passes_is_certified() -> None:
    scale = np.linspace(0, 1, 400)
    certificate = certify(scale, scale > 0.7, np.linspace(0.05, 1, 20), risk=0.05, confidence=0.95)
    assert certificate.threshold == pytest.approx(0.7) and certificate.wrong == 0
    assert certificate.share == pytest.approx(0.7, abs=0.01)
    assert "With confidence 0.95" in certificate.promise


def test_fifty_eight_served_runs_certify_nothing() -> None:
    for n, passes in ((58, False), (59, True)):
        certificate = certify(np.zeros(n), np.zeros(n, dtype=bool), [0.0])
        assert (certificate.threshold is not None) == passes
    assert "59 served runs" in certify(np.zeros(9), np.zeros(9, dtype=bool), [0.0]).promise


def test_the_first_threshold_that_fails_ends_the_tests() -> None:
    """A later one would pass by luck: the order is fixed."""
    scale = np.concatenate([np.full(100, 0.1), np.full(400, 0.2)])
    wrong = np.concatenate([np.arange(100) < 20, np.zeros(400, dtype=bool)])
    assert certify(scale, wrong, [0.1, 0.2]).threshold is None


def test_the_evidence_is_the_mixture_of_likelihood_ratios() -> None:
    audit = Audit(risk=0.1, alarm=0.01)
    for wrong in (True, False, False, True, False):
        audit.update(wrong)
    grid = np.linspace(0.1, 1, 200_001)
    ratios = (grid / 0.1) ** 2 * ((1 - grid) / 0.9) ** 3
    assert np.exp(audit.log_evidence) == pytest.approx(np.trapezoid(ratios, grid) / 0.9, rel=1e-6)


# Hybrids


def surrogate(x: np.ndarray) -> gb.Prediction:
    return gb.Prediction(x, np.sin(x), scale=0.01 + 0.1 * x**2)


def solver(x: np.ndarray) -> np.ndarray:
    return np.sin(x) + 0.1 * x**2 * np.cos(40 * x)


def hybrid(n: int = 400, call: object = solver, **options: object) -> gb.Hybrid:
    x = np.random.default_rng(0).uniform(size=(n, 1))
    return gb.Hybrid(surrogate, call, x, solver(x), **{"tolerance": 0.03, "audits": 0.2, **options})  # type: ignore[arg-type]


def test_a_hybrid_serves_where_it_is_certified() -> None:
    made = hybrid()
    x = np.random.default_rng(1).uniform(size=(500, 1))
    answers = made(x)
    served = np.isin(answers.by, ["surrogate", "audit"])
    assert (served == (answers.scale <= made.certificate.threshold)).all()
    assert 0.1 < (answers.by == "audit").sum() / served.sum() < 0.3
    solved = answers.by != "surrogate"
    np.testing.assert_array_equal(answers.y[solved], solver(x)[solved])
    np.testing.assert_array_equal(answers.y[~solved], np.sin(x)[~solved])
    assert "audited" in made.promise


def failing(x: np.ndarray) -> np.ndarray:
    if x[0] > 0.9:
        raise RuntimeError("diverged")
    return np.array([np.nan]) if x[0] > 0.8 else solver(x)


def test_a_solver_that_fails_is_reported_and_never_served() -> None:
    answers = hybrid(call=failing)([[0.1], [0.85], [0.95]])
    assert answers.by.tolist() == ["surrogate", "failed", "failed"]
    assert np.isnan(answers.y[1:]).all()
    assert answers.reasons == {1: "an answer that is not finite", 2: "RuntimeError: diverged"}


def test_a_drift_withdraws_the_certificate_and_solver_runs_renew_it(tmp_path: Path) -> None:
    shift = [0.0]

    def drifting(x: np.ndarray) -> np.ndarray:
        return solver(x) + shift[0]

    made = hybrid(call=drifting, audits=0.5, renewal=300, log=tmp_path / "log.jsonl")
    draw = np.random.default_rng(2)
    assert (made(draw.uniform(size=(300, 1))).by == "surrogate").any()
    shift[0] = 0.1
    made(draw.uniform(size=(100, 1)))
    assert made.certificate.threshold is None and made.audit.alarmed
    assert set(made(draw.uniform(size=(100, 1))).by) == {"solver"}
    shift[0] = 0.0
    made(draw.uniform(size=(300, 1)))
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert len(lines) == 800 and {line["by"] for line in lines} == {"surrogate", "audit", "solver"}


def test_a_command_is_a_solver(tmp_path: Path) -> None:
    script = "import json; x = json.load(open('inputs.json'))['x']"
    script += "; json.dump({'y': x + 1}, open('outputs.json', 'w'))"
    command = Command([sys.executable, "-c", script], tmp_path, ["x"], ["y"])
    assert command(np.array([2.0])) == 3.0 and command(np.array([3.0])) == 4.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["case-000001", "case-000002"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import sys; sys.exit(3)", "status 3"),
        ("import time; time.sleep(60)", "no answer within 0.5 s"),
        ("pass", "should hold one number"),
        ("open('outputs.json', 'w').write('{\"y\": [1]}')", "should hold one number"),
    ],
)
def test_a_command_that_fails_says_why(script: str, message: str, tmp_path: Path) -> None:
    command = Command([sys.executable, "-S", "-c", script], tmp_path, ["x"], ["y"], timeout=0.5)
    start = time.monotonic()
    with pytest.raises(SolverFailed, match=message):
        command(np.array([2.0]))
    assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": -1.0}, "`tolerance` should be positive"),
        ({"audits": 2.0}, "`audits` should be a share"),
        ({"risk": 0.0}, "`risk` should lie strictly between"),
        ({"alarm": 1.0}, "`alarm` should lie strictly between"),
    ],
)
def test_options_of_a_hybrid_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hybrid(**options)


# Validation


def test_grid_convergence_reproduces_published_examples() -> None:
    """Celik et al. 2008, table 1: order 1.53, extrapolated 6.1685, index 2.2 %."""
    grids = GridConvergence((1.0, 1.5, 1.5 * 1.333), (6.063, 5.972, 5.863))
    assert grids.order == pytest.approx(1.53, abs=0.01)
    assert grids.extrapolated == pytest.approx(6.1685, abs=0.001)
    assert grids.index / 6.063 == pytest.approx(0.022, abs=0.001)


def test_grids_that_do_not_converge_are_refused() -> None:
    diverging = GridConvergence((1.0, 2.0, 4.0), (1.0, 2.0, 2.5))
    assert np.isnan(diverging.order)
    with pytest.raises(ValueError, match="does not converge on these grids"):
        validation(1.0, 1.1, grids=diverging)


def test_a_validation_page_keeps_its_two_statements_apart(tmp_path: Path) -> None:
    x, y = runs()
    band = gb.calibrate(identity, x, y)([0.5])
    compared = validation(0.5, 0.52, u_num=0.01, u_input=0.01, u_data=0.02, band=band, quantity="Cd")
    assert compared.u_val == pytest.approx(np.sqrt(0.01**2 + 0.01**2 + 0.02**2))
    assert compared.model_error == pytest.approx((-0.02 - 2 * compared.u_val, -0.02 + 2 * compared.u_val))
    page = gb.report(compared, path=tmp_path / "page.md").read_text()
    assert "cannot be distinguished" in page and "not combined with the standard uncertainties" in page
    assert "# Validation of Cd" in page


def test_sorted_calibration_runs_are_a_fair_sample() -> None:
    """The error grows with x, and so would the calibration runs after the first quarter."""
    x = np.linspace(0, 1, 400)[:, None]
    made = gb.Hybrid(surrogate, solver, x, solver(x), tolerance=0.03, audits=0)
    shuffled = hybrid(audits=0).certificate
    assert made.certificate.n == shuffled.n == 300
    assert abs(made.certificate.share - shuffled.share) < 0.15
