"""The verdict: what was found of a model, in one sentence, for the page and for a terminal alike.

>>> headline(Material())
'Nothing is known yet: no run was made.'
"""

from collections.abc import Mapping
from typing import Any

from ullage.budget import COMPARED
from ullage.material import Learner, Material, budget_bits
from ullage.observations import NOTIONS, Effort
from ullage.posterior import Posterior
from ullage.present import counted, interval, number
from ullage.readoff import describe, learners, model_capacity, utilisation

Document = Mapping[str, Any]


def headline(material: Material) -> str:
    """One sentence that can be quoted: the model, what of its budgets is filled, and its C."""
    if material.posterior is None:
        if not material.records:
            return "Nothing is known yet: no run was made."
        made = counted(len(material.records), "run")
        return f"Nothing can be told yet: none of {made} is evidence of capacity."
    learner = material.learners[0]
    families = material.posterior.conditions.families
    found = model_capacity(material.posterior, learner.model, learner.technique).to_json()
    typical = families[0] if len(families) == 1 else f"the typical one of {len(families)} families"
    if found["low"] is None and found["high"] is None:
        told = f"these runs do not bound C on {typical}"
    else:
        told = f"C is {interval(found)} bits on {typical}"
    filled = " and ".join(_filled(material, learner))
    return f"{learner.name} fills {filled}; {told}." if filled else f"{learner.name}: {told}."


def _filled(material: Material, learner: Learner) -> list[str]:
    """What is known to be filled of each budget, by the notion of demand that fills it best."""
    best: dict[str, tuple[float, str]] = {}
    for row in shares(material, learner):
        share = row["share"]
        if share["low"] is not None and row["budget"] != "weights" and row["trusted"]:
            # Storage is filled by what is stored, a bandwidth by one of several notions.
            notion = "" if row["notion"] == row["budget"] else f" ({row['notion']} bits)"
            text = f"{percent(share)} of its {row['budget']}{notion}"
            best[row["budget"]] = max(best.get(row["budget"], (0.0, "")), (share["low"], text))
    return [best[name][1] for name in sorted(best, reverse=True)]


def shares(material: Material, learner: Learner) -> list[dict[str, Any]]:
    """A row for each notion and budget of a learner: C, the budget, what is filled and what is left."""
    rows = []
    for notion, posterior in material.by_notion.items():
        place = _place(material, posterior, learner)
        if place is None:
            continue
        capacity = model_capacity(posterior, *place).to_json()
        offered = utilisation(posterior, *place) or {}
        for budget in COMPARED[notion]:
            if budget in offered:
                share = offered[budget].to_json()
                rows.append(
                    {
                        "notion": notion,
                        "families": list(posterior.conditions.families),
                        "capacity_bits": capacity,
                        "budget": budget,
                        "budget_bits": _offered(posterior, place, budget),
                        "share": share,
                        "left": {
                            "median": _rest(share["median"]),
                            "low": _rest(share["high"]),
                            "high": _rest(share["low"]),
                        },
                        "trusted": posterior.diagnostics.trusted,
                    }
                )
    return rows


def _place(material: Material, posterior: Posterior, learner: Learner) -> tuple[int, int] | None:
    """Where a learner stands in the fit of one notion; None if it has no runs there."""
    assert material.posterior is not None
    model = material.posterior.conditions.models[learner.model]
    models, techniques = posterior.conditions.models, posterior.conditions.techniques
    if model not in models or learner.technique_name not in techniques:
        return None
    place = models.index(model), techniques.index(learner.technique_name)
    return place if place in learners(posterior.conditions) else None


def _offered(posterior: Posterior, place: tuple[int, int], budget: str) -> float | None:
    return budget_bits(describe(posterior.conditions, *place), budget)


def _rest(share: float | None) -> float | None:
    return None if share is None else 1 - share


def percent(share: Document) -> str:
    """A share with its interval, in percent.

    >>> percent({"median": 0.5, "low": 0.4, "high": 0.625})
    '50 % [40, 62.5]'
    >>> percent({"median": None, "low": 0.04, "high": None})
    'at least 4 %'
    """
    median, low, high = (
        None if share[end] is None else 100 * share[end] for end in ("median", "low", "high")
    )
    if low is None or high is None:
        told = interval({"median": median, "low": low, "high": high})
        return told if low is None and high is None else f"{told} %"
    ends = f"[{number(low)}, {number(high)}]"
    return f"{ends} %" if median is None else f"{number(median)} % {ends}"


def doubts(material: Material) -> list[str]:
    """Everything that keeps a number from being believed as it stands, a sentence each."""
    found = []
    if material.posterior is None:
        found.append(
            "`ullage measure` makes runs; `ullage report --shipped` shows those that come with the package."
        )
    fits = {"all families": material.posterior, **material.by_notion}
    for name, posterior in fits.items():
        if posterior is not None and not posterior.diagnostics.trusted:
            seen, named = posterior.diagnostics, f"{name} bits" if name in NOTIONS else name
            found.append(
                f"The sampler did not settle on the fit of {named} (R-hat {seen.rhat_max:.2f}, "
                f"{number(round(seen.ess_min))} effective draws, "
                f"{counted(seen.divergences, 'divergence')}): its numbers are not to be trusted."
            )
    if material.posterior is not None:
        open_ended = [one for one in material.document["capacity"] if None in one["capacity_bits"].values()]
        if open_ended:
            found.append(
                f"{len(open_ended)} of {len(material.document['capacity'])} boundaries are bounded on one "
                "side only, or not at all: their levels were all learned, or none was."
            )
    if material.source == "shipped":
        found.append("These are the runs that come with ullage: nothing was trained here.")
    return found


def effort_told(effort: Effort | None) -> str:
    """What was spent to learn, in words.

    >>> effort_told(Effort(2000, 8, 0))
    '2000 training steps at most, a search of 8 trials, as many training examples as there are'
    """
    if effort is None or effort == Effort():
        return "an effort that the runs do not tell"
    parts = []
    if effort.step_limit is not None:
        parts.append(f"{effort.step_limit} training steps at most")
    if effort.search_trials is not None:
        searched = f"a search of {counted(effort.search_trials, 'trial')}"
        parts.append(searched if effort.search_trials else "no search")
    if effort.train_examples is not None:
        some = f"{effort.train_examples} training examples"
        parts.append(some if effort.train_examples else "as many training examples as there are")
    return ", ".join(parts)
