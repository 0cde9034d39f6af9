"""`ullage predict` and `calibrate`: whose runs tell, what is refused, what a script and a person get."""

import csv
import dataclasses
import json

import numpy as np
import pytest
from hand_made import CAPACITIES, PREDICTION_KEYS, SOUND, STEPS, drawn_skill, offer, posterior_of, question
from rich.console import Console
from scripted_runs import Script, Scripted
from test_cli import page_file, run

from ullage import kept
from ullage.boundary import Interval
from ullage.capacity import DEFAULT_SETTINGS, Settings, prepared
from ullage.errors import BadInput
from ullage.imported import read_table
from ullage.inquiry import Asked, Evidence, Subject, choose, gather, ladder
from ullage.observations import Effort, Observations, observe
from ullage.pilot import is_pilot, pilot_settings, run_pilot, spread_levels
from ullage.prediction import Answer, Prediction, raised, smallest
from ullage.present_predict import predicted, verdict
from ullage.record import Phase
from ullage.shipped import shipped_records
from ullage.store import KEPT, open_store
from ullage.stores.memory import MemoryStore
from ullage.study import Watcher
from ullage.task import find
from ullage.testing_stores import example_curve, example_record
from ullage.verbs.calibrate import calibration
from ullage.verbs.predict import answer, predict

SPENT = Effort(40, 0, 0)
NANO_ROW = {"layers": 2, "heads": 4, "d_head": 8, "precision_bits": 32}


def table(path, families=CAPACITIES, seeds=3, first=8, **more):
    """A table that our trainer never saw: its families, its levels, its way to count bits."""
    random = np.random.default_rng(0)
    rows = []
    for family, middle in families.items():
        for level, step in enumerate(STEPS, start=first):
            for _ in range(seeds):
                score = 0.5 + 0.5 * drawn_skill(random, middle, middle + step)
                demand = {"demand_bits": 2.0 ** (middle + step), "demand_notion": "input", "level": level}
                rows.append({"task": family, **NANO_ROW, **demand, "accuracy": score, "chance": 0.5, **more})
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def keep(observations, folder, notion="nominal"):
    """Put a posterior made by hand where the fit of these runs is looked for: no sampler is needed."""
    conditions, effort, _ = prepared(raised(observations, notion), notion)
    posterior = dataclasses.replace(posterior_of(conditions), effort=effort)
    kept.save(posterior, folder, kept.identity(conditions, effort, DEFAULT_SETTINGS))


def keep_shipped(store, notion="nominal"):
    keep(observe(shipped_records()), store / KEPT, notion)


@pytest.fixture
def elsewhere(tmp_path):
    """The flags that name a table made elsewhere, whose fit is kept."""
    path = table(tmp_path / "theirs.csv")
    for notion in ("nominal", "input"):
        keep(read_table(path), tmp_path / "store" / KEPT, notion)
    return ("--runs", path, "--store", tmp_path / "store")


# ── whose runs tell ───────────────────────────────────────────────────────────────────────────────


def test_a_table_made_elsewhere_gives_the_promised_document(elsewhere, capsys):
    code, out, err = run(capsys, "predict", "parity", "--level", "8", *elsewhere, "--json")
    document = json.loads(out)

    assert (code, err) == (0, "")
    assert list(document) == PREDICTION_KEYS
    assert (document["source"], document["demand_notion"]) == ("file", "input")
    assert document["demand_bits"] == 2.0  # as the table counts; our own parity asks for 8 bits there
    assert document["probability"]["low"] > 0.8
    assert not document["extrapolating"]
    assert document["model"]["model_id"] == "nano"


def test_a_family_that_only_the_table_knows_is_predicted_at_its_levels_and_at_bits(tmp_path, capsys):
    path = table(tmp_path / "theirs.csv", {"sorting": 4.0, "reversing": 5.0})
    keep(read_table(path), tmp_path / "store" / KEPT)
    flags = ("--runs", path, "--store", tmp_path / "store", "--json")
    level = json.loads(run(capsys, "predict", "sorting", "--level", "8", *flags)[1])
    bits = json.loads(run(capsys, "predict", "sorting", "--bits", "4", *flags)[1])
    code, _, err = run(capsys, "predict", "sorting", "--level", "99", *flags)

    assert level["probability"] == bits["probability"]
    assert code == 2
    assert "--bits" in err


