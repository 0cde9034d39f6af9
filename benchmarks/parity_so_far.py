"""A task that is read at every position: whether the number of ones so far is odd."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from ullage.knobs import knob
from ullage.readout import Softmax
from ullage.task import Example, Notion, Task, Tokens


@dataclasses.dataclass(frozen=True)
class ParitySoFar(Task):
    """A string of bits, and behind each whether the ones up to there are odd."""

    level: int = knob(8, "length of the string, in bits", low=5, high=16)

    nominal: ClassVar[Notion] = Notion.INPUT

    @property
    def levels(self) -> tuple[int, ...]:
        return (5, 8, 12, 16)

    @property
    def inputs(self) -> Tokens:
        return Tokens(2)

    @property
    def length(self) -> int:
        return self.level

    @property
    def readout(self) -> Softmax:
        return Softmax(2)

    def table(self) -> np.ndarray:
        return np.arange(2**self.level, dtype=np.int32)

    def example(self, row: Int[Array, ""], key: PRNGKeyArray) -> Example:
        del key
        bits = (row >> jnp.arange(self.level, dtype=jnp.int32)) & 1
        everywhere = jnp.ones(self.level, bool)
        return Example(bits, jnp.cumsum(bits, dtype=jnp.int32) % 2, everywhere, everywhere)

    @property
    def floor(self) -> float:
        return 0.5**self.level

    def solve(self, inputs: np.ndarray) -> np.ndarray:
        return np.logical_xor.accumulate(inputs.astype(bool)).astype(np.int32)

    def demands(self) -> dict[str, float]:
        return {"answer": float(self.level), "context": 1.0, "input": float(self.level)}
