"""Jobs: every run is told as a record, and the test questions are asked once, at the very end."""

import dataclasses
import json
import math
import platform

import jax
import numpy as np
import pytest
import toy_tasks
from small_tasks import TINY, as_user_file, broken, recipe, toy_classes

from ullage import __version__, job, train
from ullage.job import Job, describe_task, perform, task_of
from ullage.record import COLUMNS, Status, from_json, to_json
from ullage.split import Split
from ullage.task import Family, find

ALWAYS = lambda checkpoint: True  # noqa: E731 - a watcher that never stops
PARITY = find("parity").at(5)


def make(task=PARITY, made=None, **fields):
    document = describe_task(task) if not isinstance(task, dict) else task
    return Job(document, (made or recipe()).to_json(), **{"seed": 0, **fields})


def rows_of(curve, split, metric="score"):
    return [(row.step, row.value) for row in curve if (row.split, row.metric) == (split, metric)]


# ── all kinds of tasks ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("owner", toy_classes(), ids=lambda owner: owner.__name__)
def test_every_kind_of_task_trains_from_a_users_file_end_to_end(owner):
    level = owner().levels[0]
    sent = Job(**json.loads(json.dumps(dataclasses.asdict(make(as_user_file(owner)(level=level))))))

    record, curve = perform(sent, ALWAYS)

    assert (record.status, record.reason, record.train_steps) == (Status.FINISHED, "step limit", 4)
    assert record.is_evidence
    assert math.isfinite(record.score)
    assert from_json(to_json(record)) == record
    assert [step for step, _ in rows_of(curve, "validation")] == [2, 4]
    assert rows_of(curve, "test") == [(4, record.score)]


def test_a_record_tells_what_was_trained():
    record, _ = perform(make(attempt=2, search_trials=7, study="mine"), ALWAYS)
    told = {
        "task": "parity",
        "level": 5,
        "architecture": "transformer",
        "model_id": TINY.model_id,
        "layers": 2,
        "heads": 2,
        "d_head": 4,
        "d_model": 8,
        "d_ff": 16,
        "precision_bits": 32,
        "parameters": TINY.parameters(PARITY.interface),
        "demand_bits": 5.0,
        "demand_notion": "input",
        "demand_answer_bits": 1.0,
        "demand_storage_bits": None,
        "technique": "none",
        "phase": "final",
        "seed": 0,
        "attempt": 2,
        "step_limit": 4,
        "search_trials": 7,
        "train_examples": 0,
        "metric": "answers",
        "score_floor": 0.5,
        "score_ceiling": 1.0,
        "train_steps": 4,
        "train_flops": 3 * TINY.forward_flops(PARITY.interface) * 16 * 4,
        "study": "mine",
        "version": __version__,
        "host": platform.node(),
        "device": jax.default_backend(),
    }

    assert {name: getattr(record, name) for name in told} == told
    assert record.correct == pytest.approx(record.score * record.total)
    assert record.perplexity == pytest.approx(2**record.cross_entropy_bits)
    assert json.loads(record.recipe_json) == recipe().to_json()


def test_the_gap_is_train_skill_less_validation_skill():
    record, curve = perform(make(), ALWAYS)
    train_score, validation_score = (rows_of(curve, split)[-1][1] for split in ("train", "validation"))

    assert record.generalisation_gap == pytest.approx((train_score - validation_score) / 0.5)


# ── identity ──────────────────────────────────────────────────────────────────────────────────────


def test_the_same_run_has_the_same_identity_whoever_asks():
    plain = make()

    assert make(phase="search", attempt=3, search_trials=9, study="x").run_id == plain.run_id
    assert perform(plain, ALWAYS)[0].run_id == plain.run_id


@pytest.mark.parametrize(
    "other",
    [
        make(seed=1),
        make(find("parity").at(6)),
        make(made=recipe(step_limit=5)),
        make(made=recipe(learning_rate=1e-4)),
        make({**describe_task(PARITY), "version": "2"}),
    ],
    ids=["seed", "level", "step limit", "learning rate", "version"],
)
def test_another_run_has_another_identity(other):
    assert other.run_id != make().run_id


def test_a_users_file_travels_as_text_and_is_known_by_its_hash():
    member = as_user_file(toy_tasks.First)
    document = json.loads(json.dumps(describe_task(Family(member).at(6))))

    assert task_of(document) == member(level=6)
    assert document["version"] not in {"1", document["source"]}
    assert "class First" not in perform(make(document), ALWAYS)[0].task_json


def test_knobs_of_a_task_travel():
    task = find("modulo:base=7,digits=4").at(11)

    assert task_of(json.loads(json.dumps(describe_task(task)))) == task


# ── the test questions ────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def asked(monkeypatch):
    """Which splits were asked for, by the trainer and by the job."""
    found = []
    for module in (train, job):
        real = module.questions
        monkeypatch.setattr(
            module, "questions", lambda *given, real=real: found.append(str(given[1])) or real(*given)
        )
    real_extra = job.extra_questions
    monkeypatch.setattr(job, "extra_questions", lambda *given: found.append(given[1]) or real_extra(*given))
    return found


def test_a_final_run_asks_the_test_questions_once_and_last(asked):
    perform(make(), ALWAYS)

    assert asked == ["train", "validation", "test"]


def test_a_search_never_asks_the_test_questions(asked):
    record, curve = perform(make(phase="search"), ALWAYS)

    assert asked == ["train", "validation"]
    assert rows_of(curve, "test") == []
    assert record.score == rows_of(curve, "validation")[-1][1]
    assert not record.is_evidence


