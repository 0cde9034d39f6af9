"""What followed when this symbol last came by."""

import dataclasses
import itertools
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ullage.bits import entropy_bits, log2_binomial, log2_sum
from ullage.knobs import knob
from ullage.readout import Softmax
from ullage.task import Example, Notion, Task, Tokens

TABLE_ROWS = 2**16  # sequences up to which all of them are kept as a table


@dataclasses.dataclass(frozen=True)
class Induction(Task):
    """A uniform string of length 2k over k symbols, then a query; the level is k.

    The answer is the symbol that followed the last earlier occurrence of the query, or the class k
    ("none") if there was none. The query belongs to the sequence: where it repeats the last symbol of
    the string, what followed that symbol is the query. It is the induction-heads task of Sanford, Hsu
    and Telgarsky 2024 (arXiv 2408.14332), asked at one place.

    Demands:
        answer   its entropy: "none" has probability p = (1 - 1/k)^(2k), and the k symbols, which only
                 differ by name, share the rest
        context  log2 of Σ_m C(k, m)·m^(m-1), see below
        input    (2k + 1)·log2 k, for every symbol of the sequence can decide

    Context. The worst cut is just before the query. What must then be known is the successor of every
    symbol that occurred, the last symbol being its own. Follow the successors: last occurrences come
    later and later, so all paths end at the last symbol; the successors make a rooted labelled tree on
    the m symbols that occurred. By Cayley's formula there are m^(m-1) of them, and C(k, m) choices of
    symbols. All occur: write each symbol but the root, children before parents, followed by its
    successor; these are 2(m-1) symbols, and any more can be put in front. Earlier cuts ask for the
    same trees, or fewer.

    >>> task = Induction(level=4)
    >>> task.solve(np.array([2, 1, 2, 3, 0, 0, 3, 3, 2]))  # after the last 2 came 3
    array([3], dtype=int32)
    >>> round(2 ** task.demands()["context"])  # 4·1 + 6·2 + 4·9 + 1·64
    116
    """

    level: int = knob(8, "different symbols; the string has twice as many", low=2, high=1024)

    nominal: ClassVar[Notion] = Notion.CONTEXT

    @property
    def levels(self) -> tuple[int, ...]:
        return (4, 8, 16, 32, 64)

    @property
    def inputs(self) -> Tokens:
        return Tokens(self.level)

    @property
    def length(self) -> int:
        return 2 * self.level + 1

    @property
    def readout(self) -> Softmax:
        return Softmax(self.level + 1)

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.length - 1,)

    def table(self) -> np.ndarray | None:
        sequences = self.level**self.length
        return np.arange(sequences, dtype=np.int32) if sequences <= TABLE_ROWS else None

    def example(self, row: Int[Array, ""], key: PRNGKeyArray) -> Example:
        del key
        place_values = np.array([self.level**place for place in range(self.length)], dtype=np.int32)
        return self._ask(row // place_values % self.level)

    def sample(self, key: PRNGKeyArray, progress: Float[Array, ""]) -> Example:
        del progress
        return self._ask(jax.random.randint(key, (self.length,), 0, self.level, dtype=jnp.int32))

    def _ask(self, sequence: Int[Array, " length"]) -> Example:
        matches = sequence[:-1] == sequence[-1]
        last = jnp.max(jnp.where(matches, jnp.arange(self.length - 1, dtype=jnp.int32), -1))
        answer = jnp.where(matches.any(), sequence[last + 1], self.level)
        read = jnp.ones(1, bool)
        return Example(sequence, answer[None], read, read)

    @property
    def _probability_of_none(self) -> float:
        return (1 - 1 / self.level) ** (2 * self.level)

    @property
    def floor(self) -> float:
        none = self._probability_of_none
        return max(none, (1 - none) / self.level)

    def solve(self, inputs: np.ndarray) -> np.ndarray:
        sequence = [int(symbol) for symbol in inputs]
        followers = dict(itertools.pairwise(sequence))  # of one symbol's followers the last one stays
        return np.array([followers.get(sequence[-1], self.level)], dtype=np.int32)

    def demands(self) -> dict[str, float]:
        none = self._probability_of_none
        answer = entropy_bits([none] + [(1 - none) / self.level] * self.level)
        trees = (
            log2_binomial(self.level, size) + (size - 1) * math.log2(size)
            for size in range(1, self.level + 1)
        )
        return {"answer": answer, "context": log2_sum(trees), "input": self.length * math.log2(self.level)}
