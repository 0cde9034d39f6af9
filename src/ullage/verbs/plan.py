"""What a measurement will cost, told as a range before anything is trained.

Every campaign is rehearsed in worlds, and four of five rehearsals cost what is said here; where these
scatter over more than a factor of four, as many from their middle as lie within one. Their boundary
lies near those that runs of the family showed before, of whatever model: stored ones, or else those that
come with the package; of a family that nobody has run it may lie anywhere in the range of demands. What
this very study has stored already is taken off. Time is told as if no worker ever waited.

>>> import tempfile
>>> found = plan(["parity"], levels=[5, 6], protocol="grid", trials=0, seeds=3, store=tempfile.mkdtemp())
>>> found["runs"]["final"]
{'low': 6, 'high': 6}
"""

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ullage import keys
from ullage.boundary import Boundary
from ullage.campaign import Campaign
from ullage.job import BACKWARD_FLOPS
from ullage.observations import observe
from ullage.protocol import HALF
from ullage.record import LEARNED, Phase, RunRecord
from ullage.rehearsal import BEYOND, Known, draw_world, rehearse
from ullage.request import (
    DEFAULT_COLLECTION,
    check_workers,
    default_workers,
    find_campaigns,
    find_effort,
    find_families,
    find_settings,
)
from ullage.shipped import shipped_records
from ullage.store import open_store
from ullage.study import Study
from ullage.summary import boundary_of

WORLDS = 20
# Of the rehearsals, left out at each end: the first that keeps the rest within the factor below.
TAILS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
WIDEST = 4.0  # a range that spans more is of no use to who has to decide
UNLIKE_WORLDS = 1.1  # by which factor a range is wider than its rehearsals: no world is quite the real one
MODELS_ASKED = 2  # where the campaign's own has not been run
DRAWS_APART = 40  # of a boundary's draws: a hundred say where it lies
# Training makes its products at so much of the rate of large ones, and every step takes as long again as so
# many FLOPs of those, whatever it multiplies: fitted to the classic campaigns of nano on one idle machine.
PRODUCT_SHARE, STEP_FLOPS = 0.45, 3.8e8
MATRIX_SIDE, MATRIX_SECONDS = 1024, 0.25


class Spent(NamedTuple):
    """What one rehearsal, or what is stored, cost."""

    search: float
    final: float
    train_steps: float
    train_flops: float

    @property
    def work(self) -> float:
        """How many FLOPs of large matrix products take as long."""
        return work(self.train_steps, self.train_flops)


def work(train_steps: float, train_flops: float) -> float:
    """What so much training takes, in FLOPs of large matrix products."""
    return train_flops / PRODUCT_SHARE + train_steps * STEP_FLOPS


