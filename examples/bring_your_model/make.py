"""Make a PINN of Allen-Cahn as ONNX, and measurements as CSV: `python make.py`."""

import csv
from pathlib import Path

import onnx
import torch

from guardband import pinn

HERE = Path(__file__).parent
SIZES = {"train": 300, "calibration": 100, "query": 2000, "fresh": 500}


def main() -> None:
    """Train, export, and write measurements; the query has no targets."""
    problem = pinn.problems.AllenCahn2D()
    seen = {
        name: problem.observe(n, noise=0.05, seed=seed)
        for seed, (name, n) in enumerate(SIZES.items())
    }
    net = pinn.mlp(2, [32, 32, 32])
    fitted = pinn.fit(
        problem, net, seen["train"], likelihood=pinn.Likelihood(data=0.05)
    )
    torch.onnx.export(
        fitted.net,
        (torch.zeros(3, 2),),
        HERE / "model.onnx",
        input_names=["x"],
        output_names=["u"],
        dynamic_shapes=({0: torch.export.Dim("n")},),
        external_data=False,
        verbose=False,
    )
    strip(HERE / "model.onnx")
    for name, rows in seen.items():
        targets = [] if name == "query" else ["u"]
        with (HERE / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["x", "y", *targets])
            for x, y in zip(rows.x.tolist(), rows.y.tolist(), strict=True):
                writer.writerow(
                    [f"{value:.6f}" for value in (*x, *(y if targets else ()))]
                )


def strip(path: Path) -> None:
    """Remove the exporter's metadata, which contain paths."""
    model = onnx.load(path)
    for part in (
        model,
        model.graph,
        *model.graph.node,
        *model.graph.input,
        *model.graph.output,
    ):
        del part.metadata_props[:]
        part.doc_string = ""
    for part in (*model.graph.value_info, *model.graph.initializer):
        del part.metadata_props[:]
    onnx.save(model, path)


if __name__ == "__main__":
    main()
