"""The contract of a task, checked: on ours in the tests, on a user's own file by `ullage check`.

It needs no test framework. A broken clause is told in a sentence, also where the checked code raises.

>>> from ullage.task import find
>>> [clause.clause for clause in check_task(find("parity")) if not clause.passed]
[]
"""

import dataclasses
import doctest
import functools
import itertools
import math
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ullage import keys, knobs
from ullage.errors import listed
from ullage.evaluate import METRICS, Answers
from ullage.readout import Linear, SoftTargets
from ullage.split import Split, belongs, blank_generated, content_hash, questions, training_data
from ullage.task import Example, Family, Notion, Task, Tokens, Vectors, rows_of

DRAWN = 4096  # examples drawn to judge a distribution, and contents up to which classes are counted
ASKED = 512  # questions that are asked of a stream, and answered by the reference
STANDARD_ERRORS = 4  # a right floor is called wrong once in 16 000 checks, and the keys are fixed

LEGAL = {
    "nominal": tuple(Notion),
    "questions": ("unseen", "seen"),
    "decode": ("parallel", "autoregressive"),
    "metric": tuple(METRICS),
}


@dataclasses.dataclass(frozen=True)
class Clause:
    """One promise, whether it is kept, and if not, why not."""

    clause: str
    passed: bool
    why: str = ""


def check_task(family: Family) -> list[Clause]:
    """Judge a family of tasks, clause by clause.

    What an example is comes first. Where that is broken nothing else is judged.
    """
    judged: list[Clause] = []
    for check in _clauses(TaskBasis(family)):
        judged.append(_judge(check))
        if not judged[-1].passed:
            return judged
    return judged + [_judge(check) for check in _clauses(TaskContract(family))]


def _clauses(contract: Any) -> list[Callable[[], None]]:
    # In the order in which they are written. A clause is a public method, and its name the promise.
    return [getattr(contract, name) for name in vars(type(contract)) if not name.startswith("_")]


def _judge(check: Callable[[], None]) -> Clause:
    name = check.__name__.replace("_", " ")
    try:
        check()
    except Exception as error:  # noqa: BLE001 - the code of a user may raise anything
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        return Clause(name, passed=False, why=kind + str(error).strip().partition("\n")[0])
    return Clause(name, passed=True)


def _expect(kept: Any, why: str) -> None:
    if not kept:
        raise AssertionError(why)


def _rises(values: Any) -> bool:
    return all(low < high for low, high in itertools.pairwise(values))


@dataclasses.dataclass(frozen=True)
class TaskBasis:
    """What must hold before anything can be asked; the name of a method is the promise."""

    _family: Family

    def it_is_a_frozen_dataclass_of_knobs_with_a_meaning(self) -> None:
        owner = self._family.task
        params = getattr(owner, "__dataclass_params__", None)
        _expect(params and params.frozen, f"{owner.__name__} needs @dataclasses.dataclass(frozen=True)")
        declared = knobs.knobs_of(owner)
        for field in dataclasses.fields(owner):  # type: ignore[arg-type]
            meant = field.name in declared and declared[field.name].meaning.strip()
            _expect(meant, f"{field.name} is no knob with a meaning; declare it with ullage.knobs.knob")
        hash(self._family.at(declared["level"].default))

    def its_class_attributes_are_legal(self) -> None:
        task = self._family.task
        for name, allowed in LEGAL.items():
            value = getattr(task, name, None)
            _expect(value in allowed, f"{name}={value!r} is not allowed; choose one of {listed(allowed)}")
        _expect(isinstance(task.version, int) and task.version > 0, f"version={task.version!r} is none")
        names = (*task.extra_splits, *Split)
        _expect(len({*names}) == len(names), f"extra_splits={task.extra_splits!r} repeats a name of a split")

    def levels_increase(self) -> None:
        levels = self._family.levels
        _expect(len(levels) > 1 and _rises(levels), f"{levels} are not two or more levels, easy to hard")

    def sample_is_traced_once(self) -> None:
        traces: list[int] = []

        @functools.partial(jax.jit, static_argnums=0)
        def draw(task: Task, key: PRNGKeyArray, progress: Array) -> Example:
            traces.append(task.level)
            return jax.vmap(task.sample, (0, None))(jax.random.split(key, 4), progress)

        for index in range(2):
            task = self._family.at(self._family.levels[0])
            draw(task, keys.derive(keys.root(0), "testing", index), jnp.asarray(float(index)))
        _expect(len(traces) == 1, f"sample was traced {len(traces)} times for two equal tasks; keep eq=True")

    def examples_are_as_declared(self) -> None:
        for task in _ends(self._family):
            in_order = task.reads and _rises([-1, *task.reads, task.length])
            _expect(in_order, f"reads={task.reads} are not increasing places below length={task.length}")
            _check_metric(task)
            _check_inputs(task, drawn(task).inputs)
            _check_targets(task, drawn(task))

    def same_key_gives_same_example(self) -> None:
        task, twin = (self._family.at(self._family.levels[0]) for _ in range(2))
        same = all(map(np.array_equal, drawn(task), drawn.__wrapped__(twin)))
        _expect(same, "one key gave two examples; take all randomness from the key")

    def different_keys_give_different_examples(self) -> None:
        examples = drawn(_ends(self._family)[-1])
        count = len({tuple(leaf[index].tobytes() for leaf in examples) for index in range(64)})
        _expect(count >= 32, f"64 keys gave only {count} different examples")


