"""What a store is said to hold: every run counted, and of failures only what failed."""

from scripted_runs import Script, Scripted

from ullage.record import Phase, Status
from ullage.request import find_campaigns, find_effort, find_families, find_settings
from ullage.store import open_store
from ullage.study import Study, Watcher
from ullage.verbs.status import status

FAILING = 0.1  # of the runs, the first time that they are made


def stored(store):
    effort = find_effort("quick", "adaptive", 2000, 8)
    settings = find_settings(effort, "adaptive", "nano", {}, (), 1, search_embedding=False)
    opened = open_store(store)
    study = Study(find_campaigns(find_families(["parity", "copy"]), settings, opened), opened)
    study.run(Scripted(Script(log2_capacity=3.6, failing=FAILING)), Watcher())
    return study.records


def test_what_failed_is_told_with_its_reason_and_a_trial_that_lost_to_its_rivals_is_no_failure(tmp_path):
    records = stored(tmp_path / "store")

    found = status(tmp_path / "store")

    failed = {run_id for run_id, record in records.items() if record.status == Status.FAILED}
    assert any(record.status == Status.PRUNED for record in records.values())
    assert failed
    assert {failure["run_id"] for failure in found["failures"]} == failed
    assert {failure["reason"] for failure in found["failures"]} == {"scripted"}


def test_every_run_is_counted_once(tmp_path):
    records = stored(tmp_path / "store").values()

    found = status(tmp_path / "store")

    assert found["records"] == len(records) == sum(found["by_status"].values())
    assert found["finals"] == sum(record.phase == Phase.FINAL for record in records)
