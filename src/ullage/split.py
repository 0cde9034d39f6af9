"""Splits: which content trains, which is held back; disjoint by content, not by key.

The content of an example is its inputs, less those that the model would generate itself. A stable
hash of the content puts it into one of ten buckets: one for the test, one for validation, eight for
training. The same content is therefore on the same side in every run, seed and process, and in every
extra split too.

    table task    all rows are hashed once; each split has the rows of its buckets
    stream        training draws half more than it needs and keeps what falls into its buckets

Tasks whose questions are `seen` (memorising) ask what was trained, so all their splits are the table.
"""

import dataclasses
import enum
import functools
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from ullage import keys
from ullage.errors import BadInput
from ullage.task import Example, Task, rows_of

BUCKETS = 10
OVERSAMPLING = 1.5  # of a stream: 8 of 10 draws can train, so that a batch is all but never short
DRAWS = 2048  # examples that are drawn at a time when questions are collected from a stream
FRUITLESS_DRAWS = 8  # rounds without a new question after which a stream counts as exhausted
KEPT = 16  # sets of examples that a process keeps, since runs of one level ask for the same ones


class Split(enum.StrEnum):
    """The three splits that every task has."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


_BUCKETS_OF = {Split.TEST: (0, 1), Split.VALIDATION: (1, 2), Split.TRAIN: (2, BUCKETS)}


def content_hash(example: Example, reads: tuple[int, ...], autoregressive: bool) -> UInt32[Array, ""]:
    """A 32-bit hash of one example's content that is the same on every machine."""
    inputs = _content(example, reads, autoregressive)
    words = jnp.asarray(inputs)
    if jnp.issubdtype(words.dtype, jnp.floating):
        # + 0.0 turns the negative zero into the positive one: equal content, equal hash.
        words = jax.lax.bitcast_convert_type(words.astype(jnp.float32) + 0.0, jnp.uint32)
    words = words.astype(jnp.uint32).reshape(-1)
    place = jnp.arange(1, words.size + 1, dtype=jnp.uint32) * jnp.uint32(0x9E3779B9)
    total = _mix(words + place).sum(dtype=jnp.uint32)
    return _mix(total ^ jnp.uint32(words.size))


def _content(example: Example, reads: tuple[int, ...], autoregressive: bool) -> Array:
    if not autoregressive:
        return jnp.asarray(example.inputs)
    return blank_generated(jnp.asarray(example.inputs), jnp.asarray(example.loss_mask), reads)


def blank_generated(
    inputs: Int[Array, " length"], loss_mask: Bool[Array, " reads"], reads: tuple[int, ...]
) -> Int[Array, " length"]:
    """Inputs with zero wherever the model itself would have generated them."""
    following = jnp.asarray(reads) + 1  # one past the end is dropped by the scatter below
    generated = jnp.zeros(inputs.shape[0], bool).at[following].set(loss_mask, mode="drop")
    return jnp.where(generated, jnp.zeros((), inputs.dtype), inputs)


