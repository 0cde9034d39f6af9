"""A store that ends with its process: for notebooks, tests and what need not be kept.

It keeps what a file would give back, so that nothing works here and fails on a disk.

>>> with MemoryStore.at(Path("anywhere")) as store:
...     store.read()
Contents(records={}, damaged_lines=0)
"""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from ullage.errors import BadInput
from ullage.record import CurveRow, RunRecord, from_json, tidy, to_json
from ullage.store import Contents, Store


class MemoryStore(Store):
    """Runs in memory; every store is a new and empty one, whatever its path."""

    def __init__(self) -> None:
        self._records: dict[str, RunRecord] = {}
        self._curves: dict[str, tuple[CurveRow, ...]] = {}
        self._is_locked = False

    @classmethod
    def at(cls, path: Path) -> "MemoryStore":  # noqa: ARG003 - a path says nothing here
        return cls()

    def append(self, record: RunRecord, curve: Iterable[CurveRow]) -> None:
        if not self._is_locked:
            raise RuntimeError("append needs the driver's lock: write `with store:` around it")
        kept, rows = from_json(to_json(record)), tidy(record, curve)
        known = self._records.get(kept.run_id)
        if known is None or kept.attempt >= known.attempt:
            self._records[kept.run_id] = kept
            self._curves[kept.run_id] = rows

    def read(self) -> Contents:
        return Contents(dict(self._records), 0)

    def curves(self, run_ids: Collection[str] | None = None) -> Iterator[CurveRow]:
        for run_id in list(self._records):
            if run_ids is None or run_id in run_ids:
                yield from self._curves[run_id]

    def lock(self) -> None:
        if self._is_locked:
            raise BadInput("this store has a driver already; wait until it ends, or use another store")
        self._is_locked = True

    def unlock(self) -> None:
        self._is_locked = False
