"""The table of a fit, padded to a few fixed sizes, so that one compiled program fits many tables.

Compiling the sampler takes longer than most fits. A condition that only fills up has no runs, a family
that only fills up is not active, and neither says anything.

>>> padded_size(5, 4), padded_size(70, 32)
(6, 96)
"""

from typing import Any, NamedTuple

import numpy as np

from ullage.boundary import STEPS
from ullage.conditions import OUTCOMES, Conditions

LEAST_CONDITIONS, LEAST_FAMILIES, LEAST_MODELS = 32, 4, 2


class Table(NamedTuple):
    """Counts and where they belong; arrays of numpy outside a fit and of JAX inside."""

    counts: Any  # (conditions, outcomes)
    misread: Any  # (conditions, outcomes, outcomes): true skill to the skill that is read
    log2_demand: Any  # (conditions,), as the next four; see `Conditions.log2_asked`
    family: Any
    model: Any
    technique: Any
    item: Any  # the place of the question: its family and level, whoever answers
    log2_budget: Any  # (models,), less its mean
    bounded: Any  # (models, families): 1 where runs tell a boundary
    active: Any  # (families,): 1, or 0 where one only fills up
    zero_sum: Any  # (families, families): turns free numbers into ones that sum to zero
    start: Any  # (families,): where difficulties that fit the tried levels lie
    centre: Any  # (): the middle of the tried log2 demands
    item_family: Any  # (items,)
    several: Any  # (): 1 if there is more than one model
    techniques: Any  # (techniques,): only its length counts

    def where_active(self, location: Any, scale: Any) -> tuple[Any, Any]:
        """Location and scale of the families; what only fills up is standard and out of the way."""
        return location * self.active, scale * self.active + (1 - self.active)


def padded_size(count: int, least: int) -> int:
    """The next of least, 1½ · least, 2 · least, 3 · least, 4 · least, … that has room; least is even."""
    size = least
    while size < count:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size


def zero_sum_basis(count: int, size: int) -> np.ndarray:
    """Columns of length one that span all vectors of `count` entries with sum zero, filled up with zeros.

    >>> basis = zero_sum_basis(3, 4)
    >>> bool(np.allclose(basis.sum(axis=0), 0)), np.linalg.matrix_rank(basis)
    (True, np.int64(2))
    """
    basis = np.zeros((size, size))
    if count > 1:
        rest = np.eye(count)[:, :-1] - np.eye(count)[:, 1:]
        basis[:count, : count - 1] = np.linalg.qr(rest)[0]
    return basis


class Sizes(NamedTuple):
    """How much room a table has."""

    conditions: int
    families: int
    models: int


def sizes_of(conditions: Conditions) -> Sizes:
    """The padded sizes of some conditions."""
    return Sizes(
        padded_size(len(conditions), LEAST_CONDITIONS),
        padded_size(len(conditions.families), LEAST_FAMILIES),
        padded_size(len(conditions.models), LEAST_MODELS),
    )


def tabled(conditions: Conditions, sizes: Sizes | None = None) -> Table:
    """The padded table of some conditions; tables of the same sizes can be stacked."""
    size, families, models = sizes or sizes_of(conditions)
    items = sorted({*zip(conditions.family.tolist(), conditions.level.tolist(), strict=True)})
    place = {item: at for at, item in enumerate(items)}
    item = [place[pair] for pair in zip(conditions.family.tolist(), conditions.level.tolist(), strict=True)]
    middles = conditions.middles()
    basis = zero_sum_basis(len(middles), families)
    return Table(
        counts=_filled(conditions.counts.astype(float), (size, OUTCOMES)),
        misread=_misread(conditions, size),
        log2_demand=_filled(conditions.log2_asked, (size,)),
        family=_filled(conditions.family, (size,)),
        model=_filled(conditions.model, (size,)),
        technique=_filled(conditions.technique, (size,)),
        item=_filled(np.array(item), (size,)),
        log2_budget=_filled(conditions.log2_budgets, (models,)),
        bounded=_filled(_bounded(conditions), (models, families)),
        active=_filled(np.ones(len(middles)), (families,)),
        zero_sum=basis,
        start=basis.T @ _filled(middles.mean() - middles, (families,)),
        centre=np.float64(middles.mean()),
        item_family=_filled(np.array([family for family, _ in items]), (size,)),
        several=np.float64(len(conditions.models) > 1),
        techniques=np.zeros(_technique_slots(len(conditions.techniques))),
    )


def _bounded(conditions: Conditions) -> np.ndarray:
    """1 for each model on each family where some level has mostly been learned and some mostly not."""
    bounded = np.zeros((len(conditions.models), len(conditions.families)))
    told, best = conditions.runs > 0, np.arange(OUTCOMES) / STEPS
    skill = conditions.counts @ best / np.maximum(conditions.runs, 1)
    for model, family in np.ndindex(bounded.shape) if len(bounded) > 1 else ():
        here = skill[told & (conditions.model == model) & (conditions.family == family)]
        bounded[model, family] = bool(here.size) and here.min() < 0.5 < here.max()
    return bounded


def _misread(conditions: Conditions, size: int) -> np.ndarray:
    matrices = np.tile(np.eye(OUTCOMES), (size, 1, 1))
    for place in range(len(conditions)):
        matrices[place] = conditions.misread(place)
    return matrices


def _technique_slots(count: int) -> int:
    """The baseline's, and two, four, eight … for techniques where there are any."""
    return 1 if count == 1 else 1 + padded_size(count - 1, 2)


def _filled(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    full = np.zeros(shape, values.dtype)
    full[tuple(slice(0, length) for length in values.shape)] = values
    return full
