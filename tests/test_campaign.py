"""A campaign: seeds that are never shared, levels between levels, and rungs that only the store remembers."""

import dataclasses
import itertools
import math

import pytest
from scripted_runs import Script
from small_tasks import TINY

from ullage import keys, registry
from ullage.campaign import GAP, Campaign, Planned, Rungs, Settings, between, ground_of, result_of, study_name
from ullage.job import Checkpoint, perform
from ullage.protocol import Effort, Wanted
from ullage.recipe import Recipe
from ullage.record import Phase, Status
from ullage.search import SearchPlan, standing
from ullage.task import find

EFFORT = Effort("test", 40, 8, 2, width=1.0, fewest_finals=6, most_finals=12)
SETTINGS = Settings(Recipe(TINY, step_limit=40, evaluate_every=4, warmup_steps=0), EFFORT)
PARITY = find("parity")
POINTS = [(("learning_rate", rate),) for rate in (1e-3, 2e-3)]
ALWAYS = lambda checkpoint: True  # noqa: E731 - a watcher that never stops


def campaign_of(family=PARITY, **changed):
    return Campaign(family, dataclasses.replace(SETTINGS, **changed))


def seeds_of(campaign, phase, levels=(5, 6, 7), numbers=range(10), points=POINTS, rounds=(1, 2)):
    return {
        (level, number): {
            campaign.job(Wanted(level, phase, number, point, round_)).seed
            for point in points
            for round_ in rounds
        }
        for level in levels
        for number in numbers
    }


# ── seeds ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_search_and_a_verdict_never_share_a_seed():
    campaign = campaign_of()
    searches, finals = (
        set.union(*seeds_of(campaign, phase, levels=(5, 6, 7, 8, 9, 10), numbers=range(50)).values())
        for phase in Phase
    )

    assert len(searches) == 6 * 50
    assert len(finals) == 50
    assert searches & finals == set()


def test_the_finals_of_one_number_share_their_seed_at_every_level_and_in_every_family():
    here = seeds_of(campaign_of(), Phase.FINAL)
    there = seeds_of(campaign_of(find("copy")), Phase.FINAL)

    assert [here[level, 3] for level in (5, 6, 7)] == [here[5, 3]] * 3
    assert len(here[5, 3]) == 1
    assert here == there


def test_a_trial_shares_its_seed_with_no_other_level_number_or_study():
    campaigns = [campaign_of(), campaign_of(find("copy")), campaign_of(seed=1), campaign_of(protocol="grid")]
    found = [seeds for campaign in campaigns for seeds in seeds_of(campaign, Phase.SEARCH).values()]

    assert len(set.union(*found)) == len(found) == 4 * 30


def test_another_seed_is_another_campaign():
    one, other = (seeds_of(campaign_of(seed=seed), Phase.FINAL) for seed in (0, 1))

    assert set.union(*one.values()) & set.union(*other.values()) == set()


def test_a_job_tells_its_phase_its_round_and_its_study():
    campaign = campaign_of()
    made = campaign.job(Wanted(6, Phase.FINAL, 3, POINTS[1], 2))

    assert (made.phase, made.recipe_round, made.study) == ("final", 2, campaign.study)
    assert (made.task["level"], made.search_trials, made.recipe["learning_rate"]) == (6, 8, 2e-3)
    assert made.recipe == {**SETTINGS.recipe.to_json(), "learning_rate": 2e-3}


# ── the name of a study ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"protocol": "grid"},
        {"levels": (5, 6)},
        {"effort": dataclasses.replace(EFFORT, trials=9)},
        {"recipe": dataclasses.replace(SETTINGS.recipe, learning_rate=1e-4)},
        {"search_embedding": True},
    ],
    ids=["seed", "protocol", "levels", "effort", "recipe", "embedding"],
)
def test_whatever_decides_what_is_searched_is_in_the_name(changed):
    changed_settings = dataclasses.replace(SETTINGS, **changed)

    assert study_name(PARITY, changed_settings) != study_name(PARITY, SETTINGS)


def test_the_order_in_which_levels_are_given_decides_nothing():
    one, other = (dataclasses.replace(SETTINGS, levels=levels) for levels in ((5, 6, 9), (9, 6, 5, 6)))

    assert study_name(PARITY, one) == study_name(PARITY, other)
    assert ground_of(PARITY, one) == ground_of(PARITY, other)


# ── levels between levels ─────────────────────────────────────────────────────────────────────────


def log2_demand(family, level):
    return math.log2(family.at(level).demand("nominal"))


