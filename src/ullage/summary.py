"""Summaries: from the evidence of one model to its effective capacity, family by family.

Pure functions from observations and budgets to the document that `ullage measure` prints. Each notion
of demand is fitted for itself; a family counts under a notion only if its levels raise that demand.

>>> level_summaries([])
[]
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ullage.boundary import UNKNOWN, Boundary, Interval, cached_fit, in_levels, is_monotone, typical
from ullage.observations import NOTIONS, Observation
from ullage.record import LEARNED


@dataclasses.dataclass(frozen=True)
class FamilySummary:
    """What is known of one family."""

    name: str
    nominal: str
    capacity_bits: Mapping[str, Interval]
    boundary_level: Interval
    binding_budget: str | None
    monotone: bool
    levels: Sequence[Mapping[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """The document of a family."""
        intervals = {notion: interval.to_json() for notion, interval in self.capacity_bits.items()}
        return {
            "nominal": self.nominal,
            "capacity_bits": intervals,
            "boundary_level": self.boundary_level.to_json(),
            "binding_budget": self.binding_budget,
            "monotone": self.monotone,
            "levels": list(self.levels),
        }


def family_summary(
    name: str, nominal: str, runs: Sequence[Observation], shares: Mapping[str, float]
) -> FamilySummary:
    """One family's boundary under every notion that it raises; `nominal` is its own.

    `shares` are the budget shares that its hardest level asks for; the largest binds.
    """
    levels = level_summaries(runs)
    capacity = {
        notion: boundary.interval()
        for notion in NOTIONS
        if (boundary := boundary_of(runs, notion)) is not None
    }
    return FamilySummary(
        name,
        nominal,
        capacity,
        in_levels(capacity[nominal], _asked(runs)) if nominal in capacity else UNKNOWN,
        max(shares, key=lambda budget: shares[budget]) if shares else None,
        is_monotone([(float(run.demand_bits("nominal") or 1.0), run.skill) for run in runs]),
        levels,
    )


def level_summaries(runs: Sequence[Observation]) -> list[dict[str, Any]]:
    """One row a level, easy to hard: its demands, its mean skill, whether it counts as learned."""
    by_level: dict[int, list[Observation]] = collections.defaultdict(list)
    for run in runs:
        by_level[run.level].append(run)
    rows = []
    for level, same in sorted(by_level.items()):
        skill = float(np.mean([run.skill for run in same]))
        demands = {notion: same[0].demands.get(notion) for notion in NOTIONS}
        rows.append(
            {
                "level": level,
                "demand_bits": demands,
                "learned": skill >= LEARNED,
                "runs": len(same),
                "skill": skill,
            }
        )
    return rows


def boundary_of(runs: Sequence[Observation], notion: str) -> Boundary | None:
    """The fitted boundary, or None where the levels do not raise this demand."""
    pairs = tuple((run.demand_bits(notion), run.skill) for run in runs)
    demands = {demand for demand, _ in pairs}
    by_level = {run.level for run in runs}
    if None in demands or len(demands) < max(len(by_level), 1) or min(demands, default=0.0) <= 0.0:  # type: ignore[type-var]
        return None
    if len(by_level) == 1 and any(notion not in ("nominal", run.nominal) for run in runs):
        return None  # whether the levels raise this demand cannot be seen at one level
    return cached_fit(tuple(sorted(pairs)))  # type: ignore[arg-type]


def _asked(runs: Sequence[Observation]) -> list[tuple[float, int]]:
    return [(run.demand_bits("nominal") or 0.0, run.level) for run in runs]


def capacity_summary(
    runs: Sequence[Observation], notion: str, budgets: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """C of the typical family under a notion, and its share of each budget it is compared with.

    `budgets[family]` are the budgets of the model on that family, by name; a budget that depends on
    the family (embeddings differ) enters by its geometric mean.
    """
    names = sorted({run.task for run in runs})
    fitted = {name: boundary_of([run for run in runs if run.task == name], notion) for name in names}
    found = {name: boundary for name, boundary in fitted.items() if boundary is not None}
    capacity = typical(list(found.values()))
    utilisation = {
        budget: _share(capacity, _mean(budgets, found, budget)) for budget in _common(budgets, found)
    }
    return {
        "capacity_bits": capacity.to_json(),
        "families": list(found),
        "utilisation": {budget: share.to_json() for budget, share in utilisation.items()},
    }


def _common(budgets: Mapping[str, Mapping[str, float]], names: Mapping[str, Any]) -> list[str]:
    return sorted(set.intersection(*(set(budgets.get(name, {})) for name in names))) if names else []


def _mean(budgets: Mapping[str, Mapping[str, float]], names: Mapping[str, Any], budget: str) -> float:
    return float(2 ** np.mean([np.log2(budgets[name][budget]) for name in names]))


def _share(bits: Interval, budget: float) -> Interval:
    ends = (None if end is None else end / budget for end in (bits.median, bits.low, bits.high))
    return Interval(*ends)
