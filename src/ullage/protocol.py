"""Protocols: which run of a family comes next.

A protocol is told what came of its runs and says, batch by batch, which it wants; it ends when it
wants none. It knows levels, demands and prices, and nothing of training: so it is simulated in
milliseconds, and it goes on after an interruption by being told again what the store holds.

    adaptive   opens the level whose outcome tells most about log2 C for its price, searches there for a
               recipe, judges the winner on fresh seeds, and stops when the interval is narrow enough
    grid       searches every level alike and judges every winner on the same number of seeds

>>> [effort.trials for effort in EFFORTS.values()]
[3, 12, 50]
"""

import abc
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from ullage.boundary import UNKNOWN, Belief, Boundary, Lattice, cached_fit
from ullage.placement import gains, learning_chance
from ullage.record import Phase
from ullage.search import Point, Result, Search, SearchPlan, Trial


@dataclasses.dataclass(frozen=True)
class Effort:
    """What is spent to learn: never a clock, so that the same effort means the same everywhere."""

    name: str
    step_limit: int
    trials: int  # of a search, at one level
    seeds: int  # fresh ones at every level of a grid
    width: float  # of the 90 % interval in log2 bits, at which the adaptive protocol may stop
    fewest_finals: int  # and how many runs it needs for that
    most_finals: int  # with which it stops in any case
    scouts: tuple[float, ...] = ()  # log2 bits above the interval, where a recipe that won should fail
    train_examples: int = 0  # 0 for all there are


SCOUTS = (0.75, 1.5, 2.25)  # as far as a hole of one to two bits and what is learned above it reach
EFFORTS = {
    effort.name: effort
    for effort in (
        Effort("quick", 2000, 3, 3, width=1.0, fewest_finals=6, most_finals=12),
        Effort("standard", 16_000, 12, 3, width=0.5, fewest_finals=12, most_finals=40, scouts=SCOUTS),
        Effort("full", 64_000, 50, 5, width=0.5, fewest_finals=12, most_finals=80, scouts=SCOUTS),
    )
}


@dataclasses.dataclass(frozen=True)
class Ground:
    """What a protocol knows of a family before any run."""

    levels: tuple[int, ...]  # the default ones, easy to hard
    candidates: tuple[int, ...]  # those that may be opened; among them the default ones
    demand_bits: Mapping[int, float]  # nominal, of every candidate
    step_cost: Mapping[int, float]  # of one training step at every candidate, in any unit

    def log2_demand(self, level: int) -> float:
        """The demand of a level in log2 bits."""
        return math.log2(self.demand_bits[level])


class Wanted(NamedTuple):
    """One run that a protocol wants."""

    level: int
    phase: Phase
    number: int  # of the trial, or of the fresh seed, at this level
    point: Point
    round: int = 1  # how many recipes were judged at this level, this one included


# The point of trial `number` at a level, given the trials of earlier batches there (see `ullage.space`).
LevelProposer = Callable[[int, Sequence[Trial], int], Point]


