"""The contract suite of stores: what every store promises, checked on a new and empty one.

Each promise is a function that gives the reason why a store breaks it, or nothing. What a store
promises of crashes and full disks depends on where it keeps its runs, and is not asked here.

>>> import itertools, tempfile
>>> from pathlib import Path
>>> from ullage.store import open_store
>>> with tempfile.TemporaryDirectory() as folder:
...     names = map(str, itertools.count())
...     clauses = check_store(lambda: open_store(Path(folder) / next(names)))
>>> all(clause.passed for clause in clauses)
True
"""

import dataclasses
import math
import typing
from collections.abc import Callable

from ullage.errors import BadInput
from ullage.record import CurveRow, Phase, RunRecord, Status
from ullage.store import Store
from ullage.testing import Clause

Promise = Callable[[Store], str]

_EXAMPLES = {int: 1, float: 0.5, str: "text"}


def check_store(make: Callable[[], Store]) -> list[Clause]:
    """Check all promises; `make` gives a new and empty store each time."""
    return [_judged(clause, promise, make) for clause, promise in _PROMISES.items()]


def _judged(clause: str, promise: Promise, make: Callable[[], Store]) -> Clause:
    try:
        why = promise(make())
    except Exception as error:  # noqa: BLE001 - a store may be anyone's, and fail in any way
        why = f"raised {type(error).__name__}: {error}"
    return Clause(clause, not why, why)


def example_record(run_id: str) -> RunRecord:
    """A record that is complete and means nothing."""
    hints = typing.get_type_hints(RunRecord)
    values = {name: _EXAMPLES[(typing.get_args(hint) or (hint,))[0]] for name, hint in hints.items()}
    return RunRecord(
        **{**values, "run_id": run_id, "phase": str(Phase.FINAL), "status": str(Status.FINISHED)}
    )


def example_curve(run_id: str, score: float = 0.5) -> tuple[CurveRow, ...]:
    """Two checkpoints of one run, with one number each."""
    return tuple(CurveRow(run_id, step, "validation", "score", score) for step in (100, 200))


# ── the promises ─────────────────────────────────────────────────────────────────────────────────


def _starts_empty(store: Store) -> str:
    records, damaged_lines = store.read()
    rows = list(store.curves())
    return "" if (records, damaged_lines, rows) == ({}, 0, []) else f"a new store has {len(records)} runs"


def _gives_back(store: Store) -> str:
    strange = dataclasses.replace(
        example_record("a"),
        task="a 'quoted'\r\n\u2028 línea; \U0001f9ea\0",
        level=2**62,
        score=0.1 + 0.2,
        parameters=None,
    )
    with store:
        store.append(strange, example_curve("a"))
    contents, rows = store.read(), list(store.curves())
    if contents.records != {"a": strange} or contents.damaged_lines:
        return f"stored {strange}, read {contents}"
    return "" if sorted(rows) == sorted(example_curve("a")) else f"the curve came back as {rows}"


def _keeps_order(store: Store) -> str:
    with store:
        for run_id in ("b", "c", "a", "b"):
            store.append(example_record(run_id), ())
    found = list(store.read().records)
    return "" if found == ["b", "c", "a"] else f"runs b, c, a, b came back as {found}"


def _counts_last_attempt(store: Store) -> str:
    second = dataclasses.replace(example_record("a"), attempt=2)
    with store:
        store.append(second, example_curve("a", 0.75))
        store.append(example_record("a"), example_curve("a", 0.25))
    if store.read().records != {"a": second}:
        return "attempt 1, told after attempt 2, replaced it"
    rows = list(store.curves())
    return "" if sorted(rows) == sorted(example_curve("a", 0.75)) else f"attempt 2 has the curve {rows}"


def _counts_last_of_equals(store: Store) -> str:
    again = dataclasses.replace(example_record("a"), score=0.75)
    with store:
        store.append(example_record("a"), example_curve("a", 0.25))
        store.append(again, example_curve("a", 0.75)[:1])
    if store.read().records != {"a": again}:
        return "of two records of one attempt the first counts"
    rows = list(store.curves())
    return "" if rows == list(example_curve("a", 0.75)[:1]) else f"the run has the curve {rows}"


