"""A study: make the runs that campaigns want and a store does not hold yet.

What is done is what the store holds. Killing the program loses at most the runs in flight: the same
study replays what is stored, comes to where it stopped, and goes on with the runs that it would have
made. What a campaign wants next never depends on how many workers there are: a batch is told in its
own order when all of it has ended, and idle workers turn to the next family meanwhile.
"""

import collections
import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from ullage.campaign import Planned
from ullage.executor import Event, Executor, Progress
from ullage.job import Checkpoint, Job
from ullage.record import EVIDENCE, Phase, RunRecord, Status
from ullage.store import Store

RETRIED = (Status.FAILED, Status.OUT_OF_MEMORY, Status.OUT_OF_TIME)


@dataclasses.dataclass(frozen=True)
class Watcher:
    """Who wants to know how a study goes; the defaults do not."""

    planned: Callable[[int, int], None] = lambda stored, missing: None
    recalled: Callable[[Sequence[RunRecord]], None] = lambda records: None
    left: Callable[[int], None] = lambda count: None
    started: Callable[[Planned], None] = lambda planned: None
    progressed: Callable[[Planned, int, float], None] = lambda planned, step, score: None
    ended: Callable[[Planned, RunRecord], None] = lambda planned, record: None
    family_ended: Callable[[str, Sequence[RunRecord]], None] = lambda family, records: None


class Wants(Protocol):
    """What a study asks of a campaign; see `ullage.campaign.Campaign`."""

    def batch(self) -> list[Planned]: ...
    def tell(self, planned: Planned, record: RunRecord) -> None: ...
    def goes_on(self, planned: Planned, checkpoint: Checkpoint) -> bool: ...
    def recall(self, planned: Planned, checkpoints: Sequence[Checkpoint]) -> None: ...
    def counts(self, planned: Planned) -> bool: ...


class Listed:
    """A campaign whose runs are given."""

    def __init__(self, runs: Sequence[Planned]) -> None:
        self._runs = list(runs)

    def batch(self) -> list[Planned]:
        """All of them, once."""
        runs, self._runs = self._runs, []
        return runs

    def tell(self, planned: Planned, record: RunRecord) -> None:
        """Nothing follows from a result."""

    def goes_on(self, planned: Planned, checkpoint: Checkpoint) -> bool:
        """Always."""
        del planned, checkpoint
        return True

    def recall(self, planned: Planned, checkpoints: Sequence[Checkpoint]) -> None:
        """Nothing is compared."""

    def counts(self, planned: Planned) -> bool:
        """Whether a run is evidence."""
        return planned.job.phase == Phase.FINAL


class _Course:
    """One campaign under way: its present batch, what of it has ended, what it has asked for so far."""

    def __init__(self, campaign: Wants) -> None:
        self.campaign = campaign
        self.asked: dict[str, Planned] = {}
        self.batch: dict[str, Planned] = {}
        self.ended: dict[str, RunRecord] = {}
        self.queue: collections.deque[Job] = collections.deque()
        self.over = False


