"""Numbers are read off figures, compared within the tolerances, and stored target by target."""

import json
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes

from helpers import script

REGENERATE = script("tools/regenerate.py")
T = np.linspace(0, 2, 50)


def numbers(change: Callable[[Axes], Any] = lambda ax: None) -> dict[str, Any]:
    """The numbers of a figure with one of each kind of artist, after a change."""
    figure, ax = plt.subplots()
    ax.plot(T, np.sin(T), label="model")
    ax.fill_between(T, np.sin(T) - 0.1, np.sin(T) + 0.1)
    ax.scatter(T, np.cos(T))
    ax.bar([0.5, 1.0], [0.2, 0.4])
    ax.imshow(np.outer(T, T))
    mesh = ax.pcolormesh(T, T, np.outer(T, T))
    figure.colorbar(mesh, label="width")
    ax.set(title="covered 94.5 %", xlabel="t", xlim=(0, 2), ylim=(-1, 1))
    ax.legend()
    change(ax)
    record = REGENERATE.shown(figure)
    plt.close(figure)
    return json.loads(json.dumps(record))


CHANGES: dict[str, Callable[[Any], Any]] = {
    "line": lambda ax: ax.lines[0].set_ydata(1.2 * np.sin(T)),
    "length": lambda ax: ax.lines[0].set_data(T[:40], np.sin(T[:40])),
    "new line": lambda ax: ax.plot(T, T),
    "no line": lambda ax: ax.lines[0].remove(),
    "points": lambda ax: ax.collections[1].set_offsets(np.column_stack([T, 1.2 * np.cos(T)])),
    "region": lambda ax: ax.collections[0].set_verts([np.column_stack([T, np.sin(T)])]),
    "bar": lambda ax: ax.patches[1].set_height(0.5),
    "image": lambda ax: ax.images[0].set_data(2 * np.outer(T, T)),
    "mesh": lambda ax: ax.collections[2].set_array(2 * np.outer(T, T)),
    "colors": lambda ax: ax.collections[2].set_clim(0, 8),
    "number in title": lambda ax: ax.set_title("covered 88.5 %"),
    "word in title": lambda ax: ax.set_title("missed 94.5 %"),
    "label": lambda ax: ax.set_xlabel("x"),
    "legend": lambda ax: ax.get_legend().get_texts()[0].set_text("truth"),
    "text": lambda ax: ax.text(0, 0, "horizon"),
    "limits": lambda ax: ax.set_xlim(0, 3),
    "panel": lambda ax: ax.figure.add_axes((0, 0, 0.1, 0.1)),
    "figure title": lambda ax: ax.figure.suptitle("new"),
}


def test_the_same_figure_has_no_differences() -> None:
    assert REGENERATE.differences(numbers(), numbers()) == []


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_figure_differs(name: str) -> None:
    found = REGENERATE.differences(numbers(), numbers(CHANGES[name]))
    assert found and all("panel" in line or "texts" in line for line in found)


@pytest.mark.parametrize(("factor", "differs"), [(1.04, False), (1.06, True)])
def test_a_line_may_move_by_the_tolerance(factor: float, differs: bool) -> None:
    def line(scale: float) -> dict[str, Any]:
        return numbers(lambda ax: ax.lines[0].set_ydata(scale * T))

    assert bool(REGENERATE.differences(line(1), line(factor))) == differs


@pytest.mark.parametrize(
    ("factor", "differs"), [(2.9, False), (1 / 2.9, False), (3.1, True), (1 / 3.1, True)]
)
@pytest.mark.parametrize("panel", [{"ylabel": "error"}, {"yscale": "log"}])
def test_errors_and_logarithmic_axes_are_compared_by_a_factor(
    panel: dict[str, str], factor: float, differs: bool
) -> None:
    def errors(scale: float) -> dict[str, Any]:
        figure, ax = plt.subplots()
        ax.plot(T, scale * 1e-6 * np.exp(T))
        ax.set(ylim=(1e-9, 1), **panel)
        record = REGENERATE.shown(figure)
        plt.close(figure)
        return record

    assert bool(REGENERATE.differences(errors(1), errors(factor))) == differs


