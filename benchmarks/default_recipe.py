"""Which single recipe trains the classic families best: 30 recipes on the same questions and steps.

    python benchmarks/default_recipe.py [--workers N] [--seeds N] [--json]

The recipes are a first guess and a Halton sequence over learning rate, weight decay, batch size, warm-up,
final rate and initial scale. A recipe's figure is its mean validation skill over all families,
each family counting the same; the standard error comes from the spread over (family, level, seed).
Search runs never see the test split.
"""

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from ullage import architecture
from ullage.campaign import Planned
from ullage.executor import make_executor
from ullage.job import Job, describe_task
from ullage.recipe import Recipe
from ullage.record import Phase, RunRecord
from ullage.store import open_store
from ullage.study import Listed, Study, Watcher
from ullage.task import find

CASES = {
    "modulo": (11, 41, 163, 641),
    "parity": (7, 9, 11, 13),
    "copy": (8, 16, 32),
    "memorise": (2048, 4096, 8192, 16384),
    "induction": (8, 16, 32),
}
STEPS = 4000
RECIPES = 30
KNOBS = ("learning_rate", "weight_decay", "batch_size", "warmup_steps", "final_rate", "initial_scale")


def halton(index: int, base: int) -> float:
    """The `index`-th number of the Halton sequence of a base, in 0 to 1."""
    value, share = 0.0, 1.0
    while index:
        share /= base
        value += share * (index % base)
        index //= base
    return value


def recipes() -> list[Recipe]:
    """The first guess, and 29 more that fill the space around it evenly."""
    default = Recipe(architecture.find("nano", {}), step_limit=STEPS)
    guess = {"learning_rate": 2e-3, "weight_decay": 0.1, "batch_size": 128, "warmup_steps": 100}
    found = [dataclasses.replace(default, **guess, final_rate=0.1, initial_scale=1.0)]
    for index in range(1, RECIPES):
        u = [halton(index, base) for base in (2, 3, 5, 7, 11, 13)]
        found.append(
            dataclasses.replace(
                default,
                learning_rate=float(f"{5e-4 * 16 ** u[0]:.2g}"),
                weight_decay=(0.0, 0.01, 0.03, 0.1, 0.3)[int(5 * u[1])],
                batch_size=(64, 128, 256)[int(3 * u[2])],
                warmup_steps=(50, 100, 200, 400)[int(4 * u[3])],
                final_rate=(0.0, 0.1, 0.3, 1.0)[int(4 * u[4])],
                initial_scale=(0.5, 0.7, 1.0, 1.4)[int(4 * u[5])],
            )
        )
    return found


def plan(tried: list[Recipe], seeds: int) -> list[Planned]:
    """Every recipe on every case: search runs, which never see the test split."""
    return [
        Planned(
            name, Job(describe_task(find(name).at(level)), recipe.to_json(), seed, phase=str(Phase.SEARCH))
        )
        for name, levels in CASES.items()
        for level in levels
        for recipe in tried
        for seed in range(seeds)
    ]


def row(recipe: Recipe, records: list[RunRecord]) -> dict[str, float]:
    """One recipe's figures: mean skill by family, and their mean."""
    by_family = {name: [max(one.skill or 0.0, 0.0) for one in records if one.task == name] for name in CASES}
    means = {name: float(np.mean(skills)) for name, skills in by_family.items()}
    spread = np.std([skill for skills in by_family.values() for skill in skills]) / np.sqrt(len(records))
    figures = {**means, "mean": float(np.mean(list(means.values()))), "standard_error": float(spread)}
    return {
        **{knob: getattr(recipe, knob) for knob in KNOBS},
        **{name: round(value, 3) for name, value in figures.items()},
    }


def main() -> None:
    """Train all, print the table, best first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument(
        "--store", type=Path, default=None, help="keep the runs here and go on with them later"
    )
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    tried = recipes()
    planned = plan(tried, chosen.seeds)
    study = Study([Listed(planned)], open_store(chosen.store or Path(tempfile.mkdtemp())))
    study.run(make_executor(chosen.workers), Watcher())
    by_recipe = [
        [study.records[one.job.run_id] for one in planned if one.job.recipe == recipe.to_json()]
        for recipe in tried
    ]
    rows = sorted(map(row, tried, by_recipe), key=lambda one: -one["mean"])
    if chosen.json:
        json.dump(rows, sys.stdout, indent=1)
        return
    for line in ([*rows[0]], *([*one.values()] for one in rows)):
        print("  ".join(f"{value:>14}" for value in line))


if __name__ == "__main__":
    main()
