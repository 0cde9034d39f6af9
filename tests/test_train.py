"""Training: the same seed gives the same run, and a run ends for the reasons that are told, no other."""

import dataclasses
import functools
import itertools
import math
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_tasks
from small_tasks import TINY, recipe

from ullage import keys, train
from ullage.record import Status
from ullage.split import Split, training_data
from ullage.task import find
from ullage.train import Checkpoint, Journal, Program, advance

EASY = find("memorise").task(level=16, length=1, labels=2)  # symbols with a label each: soon learned
EASY_RECIPE = recipe(step_limit=400, evaluate_every=20, learning_rate=0.02)


def same(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(*pair) for pair in pairs)


@functools.cache
def trained(seed=0, **knobs):
    return train.train(toy_tasks.First(level=4), recipe(**knobs), seed)


# ── repeatable ────────────────────────────────────────────────────────────────────────────────────


def test_same_seed_gives_same_trace():
    again = train.train(toy_tasks.First(level=4), recipe(), 0)

    assert same(trained().parameters, again.parameters)
    assert trained().checkpoints == again.checkpoints


def test_another_seed_gives_another_trace():
    assert not same(trained().parameters, trained(seed=1).parameters)


def test_when_a_run_is_looked_at_does_not_change_it():
    rarely = trained(evaluate_every=4)

    assert same(trained().parameters, rarely.parameters)
    assert trained().checkpoints[-1] == rarely.checkpoints[-1]


@pytest.mark.parametrize(
    "other",
    [
        {"learning_rate": 1e-3},
        {"weight_decay": 5.0},
        {"dropout": 0.2},
        {"warmup_steps": 3},
        {"final_rate": 1.0},
        {"initial_scale": 0.7},
        {"batch_size": 8},
        {"train_examples": 20},
        {"step_limit": 6},
    ],
    ids=str,
)
def test_every_knob_of_a_recipe_changes_the_training(other):
    assert not same(trained().parameters, trained(**other).parameters)


# ── the end of a run ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("limit", "every", "steps"), [(5, 2, [2, 4, 5]), (4, 4, [4]), (3, 1, [1, 2, 3])], ids=str
)
def test_a_run_makes_exactly_the_steps_of_its_limit(limit, every, steps):
    trace = train.train(toy_tasks.First(level=4), recipe(step_limit=limit, evaluate_every=every), 0)

    assert [checkpoint.step for checkpoint in trace.checkpoints] == steps
    assert (trace.steps, trace.status, trace.reason) == (limit, Status.FINISHED, "step limit")


def test_the_optimiser_has_counted_every_step():
    program, traced, state, data = prepared(toy_tasks.First(level=4), recipe(step_limit=7))

    for start, stop in [(0, 3), (3, 7)]:
        state = advance(program, traced, state, data.rows, data.count, keys.root(0), start, stop)

    counts = [leaf for leaf in jax.tree.leaves(state.optimiser) if leaf.shape == ()]
    assert [int(count) for count in counts] == [7] * len(counts)
    assert counts


def test_a_solved_run_stops_at_the_second_good_evaluation():
    trace = train.train(EASY, EASY_RECIPE, 0)
    good = [checkpoint.scores["validation"]["score"] == 1 for checkpoint in trace.checkpoints]

    assert (trace.status, trace.reason) == (Status.FINISHED, "solved")
    assert trace.steps < EASY_RECIPE.step_limit
    assert good[-2:] == [True, True]
    assert trace.steps_to_solve == trace.checkpoints[-2].step
    assert not any(all(pair) for pair in itertools.pairwise(good[:-1]))


def test_a_run_that_does_not_move_goes_on_to_its_limit():
    still = recipe(step_limit=60, evaluate_every=2, learning_rate=0.0)

    trace = train.train(toy_tasks.First(level=4), still, 0)

    assert len({checkpoint.scores["validation"]["score"] for checkpoint in trace.checkpoints}) == 1
    assert (trace.steps, trace.status, trace.reason) == (60, Status.FINISHED, "step limit")


def test_a_diverged_run_says_so_and_still_has_a_score():
    wild = recipe(learning_rate=10.0, initial_scale=100.0, step_limit=200, evaluate_every=20)

    trace = train.train(toy_tasks.Sums(level=2), dataclasses.replace(wild, architecture=unbounded()), 0)

    assert trace.status == Status.DIVERGED
    assert trace.steps < 200
    assert trace.reason == f"the loss was not a number by step {trace.steps}"


def unbounded():
    """A model without norms, that can leave the range of its numbers."""
    return dataclasses.replace(TINY, norm="none", activation="relu", layers=8)


