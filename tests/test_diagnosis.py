"""The diagnosis: each rule speaks where it should, names where, and is silent elsewhere."""

import dataclasses

import numpy as np
import pytest
from hand_made import NANO, posterior_of
from report_worlds import fitted, record, world

from ullage.diagnosis import depth, diagnose
from ullage.observations import observe


def topics(finals):
    return [statement.topic for statement in diagnose(finals)]


def says(finals, topic):
    (statement,) = [one for one in diagnose(finals) if one.topic == topic]
    return statement.says


def runs(*skills, level=3, **more):
    return [
        record(f"{level}-{place}", level=level, skill=skill, **more) for place, skill in enumerate(skills)
    ]


def test_runs_of_one_level_that_disagree_are_the_edge_of_capacity():
    torn = [*runs(1.0, 1.0, level=3), *runs(1.0, 0.1, 0.0, level=5), *runs(0.0, 0.0, level=7)]

    assert says(torn, "At the edge of capacity").endswith("parity at level 5 (1 of 3 learned).")
    assert "Seeds agree" not in topics(torn)


def test_runs_that_agree_are_told_to_agree_and_one_run_a_level_says_nothing():
    agreeing = [*runs(1.0, 1.0, level=3), *runs(0.0, 0.0, level=5)]
    alone = [*runs(1.0, level=3), *runs(0.0, level=5)]

    assert "Seeds agree" in topics(agreeing)
    assert not {"Seeds agree", "At the edge of capacity"} & set(topics(alone))


def test_a_gap_between_trained_and_other_questions_is_memorising():
    by_heart = runs(0.1, 0.0, level=6, generalisation_gap=0.9)
    blind = runs(0.1, level=8, generalisation_gap=0.0)

    assert says([*by_heart, *blind], "Memorises without generalising").startswith("2 of 3 runs that failed")
    assert says([*by_heart, *blind], "Does not learn what it is trained on").startswith("1 of 3 runs")
    assert "Memorises without generalising" not in topics(runs(1.0, generalisation_gap=0.9))


@pytest.mark.parametrize(
    ("entropy_bits", "topic"), [(0.99, "Does not know, and knows it"), (0.01, "Sure and wrong"), (0.5, None)]
)
def test_entropy_tells_guessing_from_being_wrong(entropy_bits, topic):
    failed = runs(0.0, entropy_bits=entropy_bits, demand_answer_bits=1.0)
    told = {"Does not know, and knows it", "Sure and wrong"} & set(topics(failed))

    assert told == ({topic} if topic else set())


def test_late_generalisation_is_told_with_its_longest_wait():
    waited = [*runs(1.0, late_generalisation_steps=150), *runs(1.0, level=4, late_generalisation_steps=700)]

    assert "up to 700 steps later (median 425)" in says(waited, "Generalises late")


def test_who_solves_at_the_last_moment_needs_patience():
    late = runs(1.0, steps_to_solve=1900)

    assert says(late, "The boundary is one of patience").startswith("1 of 1 run that were solved")
    assert "The boundary is one of patience" not in topics(runs(1.0, steps_to_solve=100))


def test_a_hole_below_a_level_that_is_learned_is_told():
    holed = [
        one
        for level, skill in ((2, 1.0), (3, 0.0), (4, 0.0), (5, 1.0), (6, 0.0))
        for one in runs(skill, skill, skill, level=level)
    ]

    assert "parity fails below a level that it learns" in says(holed, "Not monotone")


def test_many_places_are_counted_and_not_listed():
    many = [one for level in range(3, 9) for one in runs(0.0, level=level)]

    assert "and 3 more places" in says(many, "Does not learn what it is trained on")


def deep_world(gain):
    """One layer and two, equal in all else: the second layer adds so many log2 bits."""
    one = dataclasses.replace(NANO, layers=1, model_id="transformer:layers=1")
    records = world(models=(one, NANO), d_ff=128)
    posterior = posterior_of(fitted(observe(records)).conditions)
    conditions = posterior.conditions
    own = np.zeros((400, len(conditions.models)))
    own[:, [model.layers for model in conditions.models].index(2)] = gain
    return records, dataclasses.replace(posterior, draws={**posterior.draws, "model": own})


@pytest.mark.parametrize(
    ("gain", "verdict"), [(1.0, "2 [2, 2] times the bits of 1"), (-1.0, "surely less"), (0.0, "surely")]
)
def test_models_that_differ_in_depth_alone_tell_whether_a_layer_helps(gain, verdict):
    statements = list(depth(*deep_world(gain)))

    assert [one.topic for one in statements] == ["Would another layer help?"]
    assert (verdict in statements[0].says) == (gain != 0.0)


def test_without_such_models_a_command_is_named_that_would_tell():
    records = world()
    (statement,) = depth(records, fitted(observe(records)))

    assert "cannot tell" in statement.says
    assert "--layers 3" in statement.next_step


def test_models_that_differ_in_more_than_depth_are_not_compared():
    one = dataclasses.replace(NANO, layers=1, d_model=16, model_id="transformer:layers=1")
    records = world(models=(one, NANO), d_ff=128)
    (statement,) = depth(records, fitted(observe(records)))

    assert "cannot tell" in statement.says


def test_no_runs_say_nothing():
    assert diagnose([]) == []
    assert list(depth([], None)) == []
