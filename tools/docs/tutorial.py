"""Run the tutorial and save its pictures, numbered as drawn: `python tools/regenerate.py tutorial`."""

from itertools import count
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from blocks import renew, save

matplotlib.use("Agg")
FOLDER = Path(__file__).parents[2] / "docs"


def drawn(numbers: "count[int]") -> None:
    """Save the latest picture, if any, under the next number."""
    if plt.get_fignums():
        save(FOLDER / "images" / f"tutorial-{next(numbers)}.png")


if __name__ == "__main__":
    numbers = count(1)
    renew(FOLDER / "tutorial.md", lambda _: drawn(numbers))
