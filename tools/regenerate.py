"""Regenerate the pictures, notebooks and pages of the documentation, or check the numbers that they show.

    python tools/regenerate.py [NAME ...]            run the scripts and rewrite their outputs
    python tools/regenerate.py --check [NAME ...]    run them and compare with the stored numbers

A target is one script, run in its own process in a copy of the documentation. The numbers that its figures
show (titles, limits, and quantiles of every line, region and image) are stored with its CPU seconds in
`docs/numbers/NAME.json`. `--check` writes nothing: it compares figures with that file, and the text of pages
and notebooks with the stored pages. It skips targets above 60 CPU seconds and those that need an absent
package.
Without names, a target is run if its script or the library has changed since its numbers were stored, so a
run that was stopped resumes. `--engines PATH` is a Python that has the packages this one lacks.
"""

import argparse
import hashlib
import json
import os
import re
import resource
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
NUMBERS = ROOT / "docs" / "numbers"
LONGEST = 60
"""CPU seconds; a target that takes longer is not checked."""

TOLERANCE = 0.05
"""Allowed change of a number, relative to the spread of the drawn values, or to itself in a text.

Without vector instructions (`ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE`), numbers changed by up to 1 %
after Gauss-Newton steps and by up to 3 % after Adam. With two threads they did not change.
"""

FACTOR = 3.0
"""Allowed factor of an error or a loss; in the same experiment, errors changed by a factor of up to 2.2.

Rounding decides when training stops, so only the order of magnitude of an error is stable.
"""

ERRORS = re.compile(r"error|loss|off by|missed by|relative L2", re.IGNORECASE)
"""Axes with these labels, and numbers after these words in a line, are compared by `FACTOR`."""

TESTED = re.compile(
    r"Coverage is not the same everywhere|  .* covered, .* \(p = |The promise is an average over"
)
"""Lines that are printed if a test rejects; not compared, since rounding moves p-values across its limit."""

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")


class Target(NamedTuple):
    """A script with its arguments, the folder in which it runs, and the modules that it needs."""

    command: tuple[str, ...]
    folder: str = "docs"
    needs: tuple[str, ...] = ()


def targets() -> dict[str, Target]:
    """All targets by name."""
    gallery = runpy.run_path(str(ROOT / "tools/docs/gallery.py"))
    notebooks = sorted(path.stem for path in (ROOT / "docs/notebooks").glob("*.ipynb"))
    pages = ("promise", "coverage_alone", "acd", "paper", "coefficients")
    scripts = ("calibrators", "catalogue", "front", "pictures", "promises", "rollouts", "tutorial")
    found = {name: Target((f"tools/docs/{name}.py",)) for name in scripts}
    found["readme"] = Target(("tools/docs/blocks.py", "../README.md"))
    found["fno"] = Target(("tools/docs/fno.py",), needs=("neuralop",))
    for name in pages:
        found[f"explanation-{name}"] = Target(("tools/docs/explanation.py", name))
    for name in notebooks:
        found[f"notebook-{name}"] = Target(("tools/docs/notebooks.py", name), needs=("nbclient", "ipykernel"))
    for name in gallery["names"]():
        modules = gallery["NEEDS"][name].modules if name in gallery["NEEDS"] else ()
        found[f"gallery-{name}"] = Target((f"examples/gallery/{name}.py",), "docs/gallery/images", modules)
    found["predictors"] = Target(("benchmarks/predictors.py", "--pictures", "--seeds", "10-10"))
    return found


# Reading the numbers of a figure


def shown(figure: Any) -> dict[str, Any]:
    """The numbers that a figure shows, panel by panel."""
    made: dict[str, Any] = {"texts": [text.get_text() for text in figure.texts]}
    for number, ax in enumerate(figure.axes, 1):
        made[f"panel {number}"] = _texts(ax) if ax.get_label() == "<colorbar>" else _panel(ax)
    return made


def _texts(ax: Any) -> dict[str, Any]:
    legend = ax.get_legend()
    texts = [ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), *(text.get_text() for text in ax.texts)]
    texts += [text.get_text() for text in legend.get_texts()] if legend else []
    return {"texts": [text for text in texts if text]}


