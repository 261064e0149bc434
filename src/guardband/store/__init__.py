"""The store: a calibration on disk, as arrays and readable JSON, checked before it is believed.

`folder.py` writes and reads the folder, `codec.py` turns values into JSON and back, `format1.py` knows what
guardband 0.1 wrote.
"""

from guardband import conformal, pinn, predictors, problems  # noqa: F401  what they keep can be loaded
from guardband.store.folder import AGAIN, MANIFEST, ArtifactError, load, manifest, save

__all__ = ["AGAIN", "MANIFEST", "ArtifactError", "load", "manifest", "save"]
