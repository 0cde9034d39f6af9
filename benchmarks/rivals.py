"""Which model, and which way of scattering, predicts real runs best that the fit has not seen.

    python benchmarks/rivals.py [--schemes level,family,model] [--store DIR] [--shuffled] [--json]
                                [--models hierarchical/own_floor,hierarchical/beta_binomial,…]

For each scheme of holding out, every model (a rival of `ullage.metamodel` / a scatter of `ullage.scatter`) is
fitted to the runs of a store, or to those that come with the package, and scored on what was held out: nats
a run, Brier score of "it learned", share of skills that a 90 % interval holds, and nats a run of all runs of
a fold at once (see `ullage.calibration`). By how much the first model is ahead of each is told on the same
runs. Standard errors count conditions, and folds where runs are scored together.

    --shuffled    the demands of each family's levels are dealt out anew: a control. What is left to predict
                  from is how often a family is learned, and the hierarchical model must lose its lead.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ullage.calibration import (
    FOLD_SETTINGS,
    SCHEMES,
    Scores,
    estimate,
    folds_of,
    held_out,
    parts_of,
    scores_of,
)
from ullage.capacity import prepared
from ullage.conditions import Conditions
from ullage.observations import NOMINAL, observe
from ullage.prediction import raised
from ullage.shipped import shipped_records
from ullage.store import open_store

MODELS = (
    "hierarchical/own_floor",
    "hierarchical/beta_binomial",
    "hierarchical/mixture",
    "pooled/own_floor",
    "independent/own_floor",
    "response/own_floor",
)


def shuffled(conditions: Conditions, seed: int = 0) -> Conditions:
    """The same runs, their demands exchanged between the levels of each family."""
    random, demands = np.random.default_rng(seed), conditions.demand_bits.copy()
    for family in range(len(conditions.families)):
        here = conditions.family == family
        levels = np.unique(conditions.level[here])
        other = dict(zip(levels.tolist(), random.permutation(levels).tolist(), strict=True))
        demand = {level: demands[here & (conditions.level == level)][0] for level in levels.tolist()}
        demands[here] = [demand[other[level]] for level in conditions.level[here].tolist()]
    return dataclasses.replace(conditions, demand_bits=demands)


def compared(conditions: Conditions, scheme: str, models: Sequence[str]) -> list[dict[str, Any]]:
    """The scores of every model on what the scheme holds out, and by how much the first is ahead."""
    folds = folds_of(conditions, scheme)
    held = np.any(folds, axis=0)
    counts, runs = conditions.counts[held], np.array([conditions.runs[fold].sum() for fold in folds])
    rows: list[dict[str, Any]] = []
    first: Mapping[str, np.ndarray] = {}
    for model in models:
        rival, scatter = model.split("/")
        settings = dataclasses.replace(FOLD_SETTINGS, rival=rival, scatter=scatter)
        told = held_out(conditions, folds, settings)
        found = parts_of(counts, told.chances[held]) | {"together": told.together}
        first = first or found
        together = estimate(first["together"] - found["together"], runs)
        ahead = estimate(first["log_score"] - found["log_score"], counts.sum(axis=1))
        scores = dataclasses.asdict(scores_of(counts, {name: found[name] for name in SCORES}))
        rows.append(
            {"scheme": scheme, "model": model, **scores, "ahead": dataclasses.asdict(ahead)}
            | {"together": dataclasses.asdict(estimate(told.together, runs))}
            | {"together_ahead": dataclasses.asdict(together)}
            | {"runs": int(counts.sum()), "folds": len(folds), "untrusted": told.untrusted}
        )
        print(line(rows[-1]), file=sys.stderr, flush=True)
    return rows


SCORES = tuple(field.name for field in dataclasses.fields(Scores))
HEAD = (
    f"{'':35s} {'log score':>16s} {'Brier':>6s} {'covers':>8s} {'first is ahead by':>17s} {'together':>8s} "
    f"{'first is ahead by':>17s}  not trusted"
)


def line(row: Mapping[str, Any]) -> str:
    """One line of the table."""
    score, ahead, together = row["log_score"], row["ahead"], row["together_ahead"]
    return (
        f"{row['scheme']:7s} {row['model']:27s} {score['value']:8.3f} ± {score['standard_error']:.3f} "
        f"{row['brier']['value']:6.3f} {100 * row['coverage_90']['value']:6.1f} % "
        f"{ahead['value']:+9.3f} ± {ahead['standard_error']:.3f} {row['together']['value']:8.3f} "
        f"{together['value']:+9.3f} ± {together['standard_error']:.3f}  {row['untrusted']} of {row['folds']}"
    )


def parts(text: str) -> list[str]:
    """Names that are separated by commas."""
    return [part for part in text.split(",") if part]


def main() -> None:
    """Read the arguments, hold out, tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--schemes", type=parts, default=list(SCHEMES))
    parser.add_argument("--models", type=parts, default=list(MODELS), help="the first is compared with all")
    parser.add_argument("--store", type=Path, default=None)
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    records = shipped_records() if chosen.store is None else open_store(chosen.store).read().records.values()
    conditions, _, _ = prepared(raised(observe(records), NOMINAL), NOMINAL)
    conditions = shuffled(conditions) if chosen.shuffled else conditions
    rows = [row for scheme in chosen.schemes for row in compared(conditions, scheme, chosen.models)]
    if chosen.json:
        json.dump(rows, sys.stdout, indent=1)
        return
    print(
        f"{int(conditions.runs.sum())} runs in {len(conditions)} conditions, {len(conditions.models)} models"
    )
    print(HEAD, *map(line, rows), sep="\n")


if __name__ == "__main__":
    main()
