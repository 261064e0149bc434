"""What every example of the gallery takes: `--smoke` for a quick run, `--out PATH` for its picture"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple


class Options(NamedTuple):
    """Whether to be quick, and where the picture goes."""

    smoke: bool
    out: Path


def options() -> Options:
    """The options on the command line; the picture is named after the script unless told otherwise."""
    script = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(prog=f"{script}.py")
    parser.add_argument("--smoke", action="store_true", help="fewer steps: seconds, and a rougher picture")
    parser.add_argument("--out", type=Path, default=Path(f"{script}.png"), help="where the picture goes")
    return Options(**vars(parser.parse_args()))
