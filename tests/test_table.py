"""Export: the same typed table as CSV and as Parquet, sorted, whole or not at all."""

import csv
import dataclasses
import itertools
import os
import resource
import tempfile
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from ullage.errors import BadInput
from ullage.record import COLUMNS, CurveRow, RunRecord
from ullage.store import open_store
from ullage.table import column_types, export_curves, export_runs
from ullage.testing_stores import example_curve, example_record

SUFFIXES = (".csv", ".parquet")
HOSTILE = dataclasses.replace(
    example_record("hostile"),
    task='a "quoted", \r\n\tname; \u2028 línea \U0001f9ea',
    level=2**63 - 1,
    parameters=-(2**63),
    score=0.1 + 0.2,
    train_flops=1e300,
    demand_bits=5e-324,
    total=None,
    perplexity=None,
    reason="",
)


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path / "store")


def fill(store, records):
    with store:
        for record in records:
            store.append(record, example_curve(record.run_id))
    return store


def asked(query):
    with duckdb.connect() as connection:
        return connection.execute(query).fetchall()


def table(path):
    """The rows of an exported file, read with the types that a record has."""
    if path.suffix == ".parquet":
        return asked(f"SELECT * FROM '{path}'")
    columns = column_types(CurveRow if "curves" in path.name else RunRecord)
    known = f"header = true, columns = {columns}, auto_detect = false, allow_quoted_nulls = false"
    return asked(f"SELECT * FROM read_csv('{path}', {known})")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_holds_every_column_of_every_run_exactly(store, tmp_path, suffix):
    path = tmp_path / f"runs{suffix}"
    fill(store, [HOSTILE, example_record("b")])

    export_runs(store, path)

    assert table(path) == [dataclasses.astuple(HOSTILE), dataclasses.astuple(example_record("b"))]


def test_a_csv_is_one_that_any_reader_reads(store, tmp_path):
    path = tmp_path / "runs.csv"
    fill(store, [HOSTILE])

    export_runs(store, path)

    with path.open(newline="", encoding="utf-8") as file:
        header, row = csv.reader(file)
    assert tuple(header) == COLUMNS
    assert row == ["" if value is None else str(value) for value in dataclasses.astuple(HOSTILE)]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_columns_have_the_types_of_the_record_even_without_a_run(store, tmp_path, suffix):
    runs, curves = tmp_path / f"runs{suffix}", tmp_path / f"curves{suffix}"

    export_runs(store, runs)
    export_curves(store, curves)

    described = {
        path: [row[:2] for row in asked(f"DESCRIBE SELECT * FROM '{path}'")] for path in (runs, curves)
    }
    assert [name for name, _ in described[runs]] == list(COLUMNS)
    assert [name for name, _ in described[curves]] == list(CurveRow._fields)
    assert table(runs) == table(curves) == []
    if suffix == ".parquet":
        assert dict(described[runs]) == column_types(RunRecord)
        assert dict(described[curves]) == column_types(CurveRow)
    assert not store.path.exists()


def test_types_are_those_of_the_annotations():
    types = column_types(RunRecord)

    assert tuple(types) == COLUMNS
    assert [types[name] for name in ("run_id", "level", "layers", "score", "seconds", "reason")] == [
        "VARCHAR",
        "BIGINT",
        "BIGINT",
        "DOUBLE",
        "DOUBLE",
        "VARCHAR",
    ]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_campaign_stored_in_another_order_gives_the_same_file(tmp_path, suffix):
    records = [
        dataclasses.replace(example_record(f"{task}{level}{seed}"), task=task, level=level, seed=seed)
        for task, level, seed in itertools.product("ab", (2, 10), (0, 1))
    ]
    texts = []
    for name, order in {"one": records, "other": records[::-1]}.items():
        store = fill(open_store(tmp_path / name), order)
        export_runs(store, tmp_path / f"runs-{name}{suffix}")
        export_curves(store, tmp_path / f"curves-{name}{suffix}")
        texts.append([(tmp_path / f"{kind}-{name}{suffix}").read_bytes() for kind in ("runs", "curves")])

    assert texts[0] == texts[1]
    assert table(tmp_path / f"runs-one{suffix}") == [dataclasses.astuple(record) for record in records]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_run_is_one_row_and_its_curve_the_one_of_its_last_attempt(store, tmp_path, suffix):
    second = dataclasses.replace(example_record("a"), attempt=2)
    with store:
        store.append(example_record("a"), example_curve("a", 0.25))
        store.append(second, example_curve("a", 0.75))

    rows = export_runs(store, tmp_path / f"runs{suffix}"), export_curves(store, tmp_path / f"curves{suffix}")

    assert rows == (1, 2)
    assert table(tmp_path / f"runs{suffix}") == [dataclasses.astuple(second)]
    assert table(tmp_path / f"curves{suffix}") == [tuple(row) for row in example_curve("a", 0.75)]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_number_of_a_curve_that_is_not_finite_is_empty(store, tmp_path, suffix):
    path = tmp_path / f"curves{suffix}"
    with store:
        store.append(example_record("a"), [CurveRow("a", 1, "train", "loss", float("inf"))])

    export_curves(store, path)

    assert table(path) == [("a", 1, "train", "loss", None)]


