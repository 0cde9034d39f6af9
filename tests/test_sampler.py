"""The sampler's process: it outlives neither its driver nor a mistake, and no answer passes for another."""

import json
import os
import subprocess
import sys
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


COUNT_COMPILATIONS = """
import json, sys
import jax.monitoring, numpyro
from ullage import sampler
from ullage.capacity import Settings
from ullage.conditions import conditions_of
from ullage.observations import Model, Observation
from ullage.tabled import tabled

numpyro.set_host_device_count(sampler.CHAINS)
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: compiled.append(event) if event.endswith("backend_compile_duration") else None
)
counts = []
for levels in json.loads(sys.argv[1]):
    runs = [
        Observation("sort", level, 0, "input", {"input": float(level)}, float(level < 7), Model("m"))
        for level in range(1, levels + 1)
    ]
    request = {"model": "pooled", "scatter": "own_floor", "seed": 0, "warmup": 5, "draws": 5}
    before = len(compiled)
    arrays = {**tabled(conditions_of(runs, "nominal"))._asdict(), sampler.REQUEST: json.dumps(request)}
    sampler._answer(arrays)
    counts.append(len(compiled) - before)
print(json.dumps(counts))
"""


def test_a_second_fit_of_a_like_size_does_not_compile():
    levels = [5, 20, 40]  # two that are padded to the same size, and a larger one
    command = [sys.executable, "-c", COUNT_COMPILATIONS, json.dumps(levels)]

    ended = subprocess.run(command, capture_output=True, text=True, check=True)

    first, like, larger = json.loads(ended.stdout)
    assert first > 0
    assert like == 0
    assert larger > 0
