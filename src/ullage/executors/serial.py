"""Jobs run in this process, one at a time: for notebooks, debuggers and tests.

XLA adds numbers up in an order that depends on how many threads it has. Runs made here agree with
those of worker processes, which have one, to rounding; bit for bit only with PJRT_NPROC=1 in the
environment before jax is imported.

>>> from ullage.executor import Ended
>>> from ullage.testing_executors import REHEARSE, example_job
>>> jobs = [[example_job(0)], None]
>>> Serial(REHEARSE).run(lambda lanes: jobs.pop(0), lambda event: print(type(event).__name__) is None)
Progress
Progress
Progress
Ended
"""

import dataclasses

from ullage.executor import Ask, Ended, Executor, Progress, Tell
from ullage.job import Checkpoint, Job
from ullage.worker import PERFORM, attempt, check_precision, function_named


@dataclasses.dataclass(frozen=True)
class Serial(Executor):
    """One lane, which is this process; `perform` names what is done with a job (see `ullage.worker`)."""

    perform: str = PERFORM

    @classmethod
    def with_workers(cls, workers: int) -> "Serial":
        """One lane, however many are asked for: results do not depend on their number."""
        del workers
        return cls()

    def run(self, ask: Ask, tell: Tell) -> None:
        while (jobs := ask(1)) is not None:
            if not jobs:
                raise RuntimeError("no job was given and none is running, so nothing can ever be told")
            for job in jobs:
                self._run_one(job, tell)

    def _run_one(self, job: Job, tell: Tell) -> None:
        check_precision(job)
        raised: list[Exception] = []

        def watch(checkpoint: Checkpoint) -> bool:
            # Performing turns what is raised inside it into a failed run. What the driver raises is
            # not the run's fault: it is kept, the run is stopped, and then it goes on its way.
            try:
                return tell(Progress(job, checkpoint))
            except Exception as error:  # noqa: BLE001 - raised again below
                raised.append(error)
                return False

        record, curve = attempt(function_named(self.perform), job, watch)
        if raised:
            raise raised[0]
        tell(Ended(job, record, curve))
