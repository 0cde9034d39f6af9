"""A plan says, before anything is trained, from what to what a measurement costs; it changes nothing."""

import dataclasses

import numpy as np
import pytest
from scripted_runs import Script, Scripted
from small_tasks import TINY

from ullage import present
from ullage.errors import BadInput
from ullage.output import rendered
from ullage.rehearsal import Known, draw_world
from ullage.request import default_workers, find_campaigns, find_effort, find_families, find_settings
from ullage.store import open_store
from ullage.study import Study, Watcher
from ullage.task import find
from ullage.verbs import plan as plans
from ullage.verbs.plan import (
    WORLDS,
    find_speed,
    known_of,
    matrix_flops_per_second,
    plan,
    rehearsed_in,
)

KNOBS = {"d_model": 8, "heads": 2, "d_ff": 16}
GRID = {"protocol": "grid", "levels": (5, 6, 8), "trials": 0, "seeds": 4}
ADAPTIVE = {"levels": (5, 6, 7, 8), "trials": 5}
STEPS = 2000  # of which scripted runs come to a checkpoint every fifty
RANGES = ("train_steps", "train_flops", "seconds_here")


@pytest.fixture(autouse=True)
def _speed(monkeypatch):
    """A machine whose speed is known: what is measured has a test of its own."""
    monkeypatch.setattr(plans, "matrix_flops_per_second", lambda: 1e9)


def planned(store, names=("parity",), **changed):
    return plan(list(names), knobs=KNOBS, steps=STEPS, store=store, **{"workers": 1, **changed})


def study_of(store, *, levels, trials, protocol="adaptive", seeds=None):
    effort = find_effort("quick", protocol, STEPS, trials, seeds)
    settings = find_settings(effort, protocol, "nano", KNOBS, levels, 0, search_embedding=False)
    opened = open_store(store)
    return Study(find_campaigns(find_families(["parity"]), settings, opened), opened)


def make(store, until=None, **asked):
    """Play the runs of a study, or those that end before an event."""
    try:
        study_of(store, **asked).run(Scripted(Script(), until=until), Watcher())
    except KeyboardInterrupt:
        assert until is not None


# ── where boundaries are expected ─────────────────────────────────────────────────────────────────


def campaign_of(task, store):
    settings = find_settings(
        find_effort("quick", "adaptive", STEPS, 0), "adaptive", "nano", KNOBS, (), 0, search_embedding=False
    )
    return find_campaigns(find_families([task]), settings, open_store(store))[0]


def test_a_family_that_others_have_run_is_expected_where_they_failed(tmp_path):
    store = open_store(tmp_path)
    for seed in range(2):
        effort = find_effort("quick", "grid", 1000, 0, 1)
        settings = find_settings(effort, "grid", "nano", KNOBS, (), seed, search_embedding=False)
        study = Study(find_campaigns(find_families(["copy"]), settings, store), store)
        study.run(Scripted(Script(log2_capacity=5.0, log2_noise=0.1)), Watcher())

    told = known_of(campaign_of("copy", tmp_path), list(store.read().records.values())).log2_capacities

    # Of five bits the default learning rate loses 1.8: the two easiest levels of 3 to 8 bits divide it.
    assert 3.0 <= np.quantile(told, 0.05) < np.quantile(told, 0.95) < 5.5


def test_the_models_most_like_ones_own_are_asked_and_its_own_alone_where_it_was_run(tmp_path):
    campaign = campaign_of("parity", tmp_path)
    widths = {8: 2.8, 16: 3.2, 32: 3.6, 64: 4.0}  # and the log2 capacity of each
    records = []
    for width, capacity in widths.items():
        settings = find_settings(
            find_effort("quick", "grid", 1000, 0, 2),
            "grid",
            "nano",
            {**KNOBS, "d_model": width},
            (),
            0,
            False,
        )
        store = open_store(tmp_path / str(width))
        study = Study(find_campaigns(find_families(["parity"]), settings, store), store)
        study.run(Scripted(Script(log2_capacity=capacity + 1.87, log2_noise=0.0)), Watcher())
        records += study.records.values()

    asked = [records, *([one for one in records if one.d_model > width] for width in (8, 32))]
    own, nearest, widest = (np.median(known_of(campaign, told).log2_capacities) for told in asked)

    assert own < nearest < widest


def test_what_comes_with_the_package_is_asked_where_the_store_is_silent(tmp_path):
    assert known_of(campaign_of("memorise", tmp_path), []).log2_capacities


def test_of_a_family_that_nobody_has_run_nothing_is_expected(tmp_path):
    assert known_of(campaign_of("memorise:length=3,symbols=30", tmp_path), []) == Known()


def test_worlds_lie_near_what_is_likely_and_anywhere_else():
    random = np.random.default_rng(0)

    near = [draw_world(random, 0.0, 10.0, Known((4.0, 4.2))).log2_capacity for _ in range(200)]
    anywhere = [draw_world(random, 0.0, 10.0).log2_capacity for _ in range(200)]

    # Standard deviations of 0.3 and 2.9; a sample's is off by a fifth or more once in ten thousand times.
    assert 0.24 < np.std(near) < 0.4
    assert np.std(anywhere) > 2.3


