"""Protocols: which runs a campaign makes, and in which order.

`grid` is the plain one: every family at each of its levels, on each of the fresh seeds, with one
recipe. Families come one after the other, the cheapest first, so that the first answer is there early.
Within a family each seed visits all levels before the next seed does: a campaign that is stopped
half-way has seen hard levels too, and not only the easy ones.

>>> [effort.seeds for effort in EFFORTS.values()]
[3, 3, 5]
"""

import dataclasses
from collections.abc import Sequence

from ullage import keys
from ullage.job import Job, describe_task
from ullage.recipe import Recipe
from ullage.task import Family


@dataclasses.dataclass(frozen=True)
class Effort:
    """What is spent to learn: never a clock, so that the same effort means the same everywhere."""

    name: str
    seeds: int
    step_limit: int


EFFORTS = {
    effort.name: effort
    for effort in (Effort("quick", 3, 4000), Effort("standard", 3, 16_000), Effort("full", 5, 64_000))
}


@dataclasses.dataclass(frozen=True)
class Planned:
    """One run of a campaign, with the family it belongs to."""

    family: str
    job: Job


def final_seed(seed: int, index: int) -> int:
    """The `index`-th fresh seed of a campaign; campaigns of neighbouring seeds share none.

    >>> final_seed(0, 0) != final_seed(0, 1) != final_seed(1, 0)
    True
    """
    return keys.stable_hash(f"final/{seed}/{index}")


def grid(
    families: Sequence[Family], recipe: Recipe, seeds: int, seed: int, levels: Sequence[int] = ()
) -> list[Planned]:
    """Every family at every level (its own, unless given) on every seed; see above for the order."""
    tasks = {family.name: [family.at(level) for level in levels or family.levels] for family in families}
    document = recipe.to_json()

    def cost(name: str) -> float:
        # A run that does not learn uses all its steps, and the hardest level is where runs do not.
        return max(recipe.architecture.forward_flops(task.interface) for task in tasks[name])

    return [
        Planned(name, Job(describe_task(task), document, final_seed(seed, index)))
        for name in sorted(tasks, key=lambda name: (cost(name), name))
        for index in range(seeds)
        for task in tasks[name]
    ]
