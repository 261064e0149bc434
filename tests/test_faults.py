"""Faults as a law: whichever write, sync or rename of an operation fails or is the last, files are whole.

A small C library stands before the system's: it counts the calls that change files below a folder, whoever
makes them, and lets the N-th one fail as on a full disk, or kills the process there. A process that has
imported everything is forked for each N, until the operation succeeds. The same for the N-th array that
guardband makes, for which there is no memory; and a trace shows that what gets a name is on the disk.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from helpers import ROOT

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)

LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char under[PATH_MAX];
static long left = -1, seen = 0;
static int deadly = 0, trace = -1;

void fault_trace(int fd) { trace = fd; }

void fault_arm(const char *folder, long at, int kill_there) {
    strncpy(under, folder, sizeof under - 1);
    left = at;
    deadly = kill_there;
    seen = 0;
}

long fault_seen(void) { return seen; }

static int here(const char *path) { return under[0] && strncmp(path, under, strlen(under)) == 0; }

static void note(const char *what, const char *path, const char *more) {
    if (trace >= 0) dprintf(trace, "%s\t%s\t%s\n", what, path, more);
}

static int open_here(int fd, const char *what) {
    char name[64], path[PATH_MAX];
    if (fd == trace) return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(name, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    if (!here(path)) return 0;
    note(what, path, "");
    return 1;
}

static int named_here(const char *from, const char *to) {
    if (!here(to)) return 0;
    note("name", from, to);
    return 1;
}

static int strikes(int concerned) {
    if (!concerned) return 0;
    seen++;
    if (left <= 0 || --left > 0) return 0;
    if (deadly) kill(getpid(), SIGKILL);
    errno = ENOSPC;
    return 1;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name);

ssize_t write(int fd, const void *data, size_t n) {
    REAL(ssize_t, write, int, const void *, size_t)
    return strikes(fd > 2 && open_here(fd, "write")) ? -1 : real(fd, data, n);
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t)
    return strikes(open_here(fd, "write")) ? -1 : real(fd, data, n, at);
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t)
    return strikes(open_here(fd, "write")) ? -1 : real(fd, data, n, at);
}
ssize_t writev(int fd, const struct iovec *parts, int n) {
    REAL(ssize_t, writev, int, const struct iovec *, int)
    return strikes(fd > 2 && open_here(fd, "write")) ? -1 : real(fd, parts, n);
}
int fsync(int fd) {
    REAL(int, fsync, int)
    return strikes(open_here(fd, "sync")) ? -1 : real(fd);
}
int fdatasync(int fd) {
    REAL(int, fdatasync, int)
    return strikes(open_here(fd, "sync")) ? -1 : real(fd);
}
int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *)
    return strikes(named_here(from, to)) ? -1 : real(from, to);
}
int link(const char *from, const char *to) {
    REAL(int, link, const char *, const char *)
    return strikes(named_here(from, to)) ? -1 : real(from, to);
}
int unlink(const char *path) {
    REAL(int, unlink, const char *)
    return strikes(deadly && here(path)) ? -1 : real(path);
}
"""

