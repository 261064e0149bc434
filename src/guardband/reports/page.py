"""Pages of headings, paragraphs, tables and pictures, as self-contained HTML or as Markdown."""

from __future__ import annotations

import base64
import html
import io
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from guardband.base.files import write_text
from guardband.base.limits import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs, a table (its first row is the header), and pictures with captions.

    The `mark` selects the style: a "claim", or a verdict that "holds" or "fails".
    """

    title: str
    paragraphs: Sequence[str] = ()
    table: Sequence[Sequence[str]] = ()
    pictures: Sequence[tuple[str, bytes]] = ()
    mark: Literal["", "claim", "holds", "fails"] = ""


class HasSections(Protocol):
    """A value that adds sections to the report on another value, such as `pinn.Verdict`."""

    def report_sections(self) -> list[Section]:
        """Return the sections."""
        ...


@runtime_checkable
class HasReport(Protocol):
    """A value with its own report, such as `pinn.Estimates`."""

    @property
    def report_title(self) -> str:
        """The default title."""
        ...

    def report_sections(self, facts: dict[str, str] | None = None) -> list[Section]:
        """Return all sections; the last one, on provenance, lists the `facts`."""
        ...


def write(path: str | os.PathLike[str], title: str, sections: Iterable[Section]) -> Path:
    """Write a page, as HTML or, if the path ends in `.md`, Markdown. Invisible characters are escaped."""
    escaped = [_escaped(section) for section in sections]
    return write_text(path, (_markdown if _is_markdown(path) else _html)(printable(title), escaped))


def _escaped(section: Section) -> Section:
    return replace(
        section,
        title=printable(section.title),
        paragraphs=[printable(text) for text in section.paragraphs],
        table=[[printable(cell) for cell in row] for row in section.table],
        pictures=[(printable(caption), picture) for caption, picture in section.pictures],
    )


def refuse_other_endings(path: str | os.PathLike[str]) -> None:
    """Refuse a path that is neither HTML nor Markdown, before anything is computed."""
    if not _is_markdown(path) and Path(path).suffix not in (".html", ".htm"):
        raise ValueError(f"The path of a report should end in .html or .md, got {str(path)!r}.")


def _is_markdown(path: str | os.PathLike[str]) -> bool:
    return Path(path).suffix == ".md"


def origin(first: str, text: str, facts: dict[str, str], how: str = "") -> Section:
    """Return the section on provenance: date, versions and facts; `how` explains the hashes."""
    packages = ("guardband", *(["torch"] if sys.modules.get("torch") else []), "numpy", "scipy")
    rows = [
        ["", ""],
        [first, text],
        ["written", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")],
        ["versions", ", ".join(f"{name} {metadata.version(name)}" for name in packages)],
        *([name, value] for name, value in facts.items()),
    ]
    return Section("Where it comes from", [how] if how else [], rows)


def png(draw: Callable[[Axes], object]) -> bytes:
    """Return a picture that a function draws into axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.subplots())
    return png_of(figure)


def png_of(figure: Figure) -> bytes:
    """Return a figure as a picture."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #ffffff; --line: #d8dde4; --accent: #1f5fa8;
        --good: #1d7a46; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --paper: #14181d; --line: #39424d; --accent: #7ab3ef;
          --good: #63c78d; --bad: #ff8a7a; }
}
body { margin: 0 auto; max-width: 52rem; padding: 1.5rem 1rem 4rem; overflow-wrap: anywhere;
       color: var(--ink); background: var(--paper); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; }
h2 { font-size: 1.15rem; margin-top: 2.2rem; color: var(--accent); }
.claim p:first-of-type { font-size: 1.2rem; font-weight: 600; } .wide { overflow-x: auto; }
.holds, .fails { border-left: .35rem solid var(--good); padding-left: 1rem; }
.fails { border-color: var(--bad); }
.holds h2 { color: var(--good); } .fails h2 { color: var(--bad); }
table { border-collapse: collapse; font-size: .9rem; min-width: 100%; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top;
         overflow-wrap: normal; }
td:last-child { overflow-wrap: anywhere; min-width: 9rem; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption { font-size: .9rem; } .alarm { color: var(--bad); font-weight: 600; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; }
@media (max-width: 30rem) {
  .pictures { grid-template-columns: 1fr; } table { font-size: .75rem; } th, td { padding: .3rem .2rem; }
  td:last-child { min-width: 4rem; }
}
@media print {
  :root { --ink: #000; --paper: #fff; --line: #bbb; --accent: #1f5fa8; --good: #1d7a46; --bad: #b3261e; }
  @page { margin: 12mm; }
  body { max-width: none; padding: 0; font-size: 8pt; line-height: 1.3; } h1 { font-size: 13pt; margin: 0; }
  h2 { font-size: 10pt; margin: .6rem 0 .1rem; break-after: avoid; } p { margin: .2rem 0; }
  table, figcaption { font-size: 7.5pt; } th, td { padding: .1rem .4rem; }
  figure { margin: 0; break-inside: avoid; }
  .pictures { grid-template-columns: repeat(3, 1fr); gap: .4rem; } .claim p:first-of-type { font-size: 10pt; }
}
"""


def _html(title: str, sections: Iterable[Section]) -> str:
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">",
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{html.escape(title)}</h1>",
    ]
    for section in sections:
        parts.append(f'<section class="{section.mark}"><h2>{html.escape(section.title)}</h2>')
        parts += [f"<p>{html.escape(text)}</p>" for text in section.paragraphs]
        if section.table:
            parts.append(_html_table(section.table))
        if section.pictures:
            parts.append('<div class="pictures">')
            parts += [
                f'<figure><img alt="{html.escape(caption)}" src="{_uri(picture)}">'
                f"<figcaption>{html.escape(caption)}</figcaption></figure>"
                for caption, picture in section.pictures
            ]
            parts.append("</div>")
        parts.append("</section>")
    return "\n".join([*parts, "</body></html>", ""])


def _html_table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    lines = [f"<tr>{cells}</tr>"] if any(head) else []
    for row in body:
        marks = ' class="alarm"' if row[0] == "ALARM" else ""
        lines.append(f"<tr{marks}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def _markdown(title: str, sections: Iterable[Section]) -> str:
    lines = [f"# {_plain(title)}"]
    for section in sections:
        lines += ["", f"## {section.title}"]
        for text in section.paragraphs:
            lines += ["", _plain(text)]
        if section.table:
            head, *body = section.table
            lines += ["", f"| {' | '.join(map(_plain, head))} |", "|" + "---|" * len(head)]
            lines += [f"| {' | '.join(map(_plain, row))} |" for row in body]
        for caption, picture in section.pictures:
            lines += ["", f"![{_plain(caption)}]({_uri(picture)})", "", _plain(caption)]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Escape text for Markdown, so that nothing in it is markup, a link or another column."""
    escaped = html.escape(" ".join(text.split()), quote=False)
    return "".join(f"\\{sign}" if sign in "|*_`[]#<>!\\" else sign for sign in escaped)


def _uri(picture: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"
