"""Observations: what the statistics see of a run, and a count of what they leave out.

The statistical half of the program begins here. It knows records, not tasks or models, so that runs
made elsewhere can be analysed just as well. Nothing is dropped in silence: every record that is no
evidence is counted under a reason.

>>> observe([]).excluded
{}
"""

import collections
import dataclasses
import math
from collections.abc import Iterable, Mapping

from ullage.record import EVIDENCE, Phase, RunRecord

NOTIONS = ("answer", "context", "input", "storage")


@dataclasses.dataclass(frozen=True)
class Observation:
    """One run as evidence: what was asked in bits, and how much of it was learned."""

    task: str
    level: int
    seed: int
    nominal: str
    demands: Mapping[str, float]
    skill: float

    def demand_bits(self, notion: str) -> float | None:
        """The bits asked for under a notion (`nominal` for the family's own)."""
        return self.demands.get(self.nominal if notion == "nominal" else notion)


@dataclasses.dataclass(frozen=True)
class Observations:
    """All evidence, and how many records were left out for which reason."""

    runs: tuple[Observation, ...]
    excluded: Mapping[str, int]

    def of_task(self, task: str) -> tuple[Observation, ...]:
        """The runs of one family."""
        return tuple(run for run in self.runs if run.task == task)


def observe(records: Iterable[RunRecord]) -> Observations:
    """Turn records into evidence.

    A level whose recipe was replaced in the course of a study was judged again: only the runs of the last
    recipe count.
    """
    known = list(records)
    latest: dict[tuple[str, str, int], int] = {}
    for record in known:
        if record.phase == Phase.FINAL:
            place = (record.study, record.task, record.level)
            latest[place] = max(latest.get(place, 1), record.recipe_round)
    runs: list[Observation] = []
    excluded: collections.Counter[str] = collections.Counter()
    for record in known:
        replaced = latest.get((record.study, record.task, record.level), 1) > record.recipe_round
        reason = _why_not(record) or ("a recipe that was replaced" if replaced else "")
        if reason:
            excluded[reason] += 1
        else:
            runs.append(_observation(record))
    return Observations(tuple(runs), dict(excluded))


def _why_not(record: RunRecord) -> str:
    if record.phase != Phase.FINAL:
        return "a search run, not a final one"
    if record.status not in EVIDENCE:
        return f"status {record.status}"
    if record.skill is None or not math.isfinite(record.skill):
        return "no score"
    return ""


def _observation(record: RunRecord) -> Observation:
    named = {notion: getattr(record, f"demand_{notion}_bits") for notion in NOTIONS}
    demands = {notion: bits for notion, bits in named.items() if bits is not None}
    assert record.skill is not None
    return Observation(record.task, record.level, record.seed, record.demand_notion, demands, record.skill)