@dataclasses.dataclass(frozen=True)
class TaskContract:
    """What a task promises of its questions and answers; the name of a method is the promise."""

    _family: Family

    def docstring_has_an_example_that_runs(self) -> None:
        owner = self._family.task
        # Where there is none, dataclasses make one of the fields, but that shows no example.
        text, module = owner.__doc__ or "", sys.modules[owner.__module__]
        test = doctest.DocTestParser().get_doctest(text, dict(vars(module)), owner.__name__, None, None)
        _expect(test.examples, f"the docstring of {owner.__name__} shows no example (>>> ...)")
        told: list[str] = []
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        failed = doctest.DocTestRunner(verbose=False, optionflags=options).run(test, out=told.append).failed
        _expect(not failed, f"{failed} of its examples failed: {' '.join(''.join(told).split())}")

    def demands_are_finite_bits_of_known_notions(self) -> None:
        for task in map(self._family.at, self._family.levels):
            for notion, demand in task.demands().items():
                _expect(notion in {*Notion}, f"the notion {notion!r} is none of {listed(Notion)}")
                _expect(
                    0 <= demand < math.inf, f"level {task.level}: {notion} is {demand}, no number of bits"
                )

    def nominal_demand_rises_with_the_level(self) -> None:
        bits = [task.demand("nominal") for task in map(self._family.at, self._family.levels)]
        _expect(None not in bits, "demands() lacks the nominal notion at some level")
        _expect(_rises(bits), f"the nominal demand does not rise over the levels: {bits}")

    def every_split_has_content_at_every_level(self) -> None:
        unseen = self._family.task.questions == "unseen"
        for task in map(self._family.at, self._family.levels if unseen else ()):
            generated = task.decode == "autoregressive"
            one = functools.partial(content_hash, reads=task.reads, autoregressive=generated)
            hashes = jax.jit(jax.vmap(one))(drawn(task) if task.table() is None else _everything(task))
            empty = [split for split in Split if not np.asarray(belongs(hashes, split)).any()]
            _expect(not empty, f"level {task.level} has no content for {listed(empty)}; leave the level out")

    def splits_are_disjoint_in_content(self) -> None:
        task, hardest = _ends(self._family)
        if task.questions == "seen":
            distinct = len(contents(hardest, asked(hardest, Split.TEST))) == rows_of(hardest.table())
            _expect(distinct, f"level {hardest.level}: a stored content stands there twice")
            return
        held_back = {split: contents(task, asked(task, split)) for split in (Split.VALIDATION, Split.TEST)}
        parts = {Split.TRAIN: trained_contents(task), **held_back}
        for one, other in itertools.combinations(parts, 2):
            shared = parts[one] & parts[other]
            _expect(not shared, f"level {task.level}: {one} and {other} share {len(shared)} contents")

    def extra_splits_ask_new_content_of_the_same_kind(self) -> None:
        task = _ends(self._family)[0]
        for name in task.extra_splits:
            extra = task.extra(name)
            alike = (extra.inputs, extra.readout) == (task.inputs, task.readout)
            _expect(alike, f"{name}: vocabulary or read-out differ from those of level {task.level}")
            shared = contents(extra, asked(extra, Split.TEST)) & trained_contents(task)
            _expect(not shared, f"{name}: {len(shared)} contents are trained at level {task.level}")
            _check_solve(extra)

    def solve_scores_the_ceiling(self) -> None:
        for task in _ends(self._family):
            _check_solve(task)

    def floor_is_the_score_of_the_best_constant(self) -> None:
        for task in _ends(self._family):
            half = DRAWN // 2
            chosen, graded = (_part(drawn(task), part) for part in (slice(half), slice(half, None)))
            score = max(_score(task, graded, constant) for constant in _constants(task, chosen))
            # What is stored is itself a draw of so many rows.
            count = min(half, rows_of(task.table())) if task.questions == "seen" else half
            wrong = abs(score - task.floor) > _tolerance(task.metric, task.floor, count)
            _expect(not wrong, f"level {task.level}: floor={task.floor:.4g}, a constant scores {score:.4g}")

    def context_counts_prefix_classes(self) -> None:
        for task in map(self._family.at, self._family.levels):
            bits, fixed = task.demand(Notion.CONTEXT), task.decode == "parallel" and not task.augments
            table = task.table() if bits is not None and fixed else None
            if bits is None or table is None or rows_of(table) > DRAWN:
                continue
            count = math.log2(count_prefix_classes(task))
            why = f"level {task.level}: context={bits:.4g}, but the prefix classes say {count:.4g}"
            _expect(math.isclose(bits, count, abs_tol=1e-6), why)


