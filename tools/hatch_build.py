"""Package metadata derived from the public address; the build backend calls this hook."""

import re
import runpy
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class PublicMetadata(MetadataHookInterface):
    """Sets the long description and the project's URLs."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add `readme` and `urls` to the table [project]."""
        root = Path(self.root)
        public = runpy.run_path(str(root / "tools/public.py"))
        url = public["url"](root)
        source = (root / "src/guardband/__init__.py").read_text(encoding="utf-8")
        (version,) = re.findall(r'^__version__ = "(.+)"', source, re.MULTILINE)
        readme = (root / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": public["absolute"](readme, url, f"v{version}"),
        }
        metadata["urls"] = public["urls"](url)
