"""Fit all models and families of a store, or of a table made elsewhere, together.

>>> import tempfile
>>> fit(store=tempfile.mkdtemp())
Traceback (most recent call last):
    ...
ullage.errors.BadInput: no run is left to fit (there are none); `ullage measure` makes runs
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from ullage.capacity import Settings, prepared
from ullage.heldout import held_out_score
from ullage.imported import read_table
from ullage.kept import identity, posterior_of
from ullage.observations import NOMINAL, NOTIONS, Effort, Observations, observe
from ullage.readoff import summary
from ullage.store import KEPT, open_store


def fit(
    *,
    store: str | Path = "ullage-store",
    runs: str | Path | None = None,
    demand: str = NOMINAL,
    steps: int | None = None,
    trials: int | None = None,
    train_examples: int | None = None,
    scatter: str = "own_floor",
    notions: bool = True,
    keep: str | Path | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Fit the runs of a store, or of a table `runs`, and return the document of `fit --json`.

    The posterior is kept in the folder `keep` (beside the store's runs unless told) and read from there
    the next time, unless `force` asks for a new one. `notions` scores every notion of demand by how well it
    predicts held-out levels, which takes as long as a dozen fits.
    """
    settings = Settings(scatter=scatter)
    observations = observations_of(store, runs)
    wanted = Effort(steps, trials, train_examples)
    conditions, effort, excluded = prepared(observations, demand, wanted)
    folder = Path(keep) if keep is not None else Path(store) / KEPT
    posterior = posterior_of(conditions, effort, settings, excluded, folder, force=force)
    scores = {}
    if notions:
        name = f"{identity(conditions, effort, settings)}-notions"
        scores = kept_scores(folder / f"{name}.json", observations, effort, settings, force=force)
    source = "store" if runs is None else "file"
    return summary(posterior) | {"notions": scores, "source": source, "kept": str(folder)}


def observations_of(store: str | Path, runs: str | Path | None) -> Observations:
    """The evidence of a table, or else of a store."""
    if runs is not None:
        return read_table(Path(runs))
    return observe(open_store(Path(store)).read().records.values())


def kept_scores(
    file: Path, observations: Observations, effort: Effort, settings: Settings, *, force: bool
) -> dict[str, Any]:
    """The scores of all notions, from the file if they are there: they take as long as a dozen fits."""
    if file.exists() and not force:
        return json.loads(file.read_text(encoding="utf-8"))
    scores = notion_scores(observations, effort, settings)
    file.write_text(json.dumps(scores), encoding="utf-8")
    return scores


def notion_scores(observations: Observations, effort: Effort, settings: Settings) -> dict[str, Any]:
    """Which notion of demand predicts held-out levels best; each over the families that have it."""
    shorter = dataclasses.replace(settings, warmup=300, draws=300)
    scores = {}
    for notion in (NOMINAL, *NOTIONS):
        if not any(run.demand_bits(notion) for run in observations.runs):
            continue
        conditions, _, _ = prepared(observations, notion, effort)
        score = held_out_score(conditions, shorter)
        scores[notion] = dataclasses.asdict(score) | {"families": list(conditions.families)}
    return scores
