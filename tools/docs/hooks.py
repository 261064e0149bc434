"""Add pages from outside docs/ to the site: reference, examples, results with pictures, changelog.

Pages that have moved leave a redirect at their old address. Formulas, `$...$` in a line and `$$...$$` on
their own, become MathML, which browsers typeset without a script.
"""

import html
import re
import runpy
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
"""Files of the repository that are pages of the site, with their names there."""
MOVED = {
    "faq": "limits",
    "write_your_equation": "equations",
    "guides/cluster": "scale/#on-a-cluster",
    "integrations": "guides",
    "integrations/mlflow": "guides/deploy/#mlflow",
    "integrations/onnx": "guides/deploy/#onnx",
    "reference/calibrate": "reference/calibration",
    "reference/scores-and-calibrators": "reference/calibrators",
    "reference/problems-and-training": "reference/problems",
    "reference/look-and-check": "reference/evaluation-and-checks",
    "reference/keep-and-show": "reference/saving-and-reports",
    "reference/where-you-work": "reference/integrations",
    "reference/for-authors-of-methods": "reference/tests-of-methods",
}
"""Addresses of pages that have moved or were merged, and where their content is now."""
REDIRECT = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Moved</title>
<link rel="canonical" href="{target}">
<meta name="robots" content="noindex">
<meta http-equiv="refresh" content="0; url={target}">
</head>
<body>This page has moved: <a href="{target}">{target}</a></body>
</html>
"""
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
"""A formula as written by pymdownx.arithmatex."""


def on_config(config: Any) -> Any:
    """Read the addresses of the repository and of the site from pyproject.toml, if they are set."""
    public = runpy.run_path(str(ROOT / "tools/public.py"))
    if url := public["url"](ROOT):
        config.repo_url, config.repo_name, config.site_url = url, "guardband", public["site"](url)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages, pictures and tables from outside docs/."""
    for path in sorted((ROOT / "results").rglob("*")):
        if path.suffix in (".md", ".png", ".csv"):
            inside = path.relative_to(ROOT).as_posix().replace("README.md", "index.md")
            files.append(File.generated(config, inside, abs_src_path=str(path)))
    for name, inside in PAGES.items():
        if (ROOT / name).exists():
            files.append(File.generated(config, inside, abs_src_path=str(ROOT / name)))
    for folder in ("reference", "gallery"):
        for name, text in runpy.run_path(str(ROOT / f"tools/docs/{folder}.py"))["pages"]().items():
            files.append(File.generated(config, f"{folder}/{name}", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite links that leave docs/ in the repository to pages of the site."""
    depth = page.file.src_uri.count("/")
    here = "../" * depth
    for name, inside in PAGES.items():
        markdown = re.sub(
            rf"\]\({re.escape(here)}\.\./{re.escape(name)}(?=[)#])", f"]({here}{inside}", markdown
        )
    markdown = re.sub(rf"\]\({re.escape(here)}\.\./results/([^)]*)\)", rf"]({here}results/\1)", markdown)
    markdown = re.sub(r"\]\((?:\.\./)+examples/gallery/(\w+)\.py\)", rf"]({here}gallery/\1.md)", markdown)
    # Other files of the repository are not on the site, so their links become plain text.
    markdown = re.sub(
        r"\[([^]]+)\]\((?:\.\./)+(?:examples|tests|src|benchmarks|\.github)[^)]*\)", r"\1", markdown
    )
    markdown = re.sub(r"\]\((?!https)([^)]*)/README\.md\)", r"](\1/index.md)", markdown)
    if page.file.src_uri in PAGES.values():  # their links into docs/
        markdown = markdown.replace("](docs/", "](")
        for name, inside in PAGES.items():
            markdown = markdown.replace(f"]({name}", f"]({inside}")
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Typeset the formulas of a page."""
    return FORMULA.sub(lambda found: mathml(found[3], "inline" if found[2] == "(" else "block"), html)


def on_post_page(output: str, **_: Any) -> str:
    """Label the theme's search box for screen readers."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def on_post_build(config: Any, **_: Any) -> None:
    """Write a redirect at each address in MOVED."""
    for old, new in MOVED.items():
        redirect = Path(config.site_dir) / old / "index.html"
        if redirect.exists():
            raise FileExistsError(f"{old} is a page, so it should not be a redirect. Remove it from MOVED.")
        redirect.parent.mkdir(parents=True, exist_ok=True)
        path, mark, anchor = new.partition("#")
        target = "../" * (old.count("/") + 1) + path.rstrip("/") + "/" + mark + anchor
        redirect.write_text(REDIRECT.format(target=target), encoding="utf-8")


def mathml(latex: str, display: str = "inline") -> str:
    """A formula as MathML, which browsers render without a script."""
    made = convert(html.unescape(latex.strip()), display=display)
    if unknown := re.search(r"\\\w+", made):
        raise ValueError(
            f"A formula should have commands that latex2mathml knows, got {unknown[0]} in {latex.strip()!r}; "
            "write it with others."
        )
    return made
