"""The contract suite of executors: what every executor promises, with jobs that only pretend to train.

`make(workers, perform)` gives an executor whose lanes do with a job what the function named by
`perform` (`module:function`) does: here `rehearse`, which has checkpoints and a record like a
training, but takes no time.

>>> watched = []
>>> record, curve = rehearse(example_job(0), lambda checkpoint: bool(watched.append(checkpoint.step)))
>>> watched, record.train_steps, len(curve)
([100], 100, 1)
"""

import contextlib
import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ullage import registry
from ullage.executor import Ended, Event, Executor, Progress
from ullage.job import Checkpoint, Job, Watch, describe_task, failure
from ullage.recipe import Recipe
from ullage.record import CurveRow, RunRecord, Status
from ullage.task import Family
from ullage.testing import Clause

REHEARSE = f"{__name__}:rehearse"
CHECKPOINTS = 3
STEPS = 100  # between two checkpoints
DEFECT = "defect"  # a job of the study of this name raises

Make = Callable[[int, str], Executor]


def example_job(seed: int, study: str = "") -> Job:
    """A job that can be told from others by its seed; what it would train does not matter."""
    family = Family(registry.member("task", registry.names("task")[0]))
    architecture = registry.member("architecture", registry.names("architecture")[0])()
    task = describe_task(family.at(family.levels[0]))
    return Job(task, Recipe(architecture).to_json(), seed, study=study)


def rehearse(job: Job, watch: Watch) -> tuple[RunRecord, tuple[CurveRow, ...]]:
    """Go through the checkpoints of a job without training; all numbers follow from its seed."""
    if job.study == DEFECT:
        raise ZeroDivisionError("a defect of the payload")
    steps, score = 0, job.seed / 7
    curve: list[CurveRow] = []
    go_on = True
    while go_on and len(curve) < CHECKPOINTS:
        steps, score = steps + STEPS, score / 3
        curve.append(CurveRow(job.run_id, steps, "validation", "score", score))
        go_on = watch(Checkpoint(steps, {"validation": {"score": score}}))
    status = Status.FINISHED if go_on else Status.PRUNED
    record = dataclasses.replace(failure(job, status, ""), score=score, train_steps=steps)
    return record, tuple(curve)


class Script:
    """A driver that gives jobs in order, stops some, and keeps account of all that it is told.

    It holds the last job back until the first has ended. Runs of `stopped` seeds are stopped at their
    second checkpoint; `breaks` raises at the first event.
    """

    def __init__(self, jobs: Sequence[Job], stopped: Sequence[int] = (), *, breaks: bool = False) -> None:
        self.jobs = list(jobs)
        self.stopped = stopped
        self.breaks = breaks
        self.asked: list[int] = []
        self.events: list[Event] = []
        self.asked_after_the_end = False
        self._given = 0
        self._ended = False

    def ask(self, lanes: int) -> Sequence[Job] | None:
        """Up to so many further jobs."""
        self.asked_after_the_end |= self._ended
        self.asked.append(lanes)
        self._ended = self._given == len(self.jobs)
        if self._ended:
            return None
        holds = len(self.jobs) > 1 and not any(isinstance(event, Ended) for event in self.events)
        last = min(self._given + lanes, len(self.jobs) - holds)
        given = self.jobs[self._given : last]
        self._given = last
        return given

    def tell(self, event: Event) -> bool:
        """Keep the event; answer whether the run goes on."""
        self.events.append(event)
        if self.breaks:
            raise KeyError("a defect of the driver")
        reached = isinstance(event, Progress) and event.checkpoint.step >= 2 * STEPS
        return not (reached and event.job.seed in self.stopped)

    @property
    def ends(self) -> list[Ended]:
        """The ends of jobs, in order."""
        return [event for event in self.events if isinstance(event, Ended)]

    @property
    def results(self) -> dict[int, tuple[dict[str, object], tuple[CurveRow, ...]]]:
        """What came of each job, by its seed."""
        return {end.job.seed: (dataclasses.asdict(end.record), end.curve) for end in self.ends}


@dataclasses.dataclass(frozen=True)
class _Seen:
    """What drivers saw: of the same jobs on one and on two lanes, of one job, and of a broken driver."""

    one_lane: Script
    two_lanes: Script
    one_job: Script
    broken_raised: str
    left: set[int]

    @property
    def scripts(self) -> tuple[Script, ...]:
        return self.one_lane, self.two_lanes, self.one_job


def check_executor(make: Make) -> list[Clause]:
    """Check all promises; `make` gives a new executor each time."""
    try:
        seen = _observe(make)
    except Exception as error:  # noqa: BLE001 - an executor may be anyone's, and fail in any way
        why = f"raised {type(error).__name__}: {error}"
        return [Clause(clause, passed=False, why=why) for clause in _PROMISES]
    return [_judged(clause, promise, seen) for clause, promise in _PROMISES.items()]


def _judged(clause: str, promise: Callable[[_Seen], str], seen: _Seen) -> Clause:
    try:
        why = promise(seen)
    except LookupError:
        why = "it cannot be told, because a job has not ended"
    return Clause(clause, passed=not why, why=why)


