"""The table of a fit, padded to a few fixed sizes, so that one compiled program fits many tables.

Compiling the sampler takes longer than most fits. A condition that only fills up has no runs, a family
that only fills up is not active, and neither says anything.

>>> padded_size(5, 4), padded_size(70, 32)
(8, 128)
"""

from typing import Any, NamedTuple

import numpy as np

from ullage.conditions import OUTCOMES, Conditions

LEAST_CONDITIONS, LEAST_FAMILIES, LEAST_MODELS = 32, 4, 2


class Table(NamedTuple):
    """Counts and where they belong; arrays of numpy outside a fit and of JAX inside."""

    counts: Any  # (conditions, outcomes)
    misread: Any  # (conditions, outcomes, outcomes): true skill to the skill that is read
    log2_demand: Any  # (conditions,), as the next four
    family: Any
    model: Any
    technique: Any
    item: Any  # the place of the question: its family and level, whoever answers
    log2_budget: Any  # (models,), less its mean
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
    """The next of least, 2 · least, 4 · least, … that has room."""
    size = least
    while size < count:
        size *= 2
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


def tabled(conditions: Conditions) -> Table:
    """The padded table of some conditions."""
    size = padded_size(len(conditions), LEAST_CONDITIONS)
    families = padded_size(len(conditions.families), LEAST_FAMILIES)
    models = padded_size(len(conditions.models), LEAST_MODELS)
    items = sorted({*zip(conditions.family.tolist(), conditions.level.tolist(), strict=True)})
    place = {item: at for at, item in enumerate(items)}
    item = [place[pair] for pair in zip(conditions.family.tolist(), conditions.level.tolist(), strict=True)]
    middles = conditions.middles()
    basis = zero_sum_basis(len(middles), families)
    return Table(
        counts=_filled(conditions.counts.astype(float), (size, OUTCOMES)),
        misread=_misread(conditions, size),
        log2_demand=_filled(conditions.log2_demand, (size,)),
        family=_filled(conditions.family, (size,)),
        model=_filled(conditions.model, (size,)),
        technique=_filled(conditions.technique, (size,)),
        item=_filled(np.array(item), (size,)),
        log2_budget=_filled(conditions.log2_budgets, (models,)),
        active=_filled(np.ones(len(middles)), (families,)),
        zero_sum=basis,
        start=basis.T @ _filled(middles.mean() - middles, (families,)),
        centre=np.float64(middles.mean()),
        item_family=_filled(np.array([family for family, _ in items]), (size,)),
        several=np.float64(len(conditions.models) > 1),
        techniques=np.zeros(_technique_slots(len(conditions.techniques))),
    )


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