def _gives_each_number_once(store: Store) -> str:
    with store:
        store.append(example_record("a"), (*example_curve("a", 0.25), *example_curve("a", 0.75)))
    rows = list(store.curves())
    return (
        "" if sorted(rows) == sorted(example_curve("a", 0.75)) else f"numbers given twice came back as {rows}"
    )


def _gives_the_curves_of_some(store: Store) -> str:
    with store:
        for run_id in ("a", "b", "c"):
            store.append(example_record(run_id), example_curve(run_id))
    found = {row.run_id for row in store.curves({"a", "c", "nowhere"})}
    rows = list(store.curves([]))
    return "" if found == {"a", "c"} and not rows else f"asked for a and c, got {found}; for none, {rows}"


def _knows_what_is_not_finite(store: Store) -> str:
    diverged = dataclasses.replace(example_record("a"), perplexity=math.inf, score=math.nan)
    rows = [
        row._replace(value=value) for row, value in zip(example_curve("a"), (math.inf, math.nan), strict=True)
    ]
    with store:
        store.append(diverged, rows)
    record, values = store.read().records["a"], [row.value for row in store.curves()]
    if (record.perplexity, record.score) != (None, None):
        return f"a perplexity of inf and a score of nan came back as {record.perplexity} and {record.score}"
    return "" if len(values) == 2 and all(map(math.isnan, values)) else f"inf and nan came back as {values}"


def _refuses_strangers_rows(store: Store) -> str:
    with store:
        try:
            store.append(example_record("a"), example_curve("b"))
        except ValueError:
            return "" if not store.read().records else "the record was kept"
    return "a row of run b was kept in the curve of run a"


def _needs_the_lock(store: Store) -> str:
    try:
        store.append(example_record("a"), ())
    except Exception:  # noqa: BLE001 - any refusal will do
        return "" if not store.read().records else "the record was kept"
    return "append worked without the lock"


def _has_one_driver(store: Store) -> str:
    with store:
        try:
            store.lock()
        except BadInput:
            store.append(example_record("a"), ())
        else:
            return "a second driver got the lock"
    with store:
        store.append(example_record("b"), ())
    found = list(store.read().records)
    return "" if found == ["a", "b"] else f"runs a and b came back as {found}"


def _reads_meanwhile(store: Store) -> str:
    with store:
        store.append(example_record("a"), example_curve("a"))
        before, rows = store.read(), list(store.curves())
        store.append(example_record("b"), example_curve("b"))
        after = store.read()
    if list(before.records) != ["a"] or len(rows) != 2:
        return f"after one run there are {list(before.records)} with {len(rows)} numbers"
    return "" if list(after.records) == ["a", "b"] else f"after two runs there are {list(after.records)}"


def _keeps_what_is_its_own(store: Store) -> str:
    with store:
        store.append(example_record("a"), ())
    store.read().records.clear()
    kept = store.read().records == {"a": example_record("a")}
    return "" if kept else "emptying what read gave emptied the store"


_PROMISES: dict[str, Promise] = {
    "a new store is empty, and can be read before it is made": _starts_empty,
    "what is appended comes back as it was": _gives_back,
    "runs come in the order in which they first appeared": _keeps_order,
    "the latest attempt counts, with its own curve": _counts_last_attempt,
    "of two appends of one attempt the later counts, with its own curve": _counts_last_of_equals,
    "no number of a curve comes twice": _gives_each_number_once,
    "the curves of some runs can be had without the others": _gives_the_curves_of_some,
    "a number that is not finite becomes null in a record, nan in a curve": _knows_what_is_not_finite,
    "a curve holds rows of its own run only": _refuses_strangers_rows,
    "append needs the driver's lock": _needs_the_lock,
    "there is one driver at a time, and another after it": _has_one_driver,
    "readers may read while a driver writes": _reads_meanwhile,
    "a reader cannot change what is stored": _keeps_what_is_its_own,
}