def test_a_run_over_its_time_is_out_of_time():
    trace = train.train(toy_tasks.First(level=4), recipe(step_limit=100), 0, seconds_limit=1e-9)

    assert (trace.status, trace.steps) == (Status.OUT_OF_TIME, 2)
    assert trace.reason == "over 1e-09 s at step 2"


def test_a_watcher_is_told_of_every_checkpoint_and_can_stop_the_run():
    seen = []

    def watch(checkpoint):
        seen.append(checkpoint)
        return checkpoint.step < 4

    trace = train.train(toy_tasks.First(level=4), recipe(step_limit=100), 0, watch)

    assert (trace.status, trace.reason) == (Status.PRUNED, "stopped by its watcher at step 4")
    assert tuple(seen) == trace.checkpoints


def test_training_looks_at_no_test_question(monkeypatch):
    asked = []
    real = train.questions
    monkeypatch.setattr(train, "questions", lambda *given: asked.append(given[1]) or real(*given))

    trace = train.train(toy_tasks.First(level=4), recipe(), 0)

    assert set(asked) == {Split.TRAIN, Split.VALIDATION}
    assert {split for checkpoint in trace.checkpoints for split in checkpoint.scores} == {
        "train",
        "validation",
    }


# ── the journal ───────────────────────────────────────────────────────────────────────────────────


def journal(train_skills, validation_skills, finite=True, watch=lambda checkpoint: True, seconds_limit=0.0):
    """A journal of a task with floor 1/2 and one checkpoint every ten steps; entered until it ends."""
    kept = Journal(find("parity").at(5), watch, time.monotonic(), seconds_limit)
    last = 10 * len(train_skills)
    for place, skills in enumerate(zip(train_skills, validation_skills, strict=True)):
        step = 10 * (place + 1)
        scores = {
            split: {"score": 0.5 + skill / 2}
            for split, skill in zip(("train", "validation"), skills, strict=True)
        }
        kept.enter(Checkpoint(step, scores), finite, step >= last)
        if kept.status is not None:
            break
    return kept


