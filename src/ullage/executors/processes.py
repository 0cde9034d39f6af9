"""Jobs run in processes of our own, one XLA thread each.

    driver ──job, answers──▶ standard input    worker    standard output ──checkpoints, record──▶ driver
                                               standard error ──▶ a file, read only when it dies

A worker that dies takes its own job with it and no other: the job ends as a failed run whose reason
names the signal and the worker's last words, and the next job gets a new worker. Workers are hired
when there is a job for them, and dismissed when `run` ends, however it ends.

>>> environment(x64=True)["JAX_ENABLE_X64"]
'1'
"""

import contextlib
import dataclasses
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ullage.errors import BadInput
from ullage.executor import Ask, Crew, Ended, Executor, Progress, Tell
from ullage.job import Checkpoint, Job, failure
from ullage.record import CurveRow, Status, from_json
from ullage.worker import PERFORM, Message, decode, encode

GRACE_SECONDS = 2.0  # between asking a worker to end and ending it
READ_BYTES = 2**20
LAST_WORDS_BYTES = 1000
KERNEL_COUNTERS = Path("/proc/vmstat")


@dataclasses.dataclass(frozen=True)
class Processes(Executor):
    """So many worker processes; `perform` names what they do with a job (see `ullage.worker`)."""

    workers: int
    perform: str = PERFORM

    default: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise BadInput(f"workers={self.workers} is too few; choose 1 or more")

    @classmethod
    def with_workers(cls, workers: int) -> "Processes":
        return cls(workers)

    def run(self, ask: Ask, tell: Tell) -> None:
        _Crew(self.workers, self.perform).run(ask, tell)


class _Worker:
    """One process, the pipes to it, and the job that it has."""

    def __init__(self, perform: str, x64: bool) -> None:
        self.x64 = x64
        self.job: Job | None = None
        self.shapes: set[tuple[Any, ...]] = set()  # of the jobs that it has had: their programs are here
        self.ready = False
        self._unfinished_line = b""
        self._memory_kills = 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        # -P: a file of the user's called copy.py, in the folder she works in, is not the module copy.
        program = [sys.executable, "-P", "-m", "ullage.worker"]
        with _interrupts_held():
            self.process = subprocess.Popen(
                [*program, "--driver", str(os.getpid()), "--perform", perform],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment(x64),
            )
        assert self.process.stdin
        assert self.process.stdout
        self.input, self.output = self.process.stdin, self.process.stdout

    def begin(self) -> None:
        """Send the job if there is one; a worker that is still starting up gets it when it is ready."""
        if self.job is None or not self.ready:
            return
        self._errors.seek(0)  # the process shares this place: its words are kept for one job at a time
        self._errors.truncate()
        self._memory_kills = memory_kills()
        self.say({"job": dataclasses.asdict(self.job)})

    def say(self, message: Message) -> None:
        with contextlib.suppress(BrokenPipeError):  # that it died is found where it is read
            self.input.write(encode(message))
            self.input.flush()

    def read(self) -> list[Message] | None:
        """What has come in whole lines, or None when there will be no more."""
        chunk = os.read(self.output.fileno(), READ_BYTES)
        if not chunk:
            return None
        *lines, self._unfinished_line = (self._unfinished_line + chunk).split(b"\n")
        return [decode(line) for line in lines]

    def cause_of_death(self) -> tuple[Status, str]:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_SECONDS)
        code = self.process.poll()
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - LAST_WORDS_BYTES))
        words = self._errors.read().decode(errors="replace")
        return cause_of_death(code, words, memory_kills() - self._memory_kills)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.input, self.output, self._errors):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


