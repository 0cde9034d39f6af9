"""How much each knob of a recipe mattered, told by Optuna from the trials of all searches of a family.

Levels differ in how well any recipe does, so a trial counts by how much better it was than the others of its
level. Optuna's PED-ANOVA (Watanabe, Bansal and Hutter 2023, arXiv 2304.10255) asks how the best trials differ
from the others, knob by knob; a few trials give a rumour and no more, so their number stands beside.

>>> importances([])
[]
"""

import collections
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ullage.record import EVIDENCE, Phase, RunRecord, Status
from ullage.search import objective

FEWEST_TRIALS = 8  # of a family: with fewer, the best of them are one or two
WIDE = 10.0  # a knob whose values differ by such a factor was searched by its logarithm
# Knobs that follow from the request, and not from the search.
FIXED = {"step_limit", "evaluate_every", "train_examples", "techniques", "architecture"}


def importances(records: Iterable[RunRecord]) -> list[dict[str, Any]]:
    """One row a family and knob: its share of the importance of all knobs, and the trials behind it."""
    rows = []
    for family, trials in _by_family(records).items():
        if len(trials) < FEWEST_TRIALS:
            continue
        values = [point_of(record) for record in trials]
        varying = [name for name in values[0] if len({one.get(name) for one in values}) > 1]
        if varying:
            shares = _shares(varying, values, _merits(trials))
            rows += [
                {"family": family, "knob": name, "share": share, "trials": len(trials)}
                for name, share in shares.items()
            ]
    return rows


def point_of(record: RunRecord) -> dict[str, Any]:
    """The knobs of a trial that a search may choose, by name."""
    recipe = json.loads(record.recipe_json or "{}")
    model = recipe.get("architecture", {}).get("knobs", {})
    own = {name: value for name, value in recipe.items() if name not in FIXED}
    return own | {"positional": model.get("positional")}


def _by_family(records: Iterable[RunRecord]) -> dict[str, list[RunRecord]]:
    found: dict[str, list[RunRecord]] = collections.defaultdict(list)
    for record in records:
        ended = record.status in (*EVIDENCE, Status.PRUNED) and record.skill is not None
        if record.phase == Phase.SEARCH and ended:
            found[record.task].append(record)
    return dict(sorted(found.items()))


def _merits(trials: Sequence[RunRecord]) -> list[float]:
    """By how much each trial was better than the mean of its study and level."""
    told = [
        objective(one.skill or 0.0, one.generalisation_gap, one.steps_to_solve, one.step_limit)
        for one in trials
    ]
    places = [(one.study, one.level) for one in trials]
    means = {
        place: statistics.fmean(value for value, here in zip(told, places, strict=True) if here == place)
        for place in set(places)
    }
    return [value - means[place] for value, place in zip(told, places, strict=True)]


def _shares(
    names: Sequence[str], values: Sequence[Mapping[str, Any]], merits: Sequence[float]
) -> dict[str, float]:
    import optuna
    from optuna.trial import create_trial

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = {name: _distribution([one[name] for one in values]) for name in names}
    study = optuna.create_study(direction="maximize")
    for one, merit in zip(values, merits, strict=True):
        chosen = {name: one[name] for name in names}
        study.add_trial(create_trial(params=chosen, distributions=distributions, value=merit))
    found = optuna.importance.get_param_importances(study)
    return {name: float(share) for name, share in found.items()}


def _distribution(values: Sequence[Any]) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if not all(isinstance(value, float) for value in values) or len(set(values)) <= 4:
        return CategoricalDistribution(sorted(set(values), key=lambda value: (str(type(value)), value)))
    low, high = min(values), max(values)
    return FloatDistribution(low, high, log=low > 0 and high / low > WIDE)
