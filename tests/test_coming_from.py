"""Coming from another library: both sides of the page run, and give the same band."""

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parent.parent / "docs" / "coming_from.md"
BLOCK = re.compile(r"(?:<!-- runs with: (?P<peer>\w+) -->\n)?```(?:python|py)\n(?P<code>.*?)```", re.DOTALL)


@pytest.mark.parametrize("peer", ["mapie", "crepes"])
def test_the_same_job_gives_the_same_band(peer: str) -> None:
    pytest.importorskip(peer)
    names: dict[str, object] = {}
    for block in BLOCK.finditer(PAGE.read_text()):
        if block["peer"] in (None, peer):
            exec(compile(block["code"], PAGE.name, "exec"), names)
        if block["peer"] is None and "intervals" in names:
            break
    band, theirs = names["band"], np.asarray(names["intervals"]).reshape(5, 2)
    ours = np.hstack([band.lower, band.upper])  # type: ignore[attr-defined]
    assert ours == pytest.approx(theirs, rel=1e-9)
