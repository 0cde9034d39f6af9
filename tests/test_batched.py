"""The executor that trains jobs of one shape at once gives what the one gives that trains them in turn."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import pytest
from small_tasks import TINY, recipe

from ullage import together
from ullage.errors import BadInput
from ullage.executor import Ended
from ullage.executors.batched import Batched
from ullage.executors.serial import Serial
from ullage.job import Job, describe_task
from ullage.record import Status
from ullage.task import find

TIMES = ("seconds", "host")
EASY = find("memorise").task  # symbols with a label each: soon learned
FINE = {"step_limit": 60, "evaluate_every": 20, "learning_rate": 0.02}


def job(seed, level=16, symbols=128, **knobs):
    return Job(
        describe_task(EASY(level=level, length=1, labels=2, symbols=symbols)),
        recipe(**{**FINE, **knobs}).to_json(),
        seed,
    )


def unbounded():
    return dataclasses.replace(TINY, norm="none", activation="relu", layers=8)


def run(executor, jobs, stopped=()):
    """What came of the jobs, by their place; jobs of `stopped` places end at their first checkpoint."""
    waiting, found = list(jobs), {}

    def ask(lanes):
        given, waiting[:] = waiting[:lanes], waiting[lanes:]
        return given or None

    def tell(event):
        place = jobs.index(event.job)
        if isinstance(event, Ended):
            found[place] = event.record, event.curve
        return place not in stopped

    executor.run(ask, tell)
    return found


def assert_alike(one, other):
    """Records and curves agree, numbers to rounding."""
    rows = [dataclasses.asdict(record) for record, _ in (one, other)]
    for name in rows[0].keys() - {*TIMES}:
        first, second = rows[0][name], rows[1][name]
        close = isinstance(first, float) and math.isclose(first, second, rel_tol=1e-3, abs_tol=1e-4)
        assert close or first == second, name
    assert [row[:4] for row in one[1]] == [row[:4] for row in other[1]]
    assert [row.value for row in one[1]] == pytest.approx([row.value for row in other[1]], rel=1e-2, abs=1e-3)


@pytest.fixture
def groups(monkeypatch):
    """The sizes of the groups that were made at once, by the name of the function."""
    seen = []
    real = together.call_many

    def call_many(function, fixed, calls):
        seen.append((function.__name__, len(calls)))
        return real(function, fixed, calls)

    monkeypatch.setattr(together, "call_many", call_many)
    return seen


def test_lanes_with_numbers_of_their_own_give_what_they_give_alone(groups):
    jobs = [
        job(0),
        job(1, learning_rate=0.01, weight_decay=0.3, warmup_steps=9, final_rate=0.5, initial_scale=0.7),
        job(2, level=15),
        job(3, step_limit=50),
    ]

    at_once, alone = run(Batched(4), jobs), run(Serial(), jobs)

    assert [at_once[place][0].status for place in range(4)] == [Status.FINISHED] * 4
    for place in range(4):
        assert_alike(at_once[place], alone[place])
    assert ("advance", 4) in groups
    assert ("_ask", 4) in groups


def test_each_lane_stops_by_itself(groups):
    jobs = [
        job(0, step_limit=400),  # solved long before
        job(1, step_limit=400, learning_rate=0.0),
        job(2, step_limit=20),
        job(3, step_limit=400, learning_rate=0.0, weight_decay=0.1),
    ]

    at_once, alone = run(Batched(4), jobs, stopped=(3,)), run(Serial(), jobs, stopped=(3,))

    assert [at_once[place][0].reason for place in range(4)] == [
        "solved",
        "step limit",
        "step limit",
        "stopped by its watcher at step 20",
    ]
    assert [at_once[place][0].train_steps for place in range(4)] == [
        alone[place][0].train_steps for place in range(4)
    ]
    assert at_once[0][0].train_steps < 400
    assert {size for name, size in groups if name == "advance"} >= {1, 4}


def test_a_lane_that_diverges_harms_no_other():
    wild = recipe(
        architecture=unbounded(), learning_rate=10.0, initial_scale=100.0, step_limit=60, evaluate_every=20
    )
    tame = dataclasses.replace(wild, learning_rate=1e-3, initial_scale=0.5)
    task = describe_task(EASY(level=16, length=1, labels=2))
    jobs = [Job(task, made.to_json(), 0) for made in (wild, tame)]

    at_once, alone = run(Batched(2), jobs), run(Serial(), jobs)

    assert [at_once[place][0].status for place in (0, 1)] == [Status.DIVERGED, Status.FINISHED]
    assert_alike(at_once[1], alone[1])


def test_jobs_of_other_shapes_run_beside_each_other():
    jobs = [job(0), job(1, batch_size=8), job(2, dropout=0.1), job(3, level=30)]

    at_once, alone = run(Batched(4), jobs), run(Serial(), jobs)

    for place in range(4):
        assert_alike(at_once[place], alone[place])


def test_more_jobs_than_lanes_take_the_places_of_those_that_ended(groups):
    jobs = [job(seed, step_limit=20 + 20 * (seed % 2)) for seed in range(5)]

    found = run(Batched(2), jobs)

    assert sorted(found) == [0, 1, 2, 3, 4]
    assert max(size for _, size in groups) == 2


def test_calls_that_do_not_fit_at_once_are_made_one_by_one(monkeypatch):
    def too_much(function, fixed, calls):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED")

    jobs = [job(0), job(1)]
    alone = run(Serial(), jobs)
    monkeypatch.setattr(together, "call_many", too_much)

    at_once = run(Batched(2), jobs)

    for place in (0, 1):
        assert_alike(at_once[place], alone[place])


def test_numbers_of_lanes_between_two_powers_of_two_share_a_program():
    traces = []

    @jax.jit
    def double(x):
        traces.append(x.shape)
        return 2 * x

    found = [together.call_many(double, (), [(jnp.full(3, place),) for place in range(n)]) for n in (3, 4)]

    assert [[one.tolist() for one in many] for many in found] == [
        [[2.0 * place] * 3 for place in range(n)] for n in (3, 4)
    ]
    assert len(traces) == 1


def test_no_lanes_are_refused():
    with pytest.raises(BadInput, match="lanes=0"):
        Batched(0)
