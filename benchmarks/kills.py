"""Four processes run one campaign in one folder, and are killed and paused at random moments.

    python benchmarks/kills.py [--quick]

First, 200 cells of two networks, so that two processes work and two wait for a lease. A cell takes 0.5 s and
trains nothing; its result follows from its key, so wrong results are detected. The processes that ran the
latest cells receive 20 SIGKILLs and 20 SIGSTOPs. A lease lasts 1 s and a pause 3 to 6 s, so a resumed process
has lost its lease, often to a process that runs the same cell. Then 2,000 cells of 200 networks that take
0.05 s run under 60 kills, while the files with results are counted. Last, two halves of a study of 100
trained cells, by `part=` in separate folders, are compared with a single run. With `--quick`, a quarter of
everything.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from claims import claim, finish

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import guardband as gb
from guardband import lab, pinn
from guardband.lab.studies import Cell, Factory, Study, Training, records
from guardband.lab.studies.base import describe
from guardband.lab.studies.runner import CellRunner

RESULTS = Path(__file__).parent.parent / "results/data/kills.json"
LEASE, PROCESSES = 1.0, 4
Signals = Callable[[list[Any], int], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    share = 4 if parser.parse_args().quick else 1
    few, many, trained = study(200 // share, 2), study(2000 // share, 200), study(100 // share, 10)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        disturbed = campaign(few, folder / "few", 0.5, kills=20 // share, pauses=20 // share)
        crowded = campaign(many, folder / "many", 0.05, kills=60 // share, pauses=0)
        halves = [lab.campaign.run(trained, folder / f"{i}", part=(i, 2), progress=False) for i in (1, 2)]
        lab.campaign.run(trained, folder / "whole", progress=False)
        (folder / "joined").mkdir()
        (folder / "joined" / records.PACK).write_text(
            "".join((folder / f"{i}" / records.PACK).read_text() for i in (1, 2))
        )
        joined, whole = (found(folder / name, trained) for name in ("joined", "whole"))
    claims = [
        claim("lost_cells", disturbed["lost"] + crowded["lost"], "<= 0"),
        claim("wrong_cells", disturbed["wrong"] + crowded["wrong"], "<= 0"),
        claim("cells_with_two_results", disturbed["differing"] + crowded["differing"], "<= 0"),
        claim("most_files_with_results", crowded["most"], "< 50"),
        claim("all_files_at_the_end", crowded["left"], "< 50"),
        claim("signals", disturbed["kills"] + disturbed["pauses"] + crowded["kills"], f">= {100 // share}"),
        claim("halves_equal_one_run", joined == whole and len(whole) == sum(h.done for h in halves), ">= 1"),
    ]
    if share == 1:
        counts = {
            f"{name}_of_200": disturbed[name]
            for name in ("kills", "pauses", "started", "finished", "seconds")
        }
        counts |= {f"{name}_of_2000": crowded[name] for name in ("kills", "started", "seconds")}
        RESULTS.write_text(json.dumps({"claims": claims, **counts}, indent=1) + "\n")
    finish(claims)


def study(count: int, networks: int) -> Study:
    """A study with the given numbers of cells and networks."""
    recipe = pinn.Recipe(steps=5, finish=0, n_interior=16, n_boundary=4)
    cells = [
        Cell(
            "Poisson1D",
            f"constant {i // networks}",
            Training(pinn.problems.Poisson1D(), (8,), n=30, recipe=recipe, seed=i % networks),
            Factory(gb.predictors.MeanOnly),
            cal=30 + i // networks,
            test=20,
            draws=5,
        )
        for i in range(count)
    ]
    return Study("kills", cells, lambda *_: None)


def number(key: str) -> float:
    """The result of a cell that trains nothing."""
    return int(key, 16) / 2**64


def work(folder: Path, count: int, networks: int, seconds: float) -> None:
    """One process of a campaign."""

    def run(_: CellRunner, cell: Cell) -> dict[str, Any]:
        for moment in ("started", "finished"):
            with (folder / moment).open("a") as file:
                file.write(f"{os.getpid()} {cell.key}\n")
            time.sleep(seconds if moment == "started" else 0)
        made = {"key": cell.key, "cell": describe(cell), "found": {"number": number(cell.key)}}
        return made | {"versions": {}, "threads": 1, "seconds": {}}

    lab.campaign.LEASE = LEASE
    CellRunner.run = run  # type: ignore[method-assign]
    lab.campaign.run(study(count, networks), folder, progress=False)


def campaign(of: Study, folder: Path, seconds: float, kills: int, pauses: int) -> dict[str, Any]:
    """Run a study in processes that receive signals; return lost, wrong and repeated results."""
    folder.mkdir()
    draw, start, most = random.Random(0), time.monotonic(), 0
    events = ["kill"] * kills + ["pause"] * pauses
    draw.shuffle(events)
    spawn = multiprocessing.get_context("forkserver")
    spawn.set_forkserver_preload(["guardband.lab.campaign", "guardband.pinn.problems"])
    sizes = len(of.cells), len({cell.training.key for cell in of.cells})
    processes: list[Any] = []
    paused: list[tuple[float, Any]] = []
    done: dict[str, int] = {"kill": 0, "pause": 0}
    next_event = time.monotonic()
    while processes or lab.campaign.status(folder, of).missing:
        while len(processes) < PROCESSES and lab.campaign.status(folder, of).missing:
            processes.append(spawn.Process(target=work, args=(folder, *sizes, seconds)))
            processes[-1].start()
        for until, process in list(paused):
            if time.monotonic() > until:
                if process.is_alive():
                    os.kill(process.pid, signal.SIGCONT)
                paused.remove((until, process))
        processes = [process for process in processes if process.is_alive()]
        idle = [one for _, one in paused]
        latest = {int(line.split()[0]) for line in lines(folder / "finished")[-PROCESSES:]}
        busy = [one for one in processes if one not in idle and one.pid in latest]
        if events and busy and time.monotonic() > next_event:
            process, event = draw.choice(busy), events.pop()
            done[event] += 1
            os.kill(process.pid, signal.SIGKILL if event == "kill" else signal.SIGSTOP)
            if event == "pause":
                paused.append((time.monotonic() + draw.uniform(3, 6), process))
            next_event = time.monotonic() + draw.uniform(0, 3 * seconds) + 0.2
        most = max(most, len([*folder.glob("cells/*"), *folder.glob("cells.*")]))
        time.sleep(0.02)
    status = lab.campaign.status(folder, of)
    numbers = {key: its["number"] for key, its in found(folder, of).items()}
    result = {
        "lost": status.missing,
        "wrong": sum(number(key) != its for key, its in numbers.items()) + len(status.damaged),
        "differing": len(status.differing),
        "most": most,
        "left": sum(path.is_file() for path in folder.rglob("*")),
        "kills": done["kill"],
        "pauses": done["pause"],
        "started": len(lines(folder / "started")),
        "finished": len(lines(folder / "finished")),
        "seconds": round(time.monotonic() - start),
    }
    print(result, flush=True)
    return result


def lines(path: Path) -> list[str]:
    """The processes that started or finished each cell."""
    return path.read_text().splitlines() if path.exists() else []


def found(folder: Path, of: Study) -> dict[str, Any]:
    return {result["key"]: result["found"] for result in lab.campaign.results(folder, of)}


if __name__ == "__main__":
    main()
