"""Predictions: known and new families and models, what strays from what was tried, and the evidence."""

import dataclasses

import numpy as np
import pytest
from hand_made import (
    CAPACITIES,
    NANO,
    PAPER,
    PREDICTION_KEYS,
    SMALL,
    offer,
    posterior_of,
    question,
    simulated,
)

from ullage.observations import Model
from ullage.prediction import Question, nearest_levels, place_of_model, predict


@pytest.fixture(scope="module")
def posterior():
    return posterior_of(simulated())


def width(interval):
    return interval.high - interval.low


# ── what is predicted ─────────────────────────────────────────────────────────────────────────────


def test_far_below_the_boundary_a_run_learns_and_far_above_it_does_not(posterior):
    easy = predict(posterior, question(log2_demand=1.0), offer())
    hard = predict(posterior, question(log2_demand=5.0), offer())

    assert easy.probability.low > 0.9
    assert easy.skill.low > 0.95
    assert hard.probability.high < 0.01
    assert hard.skill.high < 0.05


def test_an_interval_is_in_order_and_its_ends_are_probabilities(posterior):
    for log2_demand in np.linspace(0.0, 8.0, 9):
        for family in ("parity", "never seen", None):
            found = predict(posterior, question(family, log2_demand), offer())

            assert 0 <= found.probability.low <= found.probability.median <= found.probability.high <= 1
            assert 0 <= found.skill.low <= found.skill.median <= found.skill.high <= 1


def test_a_harder_level_is_never_more_likely_to_be_learned(posterior):
    for family in ("parity", "never seen"):
        asked = [question(family, log2_demand) for log2_demand in np.linspace(0.0, 8.0, 30)]
        found = [predict(posterior, one, offer()).probability.median for one in asked]

        assert found == sorted(found, reverse=True)


def test_a_new_family_is_predicted_with_a_wider_interval_than_a_known_one(posterior):
    middle = np.mean(list(CAPACITIES.values()))
    known = predict(posterior, question("modulo", middle), offer())
    new = predict(posterior, question("never seen", middle), offer())

    assert width(new.skill) > 2 * width(known.skill)


def test_a_new_family_is_the_more_uncertain_the_more_families_differ():
    conditions = simulated()
    alike, unlike = (posterior_of(conditions, family_spread=spread) for spread in (0.1, 2.0))
    asked = question("never seen", 4.0)

    assert width(predict(unlike, asked, offer()).skill) > 1.5 * width(predict(alike, asked, offer()).skill)


def test_a_larger_model_that_was_never_trained_follows_the_growth(posterior):
    asked = question("parity", 5.0)
    small, paper = predict(posterior, asked, offer(SMALL)), predict(posterior, asked, offer(PAPER))
    flat = predict(posterior_of(simulated(), growth=0.0), asked, offer(PAPER))

    assert paper.skill.median > 0.9
    assert small.skill.median < 0.5
    assert flat.skill.median < 0.5


def test_the_same_question_has_the_same_answer(posterior):
    asked = question("never seen", 4.0)

    assert predict(posterior, asked, offer(PAPER)) == predict(posterior, asked, offer(PAPER))


def test_seven_hundred_new_families_are_covered_as_often_as_promised(posterior):
    # The population behind `posterior`: difficulties one log2 bit wide around the mean of three families.
    # A mean of 700 coverages of 0.9 lies between 0.86 and 0.94 but for once in 2000.
    random = np.random.default_rng(0)
    centre = float(np.mean(list(CAPACITIES.values())))
    truths = centre + random.normal(0.0, np.sqrt(1 + 1 / 3), 700)
    demands = random.uniform(centre - 3, centre + 3, 700)
    found = [predict(posterior, question("new", demand), offer()).skill for demand in demands]
    skills = 1 / (1 + np.exp(-4.0 * (truths - demands)))
    inside = [one.low <= skill <= one.high for one, skill in zip(found, skills, strict=True)]

    assert 0.86 < np.mean(inside) < 0.94


