"""Stores: the promises of every store, and those of a folder that drivers are killed in."""

import contextlib
import dataclasses
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import duckdb
import pytest

from ullage import registry
from ullage.errors import BadInput
from ullage.record import CurveRow, to_json
from ullage.store import Contents, Store, open_store
from ullage.stores.memory import MemoryStore
from ullage.testing_stores import check_store, example_curve, example_record

NOBODY = 65534  # the user that owns nothing, on every Linux


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def store(path):
    return open_store(path)


@pytest.fixture
def open_folder():
    """A folder that every user can enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextlib.contextmanager
def without_privilege():
    """An administrator may write everywhere, so become nobody for a while."""
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)


# ── every store ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", registry.names("store"))
def test_every_store_keeps_the_promises(name, tmp_path):
    member = registry.member("store", name)
    places = iter(tmp_path / str(number) for number in range(100))

    clauses = check_store(lambda: member.at(next(places)))

    assert [clause for clause in clauses if not clause.passed] == []
    assert len(clauses) == 13


def test_one_store_is_what_a_path_opens(path):
    defaults = [name for name in registry.names("store") if registry.member("store", name).default]

    assert len(defaults) == 1
    assert type(open_store(path)) is registry.member("store", defaults[0])


@dataclasses.dataclass
class BrokenStore(Store):
    """A good store with one defect."""

    defect: str
    good: MemoryStore = dataclasses.field(default_factory=MemoryStore)
    rows: list[CurveRow] = dataclasses.field(default_factory=list)

    @classmethod
    def at(cls, path):
        return cls(str(path))

    def append(self, record, curve):
        curve = tuple(curve)
        if self.defect == "writes without the lock" and not self.good._is_locked:
            self.good._records[record.run_id] = record
            return
        if self.defect == "takes any row":
            curve = [row for row in curve if row.run_id == record.run_id]
        if self.defect == "counts the last line":
            record = dataclasses.replace(record, attempt=1)
        if self.defect == "keeps the first" and record.run_id in self.good.read().records:
            return
        self.good.append(record, curve)
        self.rows.extend(curve)

    def read(self):
        if self.defect == "gives itself away":
            return Contents(self.good._records, 0)
        records = self.good.read().records
        if self.defect == "sorts":
            records = {run_id: records[run_id] for run_id in sorted(records)}
        if self.defect == "loses a text":
            records = {run_id: dataclasses.replace(one, task="x") for run_id, one in records.items()}
        if self.defect == "counts damage":
            return Contents(records, 1)
        if self.defect == "reads only at rest" and self.good._is_locked:
            raise OSError("busy")
        return Contents(records, 0)

    def curves(self, run_ids=None):
        if self.defect == "gives all rows":
            return iter(self.rows)
        rows = list(self.good.curves(None if self.defect == "gives all curves" else run_ids))
        if self.defect == "has no curves":
            rows = []
        if self.defect == "zero for nan":
            rows = [row._replace(value=row.value if row.value == row.value else 0.0) for row in rows]
        return iter(rows)

    def lock(self):
        if self.defect == "lets anyone write":
            self.good._is_locked = False
        self.good.lock()

    def unlock(self):
        if self.defect != "never unlocks":
            self.good.unlock()


@pytest.mark.parametrize(
    ("defect", "clause"),
    [
        ("none", ""),
        ("counts damage", "a new store is empty"),
        ("loses a text", "comes back as it was"),
        ("has no curves", "comes back as it was"),
        ("sorts", "in the order in which"),
        ("counts the last line", "the latest attempt counts"),
        ("keeps the first", "of two appends of one attempt"),
        ("gives all rows", "no number of a curve comes twice"),
        ("gives all curves", "of some runs"),
        ("zero for nan", "not finite"),
        ("takes any row", "rows of its own run"),
        ("writes without the lock", "needs the driver's lock"),
        ("lets anyone write", "one driver at a time"),
        ("never unlocks", "one driver at a time"),
        ("reads only at rest", "while a driver writes"),
        ("gives itself away", "cannot change what is stored"),
    ],
)
def test_the_suite_finds_a_defect(defect, clause):
    broken = [found.clause for found in check_store(lambda: BrokenStore(defect)) if not found.passed]

    assert any(clause in found for found in broken) == (defect != "none")


# ── a folder ─────────────────────────────────────────────────────────────────────────────────────


def test_opening_a_store_touches_nothing(store, path):
    assert store.read() == Contents({}, 0)
    assert list(store.curves()) == []
    assert not path.exists()


def test_a_store_is_four_files_that_say_what_they_are(store, path):
    with store:
        store.append(example_record("a"), example_curve("a"))

    assert sorted(file.name for file in path.iterdir()) == [
        "curves.jsonl",
        "driver.lock",
        "runs.jsonl",
        "ullage.json",
    ]
    assert json.loads((path / "ullage.json").read_text()) == {"ullage_store": 1}


def test_another_look_at_the_folder_sees_the_same(store, path):
    with store:
        store.append(example_record("a"), example_curve("a"))

    assert open_store(path).read() == store.read()
    assert list(open_store(path).curves()) == list(example_curve("a"))


def test_a_strangers_folder_is_refused_and_left_alone(store, path):
    path.mkdir()
    (path / "thesis.tex").write_text("dear")

    for attempt in (store.lock, store.read, lambda: list(store.curves())):
        with pytest.raises(BadInput, match=r"holds other files and no .*; choose an empty"):
            attempt()
    assert [file.name for file in path.iterdir()] == ["thesis.tex"]


def test_a_file_is_refused(store, path):
    path.write_text("dear")

    for attempt in (store.lock, store.read):
        with pytest.raises(BadInput, match="is a file; a store is a folder"):
            attempt()
    assert path.read_text() == "dear"


def test_a_place_inside_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("dear")

    with pytest.raises(BadInput, match="cannot be used as a store"):
        open_store(tmp_path / "file" / "store").lock()


@pytest.mark.parametrize(
    ("marker", "why"),
    [
        ('{"ullage_store": 2}', "store of version 2; this ullage reads 1"),
        ('{"ullage_store": "x"}', "store of version x; this ullage reads 1"),
        ('{"other": 1}', "is damaged; restore it"),
        ("[]", "is damaged; restore it"),
        ("", "is damaged; restore it"),
    ],
)
def test_a_marker_that_is_not_understood_is_refused(store, path, marker, why):
    path.mkdir()
    (path / "ullage.json").write_text(marker)

    for attempt in (store.lock, store.read):
        with pytest.raises(BadInput, match=why):
            attempt()
    assert [file.name for file in path.iterdir()] == ["ullage.json"]


@pytest.mark.parametrize("left", [[], ["driver.lock"], ["driver.lock", "ullage.json.new"]])
def test_a_store_that_was_being_made_is_made(store, path, left):
    path.mkdir()
    for name in left:
        (path / name).touch()

    assert store.read() == Contents({}, 0)
    with store:
        store.append(example_record("a"), ())
    assert list(open_store(path).read().records) == ["a"]


def test_a_place_where_one_may_not_write_is_refused(open_folder):
    (open_folder / "closed").mkdir(mode=0o555)
    store = open_store(open_folder / "closed" / "store")

    with without_privilege():
        with pytest.raises(
            BadInput, match=r"cannot be used as a store \(Permission denied\); choose a folder"
        ):
            store.lock()
        assert store.read() == Contents({}, 0)


def test_a_store_that_one_may_not_write_can_be_read(open_folder):
    store = open_store(open_folder / "store")
    with store:
        store.append(example_record("a"), example_curve("a"))
    for file in store.path.iterdir():
        file.chmod(0o444)

    with without_privilege():
        assert list(store.read().records) == ["a"]
        assert list(store.curves()) == list(example_curve("a"))
        with pytest.raises(BadInput, match=r"cannot be used as a store \(Permission denied\)"):
            store.lock()


# ── one driver ───────────────────────────────────────────────────────────────────────────────────


def program(path, body):
    """A process that has the store's lock and the names that `body` uses."""
    text = f"""
import os, signal, sys
from pathlib import Path
from ullage.store import open_store
from ullage.testing_stores import example_curve, example_record

store = open_store(Path({str(path)!r}))
store.lock()
{textwrap.dedent(body)}
"""
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)


