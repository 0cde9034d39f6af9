"""Write what a store holds for other tools: its runs as a table, or what a fit of them believes."""

from pathlib import Path
from typing import Any

from ullage.capacity import DEFAULT_SETTINGS, Settings, prepared
from ullage.kept import posterior_of
from ullage.netcdf import SUFFIX, write_posterior
from ullage.observations import NOMINAL, observe
from ullage.store import KEPT, open_store
from ullage.table import export_curves, export_runs


def export(file: str | Path, *, curves: bool = False, store: str | Path = "ullage-store") -> dict[str, Any]:
    """Write the runs (or, with `curves`, all checkpoints) to a `.csv` or `.parquet` file.

    A file that ends in `.nc` gets the posterior of the runs, fitted now unless it is kept, as netCDF.
    """
    if Path(file).suffix == SUFFIX:
        return export_posterior(Path(file), Path(store))
    opened = open_store(Path(store))
    rows = (export_curves if curves else export_runs)(opened, Path(file))
    return {"file": str(file), "rows": rows, "table": "curves" if curves else "runs", "store": str(store)}


def export_posterior(file: Path, store: Path, settings: Settings = DEFAULT_SETTINGS) -> dict[str, Any]:
    """Write the posterior of a store's runs, each family under its own notion, to a `.nc` file."""
    observations = observe(open_store(store).read().records.values())
    conditions, effort, excluded = prepared(observations, NOMINAL)
    posterior = posterior_of(conditions, effort, settings, excluded, store / KEPT)
    write_posterior(posterior, file)
    return {"file": str(file), "rows": posterior.count, "table": "the posterior", "store": str(store)}
