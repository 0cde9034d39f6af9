"""The main job: measure the effective capacity of one model on some families of tasks.

>>> import tempfile
>>> found = measure(["parity"], levels=[5], steps=100, seeds=1, workers=1,
...                 store=tempfile.mkdtemp())
>>> found["new_runs"]
1
"""

import collections
import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ullage import architecture as architectures
from ullage import registry
from ullage import task as tasks
from ullage.architecture import Architecture
from ullage.budget import COMPARED, Budgets, budgets_of, typical_budgets
from ullage.errors import BadInput, listed
from ullage.executor import make_executor
from ullage.observations import NOTIONS, observe
from ullage.protocol import EFFORTS, Effort, Planned, grid
from ullage.recipe import Recipe
from ullage.record import RunRecord
from ullage.store import open_store
from ullage.study import Study, Watcher
from ullage.summary import capacity_summary, family_summary
from ullage.task import Family, Notion, collection
from ullage.testing import check_task

DEFAULT_COLLECTION = "classic"
EVALUATIONS = 40  # of a run that uses all its steps
FEWEST_STEPS_BETWEEN = 50  # an evaluation costs about three steps
MOST_SEEDS = 10_000  # more is a slip of the pen, and its plan would not fit into memory


def measure(
    names: Sequence[str] = (DEFAULT_COLLECTION,),
    *,
    model: str = "nano",
    knobs: Mapping[str, Any] | None = None,
    effort: str = "quick",
    levels: Sequence[int] = (),
    steps: int | None = None,
    seeds: int | None = None,
    demand: str = "nominal",
    store: str | Path = "ullage-store",
    workers: int | None = None,
    seed: int = 0,
    minutes: float | None = None,
    retry: str | None = None,
    watcher: Watcher | None = None,
) -> dict[str, Any]:
    """Train what is missing, fit every family's boundary, and return the document of `measure --json`."""
    began = time.monotonic()
    families = find_families(names)
    chosen = find_effort(effort, steps, seeds)
    recipe = Recipe(
        architectures.find(model, knobs or {}),
        step_limit=chosen.step_limit,
        evaluate_every=_evaluate_every(chosen.step_limit),
    )
    _check_choices(demand, retry, workers, minutes, seed)
    plan = grid(families, recipe, chosen.seeds, seed, levels)
    study = Study(plan, open_store(Path(store)), retry_failed=retry == "failed")
    study.run(make_executor(workers or default_workers()), watcher or Watcher(), minutes)
    document = summarise(plan, study.records, recipe.architecture, families, demand)
    return document | {
        "effort": chosen.name,
        "step_limit": chosen.step_limit,
        "seeds": chosen.seeds,
        "new_runs": study.new_runs,
        "complete": study.complete,
        "seconds": round(time.monotonic() - began, 1),
        "store": str(store),
        "report": None,
    }


def find_families(names: Sequence[str]) -> list[Family]:
    """The families that names, files and collections name, each once."""
    texts = [text for name in names for text in (name and collection(name)) or (name,)]
    families: dict[str, Family] = {}
    for family in map(tasks.find, texts):
        if families.setdefault(family.name, family) != family:
            raise BadInput(f"{family.name} is the name of two different files; rename one of them")
    for family in families.values():
        if registry.source_of(family.task) is not None:
            _demand_contract(family)
    return list(families.values())


def _demand_contract(family: Family) -> None:
    """A user's task is held to the contract before anything is trained on it."""
    broken = [f"{clause.clause} ({clause.why})" for clause in check_task(family) if not clause.passed]
    if broken:
        told = "; ".join(broken)
        raise BadInput(f"{family.name} breaks its contract: {told}; mend the file and `ullage check` it")