@pytest.mark.parametrize("name", registry.names("task"))
def test_levels_lie_about_a_quarter_of_a_bit_apart_where_there_are_so_many(name):
    family = find(name)
    found = between(family, family.levels)
    steps = {
        (low, high): log2_demand(family, high) - log2_demand(family, low)
        for low, high in itertools.pairwise(found)
    }
    wide = [pair for pair, step in steps.items() if step > 1.5 * GAP]
    narrow = [pair for pair, step in steps.items() if step < GAP / 2]

    assert set(family.levels) <= set(found)
    assert [level for pair in wide for level in range(pair[0] + 1, pair[1]) if family.at(level).is_kin] == []
    assert [pair for pair in narrow if not {*pair} <= {*family.levels}] == []


def test_where_every_level_is_allowed_steps_are_a_quarter_of_a_bit():
    family = find("memorise")
    demands = [log2_demand(family, level) for level in between(family, family.levels)]

    assert [high - low for low, high in itertools.pairwise(demands)] == pytest.approx(
        [GAP] * (len(demands) - 1), abs=0.01
    )


@pytest.mark.parametrize("base", [7, 10, 216])
def test_between_moduli_there_are_primes_that_do_not_divide_the_base(base):
    family = find(f"modulo:base={base},digits=6") if base < 216 else find("modulo")
    added = set(between(family, family.levels)) - {*family.levels}

    assert added
    assert [level for level in added if any(level % divisor == 0 for divisor in range(2, level))] == []
    assert [level for level in added if base % level == 0] == []


def test_seven_lies_between_five_and_eleven_unless_it_divides_the_base():
    here, there = find("modulo"), find("modulo:base=7,digits=6")

    assert 7 in between(here, here.levels)
    assert 7 not in between(there, there.levels)


def test_levels_that_are_given_stay_alone():
    given = dataclasses.replace(SETTINGS, levels=(20, 5))
    ground = ground_of(PARITY, given)

    assert ground.levels == ground.candidates == (5, 20)


def test_a_grid_has_the_levels_of_the_family_and_no_other():
    family = find("copy")
    ground = ground_of(family, dataclasses.replace(SETTINGS, protocol="grid"))

    assert ground.levels == ground.candidates == family.levels
    assert len(ground_of(family, SETTINGS).candidates) > len(family.levels)


def test_the_ground_knows_demands_and_prices_of_all_candidates():
    ground = ground_of(find("copy"), SETTINGS)
    prices = [ground.step_cost[level] for level in ground.candidates]

    assert ground.demand_bits[8] == find("copy").at(8).demand("nominal")
    assert ground.step_cost[8] == TINY.forward_flops(find("copy").at(8).interface)
    assert prices == sorted(prices)


# ── rungs ─────────────────────────────────────────────────────────────────────────────────────────


def checkpoint(step, known, skill, surprise=None):
    """The scores of parity: its floor is one half."""
    validation = {"score": 0.5 + skill / 2} | ({} if surprise is None else {"cross_entropy_bits": surprise})
    return Checkpoint(step, {"train": {"score": 0.5 + known / 2}, "validation": validation})


def curve(known, skill):
    """Ten checkpoints of a run of forty steps; two functions of the share of them that is done."""
    return [checkpoint(step, known(step / 40), skill(step / 40)) for step in range(4, 41, 4)]


SLOW = curve(lambda done: 0.1 * done, lambda done: 0.1 * done)
STEADY = curve(lambda done: 0.8 * done, lambda done: 0.8 * done)
QUICK = curve(lambda done: done, lambda done: done)
LATE = curve(lambda done: 1.0 if done > 0.2 else 0.5, lambda done: 1.0 if done > 0.75 else 0.0)


def lived(campaign, planned, checkpoints, status=Status.FINISHED):
    """Play a run; the checkpoints that it came to, and the record that it leaves."""
    seen = []
    for one in checkpoints:
        seen.append(one)
        if not campaign.goes_on(planned, one):
            status = Status.PRUNED
            break
    return seen, ended(planned, seen, status)


def ended(planned, checkpoints, status):
    """What is stored of a run with these checkpoints."""
    play = Script().play(planned.job)
    next(play)
    while True:
        try:
            play.send(True)
        except StopIteration as end:
            score = checkpoints[-1].scores["validation"]["score"]
            return dataclasses.replace(
                end.value[0], status=str(status), score=score, train_steps=checkpoints[-1].step
            )


