"""Bands are, bit by bit, those that 0.1.0 gave, in every setting in which nothing was mended."""

import numpy as np
import pytest

from helpers import ROOT, script

STORED = np.load(ROOT / "tests/data/bands_of_0.1.0.npz")
NOW = dict(script("tools/stored_bands.py").bands())


def test_every_setting_is_compared() -> None:
    assert set(NOW) == set(STORED) and len(NOW) >= 50


@pytest.mark.parametrize("name", NOW)
def test_the_band_is_that_of_0_1_0(name: str) -> None:
    assert NOW[name].dtype == STORED[name].dtype and np.array_equal(NOW[name], STORED[name])