class Study:
    """The driver of some campaigns and the only writer of its store."""

    def __init__(self, campaigns: Iterable[Wants], store: Store, *, retry_failed: bool = False) -> None:
        self.store = store
        self.known = store.read().records
        self.retry_failed = retry_failed
        self.records: dict[str, RunRecord] = {}
        self.new_runs = 0
        self.watcher = Watcher()
        self.deadline: float | None = None
        self.courses = [_Course(campaign) for campaign in campaigns]
        self._retried: set[str] = set()
        self._running: dict[str, _Course] = {}
        for course in self.courses:
            self._advance(course)

    @property
    def complete(self) -> bool:
        """Whether no campaign wants another run."""
        return all(course.over for course in self.courses)

    @property
    def evidence(self) -> list[RunRecord]:
        """The records that speak of capacity: finals of the recipes that won in the end."""
        return [
            self.records[run_id]
            for course in self.courses
            for run_id, planned in course.asked.items()
            if run_id in self.records and course.campaign.counts(planned)
        ]

    def run(self, executor: Executor, watcher: Watcher, minutes: float | None = None) -> None:
        """Make the missing runs; with `minutes`, start none after that time."""
        self.watcher = watcher
        self.deadline = None if minutes is None else time.monotonic() + 60 * minutes
        # A store that is refused is told before anything else; one that is only read needs no lock.
        with contextlib.nullcontext() if self.complete else self.store:
            watcher.planned(len(self.records), self._left())
            watcher.recalled(self.evidence)
            for course in self.courses:
                self._tell_if_over(course)
            if not self.complete:
                self._recall()
                executor.run(self.ask, self.tell)

    def ask(self, count: int) -> Sequence[Job] | None:
        """The next runs, of the first campaigns that have some; None when there are no more, or no time."""
        if self.complete or (self.deadline is not None and time.monotonic() >= self.deadline):
            return None
        chosen: list[Job] = []
        for course in self.courses:
            while course.queue and len(chosen) < count:
                job = course.queue.popleft()
                self._running[job.run_id] = course
                self.watcher.started(course.batch[job.run_id])
                chosen.append(job)
        return chosen

    def tell(self, event: Event) -> bool:
        """Keep what has ended, and ask the campaign whether what goes on should."""
        course = self._running[event.job.run_id]
        planned = course.batch[event.job.run_id]
        if isinstance(event, Progress):
            score = event.checkpoint.scores["validation"].get("score", 0.0)
            self.watcher.progressed(planned, event.checkpoint.step, score)
            return course.campaign.goes_on(planned, event.checkpoint)
        self.store.append(event.record, event.curve)
        del self._running[event.job.run_id]
        self._retried.add(event.job.run_id)
        self.known[event.job.run_id] = event.record
        self.new_runs += 1
        self.watcher.ended(planned, event.record)
        self._settle(course, event.job.run_id)
        if not course.queue and len(course.ended) == len(course.batch):
            self._advance(course)
            self._tell_if_over(course)
        self.watcher.left(self._left())
        return True

    def _left(self) -> int:
        """How many runs are wanted now and not begun; an adaptive campaign may want more after them."""
        return sum(len(course.queue) for course in self.courses)

    # ── batches ───────────────────────────────────────────────────────────────────────────────

    def _advance(self, course: _Course) -> None:
        """Tell a finished batch and take the next, until one has something that the store does not hold."""
        while not course.over and len(course.ended) == len(course.batch):
            for run_id, planned in course.batch.items():
                course.campaign.tell(planned, course.ended[run_id])
            course.batch = {planned.job.run_id: planned for planned in course.campaign.batch()}
            course.ended = {}
            course.over = not course.batch
            course.asked |= course.batch
            for run_id, planned in course.batch.items():
                if self._is_settled(run_id):
                    self._settle(course, run_id)
                else:
                    course.queue.append(self._attempt(planned.job))

    def _settle(self, course: _Course, run_id: str) -> None:
        course.ended[run_id] = self.records[run_id] = self.known[run_id]

    def _is_settled(self, run_id: str) -> bool:
        record = self.known.get(run_id)
        again = self.retry_failed and run_id not in self._retried
        return record is not None and not (again and record.status in RETRIED)

    def _attempt(self, job: Job) -> Job:
        former = self.known.get(job.run_id)
        return dataclasses.replace(job, attempt=former.attempt + 1 if former else 1)

    def _tell_if_over(self, course: _Course) -> None:
        if course.over and course.asked:
            family = next(iter(course.asked.values())).family
            counted = [
                self.records[run_id]
                for run_id, planned in course.asked.items()
                if course.campaign.counts(planned)
            ]
            self.watcher.family_ended(family, counted)

    def _recall(self) -> None:
        """Remind campaigns of the curves of their stored trials, where trials are still to come."""
        trials = {
            run_id: (course, planned)
            for course in self.courses
            for run_id, planned in course.asked.items()
            if not course.over and planned.job.phase == Phase.SEARCH and run_id in self.records
        }
        if not trials:
            return
        curves: dict[str, dict[int, dict[str, dict[str, float]]]] = {}
        for row in self.store.curves():
            if row.run_id in trials:
                steps = curves.setdefault(row.run_id, {})
                steps.setdefault(row.step, {}).setdefault(row.split, {})[row.metric] = row.value
        for run_id, steps in curves.items():
            course, planned = trials[run_id]
            course.campaign.recall(planned, [Checkpoint(step, steps[step]) for step in sorted(steps)])


def is_evidence(record: RunRecord) -> bool:
    """Whether a run ended as runs should; a trial that was stopped by its rivals did."""
    return record.status in EVIDENCE or (record.phase == Phase.SEARCH and record.status == Status.PRUNED)
