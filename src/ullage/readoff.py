"""Read-offs: what a posterior says of models, families, techniques and growth, with 90 % intervals.

Pure functions of a posterior. A capacity is read off the curve, where the expected skill is one half; an
end that lies beyond the levels that were tried is not bounded by the runs, and is None.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ullage.boundary import CREDIBLE, UNKNOWN, Interval, in_levels, interval_within
from ullage.budget import COMPARED, STORAGE_BITS_PER_PARAMETER
from ullage.conditions import Conditions
from ullage.observations import NO_TECHNIQUE, NOMINAL
from ullage.posterior import Posterior

ALIKE = 0.99  # two sizes of models that are correlated so closely cannot be told apart as causes


def summary(posterior: Posterior) -> dict[str, Any]:
    """The document of a fit, but for its notions; a model stands once for each technique it was run with."""
    conditions = posterior.conditions
    growth, why = growth_exponent(posterior)
    return {
        "demand_notion": conditions.notion,
        "effort": dataclasses.asdict(posterior.effort),
        "families": list(conditions.families),
        "models": [
            describe(conditions, *learner)
            | {
                "capacity_bits": model_capacity(posterior, *learner).to_json(),
                "utilisation": _documents(utilisation(posterior, *learner)),
                "headroom_bits": _documents(headroom(posterior, *learner)),
            }
            for learner in learners(conditions)
        ],
        "tasks": {
            family: {
                "difficulty": quantiles(posterior.draws["difficulty"][:, place]).to_json(),
                "slope": quantiles(posterior.draws["slope"][:, place]).to_json(),
            }
            for place, family in enumerate(conditions.families)
        },
        "capacity": [
            describe(conditions, model, technique)
            | {
                "task": conditions.families[family],
                **_bits_and_level(posterior, model, technique, family),
            }
            for model, technique in learners(conditions)
            for family in families_of(conditions, model, technique)
        ],
        "multipliers": _documents(multipliers(posterior)),
        "growth_exponent": None if growth is None else growth.to_json(),
        "diagnostics": {
            "rhat_max": posterior.diagnostics.rhat_max,
            "ess_min": posterior.diagnostics.ess_min,
            "divergences": posterior.diagnostics.divergences,
            "trusted": posterior.diagnostics.trusted,
            "excluded": dict(posterior.excluded),
            "notes": [why] if why else [],
        },
    }


def _bits_and_level(posterior: Posterior, model: int, technique: int, family: int) -> dict[str, Any]:
    bits = family_capacity(posterior, model, technique, family)
    conditions, here = posterior.conditions, posterior.conditions.family == family
    asked = zip(conditions.demand_bits[here].tolist(), conditions.level[here].tolist(), strict=True)
    level = in_levels(bits, asked)
    return {"capacity_bits": bits.to_json(), "boundary_level": level.to_json()}


def _documents(intervals: Mapping[str, Interval] | None) -> dict[str, Any] | None:
    return None if intervals is None else {name: one.to_json() for name, one in intervals.items()}


def quantiles(draws: np.ndarray) -> Interval:
    """The median and the ends of the 90 % interval.

    >>> quantiles(np.arange(101.0))
    Interval(median=50.0, low=5.0, high=95.0)
    """
    low, median, high = np.quantile(draws, [CREDIBLE[0], 0.5, CREDIBLE[1]])
    return Interval(float(median), float(low), float(high))


def learners(conditions: Conditions) -> list[tuple[int, int]]:
    """The pairs of model and technique that have runs."""
    told = conditions.runs > 0
    return sorted({*zip(conditions.model[told].tolist(), conditions.technique[told].tolist(), strict=True)})


def families_of(conditions: Conditions, model: int, technique: int) -> list[int]:
    """The families that a learner was tried on."""
    return [
        family
        for family in range(len(conditions.families))
        if tried(conditions, model, technique, family) is not None
    ]


def tried(conditions: Conditions, model: int, technique: int, family: int) -> tuple[float, float] | None:
    """The least and the largest log2 demand that a learner was tried on in a family."""
    place = (conditions.model == model) & (conditions.technique == technique) & (conditions.family == family)
    demands = conditions.log2_demand[place & (conditions.runs > 0)]
    return (float(demands.min()), float(demands.max())) if demands.size else None


def describe(conditions: Conditions, model: int, technique: int) -> dict[str, Any]:
    """The document of a learner."""
    parameters = conditions.parameters[model]
    size = None if parameters is None else round(parameters)
    shape = dataclasses.asdict(conditions.models[model])
    return {**shape, "parameters": size, "technique": conditions.techniques[technique]}


# ── capacities ────────────────────────────────────────────────────────────────────────────────────


def half_skill(posterior: Posterior, model: int, technique: int, family: int) -> np.ndarray:
    """log2 C of a learner on a family, for every draw."""
    return posterior.curve(model, family, technique).half_skill()


def family_capacity(posterior: Posterior, model: int, technique: int, family: int) -> Interval:
    """C of a learner on a family in bits, bounded only by the levels it was tried on."""
    ends = tried(posterior.conditions, model, technique, family)
    return interval_within(half_skill(posterior, model, technique, family), *ends) if ends else UNKNOWN


def model_capacity(posterior: Posterior, model: int, technique: int) -> Interval:
    """C of a learner on the typical one of the fitted families: the average of log2 C, in bits.

    An end is known if some learner bounds every family on that side, and this learner bounds one of its
    own. A family that nobody bounds counts with the last demand that was tried, so the other end holds
    without it.
    """
    conditions = posterior.conditions
    own = [
        family_capacity(posterior, model, technique, one) for one in families_of(conditions, model, technique)
    ]
    parts, no_low, no_high = [], False, False
    for family in range(len(conditions.families)):
        found = [family_capacity(posterior, *one, family) for one in learners(conditions)]
        draws = half_skill(posterior, model, technique, family)
        demands = conditions.log2_demand[(conditions.family == family) & (conditions.runs > 0)]
        if all(one.low is None for one in found):
            no_low, draws = True, np.maximum(draws, demands.min())
        if all(one.high is None for one in found):
            no_high, draws = True, np.minimum(draws, demands.max())
        parts.append(draws)
    no_low = no_low or all(one.low is None for one in own)
    no_high = no_high or all(one.high is None for one in own)
    ends = quantiles(np.mean(parts, axis=0))
    assert ends.median is not None
    assert ends.low is not None
    assert ends.high is not None
    return Interval(
        None if no_low or no_high else 2**ends.median,
        None if no_low else 2**ends.low,
        None if no_high else 2**ends.high,
    )


def utilisation(posterior: Posterior, model: int, technique: int) -> dict[str, Interval] | None:
    """C as a share of each budget that the notion is held against; None where notions are mixed."""
    if posterior.conditions.notion == NOMINAL:
        return None
    capacity = model_capacity(posterior, model, technique)
    return {
        name: Interval(*(None if end is None else end / budget for end in dataclasses.astuple(capacity)))
        for name, budget in budgets(posterior.conditions, model).items()
    }


def headroom(posterior: Posterior, model: int, technique: int) -> dict[str, Interval] | None:
    """How many bits of each budget C leaves, below nought where it exceeds it; None for mixed notions."""
    if posterior.conditions.notion == NOMINAL:
        return None
    found = model_capacity(posterior, model, technique)
    least_first = (found.median, found.high, found.low)
    return {
        name: Interval(*(None if end is None else budget - end for end in least_first))
        for name, budget in budgets(posterior.conditions, model).items()
    }


def budgets(conditions: Conditions, model: int) -> dict[str, float]:
    """The budgets of a model, in bits, that this notion is held against, as far as they are known."""
    parameters, precision = conditions.parameters[model], conditions.models[model].precision_bits
    offered = {
        "bandwidth": conditions.models[model].bandwidth_bits,
        "storage": None if parameters is None else parameters * STORAGE_BITS_PER_PARAMETER,
        "weights": None if parameters is None or precision is None else parameters * precision,
    }
    return {name: bits for name in COMPARED[conditions.notion] if (bits := offered[name]) is not None}


# ── techniques and growth ─────────────────────────────────────────────────────────────────────────


def multipliers(posterior: Posterior) -> dict[str, Interval]:
    """C with each technique / C without it, on the typical one of the fitted families."""
    found = {}
    for place, name in enumerate(posterior.conditions.techniques):
        if name != NO_TECHNIQUE and "technique" in posterior.draws:
            special = posterior.draws["technique_family"][:, place].mean(axis=1)
            found[name] = quantiles(2 ** (posterior.draws["technique"][:, place] + special))
    return found


def growth_exponent(posterior: Posterior) -> tuple[Interval | None, str]:
    """How C grows with the budget (C ~ budget^exponent); None, and why, where the models cannot tell."""
    why = why_no_growth(posterior.conditions)
    if why or "growth" not in posterior.draws:
        return None, why or "this model of the runs knows no growth"
    return quantiles(posterior.draws["growth"]), ""


def why_no_growth(conditions: Conditions) -> str:
    """Why the models cannot tell how C grows with their budget; empty if they can."""
    budget = "storage" if conditions.notion == "storage" else "bandwidth"
    if len(conditions.models) < 2:
        return f"growth with the {budget} cannot be told from one model; add runs of a larger one"
    if not conditions.log2_budgets.any():
        return f"growth with the {budget} cannot be told: it is the same for all models, or not given for one"
    if budget == "storage" or any(parameters is None for parameters in conditions.parameters):
        return ""
    parameters = np.log2(np.array(conditions.parameters, dtype=float))
    if parameters.std() and abs(np.corrcoef(conditions.log2_budgets, parameters)[0, 1]) > ALIKE:
        return (
            "growth with the bandwidth cannot be told from growth with the parameters: they rise together in "
            "these models; add models of one bandwidth and several sizes"
        )
    return ""