# ── what strays ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("asked", "offered", "told"),
    [
        (question("parity", 3.0), offer(NANO), ()),
        (question("parity", 3.2), offer(SMALL), ()),
        (question("never seen", 3.0), offer(NANO), ("family",)),
        (question("parity", 7.0), offer(NANO), ("outside of the 2 to 32",)),
        (question("parity", 0.5), offer(NANO), ("outside",)),
        (question("parity", 3.0), offer(PAPER), ("bandwidth of 8192",)),
        (question("parity", 3.0), offer(dataclasses.replace(NANO, model_id="x", layers=6)), ("6 layers",)),
        (question("new", 9.0), offer(PAPER), ("family", "outside", "bandwidth")),
    ],
)
def test_what_lies_outside_of_what_was_tried_is_told(posterior, asked, offered, told):
    found = predict(posterior, asked, offered)

    assert found.extrapolating == bool(told)
    assert len(found.strays) == len(told)
    assert all(word in said for word, said in zip(told, found.strays, strict=True))


def test_a_family_whose_runs_were_all_left_out_is_a_new_one():
    conditions = simulated()
    place = conditions.families.index("parity")
    posterior = posterior_of(conditions.only(conditions.family != place))

    assert any("family" in said for said in predict(posterior, question("parity"), offer()).strays)


def test_a_model_of_a_foreign_table_is_known_by_its_numbers():
    theirs = Model("theirs", None, 2, 4, 8, None, 32)
    conditions = simulated(models=(theirs,))

    assert place_of_model(conditions, NANO) == 0
    assert place_of_model(conditions, SMALL) is None


def test_a_model_of_our_own_is_known_by_its_name_too():
    other = dataclasses.replace(NANO, model_id="transformer:heads=4,d_model=32,d_ff=0")

    assert place_of_model(simulated(), other) is None


# ── evidence and document ─────────────────────────────────────────────────────────────────────────


def test_the_evidence_is_the_nearest_levels_of_the_family(posterior):
    conditions = posterior.conditions
    rows = predict(posterior, question("parity", 3.1), offer()).evidence
    nano = conditions.models.index(NANO)
    here = (conditions.family == conditions.families.index("parity")) & (conditions.model == nano)

    assert [row["level"] for row in rows] == [2, 3, 4, 5]
    assert {row["task"] for row in rows} == {"parity"}
    assert rows[1]["skill"] == pytest.approx(conditions.skill[here & (conditions.level == 3)][0])
    assert [row["learned"] for row in rows] == [row["skill"] >= 0.95 for row in rows]


def test_a_new_family_is_shown_what_others_did_at_such_demands(posterior):
    rows = predict(posterior, question("never seen", 4.0), offer()).evidence

    assert len(rows) == 4
    assert len({row["task"] for row in rows}) > 1
    assert [row["demand_bits"] for row in rows] == sorted(row["demand_bits"] for row in rows)


@pytest.mark.parametrize(("log2_demand", "levels"), [(-9.0, [0, 1, 2, 3]), (99.0, [3, 4, 5, 6])])
def test_beyond_the_ends_the_evidence_is_the_end(log2_demand, levels):
    conditions = simulated()
    rows = nearest_levels(conditions, 0, 0, log2_demand)

    assert [row["level"] for row in rows] == levels


def test_the_document_has_the_promised_keys_and_no_other(posterior):
    document = predict(posterior, question(), offer(), "shipped").to_json()
    model = [
        "model_id",
        "architecture",
        "layers",
        "heads",
        "d_head",
        "d_model",
        "precision_bits",
        "parameters",
        "technique",
    ]

    assert list(document) == PREDICTION_KEYS
    assert list(document["model"]) == model
    assert list(document["probability"]) == ["median", "low", "high"]
    assert list(document["evidence"][0]) == ["task", "level", "demand_bits", "learned", "runs", "skill"]
    assert document["source"] == "shipped"


def test_the_budget_that_binds_is_that_of_the_largest_share():
    found = predict(
        posterior_of(simulated()),
        Question("parity", 3, "input", 8.0, {"input": 8.0, "storage": 3000.0}),
        offer(),
    )

    assert found.binding_budget == "storage"
