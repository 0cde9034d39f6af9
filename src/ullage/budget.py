"""Budgets: how many bits a model offers, and the published bounds that give them a meaning.

    bandwidth   heads · d_head · precision: what one position can pass on in one layer. A width, not a
                store. Sanford, Hsu and Telgarsky 2024 (arXiv 2408.14332) bound one layer by it.
    weights     parameters · precision: no model holds more, whatever it is trained on.
    storage     3.6 bits a parameter: what Transformers were measured to memorise, Morris et al. 2025
                (arXiv 2505.24832: 3.51 in bf16, 3.83 in f32); more precision hardly raises it.

A demand is compared only with budgets of its own kind: the answer, the input and the context pass
through the bandwidth, what is stored sits in the weights.

>>> budgets = Budgets(bandwidth_bits=8192.0, weight_bits=1e6, storage_bits=1e5)
>>> budgets.binding({"answer": 5.0, "context": 4096.0})
'bandwidth'
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

STORAGE_BITS_PER_PARAMETER = 3.6  # Morris et al. 2025, the rounded mean over their models

# Which budgets a notion of demand is held against; a demand in bits means nothing against another.
COMPARED: Mapping[str, tuple[str, ...]] = {
    "answer": ("bandwidth",),
    "input": ("bandwidth",),
    "context": ("bandwidth",),
    "storage": ("storage", "weights"),
}


class Offering(Protocol):
    """What of an architecture is counted here: the statistics use this file and know no architecture."""

    @property
    def bandwidth_bits(self) -> float:
        """heads · d_head · precision."""
        ...

    @property
    def precision_bits(self) -> int:
        """The bits of one number."""
        ...

    def parameters(self, interface: Any) -> int:
        """How many numbers are trained on a task's interface."""
        ...


@dataclasses.dataclass(frozen=True)
class Budgets:
    """What one model offers, in bits."""

    bandwidth_bits: float
    weight_bits: float
    storage_bits: float

    def named(self) -> dict[str, float]:
        """The budgets by name."""
        return {
            "bandwidth": self.bandwidth_bits,
            "weights": self.weight_bits,
            "storage": self.storage_bits,
        }

    def shares(self, demands: Mapping[str, float]) -> dict[str, float]:
        """How much of each budget these demands ask for, at most: demand / budget by budget name."""
        offered = self.named()
        shares: dict[str, float] = {}
        for notion, bits in demands.items():
            if notion not in COMPARED:
                raise ValueError(f"{notion} is no notion of demand; choose one of {', '.join(COMPARED)}")
            for budget in COMPARED[notion]:
                shares[budget] = max(shares.get(budget, 0.0), bits / offered[budget])
        return shares

    def binding(self, demands: Mapping[str, float]) -> str | None:
        """The budget of which the largest share is asked for; None where nothing can be compared."""
        shares = self.shares(demands)
        return max(shares, key=lambda name: shares[name]) if shares else None


def budgets_of(architecture: Offering, interface: Any) -> Budgets:
    """The budgets of a model on a task's interface (embedding and read-out count as parameters)."""
    parameters = architecture.parameters(interface)
    return Budgets(
        bandwidth_bits=architecture.bandwidth_bits,
        weight_bits=float(parameters * architecture.precision_bits),
        storage_bits=parameters * STORAGE_BITS_PER_PARAMETER,
    )


def typical_budgets(budgets: Sequence[Budgets]) -> Budgets:
    """The geometric mean: one model has embeddings of another size on every family."""

    def mean(values: list[float]) -> float:
        return 2.0 ** (sum(map(math.log2, values)) / len(values))

    fields = [field.name for field in dataclasses.fields(Budgets)]
    return Budgets(**{name: mean([getattr(one, name) for one in budgets]) for name in fields})


def one_layer_induction_bandwidth(length: int) -> float:
    """The order of the bandwidth (in bits) that **one** layer needs for induction over a sequence.

    Sanford et al. 2024: heads · width · precision = Ω(length) for one layer and an alphabet as large
    as the sequence; the constant is not known, so this is the growth and no threshold.

    >>> one_layer_induction_bandwidth(64)
    64.0
    """
    return float(length)


def two_layer_induction_bandwidth(length: int) -> float:
    """The order of the bandwidth that suffices with **two** layers: O(1) heads and width, O(log n) bits.

    Sanford et al. 2024, for an alphabet of at most `length` symbols; up to a constant factor.

    >>> two_layer_induction_bandwidth(64)
    6.0
    """
    return math.log2(length)


def one_layer_equality_bandwidth(length: int) -> float:
    """The order of the bandwidth that **one** layer needs to compare two strings, or test disjointness.

    Bhattamishra et al. 2024 (arXiv 2406.09347): Ω(n) for one layer and for recurrent models, while two
    layers do it in logarithmic size; up to a constant factor.
    """
    return float(length)


def recurrent_copy_bits(length: int, symbols: int) -> float:
    """The state in bits below which every recurrent model errs in copying: L · log2 V, less O(1).

    Jelassi et al. 2024 (arXiv 2402.01032), for uniform random strings.

    >>> recurrent_copy_bits(10, 16)
    40.0
    """
    return length * math.log2(symbols)
