"""A worker: the process that performs jobs, one after another, for a driver.

    python -m ullage.worker --driver PID [--perform module:function]

It talks in lines of JSON over its standard input and output, and each line has one answer, so that
what a run does depends on what was said and never on when:

    the worker says                                   the driver answers
    {"ready": true}                                   {"job": {…}}
    {"checkpoint": {"step": 100, "scores": {…}}}      {"go_on": true}
    {"record": "{…}", "curve": [[…], …]}              {"job": {…}}

A worker never outlives its driver, whatever it is busy with. `--perform` names what is done with a
job; anything that takes a job and a watcher and returns a record and a curve will do, which is how
executors are tested and how another payload is run.

>>> decode(encode({"go_on": True}))
{'go_on': True}
"""

import argparse
import ctypes
import dataclasses
import gc
import importlib
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from ullage import record as records
from ullage.errors import BadInput
from ullage.job import Checkpoint, Job, Watch, failure
from ullage.record import CurveRow, RunRecord, Status

PERFORM = "ullage.job:perform"
MOST_GROWTH_BYTES = 2**30  # since a worker's first job: about 25 programs
STATM = Path("/proc/self/statm")
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)

Perform = Callable[[Job, Watch], tuple[RunRecord, tuple[CurveRow, ...]]]
Message = dict[str, Any]


def encode(message: Message) -> bytes:
    """One line of the protocol."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Message:
    """The message of one line."""
    return json.loads(line)


def function_named(name: str) -> Perform:
    """The function that `module:function` names.

    >>> function_named("ullage.job:perform").__name__
    'perform'
    """
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadInput(f"there is no function {name!r} ({error}); write module:function") from None


def attempt(perform: Perform, job: Job, watch: Watch) -> tuple[RunRecord, tuple[CurveRow, ...]]:
    """Perform a job; what it raises becomes the record of a failed run, so that other jobs go on."""
    try:
        return perform(job, watch)
    except MemoryError as error:
        return failure(job, Status.OUT_OF_MEMORY, f"out of memory: {error}"), ()
    except Exception as error:  # noqa: BLE001 - a payload can raise anything
        return failure(job, Status.FAILED, f"{type(error).__name__}: {error}"), ()


def check_precision(job: Job) -> None:
    """Refuse a job whose numbers this process does not allow."""
    import jax

    if job.uses_x64 and not jax.config.read("jax_enable_x64"):
        raise BadInput(
            "precision=f64 needs a process that allows 64-bit numbers and this one does not; "
            "use worker processes or set JAX_ENABLE_X64=1"
        )


class Channel:
    """The worker's end of the pipes to its driver."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._sink = sink
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._listen, args=(source,), daemon=True).start()

    def ask(self, message: Message) -> Message:
        """Say something and wait for the answer."""
        self._sink.write(encode(message))
        self._sink.flush()
        return decode(self._answers.get())

    def _listen(self, source: BinaryIO) -> None:
        """Pass answers on; the end of the pipe is the end of the driver, and so of this process.

        This thread runs while XLA compiles or computes, because XLA lets go of the interpreter then.
        """
        for line in source:
            self._answers.put(line)
        os._exit(0)


def open_channel() -> Channel:
    """Take standard input and output for the protocol; what a task prints goes to standard error."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return Channel(source, sink)


def die_with(driver: int) -> None:
    """Ask the kernel to end this process with its driver, also where no thread of ours can run.

    Linux sends the signal when the *thread* that started this process ends: a driver ends its
    workers before that.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != driver:  # it ended before the kernel was asked
        os._exit(1)


def resident_bytes() -> int:
    """The memory that this process holds; 0 where the system does not say."""
    try:
        pages = int(STATM.read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def forget_programs(slim_bytes: int) -> int:
    """Forget all compiled programs once they have made this process grow; its size when it was last slim.

    A program takes some 40 MB and a search needs hundreds of them, most of them once.
    """
    if slim_bytes and resident_bytes() <= slim_bytes + MOST_GROWTH_BYTES:
        return slim_bytes
    jax = sys.modules.get("jax")
    if slim_bytes and jax is not None:
        jax.clear_caches()
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc: what was freed goes back
        if trim is not None:
            trim(0)
    return resident_bytes()


def serve(channel: Channel, perform: Perform) -> None:
    """Perform jobs for as long as the driver gives some."""

    def watch(checkpoint: Checkpoint) -> bool:
        return channel.ask({"checkpoint": dataclasses.asdict(checkpoint)})["go_on"]

    answer = channel.ask({"ready": True})
    slim_bytes = 0
    while True:
        record, curve = attempt(perform, Job(**answer["job"]), watch)
        slim_bytes = forget_programs(slim_bytes)
        answer = channel.ask({"record": records.to_json(record), "curve": curve})


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(
        prog="python -m ullage.worker", description="Performs jobs for a driver."
    )
    parser.add_argument("--driver", type=int, required=True, help="process id of the driver")
    parser.add_argument("--perform", default=PERFORM, help="module:function that performs a job")
    arguments = parser.parse_args()
    die_with(arguments.driver)
    serve(open_channel(), function_named(arguments.perform))


if __name__ == "__main__":
    main()