class Protocol(abc.ABC):
    """The runs of one family, batch by batch."""

    def __init__(
        self,
        ground: Ground,
        effort: Effort,
        plan: SearchPlan,
        propose: LevelProposer,
        default: Point,
        hints: Sequence[Point] = (),
    ) -> None:
        self.ground, self.effort, self.plan = ground, effort, plan
        # A search begins with the default where nothing is known; hints won elsewhere and come before.
        self.propose, self.default, self.hints = propose, default, tuple(hints)
        self.searches: dict[int, Search] = {}
        # Finals by level and by the point that was judged, in the order of judging.
        self._finals: dict[int, dict[Point, list[Result]]] = {}

    @abc.abstractmethod
    def batch(self) -> list[Wanted]:
        """The runs that are wanted now; all of them are told before the next batch is asked for."""

    def tell(self, wanted: Wanted, result: Result) -> None:
        """What came of a run."""
        if wanted.phase == Phase.SEARCH:
            self.searches[wanted.level].tell(wanted.number, wanted.point, result)
        else:
            self._finals[wanted.level][wanted.point].append(result)

    # ── what is known ─────────────────────────────────────────────────────────────────────────

    def winner(self, level: int) -> Point | None:
        """The recipe to be judged at a level: that of its search, or the default where none is made."""
        search = self.searches.get(level)
        if not self.plan.trials:
            return self.default
        return search.winner if search else None

    def judged(self, level: int) -> list[Result]:
        """The finals of a level's present winner."""
        winner = self.winner(level)
        return self._finals.get(level, {}).get(winner, []) if winner is not None else []

    def counts(self, wanted: Wanted) -> bool:
        """Whether a run is evidence of capacity: a final of the recipe that won in the end."""
        return wanted.phase == Phase.FINAL and wanted.point == self.winner(wanted.level)

    @property
    def skills(self) -> dict[int, list[float]]:
        """The skills that count, by level, easy to hard."""
        found = {
            level: [result.skill for result in self.judged(level) if result.counts]
            for level in self.ground.candidates
        }
        return {level: skills for level, skills in found.items() if skills}

    def boundary(self) -> Boundary | None:
        """The boundary in bits of the nominal demand, as far as it is known."""
        runs = [
            (self.ground.demand_bits[level], skill)
            for level, skills in self.skills.items()
            for skill in skills
        ]
        return cached_fit(tuple(sorted(runs))) if runs else None

    # ── what to do ────────────────────────────────────────────────────────────────────────────

    def _trials(self, level: int) -> list[Wanted]:
        """The next batch of a level's search."""
        batch = self.searches[level].batch(partial(self.propose, level))
        return [Wanted(level, Phase.SEARCH, number, point) for number, point in batch]

    def _judge(self, level: int, count: int) -> list[Wanted]:
        """So many further finals of a level's winner, on seeds that no run had."""
        point = self.winner(level)
        assert point is not None
        by_point = self._finals.setdefault(level, {})
        by_point.setdefault(point, [])
        used = sum(len(results) for results in by_point.values())
        return [Wanted(level, Phase.FINAL, used + place, point, len(by_point)) for place in range(count)]


class Grid(Protocol):
    """Every default level alike. Without a search each seed visits all levels before the next does."""

    def batch(self) -> list[Wanted]:
        if self.plan.trials:
            for level in self.ground.levels:
                if level not in self.searches:
                    self.searches[level] = Search(self.plan, [*self.hints, self.default])
            searching = [wanted for level in self.ground.levels for wanted in self._trials(level)]
            if searching:
                return searching
        missing = [(level, self.effort.seeds - self._count(level)) for level in self.ground.levels]
        batches = [self._judge(level, count) for level, count in missing if count > 0]
        return sorted((wanted for batch in batches for wanted in batch), key=lambda wanted: wanted.number)

    def _count(self, level: int) -> int:
        return sum(len(results) for results in self._finals.get(level, {}).values())


HALF = 0.5  # the skill that divides learning from failing, where the boundary is
FINALS_AT_ONCE = 2  # seeds of one batch: a level with one seed alone says little
SENTINELS = (1.0, 2.0, 3.5)  # log2 bits below the interval, where a monotone learner cannot fail
SUSPECTED_FINALS = 6  # at a sentinel that failed, before its failure is believed
LIKELY_STEPS = 0.4  # of the step limit, for a run that learns, until one has been seen
LIKELY_SHARE = 0.6  # of the step limit, for a trial of a search that fails: rungs end some
NEAR = 1.5  # log2 bits up to which a recipe that won at one level is tried at another
ENOUGH_BEYOND = 3  # finals at the end of the range, before "beyond it" is believed


