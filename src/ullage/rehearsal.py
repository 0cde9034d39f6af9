"""Rehearsals: campaigns in which nothing is trained and every result is drawn from a known world.

A world is a family whose true boundary is known: what a protocol says of it can be checked, and what
a campaign will cost can be told before it starts. Its recipes differ by how many log2 bits of
boundary they lose against the best one.

>>> ground = ground_of([1, 2, 4, 8, 16, 32, 64])
>>> world = World(log2_capacity=3.0, slope=16.0, lapse=0.0, concentration=10.0)
>>> protocol, spent = rehearse("adaptive", EFFORTS["quick"], ground, world, seed=0)
>>> bool(spent["final"].runs >= 6)
True
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from ullage.boundary import LEAST_SKILL
from ullage.protocol import EFFORTS, PROTOCOLS, Effort, Ground, Protocol, Wanted, search_plan
from ullage.record import LEARNED, Phase
from ullage.search import RUNGS, Point, Result, SearchPlan, Trial, objective

__all__ = ["EFFORTS", "Cost", "World", "draw_world", "ground_of", "rehearse"]

# Of a recipe against the best: a quarter of all recipes are as good as the best, others lose half a bit.
LOSS_SCALE, LOSS_FREE = 0.5, 0.15
# By how many log2 bits the boundaries of models and efforts differ that one would name in one breath.
UNLIKE = 0.3
BEYOND = 4.0  # log2 bits outside the range of levels: there all of it is learned, or nothing
FRESH, OF_THE_SEARCH, ONE = "fresh", "of the search", "one"
FASTEST, SLOWEST = 0.1, 0.9  # shares of the step limit that a run takes to learn: far below C, and near it


@dataclasses.dataclass(frozen=True)
class World:
    """A family whose truth is known, in log2 bits; `hole` is where it fails below its boundary."""

    log2_capacity: float  # where the best recipe's expected skill is one half
    slope: float
    lapse: float
    concentration: float
    hole: tuple[float, float] = (0.0, 0.0)
    # log2 demand, and the share of its steps that a run took there
    paces: tuple[tuple[float, float], ...] = ()

    def share_to_learn(self, log2_demand: float) -> float:
        """Which share of its steps a run takes that learns."""
        if self.paces:
            return min(self.paces, key=lambda pace: abs(pace[0] - log2_demand))[1]
        return FASTEST + (SLOWEST - FASTEST) * 2.0 ** min(log2_demand - self.log2_capacity, 0.0)

    def expected_skill(self, log2_demand: float, loss: float = 0.0) -> float:
        """The mean skill of runs at a demand, with a recipe that loses so many log2 bits of boundary."""
        if self.hole[0] <= log2_demand < self.hole[1]:
            return LEAST_SKILL
        log2_demand += loss
        odds = 0.5 / (1 - self.lapse)
        centre = self.log2_capacity + math.log(odds / (1 - odds + 1e-12)) / self.slope * (self.lapse > 0)
        falling = 1 / (1 + math.exp(min(max(self.slope * (log2_demand - centre), -40.0), 40.0)))
        return min(max((1 - self.lapse) * falling, LEAST_SKILL), 1 - LEAST_SKILL)


@dataclasses.dataclass(frozen=True)
class Known:
    """What runs of a family have shown, whatever the model: boundaries in log2 bits, paces as in `World`."""

    log2_capacities: tuple[float, ...] = ()
    paces: tuple[tuple[float, float], ...] = ()
    # the share of runs that failed below a level that was learned; None: not known
    lapse: float | None = None


NOTHING = Known()


def draw_world(random: np.random.Generator, lowest: float, highest: float, known: Known = NOTHING) -> World:
    """A world as likely as any: its boundary anywhere in the range or near a known one, shallow or steep."""
    anywhere = random.uniform(lowest, highest)
    if known.log2_capacities:
        anywhere = random.choice(known.log2_capacities) + random.normal(0.0, UNLIKE)
    return World(
        log2_capacity=float(np.clip(anywhere, lowest - BEYOND, highest + BEYOND)),
        slope=2 ** random.uniform(0.5, 5.0),
        lapse=float(random.choice([0.0, 0.0, 0.1])) if known.lapse is None else min(known.lapse, 0.3),
        concentration=10 ** random.uniform(-0.5, 1.3),
        paces=known.paces,
    )


def ground_of(levels: Sequence[int], candidates: Sequence[int] = ()) -> Ground:
    """A family whose level is its demand in bits, and where every step costs the same."""
    every = tuple(sorted({*levels, *candidates}))
    return Ground(tuple(levels), every, {level: float(level) for level in every}, dict.fromkeys(every, 1.0))


@dataclasses.dataclass
class Cost:
    """What was spent in one phase: runs, and their price in steps · the ground's `step_cost`."""

    runs: int = 0
    steps: int = 0
    price: float = 0.0


