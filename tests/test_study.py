"""A study makes the same runs whoever makes them, in whatever order, and however often it is stopped."""

import dataclasses
import functools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from scripted_runs import BEST_RATE, Script, Scripted
from small_tasks import TINY

from ullage import study as studies
from ullage.campaign import Campaign, Planned, Settings
from ullage.errors import BadInput
from ullage.job import Job, describe_task
from ullage.protocol import PROTOCOLS, Effort, Protocol
from ullage.recipe import Recipe
from ullage.record import Phase, Status
from ullage.search import Search
from ullage.stores.memory import MemoryStore
from ullage.study import Listed, Study, Watcher
from ullage.task import find

EFFORT = Effort("test", 40, 8, 2, width=1.0, fewest_finals=6, most_finals=12)
RECIPE = Recipe(TINY, step_limit=40, evaluate_every=4, warmup_steps=0)
SCRIPT = Script(log2_capacity=3.6, failing=0.1)
BOTH_PROTOCOLS = pytest.mark.parametrize("protocol", ["adaptive", "grid"])


FAMILIES = {"adaptive": ("parity", "copy"), "grid": ("copy",)}


def campaigns_of(protocol="adaptive"):
    return [Campaign(find(name), Settings(RECIPE, EFFORT, protocol, seed=1)) for name in FAMILIES[protocol]]


def study_of(store, protocol="adaptive", *, retry_failed=False):
    return Study(campaigns_of(protocol), store, retry_failed=retry_failed)


def made(protocol="adaptive", script=SCRIPT, **executor):
    """A store in which a study was made from its beginning to its end."""
    store = MemoryStore()
    study_of(store, protocol).run(Scripted(script, **executor), Watcher())
    return store


@functools.cache
def whole(protocol="adaptive"):
    """The store of a study that one worker made, to be compared with: nothing is added to it."""
    return made(protocol)


def listed(count, **fields):
    """Campaigns of one run each."""
    runs = [
        Job(describe_task(find("parity").at(6)), RECIPE.to_json(), seed, **fields) for seed in range(count)
    ]
    return [Listed([Planned("parity", job)]) for job in runs]


def in_order(store):
    return list(store.read().records.values())


def by_identity(store):
    return {run_id: (record, *rows_of(store, run_id)) for run_id, record in store.read().records.items()}


def rows_of(store, run_id):
    return [row for row in store.curves() if row.run_id == run_id]


# ── the same runs ─────────────────────────────────────────────────────────────────────────────────


@BOTH_PROTOCOLS
@pytest.mark.parametrize(("lanes", "seed"), [(1, 1), (2, 0), (2, 1), (5, 0), (5, 1)])
def test_the_runs_are_the_same_with_any_number_of_workers_in_any_order(protocol, lanes, seed):
    together = made(protocol, lanes=lanes, seed=seed)

    assert by_identity(together) == by_identity(whole(protocol))


def test_what_is_compared_has_stopped_and_failed_and_judged():
    """Else the tests of sameness would show less than they say."""
    records = in_order(whole())
    finals = [record.task for record in records if record.phase == Phase.FINAL]

    assert {Status.FINISHED, Status.PRUNED, Status.FAILED} == {record.status for record in records}
    assert min(finals.count("parity"), finals.count("copy")) > 4


def test_workers_end_their_runs_in_another_order():
    orders = [[record.run_id for record in in_order(made(lanes=5, seed=seed))] for seed in (0, 1)]

    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


@BOTH_PROTOCOLS
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_worker_interrupted_ten_times_stores_the_same_runs_in_the_same_order(protocol, seed):
    store = MemoryStore()
    random = np.random.default_rng(seed)
    interrupted = 0
    for _ in range(10):
        try:
            study_of(store, protocol).run(Scripted(SCRIPT, until=int(random.integers(80))), Watcher())
        except KeyboardInterrupt:
            interrupted += 1
    study_of(store, protocol).run(Scripted(SCRIPT), Watcher())

    assert interrupted == 10
    assert in_order(store) == in_order(whole(protocol))
    assert list(store.curves()) == list(whole(protocol).curves())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_three_workers_interrupted_ten_times_store_the_same_runs(seed):
    store = MemoryStore()
    random = np.random.default_rng(seed)
    for number in range(10):
        until = int(random.integers(100))
        with pytest.raises(KeyboardInterrupt):
            study_of(store).run(Scripted(SCRIPT, 3, seed=number, until=until), Watcher())
    study_of(store).run(Scripted(SCRIPT, lanes=3), Watcher())

    assert by_identity(store) == by_identity(whole())


