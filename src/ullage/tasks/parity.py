"""Whether the number of ones is odd."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ullage.knobs import knob
from ullage.readout import Softmax
from ullage.task import Example, Notion, Task, Tokens

TABLE_BITS = 16  # level up to which all strings are kept as a table


@dataclasses.dataclass(frozen=True)
class Parity(Task):
    """The exclusive or of all bits of a string; the level is its length n.

    The bits are the tokens, the answer is read behind the last one.

    Demands:
        answer   1
        context  1: at every cut the parity so far is all that a reader must keep
        input    n, for every bit decides

    As many strings are odd as even, so the floor is one half.

    >>> task = Parity(level=6)
    >>> task.solve(np.array([1, 0, 1, 1, 0, 0]))
    array([1], dtype=int32)
    >>> task.demands()
    {'answer': 1.0, 'context': 1.0, 'input': 6.0}
    """

    level: int = knob(8, "length of the string, in bits", low=5, high=4096)

    nominal: ClassVar[Notion] = Notion.INPUT
    collection: ClassVar[str] = "classic"

    @property
    def levels(self) -> tuple[int, ...]:
        return (5, 6, 7, 8, 9, 10, 12, 14, 16, 20)

    @property
    def inputs(self) -> Tokens:
        return Tokens(2)

    @property
    def length(self) -> int:
        return self.level

    @property
    def readout(self) -> Softmax:
        return Softmax(2)

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.level - 1,)

    def table(self) -> np.ndarray | None:
        return np.arange(2**self.level, dtype=np.int32) if self.level <= TABLE_BITS else None

    def example(self, row: Int[Array, ""], key: PRNGKeyArray) -> Example:
        del key
        return self._ask((row >> jnp.arange(self.level, dtype=jnp.int32)) & 1)

    def sample(self, key: PRNGKeyArray, progress: Float[Array, ""]) -> Example:
        del progress
        return self._ask(jax.random.bernoulli(key, shape=(self.level,)).astype(jnp.int32))

    def _ask(self, string: Int[Array, " length"]) -> Example:
        read = jnp.ones(1, bool)
        return Example(string, string.sum(keepdims=True, dtype=jnp.int32) % 2, read, read)

    @property
    def floor(self) -> float:
        return 0.5

    def solve(self, inputs: np.ndarray) -> np.ndarray:
        odd = False
        for bit in inputs:
            odd ^= bool(bit)
        return np.array([odd], dtype=np.int32)

    def demands(self) -> dict[str, float]:
        return {"answer": 1.0, "context": 1.0, "input": float(self.level)}
