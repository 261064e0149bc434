"""Fields: bands over grids, meshes and lists of points of any size, chunk by chunk.

`band.py` says what a field is and computes a part of it; `chunks.py` writes it to disk, here or on workers.
"""

from guardband.fields.band import FieldBand, field

__all__ = ["FieldBand", "field"]
