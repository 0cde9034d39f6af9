"""Tasks for tests only: each asks for something of the contract that the shipped tasks do not."""

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ullage.bits import entropy_bits
from ullage.knobs import knob
from ullage.readout import Circle, Linear, Readout, Softmax, SoftTargets
from ullage.task import Example, Notion, Task, Tokens, Vectors


def digits(row, base, count):
    """The digits of a number, the lowest first."""
    return row // np.array([base**place for place in range(count)], np.int32) % base


@dataclasses.dataclass(frozen=True)
class First(Task):
    """The first of four symbols; the level is how many there are. Plain, with a table.

    >>> First(level=4).solve(np.array([3, 0, 1, 2]))
    array([3], dtype=int32)
    """

    level: int = knob(4, "different symbols", low=2, high=64)

    nominal: ClassVar[Notion] = Notion.ANSWER

    @property
    def levels(self) -> tuple[int, ...]:
        return (4, 6)

    @property
    def inputs(self) -> Tokens | Vectors:
        return Tokens(self.level)

    @property
    def length(self) -> int:
        return 4

    @property
    def readout(self) -> Readout:
        return Softmax(self.level)

    @property
    def reads(self) -> tuple[int, ...]:
        return (3,)

    def table(self):
        return np.arange(self.level**4, dtype=np.int32)

    def example(self, row, key):
        del key
        string = digits(row, self.level, 4)
        return Example(string, string[:1], jnp.ones(1, bool), jnp.ones(1, bool))

    @property
    def floor(self) -> float:
        return 1 / self.level

    def solve(self, inputs):
        return np.array(inputs[:1], dtype=np.int32)

    def demands(self):
        symbol = math.log2(self.level)
        return {"answer": symbol, "context": symbol, "input": symbol}


@dataclasses.dataclass(frozen=True)
class Sums(Task):
    """Real numbers: the sum of n vectors whose entries are sixteenths. The level is n.

    >>> Sums(level=2).solve(np.array([[0.5, 0.0], [0.25, 1.0]], dtype=np.float32))
    array([[0.75, 1.  ]], dtype=float32)
    """

    level: int = knob(2, "vectors that are added", low=2, high=64)

    nominal: ClassVar[Notion] = Notion.INPUT
    metric: ClassVar[str] = "r_squared"

    @property
    def levels(self) -> tuple[int, ...]:
        return (2, 4)

    @property
    def inputs(self) -> Vectors:
        return Vectors(2)

    @property
    def length(self) -> int:
        return self.level

    @property
    def readout(self) -> Linear:
        return Linear(2)

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.level - 1,)

    def sample(self, key, progress):
        del progress
        vectors = jax.random.randint(key, (self.level, 2), -16, 16).astype(jnp.float32) / 16
        return Example(vectors, vectors.sum(axis=0)[None], jnp.ones(1, bool), jnp.ones(1, bool))

    @property
    def floor(self) -> float:
        return 0.0

    def solve(self, inputs):
        return np.array([[sum(column) for column in inputs.T]], dtype=np.float32)

    def demands(self):
        return {"input": 2.0 * self.level * math.log2(32)}


@dataclasses.dataclass(frozen=True)
class Masked(Task):
    """A string said twice with one of each pair of symbols hidden, which must be said. The level is n.

    Loss and grade stand at the hidden places, which are others in each example.

    >>> Masked(level=3).solve(np.array([1, 4, 2, 4, 0, 4]))
    array([1, 0, 2, 1, 0, 2], dtype=int32)
    """

    level: int = knob(3, "length of the string that is said twice", low=3, high=64)

    nominal: ClassVar[Notion] = Notion.ANSWER
    metric: ClassVar[str] = "tokens"
    symbols: ClassVar[int] = 4

    @property
    def levels(self) -> tuple[int, ...]:
        return (3, 5)

    @property
    def inputs(self) -> Tokens:
        return Tokens(self.symbols + 1)

    @property
    def length(self) -> int:
        return 2 * self.level

    @property
    def readout(self) -> Softmax:
        return Softmax(self.symbols)

    def sample(self, key, progress):
        del progress
        string_key, hidden_key = jax.random.split(key)
        string = jax.random.randint(string_key, (self.level,), 0, self.symbols, dtype=jnp.int32)
        first = jax.random.bernoulli(hidden_key, shape=(self.level,))
        hidden, twice = jnp.concatenate([first, ~first]), jnp.concatenate([string, string])
        return Example(jnp.where(hidden, self.symbols, twice), twice, hidden, hidden)

    @property
    def floor(self) -> float:
        return 1 / self.symbols

    def solve(self, inputs):
        # The lower of a symbol and the mark of a hidden one is the symbol.
        one, other = np.split(inputs, 2)
        return np.tile(np.minimum(one, other), 2).astype(np.int32)

    def demands(self):
        return {"answer": self.level * math.log2(self.symbols)}