def _panel(ax: Any) -> dict[str, Any]:
    """Texts, limits, and the summary of each artist."""
    made = _texts(ax)
    label = ax.get_ylabel() or ("" if NUMBER.search(ax.get_title()) else ax.get_title())
    if ERRORS.search(label):
        made["of errors"] = [label]
    made |= {"x limits": _rounded(ax.get_xlim()), "y limits": _rounded(ax.get_ylim())}
    logarithmic = [axis for axis in "xy" if getattr(ax, f"get_{axis}scale")() == "log"]
    if logarithmic:
        made["logarithmic"] = logarithmic
    for number, line in enumerate(ax.lines, 1):
        x, y = line.get_data(orig=False)
        made[f"line {number}"] = {"x": summary(x), "y": summary(y)}
    for number, image in enumerate(ax.images, 1):
        made[f"image {number}"] = {"values": summary(image.get_array())}
    for number, collection in enumerate(ax.collections, 1):
        made[f"collection {number}"] = _collection(collection)
    for number, patch in enumerate(ax.patches, 1):
        corners = patch.get_path().transformed(patch.get_patch_transform()).vertices
        made[f"patch {number}"] = {"x": summary(corners[:, 0]), "y": summary(corners[:, 1])}
    return made


def _collection(collection: Any) -> dict[str, Any]:
    """The colors of a mesh, the positions of points, or the outline of a region."""
    import numpy as np

    values, places = collection.get_array(), collection.get_offsets()
    if values is not None:
        return {"values": summary(values), "color limits": _rounded(collection.get_clim())}
    outline = [path.vertices for path in collection.get_paths() if len(path.vertices)]
    x, y = np.asarray(places if len(places) > 1 or not outline else np.concatenate(outline)).T
    return {"x": summary(x), "y": summary(y)}


def summary(values: Any) -> list[float]:
    """The number of finite values, their minimum, quartiles and maximum, and the mean of each half."""
    import numpy as np

    numbers = np.ma.filled(np.ma.asarray(values, dtype=float), np.nan).ravel()
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        return [0]
    halves = [half.mean() for half in np.array_split(finite, 2) if len(half)]  # in the order as drawn
    return [len(finite), *_rounded([*np.quantile(finite, [0, 0.25, 0.5, 0.75, 1]), *halves])]


def _rounded(values: Any) -> list[float]:
    return [float(f"{float(value):.4g}") for value in values]


# Comparing


def differences(stored: Any, made: Any, where: str = "", by_factor: str = "") -> list[str]:
    """Differences beyond the tolerances between two records of the same figures, a line each.

    `by_factor` has the first letters of the numbers that are compared by `FACTOR`.
    """
    if not isinstance(stored, dict):
        same = _same(stored, made, bool(where) and where.rpartition(": ")[2][0] in by_factor)
        return [] if same else [f"{where}: {stored} stored, {made} now"]
    if "y limits" in stored:
        by_factor = "".join(stored.get("logarithmic", ())) + ("yvc" if "of errors" in stored else "")
    found = [f"{where}: {key} is missing" for key in stored if key not in made]
    found += [f"{where}: {key} is new" for key in made if key not in stored]
    for key in stored:
        if key in made:
            found += differences(stored[key], made[key], f"{where}: {key}" if where else key, by_factor)
    return found


def _same(stored: Any, made: Any, by_factor: bool) -> bool:
    """Whether two lists of texts or of numbers agree."""
    if len(stored) != len(made):
        return False
    if all(isinstance(entry, str) for entry in stored):
        return all(map(same_text, stored, made))
    return same_size(stored, made) if by_factor else same_numbers(stored, made)


def same_numbers(stored: Sequence[float], made: Sequence[float]) -> bool:
    """Whether numbers agree within `TOLERANCE` of their spread, or of their size where all are equal."""
    values = _values(stored)
    allowed = TOLERANCE * ((max(values) - min(values)) or max(map(abs, values), default=0))
    counted = len(values) < len(stored)
    return all(abs(a - b) <= allowed for a, b in zip(values, _values(made), strict=True)) and (
        not counted or abs(stored[0] - made[0]) <= TOLERANCE * stored[0]
    )


def _values(numbers: Sequence[float]) -> Sequence[float]:
    """The two ends of an axis, or a summary without its count."""
    return numbers if len(numbers) == 2 else numbers[1:]


