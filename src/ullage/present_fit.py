"""How the document of `fit` looks on a terminal: models, families, techniques, and whether to believe it."""

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ullage.present import Document, counted, interval, number, plain_table


def fitted(document: Document) -> RenderableType:
    """The answer of `fit`: capacities first, then what they are made of, then how far to believe them."""
    parts: list[Any] = [_head(document), "", _models(document), "", _tasks(document), ""]
    parts += [*_meaning(document), *_multipliers(document), *_growth(document)]
    parts += [*_notions(document["notions"]), *_trust(document["diagnostics"])]
    return Group(*(Text(part) if isinstance(part, str) else part for part in parts))


def _head(document: Document) -> str:
    spent = {name: value for name, value in document["effort"].items() if value is not None}
    told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in spent.items()) or "not told"
    return f"Effort: {told}. Demand: {document['demand_notion']} bits."


def _models(document: Document) -> RenderableType:
    rows = plain_table("model", "technique", "C, bits [90 %]", "share of its budget")
    for model in document["models"]:
        shares = model["utilisation"] or {}
        left = model["headroom_bits"] or {}
        told = ", ".join(
            f"{_percent(share)} of the {name}, {interval(left[name])} left" for name, share in shares.items()
        )
        rows.add_row(model["model_id"], model["technique"], interval(model["capacity_bits"]), told or "–")
    return rows


def _percent(share: Document) -> str:
    return interval({end: None if value is None else 100 * value for end, value in share.items()}) + " %"


def _tasks(document: Document) -> RenderableType:
    rows = plain_table("family", "difficulty, log2 bits", "slope", "C of each model, bits (level)")
    for name, task in document["tasks"].items():
        found = [
            f"{one['model_id']}{'' if one['technique'] == 'none' else '+' + one['technique']} "
            f"{interval(one['capacity_bits'])} (level {interval(one['boundary_level'])})"
            for one in document["capacity"]
            if one["task"] == name
        ]
        rows.add_row(name, interval(task["difficulty"]), interval(task["slope"]), "; ".join(found))
    return rows


def _meaning(document: Document) -> list[str]:
    families = ", ".join(document["families"])
    lines = [f"C is the demand at which a run is expected to learn half, for the typical one of {families}."]
    if document["demand_notion"] == "nominal":
        lines.append(
            "Each family counts in its own notion of bits: compare models, techniques and growth by this C; "
            "--demand gives bits that can be held against a budget."
        )
    return lines


def _multipliers(document: Document) -> list[str]:
    return [f"{name} multiplies C by {interval(one)}." for name, one in document["multipliers"].items()]


def _growth(document: Document) -> list[str]:
    grown = document["growth_exponent"]
    return [] if grown is None else [f"C grows as the budget to the power {interval(grown)}."]


def _notions(notions: Document) -> list[str]:
    lines = [
        f"  {name}: {score['log_score']:.3f} ± {score['standard_error']:.3f} ({', '.join(score['families'])})"
        for name, score in notions.items()
    ]
    head = (
        "How well each notion predicts held-out levels, nats a run (compare where the families are the same):"
    )
    return [head, *lines] if lines else []


def _trust(found: Document) -> list[str]:
    lines = list(found["notes"])
    if found["excluded"]:
        left = ", ".join(f"{count} {reason}" for reason, count in found["excluded"].items())
        lines.append(f"Left out: {left}.")
    numbers = (
        f"R-hat {found['rhat_max']:.3f}, {number(round(found['ess_min']))} effective draws, "
        f"{counted(found['divergences'], 'divergence')}"
    )
    verdict = "The sampler agrees with itself" if found["trusted"] else "DO NOT TRUST this fit"
    return [*lines, f"{verdict}: {numbers}."]
