"""Writing: a field to its store, here or on workers, until all of it is there."""

from __future__ import annotations

import os
from pathlib import Path

from tqdm.auto import tqdm

from guardband.base import engine
from guardband.fields import store
from guardband.fields.base import Chunked


def to_store(
    field: Chunked,
    path: str | os.PathLike[str],
    batch: int | None = None,
    on: engine.On = None,
    progress: bool = True,
) -> Path:
    """Compute and write the chunks that are not there yet; see `FieldBand.to_zarr`."""
    folder = Path(path).resolve()  # workers may run elsewhere
    batch = store.create(field, folder, batch)
    options = {"desc": "field", "unit": field.unit, "unit_scale": True, "disable": not progress}
    with engine.connect(on) as client, tqdm(total=len(field), **options) as bar:
        try:
            for points in store.write_all(field, folder, batch, client):
                bar.update(points)
        except KeyboardInterrupt as stopped:
            stopped.add_note(f"{bar.n} of {len(field)} {field.unit}s are there; the same call resumes it.")
            raise
    store.finish(folder)
    return folder
