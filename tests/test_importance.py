"""The importance of knobs: the one that decides is found, and a few trials say nothing."""

import json

import numpy as np
import pytest
from report_worlds import RECIPE, record

from ullage.importance import FEWEST_TRIALS, _merits, importances


def trials(count, decides, seed=0, **more):
    """Trials of a search whose skill follows from one knob alone."""
    random = np.random.default_rng(seed)
    made = []
    for number in range(count):
        knobs = {
            "learning_rate": 10 ** random.uniform(-4, -2),
            "dropout": float(random.choice([0.0, 0.05, 0.1])),
        }
        skill = {"learning_rate": 1 + np.log10(knobs["learning_rate"]) / 4, "dropout": 10 * knobs["dropout"]}
        text = json.dumps({**RECIPE, **knobs})
        made.append(
            record(f"{number}", skill=skill[decides], phase="search", recipe_json=text, study="one", **more)
        )
    return made


@pytest.mark.parametrize("decides", ["learning_rate", "dropout"])
def test_the_knob_that_decides_is_the_most_important(decides):
    rows = importances(trials(60, decides))

    assert max(rows, key=lambda row: row["share"])["knob"] == decides
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    assert {row["trials"] for row in rows} == {60}


def test_a_knob_that_was_not_varied_is_not_told_of():
    assert {row["knob"] for row in importances(trials(20, "dropout"))} == {"learning_rate", "dropout"}


def test_few_trials_finals_and_failures_say_nothing():
    few = trials(FEWEST_TRIALS - 1, "dropout")
    finals = [record(f"final {number}") for number in range(20)]
    failed = trials(20, "dropout", status="failed")

    assert importances([*few, *finals, *failed]) == []


def test_levels_are_compared_with_themselves_only():
    """Who was tried at an easy level only is no better for that."""
    easy = [record(f"easy {skill}", level=3, skill=skill, phase="search") for skill in (0.7, 0.8, 0.9)]
    hard = [record(f"hard {skill}", level=9, skill=skill, phase="search") for skill in (0.0, 0.1, 0.2)]

    assert _merits([*easy, *hard]) == pytest.approx([-0.1, 0.0, 0.1] * 2)
