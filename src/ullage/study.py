"""A study: make the runs that a plan asks for and a store does not hold yet.

What is done is what the store holds. Killing the program loses at most the runs in flight; the same
plan goes on where it stopped, with the runs that it would have made.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence

from ullage.executor import Event, Executor, Progress
from ullage.job import Job
from ullage.protocol import Planned
from ullage.record import RunRecord, Status
from ullage.store import Store

RETRIED = (Status.FAILED, Status.OUT_OF_MEMORY, Status.OUT_OF_TIME)


@dataclasses.dataclass(frozen=True)
class Watcher:
    """Who wants to know how a study goes; the defaults do not."""

    planned: Callable[[int, int], None] = lambda total, settled: None
    started: Callable[[Planned], None] = lambda planned: None
    progressed: Callable[[Planned, int, float], None] = lambda planned, step, score: None
    ended: Callable[[Planned, RunRecord], None] = lambda planned, record: None
    family_ended: Callable[[str, Sequence[RunRecord]], None] = lambda family, records: None


class Study:
    """The driver of one plan and the only writer of its store."""

    def __init__(self, plan: Sequence[Planned], store: Store, *, retry_failed: bool = False) -> None:
        self.plan = {planned.job.run_id: planned for planned in plan}
        self.store = store
        known = store.read().records
        self.records = {run_id: known[run_id] for run_id in self.plan if run_id in known}
        again = {run_id for run_id, record in self.records.items() if record.status in RETRIED}
        self.settled = self.records.keys() - (again if retry_failed else set())
        self.queue = [self._attempt(run_id) for run_id in self.plan if run_id not in self.settled]
        self.new_runs = 0
        self.watcher = Watcher()
        self.deadline: float | None = None

    def _attempt(self, run_id: str) -> Job:
        former = self.records.get(run_id)
        return dataclasses.replace(self.plan[run_id].job, attempt=former.attempt + 1 if former else 1)

    @property
    def complete(self) -> bool:
        """Whether every run of the plan is settled."""
        return len(self.settled) == len(self.plan)

    def run(self, executor: Executor, watcher: Watcher, minutes: float | None = None) -> None:
        """Make the missing runs; with `minutes`, start none after that time."""
        self.watcher = watcher
        self.deadline = None if minutes is None else time.monotonic() + 60 * minutes
        # A store that is refused is told before anything else; one that is only read needs no lock.
        with self.store if self.queue else contextlib.nullcontext():
            watcher.planned(len(self.plan), len(self.settled))
            for family in dict.fromkeys(planned.family for planned in self.plan.values()):
                self._tell_if_settled(family)
            if self.queue:
                executor.run(self.ask, self.tell)

    def ask(self, count: int) -> Sequence[Job] | None:
        """The next missing runs; None when there are no more, or no more time."""
        late = self.deadline is not None and time.monotonic() >= self.deadline
        if late or not self.queue:
            return None
        chosen, self.queue = self.queue[:count], self.queue[count:]
        for job in chosen:
            self.watcher.started(self.plan[job.run_id])
        return chosen

    def tell(self, event: Event) -> bool:
        """Keep what has ended, pass on what goes on; a run of a grid is never stopped."""
        planned = self.plan[event.job.run_id]
        if isinstance(event, Progress):
            score = event.checkpoint.scores["validation"].get("score", 0.0)
            self.watcher.progressed(planned, event.checkpoint.step, score)
            return True
        self.store.append(event.record, event.curve)
        self.records[planned.job.run_id] = event.record
        self.settled = self.settled | {planned.job.run_id}
        self.new_runs += 1
        self.watcher.ended(planned, event.record)
        self._tell_if_settled(planned.family)
        return True

    def _tell_if_settled(self, family: str) -> None:
        wanted = [run_id for run_id, planned in self.plan.items() if planned.family == family]
        if self.settled.issuperset(wanted):
            self.watcher.family_ended(family, [self.records[run_id] for run_id in wanted])
