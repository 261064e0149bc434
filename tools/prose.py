"""Count sentence patterns that read as translated, per 10,000 words: `python tools/prose.py [PATH ...]`.

Reads Markdown outside code blocks, and docstrings and comments of Python files outside examples.

    python tools/prose.py                # the counts of every area
    python tools/prose.py docs/faq.md    # every place in these files or folders
    python tools/prose.py --check        # exits with 1 if an area is above its bound

A match is a reason to reread a sentence, not proof of an error; hence the bounds are not zero.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
AREAS = {
    "src": ("src/**/*.py",),
    "docs": ("README.md", "docs/**/*.md"),
    "results": ("results/**/*.md",),
    "CHANGELOG": ("CHANGELOG.md",),
}
"""The files of each area, as patterns below the root of the repository."""

BOUNDS = dict.fromkeys(AREAS, 10.0)
"""The largest allowed count of each area, per 10,000 words."""

START = r"(?:^|(?<=[.:;!?] ))"
THING = (
    r"(?:method|model|network|band|score|threshold|file|folder|page|field|problem|predictor|message|report)s?"
)
PATTERNS = {
    "what-clause as a subject": (
        START + r"What (?!is|are|was|does|do|did|can|if|to|about|should)\w+[^.?]*?\b(?:is|are|was|were)\b"
        r"[^?]*?(?=\.|;|$)"
    ),
    "of before its noun": START
    + r"Of (?!course|these|those|the \d|\d)[^,.]+(?:,| (?:is|are|was|were|have|has|no|none|only)\b)",
    "by or beside as an opening": START
    + r"(?:By(?! (?:default|hand|contrast|design|definition)\b)|Beside) \w+",
    "where for if": START + r"Where (?:no|nothing|nobody|little|there|it|they|one|a|an|the)\b",
    "things that speak": rf"\b{THING} (?:(?:that )?(?:knows?|tells?|asks?|believes?)|says? (?!that\b))\b",
    "is told, is said, is asked": r"\b(?:is|are|was|were|be|been) (?:told|said so|asked)\b",
    "beside": r"\bbeside\b",
    "held against": r"\b(?:hold|holds|held|holding)\b(?: \w+){0,4} against\b",
    "somebody": r"\b(?:[Ss]ome|[Nn]o|[Aa]ny)body\b|\b[Ww]ho(?:so)?ever\b",
    "made again": r"\b(?:made|make|makes|making) (?:again|anew|once more)\b|\banew\b",
    "made by a command": r"\b[Mm]ade by `",
    "made of": r"\b(?:makes?|made|making) (?:much |little )?of (?!a\b|steel|wood)",
    "goes on": r"\b(?:goes|go|went|gone|going) on\b",
    "so many": r"\bso (?:many|much|few|often)\b(?! that)",
    "of its own": r"\bof (?:its|their|your|our|his) own\b",
    "by itself": r"\bby (?:itself|themselves|oneself)\b",
    "is there": r"\b(?:is|are|was|were|be) there\b(?=[.,;:)]| (?:for|to|where|already|and)\b|$)",
    "stands beside": r"\bst(?:ands?|ood) (?:there|here|beside|alone|together|behind)\b",
    "that is none": r"\b(?:is|are) none\b|\bof which none\b",
    "asked for": r"\b(?:what|as|than|that) (?:was|is|were|are) asked(?: for)?\b",
    "the more, the more": (
        r"\bthe (?:more|less|fewer|nearer|longer)\b[^.,]{3,50}, the (?:more|less|fewer|nearer|longer)\b"
    ),
    "in the place of": r"\bin the place of\b|\bin its place\b",
    "says so, says nothing": r"\b(?:says?|said|tells?|told) (?:so|nothing|little)\b",
}
"""Regular expressions by the name that is printed for them."""

FOUND = {name: re.compile(pattern) for name, pattern in PATTERNS.items()}


class Place(NamedTuple):
    """A match: the file, its line, the name of the pattern and the matched text."""

    path: Path
    line: int
    pattern: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.pattern}: {self.text}"


def passages(path: Path) -> Iterator[tuple[int, str]]:
    """The paragraphs of prose in a file, each with the number of its first line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from paragraphs(enumerate(text.splitlines(), 1))
        return
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(words))):
                yield from paragraphs(enumerate(words.splitlines(), node.lineno))
    comments = [
        (token.start[0], token.string.lstrip("#"))
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]
    yield from paragraphs(comments)


