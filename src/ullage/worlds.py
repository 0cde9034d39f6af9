"""Worlds whose capacities are known, to see whether a fit finds them again.

A world has models of several budgets and families of several difficulties, and its runs are drawn as
real ones come out: scattered around their mean, graded on some hundred questions, with chance as a floor.

>>> world = draw_world("steep", seed=0)
>>> world.observations.count == len(world.observations.runs) == 4 * 5 * 7 * 3
True
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from ullage.boundary import LEAST_SKILL, STEPS
from ullage.observations import Model, Observation, Observations

LEVELS, SEEDS, QUESTIONS = 7, 3, 500
MODELS, FAMILIES = 4, 5
CHANCES = (0.5, 0.25, 0.0625, 0.0)


@dataclasses.dataclass(frozen=True)
class Kind:
    """What worlds of one kind have in common; slopes per log2 bit, the rest as in `ullage.scatter`."""

    slopes: tuple[float, float] = (2.0, 12.0)
    concentrations: tuple[float, float] = (1.0, 20.0)
    families: int = FAMILIES
    kept: float = 1.0  # the share of (model, family) pairs that have runs
    outlier: float = 0.0  # by how many log2 bits one family is harder than the others


KINDS = {
    "steep": Kind(slopes=(8.0, 30.0)),
    "shallow": Kind(slopes=(1.2, 3.0)),
    "few families": Kind(families=2),
    "unbalanced": Kind(kept=0.6),
    "outlier family": Kind(outlier=6.0),
    "all or nothing": Kind(concentrations=(0.25, 0.35)),
}


@dataclasses.dataclass(frozen=True)
class World:
    """The truth, in log2 bits at which the expected skill is one half, and runs that were drawn from it."""

    kind: str
    models: tuple[Model, ...]
    families: tuple[str, ...]
    log2_capacity: np.ndarray  # (models, families)
    observations: Observations


def draw_world(kind: str, seed: int, *, told_chance: bool = True) -> World:
    """One world of a kind; without `told_chance` its runs are told as if guessing scored nothing."""
    random, shape = np.random.default_rng([seed, sorted(KINDS).index(kind)]), KINDS[kind]
    models = tuple(
        Model(f"model {place}", "simulated", 2, 4, int(8 * 2**place), 64, 32) for place in range(MODELS)
    )
    families = tuple(f"family {place}" for place in range(shape.families))
    difficulty = random.normal(0, 1.5, len(families))
    difficulty[0] += shape.outlier
    growth, own = random.normal(0.5, 0.3), random.normal(0, 0.3, MODELS)
    pair = random.normal(0, 0.2, (MODELS, len(families)))
    sizes = np.arange(MODELS) - np.arange(MODELS).mean()
    middle = 7 + (growth * sizes + own)[:, None] - difficulty[None, :] + pair
    lapse = random.choice([0.0, 0.0, 0.1, 0.25], len(families))
    slope = _log_uniform(random, shape.slopes, len(families))
    spread = _log_uniform(random, shape.concentrations, len(families))
    chance = random.choice(CHANCES, len(families))
    # Whoever chose the levels knew roughly where the boundary lies.
    centre = 7 - difficulty + random.normal(0, 0.5, len(families))
    runs: list[Observation] = []
    for model, family in _pairs(random, len(families), shape.kept):
        for level in range(LEVELS):
            demand = centre[family] + level - (LEVELS - 1) / 2
            expected = (1 - lapse[family]) * _sigmoid(slope[family] * (middle[model, family] - demand))
            floor = chance[family]
            runs += [
                Observation(
                    families[family],
                    level + 1,
                    number,
                    "context",
                    {"context": float(2**demand)},
                    skill if told_chance else floor + (1 - floor) * skill,
                    models[model],
                    floor=floor,
                    total=QUESTIONS,
                )
                for number, skill in enumerate(_skills(random, expected, spread[family], floor))
            ]
    odds = 0.5 / (1 - lapse)
    half = middle - np.log(odds / (1 - odds)) / slope
    return World(kind, models, families, half, Observations(tuple(runs), {}))


def _log_uniform(random: np.random.Generator, ends: tuple[float, float], count: int) -> np.ndarray:
    return np.exp(random.uniform(math.log(ends[0]), math.log(ends[1]), count))


def _pairs(random: np.random.Generator, families: int, kept: float) -> list[tuple[int, int]]:
    """Which model was tried on which family; every family by one model at least."""
    pairs = [(model, family) for family in range(families) for model in range(MODELS)]
    chosen = [pair for pair in pairs if random.random() < kept]
    alone = [family for family in range(families) if all(pair[1] != family for pair in chosen)]
    return sorted({*chosen, *((0, family) for family in alone)})


def _skills(random: np.random.Generator, expected: float, spread: float, floor: float) -> Sequence[float]:
    inside = LEAST_SKILL + (1 - 2 * LEAST_SKILL) * expected
    skill = random.beta(inside * spread, (1 - inside) * spread, SEEDS)
    score = random.binomial(QUESTIONS, floor + (1 - floor) * skill) / QUESTIONS
    return [float(value) for value in (score - floor) / (1 - floor)]


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-min(max(value, -40.0), 40.0)))


# ── worlds drawn from the prior ───────────────────────────────────────────────────────────────────

PRIOR_MODELS, PRIOR_FAMILIES, PRIOR_LEVELS, PRIOR_CENTRE = 3, 4, 6, 8.0


def draw_prior_world(seed: int) -> World:
    """A world drawn from the prior of `ullage.metamodel.hierarchical` with `own_floor`, written anew.

    Ranks of its truth among the draws of a fit are uniform if the sampler, the likelihood and the read-off
    are right: simulation-based calibration (Talts et al. 2018, arXiv 1804.06788).
    """
    random = np.random.default_rng([seed, len(KINDS)])
    middle = _prior_middle(random)
    slope = np.exp(random.normal(1.6, 0.8) + random.normal(0, 1, PRIOR_FAMILIES) * _scale(random, 0.5, 0.5))
    lapse, low = 0.4 * random.beta(1, 7, (2, PRIOR_FAMILIES))
    place = random.normal(0, 1) + random.normal(0, 1, PRIOR_FAMILIES) * _scale(random, 1.0, 0.5)
    spread = 0.2 * 250 ** (1 / (1 + np.exp(-place)))
    models = tuple(
        Model(f"model {number}", heads=1, d_head=2**number, precision_bits=1)
        for number in range(PRIOR_MODELS)
    )
    families = tuple(f"family {number}" for number in range(PRIOR_FAMILIES))
    runs: list[Observation] = []
    for model, family, level in np.ndindex(PRIOR_MODELS, PRIOR_FAMILIES, PRIOR_LEVELS):
        demand = PRIOR_CENTRE + 2.0 * (level - (PRIOR_LEVELS - 1) / 2)
        rise = _sigmoid(slope[family] * (middle[model, family] - demand))
        mean = low[family] + (1 - lapse[family] - low[family]) * rise
        inside = LEAST_SKILL + (1 - 2 * LEAST_SKILL) * mean
        skill = random.beta(inside * spread[family], (1 - inside) * spread[family], SEEDS)
        asked = {"context": 2**demand}
        runs += [
            Observation(families[family], level, number, "context", asked, twentieths / STEPS, models[model])
            for number, twentieths in enumerate(random.binomial(STEPS, skill).tolist())
        ]
    share = (0.5 - low) / (1 - lapse - low)
    half = middle - np.log(share / (1 - share)) / slope
    return World("prior", models, families, half, Observations(tuple(runs), {}))


def _prior_middle(random: np.random.Generator) -> np.ndarray:
    """log2 of every model's boundary on every family, were there no lapses."""
    typical, growth = random.normal(0, 3.0), random.normal(0.5, 0.5)
    own = random.normal(0, 1, PRIOR_MODELS) * _scale(random, 0.3, 0.6)
    difficulty = random.normal(0, 1, PRIOR_FAMILIES) * _scale(random, 1.5, 0.7)
    pair = random.normal(0, 1, (PRIOR_MODELS, PRIOR_FAMILIES)) * _scale(random, 0.2, 0.6)
    sizes = np.arange(PRIOR_MODELS) - np.arange(PRIOR_MODELS).mean()
    of_model = PRIOR_CENTRE + typical + growth * sizes + own
    return of_model[:, None] - (difficulty - difficulty.mean())[None, :] + pair


def _scale(random: np.random.Generator, median: float, spread: float) -> float:
    return float(median * np.exp(random.normal(0, spread)))