def trials_of(campaign, level=6, count=4):
    return [
        Planned("parity", campaign.job(wanted), wanted)
        for wanted in (Wanted(level, Phase.SEARCH, number, POINTS[0]) for number in range(count))
    ]


@pytest.fixture
def rivalled(monkeypatch):
    """A campaign that was told of two quick trials at level 6, and the trials that come next."""
    campaign = campaign_of()
    monkeypatch.setattr(campaign.protocol, "tell", lambda wanted, result: None)
    first, second, *others = trials_of(campaign)
    for planned in (first, second):
        campaign.tell(planned, lived(campaign, planned, QUICK)[1])
    return campaign, others


@pytest.mark.parametrize(
    ("checkpoints", "stops_at"),
    [(SLOW, 12), (QUICK, 40), (LATE, 40)],
    ids=["far behind", "as good as they", "learned by heart, generalises late"],
)
def test_a_trial_below_the_middle_is_stopped_unless_it_has_learned_by_heart(rivalled, checkpoints, stops_at):
    campaign, (planned, _) = rivalled

    seen, record = lived(campaign, planned, checkpoints)

    assert seen[-1].step == stops_at
    assert (record.status == Status.PRUNED) == (stops_at < 40)


def test_the_late_one_stood_behind_its_rivals_at_every_rung(rivalled):
    """So that the test above shows that it was spared, not that it was ahead."""
    campaign, (planned, _) = rivalled
    forgetful = [dataclasses.replace(one, scores=one.scores | {"train": {"score": 0.5}}) for one in LATE]

    assert lived(campaign, planned, forgetful)[0][-1].step == 12


def test_a_trial_is_compared_once_at_a_rung(rivalled):
    """At step 12 it stands with its rivals, and it does no better until step 20, the next rung."""
    campaign, (planned, _) = rivalled
    resting = curve(lambda done: 0.0, lambda done: 0.4)

    assert lived(campaign, planned, resting)[0][-1].step == 20


def test_a_final_run_is_never_stopped(rivalled):
    campaign, _ = rivalled
    wanted = Wanted(6, Phase.FINAL, 0, POINTS[0])
    planned = Planned("parity", campaign.job(wanted), wanted)

    assert lived(campaign, planned, SLOW)[0] == SLOW


def test_a_trial_has_no_rivals_at_another_level(rivalled):
    campaign, _ = rivalled

    assert lived(campaign, trials_of(campaign, level=7)[0], SLOW)[0] == SLOW


def test_a_grid_stops_no_trial():
    campaign = campaign_of(protocol="grid")

    assert campaign.rungs.steps == ()


def test_trials_of_one_batch_are_no_rivals_of_each_other():
    campaign = campaign_of()
    first, second, third, _ = trials_of(campaign)
    for planned in (first, second):
        lived(campaign, planned, QUICK)

    assert lived(campaign, third, SLOW)[0] == SLOW


@pytest.mark.parametrize("status", [Status.FAILED, Status.OUT_OF_MEMORY, Status.OUT_OF_TIME])
def test_a_run_that_failed_half_way_is_no_rival(monkeypatch, status):
    """It leaves no curve, so that after an interruption nobody would know how it stood."""
    campaign = campaign_of()
    monkeypatch.setattr(campaign.protocol, "tell", lambda wanted, result: None)
    first, second, planned, _ = trials_of(campaign)
    for failed in (first, second):
        seen, _ = lived(campaign, failed, QUICK[:6])
        campaign.tell(failed, ended(failed, seen, status))

    assert lived(campaign, planned, SLOW)[0] == SLOW


def test_trials_of_real_trainings_are_stopped_or_spared(monkeypatch):
    """Eight strings are learned by heart in forty steps; a model that hardly moves learns nothing."""
    made = dataclasses.replace(SETTINGS.recipe, batch_size=16, learning_rate=0.03, train_examples=8)
    campaign = campaign_of(PARITY, recipe=dataclasses.replace(made, step_limit=200, evaluate_every=25))
    monkeypatch.setattr(campaign.protocol, "tell", lambda wanted, result: None)
    first, second, by_heart, idle = (
        Planned("parity", dataclasses.replace(campaign.job(wanted), recipe=recipe), wanted)
        for wanted, recipe in (
            (Wanted(9, Phase.SEARCH, number, POINTS[0]), {**campaign.settings.recipe.to_json(), **knobs})
            for number, knobs in enumerate([{}, {}, {}, {"learning_rate": 1e-6}])
        )
    )
    for planned in (first, second):
        ahead = [checkpoint(step, 0.9, 0.9) for step in range(25, 201, 25)]
        campaign.tell(planned, lived(campaign, planned, ahead)[1])

    spared, curve = perform(by_heart.job, lambda one: campaign.goes_on(by_heart, one))
    stopped, _ = perform(idle.job, lambda one: campaign.goes_on(idle, one))
    skills = {(row.step, row.split): 2 * row.value - 1 for row in curve if row.metric == "score"}

    assert (stopped.status, stopped.train_steps) == (Status.PRUNED, 50)
    assert (spared.status, spared.train_steps) == (Status.FINISHED, 200)
    assert (skills[50, "train"], skills[100, "train"]) == (1.0, 1.0)
    assert max(skills[50, "validation"], skills[100, "validation"]) < 0.4