def test_a_table_may_have_levels_that_our_task_of_that_name_does_not(tmp_path, capsys):
    path = table(tmp_path / "theirs.csv", first=1)  # our parity begins at level 5
    keep(read_table(path), tmp_path / "store" / KEPT)
    flags = ("--runs", path, "--store", tmp_path / "store", "--json")
    code, out, _ = run(capsys, "predict", "parity", "--level", "1", *flags)

    assert code == 0
    assert json.loads(out)["demand_bits"] == 2.0


def test_an_empty_store_is_answered_from_the_shipped_runs_and_says_so(tmp_path, capsys):
    store = tmp_path / "store"
    keep_shipped(store)
    flags = ("predict", "modulo", "--level", "97", "--store", store)
    document = json.loads(run(capsys, *flags, "--json")[1])
    said = run(capsys, *flags)[1]

    assert document["source"] == "shipped"
    assert {row["task"] for row in document["evidence"]} == {"modulo"}
    assert "come with ullage" in said
    assert "step_limit=2000" in said


def final(study):
    """A record of one study."""
    scores = {"score": 0.5, "score_floor": 0.0, "score_ceiling": 1.0}
    return dataclasses.replace(example_record("a"), task="modulo", study=study, **scores)


def test_runs_of_ones_own_store_are_preferred_where_they_are_of_the_family(tmp_path):
    store = tmp_path / "store"
    with open_store(store) as opened:
        record = final("modulo/nano/quick/1")
        opened.append(record, example_curve("a"))
    sources = [evidence.source for evidence in gather(store, None)]
    (own,) = gather(store, None)[0].observations.runs

    assert sources == ["store", "shipped"]
    assert own.task == "modulo"


def test_pilots_in_a_store_do_not_pass_for_evidence_of_its_own(tmp_path):
    store = tmp_path / "store"
    with open_store(store) as opened:
        record = final("modulo/nano/pilot/1")
        opened.append(record, example_curve("a"))
    own, shipped = gather(store, None)

    assert own.observations.runs == ()
    assert {run.task for run in shipped.pilots.runs} == {"modulo"}
    assert len(shipped.together.runs) == len(shipped.observations.runs) + 1


def test_a_store_that_cannot_tell_of_a_notion_leaves_it_to_the_shipped_runs():
    parity = [run for run in observe(shipped_records()).runs if run.task == "parity"]
    own = Evidence("store", Observations(tuple(parity), {}))
    shipped = Evidence("shipped", observe(shipped_records()))
    asked = Asked(bits=5.0, demand="answer")  # parity asks for one bit of answer at every level

    assert choose([own, shipped], asked, Subject(None)).source == "shipped"
    assert choose([own, shipped], Asked(bits=5.0, demand="input"), Subject(None)).source == "store"


def test_bits_alone_are_a_new_family_among_those_of_their_notion(elsewhere, capsys):
    flags = ("predict", "--bits", "16", "--demand", "input", *elsewhere)
    document = json.loads(run(capsys, *flags, "--json")[1])
    known = json.loads(run(capsys, "predict", "modulo", "--level", "11", *elsewhere, "--json")[1])
    widths = [one["skill"]["high"] - one["skill"]["low"] for one in (document, known)]

    assert document["extrapolating"]
    assert widths[0] > 1.5 * widths[1]


def test_a_users_file_is_predicted_at_the_level_it_declares(tmp_path, capsys):
    path, store = page_file(tmp_path), tmp_path / "store"
    family = find(str(path))
    keep_shipped(store, str(family.task.nominal))
    document = json.loads(run(capsys, "predict", path, "--store", store, "--json")[1])

    assert document["extrapolating"]
    assert document["demand_notion"] == str(family.task.nominal)
    assert document["demand_bits"] == pytest.approx(family.at(family.task.level).demand("nominal"))


def test_a_demand_that_no_level_raises_is_no_evidence(tmp_path):
    observations = observe(shipped_records())
    raising = raised(observations, "storage")

    assert {run.task for run in raising.runs} == {"memorise"}
    assert raising.count + sum(raising.excluded.values()) == observations.count


