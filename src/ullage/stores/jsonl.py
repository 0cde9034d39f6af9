r"""The store on a disk: a folder of JSON lines, which every tool reads.

    ullage.json    says that the folder is a store, and of which version
    runs.jsonl     the records, one a line
    curves.jsonl   the numbers of all checkpoints, one a line
    driver.lock    held by the one driver that writes; says who that is

Both tables only grow, and the curve of a run is on the disk before its record is. A driver that is
killed leaves at most a curve without a record, or half a line; the next driver ends that line, and
readers pass over both. Other readers must be told to: in DuckDB, `ignore_errors=true`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder, JsonlStore.at(Path(folder) / "store") as store:
...     sorted(file.name for file in store.path.iterdir())
['curves.jsonl', 'driver.lock', 'runs.jsonl', 'ullage.json']
"""

import contextlib
import errno
import fcntl
import json
import math
import operator
import os
import platform
import re
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ullage.errors import BadInput
from ullage.record import CurveRow, RunRecord, from_json, tidy, to_json
from ullage.store import KEPT, Contents, Store

VERSION = 1
MARKER = "ullage.json"
NEW_MARKER = "ullage.json.new"
RUNS = "runs.jsonl"
CURVES = "curves.jsonl"
LOCK = "driver.lock"

# What a driver that was killed while it made a store may have left, and what a fit of other runs keeps
# where a store may be made later: not yet one, but no stranger's.
_UNMADE = {LOCK, NEW_MARKER, KEPT}

_IN_ROW = operator.itemgetter("attempt", "row", *CurveRow._fields)

_RUN_ID = re.compile(rb'\{"run_id":"([^"\\]*)",')

_AGAIN = "and run the same command again: nothing that was stored is lost"
_REFUSALS = {
    errno.ENOSPC: f"the disk of {{}} is full; free space {_AGAIN}",
    errno.EDQUOT: f"the disk quota of {{}} is used up; free space {_AGAIN}",
    errno.EFBIG: f"a file of {{}} may not grow further; raise the limit of file size {_AGAIN}",
    errno.EIO: f"the disk of {{}} fails; mend it {_AGAIN}",
}


class _Opened(NamedTuple):
    """What a driver holds open."""

    curves: int
    runs: int
    closing: contextlib.ExitStack


class _Row(NamedTuple):
    """A line of the curves; `row` counts the lines of one append from 0."""

    attempt: int
    row: int
    curve: CurveRow


class JsonlStore(Store):
    """Runs in a folder."""

    default = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened: _Opened | None = None
        # The table of runs as it was last read, with what the file looked like before.
        self._last_read: tuple[tuple[int, ...] | None, Contents] | None = None

    @classmethod
    def at(cls, path: Path) -> "JsonlStore":
        return cls(path)

    def append(self, record: RunRecord, curve: Iterable[CurveRow]) -> None:
        if self._opened is None:
            raise RuntimeError("append needs the driver's lock: write `with store:` around it")
        line = f"{to_json(record)}\n".encode()
        rows = _curve_lines(record, curve)
        sizes = {fd: os.fstat(fd).st_size for fd in (self._opened.curves, self._opened.runs)}
        with _told(self.path):
            try:
                _write(self._opened.curves, rows)
                _write(self._opened.runs, line)
            except OSError:
                _cut(sizes)
                raise

    def read(self) -> Contents:
        state = _state_of(self.path / RUNS)
        if self._last_read is None or state is None or self._last_read[0] != state:
            self._last_read = state, self._parsed_runs()
        contents = self._last_read[1]
        return Contents(dict(contents.records), contents.damaged_lines)

    def _parsed_runs(self) -> Contents:
        records: dict[str, RunRecord] = {}
        damaged_lines = 0
        for line in self._lines(RUNS):
            record = _parsed(line)
            if record is None:
                damaged_lines += 1
                continue
            known = records.get(record.run_id)
            if known is None or record.attempt >= known.attempt:
                records[record.run_id] = record
        return Contents(records, damaged_lines)

    def curves(self, run_ids: Collection[str] | None = None) -> Iterator[CurveRow]:
        records = self.read().records
        wanted = records.keys() if run_ids is None else records.keys() & set(run_ids)
        attempts = {run_id: records[run_id].attempt for run_id in wanted}
        # A run that was made again, because the first time was killed before its record was
        # written, has two curves of one attempt: the last append counts.
        last = {row.curve.run_id: place for place, row in self._rows(attempts)}
        for place, row in self._rows(attempts):
            if last.get(row.curve.run_id) == place:
                yield row.curve

    def lock(self) -> None:
        with _told(self.path), contextlib.ExitStack() as opening:
            is_made = _is_store(self.path)
            self.path.mkdir(parents=True, exist_ok=True)
            _become_driver(self.path, opening)
            if not is_made:
                _write_marker(self.path)
            curves, runs = (_open_table(self.path / name, opening) for name in (CURVES, RUNS))
            _flush_folder(self.path)
            self._opened = _Opened(curves, runs, opening.pop_all())

    def unlock(self) -> None:
        if self._opened is not None:
            self._opened.closing.close()
            self._opened = None

    def _lines(self, name: str) -> Iterator[bytes]:
        with _told(self.path):
            if not _is_store(self.path) or not (self.path / name).exists():
                return
            with (self.path / name).open("rb") as file:
                yield from (line for line in file if line.strip())

    def _rows(self, attempts: dict[str, int]) -> Iterator[tuple[int, _Row]]:
        """The rows of these attempts, each with the number of the append that wrote it."""
        append, known = 0, {None, *attempts}
        for line in self._lines(CURVES):
            if _run_of(line) not in known:
                continue
            row = _parsed_row(line)
            if row is not None:
                append += row.row == 0
                if attempts.get(row.curve.run_id) == row.attempt:
                    yield append, row


