"""How the cost grows: with workers, levels, trials, the length of sequences and the width of the model.

    python benchmarks/scaling.py [--only workers,levels,trials,length,width] [--steps 1000] [--workers 2]
        [--json]

`workers` makes the same runs with one worker and with more, in turns, and tells runs a minute by the clock;
compiled programs are kept between the turns. It means something where nothing else runs: the row `alone`
says what the machine allows, by a loop of additions in so many processes in place of one.
`levels` and `trials` count the steps that a grid and an adaptive measurement make, drawn from known worlds;
nothing is trained. `length` and `width` time a step of our trainer on one core, in milliseconds of processor
time. Every row has the exponent of a fitted power law and its standard error: 1 where the cost doubles with
what it depends on.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

LEVELS = (4, 8, 16)
TRIALS = (8, 16, 32, 64)
LENGTHS = (8, 16, 32, 64, 128)
WIDTHS = (32, 64, 128, 256)
WORLDS = 20
RUNS_A_WORKER = 4
ROUNDS = 3
COUNTED = 20_000_000


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> dict[str, Any]:
    """The power law through some points."""
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(costs, float))
    slope, level = np.polyfit(x, y, 1)
    left = y - (slope * x + level)
    spread = math.sqrt((left @ left) / max(len(x) - 2, 1) / ((x - x.mean()) ** 2).sum())
    return {
        "sizes": list(sizes),
        "costs": [float(cost) for cost in costs],
        "exponent": float(slope),
        "standard_error": spread,
    }


# ── workers ──────────────────────────────────────────────────────────────────────────────────────


def runs_a_minute(workers: int, steps: int, seed: int) -> float:
    """Runs of one shape, each with another seed, by so many workers; start and compilation left out."""
    from ullage.architecture import find as find_model
    from ullage.executor import Ended, make_executor
    from ullage.job import Job, describe_task
    from ullage.recipe import Recipe
    from ullage.task import find

    recipe = Recipe(find_model("nano", {}), step_limit=steps, evaluate_every=steps, learning_rate=0.0)
    task = describe_task(find("parity").at(12))
    count = workers * (RUNS_A_WORKER + 1)  # the first of each worker loads the program
    jobs = [Job(task, recipe.to_json(), 1000 * seed + number) for number in range(count)]
    ended: list[float] = []

    def ask(lanes: int) -> list[Job] | None:
        given, jobs[:] = jobs[:lanes], jobs[lanes:]
        return given or None

    def tell(event: Any) -> bool:
        if isinstance(event, Ended):
            assert event.record.status == "finished", event.record.reason
            ended.append(time.perf_counter())
        return True

    make_executor(workers).run(ask, tell)
    return 60 * (len(ended) - workers) / (ended[-1] - ended[workers - 1])


def counting(processes: int) -> float:
    """How many loops of additions so many processes make in a second, start left out."""
    program = (
        "import sys, time; sys.stdin.readline(); began = time.perf_counter(); sum(range(int(sys.argv[1])));"
        "print(time.perf_counter() - began)"
    )
    loops = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(COUNTED)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(processes)
    ]
    time.sleep(0.2)  # all have started
    for loop in loops:
        assert loop.stdin
        loop.stdin.write("\n")
        loop.stdin.flush()
    return sum(1 / float(loop.communicate()[0]) for loop in loops)


def workers_row(given: argparse.Namespace) -> dict[str, Any]:
    """One worker against more: the median of the ratios of rounds."""
    rates: dict[int, list[float]] = {1: [], given.workers: []}
    alone: dict[int, list[float]] = {1: [], given.workers: []}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ULLAGE_CACHE"] = folder
        for turn, count in itertools.product(range(ROUNDS), rates):
            rates[count].append(runs_a_minute(count, given.steps, turn))
            alone[count].append(counting(count))
    gains = [many / one for one, many in zip(*rates.values(), strict=True)]
    bounds = [many / one for one, many in zip(*alone.values(), strict=True)]
    return {
        "workers": list(rates),
        "runs_a_minute": [statistics.median(found) for found in rates.values()],
        "gain": statistics.median(gains),
        "gains": gains,
        "alone": statistics.median(bounds),
        "load": os.getloadavg()[0],
    }


# ── levels and trials: counted, not timed ────────────────────────────────────────────────────────


def steps_of(protocol: str, levels: int, trials: int) -> float:
    """The median number of steps of a measurement of drawn worlds."""
    import dataclasses

    from ullage.rehearsal import EFFORTS, draw_world, ground_of, rehearse

    demands = [round(2 ** (10 * place / (levels - 1))) for place in range(levels)]
    effort = dataclasses.replace(EFFORTS["quick"], trials=trials)
    found = []
    for seed in range(WORLDS):
        ground = ground_of(demands)
        world = draw_world(np.random.default_rng(seed), 0.0, 10.0)
        _, spent = rehearse(protocol, effort, ground, world, seed=seed)
        found.append(sum(cost.steps for cost in spent.values()))
    return statistics.median(found)


def counted_row(name: str, sizes: Sequence[int], protocol: str) -> dict[str, Any]:
    """Steps against one of the two."""
    costs = [steps_of(protocol, *((size, 8) if name == "levels" else (8, size))) for size in sizes]
    return exponent(sizes, costs)


# ── length and width: timed ──────────────────────────────────────────────────────────────────────


def step_milliseconds(d_model: int, length: int) -> float:
    """One step of batch 256 on one core: the median of some turns, in a process of its own."""
    told = subprocess.run(
        [sys.executable, __file__, "--step", str(d_model), str(length)],
        env={**os.environ, "PJRT_NPROC": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(told.stdout.splitlines()[-1])


def serve_step(d_model: int, length: int) -> None:
    """Time the step."""
    import jax

    from ullage import keys
    from ullage.architecture import find as find_model
    from ullage.recipe import Recipe
    from ullage.split import training_data
    from ullage.task import find
    from ullage.train import Program, advance

    heads = 4 if d_model <= 64 else 8
    model = find_model("nano", {"d_model": d_model, "heads": heads, "d_ff": 4 * d_model})
    recipe, task = Recipe(model, step_limit=10**6), find("parity").at(length)
    data = training_data(task)
    program = Program(model, task.interface, data.source, recipe.batch_size, drops=False)
    state = program.init(keys.root(0), recipe.initial_scale, recipe.traced)
    times, steps = [], 3
    for _ in range(ROUNDS + 3):
        began = time.process_time()
        state = advance(program, recipe.traced, state, data.rows, data.count, keys.root(0), 0, steps)
        jax.block_until_ready(state)
        took = time.process_time() - began
        times.append(1000 * took / steps)
        steps = max(3, round(steps * min(0.5 / took, 100)))
    print(statistics.median(times[3:]))


def main() -> None:
    """Measure what is asked for and print it."""
    if sys.argv[1:2] == ["--step"]:
        serve_step(int(sys.argv[2]), int(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="workers,levels,trials,length,width")
    parser.add_argument("--steps", type=int, default=1000, help="of one run, for the row of workers")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    chosen, found = given.only.split(","), {}
    if "workers" in chosen:
        found["workers"] = workers_row(given)
    for name, sizes in (("levels", LEVELS), ("trials", TRIALS)):
        for protocol in ("grid", "adaptive") if name in chosen else ():
            found[f"{name}, {protocol}: steps"] = counted_row(name, sizes, protocol)
    if "length" in chosen:
        found["length, nano: ms a step"] = exponent(LENGTHS, [step_milliseconds(32, one) for one in LENGTHS])
    if "width" in chosen:
        found["width, 8 positions: ms a step"] = exponent(
            WIDTHS, [step_milliseconds(one, 8) for one in WIDTHS]
        )
    print(json.dumps(found) if given.json else shown(found))


def shown(found: dict[str, Any]) -> str:
    """The table."""
    lines = []
    if "workers" in found:
        row = found["workers"]
        told = ", ".join(
            f"{rate:.1f} with {count}"
            for count, rate in zip(row["workers"], row["runs_a_minute"], strict=True)
        )
        gains = ", ".join(f"{gain:.2f}" for gain in row["gains"])
        lines += [
            f"runs a minute: {told}; gain {row['gain']:.2f} ({gains})",
            f"what the machine allows: {row['alone']:.2f}; its load: {row['load']:.1f}\n",
        ]
    lines += ["| cost against | at | cost | exponent |", "|---|---|---|---|"]
    for name, row in found.items():
        if name != "workers":
            sizes = ", ".join(map(str, row["sizes"]))
            costs = ", ".join(f"{cost:.3g}" for cost in row["costs"])
            lines.append(
                f"| {name} | {sizes} | {costs} | {row['exponent']:.2f} ± {row['standard_error']:.2f} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
