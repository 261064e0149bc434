"""The gallery: its index, written by `python tools/docs/gallery.py`, and a page of the site for each example.

`tools/regenerate.py` draws the pictures. The pages of the examples are generated when the site is built; in
the repository the index links to the scripts.

An example is one file that a reader can copy: it imports nothing from this repository but the package, takes
no options, and saves its picture as `NAME.png` in the current folder. A quick run executes a copy with the
replacements of `QUICK`.
"""

import ast
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "gallery"
PAGES = ROOT / "docs" / "gallery"
IMAGES = PAGES / "images"

SECTIONS = {
    "Adaptive widths": "noise_islands noisy_regions widest_where",
    "Equations, systems and shapes": "own_equation small_loss front system shape cylinder",
    "Guarantees": "zero_predictor small_data acd_floor whole_field",
    "Inverse problems": "two_coefficients measure_next",
    "Groups, sensors and shift": "regimes few_sensors shift",
    "Models of other libraries": "from_deepxde from_pina from_fno from_onnx",
    "Large fields": "field_to_zarr",
}
"""The sections of the gallery, and their examples in order."""

HEAD = """\
---
hide: [toc]
---

# Gallery

Each example is one file with one idea and one picture, to copy and change. \
All run within a minute on one core: \
`python examples/gallery/NAME.py` writes `NAME.png`.
"""


class Needs(NamedTuple):
    """What to install in addition to guardband, and the modules that show whether it is installed."""

    pip: str
    modules: tuple[str, ...]


NEEDS = {
    "field_to_zarr": Needs('"guardband[scale]"', ("distributed", "xarray", "zarr")),
    "from_deepxde": Needs("deepxde", ("deepxde",)),
    "from_fno": Needs("neuraloperator", ("neuralop",)),
    "from_onnx": Needs('"guardband[export]"', ("onnx", "onnxruntime", "onnxscript")),
    "from_pina": Needs("pina-mathlab", ("pina",)),
}
"""Examples that need other packages."""


TRAINING = {"progress=False": "recipe=pinn.Recipe(steps=50, finish=20), progress=False"}
"""Fewer steps than the default recipe takes."""
QUICK = {
    "cylinder": TRAINING,
    "few_sensors": {"covered(calibrator, n, 1000)": "covered(calibrator, n, 10)"},
    "field_to_zarr": TRAINING | {"side = 400": "side = 64", "on=2": "on=None"},
    "from_deepxde": {"trained(2000)": "trained(100)"},
    "from_fno": {"trained(300)": "trained(5)", "fields(1000, ": "fields(50, "},
    "from_onnx": {"steps=2000": "steps=100"},
    "from_pina": {"trained(1000)": "trained(10)"},
    "front": TRAINING,
    "measure_next": {"range(60)": "range(3)"},
    "noise_islands": TRAINING | {"(500, 300, 3000)": "(60, 50, 500)"},
    "noisy_regions": TRAINING | {"(600, 300, 3000)": "(60, 50, 200)", "grid(80)": "grid(25)"},
    "own_equation": TRAINING,
    "shape": TRAINING,
    "small_loss": {"by_newton(150)": "by_newton(5)"},
    "system": TRAINING,
    "whole_field": {"steps=600, finish=400": "steps=50, finish=20"},
    "widest_where": TRAINING | {"grid(80)": "grid(25)"},
    "zero_predictor": TRAINING,
}
"""Replacements in the text of an example for a quick run; the other examples take seconds."""


class Example(NamedTuple):
    """The parts of an example: the first line of its docstring, the rest of it, and the code below."""

    name: str
    title: str
    text: str
    code: str


def names() -> list[str]:
    """All examples, in the order of the gallery."""
    return [name for section in SECTIONS.values() for name in section.split()]


def script(name: str) -> Path:
    """The file of an example."""
    return EXAMPLES / f"{name}.py"


def example(name: str) -> Example:
    """Parse the file of an example."""
    source = script(name).read_text()
    tree = ast.parse(source)
    title, _, text = (ast.get_docstring(tree) or "").partition("\n")
    below = source.splitlines()[tree.body[0].end_lineno :]
    return Example(name, title.strip(), text.strip(), "\n".join(below).strip())


def page(name: str) -> str:
    """The page of an example."""
    of = example(name)
    commands = [f"python examples/gallery/{name}.py"]
    if name in NEEDS:
        commands.insert(0, f"pip install {NEEDS[name].pip}")
    return "\n".join(
        [
            f"# {of.title}",
            "",
            of.text.replace("\n", " "),
            "",
            f"![Picture drawn by {name}.py](images/{name}.png)",
            "",
            "```sh",
            *commands,
            "```",
            "",
            f'```py title="{name}.py"',
            of.code,
            "```",
            "",
            "[All examples](index.md)",
            "",
        ]
    )


def index() -> str:
    """The page of all examples: a card each, its picture above its title."""
    parts = [HEAD]
    for section, members in SECTIONS.items():
        cards = [_card(example(name)) for name in members.split()]
        parts += [f"## {section}\n", '<div class="grid cards" markdown>\n', *cards, "</div>\n"]
    return "\n".join(parts)


def _card(of: Example) -> str:
    """A picture above its title, which is also its text alternative."""
    picture = f"![](images/{of.name}.png){{ .card loading=lazy role=presentation }}"
    return f"-   [{picture}<br>{of.title}](../../examples/gallery/{of.name}.py)\n"


def copy(name: str, folder: Path, quick: bool = False) -> Path:
    """Copy an example alone into a folder, optionally with the numbers of a quick run."""
    text = script(name).read_text()
    for slow, fast in QUICK.get(name, {}).items() if quick else ():
        if text.count(slow) != 1:
            raise ValueError(f"{name}.py should have {slow!r} once: change it there or in QUICK.")
        text = text.replace(slow, fast)
    copied = folder / f"{name}.py"
    copied.write_text(text)
    return copied


def run(name: str, python: str, folder: Path, quick: bool = False) -> Path:
    """Run a copy of an example in a separate process and folder, and return its picture."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [python, str(copy(name, folder, quick))],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr}")
    return folder / f"{name}.png"


def pages() -> dict[str, str]:
    """The pages of all examples, by name of the file."""
    return {f"{name}.md": page(name) for name in names()}


def main() -> None:
    """Write the index."""
    (PAGES / "index.md").write_text(index())


if __name__ == "__main__":
    main()
