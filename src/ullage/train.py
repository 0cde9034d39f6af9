"""Training: one step, looped on the device between two evaluations.

    draw a batch ─▶ loss ─▶ gradient ─▶ AdamW          repeated in one compiled loop
    every `evaluate_every` steps: score on train and validation questions, decide whether to go on

A run ends when it is solved (validation skill of at least 0.99 at two evaluations in a row), when it
has diverged, at its step limit, or when its watcher says so. Never on a plateau: late generalisation
is real. The test questions are not seen here.
"""

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, PRNGKeyArray

from ullage import keys, together
from ullage.architecture import Architecture, Parameters
from ullage.evaluate import scores, skill
from ullage.recipe import Recipe, Traced
from ullage.record import LEARNED, Status
from ullage.split import Source, Split, questions, training_data
from ullage.task import Example, Interface, Task

SOLVED = 0.99  # the validation skill that, twice in a row, ends a run
CHECKED_QUESTIONS = 512  # of train and validation, at each evaluation
POSITIONS_AT_ONCE = 512  # in one piece of a batch; 1024 takes a tenth to a quarter longer on a shared machine
SECOND_MOMENT = 0.98  # AdamW's β2: small models on short runs profit from a short memory (Power et al. 2022)


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """What is known of a run at one step: `scores[split][metric]`."""

    step: int
    scores: dict[str, dict[str, float]]


# Told of each checkpoint; answers whether the run goes on.
Watch = Callable[[Checkpoint], bool]


@dataclasses.dataclass(frozen=True)
class Trace:
    """One training: the parameters it ended with and what was seen on the way."""

    parameters: Parameters
    checkpoints: tuple[Checkpoint, ...]
    status: Status
    reason: str
    steps: int
    steps_to_solve: int | None
    late_generalisation_steps: int | None
    seconds: float


class State(NamedTuple):
    """What the next step needs."""

    parameters: Parameters
    optimiser: Any
    finite: Array  # Bool[]: whether every loss so far was a number


@dataclasses.dataclass(frozen=True)
class Program:
    """The static half of a step: runs that share it share one compiled program."""

    architecture: Architecture
    interface: Interface
    source: Source
    batch_size: int
    drops: bool

    def init(self, key: PRNGKeyArray, scale: float, traced: Traced) -> State:
        """The state before the first step."""
        parameters = self.architecture.init(key, self.interface, scale)
        return State(parameters, _optimiser(traced).init(parameters), jnp.array(True))


@partial(jax.jit, static_argnums=0, donate_argnums=2)
def advance(
    program: Program,
    traced: Traced,
    state: State,
    rows: Any,
    count: Any,
    key: PRNGKeyArray,
    start: Any,
    stop: Any,
) -> State:
    """Steps `start` to `stop` of a run, without leaving the device."""

    def step(index: Array, state: State) -> State:
        progress = index.astype(jnp.float32) / jnp.asarray(traced.step_limit, jnp.float32)
        batch = program.source.draw(
            rows, count, keys.derive(key, "batch", index), progress, program.batch_size
        )
        dropout_key = keys.derive(key, "dropout", index) if program.drops else None
        loss, gradient = _gradient(program, state.parameters, batch, traced.dropout, dropout_key)
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to the power of the step's number
            updates, optimiser = _optimiser(traced).update(gradient, state.optimiser, state.parameters)
        parameters = optax.apply_updates(state.parameters, updates)
        return State(parameters, optimiser, state.finite & jnp.isfinite(loss))

    return jax.lax.fori_loop(start, stop, step, state)


def _gradient(
    program: Program, parameters: Parameters, batch: Example, dropout: Any, key: PRNGKeyArray | None
) -> tuple[Array, Parameters]:
    """The loss and its gradient, summed over pieces of the batch."""
    count = _pieces(program.batch_size, program.interface.length)
    asked = jnp.maximum(batch.loss_mask.sum(), 1)

    def share(parameters: Parameters, index: Array, piece: Example) -> Array:
        own_key = None if key is None else keys.derive(key, "piece", index)
        loss = _loss(program, parameters, piece, dropout, own_key)
        return loss * (piece.loss_mask.sum() / asked).astype(loss.dtype)

    def add(total: Parameters, numbered: tuple[Array, Example]) -> tuple[Parameters, Array]:
        loss, gradient = jax.value_and_grad(share)(parameters, *numbered)
        return jax.tree.map(jnp.add, total, gradient), loss

    pieces = jax.tree.map(lambda leaf: leaf.reshape(count, -1, *leaf.shape[1:]), batch)
    nothing = jax.tree.map(jnp.zeros_like, parameters)
    gradient, losses = jax.lax.scan(add, nothing, (jnp.arange(count, dtype=jnp.int32), pieces))
    return losses.sum(), gradient


def _pieces(batch_size: int, length: int) -> int:
    """Into how many pieces a batch is cut: on a CPU, until what one keeps for its gradient fits the cache.

    At nano size this takes a fifth of a step's time away at 20 positions and half at 64.
    """
    count = 1
    while (
        jax.default_backend() == "cpu"
        and batch_size % (2 * count) == 0
        and batch_size // count * length > POSITIONS_AT_ONCE
    ):
        count *= 2
    return count


