"""CF: what variables of a band are called in files, by the CF conventions and by their draft on uncertainty.

The conventions let a variable name those that belong to it, `ancillary_variables`. A draft of a chapter on
uncertainty, which may still change, adds `uncertainty_variables`: how far the ends of a coverage interval lie
from the value. Files say which draft they follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

CONVENTIONS = "CF-1.11"
DRAFT = "draft of August 2026, https://github.com/cf-convention/cf-conventions/pull/661"
ENDS = ("lower", "upper")


def about(**others: Any) -> dict[str, Any]:
    """The attributes of a whole dataset."""
    return {
        "Conventions": CONVENTIONS,
        "title": "prediction bands by guardband",
        "history": f"made by guardband {metadata.version('guardband')}",
        "uncertainty_conventions": DRAFT,
        **others,
    }


def described(dataset: Any) -> Any:
    """A dataset whose coordinates all have a long name, and none a value for what is missing."""
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
    about: Mapping[str, Any] | None = None,
) -> dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, Any]]]:
    """Mean, lower, upper and offsets as xarray takes them; `about` are further attributes, such as units.

    >>> import numpy as np
    >>> ends = {"mean": np.ones(2), "lower": np.zeros(2), "upper": np.full(2, 3.0)}
    >>> made = variables(["x"], ends, 0.9, prefix="u_", about={"units": "m"})
    >>> made["u_offsets"][1].tolist()
    [[-1.0, 2.0], [-1.0, 2.0]]
    >>> made["u_mean"][2]["uncertainty_variables"]
    'u_offsets'
    """
    of = f" of {prefix.rstrip('_')}" if prefix else ""
    both, common = tuple(dims), dict(about or {})
    names = {part: f"{prefix}{part}" for part in ("mean", *ENDS, "offsets")}
    belonging = " ".join(names[part] for part in (*ENDS, "offsets"))
    mean = common | {
        "long_name": f"prediction{of}",
        "ancillary_variables": belonging,
        "uncertainty_variables": names["offsets"],
    }
    with np.errstate(invalid="ignore"):
        offsets = np.stack([ends[end] - ends["mean"] for end in ENDS], axis=-1)
    texts = {end: f"{end} end of the {level:g} prediction band{of}" for end in ENDS}
    apart = common | {
        "long_name": f"lower and upper end of the {level:g} prediction band{of}, relative to it"
    }
    return {
        names["mean"]: (both, ends["mean"], mean),
        **{names[end]: (both, ends[end], common | {"long_name": texts[end], "level": level}) for end in ENDS},
        names["offsets"]: ((*both, "end"), offsets, apart | {"level": level}),
    }
