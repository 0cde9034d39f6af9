"""A campaign: a protocol's runs of one family as jobs, and records as what the protocol is told.

Nothing is kept here that the store does not hold: a campaign that goes on is one that is told, in
the same order, what was stored.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from functools import partial

from ullage import keys, registry
from ullage.job import Checkpoint, Job, describe_task
from ullage.protocol import PROTOCOLS, Effort, Ground, Protocol, Wanted, search_plan
from ullage.recipe import Recipe
from ullage.record import EVIDENCE, Phase, RunRecord, Status, canonical
from ullage.search import Point, Result, SearchPlan, Standing, loses, objective, rung_steps, standing
from ullage.space import Space, with_point
from ullage.task import Family

LOOK = 8  # levels on either side of a target: the primes below 100 are at most 8 apart
GAP = 0.25  # log2 bits between neighbouring candidates, half of what the narrowest interval may be
VALIDATION = "validation"


@dataclasses.dataclass(frozen=True)
class Planned:
    """One run of a campaign, with the family it belongs to."""

    family: str
    job: Job
    wanted: Wanted | None = None


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all campaigns of one measurement share."""

    recipe: Recipe  # where searches begin, with the model and the step limit
    effort: Effort
    protocol: str = "adaptive"
    levels: tuple[int, ...] = ()  # in place of a family's own
    seed: int = 0
    search_embedding: bool = False


class Campaign:
    """The runs of one family."""

    def __init__(self, family: Family, settings: Settings, hints: Sequence[Point] = ()) -> None:
        self.family, self.settings = family, settings
        self.plan = search_plan(settings.protocol, settings.effort)
        self.space = Space.of(settings.recipe.step_limit, embedding=settings.search_embedding)
        self.ground = ground_of(family, settings)
        self.study = study_name(family, settings)
        self.protocol: Protocol = PROTOCOLS[settings.protocol](
            self.ground,
            settings.effort,
            self.plan,
            partial(self.space.propose, self.study),
            self.space.point_of(settings.recipe),
            hints,
        )
        self.rungs = Rungs(self.plan, settings.recipe.step_limit)

    def batch(self) -> list[Planned]:
        """The jobs that are wanted now."""
        return [Planned(self.family.name, self.job(wanted), wanted) for wanted in self.protocol.batch()]

    def job(self, wanted: Wanted) -> Job:
        """The job of one wanted run; a search and a verdict never share a seed."""
        purpose = f"{wanted.phase}/{self.settings.seed}/{wanted.number}"
        if wanted.phase == Phase.SEARCH:
            purpose = f"{purpose}/{self.study}/{wanted.level}"
        return Job(
            describe_task(self.family.at(wanted.level)),
            with_point(self.settings.recipe, wanted.point).to_json(),
            keys.stable_hash(purpose),
            phase=str(wanted.phase),
            search_trials=self.plan.trials,
            study=self.study,
            recipe_round=wanted.round,
        )

    def tell(self, planned: Planned, record: RunRecord) -> None:
        """What came of a run."""
        assert planned.wanted is not None
        result = result_of(record)
        self.protocol.tell(planned.wanted, result)
        # A run that failed half-way leaves no curve: after an interruption it could be no rival.
        if result.counts:
            self.rungs.close(planned.job.run_id, planned.wanted.level)

    def goes_on(self, planned: Planned, checkpoint: Checkpoint) -> bool:
        """Whether a run that has come to a checkpoint goes on; a final one always does."""
        if planned.wanted is None or planned.wanted.phase == Phase.FINAL:
            return True
        train_skill = self._skill(planned, checkpoint, "train")
        stands = self._standing(planned, checkpoint)
        return self.rungs.passes(
            planned.job.run_id, planned.wanted.level, checkpoint.step, stands, train_skill
        )

    def recall(self, planned: Planned, checkpoints: Sequence[Checkpoint]) -> None:
        """How a stored trial stood at the rungs, from its curve."""
        for checkpoint in checkpoints:
            self.rungs.note(planned.job.run_id, checkpoint.step, self._standing(planned, checkpoint))

    def counts(self, planned: Planned) -> bool:
        """Whether a run is evidence of capacity: a final of the recipe that won in the end."""
        return planned.wanted is not None and self.protocol.counts(planned.wanted)

    def _standing(self, planned: Planned, checkpoint: Checkpoint) -> Standing:
        surprise = checkpoint.scores.get(VALIDATION, {}).get("cross_entropy_bits")
        return standing(self._skill(planned, checkpoint, VALIDATION), surprise)

    def _skill(self, planned: Planned, checkpoint: Checkpoint, split: str) -> float:
        task = self.family.at(planned.job.task["level"])
        score = checkpoint.scores.get(split, {}).get("score", task.floor)
        return (score - task.floor) / (task.ceiling - task.floor)


