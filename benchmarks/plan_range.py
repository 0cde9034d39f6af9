"""Does what `ullage plan` says come true? Real campaigns, held against the range that was told before.

    python benchmarks/plan_range.py [--campaigns 20] [--store DIR] [--workers N] [--json]

Each campaign measures one family with one small model; models, families and trials differ from one to the
next, so that no campaign is another one over again. Every plan is made beside an empty store: it knows
nothing of the campaign's own runs. A line is printed for each:

    parity     nano  3 trials  runs 15 in [12, 25] ×2.1  train_steps 24000 in [17000, 39000] ×2.3 …

and in the end, for runs, steps and FLOPs, how often the range held the truth and how wide it was. A plan
that is right four times of five holds 16 of 20 on average. Seconds are told beside them: worker seconds
of the stored runs against those that the plan expects of one worker, at the load that there is just now.

The negative control stands below: ranges pulled together to a tenth around their middle must hold less.
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ullage.request import default_workers, find_campaigns, find_effort, find_families, find_settings
from ullage.store import open_store
from ullage.study import Study
from ullage.verbs.measure import measure
from ullage.verbs.plan import plan, stored_by

# Families, what differs from the nano model, trials of a search at a level: twenty campaigns at effort quick.
CAMPAIGNS: tuple[tuple[tuple[str, ...], Mapping[str, Any], int], ...] = (
    (("modulo", "memorise", "parity", "copy"), {}, 3),
    (("modulo", "memorise", "parity"), {}, 8),
    (("modulo", "memorise", "parity", "copy", "induction"), {}, 0),
    (("modulo", "memorise"), {"layers": 1}, 0),
    (("modulo", "memorise"), {"d_ff": 0}, 0),
    (("modulo", "memorise"), {"d_head": 4}, 0),
    (("modulo", "memorise"), {"d_head": 16}, 0),
)
TOLD = ("runs", "train_steps", "train_flops")

Row = dict[str, Any]


def made(family: str, model: Mapping[str, Any], trials: int, chosen: argparse.Namespace) -> Row:
    """One campaign: what was planned, then what it cost."""
    with tempfile.TemporaryDirectory() as empty:
        told = plan([family], knobs=model, trials=trials, store=empty, workers=1)
    measure([family], knobs=model, trials=trials, store=chosen.store, workers=chosen.workers)
    opened = open_store(chosen.store)
    effort = find_effort("quick", "adaptive", trials=trials)
    settings = find_settings(effort, "adaptive", "nano", model, (), 0, search_embedding=False)
    study = Study(find_campaigns(find_families([family]), settings, opened), opened)
    spent = stored_by(study)
    runs = {end: sum(told["runs"][phase][end] for phase in told["runs"]) for end in ("low", "high")}
    truth = {
        "runs": spent.search + spent.final,
        "train_steps": spent.train_steps,
        "train_flops": spent.train_flops,
        "seconds_here": sum(record.seconds for record in study.records.values()),
    }
    ranges = {"runs": runs, **{name: told[name] for name in (*TOLD[1:], "seconds_here")}}
    return {
        "family": family,
        "model": dict(model),
        "trials": trials,
        **{name: {**ranges[name], "truth": truth[name]} for name in ranges},
    }


def pulled_together(row: Row) -> Row:
    """The same row with a range of a tenth in place of what was told."""

    def narrow(found: Mapping[str, float]) -> dict[str, float]:
        middle = math.sqrt(max(found["low"], 1.0) * found["high"])
        return {"low": middle / 1.05, "high": middle * 1.05, "truth": found["truth"]}

    return {**row, **{name: narrow(row[name]) for name in (*TOLD, "seconds_here")}}


def holds(found: Mapping[str, float]) -> bool:
    """Whether a range holds the truth."""
    return found["low"] <= found["truth"] <= found["high"]


def span(found: Mapping[str, float]) -> float:
    """By which factor a range spans."""
    return found["high"] / max(found["low"], 1e-9)


def line(row: Row) -> str:
    """One campaign as text."""
    parts = [
        f"{name} {row[name]['truth']:.3g} {'in' if holds(row[name]) else 'NOT in'} "
        f"[{row[name]['low']:.3g}, {row[name]['high']:.3g}] ×{span(row[name]):.1f}"
        for name in (*TOLD, "seconds_here")
    ]
    model = ",".join(f"{name}={value}" for name, value in row["model"].items())
    return f"{row['family']:<10}{model or 'nano'}  {row['trials']} trials  " + "  ".join(parts)


def verdict(rows: list[Row], name: str) -> str:
    """How one quantity was told over all campaigns."""
    held = sum(holds(row[name]) for row in rows)
    spans = sorted(span(row[name]) for row in rows)
    return (
        f"{name}: {held} of {len(rows)} ranges held the truth; they span a factor of "
        f"{spans[len(spans) // 2]:.1f} in the middle, {spans[-1]:.1f} at most"
    )


def main() -> None:
    """Make the campaigns and say how the plans did."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--campaigns", type=int, default=20)
    parser.add_argument("--store", type=Path, default=None, help="keep the runs here, go on with them later")
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    chosen.store = chosen.store or Path(tempfile.mkdtemp())
    rows = []
    every = [(family, model, trials) for families, model, trials in CAMPAIGNS for family in families]
    for family, model, trials in every[: chosen.campaigns]:
        row = made(family, model, trials, chosen)
        rows.append(row)
        print(line(rows[-1]), flush=True, file=sys.stderr if chosen.json else sys.stdout)
    if chosen.json:
        json.dump(rows, sys.stdout, indent=1)
        return
    for name in (*TOLD, "seconds_here"):
        print(verdict(rows, name))
        print(f"    control: {verdict([pulled_together(row) for row in rows], name)}")


if __name__ == "__main__":
    main()
