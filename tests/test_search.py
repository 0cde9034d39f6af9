"""A search tries what is given first, ends when nothing better can come, and never lets luck decide twice."""

import math

import pytest

from ullage.search import (
    BETTER,
    DOUBT,
    FEWEST_RIVALS,
    Result,
    Search,
    SearchPlan,
    loses,
    objective,
    optimism,
    rung_steps,
    standing,
    variance_shares,
)

HINT, DEFAULT, ELSEWHERE = ((("learning_rate", rate),) for rate in (0.001, 0.002, 0.003))


def proposed(trials, number):
    """What a proposer knows, as a point."""
    return (("proposed", (len(trials), number)),)


def reached(worth, *, solved=False):
    return Result(True, skill=worth, objective=worth, solved=solved, steps=100)


FAILED = Result(counts=False)


def lived(search, results):
    """Tell a search so many results, batch by batch; the batches that it asked for."""
    results, batches = list(results), []
    while results and (batch := search.batch(proposed)):
        batches.append(batch)
        for number, point in batch:
            search.tell(number, point, results.pop(0))
    return batches


def searched(*results, **plan):
    search = Search(SearchPlan(**{"trials": len(results), **plan}), [DEFAULT])
    lived(search, results)
    return search


# ── what is tried, and when ───────────────────────────────────────────────────────────────────────


def test_what_is_given_is_tried_in_its_order_and_before_what_is_proposed():
    search = Search(SearchPlan(trials=6), [HINT, DEFAULT, HINT])

    tried = [point for batch in lived(search, [reached(0.1)] * 6) for _, point in batch]

    assert tried[:2] == [HINT, DEFAULT]
    assert [dict(point)["proposed"] for point in tried[2:4]] == [(1, 2), (3, 3)]


def test_the_last_trials_try_a_leader_again():
    search = Search(SearchPlan(trials=5), [HINT, DEFAULT, ELSEWHERE])

    batches = lived(search, [reached(0.1), reached(0.9), *[reached(0.2)] * 3])

    assert batches[2:] == [[(3, DEFAULT), (4, DEFAULT)]]


def test_leaders_that_are_close_are_both_tried_again():
    search = Search(SearchPlan(trials=5), [HINT, DEFAULT, ELSEWHERE])

    batches = lived(search, [reached(0.5), reached(0.52), *[reached(0.1)] * 3])

    assert batches[2:] == [[(3, DEFAULT), (4, HINT)]]


def test_the_first_batch_is_one_trial_and_the_last_is_what_is_left():
    batches = lived(Search(SearchPlan(trials=6, width=3), [DEFAULT]), [reached(0.1)] * 6)

    assert [[number for number, _ in batch] for batch in batches] == [[0], [1, 2, 3], [4, 5]]


def test_more_is_not_tried_than_there_are_trials():
    search = Search(SearchPlan(trials=2), [HINT, DEFAULT, ELSEWHERE])

    assert [point for batch in lived(search, [reached(0.1)] * 9) for _, point in batch] == [HINT, DEFAULT]
    assert search.done


@pytest.mark.parametrize(
    ("ends_early", "tried"), [(True, 3), (False, 8)], ids=["a solved trial ends it", "all are made"]
)
def test_a_solved_trial_ends_a_search_that_may_end_early(ends_early, tried):
    search = Search(SearchPlan(8, ends_early=ends_early), [DEFAULT])

    lived(search, [reached(0.1), reached(0.2), reached(1.0, solved=True), *[reached(0.3)] * 20])

    assert len(search.trials) == tried
    assert search.done
    assert search.batch(proposed) == []


def test_a_search_without_a_solution_makes_all_its_trials():
    assert len(searched(*[reached(0.9)] * 20, trials=8).trials) == 8


# ── who wins ──────────────────────────────────────────────────────────────────────────────────────


def test_nothing_tried_has_no_winner():
    search = Search(SearchPlan(4), [DEFAULT])

    assert search.winner is None
    assert search.leading == -math.inf
    assert not search.solved


def test_of_recipes_with_one_trial_each_the_best_wins_by_however_little():
    search = searched(reached(0.5), reached(0.5 + BETTER / 100), reached(0.4), trials=4)

    assert search.winner == search.trials[1].point