class Adaptive(Protocol):
    """The level that tells most for its price; see the head of this file."""

    def batch(self) -> list[Wanted]:
        for level in list(self.searches):
            if trials := self._trials(level):
                return trials
        if self._spread_winners():
            return self.batch()
        for level in self._finals:
            if not self.judged(level):  # its recipe was replaced after it had been judged
                return self._judge(level, FINALS_AT_ONCE)
        if self._finals and (self._is_enough() or self._is_spent()):
            return self._sentinels() or self._scouts()
        return self._opened_or_judged(self._end_to_judge() or self._best_level())

    def _opened_or_judged(self, level: int, trials: int | None = None) -> list[Wanted]:
        """The search of a level, or finals where it has been searched."""
        plan = self.plan if trials is None else dataclasses.replace(self.plan, trials=trials)
        if level not in self.searches and plan.trials:
            self.searches[level] = Search(plan, self._first_points(level))
            self.searches[level].elsewhere = partial(self._merits_near, level)
        search = self.searches.get(level)
        if search and search.plan.trials < plan.trials:
            search.plan = plan  # what was scouted is now searched in earnest
        return (search and self._trials(level)) or self._judge(level, FINALS_AT_ONCE)

    def _first_points(self, level: int) -> list[Point]:
        """Winners of other levels, those that learned and near ones first; the default before mere luck."""
        others = sorted(self._others(level), key=lambda other: not self.searches[other].solved)
        learned = [other for other in others if self.searches[other].leading >= HALF]
        rest = [other for other in others if other not in learned]
        points = [*map(self.winner, learned), *self.hints, self.default, *map(self.winner, rest)]
        return [point for point in points if point is not None]

    def _merits_near(self, level: int, point: Point) -> list[float]:
        """What a recipe was worth at other levels nearby: a good one is good at more than one."""
        near = [other for other in self._others(level) if self._distance(level, other) <= NEAR]
        return [merit for other in near for merit in self.searches[other].merits(point)]

    def _distance(self, level: int, other: int) -> float:
        return abs(self.ground.log2_demand(other) - self.ground.log2_demand(level))

    def _others(self, level: int) -> list[int]:
        others = [other for other in self.searches if other != level and self.winner(other) is not None]
        return sorted(others, key=lambda other: (self._distance(level, other), other))

    def _spread_winners(self) -> bool:
        """Give a winner to the levels nearby that do worse: there, too, it may be the better recipe."""
        given = False
        judged = [level for level in self.searches if self.judged(level)]  # not those that were scouted only
        for level in judged:
            search = self.searches[level]
            for other in [] if search.solved else self._others(level):
                rival, there = self.winner(other), self.searches[other]
                near = self._distance(level, other) <= NEAR
                if near and rival is not None and there.worth(rival) > search.leading:
                    given = search.give(rival) or given
        return given

    # ── when to stop ──────────────────────────────────────────────────────────────────────────

    @property
    def _asked(self) -> int:
        return sum(len(results) for points in self._finals.values() for results in points.values())

    def _is_spent(self) -> bool:
        return self._asked >= self.effort.most_finals

    def _ends(self) -> tuple[float | None, float | None]:
        """The interval of log2 C, as far as it is known."""
        boundary = self.boundary()
        found = boundary.interval() if boundary else UNKNOWN
        low, high = (None if end is None else math.log2(end) for end in (found.low, found.high))
        return low, high

    def _is_enough(self) -> bool:
        low, high = self._ends()
        if low is None or high is None:
            end = self._outer_level()
            return end is not None and self._lies_beyond(end)
        pairs = sum(len(same) > 1 for same in self.skills.values()) > 1
        return pairs and self._asked >= self.effort.fewest_finals and high - low <= self.effort.width

    def _lies_beyond(self, end: int) -> bool:
        """Whether enough runs at an end of the range put the boundary beyond it.

        Where the hardest level fails, or the easiest is learned, it lies inside, however close.
        """
        skills = self.skills.get(end, [])
        learned = float(np.mean(skills)) >= HALF if skills else False
        return len(skills) >= ENOUGH_BEYOND and learned == (end == self.ground.candidates[-1])

    def _outer_level(self) -> int | None:
        """The end of the range, if the boundary seems to lie beyond it or close to it."""
        low, high = self._ends()
        first, last = self.ground.candidates[0], self.ground.candidates[-1]
        if high is None and low is not None and self.ground.log2_demand(last) - low <= self.effort.width:
            return last
        if low is None and high is not None and high - self.ground.log2_demand(first) <= self.effort.width:
            return first
        return None

    def _end_to_judge(self) -> int | None:
        """The end of the range while it takes more runs to believe what lies beyond it.

        A gain cannot tell: how far beyond, no run inside the range finds out.
        """
        end = self._outer_level()
        return end if end is not None and len(self.skills.get(end, [])) < ENOUGH_BEYOND else None

    def _sentinels(self) -> list[Wanted]:
        """Two finals far below the interval, and more where these fail."""
        low, _ = self._ends()
        if low is None:
            return []
        for distance in SENTINELS:
            level = self._nearest(low - distance)
            if level is None:
                continue
            judged = self.judged(level)
            failing = sum(result.skill < HALF for result in judged) * 2 >= max(len(judged), 1)
            wanted = SUSPECTED_FINALS if failing and len(judged) >= FINALS_AT_ONCE else FINALS_AT_ONCE
            if len(judged) < wanted:
                return self._opened_or_judged(level)
        return []

    def _scouts(self) -> list[Wanted]:
        """One trial far above the interval, and finals where it is learned after all."""
        _, high = self._ends()
        if high is None:
            return []
        for distance in self.effort.scouts:
            far = high + distance
            level = next((one for one in self.ground.candidates if self.ground.log2_demand(one) >= far), None)
            if level is None or self.judged(level):
                continue
            trials = self.searches[level].trials if level in self.searches else []
            if not trials or any(trial.result.skill >= HALF for trial in trials):
                return self._opened_or_judged(level, trials=min(self.plan.trials, 1))
        return []

    def _nearest(self, log2_demand: float) -> int | None:
        """The hardest candidate that demands no more."""
        below = [level for level in self.ground.candidates if self.ground.log2_demand(level) <= log2_demand]
        return below[-1] if below else None

    # ── where to go on ────────────────────────────────────────────────────────────────────────

    @cached_property
    def _lattice(self) -> Lattice:
        return Lattice.over(self._demands)

    @cached_property
    def _demands(self) -> list[float]:
        return [self.ground.log2_demand(level) for level in self.ground.candidates]

    def _best_level(self) -> int:
        belief = Belief.before(self._lattice)
        for level, skills in self.skills.items():
            belief = belief.after(self.ground.log2_demand(level), skills)
        told = gains(belief, self._demands)
        prices = [self._price(belief, level) for level in self.ground.candidates]
        # Equal worth: the middle of the range tells most of a boundary that may be anywhere.
        return self.ground.candidates[int(np.argmax(told / np.array(prices)))]

    def _price(self, belief: Belief, level: int) -> float:
        """What a batch of finals at a level is expected to cost, with its search if it has none yet."""
        chance = learning_chance(belief, self.ground.log2_demand(level))
        solved = [result.steps for result in self.judged(level) if result.solved]
        steps = float(np.mean(solved)) if solved else LIKELY_STEPS * self.effort.step_limit
        final = chance * steps + (1 - chance) * self.effort.step_limit
        total = FINALS_AT_ONCE * final
        if self.plan.trials and level not in self.searches:
            failing = self.plan.trials * LIKELY_SHARE * self.effort.step_limit
            total += chance * steps + (1 - chance) * failing
        return total * self.ground.step_cost[level]


def search_plan(protocol: str, effort: Effort) -> SearchPlan:
    """How a protocol searches: a grid gives every trial all its steps, and every level all its trials."""
    adapts = PROTOCOLS[protocol] is Adaptive
    return SearchPlan(effort.trials, ends_early=adapts, uses_rungs=adapts)


PROTOCOLS: dict[str, type[Protocol]] = {"adaptive": Adaptive, "grid": Grid}