Drawn = Callable[[Wanted], Result]


def rehearse(
    name: str,
    effort: Effort,
    ground: Ground,
    world: World,
    seed: int,
    plan: SearchPlan | None = None,
    *,
    seeds: str = FRESH,
) -> tuple[Protocol, dict[str, Cost]]:
    """A whole campaign of one family in a world; the protocol at its end, and its cost by phase.

    With seeds `of the search` a verdict is the winner's own trial again; with `one` all verdicts at a level
    have one seed, and so one result. What is then wrong with the intervals is what fresh seeds are for.
    """
    random = np.random.default_rng(seed)
    plan = plan or search_plan(name, effort)
    default = _recipe(0.0 if random.random() < 0.5 else random.uniform(0.0, 0.5))
    protocol = PROTOCOLS[name](
        ground, effort, plan, lambda level, trials, number: _proposed(random, level, trials, number), default
    )
    spent = {str(phase): Cost() for phase in Phase}
    while batch := protocol.batch():
        for wanted in batch:
            result = draw_result(world, ground, wanted, effort, plan, random)
            if wanted.phase == Phase.FINAL:
                result = _of_seed(seeds, protocol, wanted, result)
            cost = spent[str(wanted.phase)]
            cost.runs += 1
            cost.steps += result.steps
            cost.price += result.steps * ground.step_cost[wanted.level]
            protocol.tell(wanted, result)
    return protocol, spent


def _of_seed(seeds: str, protocol: Protocol, wanted: Wanted, result: Result) -> Result:
    if seeds == OF_THE_SEARCH:
        trials = protocol.searches[wanted.level].results(wanted.point)
        return max(trials, key=lambda trial: trial.objective)
    if seeds == ONE and protocol.judged(wanted.level):
        return protocol.judged(wanted.level)[0]
    return result


def _recipe(loss: float) -> Point:
    return (("loss", loss),)


def _proposed(random: np.random.Generator, level: int, trials: Sequence[Trial], number: int) -> Point:
    del level, trials, number
    return _recipe(max(random.exponential(LOSS_SCALE) - LOSS_FREE, 0.0))


def draw_result(
    world: World,
    ground: Ground,
    wanted: Wanted,
    effort: Effort,
    plan: SearchPlan,
    random: np.random.Generator,
) -> Result:
    """What a run comes to in a world."""
    place = ground.log2_demand(wanted.level)
    loss = float(dict(wanted.point)["loss"])
    expected = world.expected_skill(place, loss)
    skill = float(random.beta(expected * world.concentration, (1 - expected) * world.concentration))
    solved = skill >= LEARNED
    share = world.share_to_learn(place + loss) if solved else 1.0
    stopped = not solved and wanted.phase == Phase.SEARCH and plan.uses_rungs and wanted.number > 1
    for rung in reversed(RUNGS):  # a trial that does not learn is below the middle as often as not
        share = rung if stopped and random.random() < 0.5 else share
    steps = math.ceil(share * effort.step_limit)
    worth = objective(skill, 0.0, steps if solved else None, effort.step_limit)
    return Result(True, skill, worth, solved, steps)