@dataclasses.dataclass(frozen=True)
class Scratchpad(Task):
    """Parity, with all running parities to be written on the way; only the last is graded.

    >>> Scratchpad(level=5).solve(np.array([1, 1, 0, 1, 0, 0, 0, 0, 0]))
    array([1, 0, 0, 1, 1], dtype=int32)
    """

    level: int = knob(5, "length of the string, in bits", low=5, high=64)

    nominal: ClassVar[Notion] = Notion.INPUT
    decode: ClassVar = "autoregressive"

    @property
    def levels(self) -> tuple[int, ...]:
        return (5, 8)

    @property
    def inputs(self) -> Tokens:
        return Tokens(2)

    @property
    def length(self) -> int:
        return 2 * self.level - 1

    @property
    def readout(self) -> Softmax:
        return Softmax(2)

    @property
    def reads(self) -> tuple[int, ...]:
        return tuple(range(self.level - 1, self.length))

    def sample(self, key, progress):
        del progress
        string = jax.random.bernoulli(key, shape=(self.level,)).astype(jnp.int32)
        running = jnp.cumsum(string) % 2
        last = jnp.arange(self.level) == self.level - 1
        return Example(jnp.concatenate([string, running[:-1]]), running, jnp.ones(self.level, bool), last)

    @property
    def floor(self) -> float:
        return 0.5

    def solve(self, inputs):
        string = inputs[: self.level].tolist()
        return np.array([sum(string[: end + 1]) % 2 for end in range(self.level)], dtype=np.int32)

    def demands(self):
        return {"answer": 1.0, "context": 1.0, "input": float(self.level)}


@dataclasses.dataclass(frozen=True)
class Frequencies(Task):
    """A distribution: how frequent each of four symbols is in a string of n. The level is n.

    >>> Frequencies(level=4).solve(np.array([0, 3, 3, 2])).tolist()
    [[0.25, 0.0, 0.25, 0.5]]
    """

    level: int = knob(4, "length of the string", low=4, high=64)

    nominal: ClassVar[Notion] = Notion.INPUT
    metric: ClassVar[str] = "information"
    symbols: ClassVar[int] = 4

    @property
    def levels(self) -> tuple[int, ...]:
        return (4, 8)

    @property
    def inputs(self) -> Tokens:
        return Tokens(self.symbols)

    @property
    def length(self) -> int:
        return self.level

    @property
    def readout(self) -> SoftTargets:
        return SoftTargets(self.symbols)

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.level - 1,)

    def sample(self, key, progress):
        del progress
        string = jax.random.randint(key, (self.level,), 0, self.symbols, dtype=jnp.int32)
        shares = (string[:, None] == jnp.arange(self.symbols)[None]).mean(axis=0)
        return Example(string, shares[None], jnp.ones(1, bool), jnp.ones(1, bool))

    @property
    def floor(self) -> float:
        return 0.0

    def solve(self, inputs):
        return np.bincount(inputs, minlength=self.symbols)[None].astype(np.float32) / self.level

    def demands(self):
        return {"input": self.level * math.log2(self.symbols)}


