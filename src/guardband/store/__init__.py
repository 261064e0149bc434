"""The store: calibrations on disk as arrays and readable JSON, verified before use.

`folder.py` writes and reads a calibration, and `versions.py` the files of one version of its folder;
`codec.py` converts values to JSON and back, and `format1.py` upgrades folders written by guardband 0.1.
"""

from guardband.store.folder import MODEL, Saved, load, manifest, save, write
from guardband.store.versions import AGAIN, MANIFEST, ArtifactError

__all__ = ["AGAIN", "MANIFEST", "MODEL", "ArtifactError", "Saved", "load", "manifest", "save", "write"]
