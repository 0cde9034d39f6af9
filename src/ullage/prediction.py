"""Predictions: whether a model will learn a task that nobody has trained it on, and on what evidence.

A prediction is read off a posterior. What was not seen is drawn from what was: a family from the
population of families, a model from the population of models and the growth with their budget. So a new
family is predicted from its demand alone, with an interval as wide as families differ.

    posterior + question ──▶ curve, one a draw ──▶ probability and skill, each with 90 %
                        └──▶ what was outside of what was tried, the nearest levels, the budget that binds

(Not called `predict`: a module of that name would hide the function `ullage.predict`.)
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ullage.boundary import Interval
from ullage.budget import STORAGE_BITS_PER_PARAMETER, Budgets
from ullage.conditions import STORED, Conditions
from ullage.errors import BadInput, listed
from ullage.observations import NO_TECHNIQUE, NOTIONS, Effort, Model, Observations, without
from ullage.posterior import Curve, Diagnostics, Posterior
from ullage.readoff import quantiles
from ullage.record import LEARNED

NEAREST = 4  # levels of evidence: two on either side of a demand, where there are so many
STRAYED = 1e-9  # log2 bits: a demand at the end of what was tried is not outside


@dataclasses.dataclass(frozen=True)
class Offer:
    """A model that may or may not have been trained: its numbers and what it offers, in bits."""

    model: Model
    parameters: int | None
    budgets: Budgets

    def growth_bits(self, notion: str) -> float | None:
        """The budget that growth is told against, as `Conditions.budget_bits` has it."""
        if notion != STORED:
            return self.model.bandwidth_bits
        return None if self.parameters is None else self.parameters * STORAGE_BITS_PER_PARAMETER

    def to_json(self) -> dict[str, Any]:
        """The document of a model."""
        return {
            **dataclasses.asdict(self.model),
            "parameters": self.parameters,
            "technique": NO_TECHNIQUE,
        }


@dataclasses.dataclass(frozen=True)
class Question:
    """What is asked of a model: so many bits under a notion, by a family with a name or by any."""

    task: str | None
    level: int | None
    notion: str  # in which `demand_bits` is counted, by its own name: never "nominal"
    demand_bits: float
    demands: Mapping[str, float]  # under every notion that is known, for the budget that binds

    @property
    def log2_demand(self) -> float:
        """The demand in log2 bits."""
        return float(np.log2(self.demand_bits))


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The answer to a question, with all that an engineer needs to judge it."""

    question: Question
    offer: Offer
    probability: Interval  # that a run learns
    skill: Interval  # that is expected of a run
    strays: tuple[str, ...]  # what of the question lies outside of what was tried, a clause each
    evidence: tuple[Mapping[str, Any], ...]
    source: str  # store, file or shipped
    effort: Effort  # at which the runs were trained: with more, a model may learn more
    diagnostics: Diagnostics  # of the sampler

    @property
    def extrapolating(self) -> bool:
        """Whether anything of the question lies outside of what was tried."""
        return bool(self.strays)

    @property
    def binding_budget(self) -> str | None:
        """The budget of which the largest share is asked for."""
        return self.offer.budgets.binding(self.question.demands)

    def to_json(self) -> dict[str, Any]:
        """The document of `predict`."""
        return {
            "probability": self.probability.to_json(),
            "skill": self.skill.to_json(),
            "demand_bits": self.question.demand_bits,
            "demand_notion": self.question.notion,
            "model": self.offer.to_json(),
            "binding_budget": self.binding_budget,
            "extrapolating": self.extrapolating,
            "source": self.source,
            "evidence": [dict(row) for row in self.evidence],
        }


@dataclasses.dataclass(frozen=True)
class Answer:
    """A prediction, and how it came about: which models were asked, what was trained for it."""

    prediction: Prediction
    least_probability: float | None = None  # that the smallest of several models was to have
    models: int = 1  # how many were asked, small ones first
    pilots: int = 0  # runs trained for this question
    failed: int = 0  # of these, no evidence

    @property
    def reached(self) -> bool:
        """Whether a model has the probability that was wanted, even at the lower end of its interval."""
        low = self.prediction.probability.low or 0.0
        return self.least_probability is None or low >= self.least_probability

    def to_json(self) -> dict[str, Any]:
        """The document of `predict`."""
        return self.prediction.to_json()


