"""Write docs/api.md, every public name with one example, from the docstrings: `python docs/api.py`."""

import ast
import doctest
import importlib
import inspect
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["import", "definition", "block", "line"]

PAGE = Path(__file__).parent / "api.md"
WIDTH = 100
"""Up to which width an output stands behind its line rather than below it."""

HEAD = """\
# The public names

Each with what it is and one example that runs as it stands. \
Written by `docs/api.py` from the docstrings, which say more: `help(gb.calibrate)`.
"""

SECTIONS = {
    "Calibrate": "calibrate calibrate_arrays Calibrated points_needed raw_band InfiniteBandWarning",
    "Scores and calibrators": """
        Scaled Absolute Total Simultaneous
        Split Grouped Clustered Weighted density_ratio Localized
        Local LogScale PinballNetwork OverfittedWarning
    """,
    "Values": "Observations Prediction Predictor Band LEVELS",
    "Predictors": """
        predictors.Constant predictors.Given predictors.Distance predictors.LatentDistance predictors.Dropout
        predictors.Ensemble predictors.LastLayerLaplace predictors.Laplace predictors.MeanFieldVI
        predictors.HMC predictors.Draws
    """,
    "Problems and training": """
        problems.Problem problems.Box problems.Face problems.Dirichlet problems.Neumann problems.Initial
        problems.Condition problems.Field problems.AutogradField
        problems.Poisson1D problems.AllenCahn2D problems.Helmholtz3D problems.DampedOscillator
        problems.Settings problems.noise.Noise problems.noise.Even problems.noise.Islands problems.noise.Disc
        problems.noise.Ring problems.noise.DiscAndCorner problems.noise.Front
        mlp Constrained fit Fitted Likelihood Recipe TrainingDiverged
    """,
    "Look and check": """
        evaluate Evaluation metrics.Row check Findings
        metrics.coverage metrics.sharpness metrics.interval_score metrics.relative_l2 metrics.acd
        metrics.acd_floor metrics.Floor
        plot.band plot.width plot.field plot.coverage_curve plot.trace
    """,
    "Keep and show": """
        save load ArtefactError store.manifest report export_onnx
        field FieldBand write_mesh conformal.order_statistics conformal.calibrate_shards
        tables.Table tables.read tables.write tables.TableError
    """,
    "Adapters": """
        adapters.from_deepxde adapters.from_jax adapters.from_neuralop adapters.nodes adapters.from_onnx
        adapters.from_pina
    """,
    "Studies": """
        studies.Use studies.Training studies.Cell studies.Study studies.grid studies.paper studies.Result
        campaign.run campaign.status campaign.Status campaign.results
    """,
    "For authors of methods": """
        testing.check_predictor testing.check_score testing.check_calibrator testing.exchangeable
        testing.two_groups testing.new_sensors testing.World testing.Draw testing.untouched
        conformal.Score conformal.Symmetric conformal.Calibrator conformal.Threshold conformal.CoverageLaw
        conformal.quantile conformal.rank conformal.confident_rank
        pinn.MLP pinn.differentiate pinn.Potential pinn.Prior pinn.paper_likelihood
    """,
}
"""The sections in order, each with its names, to be read behind `guardband.`."""


def names() -> list[str]:
    """All names of the page, in order."""
    return [name for section in SECTIONS.values() for name in section.split()]


def page() -> str:
    """What docs/api.md should hold."""
    contents = " | ".join(f"[{title}](#{title.lower().replace(' ', '-')})" for title in SECTIONS)
    parts = [HEAD, f"{contents}\n"]
    for title, section in SECTIONS.items():
        parts += [f"## {title}\n", *(entry(name) for name in section.split())]
    return "\n".join(parts)


def entry(name: str) -> str:
    """A name, what it is, and its example."""
    text = docstring(name)
    meaning = " ".join(text.split("\n\n")[0].split())
    return f"### guardband.{name}\n\n{meaning}\n\n{block(text)}"


def docstring(name: str) -> str:
    """The docstring of a name; that of a constant is the string below it."""
    module, value = found(name)
    if not constant(name):
        return inspect.cleandoc(value.__doc__ or "")
    word = name.rpartition(".")[2]
    return next(text for place in _origins(module, word) for text in _below(place, word))


def constant(name: str) -> bool:
    """Whether a name has no docstring of its own, being neither a class nor a function of ours."""
    value = found(name)[1]
    return not getattr(value, "__module__", "").startswith("guardband")


def found(name: str) -> tuple[ModuleType, object]:
    """The module a name is read from, and what it is."""
    place, _, word = f"guardband.{name}".rpartition(".")
    module = importlib.import_module(place)
    return module, getattr(module, word)


def block(text: str) -> str:
    """The doctest of a docstring as a block of code, with what it prints in comments.

    Where lines need packages that tests do not have, the block is marked `py` and is not run.
    """
    examples = doctest.DocTestParser().get_examples(text)
    lines = list[str]()
    before = None
    for example in examples:
        source = [line.partition("  # doctest:")[0] for line in example.source.splitlines()]
        lines += [""] * (0 if before is None else blank_lines(before, kind(source)))
        before = kind(source)
        lines += commented(source, example.want.splitlines())
    skipped = any(example.options.get(doctest.SKIP) for example in examples)
    return "\n".join([f"```{'py' if skipped else 'python'}", *lines, "```", ""])


def kind(source: list[str]) -> Kind:
    """What a statement is, as far as blank lines go."""
    if source[0].startswith(("import ", "from ")):
        return "import"
    if source[0].startswith(("def ", "class ", "@")):
        return "definition"
    return "block" if len(source) > 1 else "line"


def blank_lines(before: Kind, after: Kind) -> int:
    """How many stand between two statements, as ruff wants them."""
    if "definition" in (before, after):
        return 2
    return int(before != after and before in ("import", "block"))


def commented(source: list[str], output: list[str]) -> list[str]:
    """Code with what it prints: behind it where it is short, else below."""
    marked = [f"# {'  ' if i else '->'} {line}" for i, line in enumerate(output)]
    if len(source) == len(marked) == 1 and len(source[0] + marked[0]) < WIDTH:
        return [f"{source[0]}  {marked[0]}"]
    return source + marked


def _origins(module: ModuleType, word: str) -> Iterator[ModuleType]:
    """The module itself, and those in it or below it from which it has a name."""
    yield module
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ImportFrom) and node.module and word in [part.name for part in node.names]:
            yield from _origins(importlib.import_module(node.module), word)


def _below(module: ModuleType, word: str) -> Iterator[str]:
    """The string below the line in which a module sets a name."""
    body = ast.parse(inspect.getsource(module)).body
    for node, after in pairwise(body):
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == word and isinstance(after, ast.Expr):
            yield inspect.cleandoc(ast.literal_eval(after.value))


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE}: {len(names())} names")
