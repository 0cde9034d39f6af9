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

from ullage.errors import BadInput, listed
from ullage.record import EVIDENCE, Phase, RunRecord

NOTIONS = ("answer", "context", "input", "storage")
NOMINAL = "nominal"
NO_TECHNIQUE = "none"


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Model:
    """The model of a run by its numbers; None is what a table does not tell."""

    model_id: str = "unknown"
    architecture: str | None = None
    layers: int | None = None
    heads: int | None = None
    d_head: int | None = None
    d_model: int | None = None
    precision_bits: int | None = None

    @property
    def bandwidth_bits(self) -> float | None:
        """heads · d_head · precision, where all three are known.

        >>> Model("paper", heads=8, d_head=32, precision_bits=32).bandwidth_bits
        8192.0
        """
        if self.heads is None or self.d_head is None or self.precision_bits is None:
            return None
        return float(self.heads * self.d_head * self.precision_bits)


@dataclasses.dataclass(frozen=True, slots=True)
class Effort:
    """What was spent to learn; capacity is always capacity at an effort. None is not told."""

    step_limit: int | None = None
    search_trials: int | None = None
    train_examples: int | None = None  # 0 means all there are

    @property
    def size(self) -> tuple[float, float, float]:
        """For sorting: more steps first, then more trials, then more examples."""
        examples = math.inf if self.train_examples == 0 else self.train_examples or 0
        return (self.step_limit or 0, self.search_trials or 0, examples)

    def __str__(self) -> str:
        told = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        return ", ".join(f"{name}={value}" for name, value in told.items()) or "not told"


# A store may hold a hundred thousand runs: slots halve their memory.
@dataclasses.dataclass(frozen=True, slots=True)
class Observation:
    """One run as evidence: what was asked in bits, of which model, and how much of it was learned.

    Runs of one condition that came out alike may be merged into one observation with their `count`.
    """

    task: str
    level: int
    seed: int
    nominal: str
    demands: Mapping[str, float]
    skill: float
    model: Model = Model()
    parameters: int | None = None
    technique: str = NO_TECHNIQUE
    effort: Effort = Effort()
    floor: float | None = None
    total: int | None = None
    count: int = 1

    def demand_bits(self, notion: str) -> float | None:
        """The bits asked for under a notion (`nominal` for the family's own)."""
        return self.demands.get(self.nominal if notion == NOMINAL else notion)


@dataclasses.dataclass(frozen=True)
class Observations:
    """All evidence, and how many records were left out for which reason."""

    runs: tuple[Observation, ...]
    excluded: Mapping[str, int]

    def of_task(self, task: str) -> tuple[Observation, ...]:
        """The runs of one family."""
        return tuple(run for run in self.runs if run.task == task)

    @property
    def count(self) -> int:
        """How many runs there are."""
        return sum(run.count for run in self.runs)


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
    return Observation(
        record.task,
        record.level,
        record.seed,
        record.demand_notion,
        demands,
        record.skill,
        Model(**{field.name: getattr(record, field.name) for field in dataclasses.fields(Model)}),
        record.parameters,
        record.technique,
        Effort(record.step_limit, record.search_trials, record.train_examples),
        record.score_floor,
        record.total,
    )


# ── one effort, one notion ────────────────────────────────────────────────────────────────────────


def at_one_effort(observations: Observations, wanted: Effort | None = None) -> tuple[Observations, Effort]:
    """The runs of one effort, the others counted: the one asked for, else the largest complete one.

    An effort is complete when it has runs of every family that any effort has runs of. What is None in
    the one asked for is left open; among several the largest is taken.

    >>> one = Observation("a", 1, 0, "answer", {"answer": 1.0}, 1.0)
    >>> runs = [dataclasses.replace(one, effort=Effort(steps)) for steps in (10, 20)]
    >>> kept, effort = at_one_effort(Observations(tuple(runs), {}))
    >>> effort.step_limit, kept.excluded
    (20, {'another effort': 1})
    """
    families: dict[Effort, set[str]] = collections.defaultdict(set)
    for run in observations.runs:
        families[run.effort].add(run.task)
    if not families:
        return observations, wanted or Effort()
    matching = [effort for effort in families if _matches(effort, wanted)]
    if not matching:
        known = "; ".join(str(effort) for effort in sorted(families, key=lambda effort: effort.size))
        raise BadInput(f"no run was made with the effort {wanted}; there are {known}")
    chosen = max(matching, key=lambda effort: (len(families[effort]), effort.size))
    kept = tuple(run for run in observations.runs if run.effort == chosen)
    return without(observations, kept, "another effort"), chosen


def _matches(effort: Effort, wanted: Effort | None) -> bool:
    if wanted is None:
        return True
    asked = {name: value for name, value in dataclasses.asdict(wanted).items() if value is not None}
    return all(getattr(effort, name) == value for name, value in asked.items())


def under(observations: Observations, notion: str) -> Observations:
    """The runs that have a positive demand under a notion, the others counted."""
    if notion not in (NOMINAL, *NOTIONS):
        raise BadInput(f"there is no notion of demand {notion!r}; choose one of nominal, {listed(NOTIONS)}")
    kept = tuple(run for run in observations.runs if (run.demand_bits(notion) or 0.0) > 0.0)
    if observations.runs and not kept:
        there = {name for run in observations.runs for name in run.demands}
        raise BadInput(
            f"no family has a demand of the notion {notion}; choose among nominal, {listed(there)}"
        )
    return without(observations, kept, f"no demand under the notion {notion}")


def without(observations: Observations, kept: tuple[Observation, ...], reason: str) -> Observations:
    """These runs only; what is missing is counted under a reason."""
    missing = observations.count - sum(run.count for run in kept)
    excluded = dict(observations.excluded)
    if missing:
        excluded[reason] = excluded.get(reason, 0) + missing
    return Observations(kept, excluded)
