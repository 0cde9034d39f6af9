"""Hold out runs, predict them, and tell whether the predictions can be believed.

>>> import tempfile
>>> calibrate("seed", store=tempfile.mkdtemp())
Traceback (most recent call last):
    ...
ullage.errors.BadInput: there is no scheme 'seed'; choose one of family, level, model
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ullage.calibration import FOLD_SETTINGS, SCHEMES, Calibration, Told
from ullage.calibration import calibrate as calibrated
from ullage.capacity import Settings, prepared
from ullage.errors import BadInput, listed
from ullage.imported import read_table
from ullage.observations import NOMINAL, observe
from ullage.prediction import raised
from ullage.shipped import shipped_records
from ullage.store import open_store

RIVALS = ("pooled", "independent", "response")


def calibrate(
    scheme: str = "level",
    *,
    demand: str = NOMINAL,
    runs: str | Path | None = None,
    store: str | Path = "ullage-store",
    settings: Settings = FOLD_SETTINGS,
    rivals: Sequence[str] = RIVALS,
    told: Told = lambda done, count, what: None,
) -> dict[str, Any]:
    """The document of `calibrate --json`; the arguments are those of `calibration`."""
    return calibration(
        scheme, demand=demand, runs=runs, store=store, settings=settings, rivals=rivals, told=told
    ).to_json()


def calibration(
    scheme: str = "level",
    *,
    demand: str = NOMINAL,
    runs: str | Path | None = None,
    store: str | Path = "ullage-store",
    settings: Settings = FOLD_SETTINGS,
    rivals: Sequence[str] = RIVALS,
    told: Told = lambda done, count, what: None,
) -> Calibration:
    """Hold out levels, families or the largest model of a table `runs`, a store, or the shipped runs."""
    if scheme not in SCHEMES:
        raise BadInput(f"there is no scheme {scheme!r}; choose one of {listed(SCHEMES)}")
    if runs is not None:
        observations = read_table(Path(runs))
    else:
        observations = observe(open_store(Path(store)).read().records.values())
        observations = observations if observations.runs else observe(shipped_records())
    conditions, _, _ = prepared(raised(observations, demand), demand)
    return calibrated(conditions, scheme, settings, rivals, told=told)