@pytest.mark.parametrize(("luck", "wins"), [(0.83, False), (0.95, True)], ids=["hardly better", "far better"])
def test_one_lucky_seed_counts_less_than_two_that_agree(luck, wins):
    search = Search(SearchPlan(trials=4), [])
    for number, (point, worth) in enumerate([(HINT, 0.8), (DEFAULT, 0.2), (HINT, 0.8), (ELSEWHERE, luck)]):
        search.tell(number, point, reached(worth))

    assert (search.winner == ELSEWHERE) == wins


def test_what_a_recipe_was_worth_nearby_counts_with_what_it_is_worth_here():
    alone, advised = (Search(SearchPlan(trials=4), []) for _ in range(2))
    advised.elsewhere = lambda point: [0.4, 0.4] if point == HINT else []
    for search in (alone, advised):
        search.tell(0, HINT, reached(0.5))
        search.tell(1, DEFAULT, reached(0.55))

    assert (alone.winner, advised.winner) == (DEFAULT, HINT)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_failed_trial_never_wins_against_evidence(place):
    results = [FAILED, FAILED]
    results.insert(place, reached(-2.0))
    search = searched(*results, trials=5)

    assert [trial.result.counts for trial in search.trials].index(True) == place
    assert search.winner == search.trials[place].point


def test_a_failed_trial_does_not_end_a_search():
    search = searched(FAILED, FAILED, FAILED, trials=5)

    assert [number for number, _ in search.batch(proposed)] == [3, 4]


def test_a_recipe_given_after_the_end_is_one_trial_more():
    search = searched(reached(0.1), reached(0.2))

    answers = [search.give(ELSEWHERE), search.give(ELSEWHERE)]
    batches = lived(search, [reached(0.1)] * 5)

    assert answers == [True, False]
    assert batches == [[(2, ELSEWHERE)]]
    assert search.done


def test_a_recipe_that_was_tried_or_will_be_is_not_given_again():
    search = Search(SearchPlan(4), [DEFAULT, HINT])
    lived(search, [reached(0.1)])

    assert (search.give(DEFAULT), search.give(HINT)) == (False, False)


def test_a_recipe_given_before_the_end_takes_the_place_of_a_proposal():
    search = Search(SearchPlan(trials=5), [DEFAULT])
    lived(search, [reached(0.1)])
    search.give(ELSEWHERE)

    batches = lived(search, [reached(0.1)] * 9)

    assert [point for _, point in batches[0]] == [ELSEWHERE, (("proposed", (1, 2)),)]
    assert len(search.trials) == 5


@pytest.mark.parametrize(
    ("share", "replaced"), [(0.9, False), (1.1, True)], ids=["a lucky one", "a clearly better one"]
)
def test_a_later_recipe_replaces_the_winner_only_if_it_is_clearly_better(share, replaced):
    """One trial is worth 1 / (1 + DOUBT) of what it gains."""
    search = searched(reached(0.5), reached(0.6))
    search.give(ELSEWHERE)

    lived(search, [reached(0.6 + share * BETTER * (1 + DOUBT))])

    assert search.winner == (ELSEWHERE if replaced else search.trials[1].point)


# ── what a search raises ──────────────────────────────────────────────────────────────────────────


def test_skill_comes_before_the_gap_and_the_gap_before_the_steps():
    worth = [
        objective(1.0, 0.0, 100, 1000),
        objective(1.0, 0.0, 900, 1000),
        objective(1.0, 0.5, 100, 1000),
        objective(0.9, 0.0, None, 1000),
    ]

    assert worth == sorted(worth, reverse=True)
    assert len(set(worth)) == len(worth)


def test_a_model_that_does_better_on_what_is_new_gains_nothing_by_it():
    assert objective(0.5, -0.3, None, 10) == objective(0.5, None, None, 10) == objective(0.5, 0.0, None, 10)


# ── rungs ─────────────────────────────────────────────────────────────────────────────────────────


