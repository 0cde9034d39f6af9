"""Pilots: a few trainings near the expected boundary, made to answer one question.

They are runs like any other, kept in the store under a study of their own, at the effort of the evidence
that they join. Their levels follow from that evidence alone, not from other pilots, so a pilot that was
interrupted goes on with the runs that it would have made.

>>> spread_levels(np.array([2.0, 3.0, 4.0]), {4: 2.0, 8: 3.0, 16: 4.0}, 3)
{4: 1, 8: 1, 16: 1}
"""

import collections
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ullage.campaign import Campaign, Settings, ground_of
from ullage.errors import BadInput
from ullage.executor import Executor
from ullage.observations import Effort as Spent
from ullage.protocol import EFFORTS, Effort
from ullage.record import RunRecord
from ullage.request import find_settings
from ullage.store import Store
from ullage.study import Study, Watcher
from ullage.task import Family

PILOT = "pilot"
MOST = 1000
SEED = 2**32 - 1  # a campaign's seeds are counted from 0: no run of a measurement is made here again


def pilot_settings(model: str, knobs: Mapping[str, Any], spent: Spent) -> Settings:
    """What all runs of a pilot share: the model that is asked about, and the effort of its evidence."""
    if spent.step_limit is None or spent.search_trials is None or spent.train_examples is None:
        raise BadInput(
            f"a pilot cannot join runs of which the effort is not told ({spent}); "
            "give their table the columns step_limit, search_trials and train_examples"
        )
    effort = dataclasses.replace(
        EFFORTS["quick"],
        name=PILOT,
        step_limit=spent.step_limit,
        trials=spent.search_trials,
        train_examples=spent.train_examples,
    )
    return find_settings(effort, "grid", model, knobs, (), SEED, search_embedding=False)


def pilot_levels(
    family: Family, settings: Settings, log2_capacity: np.ndarray, notion: str, count: int
) -> dict[int, int]:
    """How many runs at which level, where draws of log2 C say that the boundary may be."""
    ground = ground_of(family, dataclasses.replace(settings, protocol="adaptive"))
    demands = {level: family.at(level).demand(notion) for level in ground.candidates}
    known = {level: math.log2(bits) for level, bits in demands.items() if bits}
    if not known:
        raise BadInput(
            f"{family.name} has no demand of the notion {notion} to place a pilot by; leave it out"
        )
    return spread_levels(log2_capacity, known, count)


def spread_levels(log2_capacity: np.ndarray, log2_demands: Mapping[int, float], count: int) -> dict[int, int]:
    """So many runs at the quantiles of a belief, each at the level whose demand is nearest."""
    shares = (np.arange(count) + 0.5) / count
    found: collections.Counter[int] = collections.Counter()
    for target in np.quantile(log2_capacity, shares):
        found[min(log2_demands, key=lambda level: abs(log2_demands[level] - target))] += 1
    return dict(sorted(found.items()))


def run_pilot(
    family: Family,
    settings: Settings,
    levels: Mapping[int, int],
    store: Store,
    executor: Executor,
    watcher: Watcher,
) -> list[RunRecord]:
    """Make the runs that the store does not hold yet, and return all that were asked for."""
    study = Study([_campaign(family, settings, *chosen) for chosen in levels.items()], store)
    study.run(executor, watcher)
    return study.evidence


def _campaign(family: Family, settings: Settings, level: int, seeds: int) -> Campaign:
    effort: Effort = dataclasses.replace(settings.effort, seeds=seeds)
    return Campaign(family, dataclasses.replace(settings, effort=effort, levels=(level,)))


def without_pilots(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs that were not made for one question: they say whether a store has evidence of its own."""
    return [record for record in records if not is_pilot(record)]


def is_pilot(record: RunRecord) -> bool:
    """Whether a run was made by a pilot; its study says so (see `ullage.campaign.study_name`)."""
    return f"/{PILOT}/" in record.study