# ── interruptions ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("last", [SLOW, STEADY, LATE, QUICK], ids=["slow", "steady", "late", "quick"])
@pytest.mark.parametrize("before", [[QUICK, SLOW, STEADY], [STEADY, QUICK], [SLOW, LATE], [QUICK]])
def test_what_is_recalled_from_curves_decides_as_what_was_lived_through(before, last, monkeypatch):
    found = []
    for recalls in (False, True):
        campaign = campaign_of()
        monkeypatch.setattr(campaign.protocol, "tell", lambda wanted, result: None)
        *others, planned = trials_of(campaign, count=len(before) + 1)
        lives = [
            lived(campaign_of() if recalls else campaign, *pair) for pair in zip(others, before, strict=True)
        ]
        for other, (seen, record) in zip(others, lives, strict=True):
            if recalls:
                campaign.recall(other, seen)
            campaign.tell(other, record)
        found.append([campaign.goes_on(planned, one) for one in last])

    assert found[0] == found[1]


def test_without_its_curve_a_stored_trial_is_no_rival(monkeypatch):
    """The contrast: what the test above compares does depend on what is recalled."""
    campaign = campaign_of()
    monkeypatch.setattr(campaign.protocol, "tell", lambda wanted, result: None)
    first, second, planned, _ = trials_of(campaign)
    for other in (first, second):
        campaign.tell(other, ended(other, QUICK, Status.FINISHED))

    assert all(campaign.goes_on(planned, one) for one in SLOW)


def test_a_checkpoint_beyond_two_rungs_counts_at_the_second():
    rungs = Rungs(SearchPlan(4), 40)

    assert rungs.note("run", 4, standing(0.1, None)) is None
    assert rungs.note("run", 24, standing(0.2, None)) == 20
    assert rungs.note("run", 28, standing(0.3, None)) is None


# ── what a protocol is told ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("phase", "status", "counts"),
    [
        (Phase.SEARCH, Status.FINISHED, True),
        (Phase.SEARCH, Status.DIVERGED, True),
        (Phase.SEARCH, Status.PRUNED, True),
        (Phase.SEARCH, Status.OUT_OF_TIME, False),
        (Phase.SEARCH, Status.OUT_OF_MEMORY, False),
        (Phase.SEARCH, Status.FAILED, False),
        (Phase.FINAL, Status.FINISHED, True),
        (Phase.FINAL, Status.DIVERGED, True),
        (Phase.FINAL, Status.PRUNED, False),
        (Phase.FINAL, Status.FAILED, False),
    ],
)
def test_what_counts_is_what_ended_as_runs_should(phase, status, counts):
    wanted = Wanted(6, phase, 0, POINTS[0])
    record = ended(Planned("parity", campaign_of().job(wanted), wanted), QUICK, status)

    assert result_of(record).counts == counts
    assert math.isfinite(result_of(record).objective) == counts


def test_a_result_is_the_skill_the_steps_and_the_objective_of_a_record():
    wanted = Wanted(6, Phase.SEARCH, 0, POINTS[0])
    record = ended(Planned("parity", campaign_of().job(wanted), wanted), QUICK, Status.FINISHED)
    solved = dataclasses.replace(record, score=1.0, generalisation_gap=0.2, steps_to_solve=20, train_steps=24)
    found = result_of(solved)

    assert (found.skill, found.solved, found.steps) == (1.0, True, 24)
    assert found.objective == pytest.approx(1.0 - 0.05 * 0.2 - 0.01 * 0.5)


def test_seeds_are_those_of_the_records_purpose():
    """A stored campaign is found again: the text that a seed is made from is fixed for good."""
    assert campaign_of().job(Wanted(6, Phase.FINAL, 3, POINTS[0])).seed == keys.stable_hash("final/0/3")