def smallest(predictions: Iterable[Prediction], least_probability: float) -> Answer:
    """The first of some models, small ones first, that learns with this probability; else the best of them.

    The lower end of the interval must reach it: a model that is too small costs a project, one that is a
    size too large costs some memory. So "with probability 0.9" is wrong one time in twenty, not every other.
    """
    best, count = None, 0
    for prediction in predictions:
        answer = Answer(prediction, least_probability, count := count + 1)
        if answer.reached:
            return answer
        best = answer if best is None or _surer(answer, best) else best
    assert best is not None
    return dataclasses.replace(best, models=count)


def _surer(one: Answer, other: Answer) -> bool:
    lows = [answer.prediction.probability.low or 0.0 for answer in (one, other)]
    return lows[0] > lows[1]


def predict(posterior: Posterior, question: Question, offer: Offer, source: str = "store") -> Prediction:
    """What the runs behind a posterior say of a question; `source` tells where they came from."""
    conditions = posterior.conditions
    family, model = place_of_family(conditions, question.task), place_of_model(conditions, offer.model)
    curve = curve_of(posterior, question, offer)
    return Prediction(
        question,
        offer,
        quantiles(curve.learns(question.log2_demand)),
        quantiles(curve.expected_skill(question.log2_demand)),
        tuple(strays(conditions, question, offer)),
        tuple(nearest_levels(conditions, family, model, question.log2_demand)),
        source,
        posterior.effort,
        posterior.diagnostics,
    )


def curve_of(posterior: Posterior, question: Question, offer: Offer) -> Curve:
    """How the model does on the family, or on a new one, for every draw."""
    conditions = posterior.conditions
    return posterior.curve(
        place_of_model(conditions, offer.model),
        place_of_family(conditions, question.task),
        log2_budget=relative_budget(conditions, offer),
    )


def raised(observations: Observations, notion: str) -> Observations:
    """The runs of families whose levels raise a demand; a flat one says nothing of a boundary under it.

    Each family raises its nominal demand. The others are counted: parity asks for one bit of answer at
    every level, and failing at level 14 does not make that bit harder.
    """
    if notion not in NOTIONS:
        return observations
    families = raising(observations, notion)
    kept = tuple(run for run in observations.runs if run.task in families)
    if observations.runs and not kept:
        raise BadInput(
            f"there is no evidence of the notion {notion}: no family of these runs raises it; "
            f"choose among nominal, {listed({run.nominal for run in observations.runs})}"
        )
    return without(observations, kept, f"levels that do not raise the notion {notion}")


def raising(observations: Observations, notion: str) -> set[str]:
    """The families whose levels raise a demand."""
    demands: dict[str, set[float]] = {}
    for run in observations.runs:
        demands.setdefault(run.task, set()).add(run.demand_bits(notion) or 0.0)
    own = {run.task for run in observations.runs if run.nominal == notion}
    return own | {family for family, bits in demands.items() if len(bits - {0.0}) > 1}


# ── what is known already ─────────────────────────────────────────────────────────────────────────


def place_of_family(conditions: Conditions, name: str | None) -> int | None:
    """Where a family stands among those that have runs; None for one that was not seen."""
    if name not in conditions.families:
        return None
    place = conditions.families.index(name)
    return place if conditions.runs[conditions.family == place].any() else None


def place_of_model(conditions: Conditions, model: Model) -> int | None:
    """Where a model stands among those that have runs; None for one that was not seen."""
    for place, known in enumerate(conditions.models):
        if is_same(known, model) and conditions.runs[conditions.model == place].any():
            return place
    return None


def is_same(known: Model, asked: Model) -> bool:
    """Whether two models agree in all that the table tells of the one that it knows.

    The name counts only beside an architecture: a table made elsewhere has names of its own.

    >>> is_same(Model("theirs", None, 2, 4, 8, None, 32), Model("ours", "transformer", 2, 4, 8, 32, 32))
    True
    >>> is_same(Model("nano", "transformer", 2, 4, 8, 32, 32), Model("nano", "transformer", 1, 4, 8, 32, 32))
    False
    """
    told = {name: value for name, value in dataclasses.asdict(known).items() if value is not None}
    if known.architecture is None:
        del told["model_id"]
    return bool(told) and all(getattr(asked, name) == value for name, value in told.items())


