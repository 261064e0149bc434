"""Mutation testing of the core: small faults drawn from a seed, and whether the default tier catches them.

    python tools/mutants.py list --seed 1              # print the mutants of a seed
    python tools/mutants.py measure CONTEXTS           # run the default tier: which test executes which line
    python tools/mutants.py run CONTEXTS --seed 1      # run them; rows go to results/data/mutants.jsonl
    python tools/mutants.py again TEST_FILE ...        # run stored survivors against new tests
    python tools/mutants.py show                       # summarize the stored rows

A mutant changes one expression or statement. The draw takes the operators in turn and each time one of the
files that have had the fewest mutants. Mutants run in a scratch copy of the repository, first with the tests
that execute the changed statement, quickest first, then with the other tests that execute the file. A test
that fails, or does not end in time, catches the mutant.

Code whose change has no effect, or none that a test should notice, is not mutated: annotations, docstrings,
messages, `__repr__`, imports for type checking, numbers that tune a heuristic or a cost (those of modules,
and integers above 2), and arguments that only affect speed or assert what already holds.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/guardband")
STORED = ROOT / "results/data/mutants.jsonl"
TIER = ["-m", "not slow and not long", "--ignore=tests/laws"]
"""The tests of `.ci/run`."""

CORE = (
    "arrays calibration checks choosing conformal crossing evaluation extrapolation fields files frames "
    "grids inverse kept leaks limits metrics models partition predictors ranges store streams tables "
    "values"
).split()
"""The modules and folders of the package that are mutated."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}