def test_a_second_driver_is_told_who_writes_until_that_one_is_killed(store, path):
    with program(path, "print('locked', flush=True); signal.pause()") as holder:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(BadInput, match=rf"written by process {holder.pid} on .+ since \d{{4}}-.*; wait"):
            store.lock()
        assert store.read() == Contents({}, 0)
        holder.kill()

    with store:
        store.append(example_record("a"), ())
    assert list(store.read().records) == ["a"]


def test_who_writes_is_told_whatever_the_last_driver_left(store, path):
    with store:
        pass
    (path / "driver.lock").write_text("left behind " * 100)

    with store, pytest.raises(BadInput, match=f"written by process {os.getpid()} on"):
        open_store(path).lock()


def test_a_second_driver_is_told_even_if_the_first_has_not_said_who_it_is(store, path):
    with store:
        (path / "driver.lock").write_text("")
        with pytest.raises(BadInput, match="is written by another process"):
            open_store(path).lock()


def test_what_a_driver_started_does_not_keep_the_lock(store, path):
    body = """
    import subprocess
    program = [sys.executable, "-c", "import signal; print('runs', flush=True); signal.pause()"]
    child = subprocess.Popen(program, close_fds=False)
    print(child.pid, flush=True)
    signal.pause()
    """
    with program(path, body) as driver:
        said = {driver.stdout.readline().strip() for _ in range(2)}
        driver.kill()
        driver.wait()
        child = int((said - {"runs"}).pop())

        with store:
            store.append(example_record("a"), ())
        os.kill(child, signal.SIGKILL)
    assert list(store.read().records) == ["a"]