class Scribe(Listed):
    """Three batches of four runs; writes down what it is told."""

    def __init__(self):
        jobs = [campaign.batch()[0].job for campaign in listed(12)]
        self.batches = [[Planned("parity", job) for job in jobs[start : start + 4]] for start in (0, 4, 8)]
        self.left, self.told = list(self.batches), []

    def batch(self):
        assert len(self.told) % 4 == 0
        return self.left.pop(0) if self.left else []

    def tell(self, planned, record):
        assert record.run_id == planned.job.run_id
        self.told.append(planned)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_batch_is_told_in_its_own_order_when_all_of_it_has_ended(seed):
    scribe, store = Scribe(), MemoryStore()
    Study([scribe], store).run(Scripted(SCRIPT, lanes=4, seed=seed), Watcher())
    asked = [planned for batch in scribe.batches for planned in batch]

    assert scribe.told == asked
    assert [record.run_id for record in in_order(store)] != [planned.job.run_id for planned in asked]


@BOTH_PROTOCOLS
def test_a_study_that_is_stored_makes_nothing_and_needs_no_lock(protocol):
    store, executor = whole(protocol), Scripted(SCRIPT)

    with store:  # another driver
        again = study_of(store, protocol)
        again.run(executor, Watcher())

    assert (executor.jobs, again.new_runs, again.complete) == ([], 0, True)
    assert set(again.records) == set(store.read().records)


def test_a_store_that_is_held_by_another_is_refused_before_any_run():
    store, executor = MemoryStore(), Scripted(SCRIPT)

    with store, pytest.raises(BadInput, match="has a driver already"):
        study_of(store).run(executor, Watcher())

    assert executor.jobs == []


# ── failed runs ───────────────────────────────────────────────────────────────────────────────────


def failed_of(store):
    return {record.run_id for record in in_order(store) if record.status == Status.FAILED}


def test_failed_runs_are_made_again_only_on_request():
    store, executor = whole(), Scripted(SCRIPT)
    study_of(store).run(executor, Watcher())

    assert failed_of(store)
    assert executor.jobs == []


def test_retrying_makes_failed_runs_again_and_only_these():
    store, executor = MemoryStore(), Scripted(SCRIPT)
    Study(listed(40), store).run(Scripted(SCRIPT), Watcher())
    failed = failed_of(store)
    again = Study(listed(40), store, retry_failed=True)
    again.run(executor, Watcher())

    assert 0 < len(failed) < 40
    assert {job.run_id for job in executor.jobs} == failed
    assert [job.attempt for job in executor.jobs] == [2] * len(failed)
    assert [again.records[run_id].attempt for run_id in failed] == [2] * len(failed)
    assert failed_of(store) == set()


def test_retrying_makes_what_is_missing_too():
    store, executor = MemoryStore(), Scripted(SCRIPT)
    Study(listed(30), store).run(Scripted(SCRIPT), Watcher())
    failed = failed_of(store)
    Study(listed(40), store, retry_failed=True).run(executor, Watcher())
    missing = {job.run_id for job in executor.jobs} - failed

    assert (len(missing), len(executor.jobs)) == (10, 10 + len(failed))
    assert {job.attempt for job in executor.jobs if job.run_id in missing} == {1}


def test_what_fails_again_is_left_alone_until_the_next_request():
    hopeless = dataclasses.replace(SCRIPT, mends=False)
    store, attempts = MemoryStore(), []
    for _ in range(3):
        executor = Scripted(hopeless)
        Study(listed(30), store, retry_failed=True).run(executor, Watcher())
        attempts.append([job.attempt for job in executor.jobs])

    failed = len(failed_of(store))
    assert attempts == [[1] * 30, [2] * failed, [3] * failed]
    assert failed > 0


@BOTH_PROTOCOLS
def test_a_campaign_goes_on_from_what_came_of_the_second_attempt(protocol):
    """What a mended run tells may lead elsewhere; no run that is evidence is made again."""
    store, executor = made(protocol), Scripted(SCRIPT)
    before = store.read().records
    failed = failed_of(store)
    again = study_of(store, protocol, retry_failed=True)
    again.run(executor, Watcher())
    remade = {job.run_id for job in executor.jobs if job.run_id in before}

    assert again.complete
    assert remade
    assert remade <= failed
    assert {again.records[run_id].attempt for run_id in remade} == {2}
    assert len({job.run_id for job in executor.jobs}) == len(executor.jobs)


# ── time ──────────────────────────────────────────────────────────────────────────────────────────


class Clock:
    """A clock that goes on by a minute whenever a run begins."""

    def __init__(self, monkeypatch):
        self.minutes = 0
        monkeypatch.setattr(studies, "time", SimpleNamespace(monotonic=lambda: 60.0 * self.minutes))

    def tick(self, planned):
        del planned
        self.minutes += 1


