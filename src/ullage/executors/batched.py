"""Jobs of one shape trained at once, by `vmap`, in this process: for what one model does not fill, as a GPU.

    lane 1 ─┐                      ┌─ lane 1
    lane 2 ─┼─ the same function ─▶┤─ lane 2        one program works on all lanes
    lane 3 ─┘                      └─ lane 3

Every lane is a thread that performs its job as any executor would. Where its run asks for steps or for
answers (`ullage.together`), it waits until every other lane asks too or has ended; calls of one shape are
then made at once and the rest one by one. Lanes may differ in seed, level, learning rate and every other
number, and each stops by itself: a lane that is solved, has diverged or is at its limit gets the next job
while the others go on. The driver's functions are called from the thread of `run` alone, in the order of
the lanes, so that nothing depends on which thread was faster.

What it gives agrees with `Serial` to rounding. Where memory does not suffice for all lanes at once, calls
are made one by one.

>>> from ullage.testing_executors import REHEARSE, example_job
>>> jobs = [[example_job(0), example_job(1)], None]
>>> Batched(2, REHEARSE).run(lambda lanes: jobs.pop(0), lambda event: print(type(event).__name__) is None)
Progress
Progress
Progress
Progress
Progress
Progress
Ended
Ended
"""

import dataclasses
import queue
import threading
from collections.abc import Sequence
from typing import Any

import jax

from ullage import together
from ullage.errors import BadInput
from ullage.executor import Ask, Crew, Ended, Executor, Progress, Tell
from ullage.job import Checkpoint, Job
from ullage.record import CurveRow, RunRecord
from ullage.worker import PERFORM, Perform, attempt, check_precision, function_named


@dataclasses.dataclass(frozen=True)
class Batched(Executor):
    """So many lanes in this process; `perform` names what is done with a job (see `ullage.worker`)."""

    lanes: int
    perform: str = PERFORM

    def __post_init__(self) -> None:
        if self.lanes < 1:
            raise BadInput(f"lanes={self.lanes} is too few; choose 1 or more")

    @classmethod
    def with_workers(cls, workers: int) -> "Batched":
        return cls(workers)

    def run(self, ask: Ask, tell: Tell) -> None:
        _Crew(self.lanes, function_named(self.perform)).run(ask, tell)


@dataclasses.dataclass(frozen=True)
class _Call:
    """A lane wants a function called."""

    function: together.Function
    fixed: tuple[Any, ...]
    arrays: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class _End:
    """A lane's job has ended."""

    record: RunRecord
    curve: tuple[CurveRow, ...]


_Wish = _Call | Checkpoint | _End | BaseException


class _Dismissed(BaseException):
    """Ends a lane whose driver has ended: no payload catches it as an error of its own."""


class _Lane:
    """A thread with a job; it has one wish at a time and waits for the answer."""

    def __init__(self, job: Job, perform: Perform) -> None:
        self.job = job
        self._perform = perform
        self._wishes: queue.SimpleQueue[_Wish] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def wish(self) -> _Wish:
        """Wait until the lane wants something."""
        return self._wishes.get()

    def answer(self, found: Any) -> None:
        """What the lane was waiting for; an exception is raised there."""
        self._answers.put(found)

    def dismiss(self) -> None:
        """End the thread where it waits."""
        self.answer(_Dismissed())
        self._thread.join()

    def _want(self, wish: _Wish) -> Any:
        self._wishes.put(wish)
        found = self._answers.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def _work(self) -> None:
        try:
            with together.calling(lambda *wanted: self._want(_Call(*wanted))):
                self._wishes.put(_End(*attempt(self._perform, self.job, self._want)))
        except _Dismissed:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised again in the thread of `run`
            self._wishes.put(error)


class _Crew(Crew):
    """The threads of one `run`."""

    def __init__(self, size: int, perform: Perform) -> None:
        super().__init__(size)
        self._perform = perform
        self._lanes: list[_Lane] = []

    @property
    def busy(self) -> int:
        return len(self._lanes)

    def assign(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            check_precision(job)
            self._lanes.append(_Lane(job, self._perform))

    def serve(self, tell: Tell) -> None:
        """Wait until every lane wants something, and give it to them."""
        wishes = [(lane, lane.wish()) for lane in self._lanes]
        calls = [(lane, wish) for lane, wish in wishes if isinstance(wish, _Call)]
        for lane, wish in wishes:
            if isinstance(wish, BaseException):
                self._lanes.remove(lane)
                raise wish
            if isinstance(wish, Checkpoint):
                lane.answer(bool(tell(Progress(lane.job, wish))))
            if isinstance(wish, _End):
                self._lanes.remove(lane)
                tell(Ended(lane.job, wish.record, wish.curve))
        _make(calls)

    def dismiss(self) -> None:
        for lane in self._lanes:
            lane.dismiss()


def _make(calls: list[tuple[_Lane, _Call]]) -> None:
    """Make calls of one shape at once."""
    groups: dict[Any, list[tuple[_Lane, _Call]]] = {}
    for lane, call in calls:
        groups.setdefault(together.shape_of(call.function, call.fixed, call.arrays), []).append((lane, call))
    for group in groups.values():
        for (lane, _), found in zip(group, _results([call for _, call in group]), strict=True):
            lane.answer(found)


def _results(calls: list[_Call]) -> list[Any]:
    first = calls[0]
    try:
        return together.call_many(first.function, first.fixed, [call.arrays for call in calls])
    except jax.errors.JaxRuntimeError:  # all at once do not fit: one by one, each with its own error
        return [_result(call) for call in calls]


def _result(call: _Call) -> Any:
    try:
        return together.alone(call.function, call.fixed, call.arrays)
    except Exception as error:  # noqa: BLE001 - it is raised again in the lane that asked
        return error
