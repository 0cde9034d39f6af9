"""Search: the best recipe for one family at one level, as far as so many trials can tell.

A trial is one training with one point of the search space, judged on validation questions. What is
tried first is given: recipes that won elsewhere. What comes then is for a proposer to say (see
`ullage.space`). Trials come in batches, and what a batch holds follows from the trials before it
alone, never from who was faster: a search that was interrupted goes on as it would have gone on.

    rungs    at a quarter and at half of its steps a trial is compared with those of earlier batches;
             it ends there if it is below their middle, unless it looks like late generalisation

>>> search = Search(SearchPlan(trials=4), first=[(("learning_rate", 0.003),)])
>>> [number for number, point in search.batch(lambda trials, number: ())]
[0]
"""

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ullage.record import LEARNED

Point = tuple[tuple[str, Any], ...]  # knobs of a recipe and their values, sorted by name

GAP_WEIGHT = 0.05  # of the generalisation gap: enough to prefer the recipe that does not only memorise
STEPS_WEIGHT = 0.01  # of the share of the step limit: ties among the solved go to the fastest
BETTER = 0.05  # by which a later recipe must win, or one lucky seed would have a level judged again
NEW_SHARE = 0.6  # of the trials of a search
DOUBT = 1.0  # trials of no merit that count with every point's own
CURIOSITY = 0.2  # of skill, for a point that one seed has spoken for
RUNGS = (0.25, 0.5)  # of the step limit
FEWEST_RIVALS = 1  # that have reached a rung, before a trial can lose there


@dataclasses.dataclass(frozen=True)
class SearchPlan:
    """How a level is searched."""

    trials: int
    width: int = 2  # trials of one batch, after the first
    ends_early: bool = True  # whether a solved trial ends the search: no recipe can do better
    uses_rungs: bool = True

    @property
    def new_points(self) -> int:
        """How many trials try a point that is new; the others try a leader again."""
        return math.ceil(self.trials * NEW_SHARE)


@dataclasses.dataclass(frozen=True)
class Result:
    """What a protocol has to know of a run that has ended."""

    counts: bool  # whether it is evidence: a run that failed for want of memory is none
    skill: float = 0.0  # on validation questions in a search, on test questions in the end
    objective: float = -math.inf
    solved: bool = False
    steps: int = 0


@dataclasses.dataclass(frozen=True)
class Trial:
    """One trial and what came of it."""

    number: int
    point: Point
    result: Result


Proposer = Callable[[Sequence[Trial], int], Point]


def objective(skill: float, gap: float | None, steps_to_solve: int | None, step_limit: int) -> float:
    """What a search raises: validation skill, less a little for memorising and for being slow.

    >>> objective(1.0, 0.0, 500, 1000) > objective(1.0, 0.0, 900, 1000) > objective(0.9, 0.1, None, 1000)
    True
    """
    slowness = 1.0 if steps_to_solve is None else steps_to_solve / step_limit
    return skill - GAP_WEIGHT * max(gap or 0.0, 0.0) - STEPS_WEIGHT * slowness


class Search:
    """The trials of one family at one level.

    Most trials try points that are new here; the last ones try the leaders once more, each on another
    seed, because near a boundary one run tells as much of its seed as of its recipe.
    """

    def __init__(self, plan: SearchPlan, first: Sequence[Point]) -> None:
        self.plan = plan
        self.trials: list[Trial] = []
        self._given = list(dict.fromkeys(first))[: plan.new_points]
        self._winner: Point | None = None
        self.elsewhere: Callable[[Point], list[float]] = lambda point: []  # merits at levels nearby

    @property
    def done(self) -> bool:
        """Whether there is nothing more to try."""
        if self.plan.ends_early and any(trial.result.solved for trial in self.trials):
            return True
        return not self._given and len(self.trials) >= self.plan.trials

    @property
    def winner(self) -> Point | None:
        """The point to be judged: the leader when the search ended, replaced only by a clearly better one."""
        return self._winner

    @property
    def leading(self) -> float:
        """The worth of the winner."""
        return -math.inf if self._winner is None else self.worth(self._winner)

    @property
    def solved(self) -> bool:
        """Whether a trial was solved."""
        return any(trial.result.solved for trial in self.trials)

    def results(self, point: Point) -> list[Result]:
        """What came of all trials of a point."""
        return [trial.result for trial in self.trials if trial.point == point]

    @property
    def mean(self) -> float:
        """The mean objective of all trials."""
        counted = [trial.result.objective for trial in self.trials if trial.result.counts]
        return statistics.fmean(counted) if counted else 0.0

    def merits(self, point: Point) -> list[float]:
        """By how much each trial of a point was better than the mean of this level."""
        mean = self.mean
        return [result.objective - mean for result in self.results(point) if result.counts]

    def worth(self, point: Point) -> float:
        """How good a point is here: its mean merit at this level and nearby, drawn towards nought.

        One lucky seed is not a good recipe.
        """
        here = self.merits(point)
        merits = here + (self.elsewhere(point) if here else [])
        return self.mean + sum(merits) / (len(merits) + DOUBT) if here else -math.inf

    def batch(self, propose: Proposer) -> list[tuple[int, Point]]:
        """The next trials, each with its number; none when the search is done."""
        if self.done:
            return []
        start = len(self.trials)
        size = self.plan.width if start else 1
        rest = max(self.plan.trials - start, len(self._given))
        chosen: list[tuple[int, Point]] = []
        for number in range(start, start + min(size, rest)):
            chosen.append((number, self._next(number, [point for _, point in chosen], propose)))
        return chosen

    def _next(self, number: int, beside: Sequence[Point], propose: Proposer) -> Point:
        if self._given:
            return self._given.pop(0)
        if number < self.plan.new_points:
            return propose(self.trials, number)
        tried = list(dict.fromkeys(trial.point for trial in self.trials))
        return max(tried, key=lambda point: self._promise(point, beside.count(point)))

    def _promise(self, point: Point, beside: int) -> float:
        """How good a point may be: its worth, and more where few seeds have spoken."""
        return self.worth(point) + CURIOSITY / (len(self.results(point)) + beside)

    def tell(self, number: int, point: Point, result: Result) -> None:
        """What came of a trial; a batch is told in the order of its numbers."""
        self.trials.append(Trial(number, point, result))
        best = max((trial.point for trial in self.trials), key=self.worth)
        later = len(self.trials) > self.plan.trials  # the winner of an ended search is being judged
        if self.worth(best) > self.leading + (BETTER if later else 0.0) or self._winner is None:
            self._winner = best

    def give(self, point: Point) -> bool:
        """A recipe that won elsewhere is tried here as well, unless it was; answers whether it will be."""
        if self.results(point) or point in self._given:
            return False
        self._given.append(point)
        return True


