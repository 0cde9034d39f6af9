"""Held out: how well runs are predicted that a fit has not seen, in nats a run.

The conditions of each model on each family are dealt out in turn, so that every fold leaves out some levels
of each and all are left out once. The runs of one condition are no independent witnesses: the standard
error counts conditions.

>>> score = scored(np.array([-4.0, -2.0, -6.0]), np.array([2, 2, 2]))
>>> score.log_score, round(score.standard_error, 2)
(-2.0, 0.58)
"""

import dataclasses

import numpy as np

from ullage.capacity import Settings, fit_conditions
from ullage.conditions import Conditions
from ullage.posterior import Posterior

FOLDS = 3


@dataclasses.dataclass(frozen=True)
class Score:
    """The mean log-probability of a run, its standard error, and how many conditions it was told from."""

    log_score: float
    standard_error: float
    conditions: int


def scored(logs: np.ndarray, runs: np.ndarray) -> Score:
    """The score from the sum of each condition's log-probabilities and the number of its runs."""
    mean = logs.sum() / runs.sum()
    strayed = logs - runs * mean
    count = len(logs)
    spread = np.sqrt((strayed**2).sum() * count / max(count - 1, 1)) / runs.sum()
    return Score(float(mean), float(spread), count)


def dealt(conditions: Conditions, folds: int = FOLDS) -> np.ndarray:
    """The fold of each condition: the levels of one model, technique and family take turns."""
    turn: dict[tuple[int, int, int], int] = {}
    found = []
    for where in zip(conditions.model, conditions.technique, conditions.family, strict=True):
        turn[where] = turn.get(where, -1) + 1
        found.append(turn[where] % folds)
    return np.array(found)


def log_chances(posterior: Posterior, conditions: Conditions, place: int) -> np.ndarray:
    """log of the predicted probability of each skill, in twentieths, of one condition's runs."""
    return np.log(chances_by_draw(posterior, conditions, place).mean(axis=0))


def chances_by_draw(posterior: Posterior, conditions: Conditions, place: int) -> np.ndarray:
    """The probability that one condition's run is read as each skill, (draws, OUTCOMES)."""
    model, family = int(conditions.model[place]), int(conditions.family[place])
    curve = posterior.curve(model, family, int(conditions.technique[place]))
    return curve.chances(float(conditions.log2_demand[place])) @ conditions.misread(place)


def held_out_logs(conditions: Conditions, settings: Settings, folds: int = FOLDS) -> np.ndarray:
    """The sum of the log-probabilities of each condition's runs, from fits that have not seen them."""
    fold = dealt(conditions, folds)
    logs = np.zeros(len(conditions))
    for left_out in range(folds):
        if not (fold == left_out).any() or not (fold != left_out).any():
            continue
        posterior = fit_conditions(conditions.only(fold != left_out), settings=settings)
        for place in np.flatnonzero(fold == left_out):
            logs[place] = conditions.counts[place] @ log_chances(posterior, conditions, int(place))
    return logs


def held_out_score(conditions: Conditions, settings: Settings, folds: int = FOLDS) -> Score:
    """How well levels are predicted from the others of their family."""
    return scored(held_out_logs(conditions, settings, folds), conditions.runs)
