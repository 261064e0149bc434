"""Run the tutorial, and save what its blocks draw: `python docs/tutorial.py`."""

from pathlib import Path

import matplotlib
from blocks import renew, save

matplotlib.use("Agg")
FOLDER = Path(__file__).parent

if __name__ == "__main__":
    renew(FOLDER / "tutorial.md", lambda number: save(FOLDER / "images" / f"tutorial-{number}.png"))