def test_more_rows_than_are_copied_at_once_all_arrive(store, tmp_path, monkeypatch):
    monkeypatch.setattr("ullage.table._ROWS_AT_A_TIME", 3)
    records = [example_record(str(number)) for number in range(8)]
    fill(store, records)

    rows = export_runs(store, tmp_path / "runs.parquet")

    assert rows == len(records)
    assert table(tmp_path / "runs.parquet") == [dataclasses.astuple(record) for record in records]


@pytest.mark.parametrize("write", [export_runs, export_curves])
def test_an_older_file_is_replaced_and_nothing_left_beside_it(store, tmp_path, write):
    path = tmp_path / "it's 100% {mine}" / "it's.CSV"
    path.parent.mkdir()
    path.write_text("old")

    write(store, path)

    assert path.read_text().startswith("run_id,")
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_link_is_written_through(store, tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")

    export_runs(store, tmp_path / "link.csv")

    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("run_id,")


def test_a_file_is_as_open_to_others_as_one_that_anyone_makes(store, tmp_path):
    (tmp_path / "usual").touch()

    export_runs(store, tmp_path / "runs.csv")

    assert (tmp_path / "runs.csv").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("runs.xlsx", r"runs\.xlsx is neither \.csv nor \.parquet; choose"),
        ("runs", r"runs is neither \.csv nor \.parquet; choose"),
        (".csv", r"\.csv is neither \.csv nor \.parquet; choose"),
        ("missing/runs.csv", r"there is no folder .*missing; make it"),
        ("folder.csv", r"folder\.csv is a folder; give the name of a file"),
        ("n" * 300 + ".csv", r"cannot be written \(.*File name too long"),
    ],
    ids=["suffix", "no suffix", "only a suffix", "no folder", "folder", "too long"],
)
@pytest.mark.parametrize("write", [export_runs, export_curves])
def test_a_target_that_cannot_be_is_told(store, tmp_path, write, name, why):
    (tmp_path / "folder.csv").mkdir()

    with pytest.raises(BadInput, match=why):
        write(store, tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == ["folder.csv"]


@contextmanager
def without_privilege():
    """An administrator may write everywhere, so become nobody for a while."""
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_place_where_one_may_not_write_is_told(store, suffix):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        closed = Path(folder) / "closed"
        closed.mkdir(mode=0o555)

        with without_privilege(), pytest.raises(BadInput, match=r"cannot be written \(.*Permission denied"):
            export_runs(open_store(Path(folder) / "store"), closed / f"runs{suffix}")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_leaves_the_older_file_as_it_was(store, tmp_path, suffix):
    path = tmp_path / f"runs{suffix}"
    path.write_text("old")
    fill(store, [example_record(str(number)) for number in range(20)])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(BadInput, match="cannot be written"):
            export_runs(store, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert path.read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == [path.name, "store"]


@pytest.mark.parametrize("number", [2**63, 2**200])
def test_a_number_that_no_column_holds_is_told(store, tmp_path, number):
    fill(store, [dataclasses.replace(example_record("a"), level=number)])

    with pytest.raises(BadInput, match="does not fit into a table"):
        export_runs(store, tmp_path / "runs.csv")
    assert not (tmp_path / "runs.csv").exists()