def test_rungs_lie_at_a_quarter_and_a_half_of_the_steps():
    assert rung_steps(SearchPlan(4), 4000) == (1000, 2000)
    assert rung_steps(SearchPlan(4), 30) == (8, 15)
    assert rung_steps(SearchPlan(4, uses_rungs=False), 4000) == ()


BEHIND, AMONG, AHEAD = standing(0.1, 0.9), standing(0.5, 0.9), standing(0.9, 0.9)


@pytest.mark.parametrize(
    ("rivals", "lost"),
    [
        ([], False),
        ([AHEAD] * (FEWEST_RIVALS - 1), False),
        ([AHEAD] * FEWEST_RIVALS, True),
        ([BEHIND, BEHIND, AHEAD], False),
        ([BEHIND, AHEAD, AHEAD], True),
        ([BEHIND, AMONG, AHEAD], True),
        ([BEHIND, BEHIND], False),
    ],
    ids=["none", "too few", "just enough", "most like it", "most ahead", "the last of all", "all like it"],
)
def test_a_trial_below_the_middle_of_enough_rivals_ends(rivals, lost):
    assert loses(BEHIND, rivals, train_skill=0.2) == lost
    assert loses(AHEAD, rivals, train_skill=0.2) is False


def test_where_none_has_skill_the_less_surprised_stay():
    rivals = [standing(0.0, surprise) for surprise in (0.9, 1.0, 1.1)]

    assert loses(standing(0.01, 1.05), rivals, train_skill=0.1)
    assert not loses(standing(0.01, 0.95), rivals, train_skill=0.1)
    assert loses(standing(0.0, None), rivals, train_skill=0.1)


def test_who_has_learned_by_heart_and_not_yet_generalised_stays():
    """Skill 0 on validation, far more surprised than its rivals: how late generalisation begins."""
    mine = standing(0.0, 9.0)

    assert loses(mine, [AHEAD, AHEAD, AHEAD], train_skill=0.94)
    assert not loses(mine, [AHEAD, AHEAD, AHEAD], train_skill=0.95)


# ── what a search says of itself ──────────────────────────────────────────────────────────────────


def test_optimism_is_what_winners_lose_on_fresh_seeds():
    searches = {5: searched(reached(1.0)), 6: searched(reached(0.2), reached(0.8)), 7: searched(reached(0.4))}

    assert optimism(searches, {5: [1.0, 0.8], 6: [0.5, 0.7]}) == pytest.approx((0.1 + 0.2) / 2)


def test_optimism_is_unknown_without_a_winner_and_its_finals():
    assert optimism({}, {}) is None
    assert optimism({5: searched(FAILED)}, {5: [0.5]}) is None
    assert optimism({5: searched(reached(0.5))}, {5: []}) is None


def test_variance_is_shared_among_recipe_seed_and_level():
    """Seeds: 0.02 at each level. Trials: 0.08, 0.06 beyond the seeds. Means 0.9 and 0.5: 0.08."""
    finals = {5: [1.0, 0.8], 6: [0.6, 0.4]}
    trials = {5: [1.0, 0.6], 6: [0.5, 0.1], 7: [0.3]}

    assert variance_shares(trials, finals) == pytest.approx(
        {"recipe": 0.06 / 0.16, "seed": 0.02 / 0.16, "level": 0.08 / 0.16}
    )


def test_recipes_that_differ_less_than_seeds_have_no_share():
    shares = variance_shares({5: [0.5, 0.5]}, {5: [1.0, 0.0], 6: [1.0, 0.0]})

    assert shares == {"recipe": 0.0, "seed": 1.0, "level": 0.0}


@pytest.mark.parametrize(
    ("trials", "finals"),
    [
        ({}, {5: [1.0, 0.5], 6: [0.5, 0.2]}),
        ({5: [1.0, 0.5]}, {5: [1.0], 6: [0.5]}),
        ({5: [1.0, 0.5]}, {5: [1.0, 0.5]}),
        ({5: [1.0, 1.0]}, {5: [1.0, 1.0], 6: [1.0, 1.0]}),
    ],
    ids=["no trials", "one seed a level", "one level", "nothing varies"],
)
def test_variance_is_not_shared_where_it_cannot_be_told(trials, finals):
    assert variance_shares(trials, finals) is None
