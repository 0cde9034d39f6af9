"""The verb `fit`: the documents that were promised, from a table that our trainer never saw."""

import csv
import itertools
import json

import pytest

from ullage import cli, present_fit
from ullage.cli import BAD_REQUEST, DONE, PARTLY
from ullage.errors import BadInput
from ullage.heldout import Score
from ullage.posterior import Diagnostics
from ullage.verbs import fit as verb

COLUMNS = ("task", "level", "layers", "heads", "d_head", "precision_bits", "demand_bits", "demand_notion")
SCORES = ("chance", "correct", "total")
CELLS = list(itertools.product(("reverse", "sort"), (8, 16), range(1, 8)))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two families and two models, the larger of which learns one level more."""
    path = tmp_path_factory.mktemp("tables") / "runs.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow((*COLUMNS, *SCORES))
        for task, d_head, level in CELLS:
            for seed in range(3):
                learned = level < (4 if d_head == 8 else 5) + (seed == 2)
                correct = 500 if learned else 250 + 5 * seed
                writer.writerow([task, level, 2, 4, d_head, 32, 2.0**level, "context", 0.5, correct, 500])
    return path


@pytest.fixture(scope="module")
def document(table, tmp_path_factory):
    return verb.fit(runs=table, demand="context", notions=False, keep=tmp_path_factory.mktemp("kept"))


@pytest.fixture
def run(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        return ended.value.code, capsys.readouterr()

    return run


def test_the_document_is_what_was_promised(document):
    model = {"model_id", "architecture", "layers", "heads", "d_head", "d_model", "precision_bits"}
    model |= {"parameters", "technique"}

    assert document["demand_notion"] == "context"
    assert all(
        model | {"capacity_bits", "utilisation", "headroom_bits"} == row.keys() for row in document["models"]
    )
    assert all(
        model | {"task", "capacity_bits", "boundary_level"} == row.keys() for row in document["capacity"]
    )
    assert document["tasks"].keys() == {"reverse", "sort"}
    assert document["source"] == "file"
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_capacities_lie_where_the_runs_turn(document):
    small, large = (row["capacity_bits"] for row in document["models"])

    # All runs learn 8 and 16 bits, one of three 16 and 32, none more.
    assert 5 < small["low"] < small["median"] < small["high"] < 32
    assert 8 < small["median"] < 20
    assert 16 < large["median"] < 40


def test_a_share_is_the_capacity_over_its_budget(document):
    row = document["models"][0]

    share = row["utilisation"]["bandwidth"]["median"]

    assert share == pytest.approx(row["capacity_bits"]["median"] / (4 * 8 * 32))


def test_the_command_prints_one_document_and_ends_well(run, document, monkeypatch):
    monkeypatch.setattr(verb, "fit", lambda **_: document)

    code, shown = run("fit", "--json")
    assert (code, json.loads(shown.out)) == (DONE, document)
    code, shown = run("fit")
    assert code == DONE
    assert "The sampler agrees with itself" in shown.out


def test_a_fit_that_cannot_be_trusted_ends_with_one(run, document, monkeypatch):
    doubtful = document | {"diagnostics": document["diagnostics"] | {"trusted": False}}
    monkeypatch.setattr(verb, "fit", lambda **_: doubtful)

    code, shown = run("fit")

    assert code == PARTLY
    assert "DO NOT TRUST" in shown.out


def test_a_bad_request_is_one_sentence(run, tmp_path, table):
    for arguments, said in [
        (("--runs", str(tmp_path / "no.csv")), "there is no file"),
        (("--store", str(tmp_path)), "no run is left to fit"),
        (("--runs", str(table), "--demand", "storage"), "no family has a demand of the notion storage"),
        (("--runs", str(table), "--steps", "10"), "no run was made with the effort step_limit=10"),
        (("--runs", str(table), "--scatter", "wide"), "runs cannot scatter as 'wide'"),
    ]:
        code, shown = run("fit", *arguments)
        assert (code, shown.out, shown.err.count("\n")) == (BAD_REQUEST, "", 1)
        assert said in shown.err


def test_notions_are_scored_over_the_families_that_have_them_and_kept(table, tmp_path, monkeypatch):
    asked, score = [], Score(-1.5, 0.1, 4)
    monkeypatch.setattr(verb, "held_out_score", lambda conditions, _: asked.append(conditions) or score)
    observations = verb.observations_of("", table)
    file, effort = tmp_path / "scores.json", observations.runs[0].effort

    first = verb.kept_scores(file, observations, effort, verb.Settings(), force=False)
    again = verb.kept_scores(file, observations, effort, verb.Settings(), force=False)

    assert first == again
    assert [conditions.notion for conditions in asked] == ["nominal", "context"]
    assert first["context"]["families"] == ["reverse", "sort"]
    assert {"log_score", "standard_error"} <= first["context"].keys()


def test_a_folder_that_cannot_be_written_is_told(table, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    flat = verb.prepared(verb.observations_of("", table), "context")[0]

    from ullage import kept
    from ullage.observations import Effort
    from ullage.posterior import Posterior

    found = Posterior(flat, Effort(), "pooled", "beta_binomial", {}, Diagnostics(1.0, 1.0, 0, 1), {})
    with pytest.raises(BadInput, match="cannot be written"):
        kept.save(found, tmp_path / "file", "one")


def test_what_is_shown_tells_growth_multipliers_and_what_was_left_out(document):
    from rich.console import Console

    interval = {"median": 1.5, "low": 1.0, "high": 2.0}
    full = document | {
        "multipliers": {"digits": interval},
        "growth_exponent": interval,
        "notions": {"context": {"log_score": -1.5, "standard_error": 0.1, "families": ["sort"]}},
        "diagnostics": document["diagnostics"] | {"excluded": {"no score": 3}, "notes": ["a note"]},
    }
    console = Console(width=200, no_color=True)
    with console.capture() as captured:
        console.print(present_fit.fitted(full))

    for said in ("digits multiplies C by 1.5", "to the power 1.5", "-1.500 ± 0.100", "3 no score", "a note"):
        assert said in captured.get()
