"""Attributes of bands in files, following the CF conventions and their draft on uncertainty.

The attribute `ancillary_variables` of a variable names related variables. A draft chapter on uncertainty,
which may still change, adds `uncertainty_variables`: the distances of the ends of a coverage interval from
the value. Files name the draft that they follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray

CONVENTIONS = "CF-1.11"
DRAFT = "draft of August 2026, https://github.com/cf-convention/cf-conventions/pull/661"
ENDS = ("lower", "upper")


def dataset_attributes(**others: object) -> dict[str, object]:
    """Attributes of a whole dataset."""
    return {
        "Conventions": CONVENTIONS,
        "title": "prediction bands by guardband",
        "history": f"made by guardband {metadata.version('guardband')}",
        "uncertainty_conventions": DRAFT,
        **others,
    }


def described(dataset: xarray.Dataset) -> xarray.Dataset:
    """Give all coordinates of a dataset a long name and no fill value."""
    for name, place in dataset.coords.items():
        place.attrs.setdefault("long_name", str(name))
        place.encoding["_FillValue"] = None
    return dataset


def variables(
    dims: Sequence[str],
    ends: Mapping[str, np.ndarray],
    level: float,
    *,
    prefix: str = "",
    attributes: Mapping[str, object] | None = None,
) -> dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, object]]]:
    """Mean, lower, upper and offsets as xarray variables; `attributes` adds further ones, such as units.

    >>> import numpy as np
    >>> ends = {"mean": np.ones(2), "lower": np.zeros(2), "upper": np.full(2, 3.0)}
    >>> data = variables(["x"], ends, 0.9, prefix="u_", attributes={"units": "m"})
    >>> data["u_offsets"][1].tolist()
    [[-1.0, 2.0], [-1.0, 2.0]]
    >>> data["u_mean"][2]["uncertainty_variables"]
    'u_offsets'
    """
    of = f" of {prefix.rstrip('_')}" if prefix else ""
    both, common = tuple(dims), dict(attributes or {})
    names = {part: f"{prefix}{part}" for part in ("mean", *ENDS, "offsets")}
    ancillary = " ".join(names[part] for part in (*ENDS, "offsets"))
    mean = common | {
        "long_name": f"prediction{of}",
        "ancillary_variables": ancillary,
        "uncertainty_variables": names["offsets"],
    }
    with np.errstate(invalid="ignore"):
        offsets = np.stack([ends[end] - ends["mean"] for end in ENDS], axis=-1)
    texts = {end: f"{end} end of the {level:g} prediction band{of}" for end in ENDS}
    relative = common | {
        "long_name": f"lower and upper end of the {level:g} prediction band{of}, relative to it"
    }
    return {
        names["mean"]: (both, ends["mean"], mean),
        **{names[end]: (both, ends[end], common | {"long_name": texts[end], "level": level}) for end in ENDS},
        names["offsets"]: ((*both, "end"), offsets, relative | {"level": level}),
    }