DRIVER = r"""
import ctypes, json, os, shutil, sys, warnings
from pathlib import Path
import numpy as np
import torch
from typer.testing import CliRunner
import guardband as gb
from guardband import pinn
from guardband import fields
from guardband.cli import app
from guardband.pinn.training import checkpoint
from guardband.lab.studies import records

warnings.simplefilter("ignore")
torch.set_num_threads(1)
library, home, name = ctypes.CDLL(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
library.fault_seen.restype = ctypes.c_long
arrays = [gb.calibrate_arrays(np.zeros(20 + k), np.arange(20.0 + k)) for k in range(2)]
nets = [gb.calibrate(pinn.mlp(1, [4], seed=k), np.arange(20.0), np.arange(20.0)) for k in range(2)]
waves = gb.calibrate(np.sin, np.arange(20.0), np.ones(20))
example = Path(sys.argv[4])
stored_cells = [json.loads(line) for line in Path(sys.argv[5]).read_text().splitlines()[:2]]
keys = [cell["key"] for cell in stored_cells]


def command(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output


def calibrate(k, to=home / "band"):
    data = example / ("calibration.csv", "fresh.csv")[k]
    command("calibrate", example / "model.onnx", "--data", data, "--targets", "u", "--out", to, "--overwrite")


def watching():  # a file that grows outside; lines are those of an undisturbed run, or fewer
    band, data, lines = home.parent / "watched", home.parent / "readings.csv", home / "lines.jsonl"
    rows = (example / "fresh.csv").read_text().splitlines(keepends=True)
    calibrate(0, band)

    def watch(k):
        data.write_text("".join(rows[: 1 + 6 * (k + 1)]))
        command("watch", band, "--data", data, "--out", lines, "--once", "--every", 4)

    def watched():
        found = lines.read_bytes()
        assert known[1].startswith(found) and found.startswith(known[0])
        return int(found == known[1])

    known = []
    for k in range(2):
        watch(k)
        known.append(lines.read_bytes())
    return watch, watched


def publish(k):
    if k:  # the first makes the file of this process, the second is appended
        for cell in stored_cells:
            records.publish(home, cell["key"], records.sealed(cell))
    else:
        (home / "cells").mkdir()


def pack(k):
    if k:
        records.pack(home)
    else:
        for cell in stored_cells:
            records.publish(home, cell["key"], records.sealed(cell))


def packed():
    found = records.look(home)
    assert not found.damaged and found.lines.keys() == set(keys)
    return int((home / "cells.jsonl").exists() and not list((home / "cells").glob("*.jsonl")))


def write_store(k):
    if k:
        gb.band_over(waves, {"x": np.linspace(0, 1, 40)}, levels=0.9).to_zarr(home / "field.zarr")


def stored():
    if not (home / "field.zarr" / "zarr.json").exists():
        return 0
    found = fields.verify(home / "field.zarr")
    return int(found.sound and not found.unwritten)


def whole(path, do):
    known = []
    for k in range(2):
        do(k)
        known.append(path.read_bytes())
    return do, lambda: known.index(path.read_bytes())


def report(k):
    gb.report(waves, np.linspace(20, 30, 9), path=home / "page.html", title=f"Band {k}")


def reported():
    text = (home / "page.html").read_text()
    assert text.rstrip().endswith("</html>")
    return int("Band 1" in text)


def calibrated():
    return int(gb.store.Saved.read(home / "band").manifest["calibration_points"] != 100)


OPERATIONS = {
    "save": lambda: (
        lambda k: gb.save(arrays[k], home / "band", overwrite=True),
        lambda: gb.load(home / "band").n - 20,
    ),
    "overwrite": lambda: (calibrate, calibrated),
    "export": lambda: whole(
        home / "band.onnx", lambda k: gb.export_onnx(nets[k], home / "band.onnx", level=0.9)
    ),
    "report": lambda: (report, reported),
    "checkpoint": lambda: (
        lambda k: checkpoint.write(home / "run", {"step": k, "w": torch.zeros(9)}),
        lambda: checkpoint.read(home / "run")["step"],
    ),
    "cell": lambda: (publish, lambda: int(records.read(home, keys[1]) is not None)),
    "pack": lambda: (pack, packed),
    "store": lambda: (write_store, stored),
    "watch": watching,
}
do, state = OPERATIONS[name]()


class Starved:  # the N-th array that guardband itself makes is one too many
    made = 0

    def __init__(self, at):
        self.at = at
        for module in (np, torch):
            words = "array asarray zeros ones empty full concatenate stack tensor arange as_tensor "
            for word in (words + "from_numpy frombuffer cat sort where").split():
                if hasattr(module, word):
                    setattr(module, word, self.counting(getattr(module, word)))

    def counting(self, make):
        def call(*words, **options):
            if sys._getframe(1).f_globals.get("__name__", "").startswith("guardband"):
                self.made += 1
                if self.made == self.at:
                    raise MemoryError
            return make(*words, **options)
        return call


def attempt(mode, at):  # in a child: 0 if it does not come so far, 7 if it does no harm, else 9
    if mode == "starved":
        starved = Starved(at)
    else:
        library.fault_arm(str(home).encode(), at, mode == "killed")
    try:
        do(1)
        code = 7 if (starved.made if mode == "starved" else library.fault_seen()) >= at else 0
    except BaseException:
        code = 9
    library.fault_arm(b"", -1, 0)
    os._exit(code)


points = {}
for mode in ("failed", "killed", "starved"):
    for at in range(1, 10000):
        shutil.rmtree(home)
        home.mkdir()
        do(0)
        child = os.fork()
        if child == 0:
            attempt(mode, at)
        _, status = os.waitpid(child, 0)
        assert state() in (0, 1), (at, mode)
        finished = os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
        if not finished:
            do(1)  # what was left does not stand in the way
        assert state() == 1, (at, mode, finished)
        if finished:
            break
    points[mode] = at - 1

# Nothing takes its name before it, and all that was written before, is on the disk; in a store Zarr names its
# files as it likes, and this holds for the notes that say what is there.
shutil.rmtree(home)
home.mkdir()
do(0)
traced = home.parent / "trace"
with traced.open("wb") as file:
    library.fault_arm(str(home).encode(), -1, 0)
    library.fault_trace(file.fileno())
    do(1)
    library.fault_trace(-1)
    library.fault_arm(b"", -1, 0)
unsynced, names, early = set(), 0, []
for line in traced.read_text().splitlines():
    what, path, more = line.split("\t")
    if what == "write":
        unsynced.add(path)
    elif what == "sync":
        unsynced.discard(path)
    else:
        matters = name != "store" or ".notes/" in more
        names += matters
        if unsynced and matters:
            early.append((path, more, sorted(unsynced)))
        if path in unsynced:
            unsynced = unsynced - {path} | {more}
print(json.dumps([points, names, early]))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    (folder / "faults.c").write_text(LIBRARY)
    made = folder / f"faults{sysconfig.get_config_var('SHLIB_SUFFIX') or '.so'}"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, folder / "faults.c", "-ldl"], check=True)
    return made


QUICK, COSTLY = ("save", "checkpoint", "cell"), ("overwrite", "export", "report", "pack", "store", "watch")


@pytest.mark.slow("save", "checkpoint", "cell")
@pytest.mark.parametrize(
    "operation", [*QUICK, *(pytest.param(one, marks=pytest.mark.long) for one in COSTLY)]
)
def test_old_or_new_and_never_neither(operation: str, library: Path, tmp_path: Path) -> None:
    home, example = tmp_path / "home", ROOT / "examples" / "bring_your_model"
    pack = ROOT / "results" / "paper" / "cells.jsonl"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(library), str(home), operation, str(example), str(pack)],
        env=os.environ | {"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    points, names, early = json.loads(done.stdout.splitlines()[-1])
    print(f"{operation}: {points}, {names} names")
    assert min(points["failed"], points["killed"]) >= 3 and (names > 0 or operation == "cell")
    assert not early, "named before it was on the disk"