PAIRS = [
    ("lower", "upper"),
    ("min", "max"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("ceil", "floor"),
    ("any", "all"),
    ("low", "high"),
]
OTHER = dict(PAIRS) | {right: left for left, right in PAIRS}
"""Names that are swapped for each other."""

UNSEEN = {"stacklevel", "maxsize", "repr", "copy", "on", "batch", "chunk", "strict"}
"""Keyword arguments that change no result: speed, memory, how a message is shown, assertions."""

QUIET = {"close", "sleep", "flush"}
"""Functions whose missing call has no effect that a test could state."""

FIRST = 50
"""Number of quick tests that run before the others are collected."""


class Mutant(NamedTuple):
    """One change of the source: the bytes [start, end) of a file become `after`."""

    operator: str
    file: str
    function: str
    line: int
    before: str
    after: str
    start: int
    end: int
    statement: tuple[int, int]
    """First and last line of the statement around it."""
    occurrence: int
    """The number of equal changes before it in the same function."""

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies a mutant independently of its line, which moves when the file changes above it."""
        return self.operator, self.file, self.function, self.before, self.after, str(self.occurrence)


# Finding candidates


def candidates(file: str) -> list[Mutant]:
    """All mutants of a file of the package."""
    source = (ROOT / PACKAGE / file).read_text()
    found = Candidates(file, source)
    found.visit(ast.parse(source))
    return found.mutants


def mutated(source: str, mutant: Mutant) -> str:
    """The source with the change."""
    data = source.encode()
    return (data[: mutant.start] + mutant.after.encode() + data[mutant.end :]).decode()


def _compiles(mutant: Mutant) -> bool:
    try:
        compile(mutated((ROOT / PACKAGE / mutant.file).read_text(), mutant), mutant.file, "exec")
    except (SyntaxError, ValueError):
        return False
    return True


class Candidates(ast.NodeVisitor):
    """Collects the mutants of one file."""

    def __init__(self, file: str, source: str) -> None:
        self.file = file
        self.mutants: list[Mutant] = []
        self._source = source
        self._offsets = [0]
        for line in source.encode().splitlines(keepends=True):
            self._offsets.append(self._offsets[-1] + len(line))
        self._scopes: list[ast.AST] = []
        self._statement = (1, 1)
        self._equal: Counter[tuple[str, ...]] = Counter()

    # Where the visitor is, and what it leaves out

    def visit(self, node: ast.AST) -> None:
        """Visit a node unless it is left out, and remember the statement it belongs to."""
        if _left_out(node):
            return
        before = self._statement
        if isinstance(node, ast.stmt | ast.excepthandler):
            self._statement = _own_lines(node)
        scope = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if scope:
            self._scopes.append(node)
        for operator, place, after in _changes(node, self._scopes):
            self._add(operator, place, after)
        skipped = ("annotation", "returns", "decorator_list")
        if not _is_message(node):
            for name, value in ast.iter_fields(node):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST) and name not in skipped:
                        self.visit(child)
        if scope:
            self._scopes.pop()
        self._statement = before

    def _add(self, operator: str, place: Any, after: str) -> None:
        start = self._offsets[place.lineno - 1] + place.col_offset
        end = self._offsets[place.end_lineno - 1] + place.end_col_offset
        if isinstance(place, ast.expr):
            after = f"({after})"
        function = ".".join(getattr(scope, "name", "") for scope in self._scopes)
        before = " ".join(self._source.encode()[start:end].decode().split())
        equal = (operator, function, before, after)
        occurrence, self._equal[equal] = self._equal[equal], self._equal[equal] + 1
        self.mutants.append(
            Mutant(
                operator=operator,
                file=self.file,
                function=function,
                line=place.lineno,
                before=before,
                after=after,
                start=start,
                end=end,
                statement=self._statement,
                occurrence=occurrence,
            )
        )


def _own_lines(node: Any) -> tuple[int, int]:
    """The lines of a statement, without those of the statements inside it."""
    inner = [child.lineno for child in ast.walk(node) if isinstance(child, ast.stmt) and child is not node]
    return node.lineno, max(node.lineno, min([node.end_lineno + 1, *inner]) - 1)


def _left_out(node: ast.AST) -> bool:
    """Whether a node is a message, a `repr` or only for type checking."""
    match node:
        case ast.JoinedStr():
            return True
        case ast.FunctionDef(name=name, decorator_list=decorators):
            shown = name in ("__repr__", "__str__") or name.startswith("_repr_")
            return shown or any(_name(decorator) == "overload" for decorator in decorators)
        case ast.If(test=test):
            return _name(test) == "TYPE_CHECKING"
        case ast.Assign(value=value) | ast.AugAssign(value=value):
            return _is_text(value)
        case ast.keyword(arg=argument):
            return argument in UNSEEN
        case ast.Call(func=function):
            return _name(function) == "cast"
    return False


def _is_message(node: ast.AST) -> bool:
    """Whether a node raises, warns or makes an error: it may be dropped, but its parts are a message."""
    return isinstance(node, ast.Raise) or (
        isinstance(node, ast.Call) and ("warn" in _name(node) or _name(node).endswith("Error"))
    )


def _name(node: ast.AST | None) -> str:
    """The last part of a dotted name, or nothing."""
    if isinstance(node, ast.Call):
        return _name(node.func)
    return getattr(node, "attr", getattr(node, "id", ""))


def _is_text(node: ast.AST) -> bool:
    """Whether an expression is certainly a string."""
    match node:
        case ast.JoinedStr() | ast.Constant(value=str()):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_text(left) or _is_text(right)
        case ast.IfExp(body=body, orelse=other):
            return _is_text(body) or _is_text(other)
    return isinstance(node, ast.Call) and _name(node) in ("join", "format", "str", "repr", "shown")


# The operators


def _changes(node: ast.AST, scopes: list[ast.AST]) -> Iterator[tuple[str, ast.AST, str]]:
    """Each change at a node: the operator, the node that is replaced, and its new text."""
    match node:
        case ast.Raise(exc=error) if _name(error) != "NotImplementedError":
            yield "raise dropped", node, "pass"
        case ast.Expr(value=ast.Call() as call) if "warn" in _name(call):
            yield "raise dropped", node, "pass"
        case ast.Expr(value=ast.Call() as call) if _name(call) not in QUIET:
            yield "call skipped", node, "pass"
        case ast.Assign(targets=[ast.Subscript()]):
            yield "entry forgotten", node, "pass"
        case ast.Dict(keys=keys, values=values) if len(keys) > 1 and not all(map(_is_text, values)):
            for i in range(len(keys)):
                yield "entry forgotten", node, _dict_without(node, i)
        case ast.Return(value=ast.expr() as value) if scopes:
            for after in _returns(value, scopes[-1]):
                yield "return replaced", node, f"return {after}"
        case ast.Constant(value=int() as value) if scopes and not isinstance(value, bool) and value <= 2:
            for after in (value - 1, value + 1):
                yield "number off by one", node, str(after)
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                changed = copy.deepcopy(node)
                changed.ops[i] = COMPARISONS[type(op)]()
                yield "comparison flipped", node, ast.unparse(changed)
        case ast.BoolOp(op=op, values=values):
            other = ast.And() if isinstance(op, ast.Or) else ast.Or()
            yield "logic swapped", node, ast.unparse(ast.BoolOp(other, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "logic swapped", node, ast.unparse(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield "sign flipped", node, ast.unparse(operand)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            if not any(_is_text(part) or isinstance(part, ast.List | ast.Tuple) for part in (left, right)):
                other = ast.Sub() if isinstance(op, ast.Add) else ast.Add()
                yield "sign flipped", node, ast.unparse(ast.BinOp(left, other, right))
        case ast.Name(id=name, ctx=ast.Load()) if _swappable(name, scopes):
            yield "bound swapped", node, OTHER[name]
        case ast.Attribute(value=value, attr=name, ctx=ast.Load()) if name in OTHER:
            yield "bound swapped", node, ast.unparse(ast.Attribute(value, OTHER[name]))
        case ast.Call():
            yield from _changed_calls(node)


def _dict_without(node: ast.Dict, i: int) -> str:
    keys, values = node.keys[:i] + node.keys[i + 1 :], node.values[:i] + node.values[i + 1 :]
    return ast.unparse(ast.Dict(keys, values))


def _returns(value: ast.expr, function: ast.AST) -> list[str]:
    """Other values of the declared type: a boolean for a boolean, None where it is allowed."""
    declared = getattr(function, "returns", None)
    kinds = [] if declared is None else ast.unparse(declared).split(" | ")
    others = [str(choice) for choice in (True, False) if "bool" in kinds]
    others += ["None"] if "None" in kinds and len(kinds) > 1 else []
    return [other for other in others if other != ast.unparse(value)]


def _swappable(name: str, scopes: list[ast.AST]) -> bool:
    """Whether a name has a counterpart that exists at this place."""
    other = OTHER.get(name)
    if other is None or not scopes:
        return False
    used = {inner.id for inner in ast.walk(scopes[-1]) if isinstance(inner, ast.Name)}
    return other in used or name in ("min", "max", "any", "all")


def _changed_calls(node: ast.Call) -> Iterator[tuple[str, ast.AST, str]]:
    """An optional argument dropped, or a check of a value skipped."""
    name = _name(node)
    if node.args and name in ("finite", "checked", "positive"):
        yield "call skipped", node, ast.unparse(node.args[0])
    for i, keyword in enumerate(node.keywords):
        if keyword.arg not in (None, *UNSEEN) and _optional(name, str(keyword.arg)):
            keywords = node.keywords[:i] + node.keywords[i + 1 :]
            yield "argument dropped", node, ast.unparse(ast.Call(node.func, node.args, keywords))


def _optional(function: str, argument: str) -> bool:
    """Whether a function of the package, by name, has a default for an argument; true for other packages."""
    defaults = _defaults()
    return function not in defaults or argument in defaults[function]


@cache
def _defaults() -> dict[str, set[str]]:
    """The arguments with a default, of every function and dataclass of the package."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / PACKAGE).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args]
                few = len(node.args.defaults)
                optional = arguments[len(arguments) - few :]
                optional += [a for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d]
                found[node.name] |= {argument.arg for argument in optional}
            elif isinstance(node, ast.ClassDef):
                fields = [part for part in node.body if isinstance(part, ast.AnnAssign) and part.value]
                found[node.name] |= {_name(field.target) for field in fields}
    return found


# Drawing


def core_files() -> list[str]:
    """The files of the core, relative to the package."""
    package = ROOT / PACKAGE
    places = [package / name for name in CORE]
    found = [path for place in places for path in place.rglob("*.py")]
    found += [place.with_suffix(".py") for place in places if place.with_suffix(".py").is_file()]
    return sorted(path.relative_to(package).as_posix() for path in found)


def draw(seed: int, count: int, files: list[str]) -> list[Mutant]:
    """`count` mutants: operators in turn, each time in one of the files that have had fewest."""
    generator = random.Random(seed)
    pools: dict[str, dict[str, list[Mutant]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        for mutant in candidates(file):
            pools[mutant.operator][file].append(mutant)
    operators, drawn = sorted(pools), []
    generator.shuffle(operators)
    used: Counter[str] = Counter()
    while len(drawn) < count:
        pool = pools[operators[len(drawn) % len(operators)]]
        fewest = min(used[file] for file in pool)
        file = generator.choice([file for file in sorted(pool) if used[file] == fewest])
        mutant = generator.choice(pool[file])
        if mutant not in drawn and _compiles(mutant):
            used[file] += 1
            drawn.append(mutant)
    return drawn


# Which test runs which line


class Contexts:
    """The tests of the default tier that passed, their seconds, and the lines that each executes."""

    def __init__(self, path: Path) -> None:
        from coverage import CoverageData

        self.seconds: dict[str, float] = json.loads(_outcomes_of(path).read_text())
        self._data = CoverageData(str(path))
        self._data.read()
        self._files = {str(name).partition(f"{PACKAGE}/")[2]: name for name in self._data.measured_files()}

    def of(self, mutant: Mutant) -> tuple[list[str], list[str]]:
        """The tests that execute the statement, and the others that execute a function of its file."""
        lines = self._data.contexts_by_lineno(self._files.get(mutant.file, ""))
        tests = {line: self._passed(contexts) for line, contexts in lines.items()}
        first, last = mutant.statement
        near = set().union(*(tests.get(line, set()) for line in range(first, last + 1)))
        every = set().union(*tests.values())
        return self._quickest(near), self._quickest(every - near)

    def _passed(self, contexts: list[str]) -> set[str]:
        return {context.rpartition("|")[0] for context in contexts} & self.seconds.keys()

    def _quickest(self, tests: set[str]) -> list[str]:
        return sorted(tests, key=lambda test: (self.seconds[test], test))


def _outcomes_of(contexts: Path) -> Path:
    return contexts.with_name(contexts.name + ".json")


def measure(contexts: Path, tests: list[str]) -> None:
    """Run the default tier once and store which test executes which line."""
    with scratch() as copied:
        outcomes = copied / "outcomes.jsonl"
        words = ["--cov", "--cov-context=test", "--cov-report=", *tests]
        status = _pytest(copied, words, {"COVERAGE_FILE": str(contexts.resolve())}, outcomes)
        rows = _read(outcomes)
        if status not in (0, 1):
            raise SystemExit((copied.parent / "log.txt").read_text())
    seconds: Counter[str] = Counter()
    for row in rows:
        seconds[row["test"]] += row["seconds"]
    failed = {row["test"] for row in rows if row["outcome"] != "passed"}
    passed = {test: round(time, 3) for test, time in seconds.items() if test not in failed}
    _outcomes_of(contexts).write_text(json.dumps(passed, indent=0))
    print(
        f"{len(passed)} tests passed in {sum(passed.values()):.0f} s, {len(failed)} failed or were skipped."
    )


# Running


class scratch:
    """A temporary copy of the current repository."""

    def __enter__(self) -> Path:
        self._folder = tempfile.TemporaryDirectory(prefix="mutants-")
        copied = Path(self._folder.name) / "copy"
        words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(words, cwd=ROOT, capture_output=True, check=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (copied / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copied / name)
        return copied

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def _pytest(
    copied: Path, words: list[str], extra: dict[str, str], outcomes: Path, limit: int | None = None
) -> int | None:
    """The exit status of pytest in the copy, or None if it took more than `limit` CPU seconds."""
    outcomes.unlink(missing_ok=True)
    paths = [str(copied / "src"), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    settings = {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "MUTANTS_OUTCOMES": str(outcomes)}
    environment = os.environ | settings | extra | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants", "-p", "no:cacheprovider", *TIER]
    command += [f"--basetemp={copied.parent / 'tmp'}", *words]
    with (copied.parent / "log.txt").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=copied,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=partial(_limit, limit),
        )
        try:
            status = process.wait(None if limit is None else 20 * limit)  # a deadlock takes no CPU time
            return None if status in (-signal.SIGXCPU, -signal.SIGKILL) else status
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _limit(seconds: int | None) -> None:
    """Bound memory and CPU time: a mutant that does not end fails instead of exhausting the machine."""
    resource.setrlimit(resource.RLIMIT_AS, (16 * 2**30, 16 * 2**30))
    if seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))


def _read(outcomes: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in outcomes.read_text().splitlines()] if outcomes.exists() else []


def caught_by(copied: Path, words: list[str], tests: list[str], limit: int) -> str | None:
    """The first test that fails, or how pytest ended otherwise; None if all pass."""
    chosen, outcomes = copied.parent / "chosen.txt", copied.parent / "outcomes.jsonl"
    chosen.write_text("\n".join(tests))
    status = _pytest(copied, ["-x", *words], {"MUTANTS_CHOSEN": str(chosen)}, outcomes, limit)
    failed = [row["test"] for row in _read(outcomes) if row["outcome"] == "failed"]
    if status is None:
        return f"limit of {limit} CPU seconds"
    if failed:
        return failed[0]
    return None if status == 0 else _last_lines(copied.parent / "log.txt")


def _last_lines(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if "Error" in line]
    return f"collection: {lines[-1].strip()[:160]}" if lines else "pytest did not finish"


def run_mutant(copied: Path, mutant: Mutant, contexts: Contexts) -> dict[str, Any]:
    """The test that catches a mutant in the default tier, if any."""
    near, others = contexts.of(mutant)
    by, seconds, run = None, time.perf_counter(), 0
    with planted(copied, mutant):
        for tests in (near[:FIRST], near[FIRST:], others[:FIRST], others[FIRST:]):
            if tests and by is None:
                run += len(tests)
                limit = 60 + round(5 * sum(contexts.seconds[test] for test in tests))
                by = caught_by(copied, sorted({test.partition("::")[0] for test in tests}), tests, limit)
    seconds = round(time.perf_counter() - seconds, 1)
    return {"caught": by is not None, "by": by, "executed_by": len(near), "tests": run, "seconds": seconds}


class planted:
    """Apply a mutant to the copy, and restore the original afterward."""

    def __init__(self, copied: Path, mutant: Mutant) -> None:
        self._path, self._mutant = copied / PACKAGE / mutant.file, mutant

    def __enter__(self) -> None:
        self._source = self._path.read_text()
        self._path.write_text(mutated(self._source, self._mutant))

    def __exit__(self, *_: object) -> None:
        self._path.write_text(self._source)


def run(contexts_path: Path, seed: int, count: int) -> int:
    """Run the mutants of a seed that are not stored yet; 1 if a test that caught one fails without it."""
    contexts = Contexts(contexts_path)
    stored = {(row["seed"], *_key(row)) for row in stored_rows()}
    with scratch() as copied:
        catching = []
        for number, mutant in enumerate(draw(seed, count, core_files()), 1):
            if (seed, *mutant.key) in stored:
                continue
            found = run_mutant(copied, mutant, contexts)
            row = {"seed": seed, "number": number} | _place(mutant) | found
            with STORED.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(_line(row), flush=True)
            if found["by"] in contexts.seconds:
                catching.append(found["by"])
        print(summary(stored_rows()))
        files = sorted({test.partition("::")[0] for test in catching})
        return bool(files) and _fails_unmutated(copied, files, sorted(set(catching)))


def _fails_unmutated(copied: Path, words: list[str], tests: list[str]) -> bool:
    """Whether one of these tests fails on the original source, so it is not evidence about a mutant."""
    by = caught_by(copied, words, tests, limit=3600)
    if by is not None:
        print(f"This also fails without a mutant: {by}")
    return by is not None


def again(files: list[str]) -> int:
    """Run the stored survivors against whole test files, and record the tests that now catch them."""
    rows = stored_rows()
    with scratch() as copied:
        if _fails_unmutated(copied, files, []):
            return 1
        for row in rows:
            if row["caught"] or row.get("closed_by") or row.get("equivalent"):
                continue
            mutants = [mutant for mutant in candidates(row["file"]) if mutant.key == _key(row)]
            if not mutants:
                print(f"No longer in the source: {_line(row)}")
                continue
            with planted(copied, mutants[0]):
                row["closed_by"] = caught_by(copied, files, [], limit=3600)
            print(_line(row), flush=True)
    STORED.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(summary(rows))
    return 0


# Stored rows


def _place(mutant: Mutant) -> dict[str, Any]:
    row = mutant._asdict()
    return {
        name: row[name] for name in ("operator", "file", "function", "line", "before", "after", "occurrence")
    }


def _key(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("operator", "file", "function", "before", "after", "occurrence"))


def stored_rows() -> list[dict[str, Any]]:
    """The rows of all runs so far."""
    return _read(STORED)


def _line(row: dict[str, Any]) -> str:
    if row.get("equivalent"):
        fate = f"equivalent: {row['equivalent']}"
    elif row.get("closed_by"):
        fate = f"survived, then caught by {row['closed_by']}"
    else:
        fate = "survived" if not row.get("caught") else f"caught by {row['by']}"
    change = f"{row['before'][:90]} -> {row['after'][:90]}"
    return f"{row['number']:3} {row['operator']}: {row['file']}:{row['line']} {change}\n    {fate}"


def summary(rows: list[dict[str, Any]]) -> str:
    """One line per seed."""
    lines = []
    for seed in sorted({row["seed"] for row in rows}):
        some = [row for row in rows if row["seed"] == seed]
        caught = sum(row["caught"] for row in some)
        equivalent = sum(bool(row.get("equivalent")) for row in some)
        closed = sum(bool(row.get("closed_by")) for row in some)
        rest = len(some) - caught - equivalent - closed
        lines.append(
            f"seed {seed}: {len(some)} mutants, {caught} caught, {equivalent} equivalent, "
            f"{closed} caught by tests added since, {rest} not caught"
        )
    return "\n".join(lines)


# The pytest plugin: `pytest -p mutants`


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keep the chosen tests, files with quicker tests first."""
    chosen = os.environ.get("MUTANTS_CHOSEN")
    order = {test: i for i, test in enumerate(Path(chosen).read_text().splitlines())} if chosen else {}
    if not order:
        return
    kept = [item for item in items if item.nodeid in order]
    first: dict[str, int] = {}
    for item in kept:
        file = item.nodeid.partition("::")[0]
        first[file] = min(first.get(file, len(order)), order[item.nodeid])
    items[:] = sorted(kept, key=lambda item: (first[item.nodeid.partition("::")[0]], order[item.nodeid]))


def pytest_runtest_logreport(report: Any) -> None:
    """Append the outcome of each phase of a test to a file."""
    outcomes = os.environ.get("MUTANTS_OUTCOMES")
    if outcomes:
        row = {"test": report.nodeid, "outcome": report.outcome, "seconds": report.duration}
        with Path(outcomes).open("a") as file:
            file.write(json.dumps(row) + "\n")


# The command line


def main() -> int:
    """Read the words of the command line and run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("list", "measure", "run", "again", "show"):
        command = commands.add_parser(name)
        if name in ("measure", "run"):
            command.add_argument("contexts", type=Path)
        if name in ("list", "run"):
            command.add_argument("--seed", type=int, default=1)
            command.add_argument("--count", type=int, default=40)
        if name in ("measure", "again"):
            command.add_argument("tests", nargs="*")
    words = parser.parse_args()
    if words.command == "list":
        for number, mutant in enumerate(draw(words.seed, words.count, core_files()), 1):
            print(_line({"number": number} | _place(mutant)).rpartition("\n")[0])
    elif words.command == "measure":
        measure(words.contexts, words.tests)
    elif words.command == "run":
        if not words.contexts.exists():
            measure(words.contexts, [])
        return run(words.contexts, words.seed, words.count)
    elif words.command == "again":
        return again(words.tests)
    else:
        print("\n".join(map(_line, stored_rows())))
        print(summary(stored_rows()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
