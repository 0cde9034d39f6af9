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


class Crew(abc.ABC):
    """The lanes of one `run`, for executors that have several."""

    def __init__(self, size: int) -> None:
        self.size = size

    @property
    @abc.abstractmethod
    def busy(self) -> int:
        """How many lanes have a job."""

    @abc.abstractmethod
    def assign(self, jobs: Sequence[Job]) -> None:
        """Give jobs, no more than there are free lanes, to free lanes."""

    @abc.abstractmethod
    def serve(self, tell: Tell) -> None:
        """Wait until a lane wants something, and see to it."""

    @abc.abstractmethod
    def dismiss(self) -> None:
        """End all lanes, busy or not."""

    def run(self, ask: Ask, tell: Tell) -> None:
        """Keep the lanes busy until there are no more jobs; all are dismissed, however it ends."""
        try:
            more = self._fill(ask)
            while self.busy:
                self.serve(tell)
                more = more and self._fill(ask)
            if more:
                raise RuntimeError("no job was given and none is running, so nothing can ever be told")
        finally:
            self.dismiss()

    def _fill(self, ask: Ask) -> bool:
        """Give the free lanes what `ask` has for them; answers whether there may be more later."""
        while free := self.size - self.busy:
            jobs = ask(free)
            if not jobs:
                return jobs is not None
            if len(jobs) > free:
                raise RuntimeError(f"{len(jobs)} jobs were given where {free} were asked for")
            self.assign(jobs)
        return True


def make_executor(workers: int) -> Executor:
    """The executor that the command line uses, with this many workers."""
    members = [registry.member("executor", name) for name in registry.names("executor")]
    default = next(member for member in members if member.default)  # type: ignore[attr-defined]
    return default.with_workers(workers)  # type: ignore[attr-defined]
