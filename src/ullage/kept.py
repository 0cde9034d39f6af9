"""Posteriors that are kept: two files beside the store, named by a hash of what was fitted and how.

A fit of the same runs with the same settings is read, not made again. The draws are an npz, the rest is
JSON, so that other tools can read both.
"""

import dataclasses
import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ullage.capacity import Settings, fit_conditions
from ullage.conditions import Conditions, conditions_from_json
from ullage.errors import BadInput
from ullage.observations import Effort
from ullage.posterior import Diagnostics, Posterior

FORMAT = 2  # raised when the meaning of what is kept, or the model itself, changes


def posterior_of(
    conditions: Conditions,
    effort: Effort,
    settings: Settings,
    excluded: Mapping[str, int],
    folder: Path,
    *,
    force: bool = False,
) -> Posterior:
    """The posterior of a table, from the folder if it is there and `force` does not ask for a new one."""
    name = identity(conditions, effort, settings)
    found = None if force else load(folder, name)
    if found is None:
        found = fit_conditions(conditions, effort, settings, excluded)
        save(found, folder, name)
    return dataclasses.replace(found, excluded=dict(excluded))


def identity(conditions: Conditions, effort: Effort, settings: Settings) -> str:
    """A hash of everything that decides a posterior."""
    fixed = [FORMAT, conditions.identity(), dataclasses.asdict(effort), settings.to_json()]
    return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()[:20]


def save(posterior: Posterior, folder: Path, name: str) -> None:
    """Write both files; the document last, so that half a posterior is none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        beside = folder / f".{os.getpid()}.npz"
        np.savez_compressed(beside, **posterior.draws)  # type: ignore[arg-type]
        beside.replace(folder / f"{name}.npz")
        beside = folder / f".{os.getpid()}.json"
        beside.write_text(json.dumps(posterior.to_json()), encoding="utf-8")
        beside.replace(folder / f"{name}.json")
    except OSError as error:
        why = error.strerror or error
        raise BadInput(f"{folder} cannot be written ({why}); choose another folder for the fit") from None


def load(folder: Path, name: str) -> Posterior | None:
    """What was kept under a name; None where there is nothing, or it is damaged."""
    try:
        document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        with np.load(folder / f"{name}.npz") as arrays:
            draws = dict(arrays)
        return Posterior(
            conditions_from_json(document["conditions"]),
            Effort(**document["effort"]),
            document["rival"],
            document["scatter"],
            draws,
            Diagnostics(**document["diagnostics"]),
            document["excluded"],
        )
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        return None
