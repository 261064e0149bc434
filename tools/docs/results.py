"""Write results/README.md, an index of the results and claims: `python tools/docs/results.py`."""

import json
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "results"

HEAD = """\
# Results

Every figure in the documentation is the output of a command of this repository, stored here. Full tables \
are CSV files in `results/data`. Long studies use many seeds. Times are CPU times on one core of a small \
virtual machine, with compared methods run alternately.

| page | subject | command |
|---|---|---|
"""

PAGES = {
    "paper/README.md": ("The paper's study", "which claims of the paper hold", "guardband study paper"),
    "predictors.md": (
        "Predictors",
        "accuracy and cost of every scale",
        "python benchmarks/predictors.py",
    ),
    "again.md": (
        "Local cells, recomputed",
        "cells of the paper's study, trained again",
        "python benchmarks/again.py",
    ),
    "local.md": ("Local bands", "bands that follow the noise", "python benchmarks/local.py"),
    "streams.md": (
        "Streams",
        "bands under drift compared with an oracle, alarms, speed",
        "python benchmarks/streams.py",
    ),
    "surrogates.md": (
        "Surrogates",
        "promises about whole fields, adaptive shapes and rollouts, on trained operators",
        "python benchmarks/surrogates.py",
    ),
    "truth.md": ("The truth", "a band for the solution behind noisy readings", "python benchmarks/truth.py"),
    "coefficients.md": (
        "Coefficients",
        "coverage and length of regions, undetermined coefficients",
        "python benchmarks/coefficients.py",
    ),
    "inverse.md": (
        "Coefficients and DeepXDE",
        "unknown coefficients inferred with the field, on inverse problems of DeepXDE",
        "python benchmarks/inverse.py",
    ),
    "few_points.md": (
        "Few points",
        "twenty to sixty readings, with a right or a wrong equation",
        "python benchmarks/few_points.py",
    ),
    "worth.md": (
        "Value of the equation",
        "width compared with kriging and boosting",
        "python benchmarks/worth.py",
    ),
    "mapie.md": (
        "MAPIE",
        "equal bands, differences and speed",
        "python benchmarks/peers/by_mapie.py",
    ),
    "shift.md": ("Shift", "sensors concentrated in the quiet region", "python benchmarks/shift.py"),
    "search.md": (
        "Model search inside and outside the regressor",
        "coverage lost by choosing a model on calibration rows",
        "python benchmarks/search.py",
    ),
    "training.md": (
        "Training",
        "time to accuracy, compared with other engines",
        "python benchmarks/accuracy.py",
    ),
    "newton.md": ("Gauss-Newton steps", "cost of a step, compared with Adam", "python benchmarks/newton.py"),
    "records.md": ("Records", "accuracy at a fixed CPU time", "python benchmarks/records.py"),
    "optimizers.md": (
        "Optimizers",
        "Gauss-Newton compared with other methods",
        "python benchmarks/optimizers.py",
    ),
    "ssbroyden.md": (
        "SSBroyden",
        "on Burgers' equation, in the setting of its authors",
        "python benchmarks/ssbroyden.py",
    ),
    "solutions.md": (
        "Several solutions",
        "several solutions of one equation, and their verdicts",
        "python benchmarks/solutions.py",
    ),
    "verdicts.md": ("The verdict", "whether a training run has converged", "python benchmarks/verdicts.py"),
    "catalogue.md": (
        "The catalogue",
        "accuracy of Adam and L-BFGS on each problem",
        "python benchmarks/catalogue.py",
    ),
    "out_of_core.md": (
        "Fields larger than memory",
        "memory, rates, workers and kills",
        "python benchmarks/out_of_core.py",
    ),
    "cylinder.md": (
        "Flow past a cylinder",
        "coverage of a band around the flow",
        "python benchmarks/cylinder.py",
    ),
}

CLAIMS = {
    "field.json": "A band over a huge field, `python benchmarks/field.py` and `--workers`",
    "quantile.json": "Exact ranks of 1e8 scores, `python benchmarks/quantile.py`",
    "campaign.json": "Training on two workers, `python benchmarks/campaign.py`",
    "kills.json": "A campaign whose processes are killed and paused, `python benchmarks/kills.py`",
}


def page() -> str:
    """The content of results/README.md."""
    rows = [f"| [{title}]({file}) | {asks} | `{made}` |" for file, (title, asks, made) in PAGES.items()]
    parts = [HEAD + "\n".join(rows) + "\n"]
    for file, title in CLAIMS.items():
        if not (RESULTS / "data" / file).exists():
            continue
        found = json.loads((RESULTS / "data" / file).read_text())
        parts.append(f"## {title}\n\n| claim | bound | measured | |\n|---|---|---|---|")
        for claim in found["claims"]:
            name = claim["name"].replace("_", " ")
            verdict = "holds" if claim["holds"] else "**does not hold**"
            parts.append(f"| {name} | {claim['bound']} | {claim['value']:g} | {verdict} |")
        others = {name: value for name, value in found.items() if name != "claims"}
        listed = ", ".join(f"{name.replace('_', ' ')} {value:,.4g}" for name, value in others.items())
        parts.append(f"\nOther figures: {listed}.\n")
    return "\n".join([*parts, ranks()])


def ranks() -> str:
    """The table of exact ranks by library."""
    found = json.loads((RESULTS / "data/ranks.json").read_text())
    rows = [
        f"| {name} {said['version']} | {said['wrong_rank']} | {said['too_narrow']} | {said['refused']} |"
        for name, said in found["libraries"].items()
    ]
    intro = (
        f"{found['cases']} cases: up to 200 calibration points at 19 levels. A wrong rank that does not make "
        "the band too narrow is one too high. With too few points for a finite band, no library returned "
        "one.\n"
    )
    head = "| library | wrong ranks | too narrow | refused |\n|---|---|---|---|"
    return "\n".join(["## Exact ranks by library, `python benchmarks/ranks.py`\n", intro, head, *rows, ""])


if __name__ == "__main__":
    (RESULTS / "README.md").write_text(page())
    print("results/README.md")