def same_size(stored: Sequence[float], made: Sequence[float]) -> bool:
    """Whether the largest numbers in size agree within `FACTOR`."""
    one, other = (max(map(abs, _values(numbers)), default=0) for numbers in (stored, made))
    return one <= FACTOR * other and other <= FACTOR * one


def same_text(stored: str, made: str) -> bool:
    """Whether two texts have the same words, and numbers that agree within the tolerances."""
    if NUMBER.sub("#", stored) != NUMBER.sub("#", made):
        return False
    pairs = zip(NUMBER.finditer(stored), NUMBER.finditer(made), strict=True)
    return all(
        _same_number(a[0], b[0], bool(ERRORS.search(stored, stored.rfind("\n", 0, a.start()) + 1, a.start())))
        for a, b in pairs
    )


def _same_number(stored: str, made: str, by_factor: bool) -> bool:
    """Whether two numbers differ by at most a unit of the last digit shown, or by the tolerance."""
    a, b = float(stored), float(made)
    digits, _, power = stored.partition("e")
    unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    small, large = sorted((abs(a), abs(b)))
    allowed = (FACTOR - 1) * small if by_factor else TOLERANCE * large
    return abs(a - b) <= max(allowed, 1.001 * unit)


def text_differences(stored: Path, made: Path) -> list[str]:
    """Lines that differ in a page, or in the printed output of a notebook."""
    one, other = _lines(stored), _lines(made)
    if len(one) != len(other):
        return [f"{stored.name}: {len(one)} lines stored, {len(other)} now"]
    return [
        f"{stored.name}: {a!r} stored, {b!r} now"
        for a, b in zip(one, other, strict=True)
        if not same_text(a, b)
    ]


