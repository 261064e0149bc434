"""What a study cost is counted once, and put beside the authors' prices."""

from typing import Any

from guardband.paper.costs import AUTHORS, CURVE, costs


def result(preset: str, method: str, seed: int, seconds: tuple[float, float, float], l2: float) -> Any:
    training, predictor, evaluation = seconds
    return {
        "cell": {
            "experiment": f"allen-cahn, {preset}",
            "method": method,
            "training": {"seed": seed, "preset": preset},
            "predictor": {"use": method.split(", ")[0]},
        },
        "found": {"l2": l2},
        "seconds": {"training": training, "predictor": predictor, "evaluation": evaluation},
    }


def lines(results: list[Any]) -> dict[str, list[str]]:
    cells = [line.strip("| ").split(" | ") for line in costs(results) if line.startswith("|")]
    return {first: others for first, *others in cells}


def test_errors_are_compared_on_the_seeds_that_both_presets_have() -> None:
    made = lines(
        [
            result("paper", "constant width", 0, (60, 0, 1), 0.02),
            result("ours", "constant width", 0, (12, 0, 1), 0.01),
            result("ours", "constant width", 1, (12, 0, 1), 0.9),
        ]
    )
    authors = f"{AUTHORS['allen-cahn'][0]} (4500 steps)"
    assert made["training, allen-cahn"] == [authors, "60", "12", "3.0", "5.0", "2.00%", "1.00%"]
    assert made["training, poisson"] == ["-"] * 7


def test_what_cells_share_is_counted_once() -> None:
    """Two cells of one training: 3600 s of it, 1800 s of one predictor, 900 s of evaluation each."""
    made = lines([result("paper", f"VI, {how}", 0, (3600, 1800, 900), 0.1) for how in ("vanilla", "scaled")])
    assert made["allen-cahn"] == ["2.00", f"{AUTHORS['VI'][0] / 3600:.2f}", "0.00", "1", "0"]


def test_the_authors_train_nineteen_networks_for_a_curve() -> None:
    made = lines([result("paper", CURVE, seed, (1, 1, 1), 0.1) for seed in (0, 1)])
    expected = 2 * (AUTHORS["allen-cahn"][0] + 19 * 77) / 3600
    assert made["allen-cahn"][1] == f"{expected:.2f}"
