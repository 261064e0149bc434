"""Public addresses of the project, derived from `url` of [tool.guardband] in pyproject.toml."""

import re
import tomllib
from pathlib import Path

TARGET = re.compile(
    r'(?P<image>!\[[^]]*)?(?P<before>\]\(|\b(?:src|srcset|href)=")(?P<path>[\w./-]+)(?=[)#" ])'
)
"""A relative link or image, in Markdown or HTML."""


def url(root: Path) -> str:
    """The address of the repository; empty if it has none."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["guardband"]["url"]


def site(url: str) -> str:
    """The address of the documentation on GitHub Pages."""
    owner, name = url.removeprefix("https://github.com/").split("/")
    return f"https://{owner.lower()}.github.io/{name}/"


def urls(url: str) -> dict[str, str]:
    """The table [project.urls]; empty without an address."""
    if not url:
        return {}
    return {
        "Source": url,
        "Documentation": site(url),
        "Issues": f"{url}/issues",
        "Changelog": f"{url}/blob/HEAD/CHANGELOG.md",
    }


def absolute(readme: str, url: str, ref: str) -> str:
    """The README with relative links and images replaced by addresses in the repository at `ref`.

    Code blocks are unchanged, and so is everything if there is no address.
    """

    def there(found: re.Match[str]) -> str:
        kind = "raw" if found["image"] or found["before"].startswith("src") else "blob"
        return f"{found['image'] or ''}{found['before']}{url}/{kind}/{ref}/{found['path']}"

    parts = re.split(r"(^```.*?^```$)", readme, flags=re.DOTALL | re.MULTILINE)
    return "".join(TARGET.sub(there, part) if url and part[:3] != "```" else part for part in parts)
