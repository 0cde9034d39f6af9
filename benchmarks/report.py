"""How long a report takes to write and how large it is, by the number of runs; the fits are made beforehand.

    python benchmarks/report.py [--runs 100,1000,10000] [--curves 40] [--json]

A world of five families on four models, stored with curves of so many checkpoints for every run. The fits
are posteriors of the size that a sampler leaves (two chains of 1000 draws), made by hand and kept where they
are looked for: `benchmarks/fit.py` tells what fitting takes. Timed is all the rest, from the start of the
process: reading the store, read-offs, figures, the form, the page.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the worlds that the tests of the report are made of


def prepared(folder: Path, runs: int, checkpoints: int) -> None:
    """A store of so many runs whose fits are kept."""
    import numpy as np
    from report_worlds import curve, fitted, notions_of
    from test_report import many_runs

    from ullage import kept
    from ullage.capacity import DEFAULT_SETTINGS
    from ullage.observations import observe
    from ullage.store import KEPT
    from ullage.stores.jsonl import JsonlStore

    records = many_runs(runs)
    with JsonlStore.at(folder) as store:
        for place, record in enumerate(records):
            steps = range(50, 50 * (checkpoints + 1), 50)
            store.append(record, curve(record.run_id, steps=steps) if checkpoints else ())
            if place % 1000 == 999:
                print(f"  stored {place + 1} runs", file=sys.stderr, flush=True)
    observations = observe(JsonlStore.at(folder).read().records.values())
    for notion in notions_of(observations):
        posterior = fitted(observations, notion)
        for name, values in posterior.draws.items():
            posterior.draws[name] = np.concatenate([values] * 5)  # type: ignore[index]
        name = kept.identity(posterior.conditions, posterior.effort, DEFAULT_SETTINGS)
        kept.save(posterior, folder / KEPT, name)


def timed(runs: int, checkpoints: int) -> dict[str, Any]:
    """One size: seconds by the clock, and bytes of the page."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "store"
        prepared(folder, runs, checkpoints)
        page = Path(place) / "page.html"
        command = [sys.executable, "-m", "ullage", "report", "--store", str(folder), "--report", str(page)]
        began = time.perf_counter()
        done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
        if done.returncode:
            raise SystemExit(done.stderr)
        return {"runs": runs, "checkpoints": checkpoints, "seconds": seconds, "bytes": page.stat().st_size}


def main() -> None:
    """Read the sizes, time, tell."""
    parser = argparse.ArgumentParser(description="Times reports of several sizes.")
    parser.add_argument("--runs", default="100,1000,10000", help="numbers of runs, with commas")
    parser.add_argument("--curves", type=int, default=40, help="checkpoints of every run")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    for runs in map(int, chosen.runs.split(",")):
        found = timed(runs, chosen.curves)
        if chosen.json:
            print(json.dumps(found), flush=True)
        else:
            size = found["bytes"] / 1e6
            print(f"{runs} runs: {found['seconds']:.1f} s, {size:.2f} MB", flush=True)


if __name__ == "__main__":
    main()
