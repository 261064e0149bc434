"""Fields: bands over grids, meshes and lists of points of any size, chunk by chunk.

`base.py` says what a field is and computes a part of it; `store.py` writes it to disk, here or on workers,
as `writing.py` asks it to; `stored.py` reads whole fields a few at a time, and scores them;
`verify.py` looks at what was written; `mesh.py` writes for ParaView; `band.py` is what users hold.
"""

from guardband.fields.band import FieldBand, band_over
from guardband.fields.mesh import write_mesh
from guardband.fields.stored import StoredBand, StoredFields
from guardband.fields.verify import StoreCheck, verify

__all__ = ["FieldBand", "StoreCheck", "StoredBand", "StoredFields", "band_over", "verify", "write_mesh"]
