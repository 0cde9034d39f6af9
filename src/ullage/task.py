"""The contract of a task: what it asks, how it is graded, how many bits it demands.

A task is a frozen dataclass in a file of its own. Its fields are knobs (`ullage.knobs.knob`); the one
called `level` is the difficulty that experiments raise. It draws **one** example from one key (batches
are made by `vmap`), or owns a table of rows and turns one row into an example.

    Glossary of shapes
        length    positions that go into the model
        reads     positions that are read out (all of them unless the task says otherwise)
        inputs    Int[length] tokens, or Float[length width] vectors
        targets   Int[reads], or Float[reads width] for distributions and reals

>>> task = find("parity").at(6)
>>> task.family, task.level, task.demands()["input"]
('parity', 6, 6.0)
"""

import abc
import dataclasses
import enum
import functools
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ullage import knobs, registry
from ullage.errors import BadInput
from ullage.readout import Readout


class Example(NamedTuple):
    """One example, or a batch of them with a leading axis."""

    inputs: Any  # Int[length] tokens or Float[length width] vectors
    targets: Any  # one target a read position, of the read-out's target_shape
    loss_mask: Any  # Bool[reads]: where the loss is taken
    graded_mask: Any  # Bool[reads]: what belongs to the answer that is graded


class Notion(enum.StrEnum):
    """What a number of demanded bits means; see the glossary."""

    ANSWER = "answer"
    CONTEXT = "context"
    INPUT = "input"
    STORAGE = "storage"


@dataclasses.dataclass(frozen=True)
class Tokens:
    """Inputs are whole numbers below `vocabulary`."""

    vocabulary: int


@dataclasses.dataclass(frozen=True)
class Vectors:
    """Inputs are vectors of `width` real numbers."""

    width: int


@dataclasses.dataclass(frozen=True)
class Interface:
    """All that an architecture is told of a task."""

    inputs: Tokens | Vectors
    length: int
    reads: tuple[int, ...]
    readout: Readout
    causal: bool


class Task(abc.ABC):
    """A question with a difficulty; a member is a frozen dataclass whose fields are knobs.

    Every member says, as class attributes, its `nominal` notion of demand (the one that its level
    raises) and, where they differ from the values here, `version` (raise it when examples change),
    `collection`, `questions`, `decode`, `metric`, `augments` and `extra_splits`.
    """

    level: int

    nominal: ClassVar[Notion]
    version: ClassVar[int] = 1
    collection: ClassVar[str] = ""
    # unseen: train, validation and test differ in content; seen: the stored items are the questions.
    questions: ClassVar[Literal["unseen", "seen"]] = "unseen"
    # autoregressive: where the loss mask is set, the next input is what the model said.
    decode: ClassVar[Literal["parallel", "autoregressive"]] = "parallel"
    # A name of `ullage.evaluate.METRICS`: answers, tokens, r_squared or information.
    metric: ClassVar[str] = "answers"
    augments: ClassVar[bool] = False  # whether `example` makes use of its key
    extra_splits: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        knobs.check(self, self.name)
        self.validate()

    def validate(self) -> None:  # noqa: B027 - a hook, not a gap
        """Raise `BadInput` for knobs that are each allowed but not together."""

    @property
    def name(self) -> str:
        """The name of the file that defines the task."""
        return registry.name_of(type(self))

    @property
    def family(self) -> str:
        """The name with every knob that differs from its default, without the level."""
        return Family.of(self).name

    @property
    @abc.abstractmethod
    def levels(self) -> tuple[int, ...]:
        """The default levels of this family, easy to hard."""

    @property
    def is_kin(self) -> bool:
        """Whether this level is of one kind with the default ones, so that it may be chosen between them."""
        return True

    @property
    @abc.abstractmethod
    def inputs(self) -> Tokens | Vectors:
        """What one position of the input is."""

    @property
    @abc.abstractmethod
    def length(self) -> int:
        """How many positions go in."""

    @property
    @abc.abstractmethod
    def readout(self) -> Readout:
        """What is read at each read position."""

    @property
    def reads(self) -> tuple[int, ...]:
        """The positions at which the model is read; only these are computed in the last layer."""
        return tuple(range(self.length))

    @property
    def causal(self) -> bool:
        """Whether a position may only look back, whatever the architecture prefers."""
        return self.decode == "autoregressive"

    def table(self) -> Any:
        """All that can be asked, as arrays with one leading axis of rows; None for a stream."""
        return None

    def example(self, row: Any, key: PRNGKeyArray) -> Example:
        """The example of one row of the table."""
        raise NotImplementedError(f"{self.name} has a table and must define example(row, key)")

    def sample(self, key: PRNGKeyArray, progress: Float[Array, ""]) -> Example:
        """One example from a key; `progress` runs from 0 to 1 over training."""
        del progress
        table = self.table()
        if table is None:
            raise NotImplementedError(f"{self.name} must define table() or sample(key, progress)")
        row_key, example_key = jax.random.split(key)
        row = jax.random.randint(row_key, (), 0, rows_of(table), dtype=jnp.int32)
        return self.example(jax.tree.map(lambda rows: jnp.asarray(rows)[row], table), example_key)

    def extra(self, split: str) -> "Task":
        """The task whose examples make an extra split, of the same vocabulary and read-out."""
        raise NotImplementedError(f"{self.name} names the split {split!r} but does not define extra()")

    @property
    @abc.abstractmethod
    def floor(self) -> float:
        """The score of the best answer that does not read the input, in closed form."""

    @property
    def ceiling(self) -> float:
        """The score of the reference answer."""
        return 1.0

    @abc.abstractmethod
    def solve(self, inputs: np.ndarray) -> np.ndarray:
        """The reference answer to one input, found another way than the sampler finds it.

        Returns one target a read position; only those that are graded have to be right. Inputs that
        the model itself would have generated are zero.
        """

    @abc.abstractmethod
    def demands(self) -> dict[str, float]:
        """Bits that this level asks for, by notion; a notion that makes no sense is left out."""

    @property
    def interface(self) -> Interface:
        """What an architecture is told of this task."""
        return Interface(self.inputs, self.length, self.reads, self.readout, self.causal)

    def knobs(self) -> dict[str, Any]:
        """All knobs but the level, by name."""
        values = knobs.values_of(self)
        del values["level"]
        return values

    def demand(self, notion: str) -> float | None:
        """The bits under one notion (`nominal` for the task's own), or None where undefined."""
        return self.demands().get(str(self.nominal) if notion == "nominal" else notion)


