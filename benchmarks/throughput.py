"""Training samples a second, ours beside torch's, in one run: four presets, one core and all of them.

    python benchmarks/throughput.py [--presets nano,small,medium,paper] [--reads one,every]
        [--ways ours,eager,compile,bf16] [--rounds 7] [--seconds 1] [--cores N] [--wasteful] [--json]

Each step is forward, backward and AdamW on 256 sequences of length 8, with the exact GELU and one thread
a process. Ours draws its batch inside the step; torch's batches are drawn beforehand. `one` reads the last
position (parity), `every` reads all of them (parity so far).

Every way of running is a process of its own, and they take turns: each round gives each of them a second.
One core is told in samples a second of processor time, the median over the rounds, because a process that
waits for a busy core is not slow. All cores are told by the clock, so many processes of one kind at once;
that number means something on an idle machine only. `peak` is the largest rate of a square matrix product
in 32 bits that our library or torch's reached in the same run, and the share of it counts only the work
that is needed: 3 × `forward_flops`.

`--wasteful` is the negative control: ours computes the last layer everywhere, with products of three axes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
PRESETS = ("nano", "small", "medium", "paper")
WAYS = ("ours", "eager", "compile", "bf16")
BATCH, LENGTH = 256, 8
BATCHES = 16  # that torch goes through
SIDES = (512, 1024, 2048)
PEAKS = tuple(f"{library} {side}" for library in ("xla", "mkl") for side in SIDES)
BACKWARD = 2.0  # a gradient costs two products where the forward pass has one

Run = Callable[[int], None]

# ── in a process of its own: one way of running ──────────────────────────────────────────────────


def task_read(reads: str) -> Any:
    """The task that is read at one position, or at every one."""
    from parity_so_far import ParitySoFar

    from ullage.task import find

    return find("parity").at(LENGTH) if reads == "one" else ParitySoFar(level=LENGTH)


def recipe_of(preset: str) -> Any:
    """The default recipe of a preset, with more steps than any benchmark makes."""
    from ullage.architecture import find
    from ullage.recipe import Recipe

    return Recipe(find(preset, {}), batch_size=BATCH, step_limit=10**6)


def ours(preset: str, reads: str) -> Run:
    """Steps of our trainer, as a run makes them between two evaluations."""
    import jax

    from ullage import keys
    from ullage.split import training_data
    from ullage.train import Program, advance

    task, recipe = task_read(reads), recipe_of(preset)
    data = training_data(task)
    program = Program(recipe.architecture, task.interface, data.source, BATCH, drops=False)
    state = program.init(keys.root(0), recipe.initial_scale, recipe.traced)
    rows = jax.tree.map(jax.numpy.asarray, data.rows)

    def run(steps: int) -> None:
        nonlocal state
        state = advance(program, recipe.traced, state, rows, data.count, keys.root(0), 0, steps)
        assert bool(state.finite)

    return run


def wasteful(preset: str, reads: str) -> Run:
    """Ours without what makes it fast: the negative control."""
    import jax.numpy as jnp

    from ullage import kernels, train
    from ullage.architectures.transformer import Transformer

    whole_block = Transformer._block  # noqa: SLF001 - it is put together differently

    def block(self: Any, layer: Any, stream: Any, reads: Any, causal: bool, drop: Any) -> Any:
        stream, pattern = whole_block(self, layer, stream, None, causal, drop)
        return (stream if reads is None else stream[:, :, np.array(reads)]), pattern

    def product(x: Any, matrix: Any, bias: Any = None) -> Any:
        found = jnp.einsum("wbl,wo->obl", x, matrix)
        return found if bias is None else found + bias[:, None, None]

    Transformer._block = block  # type: ignore[method-assign]  # noqa: SLF001
    kernels.product, kernels.times = product, jnp.matmul  # type: ignore[assignment]
    train._pieces = lambda batch, length: 1  # noqa: SLF001
    return ours(preset, reads)


def torches(preset: str, reads: str, way: str) -> Run:
    """Steps of torch."""
    import jax
    import torch_peer

    from ullage import keys
    from ullage.split import training_data

    task, recipe = task_read(reads), recipe_of(preset)
    data = training_data(task)
    count = jax.numpy.int32(data.count)
    drawn = data.source.draw(data.rows, count, keys.root(0), jax.numpy.ones(()), BATCH * BATCHES)
    inputs, targets = (np.asarray(leaf).reshape(BATCHES, BATCH, -1) for leaf in (drawn.inputs, drawn.targets))
    return torch_peer.stepper(task, recipe, way, inputs, targets)


def product(library: str, side: int) -> Run:
    """Square matrix products in 32 bits."""
    if library == "mkl":
        import torch_peer

        return torch_peer.products(side)
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(jax.random.key(0))
    left, right = (jax.random.normal(key, (side, side)) / side for key in keys)

    @jax.jit
    def many(left: Any, right: Any, times: Any) -> Any:
        return jax.lax.fori_loop(0, times, lambda _, x: x @ right, left)

    def run(times: int) -> None:
        many(left, right, jnp.int32(times)).block_until_ready()

    return run


def serve(way: str, preset: str, reads: str) -> None:
    """Make as many steps as each line of the standard input says; tell what they took."""
    if way in {"ours", "wasteful"}:
        run = {"ours": ours, "wasteful": wasteful}[way](preset, reads)
    elif way in PEAKS:
        library, side = way.split()
        run = product(library, int(side))
    else:
        run = torches(preset, reads, way)
    for line in sys.stdin:
        clock, processor = time.perf_counter(), time.process_time()
        run(int(line))
        told = {"clock": time.perf_counter() - clock, "processor": time.process_time() - processor}
        print(json.dumps(told), flush=True)


# ── the processes take turns ─────────────────────────────────────────────────────────────────────


class Runner:
    """One process that runs one way."""

    def __init__(self, way: str, preset: str, reads: str, seconds: float) -> None:
        single = dict.fromkeys(("PJRT_NPROC", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", way, preset, reads],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **single},
            text=True,
        )
        self.steps = 2
        for _ in range(3):  # the first time it compiles; then it learns how many steps a turn has
            took = self.turn()["clock"]
            self.steps = max(2, round(self.steps * min(seconds / took, 100)))

    def begin(self) -> None:
        """Let it make its steps."""
        assert self.process.stdin
        self.process.stdin.write(f"{self.steps}\n")
        self.process.stdin.flush()

    def end(self) -> dict[str, float]:
        """Wait for its steps; seconds a step by the clock and of processor time."""
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def turn(self) -> dict[str, float]:
        """Begin and end."""
        self.begin()
        return self.end()

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


def one_core(ways: Sequence[str], preset: str, reads: str, given: argparse.Namespace) -> dict[str, float]:
    """Milliseconds of processor time a step, by way: the median over the rounds, taken in turns."""
    runners = {way: Runner(way, preset, reads, given.seconds) for way in ways}
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(given.rounds):
        for way, runner in runners.items():
            found[way].append(1000 * runner.turn()["processor"] / runner.steps)
    for runner in runners.values():
        runner.close()
    return {way: statistics.median(times) for way, times in found.items()}


def all_cores(ways: Sequence[str], preset: str, reads: str, given: argparse.Namespace) -> dict[str, float]:
    """Samples a second by the clock with a process a core, by way: the median over the rounds."""
    crews = {way: [Runner(way, preset, reads, given.seconds) for _ in range(given.cores)] for way in ways}
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(given.rounds):
        for way, crew in crews.items():
            for runner in crew:
                runner.begin()
            rates = [BATCH * runner.steps / runner.end()["clock"] for runner in crew]
            found[way].append(sum(rates))
    for crew in crews.values():
        for runner in crew:
            runner.close()
    return {way: statistics.median(rates) for way, rates in found.items()}


def peak_rate(given: argparse.Namespace) -> dict[str, float]:
    """Floating-point operations a second of processor time, by product."""
    took = one_core([peak for peak in PEAKS if peak.startswith("xla") or with_torch()], "", "", given)
    return {peak: 2000.0 * int(peak.split()[1]) ** 3 / milliseconds for peak, milliseconds in took.items()}


def needed_flops(preset: str, reads: str) -> float:
    """What one step has to multiply."""
    forward = recipe_of(preset).architecture.forward_flops(task_read(reads).interface)
    return forward * (1 + BACKWARD) * BATCH


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """The whole table."""
    ways = [way for way in given.ways.split(",") if way in {"ours", "wasteful"} or with_torch()]
    if given.wasteful:
        ways.append("wasteful")
    peaks = peak_rate(given)
    rows = []
    for preset in given.presets.split(","):
        for reads in given.reads.split(","):
            took = one_core(ways, preset, reads, given)
            together = all_cores(ways, preset, reads, given) if given.cores > 1 else {}
            rows.append(row_of(preset, reads, took, together, max(peaks.values())))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)  # what a long run has so far
    return {"machine": machine(), "peaks": peaks, "rows": rows}


def row_of(
    preset: str, reads: str, took: dict[str, float], together: dict[str, float], peak: float
) -> dict[str, Any]:
    """One preset on one task."""
    rivals = [took[way] for way in ("eager", "compile") if way in took]
    flops = needed_flops(preset, reads)
    return {
        "preset": preset,
        "reads": reads,
        "milliseconds": took,
        "samples_per_core_second": {way: BATCH * 1000 / milliseconds for way, milliseconds in took.items()},
        "times_best_f32": {
            way: min(rivals) / took[way] for way in ("ours", "wasteful") if way in took and rivals
        },
        "share_of_peak": {
            way: flops / (took[way] / 1000) / peak for way in ("ours", "wasteful") if way in took
        },
        "samples_per_second_all_cores": together,
    }


def with_torch() -> bool:
    """Whether there is a torch to compare with."""
    import importlib.util

    return importlib.util.find_spec("torch") is not None


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    from importlib.metadata import version

    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    packages = ("jax", "jaxlib", "torch") if with_torch() else ("jax", "jaxlib")
    return {
        "processor": ", ".join(sorted(names)),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "versions": {name: version(name) for name in packages},
    }


def shown(found: dict[str, Any]) -> str:
    """The table."""
    ways = list(found["rows"][0]["milliseconds"])
    lines = [
        json.dumps(found["machine"]),
        "peak of one core: "
        + ", ".join(f"{name} {rate / 1e9:.0f}" for name, rate in found["peaks"].items())
        + " GFLOP/s",
        "",
        "| model | reads | "
        + " | ".join(f"{way}, ms" for way in ways)
        + " | times torch's best f32 | share of peak | all cores: samples/s, "
        + " / ".join(ways)
        + " |",
        "|" + "---|" * (len(ways) + 5),
    ]
    for row in found["rows"]:
        cells = [row["preset"], row["reads"]]
        cells += [f"{row['milliseconds'][way]:.2f}" for way in ways]
        cells.append(" / ".join(f"{times:.2f}" for times in row["times_best_f32"].values()))
        cells.append(" / ".join(f"{share:.0%}" for share in row["share_of_peak"].values()))
        cells.append(" / ".join(f"{rate:.0f}" for rate in row["samples_per_second_all_cores"].values()))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or be one of the processes that are measured."""
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:5])
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--reads", default="one,every")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one turn")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1, help="1 leaves the last column out")
    parser.add_argument("--wasteful", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measured(given)
    print(json.dumps(found) if given.json else shown(found))


if __name__ == "__main__":
    main()
