"""The record: identity is content, one line of JSON each way, damage is told."""

import dataclasses
import json
import math
import types
import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ullage import record as records
from ullage.errors import BadInput
from ullage.record import (
    COLUMNS,
    SCHEMA,
    CurveRow,
    Phase,
    RunRecord,
    Status,
    canonical,
    from_json,
    identify,
    tidy,
    to_json,
)
from ullage.testing_stores import example_curve, example_record

VALUES = {
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(),
    types.NoneType: st.none(),
}
RECORDS = st.builds(
    RunRecord,
    **{
        name: st.one_of([VALUES[kind] for kind in typing.get_args(hint) or (hint,)])
        for name, hint in typing.get_type_hints(RunRecord).items()
    },
)


@given(RECORDS)
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
def test_any_record_round_trips_as_one_line_of_ascii(record):
    line = to_json(record)

    assert from_json(line) == record
    assert line.isascii()
    assert "\n" not in line


@given(RECORDS, st.data())
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
def test_a_record_that_is_cut_short_is_damage(record, data):
    line = to_json(record)
    length = data.draw(st.integers(0, len(line) - 1))

    with pytest.raises(BadInput, match="not a record"):
        from_json(line[:length])


def test_the_identity_of_a_run_is_its_task_its_recipe_and_its_seed():
    task, recipe = {"name": "t", "knobs": {"a": 1}, "level": 3, "version": "1"}, {"step_limit": 10}
    others = [
        ({**task, "level": 4}, recipe, 0),
        ({**task, "knobs": {"a": 2}}, recipe, 0),
        ({**task, "version": "2"}, recipe, 0),
        (task, {"step_limit": 20}, 0),
        (task, recipe, 1),
    ]

    identities = {identify(*other) for other in [(task, recipe, 0), *others]}

    assert len(identities) == 1 + len(others)


def test_the_identity_of_a_run_stays_what_it_was():
    """Stored runs are found again by their identity: a change here orphans every store."""
    identity = identify({"name": "copy", "knobs": {"length": 4}, "level": 4}, {"step_limit": 100}, 7)

    assert identity == "3e4fff1d8e4762a2156e"


def test_the_order_of_a_document_says_nothing():
    assert (
        canonical({"b": [1, 2], "a": None}) == canonical({"a": None, "b": [1, 2]}) == '{"a":null,"b":[1,2]}'
    )


def test_a_document_has_no_number_that_json_has_not():
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"a": math.nan})


def test_a_line_tells_its_schema_and_the_columns_in_order():
    document = json.loads(to_json(example_record("a")))

    assert list(document) == ["schema", *COLUMNS]
    assert document["schema"] == SCHEMA


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_number_that_is_not_finite_is_unknown(value):
    record = dataclasses.replace(example_record("a"), perplexity=value)

    assert from_json(to_json(record)).perplexity is None


def test_a_lone_surrogate_does_not_make_a_line_that_others_cannot_read():
    record = dataclasses.replace(example_record("a"), reason="bad name \udcff")

    assert from_json(to_json(record)).reason == "bad name ?"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("level", "8"),
        ("level", None),
        ("level", True),
        ("seconds", math.nan),
        ("score", "0.5"),
        ("task", None),
    ],
)
def test_a_record_that_could_not_be_read_is_not_written(column, value):
    record = dataclasses.replace(example_record("a"), **{column: value})

    with pytest.raises((TypeError, ValueError)):
        to_json(record)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "not a record"),
        ("null", "not a record"),
        ("[1]", "not a record"),
        ("[" * 100_000, "not a record"),
        ('{"run_id": "a"}', "not a record"),
        ("ONCE" + "ONCE", "not a record"),
        ('{"schema": "1"}', f"schema 1; this ullage reads 1 to {SCHEMA}"),
        ('{"schema": 0}', f"schema 0; this ullage reads 1 to {SCHEMA}"),
        (f'{{"schema": {SCHEMA + 1}}}', f"schema {SCHEMA + 1}; this ullage reads 1 to {SCHEMA}"),
        (f'{{"schema": {SCHEMA}, "run_id": "a", "colour": "red"}}', "columns .*colour.* differ"),
    ],
    ids=["empty", "null", "list", "deep", "no schema", "glued", "text", "old", "new", "columns"],
)
def test_damage_is_told(line, why):
    damaged = line.replace("ONCE", to_json(example_record("a")))

    with pytest.raises(BadInput, match=why):
        from_json(damaged)


