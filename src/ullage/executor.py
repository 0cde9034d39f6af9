"""The contract of an executor: keep lanes busy with jobs, report what happens in them.

    ask(n)       up to n further jobs; an empty list while nothing can be started, None for "no more"
    tell(event)  a checkpoint (the answer says whether the run goes on) or the end of a run

An empty list while nothing runs would wait for ever: it is a defect of the caller and raises.
Only the caller of `run`, the driver, writes the store. `run` returns when `ask` has answered None
and every job has ended; it calls both functions from one thread.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import ClassVar

from ullage import registry
from ullage.job import Checkpoint, Job
from ullage.record import CurveRow, RunRecord


@dataclasses.dataclass(frozen=True)
class Progress:
    """A job has come to a checkpoint."""

    job: Job
    checkpoint: Checkpoint


@dataclasses.dataclass(frozen=True)
class Ended:
    """A job has ended, well or badly; the record tells."""

    job: Job
    record: RunRecord
    curve: tuple[CurveRow, ...]


Event = Progress | Ended
Ask = Callable[[int], Sequence[Job] | None]
Tell = Callable[[Event], bool]


class Executor(abc.ABC):
    """Where jobs run."""

    default: ClassVar[bool] = False  # the member that the command line uses

    @classmethod
    @abc.abstractmethod
    def with_workers(cls, workers: int) -> "Executor":
        """An executor with this many lanes."""

    @abc.abstractmethod
    def run(self, ask: Ask, tell: Tell) -> None:
        """Run jobs until there are no more; leaves nothing running, however it ends."""


def make_executor(workers: int) -> Executor:
    """The executor that the command line uses, with this many workers."""
    members = [registry.member("executor", name) for name in registry.names("executor")]
    default = next(member for member in members if member.default)  # type: ignore[attr-defined]
    return default.with_workers(workers)  # type: ignore[attr-defined]
