"""A worker lives through a whole search: it forgets the programs of past jobs before they fill the memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ullage import worker
from ullage.worker import forget_programs, resident_bytes

MEGABYTE = 2**20


@pytest.fixture
def traces():
    """A compiled function, and a list that grows each time that it is compiled."""
    seen = []

    @jax.jit
    def double(x):
        seen.append(x.shape)
        return 2 * x

    double(jnp.ones(3))
    return seen, lambda: double(jnp.ones(3))


def test_a_worker_that_has_grown_forgets_its_programs(traces, monkeypatch):
    seen, call = traces
    monkeypatch.setattr(worker, "MOST_GROWTH_BYTES", 0)

    forget_programs(slim_bytes=1)
    call()

    assert len(seen) == 2


def test_a_worker_that_has_not_grown_keeps_its_programs(traces):
    seen, call = traces

    slim = forget_programs(slim_bytes=resident_bytes())
    call()

    assert len(seen) == 1
    assert slim > 0


def test_the_first_job_tells_how_large_a_slim_worker_is(traces):
    seen, call = traces

    slim = forget_programs(slim_bytes=0)
    call()

    assert len(seen) == 1
    assert slim > 10 * MEGABYTE


def test_what_a_process_holds_is_what_it_has_written_to():
    before = resident_bytes()
    held = np.ones(64 * MEGABYTE, np.uint8)

    assert resident_bytes() - before > 60 * held.nbytes / 64