@pytest.mark.parametrize(
    ("column", "value"), [("level", "8"), ("level", True), ("task", None), ("score", [])]
)
def test_a_value_of_the_wrong_type_is_damage(column, value):
    document = {**json.loads(to_json(example_record("a"))), column: value}

    with pytest.raises(BadInput, match=column):
        from_json(json.dumps(document))


def test_a_whole_number_is_a_number():
    document = {**json.loads(to_json(example_record("a"))), "score": 1}

    assert from_json(json.dumps(document)).score == 1


def test_a_line_of_an_older_schema_is_upgraded(monkeypatch):
    old = json.loads(to_json(example_record("a")))
    old["points"] = old.pop("score")

    def rename_points(document):
        return {("score" if name == "points" else name): value for name, value in document.items()}

    monkeypatch.setattr(records, "SCHEMA", SCHEMA + 1)
    monkeypatch.setattr(records, "UPGRADES", (*records.UPGRADES, rename_points))

    assert from_json(json.dumps(old)) == example_record("a")
    assert from_json(to_json(example_record("b"))) == example_record("b")


def test_a_record_of_the_first_schema_was_judged_with_one_recipe():
    first = json.loads(to_json(example_record("a")))
    first["schema"] = 1
    del first["recipe_round"]

    assert from_json(json.dumps(first)) == dataclasses.replace(example_record("a"), recipe_round=1)


def test_every_step_to_this_schema_has_an_upgrade():
    assert len(records.UPGRADES) == SCHEMA
    assert all(upgrade is not None for upgrade in records.UPGRADES[1:])


def test_skill_is_what_is_left_of_a_score_between_floor_and_ceiling():
    record = dataclasses.replace(example_record("a"), score_floor=0.5, score_ceiling=1.0)

    skills = [dataclasses.replace(record, score=score).skill for score in (0.5, 0.75, 1.0, 0.25, None)]

    assert skills == [0.0, 0.5, 1.0, -0.5, None]


@pytest.mark.parametrize(
    ("changes", "is_evidence"),
    [
        ({}, True),
        ({"status": Status.DIVERGED}, True),
        ({"status": Status.PRUNED}, False),
        ({"status": Status.OUT_OF_TIME}, False),
        ({"status": Status.OUT_OF_MEMORY}, False),
        ({"status": Status.FAILED}, False),
        ({"phase": Phase.SEARCH}, False),
        ({"score": None}, False),
    ],
    ids=str,
)
def test_only_final_runs_that_ended_by_themselves_are_evidence(changes, is_evidence):
    record = dataclasses.replace(example_record("a"), score_floor=0.0, score_ceiling=1.0)

    assert dataclasses.replace(record, **changes).is_evidence == is_evidence


def test_a_record_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        example_record("a").score = 1.0  # type: ignore[misc]


def test_a_curve_keeps_each_number_once_and_plain():
    record, (first, second) = example_record("a"), example_curve("a")
    rows = [first, second, first._replace(value=0.75), second._replace(metric="loss", value=-math.inf)]

    kept = tidy(record, rows)

    assert kept[:2] == (first._replace(value=0.75), second)
    assert [row.metric for row in kept] == ["score", "score", "loss"]
    assert math.isnan(kept[2].value)


def test_a_curve_of_another_run_is_refused():
    with pytest.raises(ValueError, match="run b stands in the curve of run a"):
        tidy(example_record("a"), [CurveRow("b", 1, "test", "score", 0.5)])
