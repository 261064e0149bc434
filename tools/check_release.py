"""Check whether the wheel in a folder may be published under a tag.

python tools/check_release.py FOLDER TAG

Exits with a message if the version differs from the tag, or if the metadata has no public address.
"""

import sys
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path


def metadata(folder: Path) -> Message:
    """The metadata of the only wheel in a folder."""
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(wheel.read(name))


def problem(found: Message, tag: str) -> str:
    """The first reason against publishing, or ''."""
    if tag != f"v{found['Version']}":
        return (
            f"The tag should be v{found['Version']}, the version in src/guardband/__init__.py, got {tag!r}."
        )
    if not found.get_all("Project-URL"):
        return "The public address should be known, but `url` of [tool.guardband] in pyproject.toml is empty."
    return ""


if __name__ == "__main__":
    sys.exit(problem(metadata(Path(sys.argv[1])), sys.argv[2]) or None)