def _loss(
    program: Program, parameters: Parameters, batch: Example, dropout: Any, key: PRNGKeyArray | None
) -> Array:
    outputs = program.architecture.apply(parameters, batch.inputs, program.interface, dropout, key)
    losses = program.interface.readout.loss(outputs, batch.targets)
    # Summed in at least 32 bits: a mean over a batch in 16 bits loses its small terms.
    wide = jnp.float64 if losses.dtype == jnp.float64 else jnp.float32
    mask = batch.loss_mask.astype(wide)
    return (losses.astype(wide) * mask).sum() / jnp.maximum(mask.sum(), jnp.ones((), wide))


def _optimiser(traced: Traced) -> optax.GradientTransformation:
    return optax.adamw(partial(_rate, traced), b2=SECOND_MOMENT, weight_decay=traced.weight_decay)


def _rate(traced: Traced, step: Any) -> Array:
    """A linear warm-up, then half a cosine down to the final share at the step limit."""
    limit, warmup, final = (
        jnp.asarray(value, jnp.float32)
        for value in (traced.step_limit, traced.warmup_steps, traced.final_rate)
    )
    done = jnp.asarray(step, jnp.float32)
    cosine = 0.5 + 0.5 * jnp.cos(jnp.pi * jnp.minimum(done / limit, 1.0))
    risen = jnp.minimum((done + 1) / jnp.maximum(warmup, 1.0), 1.0)
    return jnp.asarray(traced.learning_rate, jnp.float32) * risen * (final + (1 - final) * cosine)


def _never_stops(checkpoint: Checkpoint) -> bool:
    del checkpoint
    return True


def train(
    task: Task, recipe: Recipe, seed: int, watch: Watch = _never_stops, seconds_limit: float = 0.0
) -> Trace:
    """Train one model on one task; the same arguments give the same trace."""
    began = time.monotonic()
    key = keys.root(seed)
    data = training_data(task, recipe.train_examples)
    program = Program(
        recipe.architecture, task.interface, data.source, recipe.batch_size, recipe.dropout > 0.0
    )
    state = program.init(keys.derive(key, "weights"), recipe.initial_scale, recipe.traced)
    rows = jax.tree.map(jnp.asarray, data.rows)
    asked = {
        Split.TRAIN: questions(
            task, Split.TRAIN, min(CHECKED_QUESTIONS, recipe.train_examples or CHECKED_QUESTIONS)
        ),
        Split.VALIDATION: questions(task, Split.VALIDATION, CHECKED_QUESTIONS),
    }
    journal = Journal(task, watch, began, seconds_limit)
    step = 0
    while journal.status is None:
        stop = min(step + recipe.evaluate_every, recipe.step_limit)
        state = together.call(advance, (program,), (recipe.traced, state, rows, data.count, key, step, stop))
        step = stop
        found = {
            str(split): scores(task, recipe.architecture, state.parameters, examples)
            for split, examples in asked.items()
        }
        journal.enter(Checkpoint(step, found), bool(state.finite), step >= recipe.step_limit)
    return journal.trace(state.parameters)


class Journal:
    """Keeps the checkpoints of one run and decides when it ends."""

    def __init__(self, task: Task, watch: Watch, began: float, seconds_limit: float) -> None:
        self.task, self.watch = task, watch
        self.began, self.seconds_limit = began, seconds_limit
        self.checkpoints: list[Checkpoint] = []
        self.status: Status | None = None
        self.reason = ""

    def enter(self, checkpoint: Checkpoint, finite: bool, at_limit: bool) -> None:
        """Add a checkpoint; sets `status` when the run has ended."""
        self.checkpoints.append(checkpoint)
        goes_on = self.watch(checkpoint)
        if not finite:
            self._end(Status.DIVERGED, f"the loss was not a number by step {checkpoint.step}")
        elif self.steps_to_solve is not None:
            self._end(Status.FINISHED, "solved")
        elif at_limit:
            self._end(Status.FINISHED, "step limit")
        elif not goes_on:
            self._end(Status.PRUNED, f"stopped by its watcher at step {checkpoint.step}")
        elif 0 < self.seconds_limit < time.monotonic() - self.began:
            self._end(Status.OUT_OF_TIME, f"over {self.seconds_limit:g} s at step {checkpoint.step}")

    def _end(self, status: Status, reason: str) -> None:
        self.status, self.reason = status, reason

    def _first(self, split: Split, least: float, in_a_row: int = 1) -> int | None:
        """The step at which the skill first stayed at `least` for so many checkpoints; the first of them."""
        good = [skill(self.task, one.scores[split].get("score", 0.0)) >= least for one in self.checkpoints]
        for place in range(len(good) - in_a_row + 1):
            if all(good[place : place + in_a_row]):
                return self.checkpoints[place].step
        return None

    @property
    def steps_to_solve(self) -> int | None:
        """The first of two checkpoints in a row that were solved, or None."""
        return self._first(Split.VALIDATION, SOLVED, in_a_row=2)

    @property
    def late_generalisation_steps(self) -> int | None:
        """Steps between train and validation reaching the skill that counts as learned."""
        trained, generalised = self._first(Split.TRAIN, LEARNED), self._first(Split.VALIDATION, LEARNED)
        return None if trained is None or generalised is None else max(generalised - trained, 0)

    def trace(self, parameters: Parameters) -> Trace:
        """The whole run, after its end."""
        assert self.status is not None
        parameters = jax.block_until_ready(parameters)
        return Trace(
            parameters,
            tuple(self.checkpoints),
            self.status,
            self.reason,
            self.checkpoints[-1].step,
            self.steps_to_solve,
            self.late_generalisation_steps,
            time.monotonic() - self.began,
        )
