"""Whether a fit finds known capacities again, and how wide its intervals are.

    python benchmarks/recovery.py [--worlds 200] [--first 0] [--broken chance|lapse|slope]
                                  [--workers N | --together] [--json]
    python benchmarks/recovery.py --calibration 200 [--first 0] [--broken lapse|slope]
                                  [--workers N | --together] [--json]

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
import concurrent.futures
import dataclasses
import functools
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ullage.boundary import Interval
from ullage.capacity import Settings, fit, posterior_of, prepared
from ullage.observations import NOMINAL
from ullage.posterior import Posterior
from ullage.readoff import families_of, family_capacity, half_skill, learners, model_capacity
from ullage.sampler import CHAINS, one_chain
from ullage.tabled import Sizes, sizes_of, tabled
from ullage.worlds import KINDS, World, draw_prior_world, draw_world

# Half as long as a fit of the product: an end of an interval is then known to a tenth of its width.
SHORT = Settings(warmup=300, draws=500)
SETTINGS = {
    None: SHORT,
    "chance": SHORT,
    "lapse": dataclasses.replace(SHORT, scatter="no_lapse"),
    "slope": dataclasses.replace(SHORT, rival="one_slope"),
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


def recovery(worlds: Sequence[World], posteriors: Sequence[Posterior]) -> dict[str, Any]:
    """What the intervals hold, kind by kind and together."""
    found = [
        (world.kind, recovered(world, posterior)) for world, posterior in zip(worlds, posteriors, strict=True)
    ]
    kinds = {}
    for kind in (*KINDS, "all"):
        here = [row for of_kind, row in found if kind in (of_kind, "all")]
        if here:
            kinds[kind] = {
                name: _told([one for row in here for one in row[name]]) for name in ("C", "C_task")
            }
    return {"kinds": kinds}


def _told(found: list[Any]) -> dict[str, Any]:
    held, widths = (np.array(column, dtype=float) for column in zip(*found, strict=True))
    bounded = widths[~np.isnan(widths)]
    middle = float(np.median(bounded)) if bounded.size else None
    return {"coverage": float(held.mean()), "median_width": middle, "count": len(found)}


def calibration(worlds: Sequence[World], posteriors: Sequence[Posterior]) -> dict[str, Any]:
    """The ranks of the truth among thinned draws, for one C and one C_task of each world."""
    ranks: dict[str, list[int]] = {"C": [], "C_task": []}
    for world, posterior in zip(worlds, posteriors, strict=True):
        each = [half_skill(posterior, 0, 0, family) for family in range(len(world.families))]
        thinned = np.linspace(0, posterior.count - 1, RANKED).round().astype(int)
        ranks["C"].append(int((np.mean(each, axis=0)[thinned] < world.log2_capacity[0].mean()).sum()))
        ranks["C_task"].append(int((each[0][thinned] < world.log2_capacity[0, 0]).sum()))
    return {name: _uniform(found) for name, found in ranks.items()}


def _uniform(ranks: list[int]) -> dict[str, Any]:
    histogram = np.bincount(np.array(ranks) * BINS // (RANKED + 1), minlength=BINS)
    expected = len(ranks) / BINS
    statistic = float(((histogram - expected) ** 2 / expected).sum())
    return {
        "histogram": histogram.tolist(),
        "chi_squared": statistic,
        "passed": statistic < CHI_SQUARED_LIMIT,
    }


# ── how the worlds are fitted ─────────────────────────────────────────────────────────────────────


def fitted(worlds: Sequence[World], settings: Settings, workers: int) -> list[Posterior]:
    """One fit at a time in each worker, which has a sampler of its own with two chains side by side."""
    spawn = multiprocessing.get_context("spawn")
    found = []
    with concurrent.futures.ProcessPoolExecutor(workers, spawn) as pool:
        for posterior in pool.map(functools.partial(_fit, settings=settings), worlds):
            found.append(posterior)
            print(
                f"world {len(found)} of {len(worlds)}: {posterior.diagnostics}", file=sys.stderr, flush=True
            )
    return found


def _fit(world: World, settings: Settings) -> Posterior:
    return fit(world.observations, settings=settings)


def fitted_together(worlds: Sequence[World], settings: Settings) -> list[Posterior]:
    """All fits as one program: their chains take their steps side by side on whatever JAX finds."""
    import jax
    import numpyro

    numpyro.enable_x64()
    conditions = [prepared(world.observations, NOMINAL)[0] for world in worlds]
    sizes = Sizes(*map(max, zip(*map(sizes_of, conditions), strict=True)))
    tables = [tabled(one, sizes) for one in conditions]
    chain = one_chain(settings.rival, settings.scatter, settings.warmup, settings.draws)
    keys = jax.random.split(jax.random.key(settings.seed), (len(tables), CHAINS))
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *tables)
    sampled = jax.device_get(jax.jit(jax.vmap(jax.vmap(chain, (0, None))))(keys, stacked))
    return [
        posterior_of({name: values[place] for name, values in sampled.items()}, table, one, settings)
        for place, (table, one) in enumerate(zip(tables, conditions, strict=True))
    ]


def draw_worlds(seeds: Sequence[int], broken: str | None, of_prior: bool) -> list[World]:
    """Worlds of the prior, or of all kinds in turn."""
    if of_prior:
        return [draw_prior_world(seed) for seed in seeds]
    kinds = list(KINDS)
    return [draw_world(kinds[seed % len(kinds)], seed, told_chance=broken != "chance") for seed in seeds]


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
    print(f"trusted {found['trusted']:.3f}; {found['worlds']} fits in {found['seconds']:.0f} s")


def main() -> None:
    """Read the arguments, draw, fit, tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first world")
    parser.add_argument("--broken", choices=["chance", "lapse", "slope"])
    parser.add_argument("--calibration", type=int, default=0, help="so many worlds from the prior")
    parser.add_argument("--workers", type=int, default=max((os.cpu_count() or 2) // CHAINS, 1))
    parser.add_argument("--together", action="store_true", help="fit all at once, for a GPU")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    worlds = draw_worlds(
        range(chosen.first, chosen.first + (chosen.calibration or chosen.worlds)),
        chosen.broken,
        bool(chosen.calibration),
    )
    began = time.perf_counter()
    if chosen.together:
        posteriors = fitted_together(worlds, SETTINGS[chosen.broken])
    else:
        posteriors = fitted(worlds, SETTINGS[chosen.broken], chosen.workers)
    seconds = time.perf_counter() - began
    found = (calibration if chosen.calibration else recovery)(worlds, posteriors)
    found |= {
        "worlds": len(worlds),
        "first": chosen.first,
        "broken": chosen.broken,
        "trusted": float(np.mean([posterior.diagnostics.trusted for posterior in posteriors])),
        "seconds": seconds,
    }
    if chosen.json:
        print(json.dumps(found))
    else:
        show(found)


if __name__ == "__main__":
    main()