def _state_of(path: Path) -> tuple[int, ...] | None:
    """What changes when a file is written to; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


# ── lines ────────────────────────────────────────────────────────────────────────────────────────


def _curve_lines(record: RunRecord, curve: Iterable[CurveRow]) -> bytes:
    lines = []
    for number, row in enumerate(tidy(record, curve)):
        known = {"run_id": row.run_id, "attempt": record.attempt, "row": number}
        value = None if math.isnan(row.value) else row.value
        lines.append(json.dumps({**known, **row._asdict(), "value": value}, separators=(",", ":")))
    return "".join(f"{line}\n" for line in lines).encode()


def _parsed(line: bytes) -> RunRecord | None:
    try:
        return from_json(line.decode())
    except ValueError:  # not UTF-8, or no record: `BadInput` is a ValueError too
        return None


def _run_of(line: bytes) -> str | None:
    """The run of a row as we write it, without reading the rest; None where it must be read."""
    found = _RUN_ID.match(line)
    return found[1].decode(errors="replace") if found else None


def _parsed_row(line: bytes) -> _Row | None:
    try:
        attempt, row, run_id, step, split, metric, value = _IN_ROW(json.loads(line))
        value = math.nan if value is None else float(value)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if tuple(map(type, (run_id, step, split, metric))) != (str, int, str, str):
        return None
    return _Row(attempt, row, CurveRow(run_id, step, split, metric, value))


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def _write(fd: int, data: bytes) -> None:
    """Write all and see it on the disk; a disk that is nearly full takes only a part at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.fsync(fd)


def _cut(sizes: dict[int, int]) -> None:
    """Take back what was half written, as far as a failing disk lets us."""
    for fd, size in sizes.items():
        with contextlib.suppress(OSError):
            os.ftruncate(fd, size)
            os.fsync(fd)


def _open_table(path: Path, opening: contextlib.ExitStack) -> int:
    """Open a table to write at its end, and end the half line that a killed driver left there."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    opening.callback(os.close, fd)
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        _write(fd, b"\n")
    return fd


def _flush_folder(path: Path) -> None:
    """See the names of new files on the disk: a file that no folder names is lost in a crash."""
    for folder in (path, path.absolute().parent):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


# ── whose folder it is ───────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """What the system refuses becomes a sentence."""
    try:
        yield
    except OSError as error:
        other = (
            f"{{}} cannot be used as a store ({error.strerror}); choose a folder that you may read and write"
        )
        raise BadInput(_REFUSALS.get(error.errno or 0, other).format(path)) from None


def _is_store(path: Path) -> bool:
    """Whether a store stands there, or none yet; what is neither is an error."""
    if not path.exists():
        return False
    if not path.is_dir():
        raise BadInput(f"{path} is a file; a store is a folder: choose another path")
    names = {file.name for file in path.iterdir()}
    if MARKER in names:
        _check_marker(path)
        return True
    if names - _UNMADE:
        raise BadInput(f"{path} holds other files and no {MARKER}; choose an empty or a new folder")
    return False


def _check_marker(path: Path) -> None:
    try:
        version = json.loads((path / MARKER).read_bytes())["ullage_store"]
    except (ValueError, KeyError, TypeError):
        text = json.dumps({"ullage_store": VERSION})
        raise BadInput(f"{path / MARKER} is damaged; restore it, its text is {text}") from None
    if version != VERSION:
        raise BadInput(
            f"{path} is a store of version {version}; this ullage reads {VERSION}: use a newer one"
        )


def _write_marker(path: Path) -> None:
    """The marker appears whole or not at all."""
    (path / NEW_MARKER).write_text(json.dumps({"ullage_store": VERSION}) + "\n", encoding="utf-8")
    (path / NEW_MARKER).replace(path / MARKER)


def _become_driver(path: Path, opening: contextlib.ExitStack) -> None:
    """Take the lock, which the system frees when its holder ends, however that is."""
    fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    opening.callback(os.close, fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(os.pread(fd, 4096, 0))
        raise BadInput(f"{path} is written by {holder}; wait until it ends, or use another store") from None
    since = datetime.now(UTC).isoformat(timespec="seconds")
    text = json.dumps({"pid": os.getpid(), "host": platform.node(), "since": since}).encode() + b"\n"
    os.pwrite(fd, text, 0)
    os.ftruncate(fd, len(text))


def _holder(text: bytes) -> str:
    try:
        known = json.loads(text)
        return f"process {known['pid']} on {known['host']} since {known['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
