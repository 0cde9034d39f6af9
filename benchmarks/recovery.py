"""Whether a fit finds known capacities again, and how wide its intervals are.

    python benchmarks/recovery.py [--worlds 200] [--first 0] [--broken chance|lapse|slope] [--json]
    python benchmarks/recovery.py --calibration 200 [--first 0] [--json]

The first draws worlds of six kinds in turn (`ullage.worlds`), fits each, and tells how often the 90 %
intervals of log2 C (each model, the typical family) and of log2 C_task (each model on each family) hold
the truth, and how wide they are in log2 bits. An end that the runs do not bound counts as holding.

    --broken chance   the runs are told as if guessing scored nothing
    --broken lapse    every lapse is forced to nought
    --broken slope    all families share one slope

are negative controls: the same table must then show coverage that has fallen.

The second is simulation-based calibration (Talts et al. 2018): worlds are drawn from the prior, and the rank
of the truth among thinned draws must be uniform. Its test is Pearson's chi-squared over ten bins; a right
program fails it (p < 0.001) once in a thousand.
"""

import argparse
import json
import math
import sys
import time
from typing import Any

import numpy as np

from ullage.boundary import Interval
from ullage.capacity import Settings, fit
from ullage.posterior import Posterior
from ullage.readoff import families_of, family_capacity, half_skill, learners, model_capacity
from ullage.worlds import KINDS, World, draw_prior_world, draw_world

SETTINGS = {
    None: Settings(),
    "chance": Settings(),
    "lapse": Settings(scatter="no_lapse"),
    "slope": Settings(rival="one_slope"),
}
BINS, RANKED = 10, 99  # ranks 0 to 99
# The 0.999 quantile of chi-squared with nine degrees of freedom.
CHI_SQUARED_LIMIT = 27.88


def holds(interval: Interval, truth: float) -> bool:
    """Whether an interval in bits holds a truth in log2 bits."""
    low = -math.inf if interval.low is None else math.log2(interval.low)
    high = math.inf if interval.high is None else math.log2(interval.high)
    return low <= truth <= high


def width(interval: Interval) -> float:
    """In log2 bits; nan where an end is not bounded."""
    if interval.low is None or interval.high is None:
        return math.nan
    return math.log2(interval.high / interval.low)


def recovered(world: World, posterior: Posterior) -> dict[str, list[Any]]:
    """For C and for C_task: whether each interval holds the truth, and its width."""
    found: dict[str, list[Any]] = {"C": [], "C_task": []}
    names = posterior.conditions.models
    families = [world.families.index(name) for name in posterior.conditions.families]
    for model, technique in learners(posterior.conditions):
        truth = world.log2_capacity[world.models.index(names[model])]
        whole = model_capacity(posterior, model, technique)
        found["C"].append((holds(whole, float(truth[families].mean())), width(whole)))
        for family in families_of(posterior.conditions, model, technique):
            part = family_capacity(posterior, model, technique, family)
            found["C_task"].append((holds(part, float(truth[families[family]])), width(part)))
    return found


def recovery(worlds: int, first: int, broken: str | None) -> dict[str, Any]:
    """All worlds, kind by kind and together."""
    kinds = list(KINDS)
    rows: dict[str, dict[str, list[Any]]] = {kind: {"C": [], "C_task": []} for kind in (*kinds, "all")}
    trusted, seconds = [], []
    for seed in range(first, first + worlds):
        kind = kinds[seed % len(kinds)]
        world = draw_world(kind, seed, told_chance=broken != "chance")
        began = time.perf_counter()
        posterior = fit(world.observations, settings=SETTINGS[broken])
        seconds.append(time.perf_counter() - began)
        trusted.append(posterior.diagnostics.trusted)
        told = recovered(world, posterior)
        held = " ".join(f"{name} {np.mean([held for held, _ in found]):.2f}" for name, found in told.items())
        print(f"world {seed}, {kind}: {held}, {posterior.diagnostics}", file=sys.stderr, flush=True)
        for name, found in told.items():
            rows[kind][name] += found
            rows["all"][name] += found
    table = {kind: {name: _told(found) for name, found in row.items() if found} for kind, row in rows.items()}
    return {
        "worlds": worlds,
        "first": first,
        "broken": broken,
        "trusted": float(np.mean(trusted)),
        "seconds_a_fit": float(np.median(seconds)),
        "kinds": {kind: row for kind, row in table.items() if row},
    }


def _told(found: list[Any]) -> dict[str, Any]:
    held, widths = (np.array(column, dtype=float) for column in zip(*found, strict=True))
    bounded = widths[~np.isnan(widths)]
    middle = float(np.median(bounded)) if bounded.size else None
    return {"coverage": float(held.mean()), "median_width": middle, "count": len(found)}


def calibration(worlds: int, first: int) -> dict[str, Any]:
    """The ranks of the truth among thinned draws, for one C and one C_task of each world."""
    ranks: dict[str, list[int]] = {"C": [], "C_task": []}
    for seed in range(first, first + worlds):
        world = draw_prior_world(seed)
        posterior = fit(world.observations)
        families = len(world.families)
        each = [half_skill(posterior, 0, 0, family) for family in range(families)]
        thinned = np.linspace(0, posterior.count - 1, RANKED).round().astype(int)
        ranks["C"].append(int((np.mean(each, axis=0)[thinned] < world.log2_capacity[0].mean()).sum()))
        ranks["C_task"].append(int((each[0][thinned] < world.log2_capacity[0, 0]).sum()))
    return {"worlds": worlds, "first": first} | {name: _uniform(found) for name, found in ranks.items()}


def _uniform(ranks: list[int]) -> dict[str, Any]:
    histogram = np.bincount(np.array(ranks) * BINS // (RANKED + 1), minlength=BINS)
    expected = len(ranks) / BINS
    statistic = float(((histogram - expected) ** 2 / expected).sum())
    return {
        "histogram": histogram.tolist(),
        "chi_squared": statistic,
        "passed": statistic < CHI_SQUARED_LIMIT,
    }


def show(found: dict[str, Any]) -> None:
    """The table."""
    if "kinds" not in found:
        for name in ("C", "C_task"):
            print(name, found[name])
        return
    print(f"{'kind':16s} {'C holds':>8s} {'width':>6s} {'C_task holds':>13s} {'width':>6s}")
    for kind, row in found["kinds"].items():
        cells = [
            f"{row[name]['coverage']:.3f} {row[name]['median_width'] or math.nan:6.2f}"
            for name in ("C", "C_task")
        ]
        print(f"{kind:16s} {cells[0]:>15s} {cells[1]:>20s}")
    print(f"trusted {found['trusted']:.3f}; {found['seconds_a_fit']:.1f} s a fit")


def main() -> None:
    """Read the arguments, draw, fit, tell."""
    parser = argparse.ArgumentParser(description="Fits worlds whose capacities are known.")
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first world")
    parser.add_argument("--broken", choices=["chance", "lapse", "slope"])
    parser.add_argument("--calibration", type=int, default=0, help="so many worlds from the prior")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.calibration:
        found = calibration(chosen.calibration, chosen.first)
    else:
        found = recovery(chosen.worlds, chosen.first, chosen.broken)
    if chosen.json:
        print(json.dumps(found))
    else:
        show(found)


if __name__ == "__main__":
    main()
