"""Conditions: runs merged into a table of counts, which is all that a fit looks at.

A condition is a model with a technique on a family at a level. Its runs differ only by their skill, and
a skill is read in twentieths, so ten thousand runs of two hundred conditions are a table of 200 × 21
counts, and a million runs take no longer to fit.

>>> from ullage.observations import Observation
>>> skills = enumerate((1.0, 0.0, 1.0))
>>> runs = [Observation("parity", 8, seed, "input", {"input": 8.0}, skill) for seed, skill in skills]
>>> table = conditions_of(runs, "nominal")
>>> len(table), table.families, [int(count) for count in table.counts[0, [0, 20]]]
(1, ('parity',), [1, 2])
"""

import collections
import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ullage.boundary import STEPS, in_steps
from ullage.budget import STORAGE_BITS_PER_PARAMETER
from ullage.observations import NO_TECHNIQUE, NOMINAL, Model, Observation

OUTCOMES = STEPS + 1  # a skill is 0/20, 1/20 … 20/20
STORED = "storage"  # the notion that is held against what the weights hold


@dataclasses.dataclass(frozen=True)
class Conditions:
    """The runs of one effort under one notion; the arrays have one entry a condition.

    `family`, `model` and `technique` are places in the tuples of names; technique 0 is "none".
    """

    notion: str
    families: tuple[str, ...]
    models: tuple[Model, ...]
    techniques: tuple[str, ...]
    parameters: tuple[float | None, ...]  # of each model: the geometric mean over its families
    level: np.ndarray
    demand_bits: np.ndarray
    family: np.ndarray
    model: np.ndarray
    technique: np.ndarray
    counts: np.ndarray  # (conditions, OUTCOMES)
    skill: np.ndarray  # the mean of a condition's runs, not rounded
    floor: np.ndarray  # the score of guessing; 0 where it is not told
    questions: np.ndarray  # how many a run was graded on; 0 where it is not told
    notions: tuple[str, ...]  # of each family: the notion in which its demand is told

    def __len__(self) -> int:
        return len(self.level)

    @property
    def log2_demand(self) -> np.ndarray:
        """log2 of the bits that each condition asks for."""
        return np.log2(self.demand_bits)

    @property
    def log2_asked(self) -> np.ndarray:
        """log2 of what each condition asks for, in bits that can be compared between the notions.

        What is stored is held against what weights hold and all else against a bandwidth, which is another
        amount by far. Where a table mixes them, stored bits are told as the same share of the bandwidth.
        """
        return self.log2_demand - self.log2_offset[self.family]

    @property
    def log2_offset(self) -> np.ndarray:
        """Of each family, by how many log2 bits its budget is larger than the one of this table."""
        stored = np.array([notion == STORED for notion in self.notions])
        offered = [(self._stored_bits(place), self.budget_bits(place)) for place in range(len(self.models))]
        if stored.all() or not all(bits and budget for bits, budget in offered):
            return np.zeros(len(stored))
        return stored * float(
            np.mean([math.log2(bits / budget) for bits, budget in offered if bits and budget])
        )

    def _stored_bits(self, place: int) -> float | None:
        parameters = self.parameters[place]
        return None if parameters is None else parameters * STORAGE_BITS_PER_PARAMETER

    @property
    def runs(self) -> np.ndarray:
        """How many runs each condition has."""
        return self.counts.sum(axis=1)

    def budget_bits(self, place: int) -> float | None:
        """The budget that a model's growth is told against: what it can store, or else its bandwidth."""
        return self._stored_bits(place) if self.notion == STORED else self.models[place].bandwidth_bits

    @property
    def log2_budgets(self) -> np.ndarray:
        """log2 of each model's budget less their mean; all zero where one of them is not known."""
        budgets = [self.budget_bits(place) for place in range(len(self.models))]
        if any(budget is None for budget in budgets):
            return np.zeros(len(budgets))
        logs = np.log2(np.array(budgets, dtype=float))
        return logs - logs.mean()

    def misread(self, place: int) -> np.ndarray:
        """How likely a condition's run of each true skill (rows) is read as each skill (columns)."""
        return misread(float(self.floor[place]), float(self.questions[place]))

    def middles(self) -> np.ndarray:
        """Of each family, the middle of what its levels ask for; see `log2_asked`."""
        tried = [self.log2_asked[self.family == place] for place in range(len(self.families))]
        return np.array([(demands.min() + demands.max()) / 2 for demands in tried])

    def only(self, kept: np.ndarray) -> "Conditions":
        """The same table with the runs of some conditions only; names and conditions stay."""
        return dataclasses.replace(self, counts=self.counts * kept[:, None])

    def to_json(self) -> dict[str, Any]:
        """A document of plain values."""
        document = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        document = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in document.items()
        }
        return document | {"models": [dataclasses.asdict(model) for model in self.models]}

    def identity(self) -> str:
        """A hash of everything in the table."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:20]


def conditions_from_json(document: dict[str, Any]) -> Conditions:
    """The table of a document that `to_json` made."""
    arrays = ("level", "demand_bits", "family", "model", "technique", "counts", "skill", "floor", "questions")
    values: dict[str, Any] = {
        name: np.array(value) if name in arrays else value for name, value in document.items()
    }
    for name in ("families", "techniques", "parameters", "notions"):
        values[name] = tuple(values[name])
    values["models"] = tuple(Model(**model) for model in document["models"])
    return Conditions(**values)


def conditions_of(runs: Iterable[Observation], notion: str) -> Conditions:
    """Merge runs that have a demand under the notion; see `ullage.observations.under`."""
    known = [run for run in runs if (run.demand_bits(notion) or 0.0) > 0.0]
    families = tuple(sorted({run.task for run in known}))
    models = tuple(sorted({run.model for run in known}, key=_by_size))
    techniques = (NO_TECHNIQUE, *sorted({run.technique for run in known} - {NO_TECHNIQUE}))
    place = [{name: at for at, name in enumerate(names)} for names in (families, models, techniques)]
    tables: dict[tuple[Any, ...], np.ndarray] = collections.defaultdict(lambda: np.zeros(OUTCOMES, int))
    skills: dict[tuple[Any, ...], float] = collections.defaultdict(float)
    graded: dict[tuple[Any, ...], tuple[float, float]] = {}
    for run in known:
        names = (run.task, run.model, run.technique)
        where = tuple(places[name] for places, name in zip(place, names, strict=True))
        key = (*where, run.level, run.demand_bits(notion))
        tables[key][in_steps(run.skill)] += run.count
        skills[key] += run.skill * run.count
        graded[key] = (run.floor or 0.0, float(run.total or 0))
    keys = sorted(tables)
    family, model, technique, level, demand = (list(column) for column in zip(*keys, strict=True))
    counts = np.array([tables[key] for key in keys])
    return Conditions(
        notion,
        families,
        models,
        techniques,
        tuple(_parameters(known, model) for model in models),
        np.array(level),
        np.array(demand, dtype=float),
        np.array(family),
        np.array(model),
        np.array(technique),
        counts,
        np.array([skills[key] for key in keys]) / counts.sum(axis=1),
        *np.array([graded[key] for key in keys], dtype=float).T,
        notions=tuple(_notion(known, name, notion) for name in families),
    )


def _notion(runs: Iterable[Observation], family: str, notion: str) -> str:
    """The notion in which a family's demand is told: its own where each is told in its own."""
    if notion != NOMINAL:
        return notion
    return next(run.nominal for run in runs if run.task == family)