def result_of(record: RunRecord) -> Result:
    """What a protocol is told of a record."""
    if record.phase == Phase.SEARCH:
        counts = record.status in (*EVIDENCE, Status.PRUNED) and record.skill is not None
    else:
        counts = record.is_evidence
    skill = record.skill if record.skill is not None and math.isfinite(record.skill) else 0.0
    if not counts:
        return Result(counts=False, steps=record.train_steps)
    worth = objective(skill, record.generalisation_gap, record.steps_to_solve, record.step_limit)
    return Result(True, skill, worth, record.steps_to_solve is not None, record.train_steps)


def study_name(family: Family, settings: Settings) -> str:
    """The name of a search study: all that decides what is searched, in a word and a hash."""
    source = registry.source_of(family.task)
    recipe = settings.recipe
    fixed = {
        "family": family.name,
        "version": family.task.version if source is None else registry.source_hash(source),
        "recipe": recipe.to_json(),
        "effort": dataclasses.asdict(settings.effort),
        "protocol": settings.protocol,
        "levels": sorted({*settings.levels}),
        "seed": settings.seed,
        "embedding": settings.search_embedding,
    }
    mark = f"{keys.stable_hash(canonical(fixed)):08x}"
    return f"{family.name}/{recipe.architecture.model_id}/{settings.effort.name}/{mark}"


# ── levels and prices ─────────────────────────────────────────────────────────────────────────────


def ground_of(family: Family, settings: Settings) -> Ground:
    """Levels, demands and prices of a family."""
    levels = tuple(sorted({*settings.levels})) or family.levels
    finer = settings.protocol == "adaptive" and not settings.levels
    candidates = between(family, levels) if finer else levels
    tasks = {level: family.at(level) for level in candidates}
    model = settings.recipe.architecture
    return Ground(
        levels,
        candidates,
        {level: task.demand("nominal") or 1.0 for level, task in tasks.items()},
        {level: model.forward_flops(task.interface) for level, task in tasks.items()},
    )


def between(family: Family, levels: Sequence[int]) -> tuple[int, ...]:
    """The levels and others between them, so that demands lie about a quarter of a log2 bit apart."""
    found = set(levels)
    for low, high in itertools.pairwise(levels):
        ends = [math.log2(family.at(level).demand("nominal") or 1.0) for level in (low, high)]
        parts = max(round((ends[1] - ends[0]) / GAP), 1)
        targets = [ends[0] + (ends[1] - ends[0]) * part / parts for part in range(1, parts)]
        found.update(_closest(family, low, high, target) for target in targets)
    return tuple(sorted(found))


def _closest(family: Family, low: int, high: int, target: float) -> int:
    """The admissible level between two others whose log2 demand comes closest to a target."""

    def distance(level: int) -> float:
        return abs(math.log2(family.at(level).demand("nominal") or 1.0) - target)

    # Demands rise with the level: halve down to the crossing, then look around it.
    first, last = low, high
    while last - first > 1:
        middle = (first + last) // 2
        if math.log2(family.at(middle).demand("nominal") or 1.0) < target:
            first = middle
        else:
            last = middle
    around = range(max(low, first - LOOK), min(high, last + LOOK) + 1)
    admissible = [level for level in around if family.at(level).is_kin] or [low]
    return min(admissible, key=distance)


# ── rungs ─────────────────────────────────────────────────────────────────────────────────────────


class Rungs:
    """How the trials of earlier batches stood at the rungs, by level."""

    def __init__(self, plan: SearchPlan, step_limit: int) -> None:
        self.steps = rung_steps(plan, step_limit)
        self._standings: dict[str, dict[int, Standing]] = {}
        self._closed: dict[int, list[str]] = {}

    def note(self, run_id: str, step: int, stands: Standing) -> int | None:
        """Keep how a run stands; the rung, if this is the run's first checkpoint at one."""
        reached = [rung for rung in self.steps if rung <= step]
        mine = self._standings.setdefault(run_id, {})
        if not reached or reached[-1] in mine:
            return None
        mine[reached[-1]] = stands
        return reached[-1]

    def passes(self, run_id: str, level: int, step: int, stands: Standing, train_skill: float) -> bool:
        """Whether a run that has come to a checkpoint goes on."""
        rung = self.note(run_id, step, stands)
        if rung is None:
            return True
        rivals = [self._standings.get(rival, {}).get(rung) for rival in self._closed.get(level, [])]
        return not loses(stands, [one for one in rivals if one is not None], train_skill)

    def close(self, run_id: str, level: int) -> None:
        """A run has been told: it is a rival of those that begin later."""
        self._closed.setdefault(level, []).append(run_id)
