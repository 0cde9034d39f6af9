"""The main job: measure the effective capacity of one model on some families of tasks.

>>> import tempfile
>>> found = measure(["parity"], levels=[5], steps=100, protocol="grid", trials=0, seeds=1,
...                 workers=1, store=tempfile.mkdtemp())
>>> found["new_runs"]
1
"""

import collections
import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ullage.architecture import Architecture
from ullage.budget import COMPARED, Budgets, budgets_of, typical_budgets
from ullage.campaign import Campaign
from ullage.errors import BadInput, listed
from ullage.executor import make_executor
from ullage.observations import NOTIONS, observe
from ullage.request import (
    DEFAULT_COLLECTION,
    check_workers,
    default_workers,
    find_campaigns,
    find_effort,
    find_families,
    find_settings,
)
from ullage.search import optimism, variance_shares
from ullage.store import open_store
from ullage.study import Study, Watcher, is_evidence
from ullage.summary import capacity_summary, family_summary
from ullage.task import Notion


def measure(
    names: Sequence[str] = (DEFAULT_COLLECTION,),
    *,
    model: str = "nano",
    knobs: Mapping[str, Any] | None = None,
    effort: str = "quick",
    protocol: str = "adaptive",
    levels: Sequence[int] = (),
    steps: int | None = None,
    trials: int | None = None,
    seeds: int | None = None,
    train_examples: int | None = None,
    search_embedding: bool = False,
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
    chosen = find_effort(effort, protocol, steps, trials, seeds, train_examples)
    settings = find_settings(chosen, protocol, model, knobs or {}, levels, seed, search_embedding)
    _check_choices(demand, retry, minutes)
    check_workers(workers)
    opened = open_store(Path(store))
    campaigns = find_campaigns(families, settings, opened)
    study = Study(campaigns, opened, retry_failed=retry == "failed")
    study.run(make_executor(workers or default_workers()), watcher or Watcher(), minutes)
    document = summarise(campaigns, study, demand)
    return document | {
        "effort": chosen.name,
        "protocol": protocol,
        **{name: getattr(chosen, name) for name in ("step_limit", "trials", "train_examples")},
        "new_runs": study.new_runs,
        "complete": study.complete,
        "sound": all(map(is_evidence, study.records.values())),
        "seconds": round(time.monotonic() - began, 1),
        "store": str(store),
        "report": None,
    }


def _check_choices(demand: str, retry: str | None, minutes: float | None) -> None:
    if demand not in ("nominal", *NOTIONS):
        raise BadInput(f"there is no notion of demand {demand!r}; choose one of nominal, {listed(NOTIONS)}")
    if retry not in (None, "failed"):
        raise BadInput(f"retry={retry} is not allowed; the only choice is failed")
    if minutes is not None and not minutes > 0:
        raise BadInput(f"minutes={minutes} is out of range; choose more than 0")


def summarise(campaigns: Sequence[Campaign], study: Study, demand: str = "nominal") -> dict[str, Any]:
    """The document of a study from what it knows; reads no store, trains nothing."""
    model = campaigns[0].settings.recipe.architecture
    runs = observe(study.evidence).runs
    named = {campaign.family.name: campaign for campaign in campaigns}
    hardest = {name: campaign.family.at(campaign.ground.levels[-1]) for name, campaign in named.items()}
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
        ).to_json()
        | {"search": search_summary(campaign)}
        for name, campaign in named.items()
    }
    return {
        "model": describe_model(model, offered),
        "demand_notion": demand,
        "budgets": dataclasses.asdict(offered),
        "capacity_bits": top["capacity_bits"],
        "families": top["families"],
        "utilisation": None if demand == "nominal" else top["utilisation"],
        "by_notion": by_notion,
        "tasks": summaries,
        "runs": dict(collections.Counter(record.status for record in study.records.values())),
        "train_steps": sum(record.train_steps for record in study.records.values()),
    }


def search_summary(campaign: Campaign) -> dict[str, Any] | None:
    """What the search of a family found, how optimistic it was, and what its runs differ by."""
    protocol = campaign.protocol
    if not protocol.searches:
        return None
    trials = {
        level: [trial.result.skill for trial in search.trials if trial.result.counts]
        for level, search in protocol.searches.items()
    }
    winners = {str(level): dict(protocol.winner(level) or ()) for level in sorted(protocol.searches)}
    return {
        "trials": sum(map(len, trials.values())),
        "winners": winners,
        "optimism": optimism(protocol.searches, protocol.skills),
        "variance_shares": variance_shares(trials, protocol.skills),
    }


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
