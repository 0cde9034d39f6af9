"""What the adaptive protocol saves against a grid, and whether its intervals can be believed.

    python benchmarks/adaptive_vs_grid.py simulated [--worlds 400] [--broken reuse|one-seed] [--only ROW]
    python benchmarks/adaptive_vs_grid.py real [TASK…] [--trials 8] [--seeds 3] [--store DIR]

`simulated` rehearses whole campaigns in worlds whose boundary is known (`ullage.rehearsal`): shallow and
steep ones, with lapses, all-or-nothing; and others that fail on a stretch below their boundary. The grid
is the plain one: 8 levels, 50 trials and 3 seeds at each. It tells how often the 90 % interval of
log2 C holds the truth (a one-sided statement counts when it is true), how wide it is, what it cost, and
what each lever saves: fewer trials, placement, and searches that end when they can. Recipes differ in
these worlds, and no search finds the best for certain: the truth is the capacity at the effort that was
made, that of the recipes that were judged, and the shortfall against the best one is told beside it.

    --broken reuse      the verdict is the winner's own trial, not a fresh seed
    --broken one-seed   all verdicts at a level have one seed, whose result passes for that of several

are negative controls: the same table must then show a coverage that has collapsed.

`real` trains both protocols on real families with the nano model and the same search, and puts the
costs and the intervals side by side; `--store` keeps both stores, which it exports as CSV beside them.
"""

import argparse
import dataclasses
import json
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ullage.boundary import Interval, is_monotone
from ullage.protocol import EFFORTS, Effort, Protocol
from ullage.rehearsal import OF_THE_SEARCH, ONE, Cost, World, ground_of, rehearse
from ullage.search import SearchPlan
from ullage.verbs.export import export
from ullage.verbs.measure import default_workers, measure

LEVELS = tuple(2**power for power in range(1, 9))
CANDIDATES = tuple(sorted({round(2 ** (1 + quarter / 4)) for quarter in range(29)}))
GROUND = ground_of(LEVELS, CANDIDATES)
GRID_TRIALS, FEWER_TRIALS = 50, 8
ADAPTIVE = dataclasses.replace(EFFORTS["standard"], trials=FEWER_TRIALS)
GRID = dataclasses.replace(ADAPTIVE, trials=GRID_TRIALS)

