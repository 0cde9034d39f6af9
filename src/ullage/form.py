"""The form "Will it fit?": posteriors as numbers that a browser can evaluate, as `ullage predict` does.

What a prediction needs of a posterior are some columns with one number a draw: the middle of the curve of
every model on every family, of a new model, of a new family, and the shape of each family's curve. The page
adds them up (web/page.js), and gives the numbers that the command would give. All draws are sent as long as
they are no more than `LARGEST` bytes; then every second, third … draw is.

>>> packed(np.array([1.0, 1.5, 3.0]))
{'low': 1.0, 'step': 1.19...e-07, 'numbers': 'AAAAQAAA////'}
>>> packed(np.zeros(3))
{'low': 0.0, 'step': 0.0, 'numbers': ''}
"""

import base64
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ullage.boundary import CREDIBLE, LEAST_SKILL, STEPS, in_steps
from ullage.budget import COMPARED, STORAGE_BITS_PER_PARAMETER
from ullage.material import model_names
from ullage.observations import NOMINAL
from ullage.posterior import LOG_CHOOSE, Posterior
from ullage.record import LEARNED

LARGEST = 2_100_000  # bytes of numbers in one page, before they are written as letters
BYTES = 3  # a number: its error is then a ten-millionth of the spread of its column
SHAPES = ("slope", "low", "high", "top", "concentration", "concentration_learned")


def form_of(
    posteriors: Mapping[str, Posterior],
    notions: Mapping[str, str],
    shapes: Mapping[str, Mapping[str, Any]],
    sizes: Mapping[str, Any],
) -> dict[str, Any]:
    """The document that the page reads: what may be chosen, and the draws that answer.

    `notions` are those of the families; `shapes` are the knobs of the models that knobs can tell, by name;
    `sizes` say how many parameters a shape has.
    """
    weight = sum(BYTES * posterior.count * _columns(posterior) for posterior in posteriors.values())
    every = max(1, math.ceil(weight / LARGEST))
    return {
        "credible": CREDIBLE,
        "steps": STEPS,
        "leastSkill": LEAST_SKILL,
        "learned": in_steps(LEARNED),
        "logChoose": LOG_CHOOSE.tolist(),
        "compared": {str(notion): list(budgets) for notion, budgets in COMPARED.items()},
        "storageBits": STORAGE_BITS_PER_PARAMETER,
        "every": every,
        "sizes": sizes,
        "fits": [_fit(posterior, notions, shapes, every) for posterior in posteriors.values()],
    }


def packed(column: np.ndarray) -> dict[str, Any]:
    """A column of numbers as letters: how many steps each lies above the lowest."""
    low, high = float(column.min()), float(column.max())
    if low == high:
        return {"low": low, "step": 0.0, "numbers": ""}
    step = (high - low) / (256**BYTES - 1)
    places = np.round((column - low) / step).astype(">u4")
    letters = base64.b64encode(places.view(np.uint8).reshape(-1, 4)[:, -BYTES:].tobytes()).decode()
    return {"low": low, "step": step, "numbers": letters}


def _columns(posterior: Posterior) -> int:
    families, models = len(posterior.conditions.families), len(posterior.conditions.models)
    shapes = sum(name in posterior.draws for name in SHAPES)
    return (families + 1) * (models + 1 + shapes) + 1


def _fit(
    posterior: Posterior, notions: Mapping[str, str], shapes: Mapping[str, Mapping[str, Any]], every: int
) -> dict[str, Any]:
    conditions = posterior.conditions
    families = [*range(len(conditions.families)), None]
    models = [*range(len(conditions.models)), None]
    middles = [posterior.curve(model, family).middle for family in families for model in models]
    spread = [name for name in SHAPES if name in posterior.draws]
    curves = [posterior.curve(0, family) for family in families]
    told = [{"slope": one.slope, "low": one.low, "high": one.high, **one.spread} for one in curves]
    columns = [*middles, *(one[name] for one in told for name in spread), posterior.of("growth")]
    full = [np.broadcast_to(np.asarray(column, dtype=float), posterior.count)[::every] for column in columns]
    return {
        "notion": conditions.notion,
        "scatter": posterior.scatter,
        "shapes": spread,
        "trusted": posterior.diagnostics.trusted,
        "effort": str(posterior.effort),
        "subjects": [*_families(posterior, notions), _new_family(posterior)],
        "models": _models(posterior, shapes),
        **_budgets(posterior),
        "draws": len(full[0]),
        "columns": [packed(column) for column in full],
    }


def _families(posterior: Posterior, notions: Mapping[str, str]) -> list[dict[str, Any]]:
    """The families that may be chosen by name: in the nominal fit, where all of them help each other."""
    conditions = posterior.conditions
    return [
        {
            "family": name,
            "notion": notions.get(name, conditions.notion),
            "offered": conditions.notion == NOMINAL,
            "tried": _ends(conditions.demand_bits[(conditions.family == place) & (conditions.runs > 0)]),
        }
        for place, name in enumerate(conditions.families)
    ]


def _new_family(posterior: Posterior) -> dict[str, Any]:
    """A task that nobody has trained, by its bits: not in the nominal fit, which mixes notions."""
    conditions = posterior.conditions
    return {
        "family": None,
        "notion": conditions.notion,
        "offered": conditions.notion != NOMINAL,
        "tried": _ends(conditions.demand_bits[conditions.runs > 0]),
    }


def _ends(bits: np.ndarray) -> list[float]:
    return [float(bits.min()), float(bits.max())]


def _models(posterior: Posterior, shapes: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    conditions = posterior.conditions
    names = model_names(conditions.models)
    return [
        {
            **dataclasses.asdict(model),
            "name": names[model],
            "parameters": conditions.parameters[place],
            "shape": shapes.get(model.model_id),
        }
        for place, model in enumerate(conditions.models)
    ]


def _budgets(posterior: Posterior) -> dict[str, Any]:
    """What growth is told against; the mean is None where a budget is not known, and growth tells nothing."""
    conditions = posterior.conditions
    budgets = [conditions.budget_bits(place) for place in range(len(conditions.models))]
    known = [budget for budget in budgets if budget]
    complete = len(known) == len(budgets)
    return {
        "budgets": budgets,
        "meanLog2Budget": float(np.mean(np.log2(known))) if complete else None,
        "depths": sorted({model.layers for model in conditions.models if model.layers is not None}),
    }