def relative_budget(conditions: Conditions, offer: Offer) -> float:
    """log2 of a model's budget less the mean of those fitted; 0 where one of them is not known.

    The growth was fitted against budgets less their mean; see `Conditions.log2_budgets`.
    """
    budget = offer.growth_bits(conditions.notion)
    fitted = [conditions.budget_bits(place) for place in range(len(conditions.models))]
    if not budget or not all(fitted):
        return 0.0
    return float(np.log2(budget) - np.mean(np.log2(np.array(fitted, dtype=float))))


# ── how far it goes beyond what was tried ─────────────────────────────────────────────────────────


def strays(conditions: Conditions, question: Question, offer: Offer) -> Iterable[str]:
    """A clause for everything in which a question lies outside of what was tried."""
    family = place_of_family(conditions, question.task)
    if family is None:
        yield f"no run was made of the family {question.task}" if question.task else "no family was named"
    tried = conditions.demand_bits[_of(conditions, family=family)]
    if not tried.min() * (1 - STRAYED) <= question.demand_bits <= tried.max() * (1 + STRAYED):
        ends = f"{tried.min():.4g} to {tried.max():.4g}"
        yield f"{question.demand_bits:.4g} {question.notion} bits lie outside of the {ends} that were tried"
    if place_of_model(conditions, offer.model) is None:
        yield from _model_strays(conditions, offer)


def _model_strays(conditions: Conditions, offer: Offer) -> Iterable[str]:
    seen = [place for place in range(len(conditions.models)) if _of(conditions, model=place).any()]
    name = "storage" if conditions.notion == STORED else "bandwidth"
    budget = offer.growth_bits(conditions.notion)
    fitted = [conditions.budget_bits(place) for place in seen]
    known = [bits for bits in fitted if bits is not None]
    if budget is None or len(known) < len(fitted):
        yield f"the {name} of some models is not known, so growth with it cannot be told"
    elif not min(known) <= budget <= max(known):
        ends = f"{min(known):.5g} to {max(known):.5g}"
        yield f"its {name} of {budget:.5g} bits lies outside of the {ends} that were trained"
    depths = {conditions.models[place].layers for place in seen} - {None}
    if depths and offer.model.layers is not None and offer.model.layers not in depths:
        yield f"no model of {offer.model.layers} layers was trained"


def _of(conditions: Conditions, family: int | None = None, model: int | None = None) -> np.ndarray:
    """The conditions with runs, of a family and of a model where they are given."""
    chosen = conditions.runs > 0
    if family is not None:
        chosen = chosen & (conditions.family == family)
    return chosen if model is None else chosen & (conditions.model == model)


# ── the evidence ──────────────────────────────────────────────────────────────────────────────────


def nearest_levels(
    conditions: Conditions, family: int | None, model: int | None, log2_demand: float
) -> list[dict[str, Any]]:
    """What was found at the demands next to one, easy to hard.

    Of the family, or of all where it was not seen; of the model if it was trained there, or else of all.
    """
    chosen = _of(conditions, family, model)
    if model is None or not chosen.any():
        chosen = _of(conditions, family)
    places = sorted({*zip(conditions.family[chosen], conditions.level[chosen], strict=True)})
    rows = [_level(conditions, chosen & _at(conditions, *place)) for place in places]
    rows.sort(key=lambda row: row["demand_bits"])
    below = [row for row in rows if np.log2(row["demand_bits"]) <= log2_demand + STRAYED]
    above = rows[len(below) :]
    # Two on either side; where one side has fewer, the other may have more.
    easier = max(NEAREST // 2, NEAREST - len(above))
    return (below[-easier:] + above[: NEAREST - min(easier, len(below))])[:NEAREST]


def _at(conditions: Conditions, family: int, level: int) -> np.ndarray:
    return (conditions.family == family) & (conditions.level == level)


def _level(conditions: Conditions, chosen: np.ndarray) -> dict[str, Any]:
    runs = conditions.runs[chosen]
    skill = float((conditions.skill[chosen] * runs).sum() / runs.sum())
    first = int(np.flatnonzero(chosen)[0])
    return {
        "task": conditions.families[int(conditions.family[first])],
        "level": int(conditions.level[first]),
        "demand_bits": float(conditions.demand_bits[first]),
        "learned": skill >= LEARNED,
        "runs": int(runs.sum()),
        "skill": skill,
    }