@pytest.mark.parametrize(
    ("validation", "steps"),
    [
        ([0.99, 0.99, 0, 0], 10),
        ([0.99, 0.98, 0.99, 0.99], 30),
        ([0.99, 0, 0.99, 0], None),
        ([0.5, 0.5, 0.5, 1.0], None),
        ([0.98, 0.98, 0.98, 0.98], None),
    ],
    ids=str,
)
def test_solved_means_two_good_evaluations_in_a_row(validation, steps):
    kept = journal([1, 1, 1, 1], validation)

    assert kept.steps_to_solve == steps
    assert kept.reason == ("solved" if steps else "step limit")
    assert len(kept.checkpoints) == (4 if steps is None else steps // 10 + 1)


@pytest.mark.parametrize(
    ("trained_skills", "validation", "late"),
    [
        ([0.5, 0.95, 1, 1, 1], [0, 0, 0, 0.94, 0.95], 30),
        ([0.95, 1, 1], [0.95, 1, 1], 0),
        ([0, 0, 0.95], [0.95, 0.9, 0.9], 0),
        ([1, 1, 1], [0, 0.5, 0.94], None),
        ([0.9, 0.9, 0.9], [0, 0, 1], None),
    ],
    ids=["late", "at once", "validation first", "never generalises", "never fits"],
)
def test_late_generalisation_is_the_way_from_fit_to_validation(trained_skills, validation, late):
    assert journal(trained_skills, validation).late_generalisation_steps == late


def test_what_is_not_a_number_counts_before_everything_else():
    kept = journal([1, 1], [1, 1], finite=False, watch=lambda checkpoint: False, seconds_limit=1e-9)

    assert (kept.status, len(kept.checkpoints)) == (Status.DIVERGED, 1)


def test_a_run_that_reached_its_limit_is_finished_whatever_its_watcher_says():
    assert journal([0], [0], watch=lambda checkpoint: False).status == Status.FINISHED


def test_a_score_that_is_missing_counts_as_not_learned():
    kept = Journal(find("parity").at(5), lambda checkpoint: True, time.monotonic(), 0.0)

    kept.enter(Checkpoint(10, {"train": {}, "validation": {}}), finite=True, at_limit=True)

    assert (kept.steps_to_solve, kept.late_generalisation_steps) == (None, None)


# ── the step ──────────────────────────────────────────────────────────────────────────────────────


def prepared(task, made):
    data = training_data(task)
    program = Program(made.architecture, task.interface, data.source, made.batch_size, made.dropout > 0)
    return program, made.traced, program.init(keys.root(0), made.initial_scale, made.traced), data


def compiled_by(task, made):
    before = advance._cache_size()
    train.train(task, made, 0)
    return advance._cache_size() - before


def test_levels_of_one_padded_shape_and_other_numbers_share_one_program():
    family = find("memorise:labels=3")

    assert compiled_by(family.at(20), recipe()) == 1
    assert compiled_by(family.at(30), recipe()) == 0
    traced = {"learning_rate": 0.1, "weight_decay": 0.3, "warmup_steps": 2, "final_rate": 0.5}
    assert compiled_by(family.at(20), recipe(initial_scale=0.5, step_limit=6, **traced)) == 0
    assert compiled_by(family.at(40), recipe()) == 1


def test_dropout_rates_share_one_program():
    task = toy_tasks.First(level=5)

    assert [compiled_by(task, recipe(dropout=rate)) for rate in (0.1, 0.3)] == [1, 0]


def rate(step, **knobs):
    return float(train._rate(recipe(step_limit=100, **knobs).traced, jnp.asarray(step)))


def test_the_learning_rate_rises_linearly_then_falls_along_half_a_cosine():
    knobs = {"learning_rate": 0.5, "warmup_steps": 10, "final_rate": 0.2}

    assert rate(0, **knobs) == pytest.approx(0.05, rel=1e-3)
    assert rate(9, **knobs) / 0.5 == pytest.approx(
        0.2 + 0.8 * (0.5 + 0.5 * math.cos(math.pi * 0.09)), rel=1e-5
    )
    assert rate(50, **knobs) == pytest.approx(0.5 * 0.6, rel=1e-5)
    assert rate(100, **knobs) == rate(500, **knobs) == pytest.approx(0.1, rel=1e-5)


def test_without_warmup_and_decay_the_learning_rate_is_constant():
    rates = {rate(step, learning_rate=0.25, warmup_steps=0, final_rate=1.0) for step in (0, 1, 50, 100)}

    assert rates == {0.25}


def test_the_loss_is_the_mean_over_what_the_mask_marks():
    task = toy_tasks.Masked(level=3)
    program, _, state, _ = prepared(task, recipe())
    batch = jax.vmap(task.sample, (0, None))(jax.random.split(keys.root(0), 8), jnp.ones(()))
    outputs = TINY.apply(state.parameters, batch.inputs, task.interface)
    losses = np.asarray(task.readout.loss(outputs, batch.targets))

    found = train._loss(program, state.parameters, batch, 0.0, None)
    nothing = train._loss(
        program, state.parameters, batch._replace(loss_mask=jnp.zeros_like(batch.loss_mask)), 0.0, None
    )

    assert float(found) == pytest.approx(losses[np.asarray(batch.loss_mask)].mean(), rel=1e-5)
    assert float(nothing) == 0.0


def test_a_batch_in_pieces_has_the_gradient_of_the_whole(monkeypatch):
    task = toy_tasks.Masked(level=3)
    program, _, state, _ = prepared(task, recipe())
    size = program.batch_size
    batch = jax.vmap(task.sample, (0, None))(jax.random.split(keys.root(0), size), jnp.ones(()))
    # Unequal shares: the first quarter asks nothing at all.
    asking = np.arange(size)[:, None] >= size // 4
    batch = batch._replace(loss_mask=batch.loss_mask & asking)

    whole = jax.value_and_grad(train._loss, argnums=1)(program, state.parameters, batch, 0.0, None)
    monkeypatch.setattr(train, "POSITIONS_AT_ONCE", size // 4 * task.length)
    pieces = train._gradient(program, state.parameters, batch, 0.0, None)

    assert train._pieces(size, task.length) == (4 if jax.default_backend() == "cpu" else 1)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, atol=1e-6), pieces, whole)


def test_one_step_is_one_step_of_adamw():
    """From rest every weight moves by the learning rate along its gradient's sign, less the decay."""
    made = recipe(learning_rate=0.01, weight_decay=0.5, warmup_steps=0, final_rate=1.0)
    program, traced, state, data = prepared(toy_tasks.First(level=4), made)
    before = jax.tree.map(np.array, state.parameters)

    after = advance(program, traced, state, data.rows, data.count, keys.root(0), 0, 1).parameters

    moved = np.asarray(after["read_bias"]) - before["read_bias"]
    np.testing.assert_allclose(np.abs(moved), 0.01, rtol=1e-3)
    change = np.asarray(after["read"]) - before["read"] * (1 - 0.01 * 0.5)
    np.testing.assert_allclose(np.abs(change), 0.01, rtol=1e-2)
