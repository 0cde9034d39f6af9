"""From nothing to an interval: a plain script of torch and Optuna against `ullage measure`, by the clock.

    python benchmarks/end_to_end.py [--families modulo,parity] [--trials 8] [--steps 2000] [--workers 2]
        [--levers] [--model nano] [--json]

Both search the same space with the same step limit, judge winners on fresh seeds, stop a training when it
is solved and have their interval computed by `ullage fit`, the plain script from its CSV. They run one after
the other; nothing else should run. An interval narrows with the root of the runs behind it, so the seconds of
the plain script are also told as those that it would take for an interval as wide as ours: times the square
of the ratio of widths in log2 bits (less where its interval is the narrower one). A one-sided interval has
no width; then only the seconds are compared.

`--levers` measures ours again with one lever off at a time: no adaptive choice of levels (the same grid and
trials as the plain script), and one worker.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ullage import fit

HERE = Path(__file__).resolve().parent
LEVERS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "grid": {"protocol": "grid"},
    "one worker": {"workers": 1},
}


def timed(command: list[str]) -> float:
    """Seconds of a command by the clock."""
    began = time.perf_counter()
    ended = subprocess.run([sys.executable, *command], check=False, stdout=subprocess.DEVNULL)
    if ended.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}")
    return time.perf_counter() - began


def interval_of(**where: Any) -> dict[str, Any]:
    """The capacity on the one family, and the interval's width in log2 bits."""
    found = fit(notions=False, **where)["capacity"][0]["capacity_bits"]
    ends = found["low"], found["high"]
    return found | {"width": math.log2(ends[1] / ends[0]) if all(ends) else None}


def options(given: argparse.Namespace, changed: dict[str, Any]) -> list[str]:
    """The flags that both sides understand, some of them changed."""
    values = {name: getattr(given, name) for name in ("trials", "steps", "workers", "model")} | changed
    return [text for name, value in values.items() for text in (f"--{name}", str(value))]


def plain(family: str, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """The plain script."""
    table = folder / "plain.csv"
    seconds = timed([str(HERE / "plain_grid.py"), family, str(table), *options(given, {})])
    return {"seconds": seconds, **interval_of(runs=table, keep=folder)}


def ours(family: str, folder: Path, given: argparse.Namespace, lever: str) -> dict[str, Any]:
    """`ullage measure` with nothing stored and nothing compiled."""
    store = folder / lever.replace(" ", "-")
    os.environ["ULLAGE_CACHE"] = str(folder / f"{store.name}-cache")
    command = ["-m", "ullage", "measure", family, "--store", str(store), *options(given, LEVERS[lever])]
    return {"seconds": timed([*command, "--json"]), **interval_of(store=store)}


def compared(family: str, given: argparse.Namespace) -> dict[str, Any]:
    """One family."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        theirs = plain(family, folder, given)
        levers = {
            lever: ours(family, folder, given, lever) for lever in LEVERS if given.levers or not LEVERS[lever]
        }
    widths = theirs["width"], levers["as it is"]["width"]
    at_equal_width = theirs["seconds"] * (widths[0] / widths[1]) ** 2 if all(widths) else None
    return {
        "family": family,
        "plain": theirs | {"seconds_at_equal_width": at_equal_width},
        "ours": levers,
        "ratio": theirs["seconds"] / levers["as it is"]["seconds"],
        "ratio_at_equal_width": at_equal_width and at_equal_width / levers["as it is"]["seconds"],
    }


def shown(rows: list[dict[str, Any]]) -> str:
    """The table."""
    lines = ["| family | way | seconds | capacity, bits [90 %] | width, log2 bits |", "|---|---|---|---|---|"]
    for row in rows:
        for way, one in {"plain script": row["plain"], **row["ours"]}.items():
            bits = " to ".join("?" if one[end] is None else f"{one[end]:.4g}" for end in ("low", "high"))
            width = "one-sided" if one["width"] is None else f"{one['width']:.2f}"
            lines.append(f"| {row['family']} | {way} | {one['seconds']:.0f} | {bits} | {width} |")
    for row in rows:
        equal = row["ratio_at_equal_width"]
        told = "" if equal is None else f", {equal:.1f} at equal width"
        lines.append(f"\n{row['family']}: the plain script takes {row['ratio']:.1f} times as long{told}")
    return "\n".join(lines)


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--families", default="modulo,parity")
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--model", default="nano")
    parser.add_argument("--levers", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = [compared(family, given) for family in given.families.split(",")]
    print(json.dumps(rows) if given.json else shown(rows))


if __name__ == "__main__":
    main()