# slope, lapse, concentration of the runs; the boundary lies anywhere between the first and the last level
SHAPES: dict[str, Callable[[np.random.Generator], tuple[float, float, float]]] = {
    "shallow": lambda random: (random.uniform(1.5, 3.0), 0.0, 10 ** random.uniform(0.3, 1.3)),
    "steep": lambda random: (random.uniform(8.0, 32.0), 0.0, 10 ** random.uniform(0.3, 1.3)),
    "lapses": lambda random: (
        random.uniform(4.0, 16.0),
        random.uniform(0.05, 0.2),
        10 ** random.uniform(0.0, 1.0),
    ),
    "all or nothing": lambda random: (random.uniform(3.0, 12.0), 0.0, 0.3),
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of one rehearsed campaign."""

    shape: str
    covers: bool  # the boundary of the recipes that were judged: capacity at this effort
    covers_best: bool  # that of the best recipe there is
    shortfall: float  # log2 bits between the two: what the search left on the table
    width: float | None  # log2 bits; None for a one-sided statement
    told_monotone: bool
    search_runs: int
    final_runs: int
    steps: int


def worlds(count: int, seed: int) -> list[tuple[str, World]]:
    """Monotone worlds, each shape as often as any other."""
    random = np.random.default_rng(seed)
    drawn = []
    for index in range(count):
        shape = list(SHAPES)[index % len(SHAPES)]
        slope, lapse, concentration = SHAPES[shape](random)
        capacity = random.uniform(math.log2(LEVELS[0]), math.log2(LEVELS[-1]))
        drawn.append((shape, World(capacity, slope, lapse, concentration)))
    return drawn


def worlds_with_holes(count: int, seed: int) -> list[tuple[str, World]]:
    """Worlds that fail on a stretch of one to two bits below the boundary, and learn again below or not."""
    random = np.random.default_rng(seed)
    drawn = []
    for _ in range(count):
        capacity = random.uniform(4.5, 7.5)
        top = capacity - random.uniform(0.75, 1.5)
        hole = (top - random.uniform(1.0, 2.0), top)
        drawn.append(("hole", World(capacity, random.uniform(8.0, 32.0), 0.0, 3.0, hole=hole)))
    return drawn


def outcome(shape: str, world: World, found: tuple[Protocol, dict[str, Cost]]) -> Outcome:
    """What a campaign says, held against the truth."""
    protocol, spent = found
    boundary = protocol.boundary()
    assert boundary is not None
    interval = boundary.interval()
    runs = [
        (GROUND.demand_bits[level], skill) for level, skills in protocol.skills.items() for skill in skills
    ]
    shortfall = left_on_the_table(protocol, world)
    return Outcome(
        shape,
        holds(interval, world.log2_capacity - shortfall),
        holds(interval, world.log2_capacity),
        shortfall,
        width(interval),
        is_monotone(runs),
        spent["search"].runs,
        spent["final"].runs,
        sum(cost.steps for cost in spent.values()),
    )


def left_on_the_table(protocol: Protocol, world: World) -> float:
    """The mean loss of the judged recipes at the levels nearest to the boundary, two of them."""
    near = sorted(protocol.skills, key=lambda level: abs(GROUND.log2_demand(level) - world.log2_capacity))
    return float(np.mean([dict(protocol.winner(level) or ())["loss"] for level in near[:2]]))


def holds(interval: Interval, truth: float) -> bool:
    """Whether an interval holds the true log2 C."""
    low = -math.inf if interval.low is None else math.log2(interval.low)
    high = math.inf if interval.high is None else math.log2(interval.high)
    return low <= truth <= high


def width(interval: Interval) -> float | None:
    """The width of an interval in log2 bits."""
    if interval.low is None or interval.high is None:
        return None
    return math.log2(interval.high / interval.low)


# ── simulated ─────────────────────────────────────────────────────────────────────────────────────

Rehearsal = Callable[[World, int], tuple[Protocol, dict[str, Cost]]]


def rehearsals() -> dict[str, Rehearsal]:
    """The grid, and from lever to lever the adaptive protocol."""
    plain = SearchPlan(FEWER_TRIALS, ends_early=False, uses_rungs=False)
    fewer = dataclasses.replace(GRID, trials=FEWER_TRIALS)

    def run(name: str, effort: Effort, plan: SearchPlan | None = None) -> Rehearsal:
        return lambda world, seed: rehearse(name, effort, GROUND, world, seed, plan)

    return {
        "grid": run("grid", GRID),
        "fewer trials": run("grid", fewer),
        "placement": run("adaptive", ADAPTIVE, plain),
        "adaptive": run("adaptive", ADAPTIVE),
    }


def broken(how: str) -> Rehearsal:
    """The adaptive protocol, spoiled."""
    seeds = {"reuse": OF_THE_SEARCH, "one-seed": ONE}[how]
    return lambda world, seed: rehearse("adaptive", ADAPTIVE, GROUND, world, seed, seeds=seeds)


def table(name: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The figures of one protocol over all worlds."""
    widths = [one.width for one in outcomes if one.width is not None]
    shapes = sorted({one.shape for one in outcomes})
    return {
        "protocol": name,
        "worlds": len(outcomes),
        "coverage": float(np.mean([one.covers for one in outcomes])),
        "coverage_by_shape": {
            shape: float(np.mean([one.covers for one in outcomes if one.shape == shape])) for shape in shapes
        },
        "coverage_of_best": float(np.mean([one.covers_best for one in outcomes])),
        "shortfall": float(np.mean([one.shortfall for one in outcomes])),
        "two_sided": len(widths),
        "median_width": float(np.median(widths)) if widths else None,
        "search_runs": float(np.mean([one.search_runs for one in outcomes])),
        "final_runs": float(np.mean([one.final_runs for one in outcomes])),
        "steps": float(np.mean([one.steps for one in outcomes])),
        "told_not_monotone": float(np.mean([not one.told_monotone for one in outcomes])),
    }


def simulated(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """All protocols in the same worlds."""
    tried = {f"broken: {chosen.broken}": broken(chosen.broken)} if chosen.broken else rehearsals()
    tried = {name: run for name, run in tried.items() if not chosen.only or name == chosen.only}
    drawn = worlds(chosen.worlds, chosen.seed)
    rows = []
    for name, run in tried.items():
        outcomes = [outcome(shape, world, run(world, seed)) for seed, (shape, world) in enumerate(drawn)]
        rows.append(table(name, outcomes))
        show(rows[-1], rows[0], chosen.json)
    if "adaptive" in tried:
        holes = worlds_with_holes(chosen.worlds // 4, chosen.seed)
        found = [
            outcome(shape, world, tried["adaptive"](world, seed)) for seed, (shape, world) in enumerate(holes)
        ]
        rows.append(table("adaptive, worlds with holes", found))
        show(rows[-1], rows[0], chosen.json)
    return rows


def show(row: dict[str, Any], grid: dict[str, Any], quiet: bool) -> None:
    """One row as text, its cost as a share of the grid's."""
    shapes = ", ".join(f"{shape} {value:.2f}" for shape, value in row["coverage_by_shape"].items())
    spread = "none" if row["median_width"] is None else f"{row['median_width']:.2f}"
    print(
        f"{row['protocol']:<28} coverage {row['coverage']:.3f} ({shapes}); of the best recipe's C "
        f"{row['coverage_of_best']:.3f}, shortfall {row['shortfall']:.2f} bits; width {spread} "
        f"({row['two_sided']} of {row['worlds']} two-sided); runs {row['search_runs']:.0f} + "
        f"{row['final_runs']:.0f}; steps 1/{grid['steps'] / row['steps']:.1f} of the first row's; "
        f"told not monotone {row['told_not_monotone']:.3f}",
        file=sys.stderr if quiet else sys.stdout,
        flush=True,
    )


# ── real ──────────────────────────────────────────────────────────────────────────────────────────


def real(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Both protocols on real families, with the same number of trials and steps."""
    folder = chosen.store or Path(tempfile.mkdtemp())
    rows = []
    for name in ("adaptive", "grid"):
        seeds = chosen.seeds if name == "grid" else None
        store = folder / name
        found = measure(
            chosen.tasks,
            effort="quick",
            protocol=name,
            trials=chosen.trials,
            seeds=seeds,
            steps=chosen.steps,
            store=store,
            workers=chosen.workers,
        )
        export(folder / f"{name}.csv", store=store)
        for family, told in found["tasks"].items():
            interval = told["capacity_bits"].get(told["nominal"])
            finals = sum(level["runs"] for level in told["levels"])
            rows.append({"protocol": name, "family": family, "capacity_bits": interval, "finals": finals})
            print(json.dumps(rows[-1]), file=sys.stderr if chosen.json else sys.stdout, flush=True)
        rows.append({"protocol": name, "runs": found["runs"], "train_steps": found["train_steps"]})
        print(json.dumps(rows[-1]), file=sys.stderr if chosen.json else sys.stdout, flush=True)
    return rows


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("simulated")
    one.add_argument("--worlds", type=int, default=400)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--broken", choices=["reuse", "one-seed"], default=None)
    one.add_argument("--only", choices=list(rehearsals()), default=None, help="one row of the table")
    other = kinds.add_parser("real")
    other.add_argument("tasks", nargs="*", default=["modulo", "memorise", "parity"])
    other.add_argument("--trials", type=int, default=FEWER_TRIALS)
    other.add_argument("--seeds", type=int, default=3)
    other.add_argument("--steps", type=int, default=None)
    other.add_argument("--store", type=Path, default=None)
    other.add_argument("--workers", type=int, default=default_workers())
    return parser.parse_args()


def main() -> None:
    """Do what was asked and print it."""
    chosen = arguments()
    rows = simulated(chosen) if chosen.kind == "simulated" else real(chosen)
    if chosen.json:
        json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