def _ends(family: Family) -> tuple[Task, ...]:
    return (family.at(family.levels[0]), family.at(family.levels[-1]))


@functools.lru_cache(maxsize=4)
def drawn(task: Task) -> Example:
    """Examples from fixed keys, as NumPy arrays."""
    draw = jax.jit(jax.vmap(task.sample, (0, None)))
    drawing_keys = jax.random.split(keys.derive(keys.root(0), "testing/draw"), DRAWN)
    return jax.tree.map(np.asarray, draw(drawing_keys, jnp.ones(())))


@functools.lru_cache(maxsize=4)
def asked(task: Task, split: Split) -> Example:
    """All questions of a table, and so many of a stream that fewer contents would all be met."""
    return questions(task, split, 0 if task.table() is not None else ASKED)


def contents(task: Task, examples: Example) -> frozenset[bytes]:
    """The contents themselves, not their hashes: inputs less what the model would generate."""
    return frozenset(row.tobytes() for row in seen_inputs(task, examples))


def seen_inputs(task: Task, examples: Example) -> np.ndarray:
    """The inputs as the model first sees them."""
    inputs = np.asarray(examples.inputs)
    if task.decode == "autoregressive":
        blank = functools.partial(blank_generated, reads=task.reads)
        inputs = np.asarray(jax.vmap(blank)(jnp.asarray(inputs), jnp.asarray(examples.loss_mask)))
    return inputs if np.issubdtype(inputs.dtype, np.integer) else inputs + 0.0  # no negative zero


def _everything(task: Task) -> Example:
    """An example of every row of the table."""
    table = task.table()
    make, row_keys = jax.jit(jax.vmap(task.example)), jax.random.split(keys.root(0), rows_of(table))
    return jax.tree.map(np.asarray, make(table, row_keys))


@functools.lru_cache(maxsize=4)
def trained_contents(task: Task) -> frozenset[bytes]:
    """All that is stored for training; else what training draws, early and late."""
    data = training_data(task)
    if data.source.task is None:
        return contents(task, _part(data.rows, slice(data.count)))
    draw = jax.jit(functools.partial(data.source.draw, size=DRAWN))
    found: frozenset[bytes] = frozenset()
    for progress in (0.0, 1.0):
        key = keys.derive(keys.root(0), "testing/train", int(progress))
        batch = draw(data.rows, jnp.asarray(data.count), key, jnp.asarray(progress))
        found |= contents(task, _part(batch, np.asarray(batch.loss_mask).any(axis=1)))
    return found


def _part(examples: Example, part: Any) -> Example:
    return jax.tree.map(lambda leaf: leaf[part], examples)


def _check_metric(task: Task) -> None:
    readout, discrete = task.readout, not task.readout.target_shape
    fits = {"r_squared": isinstance(readout, Linear), "information": isinstance(readout, SoftTargets)}
    _expect(fits.get(task.metric, discrete), f"the metric {task.metric} cannot grade the read-out {readout}")
    if task.decode == "autoregressive":
        vocabulary = task.inputs.vocabulary if isinstance(task.inputs, Tokens) else 0
        reads_on = discrete and (readout.classes or 0) <= vocabulary
        _expect(reads_on, "what an autoregressive task reads out must be tokens of its own vocabulary")


def _expect_array(name: str, array: np.ndarray, dtype: Any, shape: tuple[int, ...]) -> None:
    _expect(array.shape[1:] == shape, f"{name} has the shape {array.shape[1:]}, not {shape}")
    _expect(array.dtype == dtype, f"{name} is {array.dtype}, not {np.dtype(dtype)}")
    _expect(np.isfinite(array).all(), f"{name} holds a number that is not finite")


