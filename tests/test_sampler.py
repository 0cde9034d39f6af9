"""The sampler's process: it outlives neither its driver nor a mistake, and no answer passes for another."""

import os
import time

import numpy as np
import pytest

from ullage import sampler
from ullage.capacity import Settings, fit
from ullage.observations import Model, Observation, Observations

SETTINGS = Settings(rival="pooled", warmup=50, draws=50)


def runs_below(boundary):
    runs = [
        Observation(
            "sort", level, seed, "input", {"input": float(level)}, float(level < boundary), Model("m")
        )
        for level in (4, 6, 8, 10, 12)
        for seed in range(2)
    ]
    return Observations(tuple(runs), {})


def found(boundary):
    return float(np.median(fit(runs_below(boundary), settings=SETTINGS).curve(0, 0).half_skill()))


def test_a_sampler_that_was_killed_is_replaced_by_the_next_fit():
    before = found(7)
    sampler._process().kill()
    sampler._process().wait()

    assert found(7) == before


def test_after_an_interruption_the_next_fit_gets_its_own_answer(monkeypatch):
    found(7)
    read = sampler.read_frame

    def interrupted(source):
        monkeypatch.setattr(sampler, "read_frame", read)
        raise KeyboardInterrupt

    monkeypatch.setattr(sampler, "read_frame", interrupted)
    with pytest.raises(KeyboardInterrupt):
        found(5)

    assert 2 ** found(11) > 9


def test_an_interruption_from_the_keyboard_is_not_for_the_sampler():
    found(7)

    assert os.getsid(sampler._process().pid) != os.getsid(0)


def test_the_sampler_ends_when_nobody_can_ask_any_more():
    found(7)
    process = sampler._process()

    process.stdin.close()

    deadline = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process.poll() == 0
    sampler.restart()
