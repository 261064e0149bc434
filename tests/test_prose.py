"""The tool that counts translated-sounding sentences: what it finds, what it ignores, when it fails."""

from pathlib import Path

import pytest

from helpers import ROOT, script

PROSE = script("tools/prose.py")

EXAMPLES = {
    "what-clause as a subject": "What remains of the noise is small.",
    "of before its noun": "Of the outer layers no more than two count.",
    "by or beside as an opening": "By a wrong scale the band grows.",
    "where for if": "Where nothing fits, the band is infinite.",
    "things that speak": "The score asks for a scale.",
    "is told, is said, is asked": "The user is told.",
    "beside": "A table beside the plot.",
    "held against": "It is held against the law.",
    "somebody": "Whoever trains it needs a seed.",
    "made again": "The page is made again.",
    "made by a command": "Made by `python run.py`.",
    "made of": "That is what Adam makes of it.",
    "goes on": "The study goes on.",
    "so many": "After so many steps it ends.",
    "of its own": "It has a seed of its own.",
    "by itself": "The scale is found by itself.",
    "is there": "It resumes with the rows that are there.",
    "stands beside": "The other figure stands behind it.",
    "that is none": "A number that is none raises.",
    "asked for": "It covers more than was asked for.",
    "the more, the more": "the more points there are, the less noise gets through",
    "in the place of": "It takes fields in the place of arrays.",
    "says so, says nothing": "A chart says nothing.",
}


def found(path: Path, text: str) -> list[str]:
    path.write_text(text)
    return [place.pattern for place in PROSE.places([path])[0]]


@pytest.mark.parametrize("name", PROSE.PATTERNS)
def test_each_pattern_finds_its_example(name: str, tmp_path: Path) -> None:
    assert name in found(tmp_path / "page.md", EXAMPLES[name])
    assert name in found(tmp_path / "module.py", f'"""First line.\n\n{EXAMPLES[name]}\n"""\n')
    assert name in found(tmp_path / "module.py", f"x = 1  # {EXAMPLES[name]}\n")


def test_conventional_sentences_are_left_alone(tmp_path: Path) -> None:
    text = """\
Return the band at new points. If the rank exceeds n, the band is infinite.
By default, training uses Adam. Of course the level is fixed. What is a band? A set of intervals.
The threshold is compared with the exact law. The error message says that the level is too high.
There is no finite-sample guarantee. Most of the time is spent in linear algebra.
"""
    assert found(tmp_path / "page.md", text) == []


def test_code_and_link_targets_are_not_prose(tmp_path: Path) -> None:
    text = "Plain `goes on beside` [text](beside/nobody.md).\n\n```\nnobody goes on\n```\n"
    assert found(tmp_path / "page.md", text) == []
    assert found(tmp_path / "module.py", '"""One.\n\n>>> beside = 1  # nobody\n>>> beside\n1\n"""\n') == []


def test_a_sentence_over_two_lines_is_found_at_its_paragraph(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("# Title\n\nA first line that\ngoes\non here.\n")
    (place,), words = PROSE.places([path])
    assert (place.line, place.pattern, words) == (3, "goes on", 8)


def test_the_check_fails_above_a_bound_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(PROSE, "ROOT", tmp_path)
    monkeypatch.setattr(PROSE.check, "__defaults__", (tmp_path,))
    page = tmp_path / "CHANGELOG.md"
    page.write_text("The band covers the target. " * 400)
    assert PROSE.main(["--check"]) == 0
    page.write_text(page.read_text() + "It goes on. It goes on. Nobody asks.")
    assert PROSE.main(["--check"]) == 1
    printed = capsys.readouterr()
    assert "CHANGELOG: 3 places in 2008 words, 14.9 per 10,000" in printed.out
    assert "`CHANGELOG` should have at most 10 places per 10,000 words, got 14.9 (goes on 2" in printed.err
    assert PROSE.main([]) == 0
    assert PROSE.main([str(page)]) == 0 and f"{page}:1: goes on: goes on" in capsys.readouterr().out


def test_every_area_has_files_and_a_bound() -> None:
    assert PROSE.AREAS.keys() == PROSE.BOUNDS.keys()
    assert all(PROSE.files_of(area) for area in PROSE.AREAS)
    assert ROOT / "README.md" in PROSE.files_of("docs")
