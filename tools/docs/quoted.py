"""Numbers on pages: each measured number names its source, and must agree with it.

    0.86<!-- source: results/data/field.json claims.rate_vs_bare_network -->
    1.17<!-- source: results/predictors.md Laplace | relative L2, % -->
    50 times<!-- definition -->

A source is a file of the repository and a key of its JSON (the claims by their names), or a row and a column
of the first table in it that has them; of the first below a heading, if one is named before them, as in
`A, paper > distance, scaled | width after`. It may hold more digits than the page quotes.
`python tools/docs/quoted.py` updates the numbers. A number without a source is an error, unless it is in
code, a level, or a date.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCED = re.compile(r"(?P<number>[\d.,]*\d)(?P<unit>[ %A-Za-z]*)<!-- source: (?P<file>\S+) (?P<key>.+?) -->")
UNITS = "|".join((r" ?%", r" times\b", r"x\b", r" s\b", r" hours?\b", r" minutes\b", r" MB\b", r" Gi?B\b"))
NUMBER = re.compile(rf"(?<![\w.\-/#:])(\d+\.\d+(?![\w.])|\.\d+|\d+(?:\.\d+)?(?:{UNITS}))")
LEVELS = {f"{level} %" for level in (0, 0.1, 1, 5, 50, 90, 95, 99, 100)} | {
    "0.9",
    "0.95",
    "0.99",
    "0.5",
    "0.90",
}


def sources(text: str) -> Iterator[tuple[str, str]]:
    """Every sourced number of a page: the quoted and the expected text."""
    for found in SOURCED.finditer(text):
        yield found["number"], as_quoted(found["number"], looked_up(found["file"], found["key"]))


def as_quoted(quoted: str, value: float) -> str:
    """A value with as many decimals as the quoted number has."""
    decimals = len(quoted.partition(".")[2])
    return f"{value:,.{decimals}f}" if "," in quoted else f"{value:.{decimals}f}"


def looked_up(file: str, key: str) -> float:
    """The number at a key of a JSON file, or at a row and column of a table."""
    text = (ROOT / file).read_text()
    if file.endswith(".json"):
        found: Any = json.loads(text)
        for part in key.split("."):
            inside = found[part]
            found = {claim["name"]: claim["value"] for claim in inside} if part == "claims" else inside
        return float(found)
    heading, _, rest = key.rpartition(" > ")
    row, _, column = (part.strip() for part in rest.partition(" | "))
    text = text.partition(f"\n## {heading}\n")[2] if heading else text
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        head, _, *lines = [
            [cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()
        ]
        for cells in lines:
            if column in head and row in (cells[0], ", ".join(cells[:2])):
                number = re.search(r"-?[\d.]+", cells[head.index(column)])
                assert number is not None, f"{file}: {key} is not a number"
                return float(number[0])
    raise KeyError(f"{file} has no {key!r}")


def without_source(text: str) -> list[str]:
    """The numbers in prose that look measured and have no source."""
    for pattern in (
        r"^---\n.*?\n---",
        r"```.*?```",
        r"`[^`\n]*`",
        r"\]\([^)]*\)",
        r"https?://\S+",
        r"<[a-z][^>]*>",
    ):
        text = re.sub(pattern, " ", text, flags=re.DOTALL)
    text = SOURCED.sub(" ", text)
    text = re.sub(r"[\d.,]+[ %A-Za-z]*<!-- definition -->", " ", text)
    return [number for number in NUMBER.findall(text) if number not in LEVELS]


def filled(text: str) -> str:
    """A page with updated numbers."""

    def renewed(found: re.Match[str]) -> str:
        number = as_quoted(found["number"], looked_up(found["file"], found["key"]))
        return f"{number}{found['unit']}<!-- source: {found['file']} {found['key']} -->"

    return SOURCED.sub(renewed, text)


if __name__ == "__main__":
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text()
        if filled(text) != text:
            page.write_text(filled(text))
            print(page.relative_to(ROOT))