def _observe(make: Make) -> _Seen:
    jobs = [example_job(seed, DEFECT if seed == 3 else "") for seed in range(5)]
    before = child_processes()
    scripts = Script(jobs, stopped=[1]), Script(jobs, stopped=[1]), Script(jobs[:1])
    for workers, script in zip((1, 2, 3), scripts, strict=True):
        make(workers, REHEARSE).run(script.ask, script.tell)
    broken = Script(jobs, breaks=True)
    raised = "nothing"
    try:
        make(2, REHEARSE).run(broken.ask, broken.tell)
    except Exception as error:  # noqa: BLE001 - which one it was is what is checked
        raised = repr(error)
    return _Seen(*scripts, raised, child_processes() - before)


def child_processes() -> set[int]:
    """The processes that this one has started and not buried; none where the system has no /proc."""
    return {process for process, parent in _parents() if parent == os.getpid()}


def _parents() -> Iterator[tuple[int, int]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            after_name = path.read_text().rpartition(")")[2].split()
            yield int(path.parent.name), int(after_name[1])


# ── the promises ─────────────────────────────────────────────────────────────────────────────────


def _ends_each_once(seen: _Seen) -> str:
    for script in seen.scripts:
        counts = Counter(end.job.seed for end in script.ends)
        if counts != Counter(job.seed for job in script.jobs):
            return f"of {len(script.jobs)} jobs ended, by seed: {dict(counts)}"
    return ""


def _keeps_the_order(seen: _Seen) -> str:
    for script in seen.scripts:
        for job in script.jobs:
            own = [event for event in script.events if event.job == job]
            steps = [event.checkpoint.step for event in own if isinstance(event, Progress)]
            if steps != sorted(set(steps)) or not isinstance(own[-1], Ended):
                return f"the job of seed {job.seed} told its checkpoints {steps} and its end out of order"
    return ""


def _starts_in_order(seen: _Seen) -> str:
    order = [end.job.seed for end in seen.one_lane.ends]
    return "" if order == sorted(order) else f"one lane ran the jobs in the order {order}"


def _stops(seen: _Seen) -> str:
    for script in (seen.one_lane, seen.two_lanes):
        record, curve = script.results[1]
        if (record["status"], record["train_steps"], len(curve)) != (Status.PRUNED, 2 * STEPS, 2):
            return f"stopped at step {2 * STEPS} it ended {record['status']} at step {record['train_steps']}"
    return ""


def _runs_on(seen: _Seen) -> str:
    for script in (seen.one_lane, seen.two_lanes):
        for seed in (0, 2, 4):
            steps = script.results[seed][0]["train_steps"]
            if steps != CHECKPOINTS * STEPS:
                return f"the job of seed {seed} was not stopped and ended at step {steps}"
    return ""


def _survives_a_defect(seen: _Seen) -> str:
    for script in (seen.one_lane, seen.two_lanes):
        record = script.results[3][0]
        if record["status"] != Status.FAILED or "a defect of the payload" not in str(record["reason"]):
            return f"a job that raised ended {record['status']} because of {record['reason']!r}"
    return ""


def _gives_the_same(seen: _Seen) -> str:
    one, two = seen.one_lane.results, seen.two_lanes.results
    differ = [seed for seed in one if one[seed] != two[seed]]
    return f"on one lane and on two the jobs of seeds {differ} differ" if differ else ""


def _asks_for_its_lanes(seen: _Seen) -> str:
    for lanes, script in zip((1, 2, 3), seen.scripts, strict=True):
        if not all(1 <= count <= lanes for count in script.asked):
            return f"with {lanes} lanes it asked for {script.asked} jobs"
    return ""


def _asks_no_more(seen: _Seen) -> str:
    late = any(script.asked_after_the_end for script in seen.scripts)
    return "it asked again after None" if late else ""


def _passes_on_what_the_driver_raises(seen: _Seen) -> str:
    raised = seen.broken_raised
    return "" if raised == "KeyError('a defect of the driver')" else f"the driver raised, run raised {raised}"


def _leaves_nothing(seen: _Seen) -> str:
    return f"processes {sorted(seen.left)} are still there" if seen.left else ""


_PROMISES: dict[str, Callable[[_Seen], str]] = {
    "every job ends exactly once, with more jobs than lanes and with fewer": _ends_each_once,
    "events of one job come in order, its end last": _keeps_the_order,
    "jobs are started in the order in which they were given": _starts_in_order,
    "a run that is told to stop stops at that checkpoint": _stops,
    "a run that is not told to stop goes on to its end": _runs_on,
    "a job that raises ends as a failed run, and the others go on": _survives_a_defect,
    "results do not depend on the number of lanes": _gives_the_same,
    "it asks for as many jobs as it has free lanes at most": _asks_for_its_lanes,
    "it asks no more after None, and waits for what runs": _asks_no_more,
    "what the driver raises comes out of run": _passes_on_what_the_driver_raises,
    "nothing is left running": _leaves_nothing,
}