def find_effort(name: str, steps: int | None, seeds: int | None) -> Effort:
    """A named effort, with its steps or seeds chosen otherwise."""
    if name not in EFFORTS:
        raise BadInput(f"there is no effort {name!r}; choose one of {', '.join(EFFORTS)}")
    known = EFFORTS[name]
    for what, value in (("steps", steps), ("seeds", seeds)):
        if value is not None and value < 1:
            raise BadInput(f"{what}={value} is out of range; choose 1 or more")
    if seeds is not None and seeds > MOST_SEEDS:
        raise BadInput(f"seeds={seeds} is out of range; choose 1 to {MOST_SEEDS}")
    changed = (steps or known.step_limit, seeds or known.seeds) != (known.step_limit, known.seeds)
    return Effort(f"{name}*" if changed else name, seeds or known.seeds, steps or known.step_limit)


def _evaluate_every(step_limit: int) -> int:
    return min(step_limit, max(FEWEST_STEPS_BETWEEN, step_limit // EVALUATIONS))


def _check_choices(
    demand: str, retry: str | None, workers: int | None, minutes: float | None, seed: int
) -> None:
    if demand not in ("nominal", *NOTIONS):
        raise BadInput(f"there is no notion of demand {demand!r}; choose one of nominal, {listed(NOTIONS)}")
    if retry not in (None, "failed"):
        raise BadInput(f"retry={retry} is not allowed; the only choice is failed")
    if workers is not None and workers < 1:
        raise BadInput(f"workers={workers} is out of range; choose 1 or more")
    if minutes is not None and not minutes > 0:
        raise BadInput(f"minutes={minutes} is out of range; choose more than 0")
    if not 0 <= seed < 2**32:
        raise BadInput(f"seed={seed} is out of range; choose 0 to {2**32 - 1}")


def default_workers() -> int:
    """As many workers as there are cores that this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1


def summarise(
    plan: Sequence[Planned],
    records: Mapping[str, RunRecord],
    model: Architecture,
    families: Sequence[Family],
    demand: str = "nominal",
) -> dict[str, Any]:
    """The document of a plan from the records that exist of it; reads no store, trains nothing."""
    mine = [records[planned.job.run_id] for planned in plan if planned.job.run_id in records]
    runs = observe(mine).runs
    hardest = {family.name: family.at(_highest(plan, family.name)) for family in families}
    budgets = {name: budgets_of(model, task.interface) for name, task in hardest.items()}
    by_notion = {notion: capacity_summary(runs, notion, _compared(budgets, notion)) for notion in NOTIONS}
    top = capacity_summary(runs, "nominal", {}) if demand == "nominal" else by_notion[demand]
    offered = typical_budgets(list(budgets.values()))
    summaries = {
        name: family_summary(
            name,
            str(hardest[name].nominal),
            [run for run in runs if run.task == name],
            budgets[name].shares(hardest[name].demands()),
        )
        for name in hardest
    }
    return {
        "model": describe_model(model, offered),
        "demand_notion": demand,
        "budgets": dataclasses.asdict(offered),
        "capacity_bits": top["capacity_bits"],
        "families": top["families"],
        "utilisation": None if demand == "nominal" else top["utilisation"],
        "by_notion": by_notion,
        "tasks": {name: summary.to_json() for name, summary in summaries.items()},
        "runs": dict(collections.Counter(record.status for record in mine)),
        "train_steps": sum(record.train_steps for record in mine),
    }


def _highest(plan: Sequence[Planned], family: str) -> int:
    return max(planned.job.task["level"] for planned in plan if planned.family == family)


def _compared(budgets: Mapping[str, Budgets], notion: str) -> dict[str, dict[str, float]]:
    """Each family's budgets by name, only those that a notion of demand is held against."""
    allowed = COMPARED[Notion(notion)]
    return {name: {key: one.named()[key] for key in allowed} for name, one in budgets.items()}


def describe_model(model: Architecture, budgets: Budgets) -> dict[str, Any]:
    """The document of a model; its parameters are those of the typical family."""
    columns = model.columns()
    shape = {name: columns[name] for name in ("layers", "heads", "d_head", "d_model", "precision_bits")}
    parameters = round(budgets.weight_bits / model.precision_bits)
    identity = {"model_id": model.model_id, "architecture": model.name}
    return {**identity, **shape, "parameters": parameters, "technique": "none"}
