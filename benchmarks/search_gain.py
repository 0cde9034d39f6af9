"""What a search raises: the capacity of one model with recipes that were looked for, against the default.

    python benchmarks/search_gain.py [TASK…] [--trials 8] [--effort quick] [--store DIR] [--workers N]
                                     [--broken same] [--json]

Every family is measured twice by the adaptive protocol with the same model, step limit and width: with so
many trials of a search at each opened level, and with the default recipe alone. Verdicts of both have the
same fresh seeds, none of which any trial had. The multiplier is C_task with the search over C_task
without, from the draws of both posteriors taken independently; a posterior that one side of the tried levels
does not bound is cut there, so that a multiplier beyond it is not claimed.

    --broken same   both sides are the default recipe, on other seeds: the interval must hold 1
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ullage.boundary import CREDIBLE, Boundary
from ullage.campaign import Campaign
from ullage.observations import observe
from ullage.request import default_workers, find_campaigns, find_effort, find_families, find_settings
from ullage.store import open_store
from ullage.study import Study
from ullage.summary import boundary_of
from ullage.verbs.measure import measure

DRAWS = 20_000


def boundary(
    family: str, chosen: argparse.Namespace, trials: int, seed: int
) -> tuple[Boundary, dict[int, float]]:
    """The boundary of one family at an effort, after making what the store does not hold."""
    measure(
        [family],
        model=chosen.model,
        effort=chosen.effort,
        trials=trials,
        store=chosen.store,
        workers=chosen.workers,
        seed=seed,
    )
    effort = find_effort(chosen.effort, "adaptive", None, trials)
    settings = find_settings(effort, "adaptive", chosen.model, {}, (), seed, search_embedding=False)
    opened = open_store(chosen.store)
    campaigns: list[Campaign] = find_campaigns(find_families([family]), settings, opened)
    runs = observe(Study(campaigns, opened).evidence).runs
    found = boundary_of(runs, "nominal")
    assert found is not None
    return found, {level: _mean(runs, level) for level in sorted({run.level for run in runs})}


def _mean(runs: Any, level: int) -> float:
    return float(np.mean([run.skill for run in runs if run.level == level]))


def multiplier(found: Boundary, without: Boundary) -> dict[str, float]:
    """C with over C without, with its interval."""
    random = np.random.default_rng(0)
    with_search, default = (random.choice(np.clip(one.draws, *one.tried), DRAWS) for one in (found, without))
    low, median, high = 2 ** np.quantile(with_search - default, [CREDIBLE[0], 0.5, CREDIBLE[1]])
    return {"median": float(median), "low": float(low), "high": float(high)}


def main() -> None:
    """Measure both sides of every family and print their ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", default=["parity", "modulo", "memorise"])
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--effort", default="quick")
    parser.add_argument("--model", default="nano")
    parser.add_argument("--store", type=Path, default=None)
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("--broken", choices=["same"], default=None)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    chosen.store = chosen.store or Path(tempfile.mkdtemp())
    rows = []
    for family in chosen.tasks:
        trials, seed = (0, 1) if chosen.broken else (chosen.trials, 0)
        (found, skills), (without, default_skills) = (
            boundary(family, chosen, trials, seed),
            boundary(family, chosen, 0, 0),
        )
        row = {
            "family": family,
            "multiplier": multiplier(found, without),
            "with": found.interval().to_json() | {"skills": skills},
            "without": without.interval().to_json() | {"skills": default_skills},
        }
        rows.append(row)
        print(json.dumps(row), flush=True, file=sys.stderr if chosen.json else sys.stdout)
    if chosen.json:
        json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