# ── what is refused ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "nothing to predict"),
        (["parity"], "parity needs a level"),
        (["parity", "--level", "3"], "level=3 is out of range"),
        (["parity", "--level", "9", "--bits", "3"], "level=9 and bits=3"),
        (["parity", "--bits", "0"], "bits=0 is out of range"),
        (["parity", "--bits", "-2"], "bits=-2 is out of range"),
        (["parity", "--bits", "nan"], "bits=nan is out of range"),
        (["--bits", "3"], "--demand"),
        (["--bits", "3", "--demand", "nominal"], "--demand"),
        (["--bits", "3", "--demand", "weight"], "there is no notion of demand 'weight'"),
        (["parrity", "--level", "9"], "there is no task 'parrity'"),
        (["nowhere.py"], "nowhere.py"),
        (["parity", "--level", "9", "--model", "huge"], "there is no model 'huge'"),
        (["parity", "--level", "9", "--demand", "storage"], "no demand of the notion storage"),
        (["parity", "--level", "9", "--probability", "0.9"], "add it, or leave this out"),
        (["parity", "--level", "9", "--smallest", "--probability", "1.5"], "probability=1.5"),
        (["parity", "--level", "9", "--smallest", "--probability", "0"], "probability=0"),
        (["parity", "--level", "9", "--smallest", "--d-model", "32"], "d_model=32"),
        (["parity", "--level", "9", "--smallest", "--model", "nano"], "model=nano"),
        (["parity", "--level", "9", "--smallest", "--pilot", "2"], "pilot=2"),
        (["parity", "--level", "9", "--pilot", "-1"], "pilot=-1 is out of range"),
        (["--bits", "9", "--demand", "input", "--pilot", "2"], "pilot=2"),
        (["parity", "--level", "9", "--workers", "0"], "workers=0"),
        (["parity", "--level", "9", "--runs", "nowhere.csv"], "nowhere.csv"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_bad_request_is_one_sentence_and_exit_code_2(arguments, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    code, out, err = run(capsys, "predict", *arguments)

    assert (code, out) == (2, "")
    assert told in err
    assert err.startswith("ullage: ")
    assert err.count("\n") == 1
    assert not (tmp_path / "ullage-store").exists()


def test_bits_of_a_notion_that_no_run_has_are_refused(elsewhere, capsys):
    code, _, err = run(capsys, "predict", "--bits", "9", "--demand", "storage", *elsewhere)

    assert code == 2
    assert "no evidence of the notion storage" in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--scheme", "seed"], "there is no scheme 'seed'"),
        (["--demand", "weight"], "there is no notion of demand 'weight'"),
        (["--runs", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_a_calibration_that_cannot_be_is_told_in_one_sentence(arguments, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    code, out, err = run(capsys, "calibrate", *arguments)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err


# ── the smallest model ────────────────────────────────────────────────────────────────────────────


def test_the_ladder_climbs_by_parameters_and_passes_all_presets():
    interface = find("parity").at(9).interface
    models = list(ladder({"layers": 1}))
    sizes = [model.parameters(interface) for model in models]

    assert sizes == sorted(set(sizes))
    assert {model.layers for model in models} == {1}
    assert {"nano", "small", "medium", "paper"} < {model.model_id for model in ladder({})}


def test_the_smallest_model_is_the_first_that_is_surely_good_enough(elsewhere):
    asked = Asked("modulo", bits=64.0)
    flags = {"runs": elsewhere[1], "store": elsewhere[3]}
    found = answer(asked, smallest=True, probability=0.5, **flags)
    sizes = [model.model_id for model in ladder({})]
    place = sizes.index(found.prediction.offer.model.model_id)
    lows = [
        answer(asked, model="paper", knobs=knobs_of(model), **flags).prediction.probability.low
        for model in list(ladder({}))[:place]
    ]

    assert found.reached
    assert found.prediction.probability.low >= 0.5
    assert 0 < place < len(sizes)
    assert max(lows) < 0.5


def knobs_of(model):
    return {name: getattr(model, name) for name in ("d_model", "heads", "d_ff")}


def test_where_no_model_is_sure_enough_the_best_is_told_and_the_exit_code_is_1(elsewhere, capsys):
    flags = ("predict", "modulo", "--bits", "1e9", "--smallest", "--probability", "0.9", *elsewhere)
    code, out, _ = run(capsys, *flags)

    assert code == 1
    assert out.startswith("None of 11 models")


def test_smallest_asks_no_more_models_than_it_needs():
    asked = []

    def predictions():
        for low in (0.1, 0.6, 0.9):
            asked.append(low)
            yield one_like(low)

    found = smallest(predictions(), 0.5)

    assert (asked, found.models, found.prediction.probability.low) == ([0.1, 0.6], 2, 0.6)


# ── the verdict ───────────────────────────────────────────────────────────────────────────────────


def one_like(low, high=1.0, **changed):
    """A prediction with some probability."""
    interval = Interval((low + high) / 2, low, high)
    fields = {"probability": interval, "skill": interval, "strays": (), "evidence": (), "source": "store"}
    fields |= {"effort": SPENT, "diagnostics": SOUND}
    return Prediction(question(), offer(), **{**fields, **changed})


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [(0.85, 0.98, "Yes"), (0.0, 0.2, "No"), (0.1, 0.9, "Open")],
)
def test_the_verdict_is_a_word_a_probability_and_a_budget_in_one_sentence(low, high, word):
    said = verdict(Answer(one_like(low, high)))

    assert said.startswith(f"{word}: nano learns parity at level 3 with probability ")
    assert "its bandwidth binds" in said
    assert said.count(". ") == 0
    assert said.endswith(".")
    assert ("--heads" in said) == (word != "Yes")
    assert ("--pilot" in said) == (word == "Open")


def test_a_sampler_that_did_not_settle_is_told_with_its_numbers():
    doubtful = dataclasses.replace(SOUND, rhat_max=1.2, ess_min=12.0, divergences=40)
    said = told_of(one_like(0.8, diagnostics=doubtful))

    assert "did not settle (R-hat 1.20, 12 effective draws, 40 divergences)" in said
    assert "did not settle" not in told_of(one_like(0.8))


def told_of(prediction):
    console = Console(width=200)
    with console.capture() as captured:
        console.print(predicted(Answer(prediction)))
    return captured.get()


def test_a_person_reads_what_lies_beyond_what_was_tried(elsewhere, capsys):
    code, out, _ = run(capsys, "predict", "parity", "--bits", "4000", "--model", "paper", *elsewhere)

    assert code == 0
    assert out.startswith("No: paper learns parity at 4000 input bits with probability <1 %")
    assert out.count("Beyond what was tried") == 2


# ── pilots ────────────────────────────────────────────────────────────────────────────────────────


def piloted(store, levels, script=None):
    settings = pilot_settings("nano", {}, SPENT)
    executor = Scripted(script or Script(log2_capacity=3.0))
    return run_pilot(find("parity"), settings, levels, store, executor, Watcher())


def test_a_pilot_makes_as_many_final_runs_as_were_asked_at_the_effort_of_the_evidence():
    records = piloted(MemoryStore(), {8: 2, 9: 1})

    assert sorted(record.level for record in records) == [8, 8, 9]
    assert {record.phase for record in records} == {Phase.FINAL}
    assert {run.effort for run in observe(records).runs} == {SPENT}
    assert all(map(is_pilot, records))


def test_a_pilot_that_is_asked_for_again_trains_nothing_again():
    store = MemoryStore()
    first = piloted(store, {8: 2})
    count = len(store.read().records)
    again = piloted(store, {8: 2, 9: 1})

    assert [record.run_id for record in again[:2]] == [record.run_id for record in first]
    assert len(store.read().records) == count + 1


def test_pilots_are_spread_over_where_the_boundary_may_be():
    demands = {level: float(level) for level in range(1, 20)}
    sure = spread_levels(np.full(100, 7.1), demands, 4)
    unsure = spread_levels(np.linspace(3.0, 15.0, 100), demands, 4)

    assert sure == {7: 4}
    assert sum(unsure.values()) == 4
    assert min(unsure) < 6
    assert max(unsure) > 12


def test_a_pilot_cannot_join_runs_of_unknown_effort():
    with pytest.raises(BadInput, match="effort is not told"):
        pilot_settings("nano", {}, Effort())


# ── from end to end ───────────────────────────────────────────────────────────────────────────────


def test_a_fit_a_pilot_and_a_calibration_from_end_to_end(tmp_path):
    effort = {"step_limit": 20, "search_trials": 0, "train_examples": 0}
    path = table(tmp_path / "theirs.csv", {"copy": 5.0, "parity": 3.0}, seeds=2, **effort)
    quick = Settings(warmup=40, draws=40)
    tiny = {"d_model": 8, "heads": 2, "d_ff": 16}
    flags = {"runs": path, "store": tmp_path / "store", "settings": quick}
    found = answer(Asked("parity", bits=8.0), knobs=tiny, pilot=2, workers=1, **flags)
    again = predict("parity", bits=8.0, knobs=tiny, **flags)
    told = []
    held = calibration(
        "family", runs=path, settings=quick, rivals=(), told=lambda *progress: told.append(progress)
    )

    assert (found.pilots, found.failed) == (2, 0)
    assert len(open_store(tmp_path / "store").read().records) == 2
    assert list(again) == PREDICTION_KEYS
    assert found.to_json()["probability"] != again["probability"]
    assert held.folds == len(told) == 2
    assert np.isfinite(held.scores.log_score.value)
