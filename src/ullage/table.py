"""Runs as one table in one file, for those who go on with other tools: CSV or Parquet, by the suffix.

The columns are those of a record, in their order and with their types. The rows are sorted by what
was run, so that a campaign that was stored in another order gives the same table. In a CSV what is
unknown is empty, and a text that is empty is `""`.

>>> column_types(CurveRow)
{'run_id': 'VARCHAR', 'step': 'BIGINT', 'split': 'VARCHAR', 'metric': 'VARCHAR', 'value': 'DOUBLE'}
"""

import contextlib
import itertools
import math
import os
import typing
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import BadInput
from ullage.record import COLUMNS, CurveRow, RunRecord
from ullage.store import Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FORMATS = {".csv": "FORMAT csv, HEADER", ".parquet": "FORMAT parquet, COMPRESSION zstd"}
_COLUMN_TYPES = {int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
_RUN_ORDER = ("task", "level", "model_id", "technique", "phase", "seed", "run_id")
_CURVE_ORDER = ("run_id", "step", "split", "metric")
_ROWS_AT_A_TIME = 10_000  # as many as are copied into the table at once: a few tens of megabytes


def export_runs(store: Store, path: Path) -> int:
    """Write all runs of a store, one a row, to a `.csv` or `.parquet` file; the number of rows."""
    records = store.read().records.values()
    rows = (tuple(getattr(record, name) for name in COLUMNS) for record in records)
    return _write(rows, column_types(RunRecord), _RUN_ORDER, path)


def export_curves(store: Store, path: Path) -> int:
    """Write all checkpoints of all runs of a store, one number a row, likewise; the number of rows."""
    rows = ((*row[:-1], None if math.isnan(row.value) else row.value) for row in store.curves())
    return _write(rows, column_types(CurveRow), _CURVE_ORDER, path)


def column_types(row: type) -> dict[str, str]:
    """The SQL type of each field of a row."""
    hints = typing.get_type_hints(row)
    return {name: _COLUMN_TYPES[(typing.get_args(hint) or (hint,))[0]] for name, hint in hints.items()}


def _write(rows: Iterable[Sequence[Any]], types: dict[str, str], order: Sequence[str], path: Path) -> int:
    import duckdb

    with _told(path), _beside(path) as target, duckdb.connect() as connection:
        columns = ", ".join(f"{name} {kind}" for name, kind in types.items())
        connection.execute(f"CREATE TABLE exported ({columns})")
        count = _fill(connection, rows, types)
        query = f"SELECT * FROM exported ORDER BY {', '.join(order)}"  # noqa: S608 - names of ours
        name = str(target).replace("'", "''")
        connection.execute(f"COPY ({query}) TO '{name}' ({_FORMATS[target.suffix]})")
    return count


def _fill(connection: "DuckDBPyConnection", rows: Iterable[Sequence[Any]], types: dict[str, str]) -> int:
    """Copy rows into the table as one list a column: a statement a row takes a hundred times as long."""
    lists = ", ".join(f"unnest(${place}::{kind}[])" for place, kind in enumerate(types.values(), start=1))
    rest, count = iter(rows), 0
    while chunk := list(itertools.islice(rest, _ROWS_AT_A_TIME)):
        columns = [list(column) for column in zip(*chunk, strict=True)]
        connection.execute(f"INSERT INTO exported SELECT {lists}", columns)
        count += len(chunk)
    return count


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A file to write that takes the place of `path` when it is complete: no reader sees half a table."""
    suffix = path.suffix.lower()
    if suffix not in _FORMATS:
        raise BadInput(f"{path} is neither .csv nor .parquet; choose a name that ends in one of them")
    if path.is_dir():
        raise BadInput(f"{path} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent}; make it, or choose another place for {path.name}")
    place = path.resolve()
    target = place.with_name(f".ullage-export-{os.getpid()}{suffix}")
    try:
        yield target
        target.replace(place)
    finally:
        target.unlink(missing_ok=True)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """What the table or the disk refuses becomes a sentence."""
    import duckdb

    try:
        yield
    except (OSError, duckdb.IOException) as error:
        why = str(error).splitlines()[0]
        raise BadInput(f"{path} cannot be written ({why}); choose a place that you may write to") from None
    except (duckdb.ConversionException, duckdb.InvalidInputException) as error:
        why = str(error).splitlines()[0]
        raise BadInput(f"a run does not fit into a table ({why}); take its line out of the store") from None