def test_the_title_of_a_figure_does_not_loosen_its_panels() -> None:
    def titled(ax: Axes) -> None:
        ax.figure.suptitle("relative L2 error 0.3 %")

    def moved(ax: Axes) -> None:
        titled(ax)
        CHANGES["line"](ax)

    assert REGENERATE.differences(numbers(titled), numbers(moved))


@pytest.mark.parametrize(
    ("stored", "made", "same"),
    [
        ("width 0.020", "width 0.021", True),  # a unit of the last digit
        ("width 0.020", "width 0.022", False),
        ("width 204", "width 213", True),  # 5 %
        ("width 204", "width 217", False),
        ("9 of 200 missed", "10 of 200 missed", True),
        ("9 of 200 missed", "11 of 200 missed", False),
        ("relative L2 error 0.0031 %", "relative L2 error 0.0091 %", True),  # a factor of three
        ("relative L2 error 0.0031 %", "relative L2 error 0.97 %", False),
        ("rate 1.5e-06", "rate 1.6e-06", True),
        ("rate 1.5e-06", "rate 1.5e-05", False),
        ("offset -0.5", "offset 0.5", False),
        ("converged", "not converged", False),
    ],
)
def test_texts_agree_in_words_and_nearly_in_numbers(stored: str, made: str, same: bool) -> None:
    assert REGENERATE.same_text(stored, made) == same


def test_the_output_of_a_notebook_is_compared_and_not_its_code(tmp_path: Path) -> None:
    def notebook(name: str, code: str, text: str) -> Path:
        printed = {"output_type": "stream", "name": "stdout", "text": ["Band\n", text]}
        cell = {"cell_type": "code", "source": code, "outputs": [printed]}
        path = tmp_path / f"{name}.ipynb"
        path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "# 1"}, cell]}))
        return path

    stored = notebook("stored", "print(1)", "width 0.18")
    assert REGENERATE.text_differences(stored, notebook("same", "print(2)", "width 0.18")) == []
    assert REGENERATE.text_differences(stored, notebook("other", "print(1)", "width 0.28"))
    assert REGENERATE.text_differences(stored, notebook("longer", "print(1)", "width 0.18\nmore"))


