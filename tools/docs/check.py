"""Check the built site, and the width of the code that it shows: `python tools/docs/check.py SITE_FOLDER`.

`mkdocs build --strict` checks the links between Markdown pages. This script reads the HTML that it wrote, so
it also sees the reference and everything else that is generated. Each fault is printed with its page, line
and remedy, and the exit code is 1 if there is any:

* every internal link and anchor exists;
* every page but a redirect is in the navigation; the gallery's index may link to its pages instead;
* every image has a text alternative, or is marked as decorative by `role="presentation"`;
* a line of code has at most 88 characters, in pages and in examples of docstrings. The output of a block,
  a `text` block below it, stays as it was printed.
"""

import ast
import doctest
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[2]
WIDTH = 88
"""How many characters of a line of code a page shows without scrolling."""
GALLERY = "gallery/index.html"
"""The page from which others may be reached that are not in the navigation."""
NOT_PAGES = {"404.html"}
"""Served for any address, so its links are absolute, and nothing links to it."""
FENCE = re.compile(r"^(?P<indent> *)(?P<marks>`{3,}|~{3,}) *(?P<language>[\w-]*)")


class Link(NamedTuple):
    """The target of a link and the line that holds it."""

    line: int
    target: str


class Wide(NamedTuple):
    """A line of code that is too wide."""

    line: int
    code: str


class Page(HTMLParser):
    """The links, anchors, navigation and images without alternative text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: list[Link] = []
        self.navigation: set[str] = set()
        self.silent: list[Link] = []
        self.redirects = False
        self._navs: list[bool] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read one element."""
        found = {name: value or "" for name, value in attrs}
        line = self.getpos()[0]
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        target = found.get("href", found.get("src"))
        if tag == "nav":
            self._navs.append("md-nav--primary" in found.get("class", ""))
        if found.get("http-equiv") == "refresh":
            self.redirects = True
        if target is not None:
            self.links.append(Link(line, target))
            if tag == "a" and any(self._navs):
                self.navigation.add(target)
        if tag == "img" and not found.get("alt", "").strip() and found.get("role") != "presentation":
            self.silent.append(Link(line, target or ""))

    def handle_endtag(self, tag: str) -> None:
        """Leave a navigation."""
        if tag == "nav" and self._navs:
            self._navs.pop()


def site_faults(site: Path) -> Iterator[str]:
    """Broken links, pages outside the navigation and images without text of a built site."""
    pages = {
        path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
        if path.name not in NOT_PAGES
    }
    for path, page in pages.items():
        for line, target in page.links:
            if fault := _link_fault(site, pages, path, target):
                yield f"{path}:{line}: {fault}"
        for line, source in page.silent:
            yield (
                f"{path}:{line}: the image {source} has no text: describe it, as in "
                f"![what it shows]({source}), or mark a decorative one by {{ role=presentation }}."
            )
    yield from _outside_navigation(site, pages)


def _link_fault(site: Path, pages: dict[str, Page], path: str, target: str) -> str | None:
    """The fault of a link from a page, if any."""
    where = _file(site, path, target)
    if where is None:
        return None
    anchor = unquote(urlsplit(target).fragment)
    if where.startswith(("/", "..")) or not (site / where).is_file():
        return f"the link {target} leads to {where}, which does not exist: correct it, or add the page."
    if where in pages and anchor not in pages[where].anchors:
        return f"the link {target} names an anchor that {where} lacks: correct it, or rename the heading."
    return None


def _file(site: Path, path: str, target: str) -> str | None:
    """The file of the site that a link of a page leads to; none if it leads to another site."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return None
    if not parts.path:
        return path
    where = normpath(join(dirname(path), unquote(parts.path)))
    return normpath(join(where, "index.html")) if (site / where).is_dir() else where


def _outside_navigation(site: Path, pages: dict[str, Page]) -> Iterator[str]:
    """Pages that no reader finds."""
    known = {"index.html"} | {_file(site, "index.html", target) for target in pages["index.html"].navigation}
    if GALLERY in known:
        linked = {_file(site, GALLERY, link.target) for link in pages[GALLERY].links}
        known |= {path for path in linked if path and dirname(path).startswith(dirname(GALLERY))}
    redirects = {path for path, page in pages.items() if page.redirects}
    for path in sorted(pages.keys() - known - redirects):
        yield f"{path}:1: the page is not in the navigation: add it to `nav` in mkdocs.yml."


def wide_lines(text: str) -> Iterator[Wide]:
    """Lines of code of a Markdown page that are too wide, except output (a text block below another)."""
    fence, below_code, output = "", False, False
    indent = 0
    for number, line in enumerate(text.splitlines(), 1):
        opening = FENCE.match(line)
        if fence:
            if line.strip() == fence:
                fence, below_code = "", True
            elif not output and len(line[indent:]) > WIDTH:
                yield Wide(number, line[indent:])
        elif opening:
            fence, indent = opening["marks"], len(opening["indent"])
            output = opening["language"] == "text" and below_code
        elif line.strip():
            below_code = False


def wide_examples(source: str) -> Iterator[Wide]:
    """Lines of code of a module's docstrings that are too wide, with their prompt."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                for example in doctest.DocTestParser().get_examples(text):
                    for number, line in enumerate(example.source.splitlines(), node.lineno + example.lineno):
                        if len(line) + len(">>> ") > WIDTH:
                            yield Wide(number, line)


def code_faults(root: Path) -> Iterator[str]:
    """Lines of code above the width, in pages and docstrings of the repository."""
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("results/**/*.md")]
    for paths, wide in ((pages, wide_lines), (root.glob("src/**/*.py"), wide_examples)):
        for path in sorted(paths):
            for line, code in wide(path.read_text(encoding="utf-8")):
                yield (
                    f"{path.relative_to(root)}:{line}: code of more than {WIDTH} characters: break the line "
                    f"{code.strip()[:40]!r}..."
                )


def main() -> None:
    """Print all faults, and fail if there are any."""
    if len(sys.argv) != 2 or not Path(sys.argv[1], "index.html").is_file():
        sys.exit("Give the folder of a built site: python tools/docs/check.py SITE_FOLDER")
    faults = [*site_faults(Path(sys.argv[1])), *code_faults(ROOT)]
    print(*faults, sep="\n", end="\n" if faults else "")
    sys.exit(f"{len(faults)} faults" if faults else None)


if __name__ == "__main__":
    main()
