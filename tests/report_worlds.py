"""Worlds for reports: records with all that a page may show, and posteriors kept without a sampler."""

import dataclasses
import json

import numpy as np
from hand_made import CAPACITIES, NANO, SMALL, SOUND, STEPS, drawn_skill, posterior_of

from ullage import kept
from ullage.capacity import DEFAULT_SETTINGS, prepared
from ullage.material import Material
from ullage.observations import NOMINAL, NOTIONS, observe
from ullage.posterior import Diagnostics
from ullage.prediction import raised, raising
from ullage.record import CurveRow
from ullage.store import KEPT, open_store
from ullage.testing_stores import example_record

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&$x_$`{{7*7}}`\u2028\x1b[31m]]>"
DOUBTFUL = Diagnostics(rhat_max=1.4, ess_min=12.0, divergences=90, draws=400)
RECIPE = {"architecture": {"knobs": {"positional": "sinusoidal"}}, "step_limit": 2000, "batch_size": 128}
D_FF = {"nano": 128, "small": 256}


def record(run_id, family="parity", level=3, skill=1.0, model=NANO, **more):
    """A finished final run, with a demand under its nominal notion `input`."""
    numbers = {
        "demand_answer_bits": 1.0,
        "demand_input_bits": 2.0**level,
        "demand_context_bits": None,
        "demand_storage_bits": None,
    }
    shape = {name: value for name, value in dataclasses.asdict(model).items() if name != "model_id"}
    values = {
        **shape,
        **numbers,
        "model_id": model.model_id,
        "d_ff": D_FF.get(model.model_id),
        "task": family,
        "level": level,
        "demand_bits": numbers["demand_input_bits"],
        "demand_notion": "input",
        "technique": "none",
        "seed": len(run_id),
        "step_limit": 2000,
        "search_trials": 0,
        "train_examples": 0,
        "score": skill,
        "score_floor": 0.0,
        "score_ceiling": 1.0,
        "total": 0,
        "entropy_bits": 0.1,
        "generalisation_gap": 0.0,
        "steps_to_solve": 500 if skill >= 0.95 else None,
        "late_generalisation_steps": None,
        "train_steps": 1000,
        "train_flops": 1e9,
        "seconds": 2.0,
        "study": f"{family}/{model.model_id}/quick/1",
        "recipe_round": 1,
        "recipe_json": json.dumps({**RECIPE, "learning_rate": 1e-3}),
        "reason": "solved",
        **more,
    }
    return dataclasses.replace(example_record(run_id), **values)


def world(families=CAPACITIES, models=(NANO, SMALL), seeds=3, seed=0, **more):
    """The finals of a small world, whose boundaries lie at 2^`families` bits for the first model."""
    random = np.random.default_rng(seed)
    return [
        record(
            f"{family}/{model.model_id}/{step}/{number}",
            family,
            round(middle + 4 * step) + 20,
            drawn_skill(random, middle + place, middle + step),
            model,
            demand_bits=2.0 ** (middle + step),
            demand_input_bits=2.0 ** (middle + step),
            seed=number,
            **more,
        )
        for place, model in enumerate(models)
        for family, middle in families.items()
        for step in STEPS
        for number in range(seeds)
    ]


def curve(run_id, splits=("train", "validation"), steps=(50, 100, 150)):
    """Every metric of a run at some steps."""
    return tuple(
        CurveRow(run_id, step, split, metric, step / 150)
        for step in steps
        for split in splits
        for metric in ("score", "cross_entropy_bits", "entropy_bits", "total")
    )


def varied(posterior, seed=0):
    """The same posterior with every quantity uncertain, so that no draw is like another."""
    random = np.random.default_rng(seed)
    draws = {name: values + 0.0 for name, values in posterior.draws.items()}
    shape = draws["slope"].shape
    draws["slope"] = np.exp(random.normal(1.2, 0.4, shape))
    draws["high"] = 1 - 0.1 * random.random(shape)
    draws["concentration"] = np.exp(random.normal(1.5, 0.5, shape))
    draws["difficulty"] = draws["difficulty"] + random.normal(0, 0.3, shape)
    for name, values in draws.items():
        if name.endswith("_scale"):
            draws[name] = values * np.exp(random.normal(0, 0.2, values.shape))
    draws["model"] = random.normal(0, 0.3, draws["model"].shape)
    draws["pair"] = random.normal(0, 0.2, draws["pair"].shape)
    return dataclasses.replace(posterior, draws=draws)


def mixed(posterior, seed=0):
    """The same posterior, of runs that have learned or not."""
    random = np.random.default_rng(seed)
    shape = posterior.draws["slope"].shape
    low, top = 0.1 * random.random(shape), 1 - 0.05 * random.random(shape)
    more = {
        "low": low,
        "top": top,
        "high": low + (1 - 0.1 * random.random(shape)) * (top - low),
        "concentration_learned": np.exp(random.normal(2.5, 0.3, shape)),
    }
    return dataclasses.replace(posterior, scatter="mixture", draws={**posterior.draws, **more})


def fitted(observations, notion=NOMINAL, diagnostics=SOUND, excluded=None):
    """A posterior of some runs, made by hand as if all levels lay around the boundary."""
    conditions, effort, left_out = prepared(raised(observations, notion), notion)
    found = varied(posterior_of(conditions))
    return dataclasses.replace(
        found, effort=effort, diagnostics=diagnostics, excluded=excluded or dict(left_out)
    )


def notions_of(observations):
    return [NOMINAL, *(notion for notion in NOTIONS if raising(observations, notion))]


def keep_all(observations, folder, diagnostics=SOUND):
    """Put a posterior of every notion where the fits of these runs are looked for."""
    for notion in notions_of(observations):
        posterior = fitted(observations, notion, diagnostics)
        name = kept.identity(posterior.conditions, posterior.effort, DEFAULT_SETTINGS)
        kept.save(posterior, folder, name)


def stored(folder, records, curves=None):
    """A store of some runs whose fits are kept; the path."""
    with open_store(folder) as store:
        for one in records:
            store.append(one, (curves or {}).get(one.run_id, ()))
    keep_all(observe(open_store(folder).read().records.values()), folder / KEPT)
    return folder


def material(records=None, *, diagnostics=SOUND, **more):
    """The material of a world."""
    records = world() if records is None else records
    observations = observe(records)
    fits = {notion: fitted(observations, notion, diagnostics) for notion in notions_of(observations)}
    return Material(fits.pop(NOMINAL), fits, observations, tuple(records), **more)
