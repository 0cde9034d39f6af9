"""The sampler: NUTS in a process of its own, in double precision, its chains side by side.

    python -m ullage.sampler

The precision and the number of devices of JAX are set once a process, and the process that trains
must not be switched; so a fit talks to this one over its standard input and output, in frames of eight
bytes that tell a length and so many bytes of numpy's npz. It stays for further fits, which find their
program compiled if their tables have the same padded size, and ends with the process that started it.

>>> decode(encode({"counts": np.arange(3)}))["counts"].tolist()
[0, 1, 2]
"""

import atexit
import functools
import io
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np

from ullage.tabled import Table

LENGTH_BYTES = 8
CHAINS = 2  # as many as there are cores on the smallest machine this is meant for
REQUEST = "request"
_one_at_a_time = threading.Lock()


def encode(arrays: Mapping[str, Any]) -> bytes:
    """Named arrays as one frame."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return len(file.getvalue()).to_bytes(LENGTH_BYTES, "big") + file.getvalue()


def decode(frame: bytes) -> dict[str, np.ndarray]:
    """The named arrays of one frame."""
    with np.load(io.BytesIO(frame[LENGTH_BYTES:])) as arrays:
        return dict(arrays)


def read_frame(source: BinaryIO) -> bytes:
    """The next frame; empty when the other side has gone."""
    head = source.read(LENGTH_BYTES)
    body = source.read(int.from_bytes(head, "big")) if len(head) == LENGTH_BYTES else b""
    return head + body if body else b""


# ── the side that asks ────────────────────────────────────────────────────────────────────────────


def sample(table: Table, request: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Draws by name, (chains, draws, …), and "diverging"; the request names model, scatter, seed, lengths."""
    frame = encode({**table._asdict(), REQUEST: json.dumps(dict(request))})
    with _one_at_a_time:
        if _process().poll() is not None:  # it was killed while it had nothing to do
            restart()
        process = _process()
        try:
            answer = _exchange(process, frame)
        except BaseException:  # Ctrl-C: the answer that is still to come would pass for that of the next fit
            restart()
            raise
        if not answer:
            _process.cache_clear()
            raise RuntimeError(f"the sampler ended with code {process.wait()}; standard error tells why")
    return decode(answer)


def _exchange(process: "subprocess.Popen[bytes]", frame: bytes) -> bytes:
    """The answer to a frame; empty when the sampler has died."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(frame)
        process.stdin.flush()
        return read_frame(process.stdout)  # type: ignore[arg-type]
    except BrokenPipeError:
        return b""


@functools.cache
def _process() -> "subprocess.Popen[bytes]":
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "ullage.sampler"]
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the process that asks, which ends this one
    )
    atexit.register(_end, process)
    return process


def restart() -> None:
    """End the process, if there is one: the next fit starts another, with nothing compiled."""
    if _process.cache_info().currsize:
        _end(_process())
        _process.cache_clear()


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()


# ── the side that samples ─────────────────────────────────────────────────────────────────────────


def main() -> None:
    """Prepare JAX, then sample for as long as somebody asks."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints goes to standard error
    frames: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(frames,), daemon=True).start()
    import numpyro

    numpyro.set_platform("cpu")
    numpyro.set_host_device_count(CHAINS)
    numpyro.enable_x64()
    while True:
        sink.write(encode(_answer(decode(frames.get()))))
        sink.flush()


def _listen(frames: "queue.SimpleQueue[bytes]") -> None:
    """Pass frames on; the end of the pipe is the end of who asked, and so of this process."""
    while frame := read_frame(sys.stdin.buffer):
        frames.put(frame)
    os._exit(0)


def _answer(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    import jax

    request = json.loads(str(arrays.pop(REQUEST)))
    run = _program(request["model"], request["scatter"], request["warmup"], request["draws"])
    found = run(jax.random.split(jax.random.key(request["seed"]), CHAINS), Table(**arrays))
    return {name: np.asarray(values) for name, values in jax.device_get(found).items()}


@functools.cache
def _program(model: str, scatter: str, warmup: int, draws: int) -> Any:
    """All chains of one kind of fit as one compiled program, which takes any table of one size."""
    import jax

    return jax.pmap(one_chain(model, scatter, warmup, draws), in_axes=(0, None))


def one_chain(model: str, scatter: str, warmup: int, draws: int) -> Callable[[Any, Table], dict[str, Any]]:
    """A function from a key and a table to the draws of one chain, for `pmap` or `vmap`."""
    from numpyro.infer import MCMC, NUTS, init_to_value

    from ullage.metamodel import RIVALS, TOGETHER
    from ullage.scatter import SCATTERS

    dense: Any = [TOGETHER[model]] if model in TOGETHER else False

    def chain(key: Any, table: Table) -> dict[str, Any]:
        start = init_to_value(values={"difficulty_free": table.start})
        kernel = NUTS(RIVALS[model], target_accept_prob=0.9, dense_mass=dense, init_strategy=start)
        sampler = MCMC(kernel, num_warmup=warmup, num_samples=draws, progress_bar=False)
        sampler.run(key, table, SCATTERS[scatter], extra_fields=("diverging", "num_steps"))
        return {**sampler.get_samples(), **sampler.get_extra_fields()}

    return chain


if __name__ == "__main__":
    main()
