"""Write results/README.md, the claims of all benchmarks side by side: `python tools/docs/results.py`."""

import json
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "results"

HEAD = """\
# Results

Everything that the documentation quotes is made by a command of the repository, whose output lies here. \
Long runs were made over many seeds; timings are of one core of a small virtual machine, contenders in turn.

| page | what it answers | made by |
|---|---|---|
"""

PAGES = {
    "paper/README.md": ("The paper's study", "which claims of the paper hold", "guardband study paper"),
    "predictors.md": (
        "Predictors",
        "every scale, its worth and cost",
        "python benchmarks/predictors.py",
    ),
    "again.md": (
        "Local cells, made again",
        "the paper's study, trained anew",
        "python benchmarks/again.py",
    ),
    "local.md": ("Local bands", "bands that follow the noise", "python benchmarks/local.py"),
    "streams.md": (
        "Streams",
        "bands that follow drifts beside an oracle, alarms, and their speed",
        "python benchmarks/streams.py",
    ),
    "surrogates.md": (
        "Surrogates",
        "promises about whole fields, shapes that adapt and rollouts, on real operators",
        "python benchmarks/surrogates.py",
    ),
    "truth.md": ("The truth", "a band for the solution behind noisy readings", "python benchmarks/truth.py"),
    "coefficients.md": (
        "Coefficients",
        "how often regions hold the truth, and what is said when they cannot",
        "python benchmarks/coefficients.py",
    ),
    "inverse.md": (
        "Coefficients beside DeepXDE",
        "unknown coefficients found with the field, on DeepXDE's own inverse problems",
        "python benchmarks/inverse.py",
    ),
    "few_points.md": (
        "Few points",
        "twenty to sixty readings, an equation right or wrong",
        "python benchmarks/few_points.py",
    ),
    "worth.md": (
        "What the equation is worth",
        "does it buy width, beside kriging and boosting",
        "python benchmarks/worth.py",
    ),
    "mapie.md": (
        "Beside MAPIE",
        "the same bands where methods are the same, differences and speed",
        "python benchmarks/peers/by_mapie.py",
    ),
    "shift.md": ("Shift", "sensors that crowd where it is quiet", "python benchmarks/shift.py"),
    "search.md": (
        "A search, inside and outside",
        "what it costs to choose a model on rows that calibrate",
        "python benchmarks/search.py",
    ),
    "training.md": ("Training", "time to accuracy, beside others", "python benchmarks/accuracy.py"),
    "newton.md": ("Gauss-Newton steps", "what one costs, beside Adam", "python benchmarks/newton.py"),
    "records.md": ("Records", "accuracy after so many CPU seconds", "python benchmarks/records.py"),
    "optimizers.md": (
        "Optimizers",
        "Gauss-Newton beside other methods",
        "python benchmarks/optimizers.py",
    ),
    "ssbroyden.md": (
        "SSBroyden",
        "on Burgers' equation, in the setting of its authors",
        "python benchmarks/ssbroyden.py",
    ),
    "solutions.md": (
        "Several solutions",
        "of one equation, and what is said of each",
        "python benchmarks/solutions.py",
    ),
    "verdicts.md": ("The verdict", "has a training converged?", "python benchmarks/verdicts.py"),
    "catalogue.md": (
        "The catalogue",
        "what Adam and L-BFGS make of each problem",
        "python benchmarks/catalogue.py",
    ),
    "cylinder.md": (
        "Flow past a cylinder",
        "what a band around it covers",
        "python benchmarks/cylinder.py",
    ),
}

CLAIMS = {
    "field.json": "A band over a huge field, `python benchmarks/field.py` and `--workers`",
    "out_of_core.json": "Fields larger than memory, `python benchmarks/out_of_core.py`",
    "quantile.json": "Exact ranks of 1e8 scores, `python benchmarks/quantile.py`",
    "campaign.json": "Trainings on two workers, `python benchmarks/campaign.py`",
    "kills.json": "A campaign whose processes are killed and paused, `python benchmarks/kills.py`",
}


def page() -> str:
    """What results/README.md should hold."""
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
        parts.append(f"\nOf the same runs: {listed}.\n")
    return "\n".join([*parts, ranks()])


def ranks() -> str:
    """Whose ranks are exact."""
    found = json.loads((RESULTS / "data/ranks.json").read_text())
    rows = [
        f"| {name} {said['version']} | {said['wrong_rank']} | {said['too_narrow']} | {said['refused']} |"
        for name, said in found["libraries"].items()
    ]
    intro = (
        f"{found['cases']} cases: up to 200 calibration points at 19 levels. A wrong rank that is not too "
        "narrow is one too high. Where too few points call for an infinite band, none gave a finite one.\n"
    )
    head = "| library | wrong ranks | too narrow | refused |\n|---|---|---|---|"
    return "\n".join(["## Whose ranks are exact, `python benchmarks/ranks.py`\n", intro, head, *rows, ""])


if __name__ == "__main__":
    (RESULTS / "README.md").write_text(page())
    print("results/README.md")
