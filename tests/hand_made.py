"""Tables of runs and posteriors made by hand: what is read off a posterior is tested without a sampler."""

import dataclasses

import numpy as np

from ullage.boundary import in_steps
from ullage.budget import Budgets
from ullage.capacity import DEFAULT_SETTINGS
from ullage.conditions import conditions_of
from ullage.observations import Effort, Model, Observation
from ullage.posterior import Curve, Diagnostics, Posterior
from ullage.prediction import Offer, Question

DRAWS = 400
SLOPE, CONCENTRATION = 4.0, 5.0
SOUND = Diagnostics(rhat_max=1.0, ess_min=400.0, divergences=0, draws=DRAWS)
NANO = Model("nano", "transformer", 2, 4, 8, 32, 32)
SMALL = Model("small", "transformer", 2, 4, 16, 64, 32)
PAPER = Model("paper", "transformer", 2, 8, 32, 256, 32)
CAPACITIES = {"copy": 5.0, "modulo": 4.0, "parity": 3.0}  # log2 bits, of nano; small has one more
PREDICTION_KEYS = [
    "probability",
    "skill",
    "demand_bits",
    "demand_notion",
    "model",
    "binding_budget",
    "extrapolating",
    "source",
    "evidence",
]
STEPS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)  # where levels lie around the boundary, log2 bits


def offer(model=NANO, parameters=1000):
    bandwidth = model.bandwidth_bits or 1.0
    return Offer(model, parameters, Budgets(bandwidth, 32.0 * parameters, 3.6 * parameters))


def question(family="parity", log2_demand=3.0, level=3):
    bits = 2.0**log2_demand
    return Question(family, level, "input", bits, {"input": bits})


def curve_at(log2_capacity, slope=SLOPE, concentration=CONCENTRATION):
    one = np.ones(1)
    return Curve(
        log2_capacity * one,
        slope * one,
        0 * one,
        one,
        {"concentration": concentration * one},
        "beta_binomial",
    )


def drawn_skill(random, log2_capacity, log2_demand):
    """The skill of one run of a learner whose truth is known."""
    chances = curve_at(log2_capacity).chances(log2_demand)[0]
    return random.choice(len(chances), p=chances / chances.sum()) / (len(chances) - 1)


def simulated(seed=0, seeds=4, models=(NANO, SMALL), capacities=CAPACITIES, stray=0.0):
    """The table of a small world; each condition's own boundary strays so many log2 bits."""
    random = np.random.default_rng(seed)
    runs = []
    for place, model in enumerate(models):
        for family, middle in capacities.items():
            for level, step in enumerate(STEPS):
                log2_demand, own = middle + step, middle + place + stray * random.normal()
                runs += [
                    Observation(
                        family,
                        level,
                        number,
                        "input",
                        {"input": 2.0**log2_demand},
                        drawn_skill(random, own, log2_demand),
                        model,
                        1000 * 4**place,
                    )
                    for number in range(seeds)
                ]
    return conditions_of(runs, "nominal")


def posterior_of(
    conditions, spread=0.1, family_spread=1.0, growth=1.0, draws=DRAWS, settings=DEFAULT_SETTINGS
):
    """A posterior around the truth of `simulated`: `spread` is how sure it is of log2 C."""
    random = np.random.default_rng(1)
    families, models = len(conditions.families), len(conditions.models)
    middle = conditions.middles().mean()
    difficulty = middle - conditions.middles()  # as if all levels lay around their family's boundary
    full = np.ones((draws, families))
    scale = np.ones(draws)
    return Posterior(
        conditions,
        Effort(),
        settings.rival,
        "beta_binomial",
        {
            "typical": random.normal(0.5 if models > 1 else 0.0, spread, draws),
            "growth": random.normal(growth, 0.1, draws),
            "model": np.zeros((draws, models)),
            "pair": np.zeros((draws, models, families)),
            "difficulty": difficulty + 0.0 * full,
            "model_scale": 0.2 * scale,
            "pair_scale": 0.1 * scale,
            "difficulty_scale": family_spread * scale,
            "slope": SLOPE * full,
            "low": 0.0 * full,
            "high": 1.0 * full,
            "concentration": CONCENTRATION * full,
        },
        SOUND,
        {},
    )


def shuffled(conditions, seed=0):
    """The same table with the outcomes of its conditions dealt out anew."""
    order = np.random.default_rng(seed).permutation(len(conditions))
    return dataclasses.replace(conditions, counts=conditions.counts[order], skill=conditions.skill[order])


def counts_of(skills):
    counts = np.zeros((1, 21), int)
    for skill in skills:
        counts[0, in_steps(skill)] += 1
    return counts