def paragraphs(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Consecutive lines of prose joined by spaces, without code; table cells are separate sentences."""
    fence, example, first, last, parts = "", False, 0, 0, list[str]()
    for number, line in lines:
        stripped = line.strip()
        if marks := re.match(r"`{3,}|~{3,}", stripped):
            fence = "" if fence == marks[0] else fence or marks[0]
            stripped = ""
        example = stripped.startswith((">>>", "...")) or (example and bool(stripped))
        ends = not stripped or bool(fence) or example
        if parts and (ends or number != last + 1 or re.match(r"[-*#|>]|\d+\. ", stripped)):
            yield first, " ".join(parts)
            parts = []
        if not ends:
            first, last = (first if parts else number), number
            parts.append(plain(stripped))
    if parts:
        yield first, " ".join(parts)


def plain(line: str) -> str:
    """A line of Markdown without code, targets of links and marks."""
    line = re.sub(r"<!--.*?-->|<[^>]*>", "", line)
    line = re.sub(r"(`+).*?\1", "`x`", line)
    line = re.sub(r"\]\([^)]*\)", "]", line)
    line = re.sub(r"^(?:[-*>] |#+ |\d+\. )+", "", line)
    return re.sub(r"[*\[\]]", "", re.sub(r"\s*\|\s*", ". ", line.strip("|"))).strip()


def places(paths: Iterable[Path]) -> tuple[list[Place], int]:
    """All matches in some files, and the number of words in their prose."""
    found, words = list[Place](), 0
    for path in paths:
        for line, text in passages(path):
            words += len(re.findall(r"[A-Za-z][A-Za-z'-]*", text))
            for name, pattern in FOUND.items():
                found += [Place(path, line, name, match[0].strip()) for match in pattern.finditer(text)]
    return found, words


def files_of(area: str, root: Path = ROOT) -> list[Path]:
    """The files of an area."""
    return sorted({path for pattern in AREAS[area] for path in root.glob(pattern)})


def rate(found: list[Place], words: int) -> float:
    """Matches per 10,000 words."""
    return 1e4 * len(found) / max(words, 1)


def check(root: Path = ROOT) -> list[str]:
    """Print the count of every area, and return a sentence for each one above its bound."""
    above = []
    for area, bound in BOUNDS.items():
        found, words = places(files_of(area, root))
        print(f"{area}: {len(found)} places in {words} words, {rate(found, words):.1f} per 10,000")
        if rate(found, words) > bound:
            common = ", ".join(f"{name} {n}" for name, n in Counter(p.pattern for p in found).most_common(3))
            above.append(
                f"`{area}` should have at most {bound:g} places per 10,000 words, got "
                f"{rate(found, words):.1f} ({common}). List them with `python tools/prose.py "
                f"{' '.join(sorted({pattern.split('/')[0] for pattern in AREAS[area]}))}`."
            )
    return above


def main(arguments: list[str] | None = None) -> int:
    """Print places or counts; 1 if `--check` finds an area above its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders whose places are listed")
    parser.add_argument("--check", action="store_true", help="exit with 1 if an area is above its bound")
    options = parser.parse_args(arguments)
    if options.paths:
        listed = [
            file
            for path in options.paths
            for file in ([path] if path.is_file() else sorted([*path.rglob("*.md"), *path.rglob("*.py")]))
        ]
        found, words = places(listed)
        print(*found, f"{len(found)} places in {words} words, {rate(found, words):.1f} per 10,000", sep="\n")
        return 0
    above = check()
    if options.check:
        print(*above, sep="\n", end="\n" if above else "", file=sys.stderr)
    return int(options.check and bool(above))


if __name__ == "__main__":
    sys.exit(main())