def test_a_driver_that_could_not_start_holds_nothing(store, path):
    with store:
        pass
    (path / "runs.jsonl").unlink()
    (path / "runs.jsonl").mkdir()
    with pytest.raises(BadInput, match="cannot be used as a store"):
        store.lock()
    (path / "runs.jsonl").rmdir()

    with open_store(path) as other:
        other.append(example_record("a"), ())
    assert list(store.read().records) == ["a"]


def test_leaving_a_store_twice_is_harmless(store):
    with store:
        store.unlock()

    with store:
        store.append(example_record("a"), ())
    assert list(store.read().records) == ["a"]


# ── a driver that is killed ──────────────────────────────────────────────────────────────────────

KILLED_BETWEEN_CURVE_AND_RECORD = """
flush = os.fsync
def flush_and_die(fd):
    flush(fd)
    os.kill(os.getpid(), signal.SIGKILL)
store.append(example_record("whole"), example_curve("whole"))
os.fsync = flush_and_die
store.append(example_record("killed"), example_curve("killed", 0.25))
"""

KILLED_IN_A_LINE = """
write = os.write
def write_half_and_die(fd, data):
    if data[-1:] == b"\\n" and {which} in bytes(data[:12]):
        write(fd, data[: len(data) - {missing}])
        os.kill(os.getpid(), signal.SIGKILL)
    return write(fd, data)
store.append(example_record("whole"), example_curve("whole"))
os.write = write_half_and_die
store.append(example_record("killed"), example_curve("killed", 0.25))
"""

IN_RECORD, IN_CURVE = 'b"schema"', 'b"run_id"'


@pytest.mark.parametrize(
    ("body", "found", "damaged"),
    [
        (KILLED_BETWEEN_CURVE_AND_RECORD, ["whole"], 0),
        (KILLED_IN_A_LINE.format(which=IN_RECORD, missing=40), ["whole"], 1),
        (KILLED_IN_A_LINE.format(which=IN_RECORD, missing=1), ["whole", "killed"], 0),
        (KILLED_IN_A_LINE.format(which=IN_CURVE, missing=40), ["whole"], 0),
        (KILLED_IN_A_LINE.format(which=IN_CURVE, missing=150), ["whole"], 0),
    ],
    ids=["between", "in the record", "before the newline", "in the curve", "in its first row"],
)
def test_a_killed_driver_loses_at_most_the_run_in_flight(store, path, body, found, damaged):
    with program(path, body) as writer:
        assert writer.wait(60) == -signal.SIGKILL

    assert store.read() == Contents({run_id: example_record(run_id) for run_id in found}, damaged)
    with store:
        store.append(example_record("killed"), example_curve("killed", 0.75))
        store.append(example_record("next"), example_curve("next"))
    ran = ["whole", "killed", "next"]
    assert store.read() == Contents({run_id: example_record(run_id) for run_id in ran}, damaged)
    assert list(store.curves()) == [
        *example_curve("whole"),
        *example_curve("killed", 0.75),
        *example_curve("next"),
    ]
    assert complete_rows(path, "runs.jsonl") == whole_lines(path, "runs.jsonl") >= len(ran)
    assert complete_rows(path, "curves.jsonl") == whole_lines(path, "curves.jsonl") >= 2 * len(ran)


