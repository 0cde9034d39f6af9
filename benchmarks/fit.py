"""How long a fit takes: against runs and conditions, compilation included, with effective draws a second.

    python benchmarks/fit.py [--sizes 50x3,200x3,200x50] [--json]

A size is conditions x runs of each; 200x50 is ten thousand runs. Each fit is made by a sampler of its own
(so it pays for starting and compiling) and then once more with other runs (so it does not). Runs are merged
by condition, so the time should depend on the conditions, and on the runs only by how narrow the
posterior is.
"""

import argparse
import json
import time
from typing import Any

import numpy as np

from ullage import sampler
from ullage.capacity import fit_conditions
from ullage.conditions import Conditions, conditions_of
from ullage.observations import Model, Observation

FAMILIES, LEVELS = 5, 8


def runs_of(conditions: int, seeds: int, seed: int) -> Conditions:
    """So many conditions, eight levels of five families a model, with so many runs each."""
    random = np.random.default_rng(seed)
    models = -(-conditions // (FAMILIES * LEVELS))
    middle = 7 + 0.5 * np.arange(models)[:, None] / 2 + random.normal(0, 0.3, (models, FAMILIES))
    slope, spread = np.exp(random.normal(1.6, 0.5, FAMILIES)), np.exp(random.normal(1.0, 0.7, FAMILIES))
    runs = []
    for place in range(conditions):
        model, family, level = np.unravel_index(place, (models, FAMILIES, LEVELS))
        demand = 7 + 0.8 * (level - (LEVELS - 1) / 2)
        mean = 0.01 + 0.98 / (1 + np.exp(-slope[family] * (middle[model, family] - demand)))
        skills = random.beta(mean * spread[family], (1 - mean) * spread[family], seeds)
        shape = Model(f"model {model}", "simulated", 2, 4, int(8 * 2**model), 64, 32)
        asked = {"context": float(2**demand)}
        runs += [
            Observation(f"family {family}", int(level), number, "context", asked, float(skill), shape)
            for number, skill in enumerate(skills)
        ]
    return conditions_of(runs, "context")


def timed(conditions: int, seeds: int) -> dict[str, Any]:
    """One size: the first fit with compilation, the second without."""
    sampler.restart()
    found: dict[str, Any] = {"conditions": conditions, "runs": conditions * seeds}
    for name, seed in (("first", 0), ("second", 1)):
        table = runs_of(conditions, seeds, seed)
        began = time.perf_counter()
        diagnostics = fit_conditions(table).diagnostics
        seconds = time.perf_counter() - began
        found[name] = {
            "seconds": seconds,
            "ess_min_a_second": diagnostics.ess_min / seconds,
            "rhat_max": diagnostics.rhat_max,
            "divergences": diagnostics.divergences,
            "trusted": diagnostics.trusted,
        }
    return found


def main() -> None:
    """Read the sizes, fit, tell."""
    parser = argparse.ArgumentParser(description="Times fits of several sizes.")
    parser.add_argument("--sizes", default="40x3,100x3,200x3,200x50", help="conditions x runs, with commas")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    for size in chosen.sizes.split(","):
        found = timed(*map(int, size.split("x")))
        if chosen.json:
            print(json.dumps(found), flush=True)
            continue
        told = [
            f"{name}: {one['seconds']:.1f} s, {one['ess_min_a_second']:.1f} effective draws a second, "
            f"R-hat {one['rhat_max']:.3f}, {one['divergences']} divergences, "
            f"{'trusted' if one['trusted'] else 'NOT trusted'}"
            for name, one in found.items()
            if isinstance(one, dict)
        ]
        print(f"{found['conditions']} conditions, {found['runs']} runs\n  " + "\n  ".join(told), flush=True)


if __name__ == "__main__":
    main()