def _mix(word: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """The finaliser of MurmurHash3, which lets every bit of a word decide every other."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)


def belongs(hashes: UInt32[Array, "..."], split: Split) -> Bool[Array, "..."]:
    """Whether content of this hash is in the split."""
    low, high = _BUCKETS_OF[split]
    bucket = hashes % BUCKETS
    return (bucket >= low) & (bucket < high)


@dataclasses.dataclass(frozen=True)
class Source:
    """Where training examples come from: the traceable half, which a compiled step closes over.

    `stored` examples are arrays handed to the step, so that levels of one shape share one program;
    an augmenting table and a stream need the task itself.
    """

    task: Task | None

    def draw(
        self, rows: Any, count: Int[Array, ""], key: PRNGKeyArray, progress: Float[Array, ""], size: int
    ) -> Example:
        """A batch of training examples; what could not be filled has an empty loss mask."""
        if rows is None:
            return self._draw_stream(key, progress, size)
        row_key, example_key = jax.random.split(key)
        index = jax.random.randint(row_key, (size,), 0, count, dtype=jnp.int32)
        chosen = jax.tree.map(lambda leaf: leaf[index], rows)
        if self.task is None:
            return chosen
        return jax.vmap(self.task.example)(chosen, jax.random.split(example_key, size))

    def _draw_stream(self, key: PRNGKeyArray, progress: Float[Array, ""], size: int) -> Example:
        assert self.task is not None
        draws = int(size * OVERSAMPLING)
        examples = jax.vmap(self.task.sample, (0, None))(jax.random.split(key, draws), progress)
        fits = belongs(_hashes(self.task, examples), Split.TRAIN)
        order = jnp.argsort(~fits, stable=True)[:size]
        batch = jax.tree.map(lambda leaf: leaf[order], examples)
        return batch._replace(loss_mask=batch.loss_mask & fits[order][:, None])


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """A source and what it draws from: padded rows and their number, or None for a stream."""

    source: Source
    rows: Any
    count: int


@functools.lru_cache(KEPT)
def training_data(task: Task, train_examples: int = 0) -> TrainingData:
    """What a run trains on: all there is, or (above 0) only the first `train_examples` of it."""
    table = task.table()
    if table is None and train_examples:
        stored = questions(task, Split.TRAIN, train_examples)
        return _padded(Source(None), stored)
    if table is None:
        return TrainingData(Source(task), None, 0)
    rows = _split_rows(task, table, Split.TRAIN, train_examples)
    if task.augments:
        return _padded(Source(task), rows)
    return _padded(Source(None), _examples_of(task, rows))


def _padded(source: Source, rows: Any) -> TrainingData:
    # To the next power of two, so that sizes close to one another share one compiled program.
    count = rows_of(rows)
    size = 1 << (count - 1).bit_length()
    padded = jax.tree.map(lambda leaf: np.pad(leaf, [(0, size - count)] + [(0, 0)] * (leaf.ndim - 1)), rows)
    return TrainingData(source, padded, count)


@functools.lru_cache(KEPT)
def questions(task: Task, split: Split, count: int) -> Example:
    """Up to `count` different examples of one split, always the same ones, as NumPy arrays for reading."""
    table = task.table()
    if table is None:
        return _collect(task, split, count)
    return _examples_of(task, _split_rows(task, table, split, count))


def extra_questions(task: Task, extra_split: str, count: int) -> Example:
    """Questions of an extra split, such as `longer`: its test content only."""
    return questions(task.extra(extra_split), Split.TEST, count)


def _hashes(task: Task, examples: Example) -> UInt32[Array, " batch"]:
    one = partial(content_hash, reads=task.reads, autoregressive=task.decode == "autoregressive")
    return jax.vmap(one)(examples)


def _split_rows(task: Task, table: Any, split: Split, limit: int) -> Any:
    total = rows_of(table)
    if task.questions == "seen":
        chosen = np.arange(total)
    else:
        hashes = _table_hashes(task, table)
        chosen = np.flatnonzero(np.asarray(belongs(jnp.asarray(hashes), split)))
        # In the order of their hashes, so that the first few are a fair sample of all.
        chosen = chosen[np.argsort(hashes[chosen], kind="stable")]
    if chosen.size == 0:
        raise BadInput(
            f"{task.family} at level {task.level} has {total} contents and none for the {split} split; "
            "choose a higher level"
        )
    chosen = chosen[:limit] if limit else chosen
    return jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], table)


def _table_hashes(task: Task, table: Any) -> np.ndarray:
    examples = jax.tree.map(jnp.asarray, _examples_of(task, table))
    return np.asarray(jax.jit(partial(_hashes, task))(examples))


def _examples_of(task: Task, rows: Any) -> Example:
    key = keys.derive(keys.root(0), "questions")
    make: Callable[[Any], Example] = jax.jit(
        lambda chunk: jax.vmap(task.example)(chunk, jax.random.split(key, rows_of(chunk)))
    )
    return jax.tree.map(np.asarray, make(jax.tree.map(jnp.asarray, rows)))


def _collect(task: Task, split: Split, count: int) -> Example:
    """Draw from a stream until `count` different contents of the split are found, or no more come."""

    @jax.jit
    def draw(key: PRNGKeyArray) -> tuple[Example, Array]:
        examples = jax.vmap(task.sample, (0, None))(jax.random.split(key, DRAWS), jnp.ones(()))
        return examples, _hashes(task, examples)

    key = keys.derive(keys.root(0), f"questions/{split}")
    kept: list[Example] = []
    known: set[int] = set()
    fruitless = round_number = 0
    while len(known) < count and fruitless < FRUITLESS_DRAWS:
        examples, hashes = draw(keys.derive(key, "round", round_number))
        round_number += 1
        fresh = _fresh(np.asarray(hashes), np.asarray(belongs(hashes, split)), known)
        fruitless = 0 if fresh.size else fruitless + 1
        kept.append(jax.tree.map(lambda leaf, fresh=fresh: np.asarray(leaf)[fresh], examples))
    if not known:
        raise BadInput(
            f"{task.family} at level {task.level} has no content for the {split} split; choose a higher level"
        )
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *kept)


def _fresh(hashes: np.ndarray, fits: np.ndarray, known: set[int]) -> np.ndarray:
    """The places of contents of the split that were not met before; adds them to `known`."""
    places: list[int] = []
    for place in np.flatnonzero(fits):
        if int(hashes[place]) not in known:
            known.add(int(hashes[place]))
            places.append(int(place))
    return np.array(places, dtype=np.int64)