def complete_rows(path, name):
    """The rows that another reader finds in a file."""
    query = f"SELECT count(run_id) FROM read_ndjson('{path / name}', ignore_errors = true)"
    return asked(query)[0][0]


def asked(query):
    with duckdb.connect() as connection:
        return connection.execute(query).fetchall()


def whole_lines(path, name):
    whole = 0
    for line in (path / name).read_text().splitlines():
        with contextlib.suppress(ValueError):
            whole += "run_id" in json.loads(line)
    return whole


def test_a_driver_killed_at_any_moment_has_kept_what_it_said(store, path):
    body = """
    for number in range(100_000):
        store.append(example_record(str(number)), example_curve(str(number)))
        print(number, flush=True)
    """
    with program(path, body) as writer:
        said = [writer.stdout.readline().strip() for _ in range(random.Random(0).randrange(20, 40))]
        writer.kill()
        said += writer.stdout.read().split()

    records, curves = store.read().records, list(store.curves())
    assert set(said) <= records.keys()
    assert len(records) <= len(said) + 1
    assert curves == [row for run_id in records for row in example_curve(run_id)]


def test_half_a_line_is_ended_and_not_glued_to_the_next(store, path):
    with store:
        store.append(example_record("a"), example_curve("a"))
    for name in ("runs.jsonl", "curves.jsonl"):
        text = (path / name).read_text()
        (path / name).write_text(text + text[:50])

    with store:
        store.append(example_record("b"), example_curve("b"))

    assert store.read() == Contents({run_id: example_record(run_id) for run_id in "ab"}, 1)
    assert list(store.curves()) == [*example_curve("a"), *example_curve("b")]
    assert [complete_rows(path, name) for name in ("runs.jsonl", "curves.jsonl")] == [2, 4]


def test_any_reader_reads_a_store_that_nobody_killed(store, path):
    hostile = dataclasses.replace(example_record("b"), task="\r\n\u2028\0\udcff 'é\U0001f9ea", score=None)
    with store:
        store.append(example_record("a"), example_curve("a"))
        store.append(hostile, [row._replace(value=float("inf")) for row in example_curve("b")])

    runs = asked(f"SELECT run_id, task, score FROM read_json_auto('{path / 'runs.jsonl'}')")
    curves = asked(f"SELECT run_id, step, value FROM read_ndjson('{path / 'curves.jsonl'}')")
    assert runs == [("a", "text", 0.5), ("b", "\r\n\u2028\0? 'é\U0001f9ea", None)]
    assert curves == [("a", 100, 0.5), ("a", 200, 0.5), ("b", 100, None), ("b", 200, None)]


# ── damage ───────────────────────────────────────────────────────────────────────────────────────


def test_damaged_lines_are_counted_and_passed_over(store, path):
    with store:
        store.append(example_record("a"), example_curve("a"))
    a, b = to_json(example_record("a")).encode(), to_json(example_record("b")).encode()
    damage = [
        b"not JSON",
        a + a,
        b'{"schema":99}',
        b"\xff\xfe",
        b"\0\0\0",
        a.replace(b'"seed":1', b'"seed":"1"'),
    ]
    (path / "runs.jsonl").write_bytes(b"\n".join([a, *damage, b"", b"  ", b, b""]))
    with (path / "curves.jsonl").open("ab") as curves:
        curves.write(b'not JSON\n[]\nnull\n\xff\n{"run_id":"a"}\n')
        row = {
            "run_id": "a",
            "attempt": 1,
            "row": 2,
            "step": 300,
            "split": "test",
            "metric": "score",
            "value": 1,
        }
        for damaged in (
            {"run_id": ["a"]},
            {"step": "300"},
            {"metric": None},
            {"value": "high"},
            {"value": []},
        ):
            curves.write(json.dumps({**row, **damaged}).encode() + b"\n")

    assert store.read() == Contents({run_id: example_record(run_id) for run_id in "ab"}, len(damage))
    assert list(store.curves()) == list(example_curve("a"))