@dataclasses.dataclass(frozen=True)
class Family:
    """A task without its level: what `modulo:base=7,digits=4` names."""

    task: type[Task]
    chosen: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, task: Task) -> "Family":
        """The family of a task, with the knobs that differ from their defaults."""
        declared = knobs.knobs_of(type(task))
        chosen = {key: value for key, value in task.knobs().items() if value != declared[key].default}
        return cls(type(task), tuple(sorted(chosen.items())))

    @property
    def name(self) -> str:
        """The text that names this family on the command line and in every table."""
        texts = [f"{key}={_text(value)}" for key, value in self.chosen]
        return registry.name_of(self.task) + (":" + ",".join(texts) if texts else "")

    def at(self, level: int) -> Task:
        """The task at one level."""
        return self.task(level=level, **dict(self.chosen))  # type: ignore[call-arg]

    @property
    def levels(self) -> tuple[int, ...]:
        """The default levels, easy to hard."""
        default = knobs.knobs_of(self.task)["level"].default
        return self.at(default).levels


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def find(text: str) -> Family:
    """The family that `name`, `name:knob=value,…` or `path/to/file.py` names.

    >>> find("modulo:digits=4,base=10").name
    'modulo:base=10,digits=4'
    """
    name, colon, knob_text = text.partition(":")
    member = registry.load_file(Path(name), "task") if name.endswith(".py") else registry.member("task", name)
    if not dataclasses.is_dataclass(member) or "level" not in knobs.knobs_of(member):
        raise BadInput(f"{name} is not a task: make it a frozen dataclass with the knob `level`")
    parts = [part.partition("=") for part in knob_text.split(",")] if colon else []
    texts = {key.strip(): value.strip() for key, equals, value in parts if equals}
    if len(texts) != len(parts):
        raise BadInput(f"{text!r} is not a task; write name or name:knob=value,knob=value")
    if "level" in texts:
        raise BadInput(f"{text!r} sets the level, which is no knob of a family; use --levels")
    values = knobs.parse(member, texts, registry.name_of(member))
    default_level = knobs.knobs_of(member)["level"].default
    try:
        return Family.of(member(level=default_level, **values))  # type: ignore[arg-type, call-arg]
    except TypeError as error:  # a user's class that leaves out something the contract asks for
        raise BadInput(f"{name} makes no task ({error}); mend the file and try again") from None


@functools.cache
def collection(name: str) -> tuple[str, ...]:
    """The names of the tasks that belong to a collection."""
    members = {task: registry.member("task", task) for task in registry.names("task")}
    return tuple(task for task, member in members.items() if member.collection == name)  # type: ignore[attr-defined]


def rows_of(table: Any) -> int:
    """How many rows a table has."""
    return jax.tree.leaves(table)[0].shape[0]
