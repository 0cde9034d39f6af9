"""A proposal is a function of what was told before it: searches that are interrupted lose nothing."""

import json
import math
import statistics
import subprocess
import sys

import optuna
import pytest
from small_tasks import TINY, recipe

from ullage import recipe as recipes
from ullage.architecture import find
from ullage.recipe import Recipe
from ullage.search import Result, Trial
from ullage.space import EMBEDDINGS, RANDOM_TRIALS, WARMUP_SHARES, Space, _told, with_point

SPACE = Space.of(4000, embedding=True)
MODELLED = RANDOM_TRIALS + 4  # trials after which proposals come from a model of them

# Proposes from the trials that it is given in JSON, in a process of its own.
ELSEWHERE = """
import json, sys
from ullage.search import Result, Trial
from ullage.space import Space
study, level, number, told = json.loads(sys.stdin.read())
trials = [
    Trial(n, tuple((name, value) for name, value in point), Result(True, worth, worth))
    for n, point, worth in told
]
print(json.dumps(Space.of(4000, embedding=True).propose(study, level, trials, number)))
"""


def worth_of(point):
    """Best at a learning rate of 0.001, a scale of 1, batches of 128 and learned positions: there 0."""
    values = dict(point)
    rate = math.log(values["learning_rate"] / 1e-3) / math.log(33)
    scale = math.log(values["initial_scale"]) / math.log(6)
    return (
        -(rate**2)
        - scale**2
        - 0.2 * (values["batch_size"] != 128)
        - 0.2 * (values["positional"] != "learned")
    )


def trial(number, point):
    return Trial(number, point, Result(True, skill=worth_of(point), objective=worth_of(point)))


def lived(study, count, trials=()):
    """A search of so many trials, one after the other, from those that were made before."""
    trials = list(trials)
    while len(trials) < count:
        trials.append(trial(len(trials), SPACE.propose(study, 5, trials, len(trials))))
    return trials


def random_points(study, count):
    return [SPACE.propose(study, 5, [], number) for number in range(count)]


# ── a function of study, level, trials and number ─────────────────────────────────────────────────


@pytest.mark.parametrize("count", [0, MODELLED], ids=["random", "modelled"])
def test_a_fresh_process_proposes_the_same(count):
    trials = lived("study", count)
    told = [(one.number, one.point, one.result.objective) for one in trials]
    asked = json.dumps(["study", 5, count, told])
    answer = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], input=asked, capture_output=True, text=True, check=True
    )

    assert tuple(map(tuple, json.loads(answer.stdout))) == SPACE.propose("study", 5, trials, count)


@pytest.mark.parametrize("count", [0, MODELLED], ids=["random", "modelled"])
def test_proposals_do_not_depend_on_what_was_asked_before(count):
    trials = lived("study", count)
    ways = [("study", 5, 0), ("study", 5, 1), ("study", 6, 0), ("other", 5, 0)]
    forward = {way: SPACE.propose(*way[:2], trials, way[2]) for way in ways}
    backward = {way: SPACE.propose(*way[:2], trials, way[2]) for way in reversed(ways)}

    assert forward == backward
    assert len(set(forward.values())) == len(ways)


def test_trials_of_one_batch_differ():
    trials = lived("study", MODELLED)
    points = [SPACE.propose("study", 5, trials, MODELLED + place) for place in range(8)]

    assert len(set(points)) == 8


def test_what_is_told_changes_what_is_proposed():
    trials = lived("study", MODELLED)
    worse = [Trial(one.number, one.point, Result(True, objective=-one.result.objective)) for one in trials]

    assert SPACE.propose("study", 5, trials, 99) != SPACE.propose("study", 5, worse, 99)


def test_failed_trials_are_told_nothing_of():
    trials = lived("study", MODELLED)
    failed = [Trial(MODELLED + place, trials[place].point, Result(counts=False)) for place in range(4)]
    with_them, without = (
        [SPACE.propose("study", 5, told, number) for number in range(90, 98)]
        for told in ([*trials, *failed], trials)
    )

    assert with_them == without


# ── interruptions ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("after", [3, MODELLED])
def test_a_search_that_is_told_again_goes_on_with_new_points(after):
    whole = lived("study", MODELLED + 4)
    interrupted = lived("study", MODELLED + 4, lived("study", after))

    assert interrupted == whole
    assert len({one.point for one in whole}) == len(whole)