def _check_inputs(task: Task, inputs: np.ndarray) -> None:
    kind = task.inputs
    if isinstance(kind, Vectors):
        _expect_array("inputs", inputs, np.float32, (task.length, kind.width))
        return
    _expect_array("inputs", inputs, np.int32, (task.length,))
    low, high, end = inputs.min(), inputs.max(), kind.vocabulary
    _expect(low >= 0 and high < end, f"tokens are {low} to {high}, not 0 to {end - 1}")


def _check_targets(task: Task, examples: Example) -> None:
    for name in ("loss_mask", "graded_mask"):
        mask = getattr(examples, name)
        _expect_array(name, mask, bool, (len(task.reads),))
        _expect(mask.any(axis=1).all(), f"an example has an empty {name}")
    readout = task.readout
    kind = np.float32 if readout.target_shape else np.int32
    _expect_array("targets", examples.targets, kind, (len(task.reads), *readout.target_shape))
    used = examples.targets[examples.loss_mask | examples.graded_mask]
    if readout.classes is not None and not readout.target_shape:
        inside = used.min() >= 0 and used.max() < readout.classes
        _expect(inside, f"targets are {used.min()} to {used.max()}, not 0 to {readout.classes - 1}")
    elif readout.classes is not None:
        sums_to_one = (used >= 0).all() and np.allclose(used.sum(axis=-1), 1, atol=1e-5)
        _expect(sums_to_one, "a target distribution is negative somewhere or does not sum to one")


def _check_solve(task: Task) -> None:
    posed = _part(asked(task, Split.TEST), slice(ASKED))
    said = np.stack([np.asarray(task.solve(one)) for one in seen_inputs(task, posed)])
    where, shape = f"{task.name} at level {task.level}: solve", np.shape(posed.targets)
    _expect(said.shape == shape, f"{where} answers in the shape {said.shape[1:]}, not {shape[1:]}")
    score, ceiling = _score(task, posed, said), task.ceiling
    # Where the reference is always right it is right in every question; else in its share of them.
    tolerance = 1e-5 if ceiling == 1 else _tolerance(task.metric, ceiling, len(said))
    _expect(abs(score - ceiling) <= tolerance, f"{where} scores {score:.6g}, not {ceiling:.6g}")


def _score(task: Task, posed: Example, said: np.ndarray) -> float:
    said = np.broadcast_to(said, posed.targets.shape)
    return METRICS[task.metric](Answers(said, posed.targets, posed.graded_mask, None, None, None))


def _tolerance(metric: str, score: float, count: int) -> float:
    if metric in {"r_squared", "information"}:
        # An estimated constant misses a share of 2/count of the spread, of which this is 16 times.
        return 2 * STANDARD_ERRORS**2 / count
    # The last term lets a rare answer, expected less than once, come up.
    return STANDARD_ERRORS * math.sqrt(score * (1 - score) / count) + 2 / count


def _constants(task: Task, examples: Example) -> list[np.ndarray]:
    """Answers that read no input: the best of each position, and the most frequent whole answer."""
    graded, targets = examples.graded_mask, examples.targets
    if task.readout.target_shape:
        shares = graded / np.maximum(graded.sum(axis=0), 1)
        return [(shares[..., None] * targets).sum(axis=0)]
    each = [
        np.bincount(targets[graded[:, read], read], minlength=1).argmax() for read in range(graded.shape[1])
    ]
    whole, counts = np.unique(targets[graded.all(axis=1)], axis=0, return_counts=True)
    return [np.array(each), *whole[counts == counts.max(initial=0)][:1]]


def count_prefix_classes(task: Task) -> int:
    """How many prefixes a left-to-right reader must tell apart at the worst cut; all contents are tried.

    Two prefixes are one class when every continuation has the same graded answers from there on. The
    log2 of the number is the context demand. The task must own a table.

    >>> from ullage.task import find
    >>> count_prefix_classes(find("parity").at(5))
    2
    """
    every = _everything(task)
    graded = every.graded_mask[..., None]
    answers = np.where(graded, every.targets.reshape(*graded.shape[:2], -1), -1)
    counts = []
    for cut in range(1, task.length + 1):
        # What is read at the last place of the prefix is still to be said.
        later = np.array(task.reads) >= cut - 1
        prefixes, suffixes = _numbered(every.inputs[:, :cut]), _numbered(every.inputs[:, cut:])
        said = np.full((prefixes.max() + 1, suffixes.max() + 1), -1)
        said[prefixes, suffixes] = _numbered(answers[:, later])
        counts.append(len(np.unique(said, axis=0)))
    return max(counts)


def _numbered(rows: np.ndarray) -> np.ndarray:
    """A number for each row, the same for equal rows."""
    return np.unique(rows.reshape(len(rows), -1), axis=0, return_inverse=True)[1].reshape(-1)
