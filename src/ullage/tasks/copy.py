"""Say again, in order, what was read."""

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ullage.errors import BadInput
from ullage.knobs import knob
from ullage.readout import Softmax
from ullage.task import Example, Notion, Task, Tokens

LEVELS = (2, 4, 8, 16, 32, 64)
TABLE_ROWS = 2**16  # strings up to which all of them are kept as a table
FEWEST_STRINGS = 64  # below, one of the three splits may be left without content


@dataclasses.dataclass(frozen=True)
class Copy(Task):
    """A string of uniform symbols, then as many blanks, at which the string must be said again.

    The level is the length L of the string, V the number of symbols; a blank is one more token. All
    symbols are said at once (parallel), and an answer counts when all of them are right.

    Demands:
        answer   L·log2 V, for all V**L strings are answers and equally frequent
        context  L·log2 V: before the first blank all strings must be told apart
        input    L·log2 V, for every symbol decides

    One fixed string is right once in V**L, which is the floor. The extra split `longer` asks for
    strings of twice the length.

    >>> task = Copy(level=2)
    >>> task.solve(np.array([7, 3, 16, 16]))
    array([7, 3], dtype=int32)
    >>> task.demands()["context"], task.floor == 1 / 256
    (8.0, True)
    """

    level: int = knob(8, "length of the string, in symbols", low=1, high=2048)
    symbols: int = knob(16, "different symbols", low=2, high=4096)

    nominal: ClassVar[Notion] = Notion.CONTEXT
    collection: ClassVar[str] = "classic"
    extra_splits: ClassVar[tuple[str, ...]] = ("longer",)

    def validate(self) -> None:
        if self.symbols**self.level < FEWEST_STRINGS:
            raise BadInput(
                f"copy: level={self.level}, symbols={self.symbols} make {self.symbols**self.level} strings, "
                f"too few for training, validation and test; choose level and symbols such that there are at "
                f"least {FEWEST_STRINGS}"
            )

    @property
    def levels(self) -> tuple[int, ...]:
        return tuple(level for level in LEVELS if self.symbols**level >= FEWEST_STRINGS)

    @property
    def inputs(self) -> Tokens:
        return Tokens(self.symbols + 1)

    @property
    def length(self) -> int:
        return 2 * self.level

    @property
    def readout(self) -> Softmax:
        return Softmax(self.symbols)

    @property
    def reads(self) -> tuple[int, ...]:
        return tuple(range(self.level, 2 * self.level))

    def table(self) -> np.ndarray | None:
        strings = self.symbols**self.level
        return np.arange(strings, dtype=np.int32) if strings <= TABLE_ROWS else None

    def example(self, row: Int[Array, ""], key: PRNGKeyArray) -> Example:
        del key
        place_values = np.array([self.symbols**place for place in range(self.level)], dtype=np.int32)
        return self._ask(row // place_values % self.symbols)

    def sample(self, key: PRNGKeyArray, progress: Float[Array, ""]) -> Example:
        del progress
        return self._ask(jax.random.randint(key, (self.level,), 0, self.symbols, dtype=jnp.int32))

    def _ask(self, string: Int[Array, " level"]) -> Example:
        blanks = jnp.full(self.level, self.symbols, jnp.int32)
        read = jnp.ones(self.level, bool)
        return Example(jnp.concatenate([string, blanks]), string, read, read)

    def extra(self, split: str) -> "Copy":
        del split
        return dataclasses.replace(self, level=2 * self.level)

    @property
    def floor(self) -> float:
        return 2.0 ** -(self.level * math.log2(self.symbols))

    def solve(self, inputs: np.ndarray) -> np.ndarray:
        return np.array([token for token in inputs if token != self.symbols], dtype=np.int32)

    def demands(self) -> dict[str, float]:
        string = self.level * math.log2(self.symbols)
        return {"answer": string, "context": string, "input": string}
