"""Tables made elsewhere: what they need, what is refused in one sentence, what is left out and counted."""

import dataclasses
import json

import duckdb
import pytest

from ullage.errors import BadInput
from ullage.imported import read_table
from ullage.observations import Effort, at_one_effort, observe, under
from ullage.stores.memory import MemoryStore
from ullage.table import export_runs
from ullage.testing_stores import example_record

ROW = {
    "task": "lookup",
    "layers": 2,
    "heads": 4,
    "d_head": 8,
    "precision_bits": 32,
    "demand_bits": 4.0,
    "demand_notion": "context",
    "chance": 0.5,
    "correct": 75,
    "total": 100,
}


def write(path, rows):
    """A CSV of rows that may differ in their columns."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [",".join(columns)]
    lines += [",".join(str(row.get(name, "")) for name in columns) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def read(tmp_path):
    return lambda *rows: read_table(write(tmp_path / "runs.csv", rows))


def without(*names):
    return {name: value for name, value in ROW.items() if name not in names}


def test_the_needed_columns_are_enough(read):
    found = read(ROW)

    (run,) = found.runs
    assert (run.task, run.nominal, run.demands, run.skill) == ("lookup", "context", {"context": 4.0}, 0.5)
    assert run.model.bandwidth_bits == 4 * 8 * 32
    assert (run.floor, run.total, run.count, found.excluded) == (0.5, 100, 1, {})


@pytest.mark.parametrize(
    "scores",
    [
        {"score": 0.75, "score_floor": 0.5, "score_ceiling": 1.0},
        {"accuracy": 0.75, "chance": 0.5},
        {"chance": 0.5, "correct": 75, "total": 100},
    ],
    ids=["score", "accuracy", "counts"],
)
def test_a_score_may_be_told_in_three_ways(read, scores):
    found = read(without("chance", "correct", "total") | scores)

    assert [run.skill for run in found.runs] == [0.5]


def test_csv_parquet_and_json_lines_tell_the_same(tmp_path):
    csv = write(tmp_path / "runs.csv", [ROW, ROW | {"correct": 100}])
    parquet, lines = tmp_path / "runs.parquet", tmp_path / "runs.jsonl"
    duckdb.sql(f"COPY (FROM '{csv}') TO '{parquet}'")
    lines.write_text("".join(json.dumps(row) + "\n" for row in (ROW, ROW | {"correct": 100})))

    assert read_table(parquet) == read_table(csv)
    assert read_table(lines) == read_table(csv)


def test_runs_that_came_out_alike_are_merged_and_counted(read):
    found = read(*[ROW] * 3, ROW | {"correct": 100})

    assert sorted((run.skill, run.count) for run in found.runs) == [(0.5, 3), (1.0, 1)]
    assert found.count == 4


def test_without_levels_the_place_of_a_demand_is_the_level(read):
    found = read(ROW, ROW | {"demand_bits": 2.0}, ROW | {"demand_bits": 9.5})

    assert {run.demands["context"]: run.level for run in found.runs} == {2.0: 1, 4.0: 2, 9.5: 3}


REFUSED = {
    "missing column": (without("heads"), "has no column heads"),
    "missing chance": (without("chance"), "does not tell each run's score with its floor or chance"),
    "missing floor": (without("chance", "correct", "total") | {"score": 0.5}, "floor or chance"),
    "negative bits": (ROW | {"demand_bits": -1.0}, "negative bits for 'lookup'"),
    "correct above total": (ROW | {"correct": 101}, "more correct answers than there are"),
    "no answers": (ROW | {"correct": 0, "total": 0}, "a total of 0"),
    "floor at the ceiling": (ROW | {"chance": 1.0}, "a floor that is not below the ceiling"),
    "unknown notion": (ROW | {"demand_notion": "width"}, "the notion 'width'"),
    "text for a number": (ROW | {"heads": "four"}, "heads='four', which is no number"),
}


@pytest.mark.parametrize(("row", "said"), REFUSED.values(), ids=REFUSED)
def test_a_doubtful_table_is_refused_in_one_sentence(read, row, said):
    with pytest.raises(BadInput, match=said) as caught:
        read(ROW, row) if set(row) >= set(ROW) else read(row)

    assert "runs.csv" in str(caught.value)
    assert ":" in str(caught.value) or ";" in str(caught.value)  # what to do


def test_a_run_told_in_two_ways_is_refused(read):
    with pytest.raises(BadInput, match="the run 'a' in two ways"):
        read(ROW | {"run_id": "a"}, ROW | {"run_id": "a", "correct": 99})


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "is empty"), (",".join(ROW) + "\n", "holds no run")],
    ids=["no byte", "only columns"],
)
def test_an_empty_table_is_told(tmp_path, text, said):
    path = tmp_path / "runs.csv"
    path.write_text(text)

    with pytest.raises(BadInput, match=said):
        read_table(path)


def test_a_file_that_is_not_there_or_no_table_is_told(tmp_path):
    (tmp_path / "runs.xlsx").write_text("x")
    (tmp_path / "runs.parquet").write_text("no parquet")

    for name, said in {
        "no.csv": "there is no file",
        "runs.xlsx": "choose one of",
        "runs.parquet": "cannot",
    }.items():
        with pytest.raises(BadInput, match=said):
            read_table(tmp_path / name)


LEFT_OUT = {
    "no score": ROW | {"correct": "nan"},
    "no floor": ROW | {"chance": ""},
    "no demand": ROW | {"demand_bits": "nan"},
    "no task": ROW | {"task": ""},
    "a search run, not a final one": ROW | {"phase": "search"},
    "status out_of_time": ROW | {"status": "out_of_time"},
    "status failed": ROW | {"status": "failed", "demand_notion": "", "demand_bits": "", "correct": ""},
}


@pytest.mark.parametrize(("reason", "row"), LEFT_OUT.items(), ids=LEFT_OUT)
def test_a_row_that_is_no_evidence_is_left_out_and_counted(read, reason, row):
    found = read(ROW, row, row)

    assert (found.count, found.excluded) == (1, {reason: 2})


def test_the_same_row_twice_is_one_run_and_the_last_attempt_counts(read):
    twice = ROW | {"run_id": "a"}
    retried = [ROW | {"run_id": "b", "attempt": n, "correct": 50 * n} for n in (1, 2)]

    found = read(twice, twice, *retried)

    assert found.excluded == {"a run that is told twice": 2}
    assert sorted(run.skill for run in found.runs) == [0.5, 1.0]


def test_an_export_tells_what_its_store_tells(tmp_path):
    base = dataclasses.replace(
        example_record("0"),
        score_floor=0.1,
        score_ceiling=1.0,
        demand_notion="input",
        correct=None,
        total=500,
    )
    records = [
        dataclasses.replace(base, run_id=str(place), level=level, score=score, recipe_round=tried)
        for place, (level, score, tried) in enumerate([(5, 0.9, 1), (5, 0.8, 2), (6, 0.4, 1), (6, None, 1)])
    ]
    store = MemoryStore.at(tmp_path)
    with store:
        for record in records:
            store.append(record, ())
    export_runs(store, tmp_path / "runs.csv")

    imported, observed = read_table(tmp_path / "runs.csv"), observe(records)

    assert [facts(run) for run in imported.runs] == [facts(run) for run in observed.runs]
    assert [run.skill for run in imported.runs] == pytest.approx([run.skill for run in observed.runs])
    assert imported.excluded == observed.excluded == {"a recipe that was replaced": 1, "no score": 1}


def facts(run):
    told = (run.task, run.level, run.model, run.parameters, run.technique, run.effort, run.nominal)
    return (*told, dict(run.demands), run.floor, run.total)


def test_one_effort_is_fitted_and_the_others_are_counted(read):
    small, large = ROW | {"step_limit": 100}, ROW | {"step_limit": 200}
    other = small | {"task": "copying"}

    runs = read(small, small, large, other)

    kept, effort = at_one_effort(runs)  # the larger one lacks a family
    assert (effort.step_limit, kept.count, kept.excluded) == (100, 3, {"another effort": 1})
    kept, effort = at_one_effort(runs, Effort(step_limit=200))
    assert (effort.step_limit, kept.count, kept.excluded) == (200, 1, {"another effort": 3})
    with pytest.raises(BadInput, match="step_limit=100; step_limit=200"):
        at_one_effort(runs, Effort(step_limit=300))


def test_a_notion_that_no_family_has_is_refused_and_one_that_some_lack_is_counted(read):
    runs = read(ROW, ROW | {"task": "copying", "demand_notion": "input"})

    with pytest.raises(BadInput, match="notion storage; choose among nominal, context, input"):
        under(runs, "storage")
    with pytest.raises(BadInput, match="no notion of demand 'width'"):
        under(runs, "width")
    assert under(runs, "input").excluded == {"no demand under the notion input": 1}


def test_many_rows_are_few_observations(tmp_path):
    path = tmp_path / "runs.parquet"
    values = ", ".join(
        f"'{v}' AS {k}" if isinstance(v, str) else f"{v} AS {k}" for k, v in ROW.items() if k != "correct"
    )
    duckdb.sql(f"COPY (SELECT {values}, i % 101 AS correct FROM range(50000) t(i)) TO '{path}'")

    found = read_table(path)

    assert found.count == 50_000
    assert len(found.runs) == 21
