import ast

from helpers import script

MUTANTS = script("tools/mutants.py")

SOURCE = '''
"""A module of -1 line."""

TUNED = 2


def kth(scores: "list[-1]", k: int = 1, *, loud: bool = False) -> float | None:
    """The k-th of n - 1 scores."""
    if not 1 <= k <= len(scores):
        raise ValueError(f"k is {k + 1}, " + str(1))
    note = f"{k - 1} below" if k > 1 and loud else ""
    check(scores)
    found = {"k": k, "rank": 500}
    found["note"] = note
    return min(sorted(scores, reverse=False)[k - 1 :])
'''


def changes(source: str) -> dict[str, list[str]]:
    found = MUTANTS.Candidates("kth.py", source)
    found.visit(ast.parse(source))
    for mutant in found.mutants:
        compile(MUTANTS.mutated(source, mutant), "kth.py", "exec")
    return {
        operator: [f"{one.before} -> {one.after}" for one in found.mutants if one.operator == operator]
        for operator in {one.operator for one in found.mutants}
    }


def test_each_operator_changes_what_it_names_and_leaves_messages_alone() -> None:
    assert changes(SOURCE) == {
        "raise dropped": ['raise ValueError(f"k is {k + 1}, " + str(1)) -> pass'],
        "call skipped": ["check(scores) -> pass"],
        "entry forgotten": [
            '{"k": k, "rank": 500} -> ({\'rank\': 500})',
            '{"k": k, "rank": 500} -> ({\'k\': k})',
            'found["note"] = note -> pass',
        ],
        "return replaced": ["return min(sorted(scores, reverse=False)[k - 1 :]) -> return None"],
        "comparison flipped": [
            "1 <= k <= len(scores) -> (1 < k <= len(scores))",
            "1 <= k <= len(scores) -> (1 <= k < len(scores))",
        ],
        "logic swapped": ["not 1 <= k <= len(scores) -> (1 <= k <= len(scores))"],
        "sign flipped": ["k - 1 -> (k + 1)"],
        "number off by one": ["1 -> (0)", "1 -> (2)"] * 3,
        "bound swapped": ["min -> (max)"],
        "argument dropped": ["sorted(scores, reverse=False) -> (sorted(scores))"],
    }


def test_a_seed_always_draws_the_same_mutants_with_every_operator() -> None:
    files = [file for file in MUTANTS.core_files() if file.startswith(("store/", "values/", "streams/"))]
    drawn = MUTANTS.draw(7, 10, files)
    assert drawn == MUTANTS.draw(7, 10, files) != MUTANTS.draw(8, 10, files)
    assert len({mutant.file for mutant in drawn}) == len({mutant.operator for mutant in drawn}) == 10
