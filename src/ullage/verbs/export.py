"""Write what a store holds as one table for other tools."""

from pathlib import Path
from typing import Any

from ullage.store import open_store
from ullage.table import export_curves, export_runs


def export(file: str | Path, *, curves: bool = False, store: str | Path = "ullage-store") -> dict[str, Any]:
    """Write the runs (or, with `curves`, all checkpoints) to a `.csv` or `.parquet` file."""
    opened = open_store(Path(store))
    rows = (export_curves if curves else export_runs)(opened, Path(file))
    return {"file": str(file), "rows": rows, "table": "curves" if curves else "runs", "store": str(store)}
