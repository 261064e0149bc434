"""Reference cases, computed independently in exact rationals."""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guardband as gb
from guardband.conformal import CoverageLaw, quantile, rank
from helpers import ROOT, script

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "data/conformal_vectors.json").read_text())


def cases(*kinds: str, leave_out: tuple[str, ...] = ()) -> Any:
    chosen = [case for kind in kinds for case in VECTORS[kind] if case.get("id") not in leave_out]
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.get("id", case.get("law")))


def level_of(case: dict[str, Any]) -> Fraction:
    return 1 - Fraction(case["alpha"])


@cases("quantile_cases", "random_cases")
def test_rank_and_quantile_are_the_references(case: dict[str, Any]) -> None:
    scores = np.array([float(score) for score in case["scores"]])
    assert rank(case["n"], level_of(case)) == case["k"]
    assert quantile(scores, level_of(case)) == float(case["quantile"])


@cases("quantile_cases", "random_cases")
def test_a_float_level_means_the_decimal_it_shows(case: dict[str, Any]) -> None:
    level = float(level_of(case))
    assert rank(case["n"], level) == rank(case["n"], np.float64(level)) == case["k"]


ERRORS = {
    "nan_score": (ValueError, "row 1 is NaN"),
    "alpha0": (ValueError, "strictly between 0 and 1, got 1"),
    "alpha1": (ValueError, "strictly between 0 and 1, got 0"),
    "alpha_neg": (ValueError, "strictly between 0 and 1"),
    "alpha_gt1": (ValueError, "strictly between 0 and 1"),
    "alpha_95": (ValueError, "Did you mean 0.95?"),
    "alpha_nan": (ValueError, "strictly between 0 and 1, got nan"),
    "alpha_bool": (TypeError, "should be a number between 0 and 1, got True"),
    "scores_2d_ambiguous": (ValueError, "one number per point, got shape"),
}


@cases("error_cases", leave_out=("neg_score",))  # a score may be negative, as in quantile regression
def test_errors_teach(case: dict[str, Any]) -> None:
    error, text = ERRORS[case["id"]]
    scores = np.array(case["scores"], dtype=float)
    alpha = case["alpha"]
    level: Any = {"True": True, "nan": math.nan, "95": 95}.get(alpha)
    with pytest.raises(error, match=text.replace("?", r"\?")):
        quantile(scores, 1 - Fraction(alpha) if level is None else level)


@cases("multi_output", leave_out=("bonferroni_2out",))
def test_several_outputs_make_one_joint_score(case: dict[str, Any]) -> None:
    y = np.array(case["residuals"], dtype=float)
    scale = np.broadcast_to(np.array(case["sigma"], dtype=float), y.shape)
    zero = np.zeros_like(y)
    prediction = gb.Prediction(None, zero, scale)
    assert gb.Scaled()(prediction, y).tolist() == case["scores"]
    band = gb.calibrate_arrays(zero, y, scale).band(prediction, level_of(case))
    assert np.allclose(band.upper, case["halfwidths"], rtol=1e-14)
    assert band.contains(y).sum() == case["k"]


SIGMAS = {"sigma_zero_resid_pos": math.inf, "sigma_zero_resid_zero": 0.0}


@cases("sigma_cases", leave_out=("g_negative_at_cal",))
def test_scales_that_are_no_scales(case: dict[str, Any]) -> None:
    scale, y = np.array([[float(case["sigma"])]]), np.array([[case["resid"]]])
    if case["id"] in SIGMAS:
        assert gb.Scaled()(gb.Prediction(None, [[0.0]], scale), y).tolist() == [SIGMAS[case["id"]]]
    else:
        with pytest.raises(ValueError, match="row 0 is"):
            gb.Prediction(None, [[0.0]], scale)


@cases("coverage_laws")
def test_coverage_laws(case: dict[str, Any]) -> None:
    k = rank(case["n"], level_of(case))
    law = CoverageLaw(k, case["n"])
    assert k == case["k"]
    assert Fraction(k, case["n"] + 1) == Fraction(case["mean"])
    assert law.mean == pytest.approx(float(Fraction(case["mean"])))


# Bands have the same bits as in earlier releases, in every setting without a correction.

STORED = {of: dict(np.load(ROOT / f"tests/data/bands_of_{of}.npz")) for of in ("0.1.0", "0.2.0")}
NOW = dict(script("tools/stored_bands.py").bands())


def test_every_setting_is_compared() -> None:
    pytest.importorskip("torch")
    assert set(NOW) == set(STORED["0.2.0"]) > set(STORED["0.1.0"])
    assert len(STORED["0.1.0"]) >= 50


@pytest.mark.parametrize(("of", "name"), [(of, name) for of, stored in STORED.items() for name in stored])
def test_the_band_is_that_of_the_release(of: str, name: str) -> None:
    if "torch" in name:
        pytest.importorskip("torch")
    stored = STORED[of][name]
    assert NOW[name].dtype == stored.dtype and np.array_equal(NOW[name], stored)