def test_a_retry_that_was_killed_does_not_replace_the_curve_of_what_is_recorded(store, path):
    with store:
        store.append(example_record("a"), example_curve("a", 0.25))
    with store:
        store.append(dataclasses.replace(example_record("a"), attempt=2), example_curve("a", 0.75))
    runs = path / "runs.jsonl"
    runs.write_text(runs.read_text().splitlines()[0] + "\n")

    assert list(store.curves()) == list(example_curve("a", 0.25))


def test_the_longer_curve_of_a_killed_run_does_not_show_through(store, path):
    with store:
        store.append(example_record("a"), example_curve("a", 0.25))
    (path / "runs.jsonl").write_text("")

    with store:
        store.append(example_record("a"), example_curve("a", 0.75)[:1])

    assert list(store.curves()) == list(example_curve("a", 0.75)[:1])


# ── a disk that is full ──────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def file_size_limit(size_bytes):
    """No file of this process grows beyond this: Python ignores the signal, so that writing fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("full", ["curves.jsonl", "runs.jsonl"])
def test_a_full_disk_leaves_nothing_half_written(store, path, full):
    """The limit lets a part of the line through, as a disk does that fills up."""
    curve = [
        CurveRow("b", step, "test", "score", 0.5) for step in range(1000 if full == "curves.jsonl" else 1)
    ]
    with store:
        store.append(example_record("a"), example_curve("a"))
        before = {name: (path / name).read_bytes() for name in ("runs.jsonl", "curves.jsonl")}
        with (
            file_size_limit(len(before[full]) + 60),
            pytest.raises(BadInput, match=r"may not grow further; .*nothing that was stored is lost"),
        ):
            store.append(example_record("b"), curve)

        assert {name: (path / name).read_bytes() for name in before} == before
        store.append(example_record("b"), curve)
    assert store.read() == Contents({run_id: example_record(run_id) for run_id in "ab"}, 0)
    assert list(store.curves()) == [*example_curve("a"), *curve]


@pytest.mark.parametrize(("full", "other"), [("curves.jsonl", "runs.jsonl"), ("runs.jsonl", "curves.jsonl")])
def test_a_full_disk_is_told_in_one_sentence(store, path, full, other):
    with store:
        pass
    (path / full).unlink()
    (path / full).symlink_to("/dev/full")

    with store, pytest.raises(BadInput) as refused:
        store.append(example_record("a"), example_curve("a"))

    assert str(refused.value) == (
        f"the disk of {path} is full; free space and run the same command again: "
        "nothing that was stored is lost"
    )
    assert (path / other).read_bytes() == b""


# ── readers beside a driver ──────────────────────────────────────────────────────────────────────


def test_a_reader_beside_a_driver_sees_whole_runs(store, path):
    """Whoever finds a record finds its curve; at most the line that is being written looks damaged."""
    runs = [str(number) for number in range(150)]
    failures, ended = [], threading.Event()

    def read_on():
        reader = open_store(path)
        while not ended.is_set():
            records, damaged = reader.read()
            rows = {row.run_id for row in reader.curves()}
            if list(records) != runs[: len(records)] or damaged > 1 or not records.keys() <= rows:
                failures.append((list(records), damaged, rows))

    reading = threading.Thread(target=read_on)
    with store:
        reading.start()
        for run_id in runs:
            store.append(example_record(run_id), example_curve(run_id))
    ended.set()
    reading.join()

    assert failures == []
    assert list(store.read().records) == runs


def test_what_another_process_wrote_since_the_last_look_is_read(store, path):
    with store:
        store.append(example_record("a"), ())
    reader = open_store(path)
    before = set(reader.read().records)

    with store:
        store.append(example_record("b"), ())

    assert set(reader.read().records) > before


def test_a_store_is_parsed_once_and_what_a_reader_does_with_it_is_his_own(store, monkeypatch):
    with store:
        store.append(example_record("a"), ())
    first = store.read()
    monkeypatch.setattr("ullage.stores.jsonl.from_json", None)

    first.records.clear()

    assert len(store.read().records) == 1
