"""Decisions keep their stated rates: wrong acceptances, false discoveries, certificates and audits.

Each test is one-sided; all of them together fail by chance for one seed in a thousand.
"""

import numpy as np
import pytest
from scipy.stats import binom, norm

import guardband as gb
from guardband.conformal.rank import exact
from guardband.decisions import Audit, certify
from guardband.decisions.screen import weighted_selection

FALSE_ALARM = 1e-3 / 8


def world(draw: np.random.Generator, n: int, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    x = draw.uniform(size=(n, 1))
    return x, x + noise * (0.5 + x) * draw.normal(size=x.shape)


@pytest.mark.parametrize("limit", [0.3, 0.7])
def test_a_query_is_rarely_accepted_beyond_the_limit(limit: float) -> None:
    draw, wrong, repeats = np.random.default_rng(1), np.zeros(2), 2000
    for _ in range(repeats):
        (x, y), (new, target) = world(draw, 40), world(draw, 1)
        made = gb.decide(gb.calibrate_arrays(x, y), gb.Prediction(None, new), limit, level=0.9)
        wrong += [
            made.decision[0] == "accept" and target[0, 0] > limit,
            made.decision[0] == "reject" and target[0, 0] <= limit,
        ]
    assert (wrong <= binom.isf(FALSE_ALARM, repeats, 0.1)).all()


@pytest.mark.parametrize("n", [20, 100, 500])
@pytest.mark.parametrize("error", [0.0, 0.3, 2.0])
def test_the_share_of_false_discoveries_is_bounded(error: float, n: int) -> None:
    """Three models of different quality; a normal approximation of the mean over 1,000 repetitions."""
    draw, shares = np.random.default_rng(2), []
    for _ in range(1000):
        (x, y), (new, target) = world(draw, n), world(draw, 100)
        shown = [gb.Prediction(None, at + error * np.sin(7 * at)) for at in (x, new)]
        chosen = gb.screen(gb.calibrate_arrays(shown[0], y), shown[1], 0.4, fdr=0.2).selected
        shares.append((chosen & (target[:, 0] > 0.4)).sum() / max(1, chosen.sum()))
    bound = 0.2 + norm.isf(FALSE_ALARM / 9) * np.std(shares) / np.sqrt(len(shares))
    assert np.mean(shares) <= bound


def test_weighted_screening_keeps_the_rate_under_a_shift() -> None:
    """Designs are drawn with density 2 x, calibration runs uniformly."""
    draw, shares = np.random.default_rng(3), []
    for _ in range(1000):
        (x, y), (new, target) = world(draw, 200), world(draw, 50)
        new = np.sqrt(new)
        target = new + 0.1 * (0.5 + new) * draw.normal(size=new.shape)
        violating = y[:, 0] > 0.6
        selected = weighted_selection(
            (0.6 - x)[:, 0], violating, 2 * x[:, 0], (0.6 - new)[:, 0], 2 * new[:, 0], exact(0.2)
        )[0]
        shares.append((selected & (target[:, 0] > 0.6)).sum() / max(1, selected.sum()))
    assert np.mean(shares) <= 0.2 + norm.isf(FALSE_ALARM) * np.std(shares) / np.sqrt(len(shares))


def test_a_certificate_keeps_its_risk_with_its_confidence() -> None:
    """The risk at scale s is s squared, so that of serving scales up to t is t squared over 3."""
    draw, exceeded, repeats = np.random.default_rng(4), 0, 1000
    for _ in range(repeats):
        scale = draw.uniform(size=300)
        wrong = draw.uniform(size=300) < scale**2
        threshold = certify(scale, wrong, np.linspace(0.02, 1, 50), risk=0.05, confidence=0.95).threshold
        exceeded += threshold is not None and threshold**2 / 3 > 0.05
    assert exceeded <= binom.isf(FALSE_ALARM, repeats, 0.05)


@pytest.mark.slow
def test_audits_rarely_raise_a_false_alarm_and_notice_twice_the_error() -> None:
    """At the certified risk of 5 %, 1,000 runs of 1,000 audits; at three times that risk, 100 runs."""
    draw = np.random.default_rng(5)

    def alarmed(risk: float, audits: int) -> int | None:
        audit = Audit(risk=0.05, alarm=0.05)
        for count, wrong in enumerate(draw.uniform(size=audits) < risk):
            if audit.update(bool(wrong)):
                return count
        return None

    assert sum(alarmed(0.05, 1000) is not None for _ in range(1000)) <= binom.isf(FALSE_ALARM, 1000, 0.05)
    assert sum(alarmed(0.15, 600) is not None for _ in range(100)) >= 95