def plan(
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
    store: str | Path = "ullage-store",
    workers: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """What `measure` with the same arguments would still cost; trains nothing and writes nothing."""
    families = find_families(names)
    chosen = find_effort(effort, protocol, steps, trials, seeds, train_examples)
    settings = find_settings(chosen, protocol, model, knobs or {}, levels, seed, search_embedding)
    check_workers(workers)
    opened = open_store(Path(store))
    campaigns = find_campaigns(families, settings, opened)
    study = Study(campaigns, opened)
    model_id = settings.recipe.architecture.model_id
    records = list(study.known.values())
    speed = find_speed(model_id, records, workers or default_workers())
    known = {campaign.family.name: known_of(campaign, records) for campaign in campaigns}
    return {
        "model_id": model_id,
        "effort": chosen.name,
        "protocol": protocol,
        "families": [campaign.family.name for campaign in campaigns],
        **what_is_left(campaigns, study, speed["flops_per_second"], known),
        "already_stored": len(study.records),
        "speed": speed,
        "store": str(store),
    }


def known_of(campaign: Campaign, records: Sequence[RunRecord]) -> Known:
    """What other runs of the family have shown: stored ones, or else those that come with the package.

    Runs of the same model tell most; where there are none, those of the models that are most like it.
    """
    for source in (records, shipped_records()):
        by_model: dict[str, list[RunRecord]] = {}
        for record in source:
            if record.task == campaign.family.name and record.study != campaign.study:
                by_model.setdefault(record.model_id, []).append(record)
        boundaries = {model_id: boundaries_in(runs) for model_id, runs in by_model.items()}
        told = sorted(
            (unlikeness(campaign, by_model[model_id][0]), model_id)
            for model_id, found in boundaries.items()
            if found
        )
        asked = 1 if told and told[0][0] == 0.0 else MODELS_ASKED
        nearest = [model_id for _, model_id in told[:asked]]
        if nearest:
            draws = [draw for model_id in nearest for draw in boundaries[model_id]]
            runs = [run for model_id in nearest for run in by_model[model_id]]
            return Known(tuple(draws), paces_in(runs), lapse_in(runs))
    return Known()


def unlikeness(campaign: Campaign, record: RunRecord) -> float:
    """How little a run's model resembles that of a campaign: the sum of its log2 ratios; 0 for itself."""
    model = campaign.settings.recipe.architecture
    if record.model_id == model.model_id:
        return 0.0
    mine = {**model.columns(), "parameters": model.parameters(campaign.family.at(record.level).interface)}
    theirs = {name: getattr(record, name) for name in mine}
    return 1e-9 + sum(abs(math.log2((theirs[name] or 1) / (mine[name] or 1))) for name in mine)


def boundaries_in(records: Sequence[RunRecord]) -> tuple[float, ...]:
    """Draws of log2 C of every technique and step limit in turn.

    A boundary beyond the demands that were tried counts as far beyond: as far as is known, all was learned.
    """
    alike: dict[tuple[str, int], list[RunRecord]] = {}
    for record in records:
        alike.setdefault((record.technique, record.step_limit), []).append(record)
    # One level alone has no boundary.
    several = [same for same in alike.values() if len({record.level for record in same}) > 1]
    fitted = [boundary_of(observe(same).runs, "nominal") for same in several]
    return tuple(draw for one in fitted if one is not None for draw in _draws(one))


def _draws(boundary: Boundary) -> list[float]:
    low, high = boundary.tried
    middle = float(np.median(boundary.draws))
    if low <= middle <= high:
        return np.clip(boundary.draws[::DRAWS_APART], low, high).tolist()
    return [high + BEYOND if middle > high else low - BEYOND]


def paces_in(records: Sequence[RunRecord]) -> tuple[tuple[float, float], ...]:
    """By log2 demand, which share of its steps the middle one of the runs took that learned there."""
    shares: dict[float, list[float]] = {}
    for record in records:
        if record.is_evidence and (record.skill or 0.0) >= LEARNED and record.demand_bits:
            place = math.log2(record.demand_bits)
            shares.setdefault(place, []).append(record.train_steps / record.step_limit)
    return tuple((place, statistics.median(found)) for place, found in sorted(shares.items()))


def lapse_in(records: Sequence[RunRecord]) -> float | None:
    """The share of runs that failed although a harder level was learned; None where there are none."""
    found = [(one.demand_bits or 0.0, one.skill or 0.0) for one in records if one.is_evidence]
    hardest = max((bits for bits, skill in found if skill >= LEARNED), default=0.0)
    below = [skill < HALF for bits, skill in found if bits < hardest]
    return statistics.fmean(below) if below else None


def what_is_left(
    campaigns: Sequence[Campaign],
    study: Study,
    flops_per_second: float,
    known: Mapping[str, Known] = MappingProxyType({}),
) -> dict[str, Any]:
    """The ranges of what a study has still to spend, all of them zero when it is complete."""
    numbers = () if study.complete else range(WORLDS)
    rehearsed = [rehearsed_in(campaigns, number, known) for number in numbers]
    stored, queued = stored_by(study), queued_by(study)
    ranges = {
        name: _range([getattr(one, name) for one in rehearsed], getattr(stored, name), getattr(queued, name))
        for name in (*Spent._fields, "work")
    }
    return {
        "runs": {str(phase): _whole(ranges[phase]) for phase in Phase},
        "train_steps": _whole(ranges["train_steps"]),
        "train_flops": ranges["train_flops"],
        "seconds_here": {end: value / flops_per_second for end, value in ranges["work"].items()},
    }


def rehearsed_in(
    campaigns: Sequence[Campaign], number: int, known: Mapping[str, Known] = MappingProxyType({})
) -> Spent:
    """What all campaigns of a study cost in one draw of their worlds."""
    costs = []
    for campaign in campaigns:
        ground, settings = campaign.ground, campaign.settings
        lowest, highest = map(ground.log2_demand, (ground.candidates[0], ground.candidates[-1]))
        seed = keys.stable_hash(f"{campaign.study}/world {number}")
        seen = known.get(campaign.family.name, Known())
        world = draw_world(np.random.default_rng(seed), lowest, highest, seen)
        _, spent = rehearse(settings.protocol, settings.effort, ground, world, seed)
        # A price is in forward passes of one example at every step, a step trains on a batch.
        flops = settings.recipe.batch_size * (1 + BACKWARD_FLOPS)
        phases = spent.values()
        steps, price = (sum(getattr(cost, what) for cost in phases) for what in ("steps", "price"))
        costs.append(Spent(spent[Phase.SEARCH].runs, spent[Phase.FINAL].runs, steps, flops * price))
    return Spent(*map(sum, zip(*costs, strict=True)))


def stored_by(study: Study) -> Spent:
    """What the stored runs of a study cost."""
    records = list(study.records.values())
    return Spent(
        sum(record.phase == Phase.SEARCH for record in records),
        sum(record.phase == Phase.FINAL for record in records),
        sum(record.train_steps for record in records),
        sum(record.train_flops or 0.0 for record in records),
    )


def queued_by(study: Study) -> Spent:
    """The least that is left: the runs that a study would start next."""
    phases = [job.phase for course in study.courses for job in course.queue]
    return Spent(phases.count(str(Phase.SEARCH)), phases.count(str(Phase.FINAL)), 0.0, 0.0)


def _range(values: Sequence[float], stored: float, least: float) -> dict[str, float]:
    if not values:
        return {"low": 0.0, "high": 0.0}
    ends = [np.quantile(values, [tail, 1 - tail]).tolist() for tail in TAILS]
    close = [(low, high) for low, high in ends if high * UNLIKE_WORLDS**2 < WIDEST * low]
    low, high = (close or ends[-1:])[0]
    # A number of runs that all rehearsals agree upon is known: a grid's.
    wider = UNLIKE_WORLDS if low < high else 1.0
    return {"low": max(low / wider - stored, least), "high": max(high * wider - stored, least)}


def _whole(found: Mapping[str, float]) -> dict[str, int]:
    return {end: round(value) for end, value in found.items()}


def find_speed(model_id: str, records: Sequence[RunRecord], workers: int) -> dict[str, Any]:
    """How much work so many workers do, from stored runs of the model or else from matrix products."""
    timed = [record for record in records if record.model_id == model_id and record.train_flops]
    seconds = sum(record.seconds for record in timed)
    lanes = min(workers, default_workers())  # more workers than cores are no faster
    if seconds > 0:
        rate = sum(work(record.train_steps, record.train_flops or 0.0) for record in timed) / seconds
        return {"flops_per_second": rate * lanes, "workers": workers, "stored_runs": len(timed)}
    rate = matrix_flops_per_second() / default_workers()
    return {"flops_per_second": rate * lanes, "workers": workers, "stored_runs": 0}


def matrix_flops_per_second() -> float:
    """The rate of large matrix products on all cores of this machine."""
    import jax
    import jax.numpy as jnp

    square = jnp.ones((MATRIX_SIDE, MATRIX_SIDE), jnp.float32)
    product = jax.jit(jnp.matmul)
    jax.block_until_ready(product(square, square))
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < MATRIX_SECONDS:
        jax.block_until_ready(product(square, square))
        done += 1
    return done * 2.0 * MATRIX_SIDE**3 / (time.perf_counter() - began)
