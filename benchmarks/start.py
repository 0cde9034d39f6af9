"""What a command costs before it does anything, and what a full store costs.

    python benchmarks/start.py [--records 100000] [--repeats 5] [--json]

Times `ullage --help`, and `ullage status` and `ullage measure` on a store in which all that is asked for
stands already, among so many records. The store is made here: a measurement whose runs are not trained but
drawn (a run learns or does not, by its demand), then copies of its records under other names. Each command
is a process of its own; told are its seconds by the clock and of processor time, the least of the repeats,
and the most memory that it held.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ullage import measure
from ullage.executor import Executor
from ullage.executors.serial import Serial
from ullage.job import Job, Watch, failure
from ullage.record import CurveRow, RunRecord, Status, from_json, to_json

LIMITS = {"help": (0.5, 2**30), "status": (5.0, 2**30), "measure": (5.0, 2**30)}
ASKED = ("parity", "modulo", "memorise", "copy")
BOUNDARY = 8.0  # log2 bits at which drawn runs begin to fail


def drawn(job: Job, watch: Watch) -> tuple[RunRecord, tuple[CurveRow, ...]]:
    """A run that is not trained: it learns what lies below the boundary, give or take a bit."""
    del watch
    blank = failure(job, Status.FINISHED, "drawn")
    assert blank.demand_bits is not None
    assert blank.score_floor is not None
    noise = np.random.default_rng(int(blank.run_id, 16)).normal()
    learned = np.log2(blank.demand_bits) + noise < BOUNDARY
    score = 1.0 if learned else blank.score_floor
    steps = blank.step_limit // 2 if learned else blank.step_limit
    return dataclasses.replace(
        blank,
        score=score,
        total=1024,
        correct=round(1024 * score),
        train_steps=steps,
        steps_to_solve=steps if learned else None,
        generalisation_gap=0.0,
        seconds=1.0,
    ), ()


def fill(store: Path, records: int) -> None:
    """A measurement that has been made, and other records up to so many."""
    import ullage.verbs.measure as verb

    def here(workers: int) -> Executor:
        del workers
        return Serial(f"{Path(__file__).stem}:drawn")

    verb.make_executor = here
    measure(ASKED, store=store)
    path = store / "runs.jsonl"
    made = [from_json(line) for line in path.read_text(encoding="ascii").splitlines()]
    with path.open("a", encoding="ascii") as file:
        for number in range(records - len(made)):
            copied = made[number % len(made)]
            other = dataclasses.replace(copied, run_id=f"{number:020x}", study="other", seed=number)
            file.write(to_json(other) + "\n")


_MEASURED = r"""
import pathlib, re, resource, runpy, sys
sys.argv = ["ullage", *sys.argv[1:]]
try:
    runpy.run_module("ullage", run_name="__main__")
except SystemExit as end:
    code = end.code
used = resource.getrusage(resource.RUSAGE_SELF)
status = pathlib.Path("/proc/self/status").read_text()
most = 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1])
heavy = [name for name in ("jax", "numpyro", "optuna", "matplotlib", "duckdb") if name in sys.modules]
print("USED", code or 0, used.ru_utime + used.ru_stime, most, *heavy, file=sys.stderr)
"""


def timed(arguments: list[str], repeats: int) -> dict[str, Any]:
    """A command, several times: the least seconds, the most memory, what it imported."""
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        ended = subprocess.run(
            [sys.executable, "-c", _MEASURED, *arguments], capture_output=True, text=True, check=False
        )
        clock = time.perf_counter() - began
        line = ended.stderr.strip().splitlines()[-1].split()
        if line[:2] != ["USED", "0"]:
            raise RuntimeError(ended.stderr)
        found.append((clock, float(line[2]), int(line[3])))
    return {
        "seconds": min(one[0] for one in found),
        "processor_seconds": min(one[1] for one in found),
        "bytes": max(one[2] for one in found),
        "imports": line[4:],
    }


def main() -> None:
    """Make the store, time the commands, tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        fill(store, given.records)
        commands = {
            "help": ["--help"],
            "status": ["status", "--store", str(store), "--json"],
            "measure": ["measure", *ASKED, "--store", str(store), "--json"],
        }
        found = {name: timed(command, given.repeats) for name, command in commands.items()}
    if given.json:
        print(json.dumps({"records": given.records, "load": os.getloadavg()[0], "commands": found}))
        return
    print(f"{given.records} records; load of the machine {os.getloadavg()[0]:.1f}\n")
    print(
        "| command | seconds | of processor time | memory, MB | at most | heavy imports |\n"
        + "|---" * 6
        + "|"
    )
    for name, one in found.items():
        seconds, size = LIMITS[name]
        imports = ", ".join(one["imports"]) or "none"
        print(
            f"| {name} | {one['seconds']:.2f} | {one['processor_seconds']:.2f} | {one['bytes'] / 2**20:.0f} "
            f"| {seconds:g} s, {size / 2**20:.0f} MB | {imports} |"
        )


if __name__ == "__main__":
    main()