def test_runs_lapse_as_often_as_they_are_known_to():
    random = np.random.default_rng(0)

    assert {draw_world(random, 0.0, 10.0, Known((5.0,), (), 0.0)).lapse for _ in range(50)} == {0.0}
    assert {draw_world(random, 0.0, 10.0, Known((5.0,))).lapse for _ in range(50)} == {0.0, 0.1}


def test_a_run_that_learns_takes_as_long_as_runs_did_at_the_nearest_demand():
    paced = draw_world(np.random.default_rng(0), 0.0, 10.0, Known((5.0,), ((2.0, 0.1), (6.0, 0.4))))

    assert [paced.share_to_learn(place) for place in (1.0, 3.9, 4.1, 9.0)] == [0.1, 0.1, 0.4, 0.4]


def test_a_range_is_four_of_five_rehearsals_or_as_many_as_lie_within_a_factor_of_four():
    narrow, wide = plans._range(range(100, 201), 0.0, 0.0), plans._range(range(1, 102), 0.0, 0.0)

    assert (narrow["low"], narrow["high"]) == pytest.approx((110 / 1.1, 190 * 1.1))
    assert wide["low"] < 51 < wide["high"] < 4 * wide["low"]


# ── the range ─────────────────────────────────────────────────────────────────────────────────────


def test_the_runs_of_a_grid_are_told_exactly(tmp_path):
    found = planned(tmp_path / "store", **GRID)

    assert found["runs"] == {"search": {"low": 0, "high": 0}, "final": {"low": 12, "high": 12}}


def test_the_runs_of_a_searching_grid_are_told_exactly(tmp_path):
    found = planned(tmp_path / "store", names=("parity", "copy"), **{**GRID, "trials": 3})

    assert found["runs"]["final"] == {"low": 24, "high": 24}
    assert found["runs"]["search"] == {"low": 18, "high": 18}


def test_steps_are_between_none_and_all_of_those_runs(tmp_path):
    found = planned(tmp_path / "store", **GRID)

    assert 0.1 * 12 * STEPS <= found["train_steps"]["low"] <= found["train_steps"]["high"] <= 12 * STEPS


def test_flops_are_three_forward_passes_of_a_batch_at_every_step(tmp_path):
    found = planned(tmp_path / "store", **{**GRID, "levels": (6,)})
    forward = TINY.forward_flops(find("parity").at(6).interface)
    a_step = 3 * forward * 256

    assert found["train_flops"]["low"] == pytest.approx(found["train_steps"]["low"] * a_step, rel=0.02)
    assert found["train_flops"]["high"] == pytest.approx(found["train_steps"]["high"] * a_step, rel=0.02)


def test_four_of_five_rehearsals_cost_what_was_planned(tmp_path):
    """Thirty rehearsals that the plan did not see: 12 in its range; 24 ± 2.2 if right. Seeded."""
    found = planned(tmp_path, **ADAPTIVE)["train_steps"]
    campaigns = [course.campaign for course in study_of(tmp_path, **ADAPTIVE).courses]
    known = {"parity": known_of(campaigns[0], [])}
    others = [rehearsed_in(campaigns, WORLDS + number, known).train_steps for number in range(30)]

    assert sum(found["low"] <= steps <= found["high"] for steps in others) >= 12


@pytest.mark.parametrize("number", range(4))
def test_a_campaign_costs_about_what_was_planned(number, tmp_path):
    """A scripted model is none of the rehearsed worlds: up to three times outside the range is allowed."""
    found = planned(tmp_path / "plan", **ADAPTIVE)["train_steps"]
    study = study_of(tmp_path / "made", **ADAPTIVE)
    study.run(Scripted(Script(log2_capacity=4.0 + number / 4)), Watcher())
    steps = sum(record.train_steps for record in study.records.values())

    assert found["low"] / 3 <= steps <= 3 * found["high"]


def test_more_families_cost_more(tmp_path):
    one = planned(tmp_path / "store", **ADAPTIVE)
    two = planned(tmp_path / "store", names=("parity", "copy"), **ADAPTIVE)

    assert all(two[name][end] > one[name][end] for name in RANGES for end in ("low", "high"))


def test_a_plan_is_the_same_each_time(tmp_path):
    assert planned(tmp_path / "store", **ADAPTIVE) == planned(tmp_path / "store", **ADAPTIVE)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"workers": 0}, "workers=0 is out of range"),
        ({"effort": "huge"}, "there is no effort 'huge'"),
        ({"names": ("nothing",)}, "there is no task 'nothing'"),
    ],
)
def test_what_measure_refuses_a_plan_refuses(wrong, said, tmp_path):
    with pytest.raises(BadInput, match=said):
        planned(tmp_path / "store", **wrong)


# ── what is stored ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("asked", [GRID, ADAPTIVE], ids=["grid", "adaptive"])
def test_planning_trains_nothing_and_writes_nothing(asked, tmp_path, monkeypatch):
    def trains(*given):
        raise AssertionError("a plan has trained")

    monkeypatch.setattr("ullage.job.train", trains)
    found = planned(tmp_path / "store", **asked)

    assert found["already_stored"] == 0
    assert list(tmp_path.iterdir()) == []


