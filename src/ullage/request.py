"""A request: what is to be measured and with how much effort, as families, settings and campaigns.

>>> find_effort("quick", "grid", seeds=5)
Effort(name='quick*', step_limit=2000, trials=3, seeds=5, ...)
"""

import dataclasses
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ullage import architecture as architectures
from ullage import recipe as recipes
from ullage import registry
from ullage import task as tasks
from ullage.campaign import Campaign, Settings, study_name
from ullage.errors import BadInput
from ullage.protocol import EFFORTS, PROTOCOLS, Effort
from ullage.recipe import Recipe
from ullage.record import LEARNED, RunRecord
from ullage.search import Point
from ullage.space import Space
from ullage.store import Store
from ullage.task import Family, collection
from ullage.testing import check_task

DEFAULT_COLLECTION = "classic"
EVALUATIONS = 40  # of a run that uses all its steps
FEWEST_STEPS_BETWEEN = 50  # an evaluation costs about three steps
# Of what may be chosen otherwise than an effort says; more is a slip of the pen.
RANGES = {
    "step_limit": (1, 10**9),
    "trials": (0, 10_000),
    "seeds": (1, 10_000),
    "train_examples": (0, 2**24),
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


def find_effort(
    name: str,
    protocol: str,
    steps: int | None = None,
    trials: int | None = None,
    seeds: int | None = None,
    train_examples: int | None = None,
) -> Effort:
    """A named effort, with some of its numbers chosen otherwise."""
    for what, value, known in (("effort", name, EFFORTS), ("protocol", protocol, PROTOCOLS)):
        if value not in known:
            raise BadInput(f"there is no {what} {value!r}; choose one of {', '.join(known)}")
    if seeds is not None and protocol != "grid":
        raise BadInput(
            f"seeds={seeds} is for a grid; add --protocol grid, or leave it out: adaptive chooses them itself"
        )
    given = {"step_limit": steps, "trials": trials, "seeds": seeds, "train_examples": train_examples}
    for what, (least, most) in RANGES.items():
        value = given[what]
        if value is not None and not least <= value <= most:
            flag = {"step_limit": "steps"}.get(what, what)
            raise BadInput(f"{flag}={value} is out of range; choose {least} to {most}")
    chosen = dataclasses.replace(
        EFFORTS[name], **{key: value for key, value in given.items() if value is not None}
    )
    return chosen if chosen == EFFORTS[name] else dataclasses.replace(chosen, name=f"{name}*")


def find_settings(
    effort: Effort,
    protocol: str,
    model: str,
    knobs: Mapping[str, Any],
    levels: Sequence[int],
    seed: int,
    search_embedding: bool,
) -> Settings:
    """What all campaigns of one measurement share."""
    if not 0 <= seed < 2**32:
        raise BadInput(f"seed={seed} is out of range; choose 0 to {2**32 - 1}")
    recipe = Recipe(
        architectures.find(model, knobs),
        step_limit=effort.step_limit,
        evaluate_every=_evaluate_every(effort.step_limit),
        train_examples=effort.train_examples,
    )
    return Settings(recipe, effort, protocol, tuple(levels), seed, search_embedding)


def find_campaigns(families: Sequence[Family], settings: Settings, store: Store) -> list[Campaign]:
    """One campaign a family, the cheapest first, so that the first answer is there early."""
    stored = list(store.read().records.values()) if settings.effort.trials else []
    campaigns = [
        Campaign(family, settings, winners_of_smaller_models(family, settings, stored)) for family in families
    ]
    return sorted(campaigns, key=lambda campaign: (max(campaign.ground.step_cost.values()), campaign.study))


def winners_of_smaller_models(family: Family, settings: Settings, stored: Sequence[RunRecord]) -> list[Point]:
    """The recipe that took a smaller model furthest on this family, if the store holds one.

    Only what was stored before the study began: what a study asks for must not change on its way.
    """
    study = study_name(family, settings)
    before = itertools.takewhile(lambda record: record.study != study, stored)
    recipe = settings.recipe
    space = Space.of(recipe.step_limit, embedding=settings.search_embedding)
    size = recipe.architecture.parameters(family.at(family.levels[0]).interface)
    learned = [
        record
        for record in before
        if record.task == family.name
        and record.is_evidence
        and (record.parameters or size) < size
        and record.step_limit == recipe.step_limit
        and (record.skill or 0.0) >= LEARNED
    ]
    best = max(learned, key=lambda record: (record.level, record.run_id), default=None)
    return [] if best is None else [space.point_of(recipes.from_json(json.loads(best.recipe_json)))]


def _evaluate_every(step_limit: int) -> int:
    return min(step_limit, max(FEWEST_STEPS_BETWEEN, step_limit // EVALUATIONS))


def check_workers(workers: int | None) -> None:
    """Raise `BadInput` for a number of workers that cannot be."""
    if workers is not None and workers < 1:
        raise BadInput(f"workers={workers} is out of range; choose 1 or more")


def default_workers() -> int:
    """As many workers as there are cores that this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1
