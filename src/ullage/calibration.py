"""Calibration: predictions of runs that a fit has not seen, held against what came of them.

Three schemes hold out what a user asks for: a level of a family that is known, a family, a larger model.
Each fit is scored by the log-probability of the skill that came (in twentieths) and of "it learned", by the
Brier score of "it learned", and by how often a 90 % interval holds the skill; and so are its rivals, on the
same runs. Runs of one condition share their luck, so standard errors count conditions and not runs. The runs
of a fold share theirs as well: a family that nobody knew is all of it harder than thought, or easier. So all
runs of a fold are scored together, too, by the probability that they come as they did at once; there, folds
count.

All tables of a calibration have one size, so each model is compiled once, whatever the number of folds.

>>> sure = np.zeros((1, OUTCOMES))
>>> sure[0, 20] = 1.0
>>> round(covered(sure)[0, 20].item(), 6)
0.9
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ullage.boundary import CREDIBLE, in_steps
from ullage.capacity import DEFAULT_SETTINGS, Settings, fit_conditions
from ullage.conditions import OUTCOMES, Conditions
from ullage.errors import BadInput, listed
from ullage.heldout import chances_by_draw
from ullage.posterior import Posterior
from ullage.record import LEARNED

FOLDS = 8  # of the levels: as many as the most families have levels, so that one of each is left out
FOLD_SETTINGS = Settings(warmup=300, draws=500)  # only the mean over the draws is scored: short chains do
BINS = 5  # of the reliability table: with a hundred runs, ten would hold too few each
LEAST_CHANCE = 1e-9  # what no draw of a posterior thinks possible is still not impossible

Fit = Callable[[Conditions, Settings], Posterior]
Told = Callable[[int, int, str], None]


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean over runs, with the standard error that counts conditions."""

    value: float
    standard_error: float


