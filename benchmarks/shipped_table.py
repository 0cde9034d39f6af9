"""Makes the table of real runs that lies inside the package, from which predictions start.

    python benchmarks/shipped_table.py run [--models NAME;…] [--families NAME;…] [--store DIR]
                                           [--workers N] [--minutes M] [--here]
    python benchmarks/shipped_table.py write --store DIR [--folder src/ullage/shipped]

`run` measures five families on models that separate the budgets: bandwidth (heads · d_head of half, once
and twice the width) apart from weights (feed-forward or none), depth (one layer or two) and width, and the
paper's baseline beside them. The protocol is the adaptive one without a search, at effort quick. What the
store holds is not made again; `--minutes` starts no run after that time. `--here` trains in this process,
one run after another, on whatever device JAX finds: that is how a GPU is used.

`write` keeps the finals that count, without their curves and without the name of the machine, as the store
that the package holds.
"""

import argparse
import dataclasses
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ullage.campaign import Campaign
from ullage.executors.serial import Serial
from ullage.request import default_workers, find_campaigns, find_effort, find_families, find_settings
from ullage.store import Store, open_store
from ullage.study import Study, Watcher

FAMILIES = ("modulo", "parity", "memorise", "copy", "induction")
MODELS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    # preset, and what differs from it; heads · d_head is d_model unless d_head is given
    "nano": ("nano", {}),
    "nano, half bandwidth": ("nano", {"d_head": 4}),
    "nano, twice bandwidth": ("nano", {"d_head": 16}),
    "nano, attention only": ("nano", {"d_ff": 0}),
    "nano, one layer": ("nano", {"layers": 1}),
    "small": ("small", {}),
    "small, half bandwidth": ("small", {"d_head": 8}),
    "small, attention only": ("small", {"d_ff": 0}),
    "paper": ("paper", {}),
}


def campaigns(models: Sequence[str], families: Sequence[str], store: Store) -> list[Campaign]:
    """All families on all models, without a search, the cheapest first."""
    effort = find_effort("quick", "adaptive", trials=0)
    found = []
    for name in models:
        preset, knobs = MODELS[name]
        settings = find_settings(effort, "adaptive", preset, knobs, (), 0, search_embedding=False)
        found += find_campaigns(find_families(families), settings, store)
    return sorted(found, key=lambda campaign: max(campaign.ground.step_cost.values()))


def run(chosen: argparse.Namespace) -> None:
    """Make what the store does not hold."""
    store = open_store(chosen.store)
    study = Study(campaigns(chosen.models, chosen.families, store), store)
    watcher = Watcher(
        ended=lambda planned, record: print(
            f"{planned.family} {record.level} {record.model_id} skill {record.skill} {record.status}"
            f" {record.train_steps} steps {record.seconds} s {record.reason if record.skill is None else ''}",
            flush=True,
        )
    )
    if chosen.here:
        study.run(Serial(), watcher, chosen.minutes)
    else:
        from ullage.executor import make_executor

        study.run(make_executor(chosen.workers), watcher, chosen.minutes)
    print(f"{study.new_runs} new runs, {len(study.records)} in all; complete: {study.complete}")


def write(chosen: argparse.Namespace) -> None:
    """Keep what counts as the store of the package."""
    store = open_store(chosen.store)
    study = Study(campaigns(list(MODELS), FAMILIES, store), store)
    for name in ("runs.jsonl", "curves.jsonl"):
        (chosen.folder / name).unlink(missing_ok=True)
    shipped = open_store(chosen.folder)
    kept = sorted(study.evidence, key=lambda one: (one.model_id, one.task, one.level, one.run_id))
    with shipped:
        for record in kept:
            # They were made on several machines, shared and paused: their seconds say nothing.
            shipped.append(dataclasses.replace(record, host="", seconds=0.0, attempt=1), ())
    (chosen.folder / "driver.lock").unlink(missing_ok=True)
    print(f"{len(kept)} runs of {len({one.model_id for one in kept})} models in {chosen.folder}")


def names(text: str) -> list[str]:
    """Names that are separated by semicolons, since those of models hold commas."""
    return [part.strip() for part in text.split(";")]


def main() -> None:
    """Do what was asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("run")
    one.add_argument("--models", type=names, default=[name for name in MODELS if name != "paper"])
    one.add_argument("--families", type=names, default=list(FAMILIES))
    one.add_argument("--store", type=Path, default=None)
    one.add_argument("--workers", type=int, default=default_workers())
    one.add_argument("--minutes", type=float, default=None)
    one.add_argument("--here", action="store_true")
    other = kinds.add_parser("write")
    other.add_argument("--store", type=Path, required=True)
    other.add_argument("--folder", type=Path, default=Path("src/ullage/shipped"))
    chosen = parser.parse_args()
    chosen.store = chosen.store or Path(tempfile.mkdtemp())
    (run if chosen.kind == "run" else write)(chosen)


if __name__ == "__main__":
    main()