def test_a_sampler_that_is_seeded_once_repeats_itself_when_told_again():
    """The trap that proposals with a seed of their own avoid: Optuna alone offers its first point twice."""
    distributions = {name: one.distribution() for name, one in SPACE.dimensions.items()}

    def study_of(trials):
        sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=RANDOM_TRIALS)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        study.add_trials(trials)
        return study

    first = study_of([])
    for _ in range(3):
        asked = first.ask(distributions)
        first.tell(asked, worth_of(tuple(asked.params.items())))

    assert study_of(first.trials).ask(distributions).params == first.trials[0].params


# ── what is searched ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("embedding", [True, False])
def test_how_positions_are_told_is_searched_only_on_request(embedding):
    space = Space.of(4000, embedding=embedding)
    proposed = [dict(space.propose("study", 5, [], number)) for number in range(12)]

    assert {point.get("positional") for point in proposed} == (set(EMBEDDINGS) if embedding else {None})


def test_proposals_are_inside_the_space():
    points = random_points("study", 100)
    ends = {
        "learning_rate": (3e-4, 1e-2),
        "weight_decay": (1e-3, 1.0),
        "initial_scale": (0.25, 1.5),
    }

    for name, (low, high) in ends.items():
        found = [dict(point)[name] for point in points]
        # Fails once in 50 000 if all of the range is proposed, as a hundred uniform logarithms are.
        assert low <= min(found) < low * (high / low) ** 0.12
        assert low * (high / low) ** 0.88 < max(found) <= high
    assert {dict(point)["warmup_steps"] for point in points} == {round(4000 * part) for part in WARMUP_SHARES}


def test_every_proposal_makes_a_recipe():
    start = Recipe(find("nano", {}))
    made = [with_point(start, point) for point in random_points("study", 20)]

    assert [recipes.from_json(json.loads(json.dumps(one.to_json()))) for one in made] == made
    assert {one.architecture.positional for one in made} == set(EMBEDDINGS)


def test_points_outside_the_space_count_as_the_nearest_inside():
    inside = dict(SPACE.propose("study", 5, [], 0))
    outside = inside | {
        "learning_rate": 0.5,
        "weight_decay": 0.0,
        "batch_size": 1024,
        "warmup_steps": 500,
        "dropout": 0.04,
    }
    distributions = {name: one.distribution() for name, one in SPACE.dimensions.items()}
    told = _told(Trial(0, tuple(outside.items()), Result(True, objective=0.25)), distributions)

    assert told.params == inside | {
        "learning_rate": 1e-2,
        "weight_decay": 1e-3,
        "batch_size": 256,
        "warmup_steps": 400,
        "dropout": 0.05,
    }
    assert told.value == 0.25


def test_a_trial_outside_the_space_tells_something():
    trials = lived("study", MODELLED)
    outside = dict(trials[0].point) | {"learning_rate": 3.0, "batch_size": 7}
    point = tuple(sorted(outside.items()))
    more = [*trials, Trial(MODELLED, point, Result(True, objective=5.0))]

    assert SPACE.propose("study", 5, more, 99) != SPACE.propose("study", 5, trials, 99)


@pytest.mark.parametrize("embedding", [True, False])
@pytest.mark.parametrize(
    "one",
    [
        Recipe(find("nano", {})),
        recipe(learning_rate=0.7),
        recipe(architecture=TINY, batch_size=3, dropout=0.33),
    ],
    ids=["default", "outside", "tiny"],
)
def test_the_point_of_a_recipe_leads_back_to_it(one, embedding):
    space = Space.of(one.step_limit, embedding=embedding)

    assert with_point(one, space.point_of(one)) == one


def test_a_point_changes_its_knobs_and_no_other():
    start = recipe()
    moved = with_point(start, (("learning_rate", 0.5), ("positional", "learned")))
    before, after = start.to_json(), moved.to_json()

    assert (moved.learning_rate, moved.architecture.positional) == (0.5, "learned")
    assert {name for name in before if before[name] != after[name]} == {"learning_rate", "architecture"}


# ── whether it helps ──────────────────────────────────────────────────────────────────────────────


def test_proposals_come_closer_to_the_optimum_than_random_ones():
    """Trials 16 to 31 of four searches: 0.42 better than random ones, with a spread of 0.04.

    Half of that is asked for: fails once in 10⁷ if right. Seeded by the names of the studies.
    """
    studies = [f"study {number}" for number in range(4)]
    modelled = [one.result.objective for study in studies for one in lived(study, 32)[16:]]
    random = [worth_of(point) for study in studies for point in random_points(study, 32)[16:]]

    assert statistics.fmean(modelled) - statistics.fmean(random) > 0.2