@dataclasses.dataclass(frozen=True)
class Scores:
    """How well held-out runs were predicted; log scores are nats a run, larger is better."""

    log_score: Estimate  # of the skill in twentieths
    learned_log_score: Estimate  # of whether the run learned
    brier: Estimate  # of whether the run learned: smaller is better
    coverage_90: Estimate


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """What fits said of runs that they had not seen."""

    chances: np.ndarray  # (conditions, OUTCOMES): of each skill
    together: np.ndarray  # (folds,): log of the probability of all of a fold's runs at once
    untrusted: int  # fits that cannot be trusted


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What a scheme found: the scores of the model, those of its rivals, and by how much it is ahead."""

    scheme: str
    runs: int
    conditions: int
    scores: Scores
    rivals: Mapping[str, Scores]
    ahead: Mapping[str, Mapping[str, Estimate]]  # score less the rival's, by rival and score
    reliability: Sequence[Mapping[str, Any]]
    together: Mapping[str, Estimate]  # nats a run, all runs of a fold at once, by model: ours is the first
    together_ahead: Mapping[str, Estimate]  # of each rival
    untrusted: int  # fits of the model that did not pass their own gate
    folds: int

    def to_json(self) -> dict[str, Any]:
        """The document of `calibrate`."""
        return {
            "scheme": self.scheme,
            "n": self.runs,
            "log_score": self.scores.log_score.value,
            "brier": self.scores.brier.value,
            "coverage_90": self.scores.coverage_90.value,
            "baselines": {name: scores.log_score.value for name, scores in self.rivals.items()},
            "reliability": [dict(row) for row in self.reliability],
        }


def calibrate(
    conditions: Conditions,
    scheme: str = "level",
    settings: Settings = DEFAULT_SETTINGS,
    rivals: Sequence[str] = ("pooled", "independent", "response"),
    fit: Fit | None = None,
    told: Told = lambda done, count, what: None,
) -> Calibration:
    """Hold out by a scheme, predict, and compare with what came; `told` hears of every fit that is done."""
    folds = folds_of(conditions, scheme)
    models = (settings.rival, *(name for name in rivals if name != settings.rival))
    found: dict[str, HeldOut] = {}
    for place, name in enumerate(models):
        hear = _from(told, place * len(folds), len(models) * len(folds), name)
        chosen = dataclasses.replace(settings, rival=name)
        found[name] = held_out(conditions, folds, chosen, fit, hear)
    held = np.any(folds, axis=0)
    counts = conditions.counts[held]
    parts = {name: parts_of(counts, one.chances[held]) for name, one in found.items()}
    own, first = parts[settings.rival], found[settings.rival]
    runs = np.array([conditions.runs[fold].sum() for fold in folds])
    return Calibration(
        scheme,
        int(counts.sum()),
        len(counts),
        scores_of(counts, own),
        {name: scores_of(counts, parts[name]) for name in models[1:]},
        {name: _ahead(counts, own, parts[name]) for name in models[1:]},
        reliability(counts, first.chances[held]),
        {name: estimate(one.together, runs) for name, one in found.items()},
        {name: estimate(first.together - found[name].together, runs) for name in models[1:]},
        first.untrusted,
        len(folds),
    )


def _fit(conditions: Conditions, settings: Settings) -> Posterior:
    return fit_conditions(conditions, settings=settings)


def _from(told: Told, done: int, count: int, name: str) -> Callable[[int], None]:
    return lambda fold: told(done + fold, count, name)


# ── what is held out ──────────────────────────────────────────────────────────────────────────────


def folds_of(conditions: Conditions, scheme: str) -> list[np.ndarray]:
    """Of each fold, which conditions are held out: all with runs once, but for the largest model's scheme.

    A fold of levels leaves out one level of every family, on all models: families learn hardly anything
    from one level of another, and it takes one fit where leaving out one at a time takes as many as families.
    """
    if scheme not in SCHEMES:
        raise BadInput(f"there is no scheme {scheme!r}; choose one of {listed(SCHEMES)}")
    folds = [fold & (conditions.runs > 0) for fold in SCHEMES[scheme](conditions)]
    kept = [fold for fold in folds if fold.any() and (conditions.runs[~fold] > 0).any()]
    if not kept:
        raise BadInput(
            f"scheme={scheme} has nothing to hold out and still something to learn from; "
            "it takes runs of two levels of a family, of two families or of two models: `ullage measure` more"
        )
    return kept


def _levels(conditions: Conditions) -> list[np.ndarray]:
    fold = np.full(len(conditions), -1)
    for family in range(len(conditions.families)):
        here = (conditions.family == family) & (conditions.runs > 0)
        levels = np.unique(conditions.level[here])
        if len(levels) > 1:
            fold[here] = np.searchsorted(levels, conditions.level[here]) % min(FOLDS, len(levels))
    return [fold == left_out for left_out in range(FOLDS)]


def _families(conditions: Conditions) -> list[np.ndarray]:
    return [conditions.family == family for family in range(len(conditions.families))]


def _largest_model(conditions: Conditions) -> list[np.ndarray]:
    used = sorted({*conditions.model[conditions.runs > 0].tolist()})
    largest = max(used, key=lambda at: (conditions.budget_bits(at) or 0.0, conditions.parameters[at] or 0.0))
    return [conditions.model == largest]


SCHEMES: Mapping[str, Callable[[Conditions], list[np.ndarray]]] = {
    "level": _levels,
    "family": _families,
    "model": _largest_model,
}


def held_out(
    conditions: Conditions,
    folds: Sequence[np.ndarray],
    settings: Settings,
    fit: Fit | None = None,
    told: Callable[[int], None] = lambda fold: None,
) -> HeldOut:
    """What each fold is predicted to be by a fit of the others.

    What is held out stays in the table without runs, so that its difficulty, or its model's effect, is
    drawn from the population: the fit predicts it as it predicts what nobody has trained.
    """
    chances, together = np.zeros((len(conditions), OUTCOMES)), np.zeros(len(folds))
    untrusted = 0
    for number, fold in enumerate(folds):
        posterior = (fit or _fit)(conditions.only(~fold), settings)
        untrusted += not posterior.diagnostics.trusted
        logs = np.zeros(posterior.count)
        for place in np.flatnonzero(fold):
            by_draw = chances_by_draw(posterior, conditions, int(place))
            chances[place] = by_draw.mean(axis=0)
            logs += np.log(np.maximum(by_draw, LEAST_CHANCE)) @ conditions.counts[place]
        together[number] = np.logaddexp.reduce(logs) - math.log(posterior.count)
        told(number + 1)
    return HeldOut(chances, together, untrusted)


# ── scores ────────────────────────────────────────────────────────────────────────────────────────


def parts_of(counts: np.ndarray, chances: np.ndarray) -> dict[str, np.ndarray]:
    """Of each condition, the sum over its runs of every score, by the score's name."""
    likely = np.maximum(chances, LEAST_CHANCE)
    at = in_steps(LEARNED)
    learned, runs = counts[:, at:].sum(axis=1), counts.sum(axis=1)
    chance = np.clip(chances[:, at:].sum(axis=1), LEAST_CHANCE, 1 - LEAST_CHANCE)
    return {
        "log_score": (counts * np.log(likely)).sum(axis=1),
        "learned_log_score": learned * np.log(chance) + (runs - learned) * np.log1p(-chance),
        "brier": learned * (1 - chance) ** 2 + (runs - learned) * chance**2,
        "coverage_90": (counts * covered(chances)).sum(axis=1),
    }