def test_what_is_stored_is_taken_off(tmp_path):
    make(tmp_path, until=250, **GRID)
    stored = len(open_store(tmp_path).read().records)
    before, after = planned(tmp_path / "empty", **GRID), planned(tmp_path, **GRID)

    assert 0 < stored < 12
    assert after["already_stored"] == stored
    assert after["runs"]["final"] == {"low": 12 - stored, "high": 12 - stored}
    assert after["train_steps"]["high"] < before["train_steps"]["high"]


def test_a_study_that_is_not_complete_has_something_left(tmp_path):
    """However long it took already: the next runs are known."""
    make(tmp_path, until=200, **ADAPTIVE)
    left = planned(tmp_path, **ADAPTIVE)["runs"]

    assert left["search"]["low"] + left["final"]["low"] > 0


def test_runs_of_other_studies_are_not_of_this_one(tmp_path):
    make(tmp_path, **ADAPTIVE)

    assert planned(tmp_path, **{**ADAPTIVE, "seed": 1})["already_stored"] == 0


@pytest.mark.parametrize("asked", [GRID, ADAPTIVE], ids=["grid", "adaptive"])
def test_of_a_fully_stored_study_nothing_is_left(asked, tmp_path):
    make(tmp_path, **asked)
    found = planned(tmp_path, **asked)
    nothing = {"low": 0, "high": 0}
    stored = len(open_store(tmp_path).read().records)

    assert found["runs"] == {"search": nothing, "final": nothing}
    assert [found[name] for name in RANGES] == [nothing] * 3
    assert found["already_stored"] == stored > 0
    assert f"Nothing is left to do: {stored} runs of this study" in rendered(present.planned(found))


# ── time ──────────────────────────────────────────────────────────────────────────────────────────


def record_of(tmp_path, **changed):
    make(tmp_path / "one", until=100, **GRID)
    record = next(iter(open_store(tmp_path / "one").read().records.values()))
    return dataclasses.replace(record, **{"train_flops": 6e9, "seconds": 2.0, **changed})


def test_time_is_told_from_stored_runs_of_the_model(tmp_path):
    record = record_of(tmp_path)
    others = [dataclasses.replace(record, model_id="other", train_flops=1e15), record]
    slow = dataclasses.replace(record, train_flops=2e9)
    unknown = dataclasses.replace(record, train_flops=None)

    found = find_speed(record.model_id, [*others, slow, unknown], 1)

    done = plans.work(record.train_steps, 6e9) + plans.work(record.train_steps, 2e9)
    assert found == {"flops_per_second": pytest.approx(done / 4.0), "workers": 1, "stored_runs": 2}


def test_workers_share_the_work_as_far_as_there_are_cores(tmp_path, monkeypatch):
    monkeypatch.setattr(plans, "default_workers", lambda: 4)
    record = record_of(tmp_path)
    rates = [find_speed(record.model_id, [record], workers)["flops_per_second"] for workers in (1, 2, 4, 8)]

    one = plans.work(record.train_steps, 6e9) / 2.0
    assert rates == pytest.approx([one, 2 * one, 4 * one, 4 * one])


def test_without_runs_time_is_told_from_matrix_products(monkeypatch):
    """A machine of four cores makes 10⁹ FLOPs a second of them."""
    monkeypatch.setattr(plans, "default_workers", lambda: 4)

    assert find_speed("nano", [], 4) == {"flops_per_second": 1e9, "workers": 4, "stored_runs": 0}
    assert find_speed("nano", [], 1)["flops_per_second"] == pytest.approx(1e9 / 4)


def test_seconds_are_work_at_that_speed(tmp_path):
    found = planned(tmp_path / "store", **GRID)
    speed = 1e9 / default_workers()

    assert found["speed"]["flops_per_second"] == pytest.approx(speed)
    for end in ("low", "high"):  # all rehearsals of this grid agree
        done = plans.work(found["train_steps"][end], found["train_flops"][end])
        assert found["seconds_here"][end] == pytest.approx(done / speed)


def test_a_step_takes_its_time_whatever_it_multiplies():
    assert plans.work(10, 0.0) == 10 * plans.STEP_FLOPS
    assert plans.work(0, 1e9) > 1e9


def test_the_speed_of_matrix_products_is_that_of_a_machine():
    assert 1e8 < matrix_flops_per_second() < 1e15


# ── what is shown ─────────────────────────────────────────────────────────────────────────────────


def test_a_plan_is_shown_as_a_table_with_its_reasons(tmp_path):
    shown = rendered(present.planned(planned(tmp_path / "store", **GRID)))
    lines = [line.split() for line in shown.splitlines()]

    assert ["still", "to", "do", "from", "to"] in lines
    assert ["final", "runs", "12", "12"] in lines
    assert "effort quick*, grid protocol" in shown
    assert "the speed of matrix products here" in " ".join(shown.split())
    assert "0 runs of this study stored" in " ".join(shown.split())