@functools.lru_cache(maxsize=4096)
def misread(floor: float, questions: float) -> np.ndarray:
    """The chance that a true skill is read as another one, in twentieths, because questions are few.

    Who knows nothing and guesses a coin 500 times scores 0.5 ± 0.02, a skill of 0 ± 0.04: that must not
    look like a run that has begun to learn.

    >>> misread(0.0, 500.0)[0, 0], bool(misread(0.5, 500.0)[0, 1] > 0.1)
    (np.float64(1.0), True)
    """
    if not questions:
        return np.eye(OUTCOMES)
    true = np.arange(OUTCOMES) / STEPS
    score = floor + (1 - floor) * true
    error = np.sqrt(score * (1 - score) / questions) / (1 - floor)
    edges = (np.arange(1, OUTCOMES) - 0.5) / STEPS
    scaled = (edges[None, :] - true[:, None]) / np.maximum(error, 1e-9)[:, None]
    below = np.array([[0.5 * math.erfc(-value / math.sqrt(2)) for value in row] for row in scaled])
    return np.diff(np.hstack([np.zeros((OUTCOMES, 1)), below, np.ones((OUTCOMES, 1))]), axis=1)


def _by_size(model: Model) -> tuple[Any, ...]:
    return (model.bandwidth_bits or 0.0, model.d_model or 0, model.layers or 0, model.model_id, str(model))


def _parameters(runs: Iterable[Observation], model: Model) -> float | None:
    """One model has embeddings of another size on every family: the geometric mean of them."""
    sizes = {run.task: run.parameters for run in runs if run.model == model}
    if not sizes or any(size is None for size in sizes.values()):
        return None
    return 2 ** (sum(math.log2(size) for size in sizes.values() if size) / len(sizes))
