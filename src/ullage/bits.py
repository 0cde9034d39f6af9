"""Information in bits: entropies, cross-entropies, counts.

>>> entropy_bits([0.5, 0.5])
1.0
>>> nats_to_bits(math.log(8))
3.0
"""

import math
from collections.abc import Iterable, Sequence

NATS_PER_BIT = math.log(2.0)


def nats_to_bits(nats: float) -> float:
    """Convert natural units to bits."""
    return nats / NATS_PER_BIT


def entropy_bits(probabilities: Iterable[float]) -> float:
    """The entropy of a distribution.

    >>> entropy_bits([1.0])
    0.0
    """
    return -sum(p * math.log2(p) for p in probabilities if p > 0.0) + 0.0


def cross_entropy_bits(truth: Sequence[float], prediction: Sequence[float]) -> float:
    """The mean bits that `prediction` spends on outcomes drawn from `truth`.

    >>> cross_entropy_bits([1.0, 0.0], [0.25, 0.75])
    2.0
    """
    return -sum(p * math.log2(q) for p, q in zip(truth, prediction, strict=True) if p > 0.0) + 0.0


def log2_sum(terms: Iterable[float]) -> float:
    """log2 of a sum whose terms are given as log2, without leaving the range of a float.

    >>> log2_sum([2000.0, 2000.0])
    2001.0
    """
    terms = list(terms)
    largest = max(terms)
    return largest + math.log2(sum(2.0 ** (term - largest) for term in terms))


def log2_binomial(n: int, k: int) -> float:
    """log2 of the number of ways to choose k of n.

    >>> round(log2_binomial(10, 5), 3)
    7.977
    """
    return nats_to_bits(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1))