def _lines(path: Path) -> list[str]:
    """The lines of a page, or those that the cells of a notebook printed, except `TESTED`."""
    if path.suffix != ".ipynb":
        return _untested(path.read_text())
    cells = json.loads(path.read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    texts = [output.get("text", output.get("data", {}).get("text/plain", "")) for output in outputs]
    return _untested("\n".join("".join(text).rstrip() for text in texts))


def _untested(text: str) -> list[str]:
    return [line for line in text.splitlines() if not TESTED.match(line)]


# Running


class Run(NamedTuple):
    """The result of running a target: its record, and the files that it wrote by their final paths."""

    record: dict[str, Any]
    written: dict[Path, Path]


@contextmanager
def run(target: Target, python: str) -> Iterator[Run]:
    """Run a target in a copy of the repository that is discarded afterward."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve()
        for entry in ROOT.iterdir():
            if entry.name in ("docs", "results"):
                shutil.copytree(entry, tree / entry.name, ignore=shutil.ignore_patterns("numbers"))
            elif entry.suffix == ".md":
                shutil.copyfile(entry, tree / entry.name)
            elif not entry.name.startswith("."):
                (tree / entry.name).symlink_to(entry)
        before = {path: path.stat().st_mtime_ns for path in _files(tree)}
        script, *arguments = target.command
        record = tree / "record.json"
        command = [python, str(ROOT / "tools/regenerate.py"), "--record", str(record), str(tree / script)]
        path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
        defaults = {"OMP_NUM_THREADS": "1"} | os.environ
        start = _cpu_seconds()
        done = subprocess.run(
            [*command, *arguments],
            cwd=tree / target.folder,
            env=defaults | {"PYTHONPATH": path, "MPLBACKEND": "Agg"},
            capture_output=True,
            text=True,
        )
        seconds = _cpu_seconds() - start
        if done.returncode:
            raise RuntimeError(f"{script} failed:\n{done.stderr}")
        found = {"cpu_seconds": round(seconds, 1), "inputs": inputs(target)}
        found |= {"figures": json.loads(record.read_text())}
        written = [path for path in _files(tree) if path.stat().st_mtime_ns != before.get(path)]
        yield Run(found, {ROOT / path.relative_to(tree): path for path in written})


def _files(tree: Path) -> list[Path]:
    return [path for path in (tree / "docs").rglob("*") if path.suffix in (".png", ".md", ".ipynb")]


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def record_figures(file: Path, script: Path) -> None:
    """Run a script as `__main__`, and write the numbers of every figure that it saves."""
    from matplotlib.figure import Figure

    figures: dict[str, Any] = {}
    save = Figure.savefig

    def savefig(self: Figure, fname: Any, **options: Any) -> None:
        if isinstance(fname, str | os.PathLike):
            figures[Path(fname).name] = shown(self)
        save(self, fname, **options)

    Figure.savefig = savefig
    sys.path[0] = str(script.parent)
    runpy.run_path(str(script), run_name="__main__")
    file.write_text(json.dumps(figures))


def inputs(target: Target) -> str:
    """A hash of the script of a target and of the library."""
    digest = hashlib.sha256(" ".join(target.command).encode())
    for path in (ROOT / target.command[0], *sorted((ROOT / "src").rglob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def interpreter(target: Target, engines: str | None = None) -> str | None:
    """A Python that has the modules of a target: this one, else that of `--engines`, else none."""
    pythons = filter(None, (sys.executable, engines))
    return next((python for python in pythons if _has(python, target.needs)), None)


@cache
def _has(python: str, modules: tuple[str, ...]) -> bool:
    look = "import sys; from importlib.util import find_spec; sys.exit(not all(map(find_spec, sys.argv[1:])))"
    return subprocess.run([python, "-c", look, *modules]).returncode == 0


# Storing and checking


def stored(name: str) -> dict[str, Any] | None:
    """The stored record of a target, if there is one."""
    path = NUMBERS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def store(name: str, made: Run) -> None:
    """Copy the files of a run into the documentation, the record last."""
    for path, source in made.written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".png":
            _shrink(source)
        shutil.copyfile(source, path)
    text = json.dumps(made.record, indent=1)
    text = re.sub(r"(\{[^{}]*\}|\[[^][{}]*\])", lambda inner: " ".join(inner[0].split()), text)
    NUMBERS.mkdir(exist_ok=True)
    (NUMBERS / f"{name}.json").write_text(text + "\n")


def _shrink(picture: Path) -> None:
    """Rewrite a picture with 256 colors, chosen to keep color scales smooth."""
    from PIL import Image

    colors = Image.open(picture).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
    colors.save(picture, optimize=True)


def compare(name: str, made: Run) -> list[str]:
    """Differences between a run and the stored numbers and texts."""
    record = stored(name)
    found = differences(record["figures"], made.record["figures"]) if record else ["no numbers are stored"]
    for path, source in made.written.items():
        if path.suffix != ".png":
            found += text_differences(path, source)
    return found


def skipped(name: str, target: Target, python: str | None, check: bool, named: bool) -> str | None:
    """The reason why a target is skipped, if any."""
    record = stored(name)
    if python is None:
        return f"needs {', '.join(target.needs)}"
    if check and record and record["cpu_seconds"] > LONGEST:
        return f"takes {record['cpu_seconds']:.0f} CPU s, above {LONGEST}"
    if not check and not named and record and record["inputs"] == inputs(target):
        return "up to date"
    return None


def main(arguments: Sequence[str]) -> int:
    """Regenerate or check, and return the exit status."""
    everything = targets()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="run these alone: " + " ".join(everything))
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--engines", help="a Python with the packages that this one lacks")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.names) - set(everything):
        parser.error(f"unknown targets {sorted(unknown)}")
    failed = 0
    for name in chosen.names or everything:
        target = everything[name]
        python = interpreter(target, chosen.engines)
        if reason := skipped(name, target, python, chosen.check, bool(chosen.names)):
            print(f"{name}: not run, {reason}", flush=True)
            continue
        assert python is not None
        try:
            with run(target, python) as made:
                found = compare(name, made) if chosen.check else []
                if not chosen.check:
                    store(name, made)
        except RuntimeError as error:
            print(f"{name}: {error}", flush=True)
            failed += 1
            continue
        failed += bool(found)
        says = ("DIFFERS" if found else "same") if chosen.check else "written"
        print(f"{name}: {says}, {made.record['cpu_seconds']:.1f} CPU s", *found, sep="\n  ", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        file, script = map(Path, sys.argv[2:4])
        sys.argv = sys.argv[3:]
        record_figures(file, script)
    else:
        sys.exit(main(sys.argv[1:]))