@dataclasses.dataclass(frozen=True)
class Clock(Task):
    """A residue: the sum of two hours on a clock of q, read as an angle. The level is q.

    >>> Clock(level=11).solve(np.array([9, 4]))
    array([2], dtype=int32)
    """

    level: int = knob(11, "hours on the clock", low=11, high=1024)

    nominal: ClassVar[Notion] = Notion.ANSWER

    @property
    def levels(self) -> tuple[int, ...]:
        return (11, 23)

    @property
    def inputs(self) -> Tokens:
        return Tokens(self.level)

    @property
    def length(self) -> int:
        return 2

    @property
    def readout(self) -> Circle:
        return Circle(self.level)

    @property
    def reads(self) -> tuple[int, ...]:
        return (1,)

    def table(self):
        return np.arange(self.level**2, dtype=np.int32)

    def example(self, row, key):
        del key
        hours = digits(row, self.level, 2)
        return Example(hours, hours.sum(keepdims=True) % self.level, jnp.ones(1, bool), jnp.ones(1, bool))

    @property
    def floor(self) -> float:
        return 1 / self.level

    def solve(self, inputs):
        one, other = inputs.tolist()
        return np.array([(one + other) % self.level], dtype=np.int32)

    def demands(self):
        answer = math.log2(self.level)
        return {"answer": answer, "context": answer, "input": 2 * answer}


@dataclasses.dataclass(frozen=True)
class Padded(Task):
    """A table that augments: two symbols that matter, then two that the key draws. The level is how many.

    A row keeps its two symbols whatever the key draws, so that the rows of two splits share no content.

    >>> Padded(level=8).solve(np.array([6, 7, 1, 0]))
    array([7], dtype=int32)
    """

    level: int = knob(8, "different symbols", low=8, high=64)

    nominal: ClassVar[Notion] = Notion.ANSWER
    augments: ClassVar[bool] = True

    @property
    def levels(self) -> tuple[int, ...]:
        return (8, 16)

    @property
    def inputs(self) -> Tokens:
        return Tokens(self.level)

    @property
    def length(self) -> int:
        return 4

    @property
    def readout(self) -> Softmax:
        return Softmax(self.level)

    @property
    def reads(self) -> tuple[int, ...]:
        return (3,)

    def table(self):
        return np.arange(self.level**2, dtype=np.int32)

    def example(self, row, key):
        pair = digits(row, self.level, 2)
        padding = jax.random.randint(key, (2,), 0, self.level, dtype=jnp.int32)
        read = jnp.ones(1, bool)
        return Example(jnp.concatenate([pair, padding]), pair.max(keepdims=True), read, read)

    @property
    def floor(self) -> float:
        return (2 * self.level - 1) / self.level**2  # the largest symbol is the larger of so many pairs

    def solve(self, inputs):
        return np.array([max(inputs[0], inputs[1])], dtype=np.int32)

    def demands(self):
        pairs = self.level**2
        return {"answer": entropy_bits((2 * top + 1) / pairs for top in range(self.level))}


@dataclasses.dataclass(frozen=True)
class Last(Task):
    """The last of n symbols, with an extra split of longer strings. The level is n.

    >>> Last(level=4).solve(np.array([3, 0, 1, 2]))
    array([2], dtype=int32)
    """

    level: int = knob(4, "length of the string", low=4, high=64)

    nominal: ClassVar[Notion] = Notion.STORAGE
    extra_splits: ClassVar[tuple[str, ...]] = ("longer",)
    symbols: ClassVar[int] = 4

    @property
    def levels(self) -> tuple[int, ...]:
        return (4, 6)

    @property
    def inputs(self) -> Tokens:
        return Tokens(self.symbols)

    @property
    def length(self) -> int:
        return self.level

    @property
    def readout(self) -> Softmax:
        return Softmax(self.symbols)

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.level - 1,)

    def sample(self, key, progress):
        del progress
        string = jax.random.randint(key, (self.level,), 0, self.symbols, dtype=jnp.int32)
        return Example(string, string[-1:], jnp.ones(1, bool), jnp.ones(1, bool))

    def extra(self, split):
        del split
        return dataclasses.replace(self, level=2 * self.level)

    @property
    def floor(self) -> float:
        return 1 / self.symbols

    def solve(self, inputs):
        return inputs[-1:].astype(np.int32)

    def demands(self):
        # The place of the last symbol is what this level asks the weights to know.
        return {"answer": 2.0, "context": 2.0, "input": 2.0, "storage": math.log2(self.level)}
