"""Placement: at which level the next run tells most about a family's boundary, for its price.

Pure statistics on the lattice of `ullage.boundary`. What a run at a level would tell is by how much
the spread of log2 C is expected to shrink; how likely it is to learn decides what it costs, because a
run that learns stops early and a run that fails uses all its steps.

>>> belief = Belief.before(Lattice.over([1.0, 5.0]))
>>> demands = [1.0, 3.0, 5.0]
>>> int(gains(belief, demands).argmax())
1
"""

import functools
from collections.abc import Sequence

import numpy as np

from ullage.boundary import SPACING, STEPS, Belief, Lattice

# What differs for the boundary: failed, below half, above half, learned (skills in twentieths).
KINDS = ((0, 1), (2, 9), (10, 18), (19, STEPS))
LEAST_VARIANCE = SPACING**2  # of log2 C; below it the lattice tells nothing


@functools.lru_cache(maxsize=512)
def _kind_chances(lattice: Lattice, demand: float) -> np.ndarray:
    """The probability of each kind of run at a demand: (kinds, curves)."""
    chances = [
        [np.exp(lattice.log_chance(demand, step)) for step in range(low, high + 1)] for low, high in KINDS
    ]
    return np.stack([np.sum(kind, axis=0) for kind in chances]).astype(np.float32)


def gains(belief: Belief, demands: Sequence[float]) -> np.ndarray:
    """By how many nats one run at each demand (log2 bits) is expected to narrow log2 C.

    C counts between the ends of `demands` only: what lies beyond cannot be found out there.
    """
    weight = belief.weight
    half = np.clip(belief.lattice.half_skill, min(demands), max(demands))
    half = half - (half * weight).sum()  # variances of small numbers lose nothing in 32 bits
    moments = np.stack([weight, weight * half, weight * half**2]).astype(np.float32)
    now = _log_variance(moments.sum(axis=1)[None])[0]
    found = []
    for demand in demands:
        # Not by `@`, whose threads wait for cores that are busy with training.
        after = np.einsum("kc,mc->km", _kind_chances(belief.lattice, demand), moments)
        found.append(0.5 * (now - float(after[:, 0] @ _log_variance(after))))
    return np.maximum(found, 0.0)


def _log_variance(moments: np.ndarray) -> np.ndarray:
    mass = np.maximum(moments[:, 0].astype(float), 1e-12)
    mean = moments[:, 1] / mass
    return np.log(np.maximum(moments[:, 2] / mass - mean**2, LEAST_VARIANCE))


def learning_chance(belief: Belief, demand: float) -> float:
    """How likely a run at a demand (log2 bits) is to learn."""
    return float((_kind_chances(belief.lattice, demand)[-1] * belief.weight).sum())
