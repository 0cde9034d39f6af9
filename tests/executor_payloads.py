"""What workers are asked to do in the tests of executors: the study of a job says which.

Every payload comes to one checkpoint first, so that a test knows that it has begun.
"""

import ctypes
import dataclasses
import hashlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp

from ullage.job import Checkpoint, failure
from ullage.record import CurveRow, Status

PAYLOAD = f"{__name__}:perform"
LONG_SECONDS = 60


def perform(job, watch):
    name, _, argument = job.study.partition(":")
    work = globals()[f"do_{name}"]
    watch(Checkpoint(100, {"validation": {"score": 0.5}}))
    reason = work(argument) or ""
    curve = ()
    if name == "much":
        curve = tuple(CurveRow(job.run_id, step, "validation", "score", step / 7) for step in range(10_000))
        watch(Checkpoint(200, {str(row.step): {row.metric: row.value} for row in curve}))
    return dataclasses.replace(failure(job, Status.FINISHED, reason), train_steps=200), curve


def do_nothing(_):
    pass


do_much = do_nothing


def do_who(_):
    time.sleep(0.2)  # so that two jobs that begin together have a worker each
    return str(os.getpid())


def do_sleep(seconds):
    time.sleep(float(seconds))


def do_exit(code):
    sys.stderr.write("the last straw\n")
    sys.stderr.flush()
    os._exit(int(code))


def do_leave(_):
    sys.exit("no more")


def do_signal(number):
    os.kill(os.getpid(), int(number))


def do_raise(_):
    raise ZeroDivisionError("by zero")


def do_exhaust(_):
    raise MemoryError("no room")


def do_print(_):
    print('{"record": "not one", "curve": []}')
    os.write(1, b"\x00garbage\n" * 10_000)
    return f"read {sys.stdin.read()!r}"


def do_linger(seconds):
    """End well, and die while there is no job."""
    threading.Timer(float(seconds), os._exit, [1]).start()


def do_ignore(_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(LONG_SECONDS)


def do_precision(_):
    return str(jnp.zeros(()).dtype)


def do_threads(_):
    """How many threads XLA has to compute with, and how many cores a product of matrices keeps busy."""
    power = jax.jit(lambda x: jax.lax.fori_loop(0, 150, lambda _, a: jnp.tanh(a @ a * 0.01), x))
    start = jnp.ones((600, 600))
    power(start).block_until_ready()
    wall, cpu = time.perf_counter(), time.process_time()
    power(start).block_until_ready()
    cores = (time.process_time() - cpu) / (time.perf_counter() - wall)
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    return f"{sum('XLAEigen' in name for name in names)} {cores}"


def do_descend(_):
    """Compile and run a small descent; tell all bits of what comes out."""

    def loss(weights, x):
        for _ in range(3):
            x = x + jax.nn.gelu(x @ weights, approximate=False)
        return (x**2).mean()

    def descend(key):
        weights = jax.random.normal(key, (32, 32))
        inputs = jax.random.normal(key, (50, 64, 32))
        return jax.lax.scan(lambda w, x: (w - 0.01 * jax.grad(loss)(w, x), None), weights, inputs)[0]

    return hashlib.sha256(bytes(jax.jit(descend)(jax.random.key(0)))).hexdigest()


def do_compute(_):
    """One program that runs for minutes, inside XLA."""
    jax.jit(lambda x: jax.lax.fori_loop(0, 10**6, lambda _, a: jnp.tanh(a @ a), x))(
        jnp.ones((500, 500))
    ).block_until_ready()


def do_compile(_):
    """One program that compiles for a minute."""

    def long(x):
        for i in range(1500):
            x = jnp.sin(x @ x + i)[::-1]
        return x

    jax.jit(long).lower(jnp.ones((4, 4))).compile()


def do_hold(_):
    """Keep the interpreter's lock inside a foreign function, so that no other thread can run."""
    ctypes.PyDLL(None).sleep(LONG_SECONDS)