def test_the_outcome_of_a_test_near_its_limit_is_not_compared(tmp_path: Path) -> None:
    stored, made = tmp_path / "stored.md", tmp_path / "made.md"
    stored.write_text("width 0.21\nshape holds\n")
    rejected = (
        "Coverage is not the same everywhere: 1 of 13 ranges stands out; least covered is\n"
        "  x from 0.1 to 0.2: 249 of 250 covered, 0.996 (p = 7.6e-05)\n"
        "The promise is an average over places; gb.Local() makes coverage more even.\n"
    )
    made.write_text(f"width 0.21\n{rejected}shape holds\n")
    assert REGENERATE.text_differences(stored, made) == []
    made.write_text(f"width 0.31\n{rejected}shape holds\n")
    assert len(REGENERATE.text_differences(stored, made)) == 1


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two targets, which draw the lines that `lines.json` says; `broken` stops a run."""
    for folder in ("docs/images", "src", "tools", "results"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "src" / "library.py").write_text("")
    (tmp_path / "tools" / "regenerate.py").symlink_to(Path(REGENERATE.__file__))
    for name in ("one", "two"):
        (tmp_path / "tools" / f"{name}.py").write_text(
            "import json, sys; from pathlib import Path; import matplotlib.pyplot as plt\n"
            "ROOT = Path(__file__).parents[1]\n"
            f"line = json.loads((ROOT / 'lines.json').read_text())['{name}']\n"
            "if not line: sys.exit('stopped')\n"
            "plt.plot(line)\n"
            f"plt.savefig(ROOT / 'docs/images/{name}.png')\n"
        )
    monkeypatch.setattr(REGENERATE, "ROOT", tmp_path)
    monkeypatch.setattr(REGENERATE, "NUMBERS", tmp_path / "docs" / "numbers")
    targets = {name: REGENERATE.Target((f"tools/{name}.py",)) for name in ("one", "two")}
    monkeypatch.setattr(REGENERATE, "targets", lambda: targets)
    return tmp_path


def draw(repository: Path, one: list[float], two: list[float]) -> None:
    """Say which lines the targets draw."""
    (repository / "lines.json").write_text(json.dumps({"one": one, "two": two}))


def test_a_mirrored_line_and_a_band_of_twice_the_width_differ() -> None:
    def drawn(values: list[float], title: str) -> dict[str, Any]:
        figure, ax = plt.subplots()
        ax.plot(values)
        ax.set_title(title)
        plt.close(figure)
        return REGENERATE.shown(figure)

    title = "width 1.00, relative L2 error 0.03"
    one = drawn([1, 2, 3, 9], title)
    assert REGENERATE.differences(one, drawn([1, 2, 3, 9], "width 1.00, relative L2 error 0.05")) == []
    assert REGENERATE.differences(one, drawn([9, 3, 2, 1], title))
    assert REGENERATE.differences(one, drawn([2, 4, 6, 18], title))
    assert REGENERATE.differences(one, drawn([1, 2, 3, 9], "width 2.00, relative L2 error 0.03"))


def test_a_stopped_run_resumes_and_a_check_sees_changes(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw(repository, [1, 2], [])
    assert REGENERATE.main([]) == 1  # the second target fails
    assert "two.py failed:\nstopped" in capsys.readouterr().out
    assert (repository / "docs/images/one.png").exists() and not (repository / "docs/images/two.png").exists()

    draw(repository, [1, 2], [3, 4])
    assert REGENERATE.main([]) == 0
    printed = capsys.readouterr().out
    assert "one: not run, up to date" in printed and "two: written, " in printed

    pictures = {path: path.read_bytes() for path in (repository / "docs").rglob("*.*")}
    assert REGENERATE.main(["--check"]) == 0
    draw(repository, [1, 2], [3, 5])
    capsys.readouterr()
    assert REGENERATE.main(["--check"]) == 1
    printed = capsys.readouterr().out
    assert "one: same" in printed and "two: DIFFERS" in printed
    assert "two.png: panel 1: line 1: y: [2, 3.0, 3.25, 3.5, 3.75, 4.0, 3.0, 4.0] stored" in printed
    assert {path: path.read_bytes() for path in (repository / "docs").rglob("*.*")} == pictures


@contextmanager
def no_run(*_: Any) -> Any:
    """In place of a run: nothing is to be run."""
    raise AssertionError("a target was run")
    yield


def test_what_changed_is_run_again(repository: Path) -> None:
    draw(repository, [1, 2], [3, 4])
    one = REGENERATE.targets()["one"]
    record = {"cpu_seconds": 1.0, "inputs": REGENERATE.inputs(one), "figures": {}}
    (repository / "docs/numbers").mkdir()
    (repository / "docs/numbers/one.json").write_text(json.dumps(record))

    def reason(check: bool = False, named: bool = False) -> str | None:
        return REGENERATE.skipped("one", one, "python", check, named)

    assert reason() == "up to date" and reason(named=True) is None and reason(check=True) is None
    (repository / "src" / "library.py").write_text("default = 2")
    assert reason() is None


def test_a_long_target_is_not_checked(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "docs/numbers").mkdir()
    for name in ("one", "two"):
        record = {"cpu_seconds": 61.0, "inputs": "", "figures": {}}
        (repository / f"docs/numbers/{name}.json").write_text(json.dumps(record))
    monkeypatch.setattr(REGENERATE, "run", no_run)
    assert REGENERATE.main(["--check"]) == 0
    assert "one: not run, takes 61 CPU s, above 60" in capsys.readouterr().out


def test_a_target_without_its_package_is_not_run() -> None:
    target = REGENERATE.Target(("one.py",), needs=("there_is_no_such_module",))
    assert REGENERATE.interpreter(target) is None
    assert REGENERATE.skipped("one", target, None, True, True) == "needs there_is_no_such_module"


def test_every_target_has_its_script_and_every_record_its_target() -> None:
    targets = REGENERATE.targets()
    assert all((REGENERATE.ROOT / target.command[0]).exists() for target in targets.values())
    assert {path.stem for path in REGENERATE.NUMBERS.glob("*.json")} <= set(targets)