class _Crew(Crew):
    """The workers of one `run`."""

    def __init__(self, size: int, perform: str) -> None:
        super().__init__(size)
        self._perform = perform
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()

    @property
    def busy(self) -> int:
        return sum(worker.job is not None for worker in self._workers)

    def assign(self, jobs: Sequence[Job]) -> None:
        # A worker that has compiled a job's programs is not to be given away before its turn.
        for job in sorted(jobs, key=lambda job: not self._holding(job)):
            self._assign(job)

    def serve(self, tell: Tell) -> None:
        for worker, message in self._messages():
            self._handle(worker, message, tell)

    def _holding(self, job: Job) -> list[_Worker]:
        """The idle workers that have had a job of this one's shape."""
        return [worker for worker in self._workers if worker.job is None and job.shape in worker.shapes]

    def _assign(self, job: Job) -> None:
        x64 = job.uses_x64
        idle = [worker for worker in self._workers if worker.job is None]
        fitting = [worker for worker in idle if worker.x64 == x64]
        if not fitting and len(self._workers) == self.size:
            self._dismiss(idle[:1])
        worker = next(iter(self._holding(job) + fitting), None) or self._hire(x64)
        worker.job = job
        worker.shapes.add(job.shape)
        worker.begin()

    def _hire(self, x64: bool) -> _Worker:
        worker = _Worker(self._perform, x64)
        self._workers.append(worker)
        self._selector.register(worker.output, selectors.EVENT_READ, worker)
        return worker

    def _messages(self) -> Iterator[tuple[_Worker, Message | None]]:
        """Wait until a worker says something; None is said by one that has died."""
        for key, _ in self._selector.select():
            said = key.data.read()
            for message in [None] if said is None else said:
                yield key.data, message

    def _handle(self, worker: _Worker, message: Message | None, tell: Tell) -> None:
        """Tell the driver what a worker said, and the worker what the driver answered."""
        job = worker.job
        match message:
            case {"ready": _}:
                worker.ready = True
                worker.begin()
            case {"checkpoint": found} if job:
                go_on = tell(Progress(job, Checkpoint(**found)))
                worker.say({"go_on": bool(go_on)})
            case {"record": line, "curve": rows} if job:
                worker.job = None
                tell(Ended(job, from_json(line), tuple(CurveRow(*row) for row in rows)))
            case None:
                self._bury(worker, tell)

    def _bury(self, worker: _Worker, tell: Tell) -> None:
        status, reason = worker.cause_of_death()
        self._dismiss([worker])
        if not worker.ready:  # no job is to blame, and the next worker would fare no better
            raise RuntimeError(f"a worker could not start: {reason}")
        if worker.job is not None:
            tell(Ended(worker.job, failure(worker.job, status, reason), ()))

    def dismiss(self) -> None:
        self._dismiss(list(self._workers))
        self._selector.close()

    def _dismiss(self, workers: Iterable[_Worker]) -> None:
        workers = list(workers)
        try:
            for worker in workers:
                worker.process.terminate()
            deadline = time.monotonic() + GRACE_SECONDS
            for worker in workers:
                worker.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass  # asked in vain: ended below
        finally:
            for worker in workers:
                self._selector.unregister(worker.output)
                self._workers.remove(worker)
                worker.close()


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """What is started in here is deaf to Ctrl-C, which a terminal sends to the driver *and* its workers."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def environment(x64: bool) -> dict[str, str]:
    """The environment of a worker; it has to stand before jax is imported."""
    preferred = {
        "JAX_COMPILATION_CACHE_DIR": str(cache_folder() / "xla"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.5",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # several workers may share one accelerator
    }
    # PJRT_NPROC is what sizes XLA's pool of threads; the flag xla_cpu_multi_thread_eigen does not.
    threads = dict.fromkeys(("PJRT_NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**preferred, **os.environ, **threads, "JAX_ENABLE_X64": str(int(x64))}


def cache_folder() -> Path:
    """Where compiled programs are kept: ULLAGE_CACHE, or a folder in the user's own cache."""
    chosen = os.environ.get("ULLAGE_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ullage"


def memory_kills() -> int:
    """How many processes the kernel has killed for want of memory; 0 where it does not say."""
    try:
        counters = dict(line.split() for line in KERNEL_COUNTERS.read_text().splitlines())
    except OSError:
        return 0
    return int(counters.get("oom_kill", 0))


def cause_of_death(code: int | None, words: str, memory_kills_since: int) -> tuple[Status, str]:
    """The status and the reason of a run whose worker died.

    SIGKILL alone does not tell who sent it: only when the kernel counts a kill for want of memory
    since the job began is the run out of memory.

    >>> cause_of_death(-9, "", 0)[1]
    'the worker was killed by SIGKILL'
    >>> cause_of_death(-9, "", 1)[1]
    'the worker was killed by SIGKILL while the machine was out of memory'
    """
    reason = f"the worker {_ending(code)}"
    status = Status.FAILED
    if code == -signal.SIGKILL and memory_kills_since > 0:
        reason += " while the machine was out of memory"
        status = Status.OUT_OF_MEMORY
    said = " / ".join(line.strip() for line in words.splitlines() if line.strip())
    return status, f"{reason}; its last words: {said}" if said else reason


def _ending(code: int | None) -> str:
    if code is None:
        return "closed its output"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"was killed by signal {-code}"
