"""The store: a calibration on disk, as arrays and readable JSON, checked before it is believed.

`folder.py` writes and reads a calibration, `versions.py` the files of its folder, all of one version;
`codec.py` turns values into JSON and back, `format1.py` knows what guardband 0.1 wrote.
"""

from guardband.store.folder import MODEL, Saved, load, manifest, save, write
from guardband.store.versions import AGAIN, MANIFEST, ArtifactError

__all__ = ["AGAIN", "MANIFEST", "MODEL", "ArtifactError", "Saved", "load", "manifest", "save", "write"]