def covered(chances: np.ndarray) -> np.ndarray:
    """How much of each skill a 90 % predictive interval holds; 0.9 on average if the chances are right.

    Skills are discrete, so an interval of whole twentieths holds more than 90 %. Its ends are taken at
    random inside a twentieth instead, and what is told is the mean over that.
    """
    above = np.cumsum(chances, axis=1)
    below = above - chances
    inside = np.minimum(above, CREDIBLE[1]) - np.maximum(below, CREDIBLE[0])
    return np.clip(inside, 0.0, None) / np.maximum(chances, LEAST_CHANCE)


def estimate(parts: np.ndarray, runs: np.ndarray) -> Estimate:
    """The mean over runs from the sums of conditions; conditions are what is independent.

    >>> found = estimate(np.array([-4.0, -2.0, -6.0]), np.array([2, 2, 2]))
    >>> found.value, round(found.standard_error, 3)
    (-2.0, 0.577)
    """
    mean = parts.sum() / runs.sum()
    strayed = parts - runs * mean
    count = len(runs)
    spread = math.sqrt((strayed**2).sum() * count / max(count - 1, 1)) / runs.sum()
    return Estimate(float(mean), float(spread))


def scores_of(counts: np.ndarray, parts: Mapping[str, np.ndarray]) -> Scores:
    """The mean of every score."""
    runs = counts.sum(axis=1)
    return Scores(**{name: estimate(part, runs) for name, part in parts.items()})


def _ahead(
    counts: np.ndarray, own: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]
) -> dict[str, Estimate]:
    runs = counts.sum(axis=1)
    return {name: estimate(own[name] - other[name], runs) for name in own}


def reliability(counts: np.ndarray, chances: np.ndarray) -> list[dict[str, Any]]:
    """How often runs learned that were said to learn with such a probability; empty rows are left out."""
    at = in_steps(LEARNED)
    chance, runs = chances[:, at:].sum(axis=1), counts.sum(axis=1)
    place = np.minimum((chance * BINS).astype(int), BINS - 1)
    rows = []
    for number in range(BINS):
        here = place == number
        if here.any():
            count = runs[here].sum()
            rows.append(
                {
                    "low": number / BINS,
                    "high": (number + 1) / BINS,
                    "predicted": float((chance[here] * runs[here]).sum() / count),
                    "learned": float(counts[here][:, at:].sum() / count),
                    "runs": int(count),
                }
            )
    return rows


# ── what other families are worth ─────────────────────────────────────────────────────────────────


def by_families(
    conditions: Conditions,
    settings: Settings = DEFAULT_SETTINGS,
    sizes: Sequence[int] = (),
    fit: Fit | None = None,
    seed: int = 0,
    told: Told = lambda done, count, what: None,
) -> dict[int, Scores]:
    """The scores of a family that is held out, by the number of families that the fit has seen.

    Each family is held out in turn; those that calibrate are the next ones in an order drawn by the seed, so
    a larger number has seen all that a smaller one has. Without `sizes`, from one to all others.
    """
    count = len(conditions.families)
    if count < 2:
        raise BadInput(f"there is {count} family; holding one out takes two or more: `ullage measure` others")
    sizes = tuple(sizes) or tuple(range(1, count))
    order = np.random.default_rng(seed).permutation(count)
    found, done = {}, 0
    for size in sizes:
        chances = np.zeros((len(conditions), OUTCOMES))
        for place, family in enumerate(order):
            seen = [order[(place + step) % count] for step in range(1, size + 1)]
            posterior = (fit or _fit)(conditions.only(np.isin(conditions.family, seen)), settings)
            for condition in np.flatnonzero(conditions.family == family):
                chances[condition] = chances_by_draw(posterior, conditions, int(condition)).mean(axis=0)
            done += 1
            told(done, len(sizes) * count, f"{size} families")
        found[size] = scores_of(conditions.counts, parts_of(conditions.counts, chances))
    return found
