"""What calibrating families are worth: the error on a family nobody trained, by how many others were seen.

    python benchmarks/families.py [--runs FILE] [--worlds 2] [--families 6] [--demand nominal] [--json]

Without a table, worlds are drawn whose families differ by 1.5 log2 bits (one standard deviation), on two
models, and the scores are the mean over them. Each family is held out in turn; a fit sees the next one,
two, … in an order that is drawn.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ullage.boundary import STEPS
from ullage.calibration import Scores, by_families
from ullage.capacity import Settings, prepared
from ullage.conditions import Conditions, conditions_of
from ullage.imported import read_table
from ullage.observations import Model, Observation
from ullage.posterior import Curve

DIFFICULTY, SLOPE, CONCENTRATION, LEVELS, SEEDS = 1.5, 5.0, 3.0, 7, 2


def world(families: int, seed: int) -> Conditions:
    """A table of runs of so many families on two models."""
    random = np.random.default_rng(seed)
    models = [Model(f"model {place}", "simulated", 2, 4, 8 * 2**place, 64, 32) for place in range(2)]
    runs = []
    for place in range(families):
        middle = 6 + random.normal(0, DIFFICULTY)
        for larger, model in enumerate(models):
            for level in range(LEVELS):
                # One grid of demands for all: levels do not give away whether a family is hard.
                demand = 6 + 1.5 * (level - (LEVELS - 1) / 2)
                skills = drawn_skills(random, middle + 0.5 * larger, demand)
                asked = {"input": float(2**demand)}
                runs += [
                    Observation(f"family {place}", level, seed, "input", asked, float(skill), model)
                    for seed, skill in enumerate(skills)
                ]
    return conditions_of(runs, "nominal")


def drawn_skills(random: np.random.Generator, log2_capacity: float, log2_demand: float) -> np.ndarray:
    """The skills of some runs of a known learner."""
    one = np.ones(1)
    spread = {"concentration": CONCENTRATION * one}
    curve = Curve(log2_capacity * one, SLOPE * one, 0 * one, one, spread, "beta_binomial")
    chances = curve.chances(log2_demand)[0]
    return random.choice(STEPS + 1, SEEDS, p=chances / chances.sum()) / STEPS


def measured(tables: list[Conditions], settings: Settings) -> list[dict[str, Any]]:
    """One row a number of families: the mean score over the tables and its standard error."""
    found: dict[int, list[Scores]] = {}
    for number, table in enumerate(tables, start=1):
        for size, scores in by_families(table, settings, told=_teller(number, len(tables))).items():
            found.setdefault(size, []).append(scores)
    return [{"families": size} | _mean(scores) for size, scores in sorted(found.items())]


def _teller(number: int, count: int) -> Any:
    return lambda done, fits, what: print(
        f"table {number} of {count}: fit {done} of {fits} ({what})", file=sys.stderr
    )


def _mean(scores: list[Scores]) -> dict[str, float]:
    row = {}
    for name in ("log_score", "learned_log_score", "brier", "coverage_90"):
        parts = [getattr(one, name) for one in scores]
        row[name] = float(np.mean([part.value for part in parts]))
        row[f"{name}_error"] = float(np.sqrt(sum(part.standard_error**2 for part in parts)) / len(parts))
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--worlds", type=int, default=2)
    parser.add_argument("--families", type=int, default=6)
    parser.add_argument("--demand", default="nominal")
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.runs is not None:
        tables = [prepared(read_table(given.runs), given.demand)[0]]
    else:
        tables = [world(given.families, seed) for seed in range(given.worlds)]
    rows = measured(tables, Settings(warmup=given.draws, draws=given.draws))
    if given.json:
        print(json.dumps(rows))
        return
    print("families seen  log score, nats a run  of learning        Brier  coverage")
    for row in rows:
        log, learned = (
            f"{row[name]:.3f} ± {row[f'{name}_error']:.3f}" for name in ("log_score", "learned_log_score")
        )
        print(
            f"{row['families']:>13}  {log:>21}  {learned:>17}  {row['brier']:.3f}  {row['coverage_90']:.0%}"
        )


if __name__ == "__main__":
    main()