@pytest.mark.parametrize("lanes", [1, 2])
def test_minutes_cut_cleanly_and_a_later_call_completes(lanes, monkeypatch):
    clock, store = Clock(monkeypatch), MemoryStore()
    first, second = Scripted(SCRIPT, lanes), Scripted(SCRIPT, lanes)
    cut = study_of(store)
    cut.run(first, Watcher(started=clock.tick), minutes=7)
    kept = in_order(store)
    rest = study_of(store)
    rest.run(second, Watcher())

    assert not cut.complete
    assert 7 <= len(first.jobs) <= 7 + lanes - 1
    assert {record.run_id for record in kept} == {job.run_id for job in first.jobs}
    assert rest.complete
    assert rest.new_runs == len(second.jobs)
    assert by_identity(store) == by_identity(whole())


def test_the_same_study_can_be_given_more_time(monkeypatch):
    clock, store = Clock(monkeypatch), MemoryStore()
    study = study_of(store)
    calls = 0
    while not study.complete:
        study.run(Scripted(SCRIPT), Watcher(started=clock.tick), minutes=9)
        calls += 1

    assert calls > 3
    assert in_order(store) == in_order(whole())


# ── evidence ──────────────────────────────────────────────────────────────────────────────────────


class Twice(Protocol):
    """Judges the default at one level, then tries a recipe that won elsewhere, and judges again."""

    elsewhere: float

    def batch(self):
        if not self.searches:
            self.searches[6] = Search(self.plan, [self.default])
        search = self.searches[6]
        if len(self.judged(6)) == 2:
            search.give(tuple((n, self.elsewhere if n == "learning_rate" else v) for n, v in self.default))
        return self._trials(6) or self._judge(6, 2 - len(self.judged(6)))


@pytest.mark.parametrize(
    ("rate", "judged_rates"),
    [(BEST_RATE, [RECIPE.learning_rate, BEST_RATE]), (1e-2, [RECIPE.learning_rate])],
    ids=["a better recipe", "a worse one"],
)
def test_finals_of_a_superseded_recipe_are_no_evidence(rate, judged_rates, monkeypatch):
    monkeypatch.setitem(PROTOCOLS, "twice", Twice)
    monkeypatch.setattr(Twice, "elsewhere", rate, raising=False)
    one_trial = dataclasses.replace(EFFORT, trials=1)
    study = Study([Campaign(find("parity"), Settings(RECIPE, one_trial, "twice"))], MemoryStore())
    study.run(Scripted(Script(log2_capacity=3.2)), Watcher())
    finals = [record for record in study.records.values() if record.phase == Phase.FINAL]

    assert [(rate_of(record), record.recipe_round) for record in finals] == [
        (rate, number) for number, rate in enumerate(judged_rates, start=1) for _ in range(2)
    ]
    assert study.evidence == finals[-2:]
    assert len({record.seed for record in finals}) == len(finals)


def rate_of(record):
    return json.loads(record.recipe_json)["learning_rate"]


def test_trials_are_no_evidence():
    study = study_of(whole())

    assert {record.phase for record in study.evidence} == {"final"}
    assert {record.phase for record in study.records.values()} == {"search", "final"}


# ── runs that are given ───────────────────────────────────────────────────────────────────────────


def test_listed_runs_are_asked_for_once_and_all_of_them():
    jobs = [Planned("parity", campaign.batch()[0].job) for campaign in listed(3)]
    campaign = Listed(jobs)

    assert campaign.batch() == jobs
    assert campaign.batch() == []


def test_listed_finals_are_evidence_and_go_on_at_every_checkpoint():
    store = MemoryStore()
    study = Study([*listed(3), *listed(2, phase="search")][:4], store)
    study.run(Scripted(Script()), Watcher())

    assert study.complete
    assert {record.status for record in study.records.values()} == {Status.FINISHED}
    assert len(study.evidence) == 3


# ── who is told ───────────────────────────────────────────────────────────────────────────────────


def test_a_watcher_is_told_of_every_run_and_of_every_family_once():
    heard = {"started": [], "ended": [], "families": [], "planned": []}
    watcher = Watcher(
        planned=lambda stored, missing: heard["planned"].append((stored, missing)),
        started=lambda planned: heard["started"].append(planned.job.run_id),
        ended=lambda planned, record: heard["ended"].append(record.run_id),
        family_ended=lambda family, records: heard["families"].append((family, len(records))),
    )
    study = study_of(MemoryStore())
    study.run(Scripted(SCRIPT), watcher)
    counted = {name: sum(record.task == name for record in study.evidence) for name in ("parity", "copy")}

    assert heard["planned"] == [(0, 2)]
    assert heard["started"] == heard["ended"] == list(study.records)
    assert heard["families"] == list(counted.items())