# ── rungs ─────────────────────────────────────────────────────────────────────────────────────────

Standing = tuple[float, float]  # at a rung: skill in twentieths, then minus the cross-entropy


def rung_steps(plan: SearchPlan, step_limit: int) -> tuple[int, ...]:
    """The steps from which on a trial is compared."""
    return tuple(math.ceil(share * step_limit) for share in RUNGS) if plan.uses_rungs else ()


def standing(skill: float, cross_entropy_bits: float | None) -> Standing:
    """How a trial stands at a rung; where skills are alike, the less surprised one is ahead.

    >>> standing(0.0, 0.9) > standing(0.01, 1.1), standing(0.3, 9.0) > standing(0.0, 0.1)
    (True, True)
    """
    rough = round(min(max(skill, 0.0), 1.0) * 20) / 20
    return rough, -(math.inf if cross_entropy_bits is None else cross_entropy_bits)


def loses(mine: Standing, rivals: Sequence[Standing], train_skill: float) -> bool:
    """Whether a trial ends at a rung.

    A trial that has learned its training examples and not yet the others may be about to generalise:
    it is kept, however far behind it is.

    >>> rivals = [(0.5, -1.0), (0.2, -1.0), (0.0, -1.0)]
    >>> loses((0.0, -2.0), rivals, train_skill=0.1), loses((0.0, -2.0), rivals, train_skill=0.99)
    (True, False)
    """
    if len(rivals) < FEWEST_RIVALS or train_skill >= LEARNED:
        return False
    return mine < sorted(rivals)[len(rivals) // 2]


# ── what a search says of itself ──────────────────────────────────────────────────────────────────


def optimism(searches: Mapping[int, Search], finals: Mapping[int, Sequence[float]]) -> float | None:
    """How much better winners looked in their search than on fresh seeds, on average over levels."""
    gaps = [
        best_skill(search) - statistics.fmean(finals[level])
        for level, search in searches.items()
        if search.leading > -math.inf and finals.get(level)
    ]
    return statistics.fmean(gaps) if gaps else None


def best_skill(search: Search) -> float:
    """The best skill that the winner of a search has shown there."""
    assert search.winner is not None
    return max(result.skill for result in search.results(search.winner))


def variance_shares(
    trials: Mapping[int, Sequence[float]], finals: Mapping[int, Sequence[float]]
) -> dict[str, float] | None:
    """The shares of recipe, seed and level in the variance of skill.

    Seed is the variance among the finals of a level, which share their recipe; recipe is what the
    variance among the trials of a level has beyond that; level is that of the levels' means.

    >>> variance_shares({1: [1.0, 0.0], 2: [1.0, 1.0]}, {1: [1.0, 1.0], 2: [1.0, 1.0]})
    {'recipe': 1.0, 'seed': 0.0, 'level': 0.0}
    """
    seeds = [statistics.variance(skills) for skills in finals.values() if len(skills) > 1]
    within = [statistics.variance(skills) for skills in trials.values() if len(skills) > 1]
    means = [statistics.fmean(skills) for skills in finals.values() if skills]
    if not seeds or not within or len(means) < 2:
        return None
    seed = statistics.fmean(seeds)
    recipe = max(statistics.fmean(within) - seed, 0.0)
    parts = {"recipe": recipe, "seed": seed, "level": statistics.variance(means)}
    total = sum(parts.values())
    return {name: part / total for name, part in parts.items()} if total else None
