"""The runs that come with the package: evidence, of tasks as they are now, silent on where they were made."""

import collections
import json

from ullage import recipe as recipes
from ullage.budget import budgets_of
from ullage.job import describe_task
from ullage.record import identify
from ullage.shipped import FOLDER, shipped_records
from ullage.task import find

FAMILIES = {"modulo", "parity", "memorise", "copy", "induction"}


def test_every_run_is_evidence_of_one_effort_and_none_was_searched_for():
    runs = shipped_records()

    assert all(run.is_evidence for run in runs)
    assert {(run.step_limit, run.search_trials, run.train_examples) for run in runs} == {(2000, 0, 0)}


def test_every_run_is_one_of_the_task_as_it_is_now():
    """A task that has changed asks for other runs: those of its old version say nothing of it."""
    stale = [
        run.run_id
        for run in shipped_records()
        if identify(describe_task(find(run.task).at(run.level)), json.loads(run.recipe_json), run.seed)
        != run.run_id
    ]

    assert stale == []


def test_nothing_tells_where_they_were_made():
    assert {run.host for run in shipped_records()} == {""}
    assert {path.name for path in FOLDER.iterdir()} == {"runs.jsonl", "curves.jsonl", "ullage.json"}


def test_five_families_were_run_on_models_whose_budgets_differ():
    by_model = collections.defaultdict(set)
    for run in shipped_records():
        by_model[run.model_id].add(run.task)
    models = {
        run.model_id: recipes.from_json(json.loads(run.recipe_json)).architecture for run in shipped_records()
    }
    budgets = {name: budgets_of(model, find("parity").at(8).interface) for name, model in models.items()}

    assert set.union(*by_model.values()) == FAMILIES
    assert sum(len(tasks) >= 2 for tasks in by_model.values()) >= 6
    # Bandwidth and weights are not one budget under two names: equal in one, models differ in the other.
    assert len({one.bandwidth_bits for one in budgets.values()}) >= 4
    shared = collections.Counter(one.bandwidth_bits for one in budgets.values())
    assert shared.most_common(1)[0][1] >= 3
