"""Format 1: manifests of guardband 0.1, converted to current names so that its folders still load."""

from __future__ import annotations

from typing import Any

KINDS = {"Constant": "MeanOnly", "Localized": "RandomlyLocalized"}
"""Current names of renamed classes."""

TRAIN = {"train": "training_data"}
POINTS = {"inside": "n_interior", "faces": "n_boundary"}
FIELDS: dict[str, dict[str, str]] = {
    **dict.fromkeys(("MeanOnly", "Given", "Ensemble", "Draws", "Dropout", "Fitted", "Local"), TRAIN),
    **dict.fromkeys(("MeanFieldVI", "HMC"), TRAIN),
    **dict.fromkeys(("Laplace", "LastLayerLaplace"), POINTS | {"_net": "net", "_names": "names"}),
    **dict.fromkeys(("Distance", "LatentDistance"), TRAIN | {"neighbours": "n_neighbors"}),
    "Recipe": POINTS | {"patience": "min_improvement"},
}
"""Current names of renamed fields, by the current name of their class."""


def upgraded(manifest: dict[str, Any]) -> dict[str, Any]:
    """The entries of a manifest of format 1 that have changed, in the current format."""
    old = renamed(manifest["value"])
    calibrator, learned = old["calibrator"], old["calibrator"]
    match calibrator:
        case {"kind": "Local", "fields": {"shape": shape, "training_data": training_data, **settings}}:
            calibrator = {"kind": "Local", "fields": {"training_data": training_data, **settings}}
            held_out = settings.get("held_out")
            watched = held_out is not None or settings.get("refit") is not None
            seen = {"training": training_data} | ({} if held_out is None else {"held-out": held_out})
            parts = {"shape": shape, "d": None, "watched": watched, "seen": {"dict": seen}}
            learned = {"kind": "LocalShape", "fields": parts}
    predictor = old["predictor"]
    if isinstance(predictor, dict) and "yours" in predictor:
        fields = {"function": predictor, "training_data": None}
        predictor = {"kind": "PredictionFunction", "fields": fields}
    fields = {
        "predictor": predictor,
        "calibrator": calibrator,
        "learned": learned,
        **{name: old[name] for name in ("score", "prediction", "y", "groups", "confidence")},
        "columns": None,
    }
    names = manifest["handed_in_at_load"]
    prediction = old["prediction"]["fields"]  # the loaded predictor must reproduce its first rows
    fingerprint = {"mean": prediction["mean"], "scale": prediction["scale"]}
    fingerprint |= {"thresholds": old["thresholds"], "scores": old["scores"]}
    return {
        "value": {
            "calibrated": {"kind": "Calibrated", "fields": fields},
            "fingerprint": {"dict": {name: item for name, item in fingerprint.items() if item is not None}},
            "probes": old["probes"],
        },
        "passed_at_load": names,
        "optional_at_load": [name for name in names if name in ("problem", "refit")],
    }


def renamed(node: Any) -> Any:
    """A stored value with the current names of classes and fields."""
    if isinstance(node, list):
        return [renamed(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {name: renamed(item) for name, item in node.items()}
    match node:
        case {"kind": "MLP", "settings": dict(settings), "weights": weights}:
            return {"kind": "MLP", "fields": {**settings, "weights": weights}}
        case {"kind": "Quantiles", "parts": {"dict": dict(parts)}, "weights": weights}:
            return {"kind": "QuantileCurves", "fields": {**parts, "weights": weights}}
        case {"kind": "Features", "net": net}:
            return {"kind": "Features", "fields": {"net": net}}
        case {"kind": str(kind), "fields": dict(fields)}:
            kind = KINDS.get(kind, kind)
            names = FIELDS.get(kind, {})
            if "fitted" in fields:  # a Laplace approximation now holds its training data itself
                fields = fields | {"training_data": fields["fitted"]["fields"]["training_data"]}
            node |= {"kind": kind, "fields": {names.get(name, name): item for name, item in fields.items()}}
    return node
