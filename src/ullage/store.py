"""The contract of a store: append a finished run, read all runs. Nothing is ever changed or removed.

A record and its curve are appended together; a reader that finds the record finds the curve. One
driver writes a store at a time, readers may read meanwhile.
"""

import abc
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

from ullage import registry
from ullage.record import CurveRow, RunRecord

KEPT = "posteriors"  # the folder of fits that may stand beside the runs of a store


class Contents(NamedTuple):
    """What a store holds: one record a run (its last attempt), and how many lines were damaged."""

    records: dict[str, RunRecord]
    damaged_lines: int


class Store(abc.ABC):
    """Where runs are kept."""

    default: ClassVar[bool] = False  # the member that a path on the command line opens

    @classmethod
    @abc.abstractmethod
    def at(cls, path: Path) -> "Store":
        """The store at a path; opening makes nothing and changes nothing."""

    @abc.abstractmethod
    def append(self, record: RunRecord, curve: Iterable[CurveRow]) -> None:
        """Keep one run; when this returns, the run survives a crash. Needs the driver's lock."""

    @abc.abstractmethod
    def read(self) -> Contents:
        """All runs, one record a run_id: the one of the latest attempt, in order of appearance."""

    @abc.abstractmethod
    def curves(self, run_ids: Collection[str] | None = None) -> Iterator[CurveRow]:
        """The long table of all checkpoints of the runs that `read` returns, no row twice.

        With `run_ids`, only of these runs: a store holds a thousand times as many checkpoints as runs.
        """

    @abc.abstractmethod
    def lock(self) -> None:
        """Become the one driver that writes; `BadInput` names the holder if there is another.

        Makes the store if there is none, and ends an unfinished last line.
        """

    @abc.abstractmethod
    def unlock(self) -> None:
        """Let another driver write."""

    def __enter__(self) -> "Store":
        self.lock()
        return self

    def __exit__(self, *_: object) -> None:
        self.unlock()


def open_store(path: Path) -> Store:
    """The store at a path, of the kind that the command line uses."""
    members = [registry.member("store", name) for name in registry.names("store")]
    default = next(member for member in members if member.default)  # type: ignore[attr-defined]
    return default.at(path)  # type: ignore[attr-defined]
