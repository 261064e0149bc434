"""Fields: bands over grids, meshes and lists of points of any size, chunk by chunk.

`base.py` divides a field into chunks and computes them; `store.py` writes them to a Zarr store, locally or on
workers; `stored.py` reads whole fields a few at a time and scores them; `verify.py` checks a written store;
`mesh.py` writes files for ParaView; `band.py` contains the public functions and classes. `reading.py` and
`metadata.py` open stores that may be untrusted.
"""

from guardband.fields.band import FieldBand, band_over
from guardband.fields.mesh import write_mesh
from guardband.fields.stored import StoredBand, StoredFields
from guardband.fields.verify import StoreCheck, verify

__all__ = ["FieldBand", "StoreCheck", "StoredBand", "StoredFields", "band_over", "verify", "write_mesh"]
