"""Remember random labels: what fits into the weights."""

import dataclasses
import functools
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from ullage import keys
from ullage.errors import BadInput
from ullage.knobs import knob
from ullage.readout import Softmax
from ullage.task import Example, Notion, Task, Tokens

SPARSENESS = 4  # sequences there must be for one that is stored, so that distinct ones are soon found
STORE_SEED = 0  # there is one store, the same for all runs: only training differs from seed to seed


@dataclasses.dataclass(frozen=True)
class Memorise(Task):
    """n stored items, a random sequence with a random label each; the level is n.

    The labels are independent of the sequences, so there is nothing to generalise: the stored items
    are the questions. The store of n items begins the store of 2n.

    Demands:
        answer   log2 labels
        storage  n·log2 labels, the entropy of all labels given the sequences

    The labels are drawn uniformly, so the floor is 1 / labels. A store of n items has a most frequent
    label that stands a little above that, by about two standard deviations sqrt(1 / (labels·n)).

    >>> task = Memorise(level=256)
    >>> sequences, labels = task.table()
    >>> bool(task.solve(sequences[3])[0] == labels[3])
    True
    >>> task.demands()
    {'answer': 4.0, 'storage': 1024.0}
    """

    level: int = knob(256, "stored items", low=2, high=2**22)
    length: int = knob(4, "symbols of a sequence", low=1, high=64)  # type: ignore[assignment]
    symbols: int = knob(64, "different symbols", low=2, high=4096)
    labels: int = knob(16, "different labels", low=2, high=4096)

    nominal: ClassVar[Notion] = Notion.STORAGE
    collection: ClassVar[str] = "classic"
    questions: ClassVar = "seen"

    def validate(self) -> None:
        sequences = self.symbols**self.length
        if sequences < SPARSENESS * self.level:
            raise BadInput(
                f"memorise: level={self.level} needs at least {SPARSENESS * self.level} sequences and "
                f"symbols={self.symbols}, length={self.length} make {sequences}; choose more symbols, longer "
                f"sequences or a level of at most {sequences // SPARSENESS}"
            )

    @property
    def levels(self) -> tuple[int, ...]:
        sequences = self.symbols**self.length
        powers = (2**power for power in range(8, 16))
        return tuple(items for items in powers if SPARSENESS * items <= sequences)

    @property
    def inputs(self) -> Tokens:
        return Tokens(self.symbols)

    @property
    def readout(self) -> Softmax:
        return Softmax(self.labels)

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.length - 1,)

    def table(self) -> tuple[np.ndarray, np.ndarray]:
        return _stored(self.level, self.length, self.symbols, self.labels)

    def example(self, row: tuple[Int[Array, " length"], Int[Array, ""]], key: PRNGKeyArray) -> Example:
        del key
        sequence, label = row
        read = jnp.ones(1, bool)
        return Example(sequence, label[None], read, read)

    @property
    def floor(self) -> float:
        return 1 / self.labels

    def solve(self, inputs: np.ndarray) -> np.ndarray:
        book = _book(self.level, self.length, self.symbols, self.labels)
        return np.array([book[tuple(inputs.tolist())]], dtype=np.int32)

    def demands(self) -> dict[str, float]:
        answer = math.log2(self.labels)
        return {"answer": answer, "storage": self.level * answer}


@functools.lru_cache(maxsize=8)
def _stored(items: int, length: int, symbols: int, labels: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `items` different sequences of an endless list, with their labels."""
    drawn = items + items // 4  # of a space four times as large, nearly always enough
    while True:
        sequences, marks = _drawn(drawn, length, symbols, labels)
        first = np.sort(np.unique(sequences, axis=0, return_index=True)[1])[:items]
        if first.size == items:
            break
        drawn *= 2
    stored = sequences[first], marks[first]
    for part in stored:
        part.flags.writeable = False  # it is shared by all who ask
    return stored


def _drawn(count: int, length: int, symbols: int, labels: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `count` entries of the list; each depends on its own place only."""
    # Concrete numbers are wanted even where a caller is being traced.
    with jax.ensure_compile_time_eval():
        root = keys.root(STORE_SEED)

        @jax.jit
        @jax.vmap
        def draw(place: Int[Array, ""]) -> tuple[Array, Array]:
            sequence_key = keys.derive(root, "memorise/sequence", place)
            label_key = keys.derive(root, "memorise/label", place)
            sequence = jax.random.randint(sequence_key, (length,), 0, symbols, dtype=jnp.int32)
            return sequence, jax.random.randint(label_key, (), 0, labels, dtype=jnp.int32)

        sequences, marks = draw(jnp.arange(count, dtype=jnp.int32))
    return np.array(sequences), np.array(marks)


@functools.lru_cache(maxsize=8)
def _book(items: int, length: int, symbols: int, labels: int) -> dict[tuple[int, ...], int]:
    sequences, marks = _stored(items, length, symbols, labels)
    return dict(zip(map(tuple, sequences.tolist()), marks.tolist(), strict=True))