@pytest.mark.parametrize(
    ("fields", "watch", "status"),
    [
        ({}, lambda checkpoint: False, Status.PRUNED),
        ({"seconds_limit": 1e-9}, ALWAYS, Status.OUT_OF_TIME),
    ],
    ids=["pruned", "out of time"],
)
def test_a_run_that_is_no_evidence_never_asks_the_test_questions(asked, fields, watch, status):
    record, curve = perform(make(**fields), watch)

    assert (record.status, record.train_steps, record.is_evidence) == (status, 2, False)
    assert "test" not in asked
    assert rows_of(curve, "test") == []


def test_the_test_split_is_the_one_that_is_scored():
    record, curve = perform(make(find("modulo").at(5)), ALWAYS)

    assert record.score == rows_of(curve, "test")[0][1]
    assert record.total == job.TEST_QUESTIONS
    assert record.score != rows_of(curve, "validation")[-1][1]


# ── extra splits ──────────────────────────────────────────────────────────────────────────────────


def test_extra_splits_of_another_length_are_scored_with_the_same_weights():
    """The last of four symbols; a causal model without positions can answer for eight as well."""
    member = as_user_file(toy_tasks.Last)

    record, curve = perform(make(member(level=4)), ALWAYS)

    assert rows_of(curve, "longer", "total") == [(4, float(job.TEST_QUESTIONS))]
    assert [step for step, _ in rows_of(curve, "longer")] == [record.train_steps]
    assert rows_of(curve, "longer", "confidence") != rows_of(curve, "test", "confidence")


def test_what_was_learned_carries_over_to_the_longer_split():
    """Reading the last symbol needs no positions, so it is right at every length once it is learned."""
    learner = dataclasses.replace(TINY, positional="none", norm="pre")
    made = recipe(architecture=learner, step_limit=300, evaluate_every=50, learning_rate=0.02)

    record, curve = perform(make(as_user_file(toy_tasks.Last)(level=4), made), ALWAYS)

    assert record.score > 0.95
    assert rows_of(curve, "longer")[0][1] > 0.9


def test_a_search_scores_no_extra_split(asked):
    perform(make(find("copy").at(2), phase="search"), ALWAYS)

    assert asked == ["train", "validation"]


def test_shipped_extra_splits_are_scored(asked):
    _, curve = perform(make(find("copy").at(2)), ALWAYS)

    assert asked == ["train", "validation", "test", "longer"]
    assert len(rows_of(curve, "longer")) == 1


# ── failures are records ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("owner", [toy_tasks.First, toy_tasks.Sums, toy_tasks.Frequencies])
def test_a_diverged_run_is_evidence_with_a_finite_score(owner):
    unbounded = dataclasses.replace(TINY, norm="none", activation="relu", layers=8)
    wild = recipe(
        architecture=unbounded, learning_rate=10.0, initial_scale=100.0, step_limit=100, evaluate_every=20
    )

    record, _ = perform(make(as_user_file(owner)(level=4), wild), ALWAYS)

    assert record.status == Status.DIVERGED
    assert record.reason.startswith("the loss was not a number by step ")
    assert record.score is not None
    assert math.isfinite(record.score)
    assert record.is_evidence
    assert json.loads(to_json(record))["score"] == record.score


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        ("MemoryError('no room')", Status.OUT_OF_MEMORY, "out of memory: no room"),
        (
            "jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: 9 GB')",
            Status.OUT_OF_MEMORY,
            "JaxRuntimeError: RESOURCE_EXHAUSTED: 9 GB",
        ),
        ("jax.errors.JaxRuntimeError('INTERNAL: x')", Status.FAILED, "JaxRuntimeError: INTERNAL: x"),
        ("ZeroDivisionError('mine\\nmore')", Status.FAILED, "ZeroDivisionError: mine"),
    ],
    ids=["memory", "device memory", "device", "own defect"],
)
def test_a_run_that_cannot_be_made_is_a_record_with_a_reason(fault, status, reason):
    record, curve = perform(make(broken(fault)(level=4)), ALWAYS)

    assert (record.status, record.reason, curve) == (status, reason, ())
    assert (record.task, record.level, record.score, record.train_steps) == ("broken_file", 4, None, 0)
    assert record.parameters == TINY.parameters(toy_tasks.First(level=4).interface)
    assert from_json(to_json(record)) == record


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"level": 1}, "parity: level=1 is out of range; choose 5 to 4096 (length of the string, in bits)"),
        ({"name": "nothing"}, "there is no task 'nothing'"),
    ],
    ids=["level", "name"],
)
def test_a_task_that_cannot_be_made_is_a_record_too(change, reason):
    record, curve = perform(make({**describe_task(PARITY), **change}), ALWAYS)

    assert (record.status, curve) == (Status.FAILED, ())
    assert record.reason.startswith(reason)
    assert set(json.loads(to_json(record))) - {"schema"} == set(COLUMNS)


def test_a_failure_after_training_loses_no_reason(monkeypatch):
    def fails(*given):
        raise MemoryError(f"{given[1]}")

    monkeypatch.setattr(job, "questions", fails)

    assert perform(make(), ALWAYS)[0].reason == f"out of memory: {Split.TEST}"


def test_an_interrupt_is_not_swallowed():
    def interrupts(checkpoint):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform(make(), interrupts)


def test_a_job_says_whether_it_needs_64_bits():
    wide = dataclasses.replace(TINY, precision="f64")

    assert [make(made=recipe(architecture=model)).uses_x64 for model in (TINY, wide)] == [False, True]


def test_a_run_is_repeated_bit_by_bit():
    (one, first_curve), (other, second_curve) = (perform(make(), ALWAYS) for _ in range(2))

    assert first_curve == second_curve
    assert dataclasses.replace(one, seconds=0.0) == dataclasses.replace(other, seconds=0.0)
    assert np.isfinite([row.value for row in first_curve]).all()
